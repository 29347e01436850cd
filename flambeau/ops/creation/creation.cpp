// New tensors: empty, zeros, ones, full, ranges, and their *_like and new_* forms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/creation.h"
#include "flambeau/kernels/math_mode.h"
#include "flambeau/ops/creation/known_contents.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {
namespace {

// A sparse tensor of which nothing is stored.
Tensor empty_sparse(const char* op, IntSpan size, const Options& options) {
  const Device device = options.device_or_default();
  const DType dtype = options.dtype_or(default_dtype());
  const auto rank = static_cast<int64_t>(size.size());
  Tensor tensor;
  if (options.layout == Layout::sparse_coo) {
    tensor = make_coo(make_tensor({rank, 0}, DType::int64, device), make_tensor({0}, dtype, device),
                      size, false);
  } else {
    const bool by_rows = options.layout == Layout::sparse_csr;
    CHECK(rank >= 2, RuntimeError,
          "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got "
          "size {}",
          size);
    CHECK(by_rows || options.layout == Layout::sparse_csc, RuntimeError,
          "{}_sparse_compressed expected sparse compressed (non-block) tensor layout but got {}",
          op, layout_word(options.layout));
    Dims starts = size.first(rank - 2).dims(), none = starts;
    const int64_t lines = size[by_rows ? rank - 2 : rank - 1];
    CHECK(lines < INT64_MAX, RuntimeError, "{}: too many {} to be counted: {}", op,
          by_rows ? "rows" : "columns", lines);
    starts.push_back(lines + 1);
    none.push_back(0);
    tensor = make_compressed(
        options.layout, filled(make_tensor(starts, DType::int64, device), int64_t{0}),
        make_tensor(none, DType::int64, device), make_tensor(none, dtype, device), size);
  }
  if (options.requires_grad) set_requires_grad(tensor, true);
  return tensor;
}

Tensor finish(Tensor tensor, const Options& options) {
  CHECK(options.layout == Layout::strided, RuntimeError,
        "full(...) is not implemented for sparse layout, got {}", layout_word(options.layout));
  return finished(std::move(tensor), options);
}

// As `input`, except for what the options say.
Options like(const Tensor& input, const Options& options) {
  Options result = options;
  if (!result.dtype) result.dtype = input.dtype();
  if (!result.device) result.device = input.device();
  return result;
}

Tensor empty_as(const Tensor& input, const Options& options, std::optional<MemoryFormat> format) {
  const Options all = like(input, options);
  const MemoryFormat layout = format.value_or(MemoryFormat::preserve);
  const Dims strides = layout == MemoryFormat::preserve ? preserved_strides(input)
                                                        : format_strides(input.sizes(), layout);
  return finish(make_strided(input.sizes(), strides, *all.dtype, *all.device), all);
}

}  // namespace

Tensor filled(Tensor tensor, const Scalar& value) {
  const NoGrad off;
  Tensor out = tensor;
  TensorIter iter;
  const DType dtype = tensor.dtype();
  const Operand operand(value);
  iter.build({"fill_", false, false}, &out, &dtype, 1, &operand, 1, dtype);
  kernels::copy(iter.device.type, iter);
  return tensor;
}

Options options_of(const Tensor& tensor) {
  Options options;
  options.dtype = tensor.dtype();
  options.device = tensor.device();
  return options;
}

Tensor empty(IntSpan size, const Options& options) {
  if (options.layout != Layout::strided) [[unlikely]]
    return empty_sparse("empty", size, options);
  return finish(make_tensor(size, options.dtype_or(default_dtype()), options.device_or_default()),
                options);
}

