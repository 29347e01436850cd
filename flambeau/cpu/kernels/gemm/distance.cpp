// CPU kernels of distances between all pairs of points, and of vector products. The coordinates of
// the second set stand in rows, so that one coordinate of one point is compared with all others in
// a plain loop.
#include <cmath>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/statistics.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// One point of coordinates x[m], `x_step` apart, and `count` others points[m, j] in rows that begin
// `row_step` apart.
template <class T>
struct Pairs {
  const T* x;
  int64_t x_step;
  const T* points;
  int64_t row_step, width, count;
};

// out[j] = finish(fold over m of step(|x[m] - points[m, j]|)).
template <class T, class Step, class Fold, class Finish>
void from_point(const Pairs<T>& p, T* out, const Step& step, const Fold& fold,
                const Finish& finish) {
  const int64_t count = p.count;
  std::fill_n(out, count, T(0));
  // Several coordinates at once, so that results are read and written less often.
  const auto take = [&]<int N>(int64_t first, std::integral_constant<int, N>) {
    const T* rows[N];
    T coordinates[N];
    for (int k = 0; k < N; ++k) {
      rows[k] = p.points + (first + k) * p.row_step;
      coordinates[k] = p.x[(first + k) * p.x_step];
    }
    IVDEP for (int64_t j = 0; j < count; ++j) {
      T total = out[j];
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) {
        total = fold(total, step(std::fabs(coordinates[k] - rows[k][j])));
      }
      out[j] = total;
    }
  };
  int64_t m = 0;
  for (; m + 4 <= p.width; m += 4) take(m, std::integral_constant<int, 4>());
  for (; m < p.width; ++m) take(m, std::integral_constant<int, 1>());
  for (int64_t j = 0; j < count; ++j) out[j] = finish(out[j]);
}

template <class T>
void distances(const Pairs<T>& pairs, T* out, double p) {
  const auto same = [](T d) { return d; };
  const auto add = [](T a, T b) { return a + b; };
  const auto run = [&](const auto& step, const auto& fold, const auto& finish) {
    from_point(pairs, out, step, fold, finish);
  };
  // What differs counts as one; what is no number stays none.
  if (p == 0) return run([](T d) { return d != d ? d : d != 0 ? T(1) : T(0); }, add, same);
  if (p == 1) return run(same, add, same);
  if (p == 2) return run([](T d) { return d * d; }, add, [](T d) { return std::sqrt(d); });
  if (std::isinf(p))
    return run(
        same, [](T a, T b) { return b > a || b != b ? b : a; }, same);
  const T power = static_cast<T>(p), root = static_cast<T>(1 / p);
  run([power](T d) { return std::pow(d, power); }, add, [root](T d) { return std::pow(d, root); });
}

void cdist_kernel(const Tensor& x1, const Tensor& x2, const Tensor& out, double p) {
  const int64_t rows = x1.size(-2), width = x1.size(-1), count = out.size(-1);
  if (out.numel() == 0) return;
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("cdist", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = x1.data<T>(), *points = x2.data<T>();
    T* y = out.data<T>();
    const int64_t grain = std::max<int64_t>(1, default_grain / std::max<int64_t>(1, width * count));
    parallel_for(0, out.numel() / count, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t batch = i / rows;
        const T* others = points + batch * width * count;
        distances<T>({x + i * width, 1, others, count, width, count}, y + i * count, p);
      }
    });
  });
}
KERNEL_FOR(cdist, cdist_kernel)

void pdist_kernel(const Tensor& points, const Tensor& out, double p) {
  const int64_t width = points.size(0), n = points.size(1);
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("pdist", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = points.data<T>();
    T* y = out.data<T>();
    const int64_t grain = std::max<int64_t>(1, default_grain / std::max<int64_t>(1, width * n));
    const auto from = [&](int64_t i) {
      T* to = y + i * n - i * (i + 1) / 2;
      distances<T>({x + i, n, x + i + 1, n, width, n - i - 1}, to, p);
    };
    // The first point has the most others and the last but one the fewest: together they have as
    // many as the next two.
    parallel_for(0, n / 2, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        from(i);
        if (n - 2 - i != i) from(n - 2 - i);
      }
    });
  });
}
KERNEL_FOR(pdist, pdist_kernel)

void cdist_backward_kernel(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& d,
                           const Tensor& out) {
  const int64_t rows = x1.size(-2), width = x1.size(-1), count = x2.size(-2);
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("cdist_backward", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *weights = g.data<T>(), *far = d.data<T>(), *one = x1.data<T>(), *two = x2.data<T>();
    T* y = out.data<T>();
    const int64_t grain = std::max<int64_t>(1, default_grain / std::max<int64_t>(1, width * count));
    parallel_for(0, out.numel() / width, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const T* from = one + i * width;
        T* sums = y + i * width;
        std::fill_n(sums, width, T(0));
        for (int64_t j = 0; j < count; ++j) {
          const T distance = far[i * count + j];
          if (distance == 0) continue;
          const T weight = weights[i * count + j];
          const T* to = two + (i / rows * count + j) * width;
          // One division for all coordinates, where it loses nothing.
          const T share = weight / distance;
          if (std::isnormal(share)) {
            IVDEP for (int64_t m = 0; m < width; ++m) sums[m] += share * (from[m] - to[m]);
            continue;
          }
          IVDEP for (int64_t m = 0; m < width; ++m) {
            sums[m] += weight * ((from[m] - to[m]) / distance);
          }
        }
      }
    });
  });
}
KERNEL_FOR(cdist_backward, cdist_backward_kernel)

// Integers have the same bits with a sign as without.
void cross_kernel(const TensorIter& iter, const int64_t* steps) {
  constexpr DTypeSet set = dtypes::Numeric - dtypes::Signed;
  dispatch<set>("cross", without_sign(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto body = [=](char** data, const int64_t* row, int64_t n) {
      const auto at = [&](int operand, int64_t i, int c) -> T& {
        return *reinterpret_cast<T*>(data[operand] + i * row[operand] + c * steps[operand]);
      };
      for (int64_t i = 0; i < n; ++i) {
        C a[3], b[3];
#pragma GCC unroll 3
        for (int c = 0; c < 3; ++c) a[c] = static_cast<C>(at(1, i, c));
#pragma GCC unroll 3
        for (int c = 0; c < 3; ++c) b[c] = static_cast<C>(at(2, i, c));
#pragma GCC unroll 3
        for (int c = 0; c < 3; ++c) {
          const int x = (c + 1) % 3, y = (c + 2) % 3;
          const C one = math::times(a[x], b[y]), two = math::times(a[y], b[x]);
          at(0, i, c) = static_cast<T>(one - two);
        }
      }
    };
    for_each_row(iter, body, 6);
  });
}
KERNEL_FOR(cross, cross_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
