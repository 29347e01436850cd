// Tensors made to a plan that another tensor is part of: even steps between given tensors, memory
// in a given order of dimensions, the indices of nonzero elements in a fixed number of rows.
#include <cmath>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/kernels/creation.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/creation/known_contents.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// --- Even steps ----------------------------------------------------------------------------------

Scalar end_point(const char* op, const char* name, const Operand& value) {
  if (!value.is_tensor()) return value.scalar();
  CHECK(value.tensor().dim() == 0, RuntimeError,
        "{} only supports 0-dimensional start and end tensors, but got {} with {} dimension(s).",
        op, name, value.tensor().dim());
  return item(value.tensor());
}

// The ends as the dtype holds them: between integers the steps are those of whole numbers.
Scalar held(const Scalar& value, DType dtype) {
  return is_integral(dtype, true) ? Scalar(value.to_int()) : value;
}

Tensor even_steps(const char* op, const Scalar& start, const Scalar& end, int64_t steps,
                  DType dtype, DType holds, Device device) {
  Tensor out = make_tensor(steps, dtype, device);
  if (steps == 1) return filled(out, start);
  if (steps == 0) return out;
  compute_dtype(op, dtypes::Numeric, holds);
  check_number_fits(op, start, holds);
  check_number_fits(op, end, holds);
  kernels::linspace(out.device_type(), out, held(start, holds), held(end, holds));
  return out;
}

DType steps_dtype(const Scalar& start, const Scalar& end, const Options& options) {
  const bool is_complex = start.is_complex() || end.is_complex();
  return options.dtype_or(is_complex ? default_complex_dtype() : default_dtype());
}

Tensor linspace_between(const Operand& start, const Operand& end, int64_t steps,
                        const Options& options) {
  CHECK(steps >= 0, RuntimeError, "number of steps must be non-negative");
  const Scalar first = end_point("linspace", "start", start);
  const Scalar last = end_point("linspace", "end", end);
  const DType dtype = steps_dtype(first, last, options);
  const Device device = options.device_or_default();
  return finished(even_steps("linspace", first, last, steps, dtype, dtype, device), options);
}

Tensor logspace_between(const Operand& start, const Operand& end, int64_t steps, double base,
                        const Options& options) {
  CHECK(steps >= 0, RuntimeError, "number of steps must be non-negative");
  const Scalar first = end_point("logspace", "start", start);
  const Scalar last = end_point("logspace", "end", end);
  const DType dtype = steps_dtype(first, last, options);
  const DType wide = is_integral(dtype, true) ? DType::float64 : dtype;
  const Tensor exponents =
      even_steps("logspace", first, last, steps, wide, dtype, options.device_or_default());
  return finished(to(pow(Operand(base), exponents), dtype), options);
}
OP_FUNCTION(linspace_between,
            "linspace.Tensor_Tensor/Tensor_Scalar/default(start, end, steps, **options)",
            "steps numbers evenly from start to end, both included.", counts | out_fails)
OP_FUNCTION(logspace_between,
            "logspace.Tensor_Tensor/Tensor_Scalar/default(start, end, steps, base=10.0, **options)",
            "steps numbers from base ** start to base ** end, evenly in their logarithms.", counts)

// --- Memory in a given order ---------------------------------------------------------------------

Tensor empty_permuted(IntSpan size, IntSpan physical_layout, const Options& options) {
  const auto rank = static_cast<int64_t>(size.size());
  CHECK(physical_layout.size() == size.size(), RuntimeError,
        "Number of dimensions in size does not match the length of the physical_layout; i.e. "
        "len(size) = {} is not equal to len(physical_layout) = {}",
        size.size(), physical_layout.size());
  for (const int64_t length : size) {
    CHECK(length >= 0, RuntimeError, "Trying to create tensor with negative dimension {}: {}",
          length, size);
  }
  Dims strides(size.size(), 0);
  std::vector<bool> seen(size.size());
  int64_t step = 1;
  for (int64_t k = rank - 1; k >= 0; --k) {
    const int64_t dim = physical_layout[k];
    CHECK(dim >= 0 && dim < rank, RuntimeError,
          "Dimension out of range (expected to be between 0 and {}, but got {} at index {}).  NB: "
          "negative dims not currently supported; file an issue if you want it.",
          rank - 1, dim, k);
    CHECK(!seen[dim], RuntimeError, "Duplicate dim not allowed");
    seen[dim] = true;
    strides[dim] = step;
    step = next_stride(step, size[dim]);
  }
  const DType dtype = options.dtype_or(default_dtype());
  const Tensor fresh = make_strided(size, strides, dtype, options.device_or_default());
  return finished(known_contents(fresh), options);
}
OP_FUNCTION(empty_permuted, "empty_permuted(size, physical_layout, **options)",
            "A tensor of arbitrary values whose dimensions lie in memory in the given order, the "
            "outermost first.",
            no_out)