Tensor known_contents(const Tensor& fresh) {
  // What lies in memory by chance is no bool: see Note [Stored bool].
  const bool deterministic = math_mode.deterministic && math_mode.fills_uninitialized;
  const DType dtype = fresh.dtype();
  if ((dtype != DType::bool_ && !deterministic) || fresh.is_sparse()) return fresh;
  // The memory itself, of which strides may show an element any number of times.
  Tensor memory = fresh;
  if (!fresh.is_contiguous()) {
    const size_t elements = fresh.storage()->bytes() / item_size(dtype);
    memory = make_alias(fresh, {static_cast<int64_t>(elements)}, {int64_t{1}}, 0);
  }
  const NoGrad off;
  if (dtype == DType::bool_) {
    filled(memory, deterministic);
  } else if (is_differentiable(dtype)) {
    filled(memory, std::numeric_limits<double>::quiet_NaN());
  } else {
    const size_t bits = 8 * item_size(dtype) - (dtypes::Signed.has(dtype) ? 1 : 0);
    filled(memory, UINT64_MAX >> (64 - bits));
  }
  return fresh;
}

namespace {
Tensor empty_op(IntSpan size, std::optional<MemoryFormat> format, const Options& options) {
  if (!format || *format == MemoryFormat::contiguous) return known_contents(empty(size, options));
  checked_numel(size);
  return known_contents(
      finish(make_strided(size, format_strides(size, *format), options.dtype_or(default_dtype()),
                          options.device_or_default()),
             options));
}
Tensor empty_strided(IntSpan size, IntSpan stride, const Options& options) {
  return known_contents(finish(
      make_strided(size, stride, options.dtype_or(default_dtype()), options.device_or_default()),
      options));
}
}  // namespace
OP_FUNCTION(empty_op, "empty.memory_format(*size, *, memory_format=None, **options)",
            "A tensor of the given size with undefined contents.")
OP_FUNCTION(empty_strided, "empty_strided(size, stride, **options)",
            "A tensor of the given size and strides with undefined contents.", no_out)

Tensor zeros(IntSpan size, const Options& options) {
  if (options.layout != Layout::strided) [[unlikely]]
    return empty_sparse("zeros", size, options);
  return full(size, 0, [&] {
    Options o = options;
    o.dtype = o.dtype_or(default_dtype());
    return o;
  }());
}
OP_FUNCTION(zeros, "zeros(*size, **options)", "A tensor of the given size filled with zeros.",
            out_repeats)

Tensor ones(IntSpan size, const Options& options) {
  return full(size, 1, [&] {
    Options o = options;
    o.dtype = o.dtype_or(default_dtype());
    return o;
  }());
}
OP_FUNCTION(ones, "ones(*size, **options)", "A tensor of the given size filled with ones.",
            out_repeats)

Tensor full(IntSpan size, const Scalar& value, const Options& options) {
  // An integer beyond int64 has no natural dtype and does not fit that of the others.
  const DType natural = value.is_integral() ? DType::int64 : widened(value.natural_dtype());
  const DType dtype = options.dtype_or(natural);
  check_number_fits("full", value, dtype);
  return finish(filled(make_tensor(size, dtype, options.device_or_default()), value), options);
}
OP_FUNCTION(full, "full(size, fill_value, **options)",
            "A tensor of the given size filled with fill_value.", out_repeats)

Tensor scalar_tensor(const Scalar& value, const Options& options) {
  return full({}, value, [&] {
    Options o = options;
    o.dtype = o.dtype_or(default_dtype());
    return o;
  }());
}
OP_FUNCTION(scalar_tensor, "scalar_tensor(s, **options)",
            "A tensor without dimensions that holds the number s.", no_out)

Tensor empty_like(const Tensor& input, std::optional<DType> dtype) {
  REDIRECT(empty_like, input, std::optional<MemoryFormat>(), Options{dtype, input.device()})
  return make_strided(input.sizes(), preserved_strides(input), dtype.value_or(input.dtype()),
                      input.device());
}
Tensor zeros_like(const Tensor& input, std::optional<DType> dtype) {
  REDIRECT(zeros_like, input, std::optional<MemoryFormat>(), Options{dtype, input.device()})
  return filled(empty_like(input, dtype), 0);
}
Tensor ones_like(const Tensor& input, std::optional<DType> dtype) {
  REDIRECT(ones_like, input, std::optional<MemoryFormat>(), Options{dtype, input.device()})
  return filled(empty_like(input, dtype), 1);
}
Tensor full_like(const Tensor& input, const Scalar& value, std::optional<DType> dtype) {
  REDIRECT(full_like, input, value, std::optional<MemoryFormat>(), Options{dtype, input.device()})
  check_number_fits("full_like", value, dtype.value_or(input.dtype()));
  return filled(empty_like(input, dtype), value);
}

