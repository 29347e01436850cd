// Matrix products in our own loops: small ones, thin ones (a vector on either side), and integers.
// Floats and doubles are computed in tiles of registers, along the columns where rows of b are
// contiguous ("outer"), along k where its columns are ("inner", as in x @ weight.T).
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/kernels/gemm/lanes.h"
#include "flambeau/cpu/kernels/gemm/narrow.h"
#include "flambeau/cpu/kernels/gemm/small.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/kernels/math.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

#if FLAMBEAU_ISA_RANK >= 4
constexpr int accumulators = 24;  // of 32 registers
constexpr int tile_vectors = 4;
#else
constexpr int accumulators = 12;  // of 16 registers
constexpr int tile_vectors = 2;
#endif
// Narrow tiles are taller, so that enough sums run at once to hide the latency of an addition.
template <int Vectors>
constexpr int tile_rows = accumulators / Vectors < 12 ? accumulators / Vectors : 12;

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
void transpose(const T* from, int64_t rows, int64_t cols, int64_t step, T* to, int64_t to_step) {
  constexpr int64_t n = lanes<T>;
  for (int64_t i = 0; i < rows; i += n) {
    for (int64_t j = 0; j < cols; j += n) {
      transpose_block(from + i * step + j, step, static_cast<int>(std::min(n, rows - i)),
                      static_cast<int>(std::min(n, cols - j)), to + j * to_step + i, to_step);
    }
  }
}
template void transpose(const float*, int64_t, int64_t, int64_t, float*, int64_t);
template void transpose(const double*, int64_t, int64_t, int64_t, double*, int64_t);

