// LDL factors of matrices on CUDA: of symmetric ones by cuSOLVER, of complex Hermitian ones by a
// kernel of ours; and solutions of systems with them.
#include "flambeau/cuda/linalg/cusolver.h"

namespace flambeau::cuda {
namespace {

// The factors of one complex Hermitian matrix, which cuSOLVER has not, in a block of threads: Bunch
// and Kaufman's diagonal pivoting ("Some stable methods for calculating inertia", 1977), of what
// lies on the diagonal and below. Pivots and layout of the factors are LAPACK's.
template <class T>
struct HermitianFactors {
  using Real = decltype(T().real());
  static constexpr int lanes = 32;  // a warp has a column
  struct Largest {
    Real value = 0;
    int place = 0;
  };
  T* a;  // column-major, n x n
  int* pivots;
  int n;

  __device__ T& at(int i, int k) const { return a[i + static_cast<int64_t>(k) * n]; }
  __device__ static T conjugated(T value) { return T(value.real(), -value.imag()); }
  __device__ void keep_real(int k) const { at(k, k) = T(at(k, k).real(), 0); }
  // The first of the largest.
  __device__ static void take(Largest& found, Largest other) {
    if (other.value > found.value || (other.value == found.value && other.place < found.place)) {
      found = other;
    }
  }
  // The size of an element as pivoting sees it.
  __device__ Largest seen(int i, int k, int place) const {
    return {abs(at(i, k).real()) + abs(at(i, k).imag()), place};
  }
  __device__ static Largest of_all(Largest mine) {
    __shared__ Largest found[block_size];
    found[threadIdx.x] = mine;
    for (int step = block_size / 2; step > 0; step /= 2) {
      __syncthreads();
      if (threadIdx.x < step) take(found[threadIdx.x], found[threadIdx.x + step]);
    }
    __syncthreads();
    const Largest result = found[0];
    __syncthreads();
    return result;
  }

  // Below the diagonal, in column k.
  __device__ Largest largest_below(int k) const {
    Largest mine{0, n};
    for (int i = k + 1 + static_cast<int>(threadIdx.x); i < n; i += block_size) {
      take(mine, seen(i, k, i));
    }
    return of_all(mine);
  }
  // Beside the diagonal, in row `row` of what is left from k on.
  __device__ Largest largest_beside(int row, int k) const {
    Largest mine{0, n};
    for (int j = k + static_cast<int>(threadIdx.x); j < n; j += block_size) {
      if (j != row) take(mine, j < row ? seen(row, j, j) : seen(j, row, j));
    }
    return of_all(mine);
  }

  // Brings row and column `other` to place k, with what is left of the matrix.
  __device__ void exchange(int k, int other) const {
    for (int i = k + 1 + static_cast<int>(threadIdx.x); i < n; i += block_size) {
      T& first = at(i, k);
      if (i < other) {
        T& second = at(other, i);
        const T kept = conjugated(first);
        first = conjugated(second);
        second = kept;
      } else if (i == other) {
        first = conjugated(first);
      } else {
        T& second = at(i, other);
        const T kept = first;
        first = second;
        second = kept;
      }
    }
    if (threadIdx.x == 0) {
      const Real kept = at(k, k).real();
      at(k, k) = T(at(other, other).real(), 0);
      at(other, other) = T(kept, 0);
    }
    __syncthreads();
  }

  // What is left less the product of column k with itself.
  __device__ void eliminate(int k) const {
    const Real inverse = 1 / at(k, k).real();
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    for (int j = k + 1 + static_cast<int>(threadIdx.x) / lanes; j < n; j += block_size / lanes) {
      const T factor = conjugated(at(j, k)) * T(inverse, 0);
      for (int i = j + lane; i < n; i += lanes) at(i, j) = at(i, j) - at(i, k) * factor;
      __syncwarp();
      if (lane == 0) keep_real(j);
    }
    __syncthreads();
    for (int i = k + 1 + static_cast<int>(threadIdx.x); i < n; i += block_size) {
      at(i, k) = at(i, k) * T(inverse, 0);
    }
    __syncthreads();
  }

