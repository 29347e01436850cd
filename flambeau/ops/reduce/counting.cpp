// Counting elements: positions among boundaries, members of sets, counts of integers, histograms.
#include <cmath>

#include "flambeau/base/warn.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

// The one op that takes a list of numbers or None.
template <>
struct detail::Argument<const std::optional<std::vector<double>>&> {
  static constexpr Kind kind = Kind::reals;
  static constexpr bool nullable = true;
  static std::optional<std::vector<double>> get(const Value& v) {
    return v.given ? std::optional(*v.reals) : std::nullopt;
  }
};

namespace {

// --- Positions among boundaries
// ---------------------------------------------------------------------

constexpr DTypeSet searchable = dtypes::Floating | dtypes::Signed | DType::uint8;

// Integers are searched as int64, 16-bit floats as float32: the kernel has three forms.
Tensor searchable_form(const Tensor& x, DType dtype) {
  const DType wide = is_integral(dtype)        ? DType::int64
                     : dtype == DType::float64 ? DType::float64
                                               : DType::float32;
  return contiguous(to(detach(x), wide));
}

bool on_the_right(bool right, std::optional<std::string_view> side) {
  if (!side) return right;
  CHECK(*side == "left" || *side == "right", RuntimeError,
        "torch.searchsorted(): side can only be 'left' or 'right' but got {}", *side);
  CHECK(!right || *side == "right", RuntimeError,
        "torch.searchsorted(): side and right can't be set to opposites, got side of {} while "
        "right was True",
        *side);
  return *side == "right";
}

void check_sorter(const Tensor& boundaries, const Tensor& sorter) {
  if (!sorter.defined()) return;
  CHECK(sorter.device() == boundaries.device(), RuntimeError,
        "torch.searchsorted(): sorter and boundary tensors should have same device type, but got "
        "sorter tensor device type {} and boundary tensor device type {}",
        sorter.device(), boundaries.device());
  CHECK(sorter.sizes() == boundaries.sizes(), RuntimeError,
        "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
        "tensor {}and got sorter tensor {}",
        boundaries.sizes(), sorter.sizes());
  CHECK(sorter.dtype() == DType::int64, RuntimeError,
        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
        sorter.dtype());
  if (sorter.numel() == 0 || sorter.device_type() == DeviceType::meta) return;
  const int64_t low = item(amin(sorter, std::nullopt, false)).to_int();
  const int64_t high = item(amax(sorter, std::nullopt, false)).to_int();
  CHECK(low >= 0 && high < sorter.sizes().back(), RuntimeError,
        "torch.searchsorted(): sorter index out of range");
}

void check_search(const Tensor& boundaries, const Tensor& values, DType dtype) {
  CHECK(boundaries.device() == values.device(), RuntimeError,
        "torch.searchsorted(): boundaries and input value tensors should have same device type, "
        "but got boundaries tensor device type {} and input value tensor device type {}",
        boundaries.device(), values.device());
  CHECK(values.dim() > 0 || (boundaries.dim() == 1 && values.numel() == 1), RuntimeError,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
        "is 1, but we got boundaries tensor dim({}) and input value's dim({}) numel({})",
        boundaries.dim(), values.dim(), values.numel());
  CHECK(boundaries.dim() != 0, RuntimeError,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
        "dimension");
  const auto but_last = [](const Tensor& x) { return IntSpan(x.sizes().data(), x.dim() - 1); };
  CHECK(boundaries.dim() == 1 ||
            (boundaries.dim() == values.dim() && but_last(boundaries) == but_last(values)),
        RuntimeError,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
        "of boundaries tensor and input value tensor must match, but we got boundaries tensor {} "
        "and input value tensor {}",
        boundaries.sizes(), values.sizes());
  CHECK(searchable.has(dtype) || values.numel() == 0, NotImplementedError,
        "\"searchsorted_out_cpu\" not implemented for '{}'", dtype_legacy_name(dtype));
}

// Told once for all arguments: a program that searches such tensors does it in a loop.
void warn_if_scattered(const char* argument, const Tensor& tensor) {
  static std::atomic<bool> told{false};
  if (tensor.is_contiguous()) return;
  warn_once(told, flambeau::format(
                      "torch.searchsorted(): {} tensor is non-contiguous, which costs a copy each "
                      "time. Use contiguous tensors where you can.",
                      argument));
}

Tensor positions(const Tensor& boundaries, const Tensor& values, const Tensor& sorter,
                 bool out_int32, bool right) {
  ResultType type;
  type.add(boundaries);
  type.add(values);
  check_search(boundaries, values, type.get());
  check_sorter(boundaries, sorter);
  if (values.numel() == 0) {
    return make_tensor(values.sizes(), out_int32 ? DType::int32 : DType::int64, values.device());
  }
  warn_if_scattered("boundary", boundaries);
  warn_if_scattered("input value", values);
  if (sorter.defined()) warn_if_scattered("sorter", sorter);
  const Tensor sorted_in = searchable_form(boundaries, type.get());
  const Tensor x = searchable_form(values, type.get());
  Tensor out = make_tensor(values.sizes(), DType::int64, values.device());
  const Tensor order = sorter.defined() ? contiguous(sorter) : sorter;
  kernels::searchsorted(x.device_type(), sorted_in, x, order, out, right);
  return out_int32 ? to(out, DType::int32) : out;
}

Tensor number_like(const Tensor& boundaries, const Scalar& value) {
  Options options;
  options.device = boundaries.device();
  options.dtype = value.is_complex()    ? DType::complex64
                  : value.is_floating() ? default_dtype()
                  : value.is_boolean()  ? DType::bool_
                                        : DType::int64;
  return scalar_tensor(value, options);
}

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& input, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter) {
  const bool to_the_right = on_the_right(right, side);
  return positions(sorted_sequence, input, sorter, out_int32, to_the_right);
}
OP_FUNCTION(
    searchsorted,
    "searchsorted.Tensor(sorted_sequence, input, *, out_int32=False, right=False, side=None, "
    "sorter=None)",
    "The positions at which values keep the last dimension of a sorted tensor in order.",
    gives_bool)

