// What occurs, and how often: unique elements and rows, runs of equal ones, the mode. All of them
// sort, and look at where neighbours differ. NaN differs from everything.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/indexing.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

Pair sorted_along(const Tensor& x, int64_t dim) {
  Tensor values = make_tensor(x.sizes(), x.dtype(), x.device());
  Tensor indices = make_tensor(x.sizes(), DType::int64, x.device());
  kernels::sort(x.device_type(), x, values, indices, dim, false);
  return {values, indices};
}

Tensor no_integers(Device device) { return make_tensor(IntSpan{0}, DType::int64, device); }

// starts[i]: whether element (or row) i differs from the one before it.
Tensor run_starts(const Tensor& x) {
  const int64_t n = x.size(0);
  Tensor starts = make_tensor(IntSpan{n}, DType::bool_, x.device());
  if (n > 0) filled(narrow(starts, 0, 0, 1), true);
  if (n <= 1) return starts;
  Tensor later = narrow(starts, 0, 1, n - 1);
  const Tensor here = narrow(x, 0, 1, n - 1), before = narrow(x, 0, 0, n - 1);
  if (x.dim() > 1) {
    copy_(later, amax(ne(here, before), IntSpan{1}, false));
  } else {
    const Operand neighbours[] = {here, before};
    const DType boolean = DType::bool_;
    TensorIter iter;
    iter.build({"unique"}, &later, &boolean, 1, neighbours, 2, x.dtype());
    kernels::ne(x.device_type(), iter, nullptr);
  }
  return starts;
}

// To which run each element belongs.
Tensor run_numbers(const Tensor& starts) {
  Tensor numbers = make_tensor(starts.sizes(), DType::int64, starts.device());
  if (kernels::number_runs.filled(starts.device_type())) {
    kernels::number_runs(starts.device_type(), starts, numbers);
    return numbers;
  }
  const Tensor ones_at_starts = to(starts, DType::int64);
  kernels::cumsum(starts.device_type(), ones_at_starts, numbers, 0, false);
  return numbers - int64_t{1};
}

Tensor run_lengths(const Tensor& positions, int64_t n) {
  const Tensor end = full(IntSpan{1}, n, options_of(positions));
  const int64_t runs = positions.size(0);
  return cat({narrow(positions, 0, 1, runs - 1), end}, 0) - positions;
}

// The parts of the answer, from the elements in order (a vector or rows) and the indices they had,
// which are undefined if they stand where they stood.
struct Runs {
  Tensor firsts, positions, inverse, counts;

  Runs(const Tensor& in_order, const Tensor& order, bool want_inverse, bool want_counts)
      : inverse(no_integers(in_order.device())), counts(no_integers(in_order.device())) {
    const Tensor starts = run_starts(in_order);
    const bool is_vector = in_order.dim() == 1;
    const bool by_mask = is_vector && kernels::masked_select.filled(in_order.device_type());
    if (want_counts || !by_mask) positions = reshape(nonzero(starts), {-1});
    if (by_mask) {
      kernels::masked_select(in_order.device_type(), in_order, starts, firsts);
    } else if (is_vector) {
      firsts = index_select(in_order, 0, positions);
    }
    if (want_inverse) inverse = run_numbers(starts);
    if (want_inverse && order.defined()) inverse = scatter(empty_like(inverse), 0, order, inverse);
    if (want_counts && in_order.size(0) > 0) counts = run_lengths(positions, in_order.size(0));
  }
};

