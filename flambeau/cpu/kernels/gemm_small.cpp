// Matrix products in our own loops: small ones, thin ones (a vector on either side), and integers.
// Floats and doubles are computed in tiles of registers, along the columns where rows of b are
// contiguous ("outer"), along k where its columns are ("inner", as in x @ weight.T).
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/kernels/gemm_small.h"
#include "flambeau/cpu/kernels/lanes.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/kernels/math.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Sums stay in registers only where loops over them are unrolled whole.
#define UNROLL _Pragma("GCC unroll 16")

#if FLAMBEAU_ISA_RANK >= 4
constexpr int vector_bytes = 64;
constexpr int accumulators = 24;  // of 32 registers
constexpr int tile_vectors = 4;
#else
constexpr int vector_bytes = 32;
constexpr int accumulators = 12;  // of 16 registers
constexpr int tile_vectors = 2;
#endif
// Narrow tiles are taller, so that enough sums run at once to hide the latency of an addition.
template <int Vectors>
constexpr int tile_rows = accumulators / Vectors < 12 ? accumulators / Vectors : 12;

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

template <class T>
Part<T> transposed(const Part<T>& p) {
  return {p.n,      p.m,          p.k,          p.b,     p.b_col,   p.b_row,
          p.a,      p.a_col,      p.a_row,      p.out,   p.out_col, p.out_row,
          p.addend, p.addend_col, p.addend_row, p.alpha, p.beta};
}

// Sums and a row of the addend that is not contiguous. Out of line: tiles have dozens of rows.
template <class T>
[[gnu::noinline]] Vector<T> plus_strided(Vector<T> value, const T* from, int64_t step, T beta,
                                         int n) {
  for (int l = 0; l < n; ++l) value[l] += from[l * step] * beta;
  return value;
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
    } else {
      value = plus_strided<T>(value, from, p.addend_col, p.beta, n);
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
  const auto step = [&](auto&& load_last) {
    Vector<T> row[Vectors];
    UNROLL for (int v = 0; v < Vectors - 1; ++v) row[v] = load_all(b + v * lanes<T>);
    row[Vectors - 1] = load_last(b + (Vectors - 1) * lanes<T>);
    UNROLL for (int r = 0; r < Rows; ++r) {
      const T scale = a[r * p.a_row];
      UNROLL for (int v = 0; v < Vectors; ++v) acc[r][v] += scale * row[v];
    }
    a += p.a_col;
    b += p.b_row;
  };
  // With AVX-512 a part is loaded as quickly as a whole.
  if (FLAMBEAU_ISA_RANK < 4 && last_lanes == lanes<T>) {
    for (int64_t x = 0; x < p.k; ++x) step([](const T* at) { return load_all(at); });
  } else {
    for (int64_t x = 0; x < p.k; ++x) step([=](const T* at) { return load_part(at, last_lanes); });
  }
  UNROLL for (int r = 0; r < Rows; ++r) {
    UNROLL for (int v = 0; v < Vectors - 1; ++v) {
      finish(p, i + r, j + v * lanes<T>, acc[r][v], lanes<T>);
    }
    finish(p, i + r, j + (Vectors - 1) * lanes<T>, acc[r][Vectors - 1], last_lanes);
  }
}

template <int Rows, int Vectors, class T>
int64_t outer_rows(const Part<T>& p, int64_t i, int64_t j, int last_lanes) {
  for (; i + Rows <= p.m; i += Rows) outer_tile<Rows, Vectors>(p, i, j, last_lanes);
  return i;
}