// --- Indices of nonzero elements
// ------------------------------------------------------------------

// The same without waiting to know how many there are: the k-th lies where k have been counted.
Tensor nonzero_static_on_device(const Tensor& input, const Tensor& empty_indices) {
  const int64_t numel = input.numel(), size = empty_indices.size(0);
  const Options options{.dtype = DType::int64, .device = input.device()};
  const Tensor counts = make_tensor(numel, DType::int64, input.device());
  const Tensor marks = to(reshape(input != 0, -1), DType::int64);
  kernels::cumsum(input.device_type(), marks, counts, 0, false);
  Tensor index = make_tensor(size, DType::int64, input.device());
  kernels::searchsorted(input.device_type(), counts, arange(1, size + 1, 1, options), Tensor(),
                        index, false);
  const Tensor there = unsqueeze(index < numel, 1);
  std::vector<Tensor> columns(input.dim());
  for (int64_t d = input.dim() - 1; d >= 0; --d) {
    columns[d] = remainder(index, input->sizes[d]);
    index = div_floor(index, input->sizes[d]);
  }
  return where(there, stack(columns, 1), empty_indices);
}

Tensor nonzero_static(const Tensor& input, int64_t size, int64_t fill_value) {
  CHECK(size >= 0, RuntimeError, "nonzero_static: 'size' must be an non-negative integer");
  const Dims shape{size, input.dim()};
  Tensor out = full(shape, fill_value, {.dtype = DType::int64, .device = input.device()});
  if (input.device().is_meta() || out.numel() == 0 || input.numel() == 0) return out;
  if (!input.device().is_cpu()) {
    const NoGrad off;
    return nonzero_static_on_device(input, out);
  }
  const Tensor found = nonzero(input);
  const int64_t rows = std::min(size, found.size(0));
  copy_(narrow(out, 0, 0, rows), narrow(found, 0, 0, rows));
  return out;
}
OP(nonzero_static, "nonzero_static(input, *, size, fill_value=-1)",
   "The first `size` indices of nonzero elements; rows beyond the last hold fill_value.", no_out)

// --- A checksum ----------------------------------------------------------------------------------

// The exclusive or along the last dimension, by folding it in half.
Tensor xor_last(Tensor x) {
  while (x.size(-1) > 1) {
    const int64_t half = x.size(-1) / 2;
    Tensor folded = bitwise_xor(narrow(x, -1, 0, half), narrow(x, -1, half, half));
    if (x.size(-1) % 2) folded = cat({folded, narrow(x, -1, 2 * half, 1)}, -1);
    x = folded;
  }
  return select(x, -1, 0);
}

Tensor hash_tensor(const Tensor& input, std::optional<IntSpan> dim, bool keepdim, int64_t mode) {
  CHECK(mode == 0, RuntimeError, "Unknown hash_tensor mode: {}", mode);
  CHECK(!input.is_complex() || input.numel() == 0, NotImplementedError,
        "\"xor_sum_cpu\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const bool all = !dim || dim->size() == 0;
  CHECK(!all || input.numel() > 0, RuntimeError,
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction dim with the 'dim' argument.");
  const Tensor plain = input.is_complex() ? real(detach(input)) : detach(input);
  const Tensor wide = to(plain, plain.is_floating() ? DType::float64 : DType::int64);
  Dims kept, reduced, shape;
  for (int64_t d = 0; d < input.dim(); ++d) {
    int64_t named = all;
    for (const int64_t one : all ? IntSpan{} : *dim) named += wrap_dim(one, input.dim()) == d;
    CHECK(named <= 1, RuntimeError,
          "hash_tensor: dim {} appears multiple times in the list of dims", d);
    const bool is_reduced = named > 0;
    CHECK(!is_reduced || input.size(d) > 0, IndexError,
          "hash_tensor: Expected reduction dim {} to have non-zero size.", d);
    (is_reduced ? reduced : kept).push_back(d);
    if (!is_reduced || keepdim) shape.push_back(is_reduced ? 1 : input.size(d));
  }
  Dims order = kept, rows;
  for (const int64_t d : kept) rows.push_back(input.size(d));
  for (const int64_t d : reduced) order.push_back(d);
  int64_t count = 1;
  for (const int64_t d : reduced) count *= input.size(d);
  rows.push_back(count);
  const Tensor bits = view(contiguous(reshape(permute(wide, order), rows)), DType::int64);
  return view(contiguous(reshape(xor_last(bits), shape)), DType::uint64);
}
OP(hash_tensor, "hash_tensor(input, dim=None, *, keepdim=False, mode=0)",
   "The exclusive or of the bits of all elements, widened to 64 bits.", out_drops | out_repeats)

}  // namespace
}  // namespace flambeau