  // The same of columns k and k + 1, whose four elements on the diagonal are a pivot.
  struct Pair {
    T first, second;
  };
  __device__ Pair factors(int j, int k) const {
    const T corner = at(k + 1, k);
    const Real size = hypot(corner.real(), corner.imag());
    const Real low = at(k + 1, k + 1).real() / size, high = at(k, k).real() / size;
    const T unit(corner.real() / size, corner.imag() / size);
    const T scale(1 / (low * high - 1) / size, 0);
    const T x = at(j, k), y = at(j, k + 1);
    return {scale * (T(low, 0) * x - unit * y), scale * (T(high, 0) * y - conjugated(unit) * x)};
  }
  __device__ void eliminate_pair(int k) const {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    for (int j = k + 2 + static_cast<int>(threadIdx.x) / lanes; j < n; j += block_size / lanes) {
      const auto [first, second] = factors(j, k);
      for (int i = j + lane; i < n; i += lanes) {
        at(i, j) = at(i, j) - at(i, k) * conjugated(first) - at(i, k + 1) * conjugated(second);
      }
      __syncwarp();
      if (lane == 0) keep_real(j);
    }
    __syncthreads();
    for (int j = k + 2 + static_cast<int>(threadIdx.x); j < n; j += block_size) {
      const auto [first, second] = factors(j, k);
      at(j, k) = first;
      at(j, k + 1) = second;
    }
    __syncthreads();
  }

  struct Pivot {
    int row, size;
  };
  __device__ Pivot choose(int k, Real diagonal, Largest below) const {
    const Real enough = Real(0.6403882032022076);  // (1 + sqrt(17)) / 8
    if (diagonal >= enough * below.value) return {k, 1};
    const Real beside = largest_beside(below.place, k).value;
    if (diagonal >= enough * below.value * (below.value / beside)) return {k, 1};
    return {below.place, abs(at(below.place, below.place).real()) >= enough * beside ? 1 : 2};
  }

  // Answers with the first column of zeros, counted from one, or zero.
  __device__ int factor() const {
    int singular = 0;
    for (int k = 0; k < n;) {
      const Real diagonal = abs(at(k, k).real());
      const Largest below = largest_below(k);
      Pivot pivot{k, 1};
      if (isnan(diagonal) || (diagonal == 0 && below.value == 0)) {
        if (singular == 0) singular = k + 1;
        if (threadIdx.x == 0) keep_real(k);
      } else {
        pivot = choose(k, diagonal, below);
        place(k, pivot);
        if (pivot.size == 1) {
          eliminate(k);
        } else {
          eliminate_pair(k);
        }
      }
      const int marked = pivot.size == 1 ? pivot.row + 1 : -(pivot.row + 1);
      if (static_cast<int>(threadIdx.x) < pivot.size) pivots[k + threadIdx.x] = marked;
      k += pivot.size;
    }
    return singular;
  }
  __device__ void place(int k, Pivot pivot) const {
    const int target = k + pivot.size - 1;
    __syncthreads();  // all have seen what the pivot was chosen by
    if (pivot.row != target) exchange(target, pivot.row);
    if (threadIdx.x == 0) {
      keep_real(k);
      if (pivot.size == 2) keep_real(k + 1);
      if (pivot.size == 2 && pivot.row != target) {
        const T kept = at(k + 1, k);
        at(k + 1, k) = at(pivot.row, k);
        at(pivot.row, k) = kept;
      }
    }
    __syncthreads();
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    factor_hermitian(T* a, int* pivots, int* info, int n) {
  const int64_t matrix = blockIdx.x;
  const int singular = HermitianFactors<T>{a + matrix * n * n, pivots + matrix * n, n}.factor();
  if (threadIdx.x == 0) info[matrix] = singular;
}

void ldl_factor(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  constexpr const char* op = "linalg.ldl_factor";
  const int device = a.device().index;
  const SolverGuard guard(device);
  for_matrix_type(op, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> m(a);
    if constexpr (is_complex_type<T>) {
      if (hermitian) {
        return launch(op, factor_hermitian<T>, blocks_for(m.count, 1), block_size, m.data,
                      pivots.data<int>(), info.data<int>(), m.rows);
      }
    }
    int length = 0;
    check_solver(solver<T>().sytrf_size(guard.solver(), m.rows, m.data, m.ld, &length), op);
    const Workspace work(length * sizeof(T), device);
    for (int64_t i = 0; i < m.count; ++i) {
      check_solver(solver<T>().sytrf(guard.solver(), CUBLAS_FILL_MODE_LOWER, m.rows, m[i], m.ld,
                                     pivots.data<int>() + i * m.rows, work.template get<T>(),
                                     length, info.data<int>() + i),
                   op);
    }
  });
}
KERNEL_FOR(ldl_factor, ldl_factor)

// One column of the right side, in a block of threads. Its values lie in global memory.
template <class T>
struct LdlColumn {
  const T* ld;  // column-major, n x n
  const int* pivots;
  T* x;
  int n;
  bool hermitian;