template <int Vectors, class T>
void outer_strip(const Part<T>& p, int64_t j, int last_lanes) {
  constexpr int rows = tile_rows<Vectors>;
  int64_t i = outer_rows<rows, Vectors>(p, 0, j, last_lanes);
  if constexpr (rows > 8) i = outer_rows<8, Vectors>(p, i, j, last_lanes);
  if constexpr (rows > 4) i = outer_rows<4, Vectors>(p, i, j, last_lanes);
  i = outer_rows<2, Vectors>(p, i, j, last_lanes);
  outer_rows<1, Vectors>(p, i, j, last_lanes);
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

// The sums of the lanes of as many vectors as there are lanes, in their order. Each step joins the
// halves of two vectors in one, so that all sums cost as much as a few single ones.
template <class T, int Distance = lanes<T> / 2>
[[gnu::always_inline]] inline Vector<T> sum_each(const Vector<T>* v) {
  constexpr int n = lanes<T>;
  if constexpr (Distance == 0) {
    return v[0];
  } else {
    Vector<T> joined[Distance];
    for (int i = 0; i < Distance; ++i) {
      joined[i] = [&]<int... L>(std::integer_sequence<int, L...>) {
        const auto low = __builtin_shufflevector(v[i], v[i + Distance],
                                                 (L & Distance ? n + L - Distance : L)...);
        const auto high = __builtin_shufflevector(v[i], v[i + Distance],
                                                  (L & Distance ? n + L : L + Distance)...);
        return low + high;
      }
      (std::make_integer_sequence<int, n>());
    }
    return sum_each<T, Distance / 2>(joined);
  }
}

template <class T>
inline void finish_one(const Part<T>& p, int64_t i, int64_t j, T sum) {
  T value = sum * p.alpha;
  if (p.addend) value += p.beta * p.addend[i * p.addend_row + j * p.addend_col];
  p.out[i * p.out_row + j * p.out_col] = value;
}

// Rows x Columns sums at (i, j), each along k. Needs contiguous rows of a and columns of b. Those
// columns that come next are asked for meanwhile (Asks): so many at once no processor foresees.
template <int Rows, int Columns, bool Asks = false, class T>
[[gnu::always_inline]] inline void inner_tile(const Part<T>& p, int64_t i, int64_t j) {
  Vector<T> acc[Rows][Columns] = {};
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j * p.b_col;
  const auto step = [&](int64_t x, auto&& load) {
    Vector<T> left[Rows];
    UNROLL for (int r = 0; r < Rows; ++r) left[r] = load(a + r * p.a_row + x);
    UNROLL for (int c = 0; c < Columns; ++c) {
      if constexpr (Asks) ask_second_level(b + (c + Columns) * p.b_col + x);
      const Vector<T> right = load(b + c * p.b_col + x);
      UNROLL for (int r = 0; r < Rows; ++r) acc[r][c] += left[r] * right;
    }
  };
  int64_t x = 0;
  for (; x + lanes<T> <= p.k; x += lanes<T>) step(x, [](const T* at) { return load_all(at); });
  if (x < p.k) {
    const int rest = static_cast<int>(p.k - x);
    step(x, [rest](const T* at) { return load_part(at, rest); });
  }
  if constexpr (Rows * Columns == lanes<T>) {
    const Vector<T> sums = sum_each<T>(&acc[0][0]);
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Columns; ++c) finish_one(p, i + r, j + c, sums[r * Columns + c]);
    }
  } else {
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Columns; ++c) finish_one(p, i + r, j + c, sum(acc[r][c]));
    }
  }
}

template <class T>
constexpr int dot_rows = lanes<T> / 4;

// Tiles of as many sums as a register has lanes, then single columns.
template <int Rows, class T>
void inner_strip(const Part<T>& p, int64_t i) {
  constexpr int columns = lanes<T> / Rows;
  int64_t j = 0;
  if constexpr (Rows == 1) {
    if (p.n * p.k > (cached_bytes - 1) / static_cast<int64_t>(sizeof(T))) {
      for (; j + columns <= p.n; j += columns) inner_tile<1, columns, true>(p, i, j);
    }
  }
  for (; j + columns <= p.n; j += columns) inner_tile<Rows, columns>(p, i, j);
  if constexpr (columns > 4) {
    for (; j + 4 <= p.n; j += 4) inner_tile<Rows, 4>(p, i, j);
  }
  for (; j < p.n; ++j) inner_tile<Rows, 1>(p, i, j);
}

template <class T>
void inner_product(const Part<T>& p) {
  int64_t i = 0;
  for (; i + dot_rows<T> <= p.m; i += dot_rows<T>) inner_strip<dot_rows<T>>(p, i);
  if constexpr (dot_rows < T >> 2) {
    for (; i + 2 <= p.m; i += 2) inner_strip<2>(p, i);
  }
  for (; i < p.m; ++i) inner_strip<1>(p, i);
}

// Any strides, any type: one row of sums at a time, in blocks of columns.
template <class T>
[[gnu::noinline]] void plain_product(const Part<T>& p) {
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

// Turns rows of `from` into columns of `to`, a block of registers at a time. Both have unit strides
// along their rows.
template <class T>
[[gnu::always_inline]] inline void transpose_block(const T* from, int64_t step, int rows, int cols,
                                                   T* to, int64_t to_step) {
  constexpr int n = lanes<T>;
  Vector<T> v[n];
  for (int r = 0; r < n; ++r) v[r] = r < rows ? load_part(from + r * step, cols) : Vector<T>{};
  const auto exchange = [&]<int Distance>(std::integral_constant<int, Distance>) {
    UNROLL for (int i = 0; i < n; ++i) {
      if (i & Distance) continue;
      const Vector<T> one = v[i], two = v[i + Distance];
      [&]<int... L>(std::integer_sequence<int, L...>) {
        v[i] = __builtin_shufflevector(one, two, (L & Distance ? n + L - Distance : L)...);
        v[i + Distance] =
            __builtin_shufflevector(one, two, (L & Distance ? n + L : L + Distance)...);
      }
      (std::make_integer_sequence<int, n>());
    }
  };
  if constexpr (n > 8) exchange(std::integral_constant<int, 8>());
  if constexpr (n > 4) exchange(std::integral_constant<int, 4>());
  exchange(std::integral_constant<int, 2>());
  exchange(std::integral_constant<int, 1>());
  for (int c = 0; c < cols; ++c) store_part(to + c * to_step, v[c], rows);
}

}  // namespace