Tensor searchsorted_number(const Tensor& sorted_sequence, const Scalar& self, bool out_int32,
                           bool right, std::optional<std::string_view> side, const Tensor& sorter) {
  const bool to_the_right = on_the_right(right, side);
  return positions(sorted_sequence, number_like(sorted_sequence, self), sorter, out_int32,
                   to_the_right);
}
OP_FUNCTION(
    searchsorted_number,
    "searchsorted.Scalar(sorted_sequence, self, *, out_int32=False, right=False, side=None, "
    "sorter=None)",
    "The place at which a number keeps a sorted tensor in order.", gives_bool)

void check_boundaries(const Tensor& boundaries) {
  CHECK(boundaries.dim() == 1, RuntimeError,
        "boundaries tensor must be 1 dimension, but got dim({})", boundaries.dim());
}

Tensor bucketize(const Tensor& input, const Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return positions(boundaries, input, {}, out_int32, right);
}
OP_FUNCTION(bucketize, "bucketize.Tensor(input, boundaries, *, out_int32=False, right=False)",
            "The bucket of each element, of those that ascending boundaries part.", gives_bool)

Tensor bucketize_number(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return positions(boundaries, number_like(boundaries, self), {}, out_int32, right);
}
OP_FUNCTION(bucketize_number, "bucketize.Scalar(self, boundaries, *, out_int32=False, right=False)",
            "The bucket of a number, of those that ascending boundaries part.", gives_bool)

// --- Members -------------------------------------------------------------------------------------

