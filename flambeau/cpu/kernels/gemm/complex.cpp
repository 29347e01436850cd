// Small products of complex matrices as products of real ones. A row of complex numbers is a row of
// twice as many real ones, and so are rows of a and of the product; a row of b becomes two: itself,
// and itself times i. Then (m x 2k) times (2k x 2n) are the sums that are wanted.
#include <complex>
#include <cstring>
#include <utility>

#include "flambeau/cpu/kernels/gemm/small.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Scratch memory on the stack, or on the heap where that is too small.
template <class R>
class Buffer {
 public:
  explicit Buffer(int64_t count) {
    if (count > capacity) heap_ = memory_for<R>(count);
  }
  R* data() { return heap_ ? heap_.get() : here_; }

 private:
  static constexpr int64_t capacity = 2048;
  alignas(64) R here_[capacity];
  Memory<R> heap_;
};

// Rows and columns of complex numbers with any strides, side by side.
template <class R>
const R* side_by_side(const std::complex<R>* from, int64_t rows, int64_t cols, int64_t row,
                      int64_t col, R* to) {
  for (int64_t i = 0; i < rows; ++i) {
    const R* line = reinterpret_cast<const R*>(from + i * row);
    for (int64_t j = 0; j < cols; ++j, to += 2) {
      to[0] = line[2 * j * col], to[1] = line[2 * j * col + 1];
    }
  }
  return to - 2 * rows * cols;
}

// b as 2k rows of 2n numbers.
template <class R>
void double_rows(const Part<std::complex<R>>& p, R* to) {
  for (int64_t x = 0; x < p.k; ++x, to += 4 * p.n) {
    const R* line = reinterpret_cast<const R*>(p.b + x * p.b_row);
    R* rotated = to + 2 * p.n;
    const auto loop = [ =, n = p.n ](int64_t step) __attribute__((always_inline)) {
      for (int64_t j = 0; j < n; ++j) {
        const R re = line[j * step], im = line[j * step + 1];
        to[2 * j] = re, to[2 * j + 1] = im;
        rotated[2 * j] = -im, rotated[2 * j + 1] = re;
      }
    };
    p.b_col == 1 || p.n == 1 ? loop(2) : loop(2 * p.b_col);
  }
}

// A column b as two columns of 2k numbers, along which rows of a are summed.
template <class R>
void double_column(const Part<std::complex<R>>& p, R* to) {
  R* rotated = to + 2 * p.k;
  for (int64_t x = 0; x < p.k; ++x) {
    const std::complex<R> value = p.b[x * p.b_row];
    to[2 * x] = value.real(), to[2 * x + 1] = -value.imag();
    rotated[2 * x] = value.imag(), rotated[2 * x + 1] = value.real();
  }
}

template <class R>
void multiply(const Part<std::complex<R>>& p, const R* a, int64_t a_row, R* out, int64_t out_row) {
  Buffer<R> doubled(4 * p.k * p.n);
  R* const b = doubled.data();
  Part<R> real{p.m, 2 * p.n, 2 * p.k, a,       a_row, 1, b, 2 * p.n, 1,
               out, out_row, 1,       nullptr, 0,     0, 1, 0};
  if (p.n > 1) {
    double_rows(p, b);
    return block_product(real);
  }
  double_column(p, b);
  real.b_row = 1, real.b_col = 2 * p.k;
  constexpr int64_t together = few_rows / 2;
  for (int64_t i = 0; i < p.m; i += together, real.a += together * a_row) {
    real.m = std::min(together, p.m - i);
    block_product(real);
    real.out += together * out_row;
  }
}

// The sum of a[x] * b[x]. Registers of real and imaginary parts side by side are multiplied as
// they are, for the real part, and with the parts of one exchanged, for the imaginary one.
template <class R>
std::complex<R> dot(const R* a, const R* b, int64_t count) {
  using V = typename Register<R>::type;
  constexpr int lanes = register_bytes / sizeof(R), together = 4;
  V same[together] = {}, crossed[together] = {};
  int64_t x = 0;
  const auto step = [&](int i, const R* left, const R* right) {
    V l, r, exchanged;
    std::memcpy(&l, left, sizeof l);
    std::memcpy(&r, right, sizeof r);
    [&]<int... L>(std::integer_sequence<int, L...>) {
      exchanged = __builtin_shufflevector(r, r, (L ^ 1)...);
    }
    (std::make_integer_sequence<int, lanes>());
    same[i] += l * r;
    crossed[i] += l * exchanged;
  };
  for (; x + together * lanes <= 2 * count; x += together * lanes) {
#pragma GCC unroll 4
    for (int i = 0; i < together; ++i) step(i, a + x + i * lanes, b + x + i * lanes);
  }
  for (; x + lanes <= 2 * count; x += lanes) step(0, a + x, b + x);
  const V products = (same[0] + same[1]) + (same[2] + same[3]);
  const V cross = (crossed[0] + crossed[1]) + (crossed[2] + crossed[3]);
  R re = 0, im = 0;
  for (int l = 0; l < lanes; l += 2) {
    re += products[l] - products[l + 1];
    im += cross[l] + cross[l + 1];
  }
  for (; x < 2 * count; x += 2) {
    re += a[x] * b[x] - a[x + 1] * b[x + 1];
    im += a[x] * b[x + 1] + a[x + 1] * b[x];
  }
  return {re, im};
}

}  // namespace

template <class R>
void complex_product(const Part<std::complex<R>>& p) {
  if (p.m == 1 && p.n == 1 && p.a_col == 1 && p.b_row == 1 && !p.addend && p.alpha == R(1)) {
    *p.out = dot(reinterpret_cast<const R*>(p.a), reinterpret_cast<const R*>(p.b), p.k);
    return;
  }
  const bool a_fits = p.a_col == 1 || p.k == 1;
  Buffer<R> a_copy(a_fits ? 0 : 2 * p.m * p.k);
  const R* const a = a_fits ? reinterpret_cast<const R*>(p.a)
                            : side_by_side(p.a, p.m, p.k, p.a_row, p.a_col, a_copy.data());
  // The stride of a single row may be any number.
  const auto row_step = [&p](int64_t step) { return p.m > 1 ? 2 * step : 0; };
  const int64_t a_row = row_step(a_fits ? p.a_row : p.k);
  if ((p.out_col == 1 || p.n == 1) && !p.addend && p.alpha == R(1)) {
    return multiply<R>(p, a, a_row, reinterpret_cast<R*>(p.out), row_step(p.out_row));
  }
  Buffer<R> sums(2 * p.m * p.n);
  multiply<R>(p, a, a_row, sums.data(), 2 * p.n);
  // By parts: the operator of the language also looks for infinities.
  const R* sum = sums.data();
  const R scale[] = {p.alpha.real(), p.alpha.imag(), p.beta.real(), p.beta.imag()};
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j, sum += 2) {
      R re = scale[0] * sum[0] - scale[1] * sum[1], im = scale[0] * sum[1] + scale[1] * sum[0];
      if (p.addend) {
        const std::complex<R> added = p.addend[i * p.addend_row + j * p.addend_col];
        re += scale[2] * added.real() - scale[3] * added.imag();
        im += scale[2] * added.imag() + scale[3] * added.real();
      }
      p.out[i * p.out_row + j * p.out_col] = {re, im};
    }
  }
}
template void complex_product(const Part<std::complex<float>>&);
template void complex_product(const Part<std::complex<double>>&);

}  // namespace flambeau::cpu::ISA_NAMESPACE
