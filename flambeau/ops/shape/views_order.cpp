// Views that expand dimensions or change their order.
#include <algorithm>

#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {

// --- Broadcasting ------------------------------------------------------------------------------

Tensor expand(const Tensor& input, IntSpan size) {
  REDIRECT(expand, input, size)
  const int64_t rank = static_cast<int64_t>(size.size()), extra = rank - input.dim();
  CHECK(extra >= 0, RuntimeError,
        "expand(torch.{}Tensor{{}}, size={}): the number of sizes provided ({}) must be greater or "
        "equal to the number of dimensions in the tensor ({})",
        dtype_legacy_name(input.dtype()), input.sizes(), size, rank, input.dim());
  CHECK(rank <= max_dims, RuntimeError, "expand: a tensor can have at most {} dimensions, got {}",
        max_dims, rank);
  Dims sizes(rank, 0), strides(rank, 0);
  for (int64_t d = rank; d-- > 0;) {
    const int64_t own = d - extra;
    const int64_t have = own >= 0 ? input->sizes[own] : 1;
    const int64_t stride = own >= 0          ? input->strides[own]
                           : input.dim() > 0 ? sizes[d + 1] * strides[d + 1]
                                             : 0;
    int64_t want = size[d];
    if (want == -1) {
      CHECK(
          own >= 0, RuntimeError,
          "The expanded size of the tensor ({}) isn't allowed in a leading, non-existing dimension "
          "{}",
          want, d);
      want = have;
    }
    CHECK(want == have || (have == 1 && want >= 0), RuntimeError,
          "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton "
          "dimension {}.  Target sizes: {}.  Tensor sizes: {}",
          want, have, d, size, input.sizes());
    sizes[d] = want;
    strides[d] = have == 1 && want != 1 ? 0 : stride;
  }
  checked_numel(sizes);
  Tensor out = window(input, sizes, strides, input.offset());
  // The engine sums the gradient over what was expanded.
  if (Record r{"expand", out, {input}}) r.wrt(0, [](const Tensor& g) { return g; });
  return out;
}
namespace {
Tensor expand_op(const Tensor& self, IntSpan size, bool) { return expand(self, size); }
Tensor expand_as(const Tensor& self, const Tensor& other) { return expand(self, other.sizes()); }
Tensor broadcast_to(const Tensor& input, IntSpan size) { return expand(input, size); }
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Dims shape;
  for (const Tensor& tensor : tensors) shape = broadcast_shapes(shape, tensor.sizes());
  std::vector<Tensor> out;
  for (const Tensor& tensor : tensors) {
    out.push_back(tensor.sizes() == shape ? tensor : expand(tensor, shape));
  }
  return out;
}
}  // namespace
OP_METHOD(expand_op, "expand(self, *size, *, implicit=False)",
          "A view of self in which dimensions of size 1 are repeated to the given size.",
          makes_view | reshapes)
OP_METHOD(expand_as, "expand_as(self, other)", "self expanded to the shape of other.",
          makes_view | composed)
OP_VIEW(broadcast_to, "broadcast_to(input, *size)", "input broadcast to the given size.",
        reshapes | composed)
OP_FUNCTION(broadcast_tensors, "broadcast_tensors(*tensors)",
            "The tensors expanded to their common shape.", makes_view | composed)

// --- Order of dimensions -----------------------------------------------------------------------