namespace {

// A copy with contiguous rows of a matrix with any strides.
template <class T>
const T* pack(const T* from, int64_t rows, int64_t cols, int64_t row, int64_t col,
              Memory<T>& buffer) {
  buffer = memory_for<T>(rows * cols);
  if (row == 1) {
    transpose(from, cols, rows, col, buffer.get(), cols);
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

// Part of the rows or columns of a product.
template <class T>
Part<T> part_of(Part<T> p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  p.a += row * p.a_row, p.b += column * p.b_col;
  p.out += row * p.out_row + column * p.out_col;
  if (p.addend) p.addend += row * p.addend_row + column * p.addend_col;
  p.m = rows, p.n = columns;
  return p;
}

constexpr int64_t capacity = small_side * small_side;

// Small matrices, widened. The sums are those of floats.
template <class T>
void widened_product(const Part<T>& p) {
  alignas(64) float a[capacity], b[capacity], out[capacity];
  widen(p.a, p.m, p.k, p.a_row, p.a_col, a);
  if (p.b_row == 1 && p.k > 1 && p.n > 1) {  // transposed in SIMD registers
    widen(p.b, p.n, p.k, p.b_col, 1, out);
    transpose(out, p.n, p.k, p.k, b, p.n);
  } else {
    widen(p.b, p.k, p.n, p.b_row, p.b_col, b);
  }
  block_product<float>({p.m, p.n, p.k, a, p.k, 1, b, p.n, 1, out, p.n, 1, nullptr, 0, 0, 1, 0});
  // Rows that lie behind each other are one.
  const bool together = p.out_col == 1 && p.out_row == p.n &&
                        (p.addend ? p.addend_col == 1 && p.addend_row == p.n : p.alpha == 1);
  const int64_t rows = together ? 1 : p.m, columns = together ? p.m * p.n : p.n;
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = out + i * p.n;
    T* to = p.out + i * p.out_row;
    if (p.out_col == 1 && !p.addend && p.alpha == 1) {
      for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(from[j]);
    } else if (p.out_col == 1 && p.addend && p.addend_col == 1) {
      const T* addend = p.addend + i * p.addend_row;
      for (int64_t j = 0; j < columns; ++j) {
        to[j] = static_cast<T>(from[j] * p.alpha + p.beta * static_cast<float>(addend[j]));
      }
    } else {
      for (int64_t j = 0; j < columns; ++j) finish_narrow(p, i, j, from[j]);
    }
  }
}

// Half precision: small matrices are widened, products with a few vectors widen what they read.
template <class T>
void narrow_product(const Part<T>& p) {
  if (p.k >= 2 * lanes<float>) {
    if (p.n <= narrow_columns && p.a_col == 1) return narrow_dots(p);
    if (p.m <= narrow_columns && p.b_row == 1) return narrow_dots(transposed(p));
  }
  if (p.k <= small_side && (p.m * p.k > capacity || p.k * p.n > capacity || p.m * p.n > capacity)) {
    // Over few elements, in chunks that are small and, if they can be, some registers wide.
    const int64_t rows = p.m / 2, columns = p.n > 128 ? (p.n / 2 + 63) / 64 * 64 : p.n / 2;
    if (p.m >= p.n) {
      narrow_product(part_of(p, 0, rows, 0, p.n));
      return narrow_product(part_of(p, rows, p.m - rows, 0, p.n));
    }
    narrow_product(part_of(p, 0, p.m, 0, columns));
    return narrow_product(part_of(p, 0, p.m, columns, p.n - columns));
  }
  if (p.m * p.k > capacity || p.k * p.n > capacity || p.m * p.n > capacity) return plain_product(p);
  widened_product(p);
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

// Rows r0 to r1 and columns c0 to c1 of one product of a batch, whose first product is `whole`.
using ChunkProduct = void(const void* whole, const BatchOffsets& at, int64_t r0, int64_t r1,
                          int64_t c0, int64_t c1);
template <class T>
void chunk_product(const void* whole, const BatchOffsets& at, int64_t r0, int64_t r1, int64_t c0,
                   int64_t c1) {
  const Part<T>& p = *static_cast<const Part<T>*>(whole);
  const int64_t addend = at.addend + r0 * p.addend_row + c0 * p.addend_col;
  part_product<T>({r1 - r0, c1 - c0, p.k, p.a + at.a + r0 * p.a_row, p.a_row, p.a_col,
                   p.b + at.b + c0 * p.b_col, p.b_row, p.b_col,
                   p.out + at.out + r0 * p.out_row + c0 * p.out_col, p.out_row, p.out_col,
                   p.addend ? p.addend + addend : nullptr, p.addend_row, p.addend_col, p.alpha,
                   p.beta});
}

// Calls `product` for chunks of all products of a batch, in parallel. For all types, so that it is
// compiled once.
void for_each_chunk(const Gemm& p, const void* whole, ChunkProduct* product) {
  const auto run = [&](int64_t index, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    product(whole, batch_offsets(p, index), r0, r1, c0, c1);
  };
  constexpr int64_t work_per_thread = 262144;
  const int64_t work = std::max<int64_t>(p.m * p.n * p.k, 1), count = p.batch_count();
  if (count > 1) {
    parallel_for(0, count, work_per_thread / work + 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) run(i, 0, p.m, 0, p.n);
    });
  } else if (count == 1 && p.k <= 4 && p.m > few_rows && p.n > 1 && p.out.col == 1) {
    // Little more than writing: by rows as they lie in memory, not down strips of columns.
    parallel_for(0, (p.m - 1) / few_rows + 1, default_grain / (few_rows * p.n) + 1,
                 [&](int64_t first, int64_t last) {
                   for (int64_t i = first * few_rows; i < std::min(last * few_rows, p.m);
                        i += few_rows) {
                     run(0, i, std::min(i + few_rows, p.m), 0, p.n);
                   }
                 });
  } else if (count == 1 && p.n >= p.m) {
    parallel_for(0, p.n, work_per_thread * p.n / work + 1,
                 [&](int64_t first, int64_t last) { run(0, 0, p.m, first, last); });
  } else if (count == 1) {
    parallel_for(0, p.m, work_per_thread * p.m / work + 1,
                 [&](int64_t first, int64_t last) { run(0, first, last, 0, p.n); });
  }
}

template <class T>
void for_each_chunk(const Gemm& p, const Part<T>& whole) {
  for_each_chunk(p, &whole, chunk_product<T>);
}

template <class T>
void direct_batch(const Gemm& p) {
  const auto alpha = p.alpha.to<ComputeType<T>>(), beta = p.beta.to<ComputeType<T>>();
  const void* addend = beta != ComputeType<T>(0) ? p.addend.data : nullptr;
  for_each_chunk<T>(
      p, {p.m, p.n, p.k, static_cast<const T*>(p.a.data), p.a.row, p.a.col,
          static_cast<const T*>(p.b.data), p.b.row, p.b.col, static_cast<T*>(p.out.data), p.out.row,
          p.out.col, static_cast<const T*>(addend), p.addend.row, p.addend.col, alpha, beta});
}

void gemm_direct_kernel(const Gemm& p) {
  if (tiny_batch(p)) return;
  dispatch<dtypes::FloatingComplex | dtypes::Signed | DType::uint8>(
      p.op, p.dtype, [&](auto tag) { direct_batch<typename decltype(tag)::type>(p); });
}
KERNEL_FOR(gemm_direct, gemm_direct_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
