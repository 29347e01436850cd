#include "flambeau/nn/layers/transformer.h"

#include <limits>
#include <mutex>
#include <vector>

#include "flambeau/nn/init.h"

namespace flambeau::torch::nn {
namespace {

// Copying a layer makes it anew first, which draws; a model's draws are to be those of its making.
class UndrawnCopies {
 public:
  UndrawnCopies()
      : generator_(*flambeau::default_generator(flambeau::Device(flambeau::DeviceType::cpu))),
        state_(generator_.state_size()) {
    const std::lock_guard lock(generator_.mutex());
    generator_.get_state(state_);
  }
  ~UndrawnCopies() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  UndrawnCopies(const UndrawnCopies&) = delete;
  UndrawnCopies& operator=(const UndrawnCopies&) = delete;

 private:
  flambeau::Generator& generator_;
  std::vector<std::byte> state_;
};

template <class Impl>
ModuleList copies_of(const ModuleHolder<Impl>& layer, int64_t count) {
  const UndrawnCopies undrawn;
  ModuleList layers;
  for (int64_t i = 0; i < count; ++i) layers->push_back(layer->clone());
  return layers;
}

Tensor activate(const activation_t& activation, const Tensor& x) {
  if (const auto* function = std::get_if<std::function<Tensor(const Tensor&)>>(&activation))
    return (*function)(x);
  return std::holds_alternative<enumtype::kGELU>(activation) ? torch::_nn_gelu(x) : torch::relu(x);
}

// Whether a mask is the causal one: attention then makes it itself.
bool is_causal(const Tensor& mask, const Tensor& steps) {
  if (!mask.defined()) return false;
  const int64_t size = steps.size(0);
  if (mask.dim() != 2 || mask.size(0) != size || mask.size(1) != size) return false;
  const Tensor causal = TransformerImpl::generate_square_subsequent_mask(size);
  return mask.equal(causal.to(mask.device(), mask->dtype));
}

Tensor canonical(const Tensor& mask, const char* name, const Tensor& other, const char* other_name,
                 DType dtype) {
  if (!mask.defined()) return mask;
  const auto other_type = other.defined() ? std::optional(other->dtype) : std::nullopt;
  return torch::_canonical_mask(mask, name, other_type, other_name, dtype, *other_name != '\0');
}

}  // namespace

// --- Layers --------------------------------------------------------------------------------------

// What both kinds of layers hold, in the order in which Python's make it.
#define MAKE(name, ...) name = this->register_module(#name, __VA_ARGS__)
#define MAKE_FEEDFORWARD                                               \
  MAKE(linear1, Linear(options.d_model(), options.dim_feedforward())); \
  MAKE(dropout, Dropout(options.dropout()));                           \
  MAKE(linear2, Linear(options.dim_feedforward(), options.d_model()))
#define MAKE_ATTENTION(name)                                                                  \
  MAKE(name, MultiheadAttention(MultiheadAttentionOptions(options.d_model(), options.nhead()) \
                                    .dropout(options.dropout())))
#define MAKE_NORM(name) MAKE(name, LayerNorm(LayerNormOptions({options.d_model()})))

void TransformerEncoderLayerImpl::reset() {
  MAKE_ATTENTION(self_attn);
  MAKE_FEEDFORWARD;
  MAKE_NORM(norm1);
  MAKE_NORM(norm2);
  MAKE(dropout1, Dropout(options.dropout()));
  MAKE(dropout2, Dropout(options.dropout()));
}

void TransformerEncoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask, bool is_causal) {
  const Tensor seen = std::get<0>(
      self_attn->forward(src, src, src, src_key_padding_mask, false, src_mask, true, is_causal));
  const Tensor x = norm1->forward(src + dropout1->forward(seen));
  const Tensor wide = dropout->forward(activate(options.activation(), linear1->forward(x)));
  return norm2->forward(x + dropout2->forward(linear2->forward(wide)));
}

void TransformerDecoderLayerImpl::reset() {
  MAKE_ATTENTION(self_attn);
  MAKE_ATTENTION(multihead_attn);
  MAKE_FEEDFORWARD;
  MAKE_NORM(norm1);
  MAKE_NORM(norm2);
  MAKE_NORM(norm3);
  MAKE(dropout1, Dropout(options.dropout()));
  MAKE(dropout2, Dropout(options.dropout()));
  MAKE(dropout3, Dropout(options.dropout()));
}

void TransformerDecoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  multihead_attn->_reset_parameters();
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
  norm3->reset_parameters();
}

Tensor TransformerDecoderLayerImpl::forward(const Tensor& tgt, const Tensor& memory,
                                            const Tensor& tgt_mask, const Tensor& memory_mask,
                                            const Tensor& tgt_key_padding_mask,
                                            const Tensor& memory_key_padding_mask,
                                            bool tgt_is_causal) {
  const Tensor own = std::get<0>(self_attn->forward(tgt, tgt, tgt, tgt_key_padding_mask, false,
                                                    tgt_mask, true, tgt_is_causal));
  Tensor x = norm1->forward(tgt + dropout1->forward(own));
  const Tensor seen = std::get<0>(
      multihead_attn->forward(x, memory, memory, memory_key_padding_mask, false, memory_mask));
  x = norm2->forward(x + dropout2->forward(seen));
  const Tensor wide = dropout->forward(activate(options.activation(), linear1->forward(x)));
  return norm3->forward(x + dropout3->forward(linear2->forward(wide)));
}