Tensor permute(const Tensor& input, IntSpan dims) {
  REDIRECT(permute, input, dims)
  CHECK(static_cast<int64_t>(dims.size()) == input.dim(), RuntimeError,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
        "of the "
        "desired ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        input.dim(), dims.size());
  const size_t rank = dims.size();
  Dims sizes(rank, 0), strides(rank, 0), back(rank, -1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t d = wrap_dim(dims[i], input.dim());
    CHECK(back[d] == -1, RuntimeError, "permute(): duplicate dims are not allowed. Got dims {}",
          dims);
    back[d] = static_cast<int64_t>(i);
    sizes[i] = input->sizes[d];
    strides[i] = input->strides[d];
  }
  Tensor out = window(input, sizes, strides, input.offset());
  if (Record r{"permute", out, {input}}) {
    r.wrt(0, [back](const Tensor& g) { return permute(g, back); });
  }
  return out;
}
OP_FUNCTION(permute, "permute(input, dims)",
            "A view of input with its dimensions in the order dims.", makes_view | reshapes)
OP_METHOD(permute, "permute(self, *dims)", "A view of self with its dimensions in the order dims.",
          makes_view | reshapes)

namespace {
Tensor exchange(const char* op, const Tensor& input, int64_t dim0, int64_t dim1) {
  dim0 = wrap_dim(dim0, input.dim());
  dim1 = wrap_dim(dim1, input.dim());
  Dims sizes = input->sizes, strides = input->strides;
  if (dim0 != dim1) {
    std::swap(sizes[dim0], sizes[dim1]);
    std::swap(strides[dim0], strides[dim1]);
  }
  Tensor out = window(input, sizes, strides, input.offset());
  if (Record r{op, out, {input}}) {
    r.wrt(0, [dim0, dim1](const Tensor& g) { return transpose(g, dim0, dim1); });
  }
  return out;
}
}  // namespace

Tensor transpose(const Tensor& input, int64_t dim0, int64_t dim1) {
  REDIRECT(transpose, input, dim0, dim1)
  return exchange("transpose", input, dim0, dim1);
}
OP_VIEW(transpose, "transpose.int(input, dim0, dim1)",
        "A view of input with two dimensions exchanged.", reshapes | takes_nested)
OP_VIEW(transpose, "swapdims(input, dim0, dim1)", "A view of input with two dimensions exchanged.",
        reshapes | takes_nested | composed)
OP_VIEW(transpose, "swapaxes(input, axis0, axis1)",
        "A view of input with two dimensions exchanged.", reshapes | takes_nested | composed)

Tensor t(const Tensor& input) {
  REDIRECT(t, input)
  CHECK(input.dim() <= 2, RuntimeError,
        "t() expects a tensor with <= 2 dimensions, but self is {}D", input.dim());
  return exchange("t", input, 0, input.dim() < 2 ? 0 : 1);
}
OP_VIEW(t, "t(input)", "The transposed matrix; vectors and numbers stay as they are.")

namespace {
bool batch_t(Batching& batch, Result& result) {
  if (batch.rank(0) > 2) return false;
  const Tensor samples = batch.samples(0);
  result.form = Result::Form::tensor;
  const char* exchange = batch.call().in_place() ? "transpose_" : "transpose";
  result.tensor = batch.rank(0) < 2 ? samples : tensor_op(exchange, {samples, 1, 2});
  return true;
}
bool batch_adjoint(Batching& batch, Result& result) {
  if (batch.rank(0) < 2) return false;
  batch.use_samples();
  batch.run(result);
  return true;
}
// A size of more dimensions than the sample has ones behind the batch.
bool batch_expand(Batching& batch, Result& result) {
  const int at = batch.find("size");
  Dims size = batch.ints("size");
  Dims own = {batch.size()};
  for (size_t d = batch.rank(0); d < size.size(); ++d) own.push_back(1);
  for (const int64_t n : batch.tensor(0).sizes()) own.push_back(n);
  size.insert(size.begin(), batch.size());
  const Tensor samples = batch.samples(0);
  batch.rewrite().set(
      0, static_cast<int64_t>(own.size()) == samples.dim() ? samples : reshape_to(samples, own));
  batch.rewrite().set(at, size);
  batch.run(result);
  return true;
}
}  // namespace
BATCH(t, batch_t)
BATCH(t_, batch_t)
BATCH(t_copy, batch_t)
BATCH(adjoint, batch_adjoint)
BATCH(expand, batch_expand)
BATCH(expand_copy, batch_expand)
BATCH(broadcast_to, batch_expand)

Tensor numpy_T(const Tensor& input) {
  Dims dims(input.dim(), 0);
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(dims.size() - 1 - i);
  return permute(input, dims);
}

namespace {
void check_matrices(const char* name, const Tensor& input) {
  CHECK(input.dim() != 1, RuntimeError,
        "tensor.{} is only supported on matrices or batches of matrices. Got 1-D tensor.", name);
}
}  // namespace

Tensor mT(const Tensor& input) {
  check_matrices("mT", input);
  return input.dim() == 0 ? input : transpose(input, -2, -1);
}
Tensor mH(const Tensor& input) {
  check_matrices("mH", input);
  return conj(input.dim() == 0 ? input : transpose(input, -2, -1));
}
Tensor matrix_H(const Tensor& input) {
  CHECK(input.dim() == 2 || input.dim() == 0, RuntimeError,
        "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.{}", input.dim(),
        input.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  return conj_view(input.dim() == 0 ? input : transpose(input, 0, 1));
}
Tensor adjoint(const Tensor& input) {
  REDIRECT(adjoint, input)
  check_matrices("adjoint()", input);
  return conj_view(input.dim() == 0 ? input : transpose(input, -2, -1));
}
OP_VIEW(adjoint, "adjoint(input)", "Matrices transposed and conjugated.", composed)

Tensor movedim(const Tensor& input, IntSpan source, IntSpan destination) {
  REDIRECT(movedim, input, source, destination)
  CHECK(source.size() == destination.size(), RuntimeError,
        "movedim: Invalid source or destination dims: source ({} dims) should contain the same "
        "number "
        "of dims as destination ({} dims)",
        source, destination);
  const int64_t rank = input.dim();
  Dims order(rank, -1);
  std::vector<bool> moved(rank, false);
  if (rank == 0) {
    for (const int64_t dim : source) wrap_dim(dim, 0);
    for (const int64_t dim : destination) wrap_dim(dim, 0);
    return alias(input);
  }
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t from = wrap_dim(source[i], rank), to = wrap_dim(destination[i], rank);
    CHECK(!moved[from], RuntimeError, "movedim: repeated dim in `source` ({})", source);
    CHECK(order[to] == -1, RuntimeError, "movedim: repeated dim in `destination` ({})",
          destination);
    moved[from] = true;
    order[to] = from;
  }
  int64_t next = 0;
  for (int64_t& place : order) {
    if (place != -1) continue;
    while (moved[next]) ++next;
    place = next++;
  }
  return permute(input, order);
}
namespace {
Tensor movedim_one(const Tensor& input, int64_t source, int64_t destination) {
  return movedim(input, source, destination);
}
}  // namespace
OP_VIEW(movedim_one, "movedim(input, source, destination)",
        "A view of input with dimensions moved.", composed)
OP_VIEW(movedim, "movedim(input, source, destination)", "A view of input with dimensions moved.",
        composed)
OP_VIEW(movedim_one, "moveaxis(input, source, destination)",
        "A view of input with dimensions moved.", composed)
OP_VIEW(movedim, "moveaxis(input, source, destination)", "A view of input with dimensions moved.",
        composed)

}  // namespace flambeau
