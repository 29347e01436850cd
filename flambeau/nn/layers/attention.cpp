#include "flambeau/nn/layers/attention.h"

#include <ostream>

#include "flambeau/nn/init.h"
#include "flambeau/nn/results.h"

namespace flambeau::torch::nn {
namespace functional {

MultiheadAttentionForwardFuncOptions::MultiheadAttentionForwardFuncOptions(
    int64_t embed_dim_to_check, int64_t num_heads, Tensor in_proj_weight, Tensor in_proj_bias,
    Tensor bias_k, Tensor bias_v, bool add_zero_attn, double dropout_p, Tensor out_proj_weight,
    Tensor out_proj_bias)
    : embed_dim_to_check_(embed_dim_to_check),
      num_heads_(num_heads),
      in_proj_weight_(std::move(in_proj_weight)),
      in_proj_bias_(std::move(in_proj_bias)),
      bias_k_(std::move(bias_k)),
      bias_v_(std::move(bias_v)),
      add_zero_attn_(add_zero_attn),
      dropout_p_(dropout_p),
      out_proj_weight_(std::move(out_proj_weight)),
      out_proj_bias_(std::move(out_proj_bias)) {}

std::tuple<Tensor, Tensor> multi_head_attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const MultiheadAttentionForwardFuncOptions& options) {
  std::vector<Tensor> separate, bias_kv;
  if (options.use_separate_proj_weight())
    separate = {options.q_proj_weight(), options.k_proj_weight(), options.v_proj_weight()};
  if (options.bias_k().defined() && options.bias_v().defined())
    bias_kv = {options.bias_k(), options.bias_v()};
  std::vector<Tensor> results = nn::detail::list_of(torch::_multi_head_attention(
      query, key, value, options.embed_dim_to_check(), options.num_heads(),
      options.in_proj_weight(), options.in_proj_bias(), bias_kv, options.add_zero_attn(),
      options.training() ? options.dropout_p() : 0.0, options.out_proj_weight(),
      options.out_proj_bias(), options.key_padding_mask(), options.need_weights(),
      options.attn_mask(), separate, options.static_k(), options.static_v(),
      options.average_attn_weights(), options.is_causal()));
  results.resize(2);
  return {results[0], results[1]};
}

}  // namespace functional

void MultiheadAttentionImpl::reset() {
  const int64_t width = options.embed_dim();
  CHECK(width > 0 && options.num_heads() > 0, ValueError,
        "embed_dim and num_heads must be greater than 0, got embed_dim={} and num_heads={} instead",
        width, options.num_heads());
  head_dim = width / options.num_heads();
  CHECK(head_dim * options.num_heads() == width, ValueError,
        "embed_dim must be divisible by num_heads");
  _qkv_same_embed_dim = options.kdim() == width && options.vdim() == width;
  in_proj_weight = register_empty("in_proj_weight", {3 * width, width}, _qkv_same_embed_dim);
  q_proj_weight = register_empty("q_proj_weight", {width, width}, !_qkv_same_embed_dim);
  k_proj_weight = register_empty("k_proj_weight", {width, options.kdim()}, !_qkv_same_embed_dim);
  v_proj_weight = register_empty("v_proj_weight", {width, options.vdim()}, !_qkv_same_embed_dim);
  in_proj_bias = register_empty("in_proj_bias", {3 * width}, options.bias());
  out_proj = register_module("out_proj", Linear(LinearOptions(width, width).bias(options.bias())));
  bias_k = register_empty("bias_k", {1, 1, width}, options.add_bias_kv());
  bias_v = register_empty("bias_v", {1, 1, width}, options.add_bias_kv());
  _reset_parameters();
}

void MultiheadAttentionImpl::_reset_parameters() {
  for (const Tensor& weight : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (weight.defined()) init::xavier_uniform_(weight);
  if (in_proj_bias.defined()) {
    init::zeros_(in_proj_bias);
    init::zeros_(out_proj->bias);
  }
  for (const Tensor& bias : {bias_k, bias_v})
    if (bias.defined()) init::xavier_normal_(bias);
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask,
    bool need_weights, const Tensor& attn_mask, bool average_attn_weights, bool is_causal) {
  return functional::multi_head_attention_forward(
      query, key, value,
      functional::MultiheadAttentionForwardFuncOptions(
          options.embed_dim(), options.num_heads(), in_proj_weight, in_proj_bias, bias_k, bias_v,
          options.add_zero_attn(), options.dropout(), out_proj->weight, out_proj->bias)
          .training(is_training())
          .key_padding_mask(key_padding_mask)
          .need_weights(need_weights)
          .attn_mask(attn_mask)
          .use_separate_proj_weight(!_qkv_same_embed_dim)
          .q_proj_weight(q_proj_weight)
          .k_proj_weight(k_proj_weight)
          .v_proj_weight(v_proj_weight)
          .average_attn_weights(average_attn_weights)
          .is_causal(is_causal));
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::MultiheadAttention";
}

}  // namespace flambeau::torch::nn