void check_members(const Tensor& tensor) {
  CHECK(dtypes::Real.has(tensor.dtype()), NotImplementedError,
        "Unsupported input type encountered for isin(): {}", dtype_legacy_name(tensor.dtype()));
}
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
  check_members(elements);
  check_members(test_elements);
  check_same_device("isin", elements.device(), test_elements.device());
  const Tensor tests = reshape(test_elements, {-1});
  const DType dtype = result_type(elements, tests);
  Tensor found;
  if (tests.numel() <= 16 || !searchable.has(dtype)) {  // few are compared with each element
    found = sum(eq(unsqueeze(elements, -1), tests), IntSpan{-1}, false) > 0;
  } else {
    const Tensor x = searchable_form(detach(elements), dtype);
    const Tensor unordered = searchable_form(detach(tests), dtype);
    const Tensor ordered = empty_like(unordered), order = empty_like(unordered, DType::int64);
    kernels::sort(x.device_type(), unordered, ordered, order, 0, false);
    const Tensor behind_less = positions(ordered, x, {}, false, false);
    const Tensor last = clamp(behind_less, {}, Scalar(tests.numel() - 1));
    found = reshape(index_select(ordered, 0, reshape(last, {-1})), x.sizes()) == x;
  }
  return invert ? logical_not(found) : found;
}
OP_FUNCTION(isin,
            "isin.Tensor_Tensor(elements, test_elements, *, assume_unique=False, invert=False)",
            "Whether each element is among the test elements.", gives_bool)

Tensor isin_number(const Tensor& elements, const Scalar& test_element, bool, bool invert) {
  check_members(elements);
  const Tensor found = eq(elements, test_element);
  return invert ? logical_not(found) : found;
}
Tensor number_isin(const Scalar& element, const Tensor& test_elements, bool unique, bool invert) {
  const Tensor one = cast_operand(element, element.natural_dtype(), test_elements.device());
  return isin(one, test_elements, unique, invert);
}
OP_FUNCTION(number_isin,
            "isin.Scalar_Tensor(element, test_elements, *, assume_unique=False, invert=False)",
            "Whether a number is among the test elements.", gives_bool)
OP_FUNCTION(isin_number,
            "isin.Tensor_Scalar(elements, test_element, *, assume_unique=False, invert=False)",
            "Whether each element equals a number.", gives_bool)

// --- Counts --------------------------------------------------------------------------------------

// The sum of weights (or the number of elements) at each position; positions are in range.
Tensor counted(const Tensor& positions, const Tensor& weights, int64_t count, DType dtype) {
  Tensor counts = zeros(IntSpan{count}, {.dtype = dtype, .device = positions.device()});
  const Tensor w = weights.defined() ? contiguous(to(detach(weights), dtype)) : weights;
  kernels::bincount(positions.device_type(), contiguous(positions), w, counts);
  return counts;
}

// On the CPU in chunks that are still in the cache when they are read again.
std::pair<int64_t, int64_t> range_of_integers(const Tensor& x) {
  constexpr int64_t chunk = 1 << 18;
  if (x.device().is_cpu() && x.dim() == 1 && x.numel() > chunk) {
    auto [least, largest] = range_of_integers(narrow(x, 0, 0, chunk));
    for (int64_t begin = chunk; begin < x.numel(); begin += chunk) {
      const auto [low, high] =
          range_of_integers(narrow(x, 0, begin, std::min(chunk, x.numel() - begin)));
      least = std::min(least, low);
      largest = std::max(largest, high);
    }
    return {least, largest};
  }
  return {item(amin(x, std::nullopt, false)).to_int(), item(amax(x, std::nullopt, false)).to_int()};
}

Tensor bincount(const Tensor& input, const Tensor& weights, int64_t minlength) {
  CHECK(minlength >= 0, RuntimeError, "minlength should be >= 0");
  CHECK((dtypes::Signed | DType::uint8).has(input.dtype()), NotImplementedError,
        "\"bincount_cpu\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  if (input.dim() == 1 && input.numel() == 0) {
    return zeros(IntSpan{minlength}, {.dtype = DType::int64, .device = input.device()});
  }
  const Tensor positions = contiguous(to(input, DType::int64));
  const auto [least, largest] =
      input.dim() == 1 ? range_of_integers(positions) : std::pair<int64_t, int64_t>{-1, -1};
  CHECK(least >= 0, RuntimeError, "bincount only supports 1-d non-negative integral inputs.");
  CHECK(!weights.defined() || (weights.dim() == 1 && weights.size(0) == input.size(0)),
        RuntimeError, "weights should be 1-d and have the same length as input");
  const DType dtype = !weights.defined()                  ? DType::int64
                      : weights.dtype() == DType::float32 ? DType::float32
                                                          : DType::float64;
  CHECK(largest < INT64_MAX, RuntimeError, "bincount: cannot count up to {}", largest);
  return counted(positions, weights, std::max(minlength, largest + 1), dtype);
}
OP(bincount, "bincount(input, weights=None, minlength=0)",
   "How often each number from 0 occurs, or the sum of weights where it does.", no_out)

