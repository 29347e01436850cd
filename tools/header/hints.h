// Arguments of ops that no luck finds: shapes, indices and codes that have to fit one another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flambeau/tensor/shape.h"

namespace flambeau::print {

struct Hint {
  struct Made {
    const char* maker;  // of tools/header/sampler.cpp
    Dims sizes;
  };
  std::string_view ops, parameter;  // ops by their names
  std::vector<Made> tensors;        // or one
  Dims ints = {};                   // or one, of whatever kind
  std::string_view word = {};
};

namespace hints {
inline constexpr const char* stacks = "lstm gru rnn_tanh rnn_relu";
inline constexpr const char *floats = "floats", *ones = "unit_integers", *indices = "integers";
inline const std::vector<Hint> all = {
    {"ctc_loss", "log_probs", {{floats, {3, 1, 3}}}},
    {"ctc_loss", "targets", {{ones, {1, 1}}}},
    {"ctc_loss", "input_lengths", {{ones, {1}}}, {3}},
    {"ctc_loss", "target_lengths", {{ones, {1}}}, {1}},
    {"embedding_bag", "weight", {{floats, {3, 2}}}},
    {"embedding_bag", "indices", {{indices, {4}}}},
    {"embedding_bag", "offsets", {{indices, {2}}}},
    {"grid_sampler grid_sampler_2d", "input", {{floats, {1, 1, 3, 3}}}},
    {"grid_sampler grid_sampler_2d", "grid", {{floats, {1, 2, 2, 2}}}},
    {"grid_sampler grid_sampler_2d grid_sampler_3d", "interpolation_mode", {}, {0}},
    {"grid_sampler grid_sampler_2d grid_sampler_3d", "padding_mode", {}, {0}},
    {"grid_sampler_3d", "input", {{floats, {1, 1, 2, 2, 2}}}},
    {"grid_sampler_3d", "grid", {{floats, {1, 2, 2, 2, 3}}}},
    {"_fractional_max_pool", "input", {{floats, {1, 1, 4, 4}}}},
    {"_fractional_max_pool", "kernel_size", {}, {2, 2}},
    {"_fractional_max_pool", "output_size", {}, {2, 2}},
    {"_fractional_max_pool", "random_samples", {{floats, {1, 1, 2}}}},
    {stacks, "input", {{floats, {3, 1, 2}}}},
    {stacks, "data", {{floats, {2, 2}}}},
    {"lstm", "hx", {{floats, {1, 1, 3}}, {floats, {1, 1, 3}}}},
    {"lstm", "params", {{floats, {12, 2}}, {floats, {12, 3}}}},
    {"gru rnn_tanh rnn_relu", "hx", {{floats, {1, 1, 3}}}},
    {"gru", "params", {{floats, {9, 2}}, {floats, {9, 3}}}},
    {"rnn_tanh rnn_relu", "params", {{floats, {3, 2}}, {floats, {3, 3}}}},
    {stacks, "batch_sizes", {{ones, {2}}}},
    {stacks, "has_biases", {}, {0}},
    {stacks, "num_layers", {}, {1}},
    {stacks, "train", {}, {0}},
    {stacks, "bidirectional", {}, {0}},
    {stacks, "batch_first", {}, {0}},
    {"lstm_cell", "input", {{floats, {1, 2}}}},
    {"lstm_cell", "hx", {{floats, {1, 3}}, {floats, {1, 3}}}},
    {"lstm_cell", "w_ih", {{floats, {12, 2}}}},
    {"lstm_cell", "w_hh", {{floats, {12, 3}}}},
    {"gru_cell", "input", {{floats, {1, 2}}}},
    {"gru_cell", "hx", {{floats, {1, 3}}}},
    {"gru_cell", "w_ih", {{floats, {9, 2}}}},
    {"gru_cell", "w_hh", {{floats, {9, 3}}}},
    {"_multi_head_attention", "query", {{floats, {2, 1, 4}}}},
    {"_multi_head_attention", "key", {{floats, {2, 1, 4}}}},
    {"_multi_head_attention", "value", {{floats, {2, 1, 4}}}},
    {"_multi_head_attention", "embed_dim_to_check", {}, {4}},
    {"_multi_head_attention", "num_heads", {}, {2}},
    {"_multi_head_attention", "in_proj_weight", {{floats, {12, 4}}}},
    {"_multi_head_attention", "bias_kv", {}},
    {"_multi_head_attention", "add_zero_attn", {}, {0}},
    {"_multi_head_attention", "dropout_p", {}, {0}},
    {"_multi_head_attention", "out_proj_weight", {{floats, {4, 4}}}},
    {"_multi_head_attention", "need_weights", {}, {1}},
    {"_multi_head_attention", "separate", {}},
    {"_grouped_mm", "mat_a", {{"bfloats", {2, 8, 8}}}},
    {"_grouped_mm", "mat_b", {{"bfloats", {2, 8, 8}}}},
    {"_sobol_engine_draw", "quasi", {{indices, {1}}}},
    {"_sobol_engine_draw", "sobolstate", {{indices, {1, 30}}}},
    {"_sobol_engine_draw", "n", {}, {2}},
    {"_sobol_engine_draw", "dimension", {}, {1}},
    {"_sobol_engine_draw", "num_generated", {}, {0}},
    {"_sparse_compressed", "starts", {{indices, {2}}}},
    {"_sparse_compressed", "plain", {{ones, {1}}}},
    {"_sparse_compressed", "values", {{floats, {1}}}},
    {"_sparse_compressed", "size", {}, {1, 2}},
    {"_sparse_compressed", "layout", {}, {}, "sparse_csr"},
    {"_sparse_compress", "input", {{floats, {2, 3}}}},
    {"_sparse_compress", "layout", {}, {}, "sparse_csr"},
    {"_csr_sampled_dot", "crow", {{indices, {2}}}},
    {"_csr_sampled_dot", "col", {{ones, {1}}}},
    {"_csr_sampled_dot", "a", {{floats, {1, 3}}}},
    {"_csr_sampled_dot", "b", {{floats, {2, 3}}}},
    {"_csr_mm", "crow", {{indices, {2}}}},
    {"_csr_mm", "col", {{ones, {1}}}},
    {"_csr_mm", "values", {{floats, {1}}}},
    {"_csr_mm", "dense", {{floats, {2, 3}}}},
    {"ccol_indices", "self", {{"compressed_columns", {2, 3}}}},
    {"row_indices", "self", {{"compressed_columns", {2, 3}}}},
};
}  // namespace hints

inline const Hint* hint_for(const std::string& op, std::string_view parameter) {
  for (const Hint& hint : hints::all) {
    const std::string names = " " + std::string(hint.ops) + " ";
    if (hint.parameter == parameter && names.find(" " + op + " ") != std::string::npos)
      return &hint;
  }
  return nullptr;
}

}  // namespace flambeau::print
