// scaled_dot_product_attention: softmax(q k^T * scale + mask) v. It is one kernel that never holds
// all scores; for second derivatives, and dropout where the kernel has none, its formula.
#include "flambeau/kernels/attention.h"

#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/math_mode.h"
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/nn/double_backward.h"
#include "flambeau/ops/nn/dropout.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

struct Choices {
  double dropout, scale;
  bool causal, grouped;
};

// --- The formula ---------------------------------------------------------------------------------

// Each head as often as there are queries' heads for it.
Tensor spread_heads(const Tensor& x, int64_t heads) {
  const int64_t at = x.dim() - 3, own = x.sizes()[at];
  if (own == heads) return x;
  Dims wide = x.sizes().dims(), joined = wide;
  wide.insert(wide.begin() + at + 1, heads / own);
  joined[at] = heads;
  return reshape(expand(unsqueeze(x, at + 1), wide), joined);
}

// softmax whose rows of nothing but -inf are zeros instead of nan.
Tensor safe_softmax(const Tensor& scores) {
  const Tensor blind =
      amax(detach(scores), IntSpan{-1}, true) == -std::numeric_limits<double>::infinity();
  return masked_fill(softmax(masked_fill(scores, blind, 0.0), -1), blind, 0.0);
}

// Whether PyTorch's kernel for this problem drops weights in the order of memory. It has one for
// float32 on CUDA if rows can be read 16 bytes at a time, and takes it unless forbidden.
bool drops_in_sequence(const Tensor& q, const Tensor& v, const Tensor& weights) {
  constexpr int64_t at_once = 16 / sizeof(float);
  return q.dtype() == DType::float32 && q.device().is_cuda() && weights.dim() == 4 &&
         !math_mode.attention_formula && weights.is_contiguous() && weights.numel() > 0 &&
         q.size(-1) % at_once == 0 && v.size(-1) % at_once == 0;
}

Tensor formula(const Tensor& q, Tensor k, Tensor v, Tensor mask, const Choices& o) {
  if (o.grouped) {
    const int64_t heads = q.sizes()[q.dim() - 3];
    k = spread_heads(k, heads), v = spread_heads(v, heads);
  }
  const bool may_be_blind = mask.defined();  // causal rows see their first key at least
  Tensor scores = matmul(q * o.scale, transpose(k, -2, -1));
  if (o.causal) {
    const Options bools{.dtype = DType::bool_, .device = q.device()};
    mask = tril(ones({q.size(-2), k.size(-2)}, bools), 0);
  }
  const double never = -std::numeric_limits<double>::infinity();
  if (mask.defined()) {
    scores = mask.dtype() == DType::bool_ ? masked_fill(scores, logical_not(mask), never)
                                          : scores + mask;
  }
  Tensor weights = scores.sizes().back() == 0 ? scores
                   : may_be_blind             ? safe_softmax(scores)
                                              : softmax(scores, -1);
  if (mask.defined() && weights.dtype() != q.dtype()) weights = to(weights, q.dtype());
  if (o.dropout > 0) {
    weights = o.dropout < 1 && drops_in_sequence(q, v, weights)
                  ? dropout_of_weights(weights, o.dropout)
                  : dropout(weights, o.dropout, true);
  }
  return matmul(weights, v);
}

// --- The kernel ----------------------------------------------------------------------------------

// With one dimension for all batches, and no fewer than four in all.
Tensor with_four_dims(Tensor x) {
  while (x.dim() < 4) x = unsqueeze(x, 0);
  return x.dim() > 4 ? flatten(x, 0, x.dim() - 4) : x;
}

// A tensor as (batch, heads, steps, width), its leading dimensions broadcast to `lead` but for the
// heads of keys and values, which may be fewer.
Tensor as_heads(const Tensor& x, IntSpan lead, bool keep_heads) {
  Dims sizes = lead.dims();
  const int64_t rank = x.dim();
  if (keep_heads && rank >= 3 && !sizes.empty()) sizes.back() = x.sizes()[rank - 3];
  sizes.push_back(x.sizes()[rank - 2]);
  sizes.push_back(x.sizes()[rank - 1]);
  const Tensor wide = with_four_dims(x.sizes() == IntSpan(sizes) ? x : expand(x, sizes));
  return wide.strides()[3] == 1 || wide.sizes()[3] == 1 ? wide : contiguous(wide);
}

// The CPU's kernel computes in single precision; others take half precision as it is.
Tensor in_compute_type(const Tensor& x) {
  return dtypes::Reduced.has(x.dtype()) && x.device().is_cpu() ? to(x, DType::float32) : x;
}

struct Problem {
  Attention sizes;
  Tensor q, k, v, mask;  // (batch, heads, steps, width), in the type that is computed in

