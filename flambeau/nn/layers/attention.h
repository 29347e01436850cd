// Attention of several heads.
#pragma once

#include <tuple>

#include "flambeau/nn/layers/linear.h"

namespace flambeau::torch::nn {

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads), kdim_(embed_dim), vdim_(embed_dim) {}
  FLAMBEAU_OPTION(int64_t, embed_dim);
  FLAMBEAU_OPTION(int64_t, num_heads);
  FLAMBEAU_OPTION(double, dropout) = 0.0;
  FLAMBEAU_OPTION(bool, bias) = true;
  FLAMBEAU_OPTION(bool, add_bias_kv) = false;
  FLAMBEAU_OPTION(bool, add_zero_attn) = false;
  FLAMBEAU_OPTION(int64_t, kdim);
  FLAMBEAU_OPTION(int64_t, vdim);
};

namespace functional {

struct MultiheadAttentionForwardFuncOptions {
  MultiheadAttentionForwardFuncOptions(int64_t embed_dim_to_check, int64_t num_heads,
                                       Tensor in_proj_weight, Tensor in_proj_bias, Tensor bias_k,
                                       Tensor bias_v, bool add_zero_attn, double dropout_p,
                                       Tensor out_proj_weight, Tensor out_proj_bias);
  FLAMBEAU_OPTION(int64_t, embed_dim_to_check);
  FLAMBEAU_OPTION(int64_t, num_heads);
  FLAMBEAU_OPTION(Tensor, in_proj_weight);
  FLAMBEAU_OPTION(Tensor, in_proj_bias);
  FLAMBEAU_OPTION(Tensor, bias_k);
  FLAMBEAU_OPTION(Tensor, bias_v);
  FLAMBEAU_OPTION(bool, add_zero_attn);
  FLAMBEAU_OPTION(double, dropout_p);
  FLAMBEAU_OPTION(Tensor, out_proj_weight);
  FLAMBEAU_OPTION(Tensor, out_proj_bias);
  FLAMBEAU_OPTION(bool, training) = true;
  FLAMBEAU_OPTION(Tensor, key_padding_mask) = {};
  FLAMBEAU_OPTION(bool, need_weights) = true;
  FLAMBEAU_OPTION(Tensor, attn_mask) = {};
  FLAMBEAU_OPTION(bool, use_separate_proj_weight) = false;
  FLAMBEAU_OPTION(Tensor, q_proj_weight) = {};
  FLAMBEAU_OPTION(Tensor, k_proj_weight) = {};
  FLAMBEAU_OPTION(Tensor, v_proj_weight) = {};
  FLAMBEAU_OPTION(Tensor, static_k) = {};
  FLAMBEAU_OPTION(Tensor, static_v) = {};
  FLAMBEAU_OPTION(bool, average_attn_weights) = true;
  FLAMBEAU_OPTION(bool, is_causal) = false;
};

// The output, and the weights where they are needed.
std::tuple<Tensor, Tensor> multi_head_attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const MultiheadAttentionForwardFuncOptions& options);

}  // namespace functional

class MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(MultiheadAttentionImpl, MultiheadAttentionOptions);
  void reset() override;
  void _reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  // is_causal says that attn_mask is the causal one, which attention may then make itself.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true,
                                     bool is_causal = false);

  bool _qkv_same_embed_dim = false;
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj = nullptr;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
  int64_t head_dim = 0;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, AnyValue(Tensor())}, {4, AnyValue(true)}, {5, AnyValue(Tensor())},
                           {6, AnyValue(true)}, {7, AnyValue(false)})
};
TORCH_MODULE(MultiheadAttention);

}  // namespace flambeau::torch::nn