// --- Histograms ----------------------------------------------------------------------------------

struct Range {
  double low = 0, high = 1;
};

// The range of the values where none is given; one that is empty is widened.
Range range_of(const Tensor& x, double low, double high, bool given) {
  Range range{low, high};
  if (!given && x.numel() > 0) {
    range = {item(amin(x, std::nullopt, false)).to_double(),
             item(amax(x, std::nullopt, false)).to_double()};
  }
  return range;
}

Range widened(Range range) {
  if (range.low == range.high) range = {range.low - 0.5, range.high + 0.5};
  return range;
}

// Which of the equal parts of a range each element lies in, by the formula of PyTorch on CUDA,
// which is not that of the CPU; integers are divided as such.
Tensor parts_of(const Tensor& x, const Range& range, int64_t bins) {
  const double width = range.high - range.low;
  if (x.dtype() == DType::int64) {
    const auto low = static_cast<int64_t>(range.low), high = static_cast<int64_t>(range.high);
    return div_trunc((x - low) * bins, high - low);
  }
  const double rounded =
      x.dtype() == DType::float64
          ? width
          : double{static_cast<float>(range.high) - static_cast<float>(range.low)};
  return to((x - range.low) * static_cast<double>(bins) / rounded, DType::int64);
}

Tensor histc(const Tensor& input, int64_t bins, const Scalar& min, const Scalar& max) {
  const DType dtype = input.dtype();
  const bool whole_range = min.to_double() == max.to_double();
  // The bounds must be numbers of the dtype; those of nothing are -1 and 1.
  CHECK(dtype != DType::uint8 ||
            (min.to_double() >= 0 && max.to_double() >= 0 && !(whole_range && input.numel() == 0)),
        RuntimeError, "histc: value cannot be converted to type uint8_t without overflow");
  CHECK(!is_complex(dtype) || !whole_range || input.numel() == 0, TypeError,
        "histc: aminmax not implemented for {}", dtype_legacy_name(dtype));
  CHECK(min.to_double() <= max.to_double(), RuntimeError,
        "torch.histc: max must be larger than min");
  // As in PyTorch, integers are counted everywhere but on the CPU.
  const bool whole = !input.device().is_cpu() && (dtypes::Signed | DType::uint8).has(dtype);
  CHECK(is_floating(dtype) || whole, NotImplementedError,
        "\"histogram_cpu\" not implemented for '{}'", dtype_legacy_name(dtype));
  CHECK(bins > 0, RuntimeError, "torch.histogram(): bins must be > 0, but got {} for dimension 0",
        bins);
  CHECK(bins < INT64_MAX / 8, RuntimeError, "torch.histc(): {} bins are too many for any memory",
        bins);
  Tensor x = reshape(detach(input), {-1});
  Range range{min.to_double(), max.to_double()};
  if (whole) range = {std::trunc(range.low), std::trunc(range.high)};
  if (range.low == range.high && !x.device().is_meta()) range = range_of(x, 0, 1, false);
  CHECK(std::isfinite(range.low) && std::isfinite(range.high), RuntimeError,
        "torch.histc: range of [{}, {}] is not finite", range.low, range.high);
  CHECK(range.low <= range.high, RuntimeError, "torch.histc: max must be larger than min");
  if (range.low == range.high) range = {range.low - 1, range.high + 1};
  x = to(x, whole ? DType::int64 : dtype == DType::float64 ? dtype : DType::float32);
  // What lies outside is counted behind the last part, so that nobody has to wait for a shape.
  Tensor counts;
  if (x.device().is_cpu()) {
    counts = zeros(IntSpan{bins + 1}, {.dtype = DType::int64, .device = x.device()});
    kernels::count_parts(DeviceType::cpu, contiguous(x), range.low, range.high, counts);
  } else {
    const Tensor inside = (x >= range.low) & (x <= range.high);
    const Tensor place = clamp(parts_of(x, range, bins), int64_t{0}, bins - 1);
    counts = counted(where(inside, place, bins), {}, bins + 1, DType::int64);
  }
  return to(clone(narrow(counts, 0, 0, bins)), dtype);
}
OP(histc, "histc(input, bins=100, min=0, max=0)",
   "How many elements lie in each of `bins` equal parts of a range; where min equals max, of the "
   "range of the elements.",
   out_drops)

