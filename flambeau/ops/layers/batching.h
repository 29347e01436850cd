// What a batching rule is given: a call with batched tensors among its values, one level of which
// it peels off. A rule calls ops by the entry (call_op.h): what is behind may be batched in turn.
#pragma once

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/layers.h"
#include "flambeau/ops/layers/vmap.h"
#include "flambeau/tensor/batched.h"

namespace flambeau {

class Batching {
 public:
  Batching(const OpCall& call, int level)
      : call_(call), level_(level), size_(vmap_level(level).size), rewrite_(call) {}

  [[nodiscard]] const OpCall& call() const { return call_; }
  [[nodiscard]] const std::string& name() const { return call_.name(); }
  [[nodiscard]] int level() const { return level_; }
  [[nodiscard]] int64_t size() const { return size_; }  // of the batch
  [[nodiscard]] Randomness randomness() const { return vmap_level(level_).randomness; }

  // The parameter of this name, or -1.
  [[nodiscard]] int find(std::string_view parameter) const;
  [[nodiscard]] bool given(int i) const { return i >= 0 && call_.values[i].given; }
  [[nodiscard]] Kind kind(int i) const { return call_.op().kinds[i]; }
  [[nodiscard]] const Value& value(int i) const { return call_.values[i]; }
  // The integer, flag or text called so.
  [[nodiscard]] int64_t integer(std::string_view parameter) const;
  [[nodiscard]] bool flag(std::string_view parameter) const;
  [[nodiscard]] std::string_view text(std::string_view parameter) const;
  [[nodiscard]] Dims ints(std::string_view parameter) const;

  // The tensor at i, of one sample; undefined where there is none.
  [[nodiscard]] Tensor tensor(int i) const;
  [[nodiscard]] int64_t rank(int i) const { return tensor(i).dim(); }
  [[nodiscard]] bool is_batched(int i) const;
  [[nodiscard]] bool is_batched(const Tensor& one) const {
    return one.defined() && is_batched_at(one, level_);
  }
  // Whether no other tensor than this one is batched.
  [[nodiscard]] bool only(int i) const;
  // All samples, counted by the first dimension; a tensor that is not batched as it is.
  [[nodiscard]] Tensor samples(int i) const { return samples(tensor(i)); }
  [[nodiscard]] Tensor samples(const Tensor& one) const;
  // The same; a tensor that is not batched is repeated for each sample.
  [[nodiscard]] Tensor whole(int i) const { return whole(tensor(i)); }
  [[nodiscard]] Tensor whole(const Tensor& one) const;

  // The values of the call that run() makes; at first those of the call, batched ones included.
  [[nodiscard]] Rewrite& rewrite() { return rewrite_; }
  // Gives every tensor as samples or whole.
  void use_samples();
  void use_whole();
  // The op with the values as they are now, or another overload of it.
  void run(Result& result);

 private:
  const OpCall& call_;
  int level_;
  int64_t size_;
  Rewrite rewrite_;
};

// False if it does not know what to do with these arguments: then the op is called for each sample.
// Tensors of the result have their samples in front.
using BatchRule = bool (*)(Batching& batch, Result& result);
struct BatchRegistration {
  BatchRegistration(std::string_view op, BatchRule rule);
};
// The rule of an op that its kind does not tell, beside the op: BATCH(conv2d, batch_conv).
#define BATCH(op, rule)                                                                       \
  static const ::flambeau::BatchRegistration FLAMBEAU_JOIN(batch_registration_, __COUNTER__)( \
      #op, rule);

// Rules that several ops have (vmap_rules.cpp).
bool batch_first(Batching& batch, Result& result);  // the first tensor alone counts samples
// Element by element, and then what `reduction` says.
bool batch_loss(Batching& batch, Result& result);

// The first dimension of all operands counts items, each computed for itself: those of all samples
// are items of one larger call. An item has so many dimensions, and may come without the one that
// counts them; 0: it may not.
bool batch_items(Batching& batch, Result& result, int dims);
template <int dims>
bool batch_items(Batching& batch, Result& result) {
  return batch_items(batch, result, dims);
}
// Along `dim` at the positions that `index`, a vector, names.
bool batch_at_index(Batching& batch, Result& result);
// The sum over everything but the first dimension.
Tensor sum_samples(const Tensor& x);

// All samples, with ones between the batch and the dimensions of a sample, up to `rank` of these.
Tensor aligned(const Batching& batch, const Tensor& one, int64_t rank);

// By the kind of the op (vmap_kinds.cpp).
bool batch_elementwise(Batching& batch, Result& result);
bool batch_by_kind(Batching& batch, Result& result);
// Random numbers (vmap_draws.cpp); also of calls without batched tensors. Dropout and the like draw
// in training only.
bool draws_nothing(const Batching& batch);
bool batch_draws(Batching& batch, Result& result);

// `dims` counted from the front, of `rank` dimensions, one further back.
int64_t shifted(int64_t dim, int64_t rank);
Dims shifted(IntSpan dims, int64_t rank);

// Views of all samples, by the entry.
inline Tensor reshape_to(const Tensor& x, const Dims& size) {
  return tensor_op("reshape", {x, size});
}
inline Tensor unsqueeze_at(const Tensor& x, int64_t dim) {
  return tensor_op("unsqueeze", {x, dim});
}
inline Tensor squeeze_at(const Tensor& x, int64_t dim) { return tensor_op("squeeze", {x, dim}); }
inline Tensor move_dim(const Tensor& x, int64_t from, int64_t to) {
  return tensor_op("movedim", {x, from, to});
}
inline Tensor expand_to(const Tensor& x, const Dims& size) {
  return tensor_op("expand", {x, size});
}
inline Tensor fold_batch(const Tensor& x) { return tensor_op("flatten", {x, 0, 1}); }
inline Tensor unfold_batch(const Tensor& x, int64_t size) {
  return tensor_op("unflatten", {x, 0, Dims{size, -1}});
}

}  // namespace flambeau