  __device__ const T& at(int i, int k) const { return ld[i + static_cast<int64_t>(k) * n]; }
  __device__ T conjugated(T value) const {
    if constexpr (is_complex_type<T>) {
      if (hermitian) return T(value.real(), -value.imag());
    }
    return value;
  }
  // The row that was exchanged with row k. Pivots may come from anybody: those out of range are
  // followed by nobody.
  __device__ int partner(int k) const {
    const int row = (pivots[k] < 0 ? -pivots[k] : pivots[k]) - 1;
    return row >= 0 && row < n ? row : k;
  }
  __device__ void exchange(int k) const {
    const int other = partner(k);
    if (threadIdx.x == 0 && other != k) {
      const T kept = x[k];
      x[k] = x[other];
      x[other] = kept;
    }
    __syncthreads();
  }

  // x becomes D^-1 L^-1 x. A negative pivot stands for a block of two rows.
  __device__ void forward() const {
    for (int k = 0; k < n;) {
      const int size = pivots[k] < 0 && k + 1 < n ? 2 : 1;
      exchange(k + size - 1);
      for (int i = k + size + static_cast<int>(threadIdx.x); i < n; i += block_size) {
        T value = x[i];
        for (int j = k; j < k + size; ++j) value = value - at(i, j) * x[j];
        x[i] = value;
      }
      __syncthreads();
      if (threadIdx.x == 0) divide(k, size);
      __syncthreads();
      k += size;
    }
  }
  __device__ void divide(int k, int size) const {
    if (size == 1) {
      x[k] = x[k] / at(k, k);
      return;
    }
    const T corner = at(k + 1, k), above = conjugated(corner);
    const T first = at(k, k) / above, second = at(k + 1, k + 1) / corner;
    const T a = x[k] / above, b = x[k + 1] / corner, divisor = first * second - T(1);
    x[k] = (second * a - b) / divisor;
    x[k + 1] = (first * b - a) / divisor;
  }

  // x becomes L^-T x, or with the adjoint.
  __device__ void backward() const {
    for (int k = n - 1; k >= 0;) {
      const int size = pivots[k] < 0 && k > 0 ? 2 : 1;
      for (int j = k; j > k - size; --j) take_rows_below(j, k);
      exchange(k);
      k -= size;
    }
  }
  // x[j] less the products of column j with what lies below row k.
  __device__ void take_rows_below(int j, int k) const {
    __shared__ alignas(16) char memory[block_size * sizeof(T)];
    T* sums = reinterpret_cast<T*>(memory);
    T sum(0);
    for (int i = k + 1 + static_cast<int>(threadIdx.x); i < n; i += block_size) {
      sum = sum + conjugated(at(i, j)) * x[i];
    }
    sums[threadIdx.x] = sum;
    for (int step = block_size / 2; step > 0; step /= 2) {
      __syncthreads();
      if (threadIdx.x < step) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) x[j] = x[j] - sums[0];
    __syncthreads();
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    ldl_solve_columns(const T* ld, const int* pivots, T* x, int n, int columns, bool hermitian) {
  const int64_t matrix = blockIdx.x / columns;
  const LdlColumn<T> column{ld + matrix * n * n, pivots + matrix * n,
                            x + static_cast<int64_t>(blockIdx.x) * n, n, hermitian};
  column.forward();
  column.backward();
}

void ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  if (b.numel() == 0) return;
  const DeviceGuard guard(b.device().index);
  for_matrix_type("linalg.ldl_solve", ld.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const MatrixBatch<T> a(ld), x(b);
    launch("linalg.ldl_solve", ldl_solve_columns<T>, blocks_for(x.count * x.cols, 1), block_size,
           a.data, pivots.data<int>(), x.data, a.rows, x.cols, hermitian);
  });
}
KERNEL_FOR(ldl_solve, ldl_solve)

}  // namespace
}  // namespace flambeau::cuda
