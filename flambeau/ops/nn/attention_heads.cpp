// Multi-head attention over given projection weights: what nn.MultiheadAttention computes.
#include <cmath>
#include <limits>

#include "flambeau/base/assertion.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

Tensor unsqueezed(const Tensor& x, int64_t dim) { return x.defined() ? unsqueeze(x, dim) : x; }

// A mask of bools that forbid as one of numbers to add; any other as it is.
Tensor canonical_mask(const Tensor& mask, std::string_view mask_name,
                      std::optional<DType> other_type, std::string_view other_name,
                      DType target_type, bool check_other) {
  CHECK(mask.dtype() == DType::bool_ || mask.is_floating(), AssertionError,
        "only bool and floating types of {} are supported", mask_name);
  if (check_other && other_type && mask.dtype() != *other_type) {
    warn(format("Support for mismatched {} and {} is deprecated. Use same type for both instead.",
                mask_name, other_name));
  }
  if (mask.is_floating()) return mask;
  const Tensor blank = zeros_like(mask, target_type);
  return masked_fill_(blank, mask, -std::numeric_limits<double>::infinity());
}
OP_FUNCTION(canonical_mask,
            "_canonical_mask(mask, mask_name, other_type, other_name, target_type, "
            "check_other=True)",
            "A mask of bools that forbid as one of numbers to add.", composed | no_out)

std::vector<Tensor> parts_of(const Tensor& x, int64_t count, int64_t dim) {
  std::vector<Tensor> parts = chunk(x, count, dim);
  CHECK(static_cast<int64_t>(parts.size()) == count, RuntimeError,
        "multi_head_attention_forward: size {} cannot be split into {} parts", x.sizes(), count);
  return parts;
}

// By a weight for each; the bias has three parts.
std::vector<Tensor> projections(const Tensor& q, const Tensor& k, const Tensor& v,
                                const std::vector<Tensor>& weights, const Tensor& bias) {
  const std::vector<Tensor> biases = bias.defined() ? parts_of(bias, 3, 0) : std::vector<Tensor>(3);
  const Tensor query = linear(q, weights[0], biases[0]);
  const Tensor key = linear(k, weights[1], biases[1]);
  return {query, key, linear(v, weights[2], biases[2])};
}

// By the three parts of one weight, in as few products as can be.
std::vector<Tensor> in_projection_packed(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Tensor& w, const Tensor& b) {
  if (k.is_same(v) && q.is_same(k)) return parts_of(linear(q, w, b), 3, -1);
  if (!k.is_same(v)) return projections(q, k, v, parts_of(w, 3, 0), b);
  const Dims widths{q.size(-1), q.size(-1) * 2};
  const std::vector<Tensor> weights = split(w, widths, 0);
  const std::vector<Tensor> biases = b.defined() ? split(b, widths, 0) : std::vector<Tensor>(2);
  const Tensor query = linear(q, weights[0], biases[0]);
  const std::vector<Tensor> rest = parts_of(linear(k, weights[1], biases[1]), 2, -1);
  return {query, rest[0], rest[1]};
}
OP_FUNCTION(in_projection_packed, "_in_projection_packed(q, k, v, w, b=None)",
            "Queries, keys and values by the three parts of one weight.", composed | no_out)

// Of (steps, batch, width), or (steps, width) without a batch.
struct Attention {
  Tensor query, key, value, padding_mask, mask;
  int64_t heads;
  bool is_batched = false, is_causal = false;
  int64_t batch = 0;

  void check_shapes() {
    is_batched = query.dim() == 3;
    CHECK(query.dim() == 2 || query.dim() == 3, AssertionError,
          "query should be unbatched 2D or batched 3D tensor but received {}-D query tensor",
          query.dim());
    const char* kind = is_batched ? "batched (3-D)" : "unbatched (2-D)";
    CHECK(key.dim() == query.dim() && value.dim() == query.dim(), AssertionError,
          "For {} `query`, expected `key` and `value` to be {}-D but found {}-D and {}-D tensors "
          "respectively",
          kind, query.dim(), key.dim(), value.dim());
    CHECK(!padding_mask.defined() || padding_mask.dim() == query.dim() - 1, AssertionError,
          "For {} `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor "
          "instead",
          kind, query.dim() - 1, padding_mask.dim());
    if (!mask.defined()) return;
    CHECK(mask.dim() == 2 || mask.dim() == 3, AssertionError,
          "For {} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {}-D tensor "
          "instead",
          kind, mask.dim());
    const Dims expected{heads, query.size(0), key.size(0)};
    CHECK(is_batched || mask.dim() == 2 || mask.sizes() == expected, AssertionError,
          "Expected `attn_mask` shape to be ({}, {}, {}) but got torch.Size({})", expected[0],
          expected[1], expected[2], mask.sizes());
  }

  // What was one tensor stays one.
  void add_batch() {
    const bool same_kv = value.is_same(key), same_qk = key.is_same(query);
    query = unsqueeze(query, 1);
    key = same_qk ? query : unsqueeze(key, 1);
    value = same_kv ? key : unsqueeze(value, 1);
    padding_mask = unsqueezed(padding_mask, 0);
  }

