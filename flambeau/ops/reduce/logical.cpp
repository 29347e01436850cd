// Whether any or all elements are true, how many are, and comparisons of whole tensors.
#include <cstring>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/reduce/reduce.h"
#include "flambeau/ops/steps.h"

namespace flambeau {
namespace {

// The input in a dtype that the kernels read: they know the bits of numbers of up to 64.
Tensor readable(const Tensor& input) {
  if (input.dtype() == DType::complex128) return input != 0.0;
  return is_stored(input.dtype()) ? to(input, widened(input.dtype())) : input;
}

// Of a uint8 tensor, any and all are uint8 too: before there was bool, masks were.
Tensor reduce_to_bool(const ReduceSlot& slot, const Tensor& input, DimSet dims, bool keepdim) {
  Tensor out = reduce_with(slot, readable(input), dims, keepdim, DType::bool_);
  return input.dtype() == DType::uint8 ? to(out, DType::uint8) : out;
}

// Unlike for sums, an empty list of dimensions reduces nothing here.
DimSet reduced_dims(const Tensor& input, std::optional<IntSpan> dim) {
  return dim && dim->empty() ? DimSet() : DimSet::of(dim, input.dim());
}

Tensor any_all(const Tensor& input) {
  return reduce_to_bool(kernels::any, input, DimSet::all(input.dim()), false);
}
Tensor any_along(const Tensor& input, std::optional<IntSpan> dim, bool keepdim) {
  return reduce_to_bool(kernels::any, input, reduced_dims(input, dim), keepdim);
}
OP(any_all, "any(input)", "Whether any element is not zero.",
   reduces | takes_jagged | gives_bool | out_repeats)
OP(any_along, "any.dim(input, dim=None, keepdim=False)",
   "Whether any element along the given dimensions is not zero.",
   reduces | takes_jagged | gives_bool | out_repeats)

Tensor all_all(const Tensor& input) {
  return reduce_to_bool(kernels::all, input, DimSet::all(input.dim()), false);
}
Tensor all_along(const Tensor& input, std::optional<IntSpan> dim, bool keepdim) {
  return reduce_to_bool(kernels::all, input, reduced_dims(input, dim), keepdim);
}
// The forms with out=, which must be of type bool or uint8.
const Tensor& checked_out(const char* op, const Tensor& out) {
  CHECK(out.dtype() == DType::bool_ || out.dtype() == DType::uint8, RuntimeError,
        "{} only supports bool tensor for result, got: {}", op, dtype_legacy_name(out.dtype()));
  return out;
}
Tensor any_along_out(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
                     const Tensor& out) {
  return write_result(checked_out("any", out), any_along(input, dim, keepdim));
}
Tensor all_along_out(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
                     const Tensor& out) {
  return write_result(checked_out("all", out), all_along(input, dim, keepdim));
}
OP_OUT(any_along_out, "any(input, dim=None, keepdim=False, *, out)")
OP_OUT(all_along_out, "all(input, dim=None, keepdim=False, *, out)")

OP(all_all, "all(input)", "Whether no element is zero.",
   reduces | takes_jagged | gives_bool | out_repeats)
OP(all_along, "all.dim(input, dim=None, keepdim=False)",
   "Whether no element along the given dimensions is zero.",
   reduces | takes_jagged | gives_bool | out_repeats)

Tensor count_nonzero(const Tensor& input, std::optional<IntSpan> dim) {
  return reduce_with(kernels::count_nonzero, readable(input), DimSet::of(dim, input.dim()), false,
                     DType::int64);
}
Tensor count_nonzero_along(const Tensor& input, IntSpan dim) { return count_nonzero(input, dim); }
OP_METHOD(count_nonzero_along, "count_nonzero.dim_IntList(self, *dim)",
          "The number of elements that are not zero along the given dimensions.", reduces | no_out)
OP(count_nonzero, "count_nonzero(input, dim=None)",
   "The number of elements that are not zero, of all or along the given dimensions.",
   reduces | no_out)

}  // namespace

// What the bits of two arrays of one dtype tell: those of integers all; those of floating-point
// numbers, at the first one or its real part, that they differ, unless both are zero.
static std::optional<bool> equal_by_bits(const Tensor& a, const Tensor& b) {
  if (is_integral(a.dtype(), false))
    return std::memcmp(a.raw(), b.raw(), a.numel() * a.item_size()) == 0;
  if (!dtypes::FloatingComplex.has(a.dtype())) return {};
  const size_t bytes = a.item_size() / (a.is_complex() ? 2 : 1);
  uint64_t first = 0, second = 0;
  std::memcpy(&first, a.raw(), bytes);
  std::memcpy(&second, b.raw(), bytes);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  if (first != second && ((first | second) & ~sign) != 0) return false;
  return {};
}

bool equal(const Tensor& input, const Tensor& other) {
  REDIRECT(equal, input, other)
  check_same_device("equal", input.device(), other.device());
  if (!(input.sizes() == other.sizes())) return false;
  const NoGrad off;
  const bool are_arrays = input.device().is_cpu() && input.dtype() == other.dtype() &&
                          input->pending == Pending::nothing &&
                          other->pending == Pending::nothing && input.is_contiguous() &&
                          other.is_contiguous();
  if (are_arrays && input.numel() > 0) {
    if (const auto known = equal_by_bits(input, other)) return *known;
  }
  // Most tensors that differ do so in the beginning.
  constexpr int64_t some = 512, many = 8 * some;
  if (input.device().is_cpu() && input.numel() > many && input.is_contiguous() &&
      other.is_contiguous() && !input.is_sparse() && !other.is_sparse()) {
    const auto beginning = [=](const Tensor& x) { return make_alias(x, some, 1, x.offset()); };
    if (!item(all_all(eq(beginning(input), beginning(other)))).to<bool>()) return false;
  }
  return item(all_all(eq(input, other))).to<bool>();
}
OP(equal, "equal(input, other)", "Whether two tensors have the same shape and elements.")

bool has_nan(const Tensor& input) {
  if (!is_differentiable(input.dtype())) return false;
  const NoGrad off;
  return item(any_all(isnan(input))).to<bool>();
}

namespace {

Tensor isclose(const Tensor& input, const Tensor& other, double rtol, double atol, bool equal_nan) {
  CHECK(input.dtype() == other.dtype(), RuntimeError, "{} did not match {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(other.dtype()));
  CHECK(rtol >= 0, RuntimeError, "rtol must be greater than or equal to zero, but got {}", rtol);
  CHECK(atol >= 0, RuntimeError, "atol must be greater than or equal to zero, but got {}", atol);
  Tensor close = eq(input, other);
  int steps = 0;  // in which PyTorch writes into the first comparison
  if (equal_nan && is_differentiable(input.dtype())) {
    close = close | (isnan(input) & isnan(other));
    count_steps(close, ++steps);
  }
  if (rtol == 0 && atol == 0) return close;
  // Integers and bool are compared as floating-point numbers.
  const bool whole = is_integral(input.dtype(), true);
  const Tensor a = whole ? to(input, DType::float64) : input;
  const Tensor b = whole ? to(other, DType::float64) : other;
  const Tensor allowed = abs(b) * rtol + atol;
  const Tensor distance = abs(a - b);
  Tensor found = close | (isfinite(distance) & (distance <= allowed));
  count_steps(found, steps + 1);
  return found;
}
OP(isclose, "isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)",
   "Whether each element of input differs from other by at most atol + rtol * |other|.",
   elementwise | no_out | composed)

bool allclose(const Tensor& input, const Tensor& other, double rtol, double atol, bool equal_nan) {
  const NoGrad off;
  return item(all_all(isclose(input, other, rtol, atol, equal_nan))).to<bool>();
}
OP(allclose, "allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)",
   "Whether all elements are close, as isclose says.")

bool is_signed_op(const Tensor& input) { return is_signed(input.dtype()); }
OP(is_signed_op, "is_signed(input)", "Whether the dtype has negative numbers.",
   metadata | takes_sparse)

bool is_same_size(const Tensor& input, const Tensor& other) {
  return input.sizes() == other.sizes();
}
OP(is_same_size, "is_same_size(input, other)", "Whether two tensors have the same shape.",
   takes_sparse | metadata)

}  // namespace
}  // namespace flambeau
