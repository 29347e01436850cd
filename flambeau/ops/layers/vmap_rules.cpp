// Batching rules that ops of several files have.
#include <numeric>

#include "flambeau/ops/layers/batching.h"

namespace flambeau {

bool batch_first(Batching& batch, Result& result) {
  if (!batch.is_batched(0)) return false;
  batch.rewrite().set(0, batch.samples(0));
  batch.run(result);
  return true;
}

bool batch_items(Batching& batch, Result& result, int dims) {
  const bool single = dims > 0 && batch.rank(0) == dims;
  bool fits = batch.rank(0) > 0;
  batch.rewrite().tensors([&](const Tensor& one, int) {
    fits &= single || one.dim() > 0;
    return single || !fits ? batch.whole(one) : fold_batch(batch.whole(one));
  });
  if (!fits) return false;
  batch.run(result);
  if (single) return true;
  const auto unfold = [&](const Tensor& all) {
    Dims size = all.sizes().dims();
    size[0] = batch.tensor(0).size(0);
    size.insert(size.begin(), batch.size());
    return reshape_to(all, size);
  };
  if (result.tensor.defined()) result.tensor = unfold(result.tensor);
  for (Tensor& tensor : result.tensors) tensor = unfold(tensor);
  return true;
}

bool batch_at_index(Batching& batch, Result& result) {
  const int at = batch.find("index");
  const int64_t rank = batch.rank(0);
  if (rank == 0) return false;
  const int64_t dim = shifted(batch.integer("dim"), rank);
  if (!batch.is_batched(at)) {
    batch.rewrite().tensors(
        [&](const Tensor& one, int i) { return i == at ? Tensor() : batch.whole(one); });
    batch.rewrite().set_integer(batch.find("dim"), dim);
    batch.run(result);
    return true;
  }
  if (batch.name() != "index_select") return false;
  // Each sample has positions of its own, the same in all other dimensions.
  const Tensor input = batch.whole(0);
  Dims ones(rank + 1, 1), sizes = input.sizes().dims();
  ones[0] = batch.size();
  ones[dim] = sizes[dim] = batch.tensor(at).numel();
  const Tensor index = expand_to(reshape_to(batch.samples(at), ones), sizes);
  result = call_op("gather", {input, dim, index});
  return true;
}

Tensor sum_samples(const Tensor& x) {
  if (x.dim() < 2) return x;
  Dims dims(x.dim() - 1);
  std::iota(dims.begin(), dims.end(), 1);
  return tensor_op("sum", {x, dims});
}

bool batch_loss(Batching& batch, Result& result) {
  const int at = batch.find("reduction");
  if (at < 0 || batch.value(at).integer > 2) return false;
  batch.rewrite().set_integer(at, 0);
  bool alike = true;  // some losses do not broadcast
  batch.rewrite().tensors([&](const Tensor& one, int) {
    alike &= one.dim() == batch.rank(0);
    return Tensor();
  });
  if (alike) {
    batch.use_whole();
    batch.run(result);
  } else {
    batch_elementwise(batch, result);
  }
  const int64_t reduction = batch.value(at).integer;
  if (reduction == 0) return true;
  int64_t count = 1;
  for (int64_t d = 1; d < result.tensor.dim(); ++d) count *= result.tensor.size(d);
  result.tensor = sum_samples(result.tensor);
  if (reduction == 1) result.tensor = tensor_op("div", {result.tensor, count});
  return true;
}

}  // namespace flambeau
