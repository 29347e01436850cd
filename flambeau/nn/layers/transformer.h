// The Transformer of "Attention Is All You Need": encoder, decoder, their layers, and both.
#pragma once

#include <functional>
#include <variant>

#include "flambeau/nn/containers.h"
#include "flambeau/nn/layers/attention.h"
#include "flambeau/nn/layers/dropout.h"
#include "flambeau/nn/layers/norm.h"

namespace flambeau::torch::nn {

using activation_t =
    std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>;

struct TransformerEncoderLayerOptions {
  TransformerEncoderLayerOptions(int64_t d_model, int64_t nhead)
      : d_model_(d_model), nhead_(nhead) {}
  FLAMBEAU_OPTION(int64_t, d_model);
  FLAMBEAU_OPTION(int64_t, nhead);
  FLAMBEAU_OPTION(int64_t, dim_feedforward) = 2048;
  FLAMBEAU_OPTION(double, dropout) = 0.1;
  FLAMBEAU_OPTION(activation_t, activation) = kReLU;
};
using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

// --- Layers --------------------------------------------------------------------------------------

// Self-attention and a feed-forward network, each with a residual and a norm.
class TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(TransformerEncoderLayerImpl, TransformerEncoderLayerOptions);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {}, bool is_causal = false);

  MultiheadAttention self_attn = nullptr;
  Linear linear1 = nullptr;
  Dropout dropout = nullptr;
  Linear linear2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr;
  Dropout dropout1 = nullptr, dropout2 = nullptr;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())}, {3, AnyValue(false)})
};
TORCH_MODULE(TransformerEncoderLayer);

// Self-attention, attention to the encoder's output, and a feed-forward network.
class TransformerDecoderLayerImpl : public Cloneable<TransformerDecoderLayerImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(TransformerDecoderLayerImpl, TransformerDecoderLayerOptions);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {}, bool tgt_is_causal = false);

  MultiheadAttention self_attn = nullptr, multihead_attn = nullptr;
  Linear linear1 = nullptr;
  Dropout dropout = nullptr;
  Linear linear2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr, norm3 = nullptr;
  Dropout dropout1 = nullptr, dropout2 = nullptr, dropout3 = nullptr;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())},
                           {4, AnyValue(Tensor())}, {5, AnyValue(Tensor())}, {6, AnyValue(false)})
};
TORCH_MODULE(TransformerDecoderLayer);

// --- Stacks --------------------------------------------------------------------------------------

// A layer to copy, or the options of one.
#define FLAMBEAU_STACK_OPTIONS(Kind, layer)                                         \
  struct Transformer##Kind##Options {                                               \
    Transformer##Kind##Options(Transformer##Kind##Layer layer, int64_t num_layers); \
    Transformer##Kind##Options(const Transformer##Kind##LayerOptions& options,      \
                               int64_t num_layers);                                 \
    FLAMBEAU_OPTION(Transformer##Kind##Layer, layer);                               \
    FLAMBEAU_OPTION(int64_t, num_layers);                                           \
    FLAMBEAU_OPTION(AnyModule, norm);                                               \
  }
FLAMBEAU_STACK_OPTIONS(Encoder, encoder_layer);
FLAMBEAU_STACK_OPTIONS(Decoder, decoder_layer);
#undef FLAMBEAU_STACK_OPTIONS

// Copies of a layer, one after the other, and a norm on their result if one is given.
class TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(TransformerEncoderImpl, TransformerEncoderOptions);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {});

  ModuleList layers = nullptr;
  AnyModule norm;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerEncoder);

class TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(TransformerDecoderImpl, TransformerDecoderOptions);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {});

  ModuleList layers = nullptr;
  AnyModule norm;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())},
                           {4, AnyValue(Tensor())}, {5, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerDecoder);

// --- Both ----------------------------------------------------------------------------------------

struct TransformerOptions {
  TransformerOptions() = default;
  TransformerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TransformerOptions(int64_t d_model, int64_t nhead, int64_t num_encoder_layers,
                     int64_t num_decoder_layers)
      : d_model_(d_model),
        nhead_(nhead),
        num_encoder_layers_(num_encoder_layers),
        num_decoder_layers_(num_decoder_layers) {}
  FLAMBEAU_OPTION(int64_t, d_model) = 512;
  FLAMBEAU_OPTION(int64_t, nhead) = 8;
  FLAMBEAU_OPTION(int64_t, num_encoder_layers) = 6;
  FLAMBEAU_OPTION(int64_t, num_decoder_layers) = 6;
  FLAMBEAU_OPTION(int64_t, dim_feedforward) = 2048;
  FLAMBEAU_OPTION(double, dropout) = 0.1;
  FLAMBEAU_OPTION(activation_t, activation) = kReLU;
  FLAMBEAU_OPTION(AnyModule, custom_encoder) = {};
  FLAMBEAU_OPTION(AnyModule, custom_decoder) = {};
};

// An encoder and a decoder that attends to its output.
class TransformerImpl : public Cloneable<TransformerImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(TransformerImpl, TransformerOptions);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask = {},
                 const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& src_key_padding_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {});
  // A mask that lets each step see itself and those before.
  static Tensor generate_square_subsequent_mask(int64_t sz);

  AnyModule encoder, decoder;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())},
                           {4, AnyValue(Tensor())}, {5, AnyValue(Tensor())},
                           {6, AnyValue(Tensor())}, {7, AnyValue(Tensor())})
};
TORCH_MODULE(Transformer);

}  // namespace flambeau::torch::nn