void check_dtype(const Tensor& input) {
  CHECK(!input.is_complex(), NotImplementedError, "\"unique\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
}

// The values have a place in the history, but no derivative.
Triple recorded(const char* op, const Tensor& input, const Triple& found) {
  if (Record r{op, std::get<0>(found), {input}}) {
    r.all([](Grads&, Grads&) {
      fail<NotImplementedError>("the derivative for 'unique' is not implemented.");
    });
  }
  return found;
}

// Integers that lie close together are counted, without sorting; undefined for others.
Triple unique_by_counting(const Tensor& flat, bool want_inverse, bool want_counts) {
  const int64_t n = flat.numel();
  constexpr int64_t fewest = 256;
  const bool counted =
      flat.device().is_cpu() && n >= fewest && !flat.is_floating() && flat.dtype() != DType::uint64;
  if (!counted) return {};
  const Tensor wide = to(flat, DType::int64);
  const int64_t low = item(amin(wide, std::nullopt, false)).to<int64_t>();
  const int64_t high = item(amax(wide, std::nullopt, false)).to<int64_t>();
  // Their difference is right without a sign, even where it is none with one.
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (range >= static_cast<uint64_t>(n)) return {};
  const bool from_zero = low >= 0 && high < n;
  const Tensor indices = from_zero ? wide : wide - low;
  const int64_t size = (from_zero ? high : high - low) + 1;
  const Tensor all = zeros({size}, {.dtype = DType::int64, .device = indices.device()});
  kernels::bincount(DeviceType::cpu, indices, Tensor(), all);
  const Tensor found = reshape(nonzero(all), {-1});
  const Tensor firsts = to(from_zero ? found : found + low, flat.dtype());
  const Tensor none = no_integers(flat.device());
  const Tensor inverse =
      want_inverse ? index_select(run_numbers(ne(all, int64_t{0})), 0, indices) : none;
  return {firsts, inverse, want_counts ? index_select(all, 0, found) : none};
}

Triple unique(const Tensor& input, bool /*sorted*/, bool return_inverse, bool return_counts) {
  check_dtype(input);
  const Tensor flat = contiguous(reshape(detach(input), {-1}));
  Triple counted = unique_by_counting(flat, return_inverse, return_counts);
  if (std::get<0>(counted).defined()) {
    if (return_inverse) std::get<1>(counted) = reshape(std::get<1>(counted), input.sizes());
    return recorded("unique2", input, counted);
  }
  const auto [values, order] = sorted_along(flat, 0);
  Runs runs(values, order, return_inverse, return_counts);
  if (return_inverse) {
    runs.inverse->version = nullptr;  // of what was written while it was made
    runs.inverse = reshape(runs.inverse, input.sizes());
  }
  return recorded("unique2", input, {runs.firsts, runs.inverse, runs.counts});
}
OP_FUNCTION(unique, "_unique2(input, sorted=True, return_inverse=False, return_counts=False)",
            "The distinct elements in order, the place of each element among them, and counts.",
            dynamic_shape | no_out)

// Rows along dim as a matrix, or undefined where there is nothing to tell apart.
Tensor rows_along(const char* op, const Tensor& input, int64_t dim) {
  check_dtype(input);
  CHECK(input.dim() > 0, IndexError, "Dimension specified as {} but tensor has no dimensions", dim);
  bool other_is_empty = false;
  for (int64_t d = 0; d < input.dim(); ++d) other_is_empty |= d != dim && input->sizes[d] == 0;
  CHECK(!other_is_empty || input->sizes[dim] == 0, RuntimeError,
        "There are 0 sized dimensions, and they aren't selected, so {} cannot be applied", op);
  if (input->sizes[dim] == 0) return {};
  const Tensor rows = movedim(detach(input), IntSpan{dim}, IntSpan{0});
  return contiguous(reshape(rows, {input->sizes[dim], -1}));
}

// Chosen rows in the shape of the input.
Tensor rows_back(const Tensor& rows, const Tensor& chosen, const Tensor& input, int64_t dim) {
  Dims shape = movedim(detach(input), IntSpan{dim}, IntSpan{0})->sizes;
  shape[0] = chosen.size(0);
  return movedim(reshape(index_select(rows, 0, chosen), shape), IntSpan{0}, IntSpan{dim});
}

Triple unique_dim(const Tensor& input, int64_t dim, bool /*sorted*/, bool return_inverse,
                  bool return_counts) {
  dim = wrap_dim(dim, input.dim());
  const Tensor rows = rows_along("unique", input, dim);
  const Tensor none = no_integers(input.device());
  if (!rows.defined()) return recorded("unique_dim", input, {clone(detach(input)), none, none});
  const Tensor wide = to(rows, rows.is_floating() ? DType::float64 : DType::int64);
  Tensor order = make_tensor(IntSpan{rows.size(0)}, DType::int64, rows.device());
  kernels::row_order(rows.device_type(), wide, order);
  const Runs runs(index_select(rows, 0, order), order, return_inverse, return_counts);
  const Tensor chosen = index_select(order, 0, runs.positions);
  return recorded("unique_dim", input,
                  {rows_back(rows, chosen, input, dim), runs.inverse, runs.counts});
}
OP_FUNCTION(unique_dim,
            "_unique_dim(input, dim, sorted=True, return_inverse=False, return_counts=False)",
            "The distinct slices along dim in order, the place of each among them, and counts.",
            dynamic_shape)

Triple unique_consecutive(const Tensor& input, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim) {
  if (!dim) {
    check_dtype(input);
    const Tensor flat = contiguous(reshape(detach(input), {-1}));
    Runs runs(flat, {}, return_inverse, return_counts);
    if (return_inverse) runs.inverse = reshape(runs.inverse, input.sizes());
    return recorded("unique_consecutive", input, {runs.firsts, runs.inverse, runs.counts});
  }
  const int64_t along = wrap_dim(*dim, input.dim());
  const Tensor rows = rows_along("unique_consecutive", input, along);
  const Tensor none = no_integers(input.device());
  if (!rows.defined())
    return recorded("unique_consecutive", input, {clone(detach(input)), none, none});
  const Runs runs(rows, {}, return_inverse, return_counts);
  return recorded("unique_consecutive", input,
                  {rows_back(rows, runs.positions, input, along), runs.inverse, runs.counts});
}
OP_FUNCTION(unique_consecutive,
            "_unique_consecutive.unique_consecutive.default(input, return_inverse=False, "
            "return_counts=False, dim=None)",
            "The first of each run of equal elements, the run of each element, and run lengths.",
            dynamic_shape)

// --- The mode ------------------------------------------------------------------------------------

// The position in sorted rows where the first of the longest runs ends.
Tensor end_of_longest_run(const Tensor& values) {
  const int64_t n = values.size(-1);
  const Tensor at =
      arange(int64_t{0}, n, int64_t{1}, {.dtype = DType::int64, .device = values.device()});
  const Tensor later = narrow(values, -1, 1, n - 1), earlier = narrow(values, -1, 0, n - 1);
  // Where each run starts, carried on to all its elements.
  const Tensor starts = where(ne(later, earlier), narrow(at, 0, 1, n - 1), int64_t{0});
  Dims edge = values->sizes;
  edge.back() = 1;
  const Tensor marks = contiguous(cat({zeros(edge, options_of(starts)), starts}, -1));
  Tensor begun = make_tensor(marks.sizes(), DType::int64, marks.device());
  Tensor unused = make_tensor(marks.sizes(), DType::int64, marks.device());
  kernels::cummax(marks.device_type(), marks, begun, unused, marks.dim() - 1);
  return argmax(at - begun, -1, true);
}

// By a kernel of its own: nothing else is made.
Pair mode_by_kernel(const Tensor& input, int64_t dim, bool keepdim) {
  Dims shape = input->sizes;
  shape[dim] = 1;
  Tensor values = make_tensor(shape, input.dtype(), input.device());
  Tensor indices = make_tensor(shape, DType::int64, input.device());
  kernels::mode(input.device_type(), input, values, indices, dim);
  if (!keepdim) {
    const Dims reduced = reduced_shape(input.sizes(), DimSet::of(dim, input.dim()), false);
    values = make_over(values.storage(), reduced, contiguous_strides(reduced), 0, values.dtype());
    indices = make_over(indices.storage(), reduced, contiguous_strides(reduced), 0, DType::int64);
  }
  record_selection("mode", input, dim, keepdim, values, indices);
  return {values, indices};
}

Pair mode(const Tensor& input, int64_t dim, bool keepdim) {
  dim = wrap_dim(dim, input.dim());
  const bool free =
      input.numel() == 0 || (input.dim() == 0 && !(grad_enabled() && input.requires_grad()));
  CHECK(!input.is_complex() || free, NotImplementedError, "\"mode_cpu\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  if (input.dim() == 0) {
    Tensor values = clone(detach(input));
    Tensor indices = zeros({}, {.dtype = DType::int64, .device = input.device()});
    record_selection("mode", input, dim, keepdim, values, indices);
    return {values, indices};
  }
  CHECK(input->sizes[dim] != 0, IndexError,
        "mode(): Expected reduction dim {} to have non-zero size.", dim);
  if (input.numel() > 0 && (input.device().is_meta() || kernels::mode.filled(input.device_type())))
    return mode_by_kernel(input, dim, keepdim);
  const Tensor rows = contiguous(transpose(detach(input), dim, -1));
  Tensor indices;
  if (rows.numel() == 0) {
    Dims shape = rows->sizes;
    shape.back() = 1;
    indices = zeros(shape, {.dtype = DType::int64, .device = input.device()});
  } else {
    const auto [values, order] = sorted_along(rows, rows.dim() - 1);
    const Tensor end = end_of_longest_run(values);
    indices = gather(order, -1, end);
    if (rows.is_floating()) {
      // Among elements that all differ, a NaN counts as the least.
      const Tensor is_nan = isnan(rows);
      const Tensor lone = eq(end, int64_t{0}) & amax(is_nan, IntSpan{-1}, true);
      indices = where(lone, argmax(to(is_nan, DType::uint8), -1, true), indices);
    }
  }
  indices = contiguous(transpose(indices, dim, -1));
  Tensor values = gather(detach(input), dim, indices);
  if (!keepdim) {
    // Not as views: of those a write would take the history.
    values = detach(contiguous(squeeze(values, IntSpan{dim})));
    indices = detach(contiguous(squeeze(indices, IntSpan{dim})));
  }
  record_selection("mode", input, dim, keepdim, values, indices);
  return {values, indices};
}
OP(mode, "mode(input, dim=-1, keepdim=False) -> (values, indices)",
   "The most frequent element along dim, the least of several, and its last index.", reduces)

}  // namespace
}  // namespace flambeau
