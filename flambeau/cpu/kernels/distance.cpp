// CPU kernel of distances between all pairs of points. The coordinates of the second set stand in
// rows, so that one coordinate of one point meets all the others in a plain loop.
#include <cmath>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/statistics.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// out[j] = finish(fold over m of step(|x[m] - points[m, j]|)) for one point x.
template <class T, class Step, class Fold, class Finish>
void from_point(const T* x, const T* points, T* out, int64_t width, int64_t count, const Step& step,
                const Fold& fold, const Finish& finish) {
  std::fill_n(out, count, T(0));
  for (int64_t m = 0; m < width; ++m) {
    const T* row = points + m * count;
    const T coordinate = x[m];
    IVDEP for (int64_t j = 0; j < count; ++j) {
      out[j] = fold(out[j], step(std::fabs(coordinate - row[j])));
    }
  }
  for (int64_t j = 0; j < count; ++j) out[j] = finish(out[j]);
}

template <class T>
void distances(const T* x, const T* points, T* out, int64_t width, int64_t count, double p) {
  const auto same = [](T d) { return d; };
  const auto add = [](T a, T b) { return a + b; };
  const auto run = [&](const auto& step, const auto& fold, const auto& finish) {
    from_point(x, points, out, width, count, step, fold, finish);
  };
  if (p == 0) return run([](T d) { return d != 0 ? T(1) : T(0); }, add, same);
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
        distances(x + i * width, points + batch * width * count, y + i * count, width, count, p);
      }
    });
  });
}
KERNEL_FOR(cdist, cdist_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
