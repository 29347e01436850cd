// Ops that are short compositions of others: complex numbers from parts, differences, distances,
// membership, combinations and window functions. Their derivatives come from what they call.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/special.h"
#include "flambeau/ops/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/pinned.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// --- Complex numbers -----------------------------------------------------------------------------

void check_parts(const Tensor& one, const Tensor& two) {
  const auto part = [](const Tensor& x) {
    return dtypes::Floating.has(x.dtype()) && x.dtype() != DType::bfloat16;
  };
  CHECK(part(one) && part(two), NotImplementedError,
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        dtype_legacy_name(one.dtype()), dtype_legacy_name(two.dtype()));
  CHECK(one.dtype() == two.dtype(), RuntimeError,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        dtype_legacy_name(one.dtype()), dtype_legacy_name(two.dtype()));
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  check_parts(real, imag);
  const DType dtype = to_complex(real.dtype());
  Tensor out;
  if (real.is_contiguous() && imag.is_contiguous() && real.sizes() == imag.sizes()) {
    const NoGrad off;
    const Tensor pairs = stack({real, imag}, -1);
    out = make_alias(pairs, real.sizes(), real.strides(), 0);
    out->dtype = dtype;
  } else {
    const Dims sizes = broadcast_shapes(real.sizes(), imag.sizes());
    const Tensor* parts[] = {&real, &imag};
    out = make_strided(sizes, common_strides(sizes, parts, 2), dtype, real.device());
    const NoGrad off;
    const Tensor halves = view_as_real(out);
    copy_(select(halves, -1, 0), real);
    copy_(select(halves, -1, 1), imag);
  }
  if (Record r{"complex", out, {real, imag}}) {
    r.wrt(0, [](const Tensor& g) { return flambeau::real(g); });
    r.wrt(1, [](const Tensor& g) { return flambeau::imag(g); });
  }
  return out;
}
OP_FUNCTION(complex, "complex(real, imag)", "Complex numbers from their real and imaginary parts.")

Tensor polar(const Tensor& abs, const Tensor& angle) {
  check_parts(abs, angle);
  if (abs.dtype() == DType::float16) {
    const Tensor size = to(abs, DType::float32), turn = to(angle, DType::float32);
    return to(complex(size * cos(turn), size * sin(turn)), DType::complex32);
  }
  return complex(abs * cos(angle), abs * sin(angle));
}
OP_FUNCTION(polar, "polar(abs, angle)", "Complex numbers from their absolute values and angles.")

// --- Sums and differences ------------------------------------------------------------------------

Tensor trace(const Tensor& input) {
  CHECK(input.dim() == 2, RuntimeError, "trace: expected a matrix, but got tensor with dim {}",
        input.dim());
  CHECK(input.dtype() != DType::bool_ || !input.device().is_cpu(), NotImplementedError,
        "\"trace\" not implemented for 'Bool'");
  return sum(diagonal(input, 0, 0, 1));
}
OP(trace, "trace(input)", "The sum of the elements on the diagonal of a matrix.")

Tensor diff(const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  CHECK(input.dim() > 0, RuntimeError, "diff expects input to be at least one-dimensional");
  CHECK(n >= 0, RuntimeError, "order must be non-negative but got {}", n);
  dim = wrap_dim("diff", dim, input.dim());
  Tensor x = input;
  if (n > 0 && (prepend.defined() || append.defined())) {
    for (const Tensor& part : {prepend, append}) {
      CHECK(!part.defined() || part.dim() == input.dim(), RuntimeError,
            "diff expects prepend or append to be the same dimension as input, got shapes {} and "
            "{}",
            part.sizes(), input.sizes());
      for (int64_t d = 0; part.defined() && d < input.dim(); ++d) {
        CHECK(d == dim || part.size(d) == input.size(d), RuntimeError,
              "diff expects the shape of tensor to prepend or append to match that of input except "
              "along the differencing dimension; input.size({}) = {}, but got tensor.size({}) = {}",
              d, input.size(d), d, part.size(d));
      }
    }
    std::vector<Tensor> parts;
    if (prepend.defined()) parts.push_back(prepend);
    parts.push_back(x);
    if (append.defined()) parts.push_back(append);
    x = cat(parts, dim);
  }
  for (; n > 0 && x.size(dim) > 0; --n) {
    const int64_t length = x.size(dim) - 1;
    const Tensor later = narrow(x, dim, 1, length), earlier = narrow(x, dim, 0, length);
    x = x.dtype() == DType::bool_ ? logical_xor(later, earlier) : later - earlier;
  }
  return x;
}
OP(diff, "diff(input, n=1, dim=-1, prepend=None, append=None)",
   "The n-th differences of neighbours along dim.", casts_out)

