// Matrix products of every size, layout and addend against three plain loops: small ones, thin ones
// and large ones take different paths, and none may write outside its output.
#include <gtest/gtest.h>

#include <complex>
#include <random>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/kernels/matmul.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau {
namespace {

template <class T>
using Wide = std::conditional_t<is_complex_type<T>, std::complex<double>, double>;

template <class T>
Wide<T> widen(T x) {
  if constexpr (is_reduced_type<T>) {
    return static_cast<double>(static_cast<float>(x));
  } else {
    return static_cast<Wide<T>>(x);
  }
}

class RandomProducts {
 public:
  explicit RandomProducts(int64_t most) : most_(most) {}

  template <class T>
  void check(double tolerance) {
    Gemm p;
    p.dtype = dtype_of<T>;
    p.m = size(), p.n = size(), p.k = draw(40) == 0 ? 0 : size();
    std::vector<T> a = matrix<T>(p.m, p.k, p.a), b = matrix<T>(p.k, p.n, p.b);
    std::vector<T> out = matrix<T>(p.m, p.n, p.out), addend = values<T>(p.m * p.n);
    const std::vector<T> before = out;
    p.a.data = a.data(), p.b.data = b.data(), p.out.data = out.data();
    const int64_t steps[][2] = {{0, 1}, {p.n, 1}, {1, 0}};  // a row, a matrix, a column
    if (const int64_t kind = draw(4); kind < 3) {
      p.addend.data = addend.data();
      p.addend.row = steps[kind][0], p.addend.col = steps[kind][1];
      p.alpha = 3.0, p.beta = 2.0;
    }
    kernels::gemm(DeviceType::cpu, p);
    compare(p, a, b, out, before, addend, tolerance);
  }

 private:
  int64_t draw(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  int64_t size() { return 1 + (draw(3) == 0 ? draw(5) : draw(most_)); }

  template <class T>
  std::vector<T> values(int64_t count) {
    std::vector<T> result(count);
    for (T& x : result) x = static_cast<T>(static_cast<float>(draw(9) - 4));
    return result;
  }

  template <class T>
  std::vector<T> matrix(int64_t rows, int64_t cols, Matrix& x) {
    switch (draw(4)) {
      case 0: x.row = cols, x.col = 1; break;
      case 1: x.row = 1, x.col = rows; break;
      case 2: x.row = cols + 3, x.col = 1; break;
      default: x.row = 2 * cols + 1, x.col = 2; break;
    }
    return values<T>(rows * x.row + cols * x.col + 1);
  }

  template <class T>
  void compare(const Gemm& p, const std::vector<T>& a, const std::vector<T>& b,
               const std::vector<T>& out, std::vector<T> rest, const std::vector<T>& addend,
               double tolerance) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        Wide<T> sum = 0;
        for (int64_t x = 0; x < p.k; ++x) {
          sum += widen(a[i * p.a.row + x * p.a.col]) * widen(b[x * p.b.row + j * p.b.col]);
        }
        if (p.addend.data)
          sum = 3.0 * sum + 2.0 * widen(addend[i * p.addend.row + j * p.addend.col]);
        const int64_t at = i * p.out.row + j * p.out.col;
        ASSERT_LE(std::abs(widen(out[at]) - sum), tolerance * (1 + std::abs(sum)))
            << p.m << "x" << p.k << " @ " << p.k << "x" << p.n << " at " << i << ", " << j;
        rest[at] = out[at];
      }
    }
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(widen(out[i]), widen(rest[i])) << "wrote outside its output";
    }
  }

  int64_t most_;
  std::mt19937_64 random_{7};
};

TEST(Gemm, MultipliesSmallMatricesOfEveryLayout) {
  RandomProducts products(70);
  for (int i = 0; i < 600; ++i) {
    products.check<float>(1e-6);
    products.check<double>(1e-14);
  }
}

TEST(Gemm, MultipliesLargeMatricesOfEveryLayout) {
  RandomProducts products(200);
  for (int i = 0; i < 40; ++i) {
    products.check<float>(1e-5);
    products.check<double>(1e-13);
  }
}

TEST(Gemm, MultipliesOtherTypes) {
  RandomProducts products(40);
  for (int i = 0; i < 100; ++i) {
    products.check<BFloat16>(1e-2);
    products.check<Half>(1e-3);
    products.check<std::complex<float>>(1e-5);
    products.check<std::complex<double>>(1e-13);
    products.check<int64_t>(0);
    products.check<int32_t>(0);
  }
}

TEST(Gemm, GivesTheSameOnOneThread) {
  const int threads = get_num_threads();
  set_num_threads(1);
  RandomProducts products(150);
  for (int i = 0; i < 40; ++i) products.check<float>(1e-5);
  set_num_threads(threads);
}

}  // namespace
}  // namespace flambeau