using Pair = std::tuple<Tensor, Tensor>;

void check_weight(const Tensor& input, const Tensor& weight) {
  if (!weight.defined()) return;
  CHECK(weight.dtype() == input.dtype(), RuntimeError,
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should "
        "have the same dtype, but got input(dtype) {}, and weight(dtype) {}",
        input.dtype(), weight.dtype());
  CHECK(weight.numel() == input.numel(), RuntimeError,
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
        "input tensor excluding its innermost dimension, but got input with shape [{}, 1] and "
        "weight with shape [{}]",
        input.numel(), weight.numel());
}

// The counts in bins that need not be even. The last one holds its upper edge too.
Tensor counts_between(const Tensor& x, const Tensor& edges, const Tensor& weight, int64_t count) {
  const Tensor first = narrow(edges, 0, 0, 1), last = narrow(edges, 0, count, 1);
  const Tensor inside = (x >= first) & (x <= last);
  const Tensor kept = masked_select(x, inside);
  const Tensor place = positions(edges, kept, {}, false, true) - int64_t{1};
  const Tensor w =
      weight.defined() ? masked_select(reshape(weight, {-1}), inside) : ones_like(kept);
  return counted(clamp(place, int64_t{0}, count - 1), w, count, x.dtype());
}

Tensor counts_between_even(const Tensor& x, const Tensor& edges, const Tensor& weight,
                           int64_t count) {
  const Tensor counts = zeros(IntSpan{count}, {.dtype = DType::float64, .device = x.device()});
  const Tensor w = weight.defined() ? contiguous(reshape(detach(weight), {-1})) : weight;
  kernels::even_histogram(x.device_type(), contiguous(x), edges, w, counts);
  return to(counts, x.dtype());
}

Pair histogram_between(const Tensor& input, const Tensor& bins, const Tensor& weight, bool density,
                       bool even) {
  const DType dtype = input.dtype();
  CHECK(is_floating(dtype), NotImplementedError, "\"histogramdd\" not implemented for '{}'",
        dtype_legacy_name(dtype));
  CHECK(bins.dtype() == dtype, RuntimeError,
        "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
        "input with dtype {} and bins for dimension 0 with dtype {}",
        dtype, bins.dtype());
  CHECK(bins.dim() == 1, RuntimeError,
        "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the "
        "bins tensor for dimension 0",
        bins.dim());
  check_weight(input, weight);
  if (dtypes::Reduced.has(dtype)) {
    const auto wide = [](const Tensor& t) { return t.defined() ? to(t, DType::float32) : t; };
    const auto [hist, edges] =
        histogram_between(wide(input), wide(bins), wide(weight), density, even);
    return {to(hist, dtype), to(edges, dtype)};
  }
  const Tensor x = reshape(detach(input), {-1});
  const Tensor edges = contiguous(detach(bins));
  const int64_t count = std::max<int64_t>(edges.numel() - 1, 0);
  Tensor hist = zeros(IntSpan{count}, options_of(x));
  if (count > 0) {
    const bool one_pass = even && kernels::even_histogram.filled(x.device_type());
    hist = one_pass ? counts_between_even(x, edges, weight, count)
                    : counts_between(x, edges, weight, count);
    if (density)
      hist = hist / (narrow(edges, 0, 1, count) - narrow(edges, 0, 0, count)) / sum(hist);
  }
  return {hist, clone(edges)};
}
Pair histogram(const Tensor& input, const Tensor& bins, const Tensor& weight, bool density) {
  return histogram_between(input, bins, weight, density, false);
}
OP(histogram, "histogram(input, bins, *, weight=None, density=False) -> (hist, bin_edges)",
   "How many elements, or what weight of them, lie between neighbours of the given edges.",
   out_fails)