Tensor dist(const Tensor& input, const Tensor& other, const Scalar& p) {
  return linalg_vector_norm(input - other, p, std::nullopt, false, std::nullopt);
}
OP(dist, "dist(input, other, p=2)", "The p-norm of input - other.")

// --- Questions -----------------------------------------------------------------------------------

bool is_signed_op(const Tensor& input) { return is_signed(input.dtype()); }
OP(is_signed_op, "is_signed(input)", "Whether the dtype has negative numbers.")

bool is_same_size(const Tensor& input, const Tensor& other) {
  return input.sizes() == other.sizes();
}
OP(is_same_size, "is_same_size(input, other)", "Whether two tensors have the same shape.",
   takes_sparse)

// --- Rows ----------------------------------------------------------------------------------------

// How many ways there are to choose r of n; raises where they cannot be counted.
int64_t count_choices(int64_t n, int64_t r) {
  if (r > n) return 0;
  int64_t count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    const __int128 next = static_cast<__int128>(count) * (n - i + 1) / i;
    CHECK(next <= INT64_MAX, RuntimeError, "combinations: too many of {} out of {}", r, n);
    count = static_cast<int64_t>(next);
  }
  return count;
}

Tensor combinations(const Tensor& input, int64_t r, bool with_replacement) {
  CHECK(input.dim() == 1, RuntimeError, "Expect a 1D vector, but got shape {}", input.sizes());
  CHECK(r >= 0, RuntimeError, "Expect a non-negative number, but got {}", r);
  if (r == 0) return empty({0}, {.dtype = input.dtype(), .device = input.device()});
  const int64_t n = input.size(0);
  CHECK(r <= INT32_MAX, RuntimeError, "combinations: r is too large, got {}", r);
  const int64_t rows = n == 0 ? 0 : count_choices(with_replacement ? n + r - 1 : n, r);
  if (rows == 0) return reshape(narrow(input, 0, 0, 0), {0, r});
  // Raises if there is no room for the result, before anything else is made.
  make_tensor({rows, r}, input.dtype(), input.device());
  std::vector<Tensor> columns;
  Tensor last = arange(0, n, 1, {.dtype = DType::int64, .device = input.device()});
  columns.push_back(last);
  for (int64_t k = 1; k < r; ++k) {
    // Each row is continued by every index that is larger than its last one (or equal to it).
    const Tensor next = arange(0, n, 1, {.dtype = DType::int64, .device = input.device()});
    const Tensor rows = unsqueeze(last, 1);
    const Tensor allowed = with_replacement ? le(rows, next) : lt(rows, next);
    const std::vector<Tensor> found = unbind(nonzero(allowed), 1);
    for (Tensor& column : columns) column = index_select(column, 0, found[0]);
    last = found[1];
    columns.push_back(last);
  }
  for (Tensor& column : columns) column = index_select(input, 0, column);
  return stack(columns, 1);
}
OP_FUNCTION(combinations, "combinations(input, r=2, with_replacement=False)",
            "All combinations of r elements of a vector, a row each.")

Tensor vander(const Tensor& x, std::optional<int64_t> n, bool increasing) {
  CHECK(x.dim() == 1, RuntimeError, "x must be a one-dimensional tensor. Got {}", x.sizes());
  const int64_t columns = n.value_or(x.size(0));
  CHECK(columns >= 0, RuntimeError, "N must be non-negative. Got {}", columns);
  checked_numel({x.size(0), columns});
  const DType dtype = is_floating(x.dtype()) || is_complex(x.dtype()) ? x.dtype() : DType::int64;
  const Tensor base = unsqueeze(to(x, dtype), 1);
  const Tensor first =
      ones({x.size(0), std::min<int64_t>(columns, 1)}, {.dtype = dtype, .device = x.device()});
  Tensor powers = first;
  if (columns > 1) powers = cat({first, cumprod(expand(base, {x.size(0), columns - 1}), 1)}, 1);
  return increasing ? powers : flip(powers, IntSpan{1});
}
OP_FUNCTION(vander, "vander(x, N=None, increasing=False)",
            "The powers of each element of a vector, a row each, the highest first.")