  Problem(const Tensor& q0, const Tensor& k0, const Tensor& v0, const Tensor& mask0, IntSpan lead,
          const Choices& o)
      : q(as_heads(in_compute_type(q0), lead, false)),
        k(as_heads(in_compute_type(k0), lead, o.grouped)),
        v(as_heads(in_compute_type(v0), lead, o.grouped)) {
    sizes = {q.sizes()[0], q.sizes()[1], k.sizes()[1], q.sizes()[2], k.sizes()[2],
             q.sizes()[3], v.sizes()[3], o.scale,      o.causal,     o.dropout};
    if (!mask0.defined()) return;
    const Tensor plain = mask0.dtype() == DType::bool_ ? mask0 : to(mask0, q.dtype());
    Dims shape = lead.dims();
    shape.push_back(sizes.queries);
    shape.push_back(sizes.keys);
    mask = with_four_dims(expand(plain, shape));
  }
};

Dims leading(const Tensor& q, const Tensor& k, const Tensor& v, const Choices& o) {
  const auto lead = [](const Tensor& x) { return x.sizes().first(x.dim() - 2); };
  if (o.grouped) return lead(q).dims();
  return broadcast_shapes(broadcast_shapes(lead(q), lead(k)), lead(v));
}

struct Attended {
  Tensor out, lse;
};

Attended attend(const Problem& p, const Tensor& like, IntSpan lead) {
  const Attention& s = p.sizes;
  Dims shape = lead.dims();
  shape.push_back(s.queries);
  shape.push_back(s.value_width);
  // The result lies in memory as the queries do, unless several dimensions become one.
  const bool alike =
      like.dim() <= 4 && like.sizes() == IntSpan(shape) && like.strides().back() == 1;
  Tensor out =
      alike ? empty_like(like, p.q.dtype()) : make_tensor(shape, p.q.dtype(), p.q.device());
  const DType wide = p.q.dtype() == DType::float64 ? DType::float64 : DType::float32;
  Tensor lse = make_tensor({s.batch, s.heads, s.queries}, wide, p.q.device());
  Tensor heads = out;
  while (heads.dim() < 4) heads = unsqueeze(heads, 0);
  if (heads.dim() > 4) heads = view(heads, {s.batch, s.heads, s.queries, s.value_width});
  if (out.numel() != 0) {
    kernels::attention(out.device_type(), s, p.q, p.k, p.v, p.mask, heads, lse);
  }
  return {out, lse};
}

// A gradient lies in memory as what it belongs to, but for tensors that were spread out.
Tensor gradient_of(const Tensor& x) {
  Tensor like = empty_like(x);
  return like.strides()[3] == 1 ? like : make_tensor(x.sizes(), x.dtype(), x.device());
}

struct BackwardRule {
  Saved q, k, v, mask, out;
  Tensor lse;
  Choices options;
  Dims lead;
  RandomPlace random;

  void operator()(Grads& in, Grads& to_inputs) const {
    if (!in[0].defined()) return;
    const Tensor m = mask.defined() ? mask() : Tensor();
    if (grad_enabled()) {
      CHECK(options.dropout == 0, RuntimeError,
            "scaled_dot_product_attention: second derivatives with dropout are not implemented for "
            "half precision on CUDA");
      double_backward_gradients({q(), k(), v()}, in, to_inputs, [&](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{formula(x[0], x[1], x[2], m, options)};
      });
      return;
    }
    const Tensor q0 = q(), k0 = k(), v0 = v();
    Problem p(q0, k0, v0, m, lead, options);
    p.sizes.random = random;
    const Tensor grad = as_heads(in_compute_type(in[0]), lead, false);
    const Tensor result = as_heads(in_compute_type(out()), lead, false);
    const Tensor gq = gradient_of(p.q), gk = gradient_of(p.k), gv = gradient_of(p.v);
    if (p.sizes.keys == 0 || grad.numel() == 0) {
      for (const Tensor& g : {gq, gk, gv}) zero_(g);
    } else {
      kernels::attention_backward(grad.device_type(), p.sizes, grad, p.q, p.k, p.v, p.mask, result,
                                  lse, gq, gk, gv);
    }
    const auto back = [&](const Tensor& g, const Tensor& x, bool own_heads) {
      Dims shape = lead;
      if (own_heads && x.dim() >= 3) shape.back() = x.sizes()[x.dim() - 3];
      shape.push_back(g.sizes()[2]);
      shape.push_back(g.sizes()[3]);
      return to(sum_to_size(reshape(g, shape), x.sizes()), x.dtype());
    };
    to_inputs[0] = back(gq, q0, false);
    to_inputs[1] = back(gk, k0, options.grouped);
    to_inputs[2] = back(gv, v0, options.grouped);
  }
};