template <class T>
void turn(const T* from, int64_t rows, int64_t cols, int64_t step, T* to, int64_t to_step) {
  constexpr int64_t n = lanes<T>;
  for (int64_t i = 0; i < rows; i += n) {
    for (int64_t j = 0; j < cols; j += n) {
      transpose_block(from + i * step + j, step, static_cast<int>(std::min(n, rows - i)),
                      static_cast<int>(std::min(n, cols - j)), to + j * to_step + i, to_step);
    }
  }
}
template void turn(const float*, int64_t, int64_t, int64_t, float*, int64_t);
template void turn(const double*, int64_t, int64_t, int64_t, double*, int64_t);

namespace {

// A copy with contiguous rows of a matrix with any strides.
template <class T>
const T* pack(const T* from, int64_t rows, int64_t cols, int64_t row, int64_t col,
              Memory<T>& buffer) {
  buffer = memory_for<T>(rows * cols);
  if (row == 1) {
    turn(from, cols, rows, col, buffer.get(), cols);
    return buffer.get();
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) buffer[i * cols + j] = from[i * row + j * col];
  }
  return buffer.get();
}

template <class T>
void packed_product(Part<T> p) {
  Memory<T> b, out;
  p.b = pack(p.b, p.k, p.n, p.b_row, p.b_col, b);
  p.b_row = p.n, p.b_col = 1;
  if (p.out_col == 1) return outer_product(p);
  Part<T> dense = p;
  out = memory_for<T>(p.m * p.n);
  dense.out = out.get();
  dense.out_row = p.n, dense.out_col = 1;
  outer_product(dense);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) p.out[i * p.out_row + j * p.out_col] = out[i * p.n + j];
  }
}

}  // namespace

template <class T>
void block_product(const Part<T>& p) {
  // From few_rows on, rearranging b costs less than its sums along k.
  // A column on the right is a row on the left of the transposed product.
  if (p.n == 1 && p.m > 1) return block_product(transposed(p));
  const bool inner = (p.a_col == 1 || p.k == 1) && (p.b_row == 1 || p.k == 1);
  const bool outer = (p.b_col == 1 || p.n == 1) && (p.out_col == 1 || p.n == 1);
  if (outer && !(inner && p.n == 1)) return outer_product(p);
  if (inner && (p.m < few_rows || (p.m <= 2 * few_rows && p.k >= 256))) return inner_product(p);
  if (p.a_row == 1 && p.out_row == 1) return outer_product(transposed(p));
  if (p.m * p.n * p.k <= 128) return plain_product(p);
  packed_product(p);
}
template void block_product(const Part<float>&);
template void block_product(const Part<double>&);

