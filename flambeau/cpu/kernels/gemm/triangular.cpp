// CPU kernel of small triangular systems. Some columns of the right side stand in registers, a row
// of them at a time: from it all that is known of the solution is taken.
#include "flambeau/cpu/triangular.h"

#include <algorithm>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int parts = 2;
constexpr int row_bytes = parts * register_bytes;

// b: up to as many columns of n numbers as fit a row.
template <class T>
void substitute(const Triangles& s, const T* a, T* b, int64_t columns) {
  using Part = typename Register<T>::type;
  constexpr int64_t width = row_bytes / sizeof(T);
  Part rows[small_triangle][parts];
  const int64_t n = s.n;
  // Column by column: those of large matrices may lie so that the cache holds few of them at once.
  T* flat = reinterpret_cast<T*>(rows);
  if (columns < width) std::fill_n(flat, n * width, T(0));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t i = 0; i < n; ++i) flat[i * width + c] = b[c * s.ld + i];
  }
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = s.upper ? n - 1 - step : step;
    const int64_t first = s.upper ? i + 1 : 0, last = s.upper ? n : i;
    const T* factors = a + i * s.row;
    Part one = rows[i][0], two = rows[i][1];
    for (int64_t k = first; k < last; ++k) {
      const T factor = factors[k * s.column];
      one -= factor * rows[k][0];
      two -= factor * rows[k][1];
    }
    if (!s.unit_diagonal) one /= factors[i * s.column], two /= factors[i * s.column];
    rows[i][0] = one, rows[i][1] = two;
  }
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t i = 0; i < n; ++i) b[c * s.ld + i] = flat[i * width + c];
  }
}

void small_triangular_kernel(const Triangles& s) {
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("triangular_solve_cpu", s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t width = row_bytes / sizeof(T);
    const T* matrices = static_cast<const T*>(s.a);
    T* solutions = static_cast<T*>(s.b);
    const int64_t grain = default_grain / (s.n * s.n * s.columns + s.n) + 1;
    parallel_for(0, s.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* x = solutions + i * s.b_step;
        for (int64_t c = 0; c < s.columns; c += width) {
          substitute(s, matrices + i * s.a_step, x + c * s.ld, std::min(width, s.columns - c));
        }
      }
    });
  });
}
KERNEL_FOR(small_triangular_solve, small_triangular_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