// --- Windows -------------------------------------------------------------------------------------

// The positions 2 pi k / (length - 1), or / length for a window that is to be repeated.
Tensor window_angles(const char* op, int64_t length, bool periodic, const Options& options) {
  CHECK(length >= 0, RuntimeError, "{} requires non-negative window_length, got window_length={}",
        op, length);
  Options wide = options;
  wide.requires_grad = false;
  const DType dtype = options.dtype_or(default_dtype());
  CHECK(is_differentiable(dtype), RuntimeError, "{} expects floating point dtypes, got: {}", op,
        dtype);
  wide.dtype = dtype;
  if (length <= 1) return ones({length}, wide);  // of any dtype; see finished_window
  const double last = static_cast<double>(std::max<int64_t>(periodic ? length : length - 1, 1));
  return arange(0, length, 1, wide) * (2 * std::numbers::pi / last);
}

Tensor finished_window(Tensor window, const Options& options) {
  if (window.size(0) <= 1) window = ones_like(window, options.dtype_or(default_dtype()));
  return finished(std::move(window), options);
}

Tensor hann_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("hann_window", window_length, periodic, options);
  return finished_window(cos(x) * -0.5 + 0.5, options);
}
OP_FUNCTION(hann_window, "hann_window(window_length, periodic=True, **options)",
            "The Hann window: half of a raised cosine.")

Tensor hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                      const Options& options) {
  const Tensor x = window_angles("hamming_window", window_length, periodic, options);
  return finished_window(cos(x) * -beta + alpha, options);
}
OP_FUNCTION(hamming_window,
            "hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, **options)",
            "The Hamming window: a raised cosine that does not fall to zero.")

Tensor bartlett_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("bartlett_window", window_length, periodic, options);
  return finished_window(1 - abs(x * (1 / std::numbers::pi) - 1), options);
}
OP_FUNCTION(bartlett_window, "bartlett_window(window_length, periodic=True, **options)",
            "The Bartlett window: a triangle.")

Tensor blackman_window(int64_t window_length, bool periodic, const Options& options) {
  const Tensor x = window_angles("blackman_window", window_length, periodic, options);
  return finished_window(cos(x) * -0.5 + cos(x * 2) * 0.08 + 0.42, options);
}
OP_FUNCTION(blackman_window, "blackman_window(window_length, periodic=True, **options)",
            "The Blackman window: a sum of three cosines.")

Tensor kaiser_window(int64_t window_length, bool periodic, double beta, const Options& options) {
  window_angles("kaiser_window", window_length, periodic, options);  // checks
  Tensor window = ones(IntSpan{window_length}, {.dtype = DType::float64, .device = Device()});
  const int64_t last = periodic ? window_length : window_length - 1;
  for (int64_t k = 0; k < window_length && last > 0; ++k) {
    const double x = 2.0 * static_cast<double>(k) / static_cast<double>(last) - 1;
    window.data<double>()[k] = beta * std::sqrt(std::max(0.0, 1 - x * x));
  }
  const NoGrad off;
  static constexpr UnaryRow i0 = {"i0",          dtypes::Floating, OutDType::same, &kernels::i0,
                                  Keep::nothing, nullptr,          OpDef::plain};
  const Tensor most = scalar_tensor(beta, options_of(window));
  window = unary_op(i0, window, nullptr, 0) / unary_op(i0, most, nullptr, 0);
  const Tensor cast = to(window, options.device_or_default(), options.dtype_or(default_dtype()),
                         false, false, std::nullopt);
  return finished_window(cast, options);
}
Tensor kaiser_window_default(int64_t window_length, bool periodic, const Options& options) {
  return kaiser_window(window_length, periodic, 12.0, options);
}
OP_FUNCTION(kaiser_window_default, "kaiser_window(window_length, periodic=True, **options)",
            "The Kaiser window with beta 12.")
OP_FUNCTION(kaiser_window, "kaiser_window(window_length, periodic, beta, **options)",
            "The Kaiser window: the modified Bessel function of a semicircle.")

}  // namespace
}  // namespace flambeau
