// Embeddings: rows of a learned table, one by one or in bags.
#pragma once

#include <optional>
#include <variant>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

using EmbeddingBagMode = std::variant<enumtype::kSum, enumtype::kMean, enumtype::kMax>;

// How rows are looked up, whatever is done with them.
#define FLAMBEAU_LOOKUP                                      \
  FLAMBEAU_OPTION(std::optional<int64_t>, padding_idx) = {}; \
  FLAMBEAU_OPTION(std::optional<double>, max_norm) = {};     \
  FLAMBEAU_OPTION(double, norm_type) = 2.;                   \
  FLAMBEAU_OPTION(bool, scale_grad_by_freq) = false;         \
  FLAMBEAU_OPTION(bool, sparse) = false

namespace functional {

// freeze is only asked by from_pretrained(), which takes the same: is the table not trained?
struct EmbeddingFuncOptions {
  FLAMBEAU_OPTION(bool, freeze) = true;
  FLAMBEAU_LOOKUP;
};
struct EmbeddingBagFuncOptions {
  FLAMBEAU_OPTION(bool, freeze) = true;
  FLAMBEAU_OPTION(Tensor, offsets) = {};
  FLAMBEAU_LOOKUP;
  FLAMBEAU_OPTION(EmbeddingBagMode, mode) = kMean;
  FLAMBEAU_OPTION(Tensor, per_sample_weights) = {};
  FLAMBEAU_OPTION(bool, include_last_offset) = false;
};

Tensor embedding(const Tensor& input, const Tensor& weight,
                 const EmbeddingFuncOptions& options = {});
Tensor embedding_bag(const Tensor& input, const Tensor& weight,
                     const EmbeddingBagFuncOptions& options = {});
Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1);

namespace detail {  // with its options one by one
Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                 std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                 bool sparse);
}  // namespace detail

}  // namespace functional

struct EmbeddingOptions {
  EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  FLAMBEAU_OPTION(int64_t, num_embeddings);
  FLAMBEAU_OPTION(int64_t, embedding_dim);
  FLAMBEAU_LOOKUP;
  FLAMBEAU_OPTION(Tensor, _weight) = {};
};
struct EmbeddingBagOptions {
  EmbeddingBagOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  FLAMBEAU_OPTION(int64_t, num_embeddings);
  FLAMBEAU_OPTION(int64_t, embedding_dim);
  FLAMBEAU_LOOKUP;
  FLAMBEAU_OPTION(EmbeddingBagMode, mode) = kMean;
  FLAMBEAU_OPTION(Tensor, _weight) = {};
  FLAMBEAU_OPTION(bool, include_last_offset) = false;
};
#undef FLAMBEAU_LOOKUP
using EmbeddingFromPretrainedOptions = functional::EmbeddingFuncOptions;
using EmbeddingBagFromPretrainedOptions = functional::EmbeddingBagFuncOptions;

class EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(EmbeddingImpl, EmbeddingOptions);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& indices);

  Tensor weight;
};
class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder<EmbeddingImpl>::ModuleHolder;
  using Impl = EmbeddingImpl;
  static Embedding from_pretrained(const Tensor& embeddings,
                                   const EmbeddingFromPretrainedOptions& options = {});
};

class EmbeddingBagImpl : public Cloneable<EmbeddingBagImpl> {
 public:
  FLAMBEAU_FROM_OPTIONS(EmbeddingBagImpl, EmbeddingBagOptions);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& offsets = {},
                 const Tensor& per_sample_weights = {});

  Tensor weight;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})
};
class EmbeddingBag : public ModuleHolder<EmbeddingBagImpl> {
 public:
  using ModuleHolder<EmbeddingBagImpl>::ModuleHolder;
  using Impl = EmbeddingBagImpl;
  static EmbeddingBag from_pretrained(const Tensor& embeddings,
                                      const EmbeddingBagFromPretrainedOptions& options = {});
};

}  // namespace flambeau::torch::nn