  // Both as numbers to add, and whether attention is to make the causal one itself.
  void prepare_masks(bool need_weights) {
    const DType dtype = query.dtype();
    if (padding_mask.defined()) {
      const std::optional<DType> other =
          mask.defined() ? std::optional<DType>(mask.dtype()) : std::nullopt;
      padding_mask =
          canonical_mask(padding_mask, "key_padding_mask", other, "attn_mask", dtype, true);
    }
    CHECK(!is_causal || mask.defined(), RuntimeError,
          "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
          "method `generate_square_subsequent_mask` to create this mask.");
    if (is_causal && !padding_mask.defined() && !need_weights) {
      mask = Tensor();
      return;
    }
    if (mask.defined()) mask = canonical_mask(mask, "attn_mask", {}, "", dtype, false);
    is_causal = is_causal && !padding_mask.defined();
  }

  void project_by(const std::vector<Tensor>& weights, const Tensor& bias) {
    const std::vector<Tensor> parts = projections(query, key, value, weights, bias);
    query = parts[0], key = parts[1], value = parts[2];
  }
  void project_packed(const Tensor& weight, const Tensor& bias) {
    CHECK(key.sizes() == value.sizes(), AssertionError,
          "key shape torch.Size({}) does not match value shape torch.Size({})", key.sizes(),
          value.sizes());
    CHECK(weight.defined(), AssertionError,
          "use_separate_proj_weight is False but in_proj_weight is None");
    const std::vector<Tensor> parts = in_projection_packed(query, key, value, weight, bias);
    query = parts[0], key = parts[1], value = parts[2];
  }

  // The mask with a dimension of heads.
  void check_mask() {
    const int64_t queries = query.size(0), keys = key.size(0), all = batch * heads;
    if (mask.dim() == 2) {
      CHECK(mask.size(0) == queries && mask.size(1) == keys, RuntimeError,
            "The shape of the 2D attn_mask is torch.Size({}), but should be ({}, {}).",
            mask.sizes(), queries, keys);
      mask = unsqueeze(mask, 0);
      return;
    }
    CHECK(mask.dim() == 3, RuntimeError, "attn_mask's dimension {} is not supported", mask.dim());
    CHECK(mask.size(0) == all && mask.size(1) == queries && mask.size(2) == keys, RuntimeError,
          "The shape of the 3D attn_mask is torch.Size({}), but should be ({}, {}, {}).",
          mask.sizes(), all, queries, keys);
  }

  // Masks that also let one key more be seen, put behind the others.
  void mask_one_more_key() {
    if (mask.defined()) mask = constant_pad_nd(mask, {0, 1}, 0);
    if (padding_mask.defined()) padding_mask = constant_pad_nd(padding_mask, {0, 1}, 0);
  }

  void add_biases(const Tensor& of_key, const Tensor& of_value) {
    const Tensor more_keys = repeat(of_key, {1, batch, 1});
    key = cat({key, more_keys}, 0);
    const Tensor more_values = repeat(of_value, {1, batch, 1});
    value = cat({value, more_values}, 0);
    mask_one_more_key();
  }

  // (steps, batch, width) as (batch * heads, steps, width of a head).
  void split_heads(const Tensor& static_k, const Tensor& static_v) {
    const int64_t width = query.size(2), all = batch * heads, own = width / heads;
    CHECK(own * heads == width, AssertionError, "embed_dim {} not divisible by num_heads {}", width,
          heads);
    for (Tensor* x : {&query, &key, &value})
      *x = transpose(reshape(*x, {x->size(0), all, own}), 0, 1);
    const auto fixed = [&](const Tensor& given, const char* name) {
      CHECK(given.size(0) == all, AssertionError, "expecting {}.size(0) of {}, but got {}", name,
            all, given.size(0));
      CHECK(given.size(2) == own, AssertionError, "expecting {}.size(2) of {}, but got {}", name,
            own, given.size(2));
      return given;
    };
    if (static_k.defined()) key = fixed(static_k, "static_k");
    if (static_v.defined()) value = fixed(static_v, "static_v");
  }

  void add_zero_key() {
    for (Tensor* x : {&key, &value}) {
      const Tensor zero = tensor_op("new_zeros", {*x, Dims{x->size(0), 1, x->size(2)}});
      *x = cat({*x, zero}, 1);
    }
    mask_one_more_key();
  }

  // Forbids the keys that are padding.
  void mask_padding() {
    const int64_t keys = key.size(1);
    CHECK(padding_mask.size(0) == batch, AssertionError,
          "Expected key_padded_mask.shape[0] to be {}, but got {}", batch, padding_mask.size(0));
    CHECK(padding_mask.size(1) == keys, AssertionError,
          "Expected key_padded_mask.shape[1] to be {}, but got {}", keys, padding_mask.size(1));
    const Tensor wide = expand(view(padding_mask, {batch, 1, 1, keys}), {-1, heads, -1, -1});
    const Tensor each = reshape(wide, {batch * heads, 1, keys});
    mask = mask.defined() ? mask + each : each;
  }

