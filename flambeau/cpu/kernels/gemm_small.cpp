// Matrix products in our own loops: small ones, thin ones (a vector on either side), and integers.
// Floats and doubles are computed in tiles of registers, along the columns where rows of b are
// contiguous ("outer"), along k where its columns are ("inner", as in x @ weight.T).
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/math.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

#if FLAMBEAU_ISA_RANK >= 4
constexpr int vector_bytes = 64;
constexpr int tile_rows = 6, tile_vectors = 4;  // 24 of 32 registers accumulate
constexpr int dot_rows = 4, dot_columns = 4;
#else
constexpr int vector_bytes = 32;
constexpr int tile_rows = 4, tile_vectors = 2;  // 8 of 16
constexpr int dot_rows = 2, dot_columns = 4;
#endif

template <class T>
constexpr int lanes = vector_bytes / sizeof(T);
// Attributes do not survive in alias templates of g++: a struct an element type holds the vectors.
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(vector_bytes)));
  typedef float unaligned __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(vector_bytes)));
  typedef double unaligned __attribute__((vector_size(vector_bytes), aligned(8), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// The first n elements, zeros behind them; and the same back to memory.
#if FLAMBEAU_ISA_RANK >= 4
inline Vector<float> load_part(const float* p, int n) {
  return _mm512_maskz_loadu_ps((1u << n) - 1u, p);
}
inline Vector<double> load_part(const double* p, int n) {
  return _mm512_maskz_loadu_pd((1u << n) - 1u, p);
}
inline void store_part(float* p, Vector<float> v, int n) {
  _mm512_mask_storeu_ps(p, (1u << n) - 1u, v);
}
inline void store_part(double* p, Vector<double> v, int n) {
  _mm512_mask_storeu_pd(p, (1u << n) - 1u, v);
}
#else
inline __m256i first_lanes(float, int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_lanes(double, int n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Vector<float> load_part(const float* p, int n) {
  return _mm256_maskload_ps(p, first_lanes(0.0f, n));
}
inline Vector<double> load_part(const double* p, int n) {
  return _mm256_maskload_pd(p, first_lanes(0.0, n));
}
inline void store_part(float* p, Vector<float> v, int n) {
  _mm256_maskstore_ps(p, first_lanes(0.0f, n), v);
}
inline void store_part(double* p, Vector<double> v, int n) {
  _mm256_maskstore_pd(p, first_lanes(0.0, n), v);
}
#endif
inline float sum(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline double sum(__m256d v) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}
#if FLAMBEAU_ISA_RANK >= 4
struct Halves {
  __m256 low, high;
};
struct DoubleHalves {
  __m256d low, high;
};
inline float sum(__m512 v) {
  const auto halves = std::bit_cast<Halves>(v);
  return sum(_mm256_add_ps(halves.low, halves.high));
}
inline double sum(__m512d v) {
  const auto halves = std::bit_cast<DoubleHalves>(v);
  return sum(_mm256_add_pd(halves.low, halves.high));
}
#endif

template <class T>
inline Vector<T> load_all(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(p);
}

// One product, or a part of its rows and columns.
template <class T>
struct Part {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* out;
  int64_t out_row, out_col;
  const T* addend;  // null: none
  int64_t addend_row, addend_col;
  ComputeType<T> alpha, beta;
};

template <class T>
Part<T> transposed(const Part<T>& p) {
  return {p.n,      p.m,          p.k,          p.b,     p.b_col,   p.b_row,
          p.a,      p.a_col,      p.a_row,      p.out,   p.out_col, p.out_row,
          p.addend, p.addend_col, p.addend_row, p.alpha, p.beta};
}

// Writes a finished row of sums.
template <class T>
inline void finish(const Part<T>& p, int64_t i, int64_t j, Vector<T> sums, int n) {
  Vector<T> value = sums * p.alpha;
  T* out = p.out + i * p.out_row + j;
  if (p.addend) {
    const T* from = p.addend + i * p.addend_row + j * p.addend_col;
    if (p.addend_col == 1) {
      value += load_part(from, n) * p.beta;
    } else if (p.addend_col == 0) {
      value += *from * p.beta;
    } else {
      for (int l = 0; l < n; ++l) value[l] += from[l * p.addend_col] * p.beta;
    }
  }
  store_part(out, value, n);
}

// Rows x (Vectors * lanes) sums at (i, j). Needs contiguous rows of b and out.
template <int Rows, int Vectors, class T>
[[gnu::always_inline]] inline void outer_tile(const Part<T>& p, int64_t i, int64_t j,
                                              int last_lanes) {
  Vector<T> acc[Rows][Vectors] = {};
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j;
  for (int64_t x = 0; x < p.k; ++x, a += p.a_col, b += p.b_row) {
    Vector<T> row[Vectors];
    for (int v = 0; v < Vectors - 1; ++v) row[v] = load_all(b + v * lanes<T>);
    row[Vectors - 1] = load_part(b + (Vectors - 1) * lanes<T>, last_lanes);
    for (int r = 0; r < Rows; ++r) {
      const T scale = a[r * p.a_row];
      for (int v = 0; v < Vectors; ++v) acc[r][v] += scale * row[v];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors - 1; ++v) finish(p, i + r, j + v * lanes<T>, acc[r][v], lanes<T>);
    finish(p, i + r, j + (Vectors - 1) * lanes<T>, acc[r][Vectors - 1], last_lanes);
  }
}

template <int Vectors, class T>
void outer_strip(const Part<T>& p, int64_t j, int last_lanes) {
  int64_t i = 0;
  for (; i + tile_rows <= p.m; i += tile_rows) outer_tile<tile_rows, Vectors>(p, i, j, last_lanes);
  switch (p.m - i) {
    case 5: return outer_tile < tile_rows >= 6 ? 5 : 1, Vectors > (p, i, j, last_lanes);
    case 4: return outer_tile < tile_rows >= 5 ? 4 : 1, Vectors > (p, i, j, last_lanes);
    case 3: return outer_tile<3, Vectors>(p, i, j, last_lanes);
    case 2: return outer_tile<2, Vectors>(p, i, j, last_lanes);
    case 1: return outer_tile<1, Vectors>(p, i, j, last_lanes);
    default: return;
  }
}

template <class T>
void outer_product(const Part<T>& p) {
  constexpr int64_t width = int64_t{tile_vectors} * lanes<T>;
  for (int64_t j = 0; j < p.n; j += width) {
    const int64_t columns = std::min(width, p.n - j);
    const int vectors = static_cast<int>((columns + lanes<T> - 1) / lanes<T>);
    const int last = static_cast<int>(columns - (vectors - 1) * lanes<T>);
    switch (vectors) {
      case 4: outer_strip<tile_vectors >= 4 ? 4 : 1>(p, j, last); break;
      case 3: outer_strip<tile_vectors >= 3 ? 3 : 1>(p, j, last); break;
      case 2: outer_strip<2>(p, j, last); break;
      default: outer_strip<1>(p, j, last); break;
    }
  }
}

// Rows x Columns sums at (i, j), each along k. Needs contiguous rows of a and columns of b.
template <int Rows, int Columns, class T>
[[gnu::always_inline]] inline void inner_tile(const Part<T>& p, int64_t i, int64_t j) {
  Vector<T> acc[Rows][Columns] = {};
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j * p.b_col;
  const auto step = [&](int64_t x, auto&& load) {
    Vector<T> left[Rows];
    for (int r = 0; r < Rows; ++r) left[r] = load(a + r * p.a_row + x);
    for (int c = 0; c < Columns; ++c) {
      const Vector<T> right = load(b + c * p.b_col + x);
      for (int r = 0; r < Rows; ++r) acc[r][c] += left[r] * right;
    }
  };
  int64_t x = 0;
  for (; x + lanes<T> <= p.k; x += lanes<T>) step(x, [](const T* at) { return load_all(at); });
  if (x < p.k) {
    const int rest = static_cast<int>(p.k - x);
    step(x, [rest](const T* at) { return load_part(at, rest); });
  }
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Columns; ++c) {
      T value = sum(acc[r][c]) * p.alpha;
      if (p.addend) value += p.beta * p.addend[(i + r) * p.addend_row + (j + c) * p.addend_col];
      p.out[(i + r) * p.out_row + (j + c) * p.out_col] = value;
    }
  }
}

template <int Rows, class T>
void inner_strip(const Part<T>& p, int64_t i) {
  int64_t j = 0;
  for (; j + dot_columns <= p.n; j += dot_columns) inner_tile<Rows, dot_columns>(p, i, j);
  for (; j < p.n; ++j) inner_tile<Rows, 1>(p, i, j);
}

template <class T>
void inner_product(const Part<T>& p) {
  int64_t i = 0;
  for (; i + dot_rows <= p.m; i += dot_rows) inner_strip<dot_rows>(p, i);
  for (; i + 2 <= p.m; i += 2) inner_strip<2>(p, i);
  if (i < p.m) inner_strip<1>(p, i);
}

// Any strides, any type: one row of sums at a time, in blocks of columns.
template <class T>
void plain_product(const Part<T>& p) {
  using C = ComputeType<T>;
  constexpr int64_t block = 256;
  C sums[block];
  for (int64_t j0 = 0; j0 < p.n; j0 += block) {
    const int64_t columns = std::min(block, p.n - j0);
    for (int64_t i = 0; i < p.m; ++i) {
      std::fill_n(sums, columns, C(0));
      for (int64_t x = 0; x < p.k; ++x) {
        const C left = static_cast<C>(p.a[i * p.a_row + x * p.a_col]);
        const T* b = p.b + x * p.b_row + j0 * p.b_col;
        for (int64_t j = 0; j < columns; ++j) {
          sums[j] = math::plus(sums[j], math::times(left, static_cast<C>(b[j * p.b_col])));
        }
      }
      T* out = p.out + i * p.out_row + j0 * p.out_col;
      const T* addend = p.addend + i * p.addend_row + j0 * p.addend_col;
      for (int64_t j = 0; j < columns; ++j) {
        C value = math::times(p.alpha, sums[j]);
        if (p.addend) {
          value = math::plus(value, math::times(p.beta, static_cast<C>(addend[j * p.addend_col])));
        }
        out[j * p.out_col] = static_cast<T>(value);
      }
    }
  }
}

// Copies a matrix whose strides fit no tile into rows.
template <class T>
const T* pack(const T* from, int64_t rows, int64_t cols, int64_t row, int64_t col,
              std::unique_ptr<T[]>& buffer) {
  buffer = std::make_unique_for_overwrite<T[]>(rows * cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) buffer[i * cols + j] = from[i * row + j * col];
  }
  return buffer.get();
}

template <class T>
void vector_product(const Part<T>& p) {
  // A column on the right is a row on the left of the transposed product.
  if (p.n == 1 && p.m > 1) return vector_product(transposed(p));
  const bool inner = (p.a_col == 1 || p.k == 1) && (p.b_row == 1 || p.k == 1);
  const bool outer = (p.b_col == 1 || p.n == 1) && (p.out_col == 1 || p.n == 1);
  if (outer && !(inner && p.n == 1)) return outer_product(p);
  if (inner) return inner_product(p);
  if ((p.a_row == 1 || p.m == 1) && (p.out_row == 1 || p.m == 1)) {
    return outer_product(transposed(p));
  }
  if (p.m * p.n * p.k <= 4 * (p.m * p.k + p.k * p.n)) return plain_product(p);
  Part<T> packed = p;
  std::unique_ptr<T[]> a, b;
  if (p.a_col != 1) {
    packed.a = pack(p.a, p.m, p.k, p.a_row, p.a_col, a);
    packed.a_row = p.k, packed.a_col = 1;
  }
  if (p.b_row != 1) {
    packed.b = pack(p.b, p.n, p.k, p.b_col, p.b_row, b);
    packed.b_row = 1, packed.b_col = p.k;
  }
  inner_product(packed);
}

template <class T>
void part_product(const Part<T>& p) {
  if constexpr (std::is_floating_point_v<T>) {
    vector_product(p);
  } else {
    plain_product(p);
  }
}

template <class T>
void direct_batch(const Gemm& p) {
  const bool adds = p.addend.data && p.beta.to<ComputeType<T>>() != ComputeType<T>(0);
  const auto run = [&](int64_t index, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    const BatchOffsets at = batch_offsets(p, index);
    const T* addend = static_cast<const T*>(p.addend.data);
    part_product<T>(
        {r1 - r0, c1 - c0, p.k, static_cast<const T*>(p.a.data) + at.a + r0 * p.a.row, p.a.row,
         p.a.col, static_cast<const T*>(p.b.data) + at.b + c0 * p.b.col, p.b.row, p.b.col,
         static_cast<T*>(p.out.data) + at.out + r0 * p.out.row + c0 * p.out.col, p.out.row,
         p.out.col, adds ? addend + at.addend + r0 * p.addend.row + c0 * p.addend.col : nullptr,
         p.addend.row, p.addend.col, p.alpha.to<ComputeType<T>>(), p.beta.to<ComputeType<T>>()});
  };
  constexpr int64_t work_per_thread = 65536;
  const int64_t work = std::max<int64_t>(p.m * p.n * p.k, 1), count = p.batch_count();
  if (count > 1) {
    parallel_for(0, count, work_per_thread / work + 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) run(i, 0, p.m, 0, p.n);
    });
  } else if (count == 1 && p.n >= p.m) {
    parallel_for(0, p.n, work_per_thread * p.n / work + 1,
                 [&](int64_t first, int64_t last) { run(0, 0, p.m, first, last); });
  } else if (count == 1) {
    parallel_for(0, p.m, work_per_thread * p.m / work + 1,
                 [&](int64_t first, int64_t last) { run(0, first, last, 0, p.n); });
  }
}

void gemm_direct_kernel(const Gemm& p) {
  if (p.dtype == DType::float32) return direct_batch<float>(p);
  dispatch<dtypes::FloatingComplex | dtypes::Signed | DType::uint8>(
      p.op, p.dtype, [&](auto tag) { direct_batch<typename decltype(tag)::type>(p); });
}
KERNEL_FOR(gemm_direct, gemm_direct_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