namespace {

Tensor empty_like_op(const Tensor& input, std::optional<MemoryFormat> format,
                     const Options& options) {
  return known_contents(empty_as(input, options, format));
}
Tensor zeros_like_op(const Tensor& input, std::optional<MemoryFormat> format,
                     const Options& options) {
  return filled(empty_as(input, options, format), 0);
}
Tensor ones_like_op(const Tensor& input, std::optional<MemoryFormat> format,
                    const Options& options) {
  return filled(empty_as(input, options, format), 1);
}
Tensor full_like_op(const Tensor& input, const Scalar& value, std::optional<MemoryFormat> format,
                    const Options& options) {
  check_number_fits("full_like", value, options.dtype_or(input.dtype()));
  return filled(empty_as(input, options, format), value);
}
Tensor new_empty(const Tensor& self, IntSpan size, const Options& options) {
  return known_contents(empty(size, like(self, options)));
}
Tensor new_zeros(const Tensor& self, IntSpan size, const Options& options) {
  return zeros(size, like(self, options));
}
Tensor new_ones(const Tensor& self, IntSpan size, const Options& options) {
  return ones(size, like(self, options));
}
Tensor new_full(const Tensor& self, IntSpan size, const Scalar& value, const Options& options) {
  return full(size, value, like(self, options));
}
Tensor new_empty_strided(const Tensor& self, IntSpan size, IntSpan stride, const Options& options) {
  return empty_strided(size, stride, like(self, options));
}

}  // namespace
OP_FUNCTION(empty_like_op, "empty_like(input, *, memory_format=None, **options)",
            "A tensor like input with undefined contents.",
            takes_pending | creates | takes_nested | no_out)
OP_FUNCTION(zeros_like_op, "zeros_like(input, *, memory_format=None, **options)",
            "A tensor like input filled with zeros.",
            takes_pending | creates | takes_nested | no_out)
OP_FUNCTION(ones_like_op, "ones_like(input, *, memory_format=None, **options)",
            "A tensor like input filled with ones.",
            takes_pending | creates | takes_nested | no_out)
OP_FUNCTION(full_like_op, "full_like(input, fill_value, *, memory_format=None, **options)",
            "A tensor like input filled with fill_value.", takes_pending | creates | no_out)
OP_METHOD(new_empty, "new_empty(self, *size, **options)",
          "A tensor of the given size, of self's dtype and device, with undefined contents.",
          takes_pending | creates)
OP_METHOD(new_zeros, "new_zeros(self, *size, **options)",
          "A tensor of zeros of self's dtype and device.", takes_pending | creates)
OP_METHOD(new_ones, "new_ones(self, *size, **options)",
          "A tensor of ones of self's dtype and device.", takes_pending | creates)
OP_METHOD(new_full, "new_full(self, size, fill_value, **options)",
          "A tensor filled with fill_value, of self's dtype and device.", takes_pending | creates)
OP_METHOD(new_empty_strided, "new_empty_strided(self, size, stride, **options)",
          "A tensor of the given size and strides, of self's dtype and device.", takes_pending)

// --- Ranges ------------------------------------------------------------------------------------