// --- Stacks --------------------------------------------------------------------------------------

#define STACK(Kind, layer)                                                                     \
  Transformer##Kind##Options::Transformer##Kind##Options(Transformer##Kind##Layer layer,       \
                                                         int64_t num_layers)                   \
      : layer##_(std::move(layer)), num_layers_(num_layers) {}                                 \
  Transformer##Kind##Options::Transformer##Kind##Options(                                      \
      const Transformer##Kind##LayerOptions& options, int64_t num_layers)                      \
      : Transformer##Kind##Options(Transformer##Kind##Layer(options), num_layers) {}           \
  void Transformer##Kind##Impl::reset() {                                                      \
    MAKE(layers, copies_of(options.layer(), options.num_layers()));                            \
    if (options.norm().is_empty()) return;                                                     \
    norm = options.norm().clone();                                                             \
    register_module("norm", norm.ptr());                                                       \
  }                                                                                            \
  void Transformer##Kind##Impl::reset_parameters() {                                           \
    for (const auto& each : *layers) each->as<Transformer##Kind##Layer>()->reset_parameters(); \
  }
STACK(Encoder, encoder_layer)
STACK(Decoder, decoder_layer)

Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask,
                                       const Tensor& src_key_padding_mask) {
  const Tensor padding =
      canonical(src_key_padding_mask, "src_key_padding_mask", src_mask, "mask", src->dtype);
  const Tensor mask = canonical(src_mask, "mask", {}, "", src->dtype);
  const bool causal = is_causal(mask, src);
  Tensor x = src;
  for (const auto& layer : *layers)
    x = layer->as<TransformerEncoderLayer>()->forward(x, mask, padding, causal);
  return norm.is_empty() ? x : norm.forward(x);
}

Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory,
                                       const Tensor& tgt_mask, const Tensor& memory_mask,
                                       const Tensor& tgt_key_padding_mask,
                                       const Tensor& memory_key_padding_mask) {
  const bool causal = is_causal(tgt_mask, tgt);
  Tensor x = tgt;
  for (const auto& layer : *layers) {
    x = layer->as<TransformerDecoderLayer>()->forward(
        x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, causal);
  }
  return norm.is_empty() ? x : norm.forward(x);
}

// --- Both ----------------------------------------------------------------------------------------

void TransformerImpl::reset() {
  const auto layer = TransformerEncoderLayerOptions(options.d_model(), options.nhead())
                         .dim_feedforward(options.dim_feedforward())
                         .dropout(options.dropout())
                         .activation(options.activation());
  const auto norm = [&] { return AnyModule(LayerNorm(LayerNormOptions({options.d_model()}))); };
  if (options.custom_encoder().is_empty()) {
    encoder = AnyModule(TransformerEncoder(
        TransformerEncoderOptions(layer, options.num_encoder_layers()).norm(norm())));
  } else {
    encoder = options.custom_encoder().clone();
  }
  register_module("encoder", encoder.ptr());
  if (options.custom_decoder().is_empty()) {
    decoder = AnyModule(TransformerDecoder(
        TransformerDecoderOptions(layer, options.num_decoder_layers()).norm(norm())));
  } else {
    decoder = options.custom_decoder().clone();
  }
  register_module("decoder", decoder.ptr());
  reset_parameters();
}

void TransformerImpl::reset_parameters() {
  for (const Tensor& parameter : parameters())
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
}

Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask,
                                const Tensor& tgt_mask, const Tensor& memory_mask,
                                const Tensor& src_key_padding_mask,
                                const Tensor& tgt_key_padding_mask,
                                const Tensor& memory_key_padding_mask) {
  CHECK(src.dim() == tgt.dim() && (src.dim() == 2 || src.dim() == 3), RuntimeError,
        "src and tgt should have 3 dimensions, but got {} and {}", src.dim(), tgt.dim());
  CHECK(src.dim() == 2 || src.size(1) == tgt.size(1), RuntimeError,
        "The batch number of src and tgt must be equal");
  CHECK(src.size(-1) == options.d_model() && tgt.size(-1) == options.d_model(), RuntimeError,
        "The feature number of src and tgt must be equal to d_model");
  const auto memory = encoder.forward<Tensor>(src, src_mask, src_key_padding_mask);
  return decoder.forward<Tensor>(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                                 memory_key_padding_mask);
}

Tensor TransformerImpl::generate_square_subsequent_mask(int64_t sz) {
  return torch::full({sz, sz}, -std::numeric_limits<double>::infinity()).triu(1);
}

}  // namespace flambeau::torch::nn