// --- The op --------------------------------------------------------------------------------------

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
           const Choices& o) {
  CHECK(!(o.causal && mask.defined()), RuntimeError,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, RuntimeError,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} "
        "key.dim: {} and value.dim: {} instead.",
        q.dim(), k.dim(), v.dim());
  CHECK(q.dtype() == k.dtype() && q.dtype() == v.dtype(), RuntimeError,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} "
        "key.dtype: {} and value.dtype: {} instead.",
        cpp_type_name(q.dtype()), cpp_type_name(k.dtype()), cpp_type_name(v.dtype()));
  CHECK(is_floating(q.dtype()) || q.is_complex(), RuntimeError,
        "expected scalar type Float but found {}", dtype_legacy_name(q.dtype()));
  CHECK(!mask.defined() || mask.dtype() == DType::bool_ || mask.dtype() == q.dtype() ||
            mask.dtype() == DType::float32,
        RuntimeError,
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
        "attn_mask.dtype: {} and  query.dtype: {} instead.",
        cpp_type_name(mask.dtype()), cpp_type_name(q.dtype()));
  CHECK(dropout_p >= 0 && dropout_p <= 1, RuntimeError,
        "dropout probability has to be between 0 and 1, but got {}", dropout_p);
  CHECK(q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2), RuntimeError,
        "scaled_dot_product_attention: query {} and key {} must have the same last size, key and "
        "value {} the same number of steps",
        q.sizes(), k.sizes(), v.sizes());
  if (!o.grouped) return;
  CHECK(q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3, RuntimeError,
        "scaled_dot_product_attention: enable_gqa takes tensors with a dimension of heads, but got "
        "query {}, key {} and value {}",
        q.sizes(), k.sizes(), v.sizes());
  const int64_t heads = q.size(-3), k_heads = k.size(-3), v_heads = v.size(-3);
  CHECK(k_heads > 0 && v_heads > 0 && heads % k_heads == 0 && heads % v_heads == 0, RuntimeError,
        "Number of heads in key and value must divide the number of heads in query");
}

// Whether the device's kernel can drop weights of this problem.
bool drops_in_kernel(const Tensor& query, const Tensor& key, const Tensor& value, IntSpan lead,
                     const Choices& o) {
  const DeviceType device = query.device_type();
  if (o.dropout >= 1 || query.is_complex() || query.numel() == 0 || key.numel() == 0 ||
      value.numel() == 0 || !kernels::attention_drops.filled(device)) {
    return false;
  }
  const NoGrad off;
  const Problem p(query, key, value, {}, lead, o);
  bool answer = false;
  kernels::attention_drops(device, p.sizes, p.q, p.k, p.v, answer);
  return answer;
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  Choices o{dropout_p, 1, is_causal, enable_gqa};
  check(query, key, value, attn_mask, dropout_p, o);
  o.scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  o.grouped = enable_gqa && query.size(-3) != key.size(-3);
  const bool same_groups = !o.grouped || (key.size(-3) == value.size(-3) &&
                                          key.dim() == query.dim() && value.dim() == query.dim());
  const bool mask_wants = attn_mask.defined() && grad_enabled() && attn_mask.requires_grad();
  const DeviceType device = query.device_type();
  const bool has_kernel = device == DeviceType::meta || kernels::attention.filled(device);
  const Dims lead = leading(query, key, value, o);
  const bool drops = dropout_p > 0 && !attn_mask.defined() && same_groups &&
                     !math_mode.attention_formula && drops_in_kernel(query, key, value, lead, o);
  if ((dropout_p > 0 && !drops) || mask_wants || query.is_complex() || !has_kernel ||
      !same_groups || query.size(-1) == 0) {
    return formula(query, key, value, attn_mask, o);
  }
  Attended result;
  RandomPlace random;
  {
    const NoGrad off;
    Problem p(query, key, value, attn_mask, lead, o);
    if (drops) {
      with_generator(query, nullptr, [&](Generator& generator) {
        kernels::attention_draws(device, generator, random);
      });
      p.sizes.random = random;
    }
    result = attend(p, query, lead);
    result.out = to(result.out, query.dtype());
  }
  if (Record r{"scaled_dot_product_flash_attention_for_cpu", result.out, {query, key, value}}) {
    r.all(BackwardRule{r.save(query), r.save(key), r.save(value),
                       attn_mask.defined() ? r.save(attn_mask) : Saved(), r.save_output(result.out),
                       result.lse, o, lead, random});
  }
  return result.out;
}
OP_FUNCTION(scaled_dot_product_attention,
            "scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, "
            "is_causal=False, *, scale=None, enable_gqa=False)",
            "softmax(query key^T * scale + attn_mask) value over the last two dimensions. A mask "
            "of bools says where to look, any other is added; with enable_gqa several heads of "
            "queries may share one of keys and values.",
            autocast_low | takes_nested | event(2) | no_out)

}  // namespace
}  // namespace flambeau