// `count` + 1 numbers from low to high, the ends exact.
Tensor even_edges(int64_t count, Range range, const Tensor& like) {
  const Tensor steps = arange(int64_t{0}, count + 1, int64_t{1}, options_of(like));
  const double step = (range.high - range.low) / static_cast<double>(count);
  const Tensor rising = steps * step + range.low;
  const Tensor falling = (steps - count) * step + range.high;
  return where(steps * 2 < count, rising, falling);
}

Tensor range_edges(const Tensor& input, int64_t bins,
                   const std::optional<std::vector<double>>& given) {
  CHECK(bins > 0, RuntimeError, "torch.histogram(): bins must be > 0, but got {} for dimension 0",
        bins);
  CHECK(bins < INT64_MAX, RuntimeError, "torch.histogram(): {} bins are too many", bins);
  CHECK(!given || given->size() == 2, RuntimeError,
        "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {}",
        given->size());
  const Tensor x = reshape(detach(input), {-1});
  const Range range = given ? Range{(*given)[0], (*given)[1]} : range_of(x, 0, 1, false);
  CHECK(std::isfinite(range.low) && std::isfinite(range.high), RuntimeError,
        "torch.histogramdd: dimension 0's range [{}, {}] is not finite", range.low, range.high);
  CHECK(range.low <= range.high, RuntimeError,
        "torch.histogramdd: min should not exceed max, but got min {} max {} for dimension 0",
        range.low, range.high);
  const DType wide = dtypes::Reduced.has(x.dtype()) ? DType::float32 : x.dtype();
  return to(even_edges(bins, widened(range), to(x, wide)), x.dtype());
}

Pair histogram_of_range(const Tensor& input, int64_t bins,
                        const std::optional<std::vector<double>>& range, const Tensor& weight,
                        bool density) {
  // The range of halves is not looked for.
  const bool has_range = range || !dtypes::Reduced.has(input.dtype()) || input.numel() == 0;
  CHECK(is_floating(input.dtype()) && has_range, NotImplementedError,
        "\"histogramdd\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  return histogram_between(input, range_edges(input, bins, range), weight, density, true);
}
OP(histogram_of_range,
   "histogram(input, bins=100, *, range=None, weight=None, density=False) -> (hist, bin_edges)",
   "How many elements, or what weight of them, lie in each of `bins` equal parts of a range, which "
   "is that of the elements unless given.",
   out_fails)

}  // namespace
namespace {
bool batch_searchsorted(Batching& batch, Result& result) {
  const Tensor sequence = batch.tensor(0), values = batch.tensor(1);
  if (!values.defined() || sequence.dim() != 1 || batch.given(batch.find("sorter"))) return false;
  if (batch.is_batched(0)) {
    Dims size = values.sizes().dims();
    size.insert(size.begin(), batch.size());
    batch.rewrite().set(0, tensor_op("contiguous", {batch.samples(0)}));
    batch.rewrite().set(1, reshape_to(batch.whole(1), {batch.size(), values.numel()}));
    batch.run(result);
    result.tensor = reshape_to(result.tensor, size);
    return true;
  }
  batch.use_samples();
  batch.run(result);
  return true;
}
bool batch_bucketize(Batching& batch, Result& result) {
  return batch.tensor(0).defined() && batch.only(0) && batch_first(batch, result);
}
}  // namespace
BATCH(searchsorted, batch_searchsorted)
BATCH(bucketize, batch_bucketize)

}  // namespace flambeau