  // What heads see, side by side as (steps, batch, width), and with which weights.
  std::pair<Tensor, Tensor> attend(double dropout_p, bool need_weights) {
    const int64_t queries = query.size(1), width = query.size(2), keys = key.size(1);
    if (!need_weights) {
      if (mask.defined())
        mask = mask.size(0) == 1 ? unsqueeze(mask, 0) : view(mask, {batch, heads, -1, keys});
      const Dims split{batch, heads};
      for (Tensor* x : {&query, &key, &value}) *x = tensor_op("unflatten", {*x, 0, split});
      const Tensor seen = tensor_op("scaled_dot_product_attention",
                                    {query, key, value, mask, dropout_p, is_causal});
      return {reshape(permute(seen, {2, 0, 1, 3}), {queries, batch, heads * width}), Tensor()};
    }
    const Tensor scaled = query * std::sqrt(1.0 / static_cast<double>(width));
    const Tensor columns = transpose(key, -2, -1);
    Tensor weights = softmax(
        mask.defined() ? tensor_op("baddbmm", {mask, scaled, columns}) : bmm(scaled, columns), -1);
    if (dropout_p > 0) {
      CHECK(dropout_p <= 1, ValueError, "dropout probability has to be between 0 and 1, but got {}",
            dropout_p);
      weights = tensor_op("dropout", {weights, dropout_p, true});
    }
    const Tensor seen = transpose(bmm(weights, value), 0, 1);
    return {reshape(seen, {queries, batch, heads * width}),
            view(weights, {batch, heads, queries, keys})};
  }
};

std::tuple<Tensor, Tensor> multi_head_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim,
    int64_t num_heads, const Tensor& in_proj_weight, const Tensor& in_proj_bias,
    const std::vector<Tensor>& bias_kv, bool add_zero_attn, double dropout_p,
    const Tensor& out_proj_weight, const Tensor& out_proj_bias, const Tensor& key_padding_mask,
    bool need_weights, const Tensor& attn_mask, const std::vector<Tensor>& separate,
    const Tensor& static_k, const Tensor& static_v, bool average_attn_weights, bool is_causal) {
  CHECK(bias_kv.empty() || bias_kv.size() == 2, RuntimeError,
        "multi_head_attention_forward: expected biases of keys and of values, got {}",
        bias_kv.size());
  CHECK(separate.empty() || separate.size() == 3, RuntimeError,
        "multi_head_attention_forward: expected weights of queries, keys and values, got {}",
        separate.size());
  Attention a{query, key, value, key_padding_mask, attn_mask, num_heads};
  a.is_causal = is_causal;
  a.check_shapes();
  if (!a.is_batched) a.add_batch();
  a.batch = a.query.size(1);
  a.prepare_masks(need_weights);
  CHECK(a.query.size(-1) == embed_dim, AssertionError,
        "was expecting embedding dimension of {}, but got {}", embed_dim, a.query.size(-1));
  if (separate.empty()) {
    a.project_packed(in_proj_weight, in_proj_bias);
  } else {
    CHECK(a.key.sizes().first(2) == a.value.sizes().first(2), AssertionError,
          "key's sequence and batch dims torch.Size({}) do not match value's torch.Size({})",
          a.key.sizes().first(2), a.value.sizes().first(2));
    a.project_by(separate, in_proj_bias);
  }
  if (a.mask.defined()) a.check_mask();
  if (!bias_kv.empty()) {
    CHECK(!static_k.defined() && !static_v.defined(), AssertionError,
          "bias cannot be added to static key or value.");
    a.add_biases(bias_kv[0], bias_kv[1]);
  }
  a.split_heads(static_k, static_v);
  if (add_zero_attn) a.add_zero_key();
  if (a.padding_mask.defined()) a.mask_padding();
  auto [seen, weights] = a.attend(dropout_p, need_weights);
  const Tensor output = linear(seen, out_proj_weight, out_proj_bias);
  if (weights.defined() && average_attn_weights) weights = mean(weights, IntSpan{1}, false);
  if (a.is_batched) return {output, weights};
  const Tensor one = tensor_op("squeeze", {output, 1});
  return {one, weights.defined() ? tensor_op("squeeze", {weights, 0}) : weights};
}
OP_FUNCTION(multi_head_attention,
            "_multi_head_attention(query, key, value, embed_dim_to_check, num_heads, "
            "in_proj_weight=None, in_proj_bias=None, bias_kv, add_zero_attn, dropout_p, "
            "out_proj_weight, out_proj_bias=None, key_padding_mask=None, need_weights, "
            "attn_mask=None, separate, static_k=None, static_v=None, average_attn_weights=True, "
            "is_causal=False)",
            "Attention of several heads over (steps, batch, width), and its weights where needed. "
            "bias_kv and separate (weights of query, key and value) may be empty.",
            composed | no_out)

}  // namespace
}  // namespace flambeau