namespace {

// A register of half precision as two of floats, in an order of its own: bfloat16 is the upper half
// of a float, so that even and odd elements part with one instruction each.
struct Pair {
  Vector<float> first, second;
};
inline Pair load_wide(const BFloat16* p) {
  typedef uint32_t Bits __attribute__((vector_size(vector_bytes), aligned(2), may_alias));
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  return {std::bit_cast<Vector<float>>(bits << 16),
          std::bit_cast<Vector<float>>(bits & 0xffff0000u)};
}
inline Pair load_wide(const Half* p) {
#if FLAMBEAU_ISA_RANK >= 4
  const auto load = [](const Half* at) {
    const auto bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_maskz_cvtph_ps(0xffff, bits);
  };
#else
  const auto load = [](const Half* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
#endif
  return {load(p), load(p + lanes<float>)};
}

// A matrix of half precision as one of floats with contiguous rows.
template <class T>
void widen(const T* from, int64_t rows, int64_t cols, int64_t row, int64_t col, float* to) {
  if (col == 1 && row == cols) {  // one long row
    cols *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < rows; ++i, from += row, to += cols) {
    if (col == 1) {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<float>(from[j]);
    } else {
      for (int64_t j = 0; j < cols; ++j) to[j] = static_cast<float>(from[j * col]);
    }
  }
}

template <class T>
inline void finish_narrow(const Part<T>& p, int64_t i, int64_t j, float sum) {
  float value = sum * p.alpha;
  if (p.addend) {
    value += p.beta * static_cast<float>(p.addend[i * p.addend_row + j * p.addend_col]);
  }
  p.out[i * p.out_row + j * p.out_col] = static_cast<T>(value);
}

// Rows of half precision times a vector. The next rows are asked for while these are summed: rows
// are too short for the processor to foresee them.
template <int Rows, class T>
void wide_dots(const Part<T>& p, int64_t i, const T* right) {
  Vector<float> acc[Rows] = {};
  const T* a = p.a + i * p.a_row;
  int64_t x = 0;
  for (; x + 2 * lanes<float> <= p.k; x += 2 * lanes<float>) {
    const Pair b = load_wide(right + x);
    UNROLL for (int r = 0; r < Rows; ++r) {
      ask_second_level(a + (r + Rows) * p.a_row + x);
      const Pair row = load_wide(a + r * p.a_row + x);
      acc[r] += row.first * b.first;
      acc[r] += row.second * b.second;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    float total = sum(acc[r]);
    for (int64_t y = x; y < p.k; ++y) {
      total += static_cast<float>(a[r * p.a_row + y]) * static_cast<float>(right[y]);
    }
    finish_narrow(p, i + r, 0, total);
  }
}

// Half precision: small matrices are widened, products with a vector widen what they read.
template <class T>
void narrow_product(const Part<T>& p) {
  if (p.m == 1 && p.n > 1) return narrow_product(transposed(p));
  if (p.n == 1 && p.a_col == 1 && p.k >= lanes<float>) {
    Memory<T> copy;
    const T* right = p.b;
    if (p.b_row != 1) {
      copy = memory_for<T>(p.k);
      for (int64_t x = 0; x < p.k; ++x) copy[x] = p.b[x * p.b_row];
      right = copy.get();
    }
    int64_t i = 0;
    for (; i + 4 <= p.m; i += 4) wide_dots<4>(p, i, right);
    for (; i < p.m; ++i) wide_dots<1>(p, i, right);
    return;
  }
  constexpr int64_t room = small_side * small_side;
  if (p.m * p.k > room || p.k * p.n > room || p.m * p.n > room) return plain_product(p);
  float a[room], b[room], out[room];
  widen(p.a, p.m, p.k, p.a_row, p.a_col, a);
  widen(p.b, p.k, p.n, p.b_row, p.b_col, b);
  outer_product<float>({p.m, p.n, p.k, a, p.k, 1, b, p.n, 1, out, p.n, 1, nullptr, 0, 0, 1, 0});
  if (p.out_col == 1 && p.out_row == p.n && !p.addend && p.alpha == 1) {
    for (int64_t i = 0; i < p.m * p.n; ++i) p.out[i] = static_cast<T>(out[i]);
    return;
  }
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) finish_narrow(p, i, j, out[i * p.n + j]);
  }
}

template <class T>
void part_product(const Part<T>& p) {
  if constexpr (std::is_floating_point_v<T>) {
    block_product(p);
  } else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
    narrow_product(p);
  } else if constexpr (is_complex_type<T>) {
    complex_product(p);
  } else if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
    integer_product(p);
  } else {
    plain_product(p);
  }
}

template <class T>
void direct_batch(const Gemm& p) {
  const auto alpha = p.alpha.to<ComputeType<T>>(), beta = p.beta.to<ComputeType<T>>();
  const bool adds = p.addend.data && beta != ComputeType<T>(0);
  const auto run = [&](int64_t index, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    const BatchOffsets at = batch_offsets(p, index);
    const T* addend = static_cast<const T*>(p.addend.data);
    part_product<T>(
        {r1 - r0, c1 - c0, p.k, static_cast<const T*>(p.a.data) + at.a + r0 * p.a.row, p.a.row,
         p.a.col, static_cast<const T*>(p.b.data) + at.b + c0 * p.b.col, p.b.row, p.b.col,
         static_cast<T*>(p.out.data) + at.out + r0 * p.out.row + c0 * p.out.col, p.out.row,
         p.out.col, adds ? addend + at.addend + r0 * p.addend.row + c0 * p.addend.col : nullptr,
         p.addend.row, p.addend.col, alpha, beta});
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
  if (tiny_batch(p)) return;
  dispatch<dtypes::FloatingComplex | dtypes::Signed | DType::uint8>(
      p.op, p.dtype, [&](auto tag) { direct_batch<typename decltype(tag)::type>(p); });
}
KERNEL_FOR(gemm_direct, gemm_direct_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