namespace {

DType range_dtype(const Options& options, std::initializer_list<Scalar> numbers) {
  if (options.dtype) return *options.dtype;
  const bool integers = std::all_of(numbers.begin(), numbers.end(),
                                    [](const Scalar& s) { return s.is_integral(true); });
  return integers ? DType::int64 : default_dtype();
}

void check_range(const char* op, const Scalar& start, const Scalar& end, const Scalar& step) {
  for (const Scalar* number : {&start, &end, &step}) {
    CHECK(!number->is_complex(), RuntimeError,
          "{}: value cannot be converted to type double without overflow: {}", op, *number);
  }
  CHECK(!(step == Scalar(0)), RuntimeError, "{}: step must be nonzero", op);
}

int64_t range_length(const char* op, const Scalar& start, const Scalar& end, const Scalar& step,
                     DType dtype) {
  check_range(op, start, end, step);
  CHECK(std::isfinite(start.to_double()) && std::isfinite(end.to_double()), RuntimeError,
        "{}: unsupported range: {} -> {}", op, start, end);
  const bool up = step.to_double() > 0;
  CHECK(up ? end.to_double() >= start.to_double() : end.to_double() <= start.to_double(),
        RuntimeError, "{}: upper bound and lower bound inconsistent with step sign: {} -> {} by {}",
        op, start, end, step);
  double count = 0;
  if (is_integral(dtype) && start.is_integral(true) && end.is_integral(true) &&
      step.is_integral(true)) {
    const __int128 distance = static_cast<__int128>(end.to_int()) - start.to_int(),
                   by = step.to_int();
    const __int128 n = (distance + by - (by > 0 ? 1 : -1)) / by;
    count = static_cast<double>(n);
  } else {
    count = std::ceil((end.to_double() - start.to_double()) / step.to_double());
  }
  CHECK(count >= 0 && count < 9.2e18, RuntimeError,
        "{}: invalid size, possible overflow: {} elements", op, count);
  return static_cast<int64_t>(count);
}

}  // namespace

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const Options& options) {
  const DType dtype = range_dtype(options, {start, end, step});
  CHECK(dtypes::Real.has(dtype), NotImplementedError, "\"arange\" not implemented for '{}'",
        dtype_legacy_name(dtype));
  const int64_t n = range_length("arange", start, end, step, dtype);
  Tensor out = make_tensor(n, dtype, options.device_or_default());
  kernels::arange(out.device_type(), out, start, step);
  return finish(out, options);
}
namespace {
Tensor arange_end(const Scalar& end, const Options& options) { return arange(0, end, 1, options); }
Tensor range(const Scalar& start, const Scalar& end, const Scalar& step, const Options& options) {
  const DType dtype = options.dtype_or(default_dtype());
  warn(
      "torch.range is deprecated and will be removed in a future release because its end is part "
      "of "
      "the range, unlike that of Python's range. Use torch.arange, whose values are in [start, "
      "end).");
  check_range("range", start, end, step);
  const double count = std::floor((end.to_double() - start.to_double()) / step.to_double()) + 1;
  CHECK(count >= 0 && count < 9.2e18, RuntimeError,
        "range: upper bound and lower bound inconsistent with step sign: {} -> {} by {}", start,
        end, step);
  Tensor out = make_tensor(static_cast<int64_t>(count), dtype, options.device_or_default());
  kernels::arange(out.device_type(), out, start, step);
  return finish(out, options);
}
Tensor eye(int64_t n, std::optional<int64_t> m, const Options& options) {
  const int64_t columns = m.value_or(n);
  CHECK(n >= 0, RuntimeError, "eye: n must be greater or equal to 0, got {}", n);
  CHECK(columns >= 0, RuntimeError, "eye: m must be greater or equal to 0, got {}", columns);
  Options plain = options;
  plain.requires_grad = false;
  Tensor out = zeros({n, columns}, plain);
  if (out.numel() > 0) filled(make_alias(out, std::min(n, columns), columns + 1, 0), 1);
  return finish(out, options);
}
}  // namespace
OP_FUNCTION(arange_end, "arange(end, **options)",
            "The numbers from 0 up to, but not including, end.", counts | tells_count)
OP_FUNCTION(arange, "arange.start_step(start, end, step=1, **options)",
            "The numbers from start up to, but not including, end, by step.", counts | tells_count)
OP_FUNCTION(range, "range(start, end, step=1, **options)",
            "The numbers from start up to and including end, by step.", counts)
OP_FUNCTION(eye, "eye(n, m=None, **options)",
            "A matrix with ones on its diagonal and zeros elsewhere.", out_repeats)

}  // namespace flambeau
