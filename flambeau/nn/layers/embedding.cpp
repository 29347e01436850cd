#include "flambeau/nn/layers/embedding.h"

#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace {

template <class Options>
Tensor look_up(const Tensor& input, const Tensor& weight, const Options& options) {
  return functional::detail::embedding(input, weight, options.padding_idx(), options.max_norm(),
                                       options.norm_type(), options.scale_grad_by_freq(),
                                       options.sparse());
}

}  // namespace

namespace functional {

Tensor detail::embedding(const Tensor& input, const Tensor& weight,
                         std::optional<int64_t> padding_idx, std::optional<double> max_norm,
                         double norm_type, bool scale_grad_by_freq, bool sparse) {
  return torch::_nn_embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq,
                              sparse);
}
Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options) {
  return look_up(input, weight, options);
}
Tensor embedding_bag(const Tensor& input, const Tensor& weight,
                     const EmbeddingBagFuncOptions& options) {
  return torch::_nn_embedding_bag(
      input, weight, options.offsets(), options.max_norm(), options.norm_type(),
      options.scale_grad_by_freq(), enumtype::name_of(options.mode()), options.sparse(),
      options.per_sample_weights(), options.include_last_offset(), options.padding_idx());
}
Tensor one_hot(const Tensor& tensor, int64_t num_classes) {
  return torch::one_hot(tensor, num_classes);
}

}  // namespace functional

namespace {

template <class Impl>
void make_table(Impl& layer, const std::function<void(const Tensor&)>& keep) {
  auto& options = layer.options;
  const int64_t rows = options.num_embeddings();
  if (options.padding_idx()) {
    const int64_t index = *options.padding_idx();
    CHECK(index >= -rows && index < rows, RuntimeError,
          "Padding_idx must be within num_embeddings");
    if (index < 0) options.padding_idx(rows + index);
  }
  if (!options._weight().defined()) {
    keep(torch::empty({rows, options.embedding_dim()}));
    layer.reset_parameters();
  } else {
    CHECK(options._weight().sizes() == IntSpan({rows, options.embedding_dim()}), RuntimeError,
          "Shape of _weight does not match num_embeddings and embedding_dim");
    keep(options._weight());
  }
}

template <class Impl>
void draw_table(Impl& layer) {
  init::normal_(layer.weight);
  if (!layer.options.padding_idx()) return;
  const NoGradGuard unrecorded;
  layer.weight.select(0, *layer.options.padding_idx()).fill_(0);
}

template <class Options>
void print_lookup(Print& print, const Options& options) {
  print("num_embeddings", options.num_embeddings())("embedding_dim", options.embedding_dim());
  if constexpr (std::is_same_v<Options, EmbeddingOptions>)
    if (options.padding_idx()) print("padding_idx", *options.padding_idx());
  if (options.max_norm()) print("max_norm", *options.max_norm());
  print.unless(2.0, "norm_type", options.norm_type())
      .unless(false, "scale_grad_by_freq", options.scale_grad_by_freq())
      .unless(false, "sparse", options.sparse());
}

template <class Options, class Given>
Options of_table(const Tensor& embeddings, const Given& options) {
  CHECK(embeddings.dim() == 2, RuntimeError,
        "Embeddings parameter is expected to be 2-dimensional");
  return Options(embeddings.size(0), embeddings.size(1))
      ._weight(embeddings)
      .padding_idx(options.padding_idx())
      .max_norm(options.max_norm())
      .norm_type(options.norm_type())
      .scale_grad_by_freq(options.scale_grad_by_freq())
      .sparse(options.sparse());
}

}  // namespace

// --- Embedding -----------------------------------------------------------------------------------

void EmbeddingImpl::reset() {
  make_table(*this, [&](const Tensor& table) { weight = register_parameter("weight", table); });
}
void EmbeddingImpl::reset_parameters() { draw_table(*this); }
Tensor EmbeddingImpl::forward(const Tensor& indices) { return look_up(indices, weight, options); }
void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  Print print(stream, "Embedding");
  print_lookup(print, options);
}
Embedding Embedding::from_pretrained(const Tensor& embeddings,
                                     const EmbeddingFromPretrainedOptions& options) {
  Embedding made(of_table<EmbeddingOptions>(embeddings, options));
  made->weight.requires_grad_(!options.freeze());
  return made;
}

// --- EmbeddingBag --------------------------------------------------------------------------------

void EmbeddingBagImpl::reset() {
  make_table(*this, [&](const Tensor& table) { weight = register_parameter("weight", table); });
}
void EmbeddingBagImpl::reset_parameters() { draw_table(*this); }
Tensor EmbeddingBagImpl::forward(const Tensor& input, const Tensor& offsets,
                                 const Tensor& per_sample_weights) {
  return torch::_nn_embedding_bag(input, weight, offsets, options.max_norm(), options.norm_type(),
                                  options.scale_grad_by_freq(), enumtype::name_of(options.mode()),
                                  options.sparse(), per_sample_weights,
                                  options.include_last_offset(), options.padding_idx());
}
void EmbeddingBagImpl::pretty_print(std::ostream& stream) const {
  Print print(stream, "EmbeddingBag");
  print_lookup(print, options);
  print.unless(std::string("kMean"), "mode", enumtype::get_enum_name(options.mode()))
      .unless(false, "include_last_offset", options.include_last_offset());
  if (options.padding_idx()) print("padding_idx", *options.padding_idx());
}
EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& embeddings,
                                           const EmbeddingBagFromPretrainedOptions& options) {
  EmbeddingBag made(of_table<EmbeddingBagOptions>(embeddings, options)
                        .mode(options.mode())
                        .include_last_offset(options.include_last_offset()));
  made->weight.requires_grad_(!options.freeze());
  return made;
}

}  // namespace flambeau::torch::nn
