// CPU kernel of small triangular systems. Some columns of the right side stand in registers, a row
// of them at a time: from it all that is known of the solution is taken.
#include "flambeau/cpu/triangular.h"

#include <algorithm>
#include <cstring>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/lanes.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int parts = 2;
constexpr int row_bytes = parts * register_bytes;
// A matrix of n rows, `row` and `column` elements apart.
template <class T>
struct Triangle {
  const T* data;
  int64_t n, row, column;
  bool upper, unit;
};

// b: up to as many columns of n numbers as a row has room for.
template <class T>
void substitute(const Triangle<T>& a, T* b, int64_t columns) {
  using Part = typename Register<T>::type;
  constexpr int64_t width = row_bytes / sizeof(T);
  Part rows[small_triangle][parts];
  const int64_t n = a.n;
  for (int64_t i = 0; i < n; ++i) {
    T gathered[width] = {};
    for (int64_t c = 0; c < columns; ++c) gathered[c] = b[c * n + i];
    std::memcpy(rows[i], gathered, sizeof gathered);
  }
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = a.upper ? n - 1 - step : step;
    const int64_t first = a.upper ? i + 1 : 0, last = a.upper ? n : i;
    const T* factors = a.data + i * a.row;
    Part one = rows[i][0], two = rows[i][1];
    for (int64_t k = first; k < last; ++k) {
      const T factor = factors[k * a.column];
      one -= factor * rows[k][0];
      two -= factor * rows[k][1];
    }
    if (!a.unit) one /= factors[i * a.column], two /= factors[i * a.column];
    rows[i][0] = one, rows[i][1] = two;
  }
  for (int64_t i = 0; i < n; ++i) {
    T solved[width];
    std::memcpy(solved, rows[i], sizeof solved);
    for (int64_t c = 0; c < columns; ++c) b[c * n + i] = solved[c];
  }
}

void small_triangular_kernel(const Tensor& a, const Tensor& b, bool upper, Transposed how,
                             bool unit) {
  const int64_t n = a.size(-1), columns = b.size(-1);
  if (b.numel() == 0) return;
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("triangular_solve_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t width = row_bytes / sizeof(T);
    const T* matrices = a.data<T>();
    T* solutions = b.data<T>();
    const bool turned = how != Transposed::no;
    const int64_t grain = default_grain / (n * n * columns + n) + 1;
    parallel_for(0, b.numel() / (n * columns), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Triangle<T> matrix{matrices + i * n * n, n,   turned ? n : 1, turned ? 1 : n,
                                 upper != turned,      unit};
        T* x = solutions + i * n * columns;
        for (int64_t c = 0; c < columns; c += width) {
          substitute(matrix, x + c * n, std::min(width, columns - c));
        }
      }
    });
  });
}
KERNEL_FOR(small_triangular_solve, small_triangular_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
