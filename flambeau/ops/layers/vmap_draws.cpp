// Random numbers inside vmap: of each sample, the same for all, or an error, as the caller of vmap
// has chosen.
#include "flambeau/base/check.h"
#include "flambeau/ops/layers/batching.h"

namespace flambeau {
namespace {

bool any_batched(const Batching& batch) {
  for (int i = 0; i < batch.call().op().arity; ++i) {
    if (batch.is_batched(i)) return true;
  }
  return false;
}

void repeat_results(const Batching& batch, Result& result) {
  if (result.tensor.defined()) result.tensor = batch.whole(result.tensor);
  for (Tensor& tensor : result.tensors) tensor = batch.whole(tensor);
}

// One draw for all samples.
bool draw_same(Batching& batch, Result& result) {
  if (!any_batched(batch)) {
    batch.run(result);
    return true;  // not batched: all samples see the same tensor
  }
  const Tensor input = batch.tensor(0);
  const bool fills = batch.call().in_place() || batch.name().ends_with("_like");
  const bool masks = batch.find("train") >= 0 || batch.find("training") >= 0;
  CHECK((fills || masks) && input.defined() && batch.only(0), RuntimeError,
        "vmap: {}() with randomness='same' draws by values that each sample has its own of; use "
        "randomness='different'",
        batch.name());
  const Tensor sample = tensor_op("select", {batch.samples(0), 0, 0});
  const Tensor drawn = masks ? tensor_op("ones_like", {sample}) : tensor_op("empty_like", {sample});
  batch.rewrite().set(0, drawn);
  batch.run(result);
  if (masks) {
    result.tensor = tensor_op("mul", {batch.samples(0), result.tensor});
    if (batch.call().in_place()) tensor_op("copy_", {batch.samples(0), result.tensor});
  } else if (batch.call().in_place()) {
    tensor_op("copy_", {batch.samples(0), result.tensor});
  } else {
    repeat_results(batch, result);
  }
  return true;
}

// A draw whose first dimension counts samples.
bool draw_different(Batching& batch, Result& result) {
  const int size = batch.find("size");
  const bool in_place = batch.call().in_place();
  CHECK(
      !in_place || batch.is_batched(0), RuntimeError,
      "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
      "like same randomness. If this is necessary for your usage, please give {} a tensor that has "
      "a dimension of samples.",
      batch.name());
  if (size >= 0 && batch.kind(size) == Kind::ints) {
    Dims sizes = batch.ints("size");
    sizes.insert(sizes.begin(), batch.size());
    batch.rewrite().set(size, sizes);
    batch.run(result);
    return true;
  }
  const Tensor input = batch.tensor(0);
  if (!input.defined() && !any_batched(batch)) {  // randperm: a draw a sample
    std::vector<Tensor> parts(batch.size());
    for (Tensor& part : parts) {
      Result one;
      batch.run(one);
      part = one.tensor;
    }
    result.form = Result::Form::tensor;
    result.tensor = tensor_op("stack", {parts});
    return true;
  }
  // Ranks differ where a mean has dimensions that a deviation lacks.
  int64_t rank = 0;
  for (int i = 0; i < batch.call().op().arity; ++i) {
    if (const Tensor one = batch.tensor(i); one.defined()) rank = std::max(rank, one.dim());
  }
  batch.rewrite().tensors([&](const Tensor& one, int i) {
    Tensor whole = i == 0 || batch.is_batched(one) ? batch.whole(one) : one;
    for (int64_t d = one.dim(); d < rank && (i == 0 || batch.is_batched(one)); ++d)
      whole = unsqueeze_at(whole, 1);
    return i == 0 && !batch.is_batched(one) ? tensor_op("contiguous", {whole}) : whole;
  });
  batch.run(result);
  return true;
}

}  // namespace

bool draws_nothing(const Batching& batch) {
  const int train = batch.find("train") >= 0 ? batch.find("train") : batch.find("training");
  return train >= 0 && !batch.value(train).flag;
}

bool batch_draws(Batching& batch, Result& result) {
  if (draws_nothing(batch)) {
    batch.use_samples();
    batch.run(result);
    return true;
  }
  CHECK(
      batch.randomness() != Randomness::error, RuntimeError,
      "vmap: called random operation while in randomness error mode. Please either use the 'same' "
      "or 'different' randomness flags on vmap or perform the randomness operation out of vmap");
  return batch.randomness() == Randomness::same ? draw_same(batch, result)
                                                : draw_different(batch, result);
}

}  // namespace flambeau
