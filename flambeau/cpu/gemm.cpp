// Matrix products on the CPU: our own loops for what is small or thin, oneDNN for single precision,
// OpenBLAS for double precision and complex numbers. Libraries want unit strides; what has none is
// copied first.
#include "flambeau/cpu/gemm.h"

#include <algorithm>
#include <complex>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/memory.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

// Products up to this many multiplications are faster in our own loops than in a library.
constexpr int64_t direct_work = 64 * 64 * 64;
// From here on one product keeps all threads busy; below, threads take a product of the batch each.
constexpr int64_t threaded_work = 128 * 128 * 128;
// Thin products read every element once or a few times: memory decides, not arithmetic.
constexpr int64_t thin = 4;

template <class T>
struct Problem {  // one product of the batch
  int64_t m, n, k;
  const T *a, *b, *addend;
  int64_t a_row, a_col, b_row, b_col, addend_row, addend_col;
  T* out;
  int64_t out_row, out_col;
};

// What multiplies T: half precision is widened to float.
template <class T>
using Wide = ComputeType<T>;

// `matrix` as BLAS takes it, by way of a copy in `buffer` where its strides or type do not fit.
template <class W, class T>
BlasMatrix<const W> for_blas(const T* data, int64_t rows, int64_t cols, int64_t row, int64_t col,
                             Memory<W>& buffer) {
  if constexpr (std::is_same_v<T, W>) {
    if (col == 1 && (row >= cols || rows == 1)) return {data, false, std::max(row, cols)};
    if (row == 1 && (col >= rows || cols == 1)) return {data, true, std::max(col, rows)};
  }
  buffer = memory_for<W>(rows * cols);
  W* copy = buffer.get();
  // Along the smaller stride first, on both sides.
  const bool by_columns = row < col;
  const int64_t outer = by_columns ? cols : rows, inner = by_columns ? rows : cols;
  const int64_t outer_step = by_columns ? col : row, inner_step = by_columns ? row : col;
  parallel_for(0, outer, default_grain / std::max<int64_t>(inner, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const T* from = data + i * outer_step;
                   W* to = copy + i * inner;
                   for (int64_t j = 0; j < inner; ++j) to[j] = static_cast<W>(from[j * inner_step]);
                 }
               });
  return {copy, by_columns, inner};
}

// Calls body(row, column) pairs in chunks of rows, in parallel.
template <class Body>
void for_rows(int64_t rows, int64_t cols, const Body& body) {
  parallel_for(0, rows, default_grain / std::max<int64_t>(cols, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) body(i);
               });
}

template <class T>
void library_gemm(const Problem<T>& p, Wide<T> alpha, Wide<T> beta) {
  using W = Wide<T>;
  if (p.out_col != 1 && p.out_row == 1) {  // the transposed product is row-major
    return library_gemm<T>({p.n, p.m, p.k, p.b, p.a, p.addend, p.b_col, p.b_row, p.a_col, p.a_row,
                            p.addend_col, p.addend_row, p.out, p.out_col, p.out_row},
                           alpha, beta);
  }
  Memory<W> a_copy, b_copy, out_copy;
  const auto a = for_blas<W>(p.a, p.m, p.k, p.a_row, p.a_col, a_copy);
  const auto b = for_blas<W>(p.b, p.k, p.n, p.b_row, p.b_col, b_copy);
  W* out = nullptr;
  int64_t ld = p.out_row;
  if constexpr (std::is_same_v<T, W>) {
    if (p.out_col == 1 && (p.out_row >= p.n || p.m == 1)) out = p.out;
  }
  if (out) {
    ld = std::max(ld, p.n);
  } else {
    out_copy = memory_for<W>(p.m * p.n);
    out = out_copy.get();
    ld = p.n;
  }
  const bool adds = p.addend && beta != W(0);
  const bool in_place = out == reinterpret_cast<const W*>(p.addend) && p.addend_col == 1 &&
                        (p.addend_row == p.out_row || p.m == 1);
  if (adds && !in_place) {
    for_rows(p.m, p.n, [&](int64_t i) {
      const T* from = p.addend + i * p.addend_row;
      for (int64_t j = 0; j < p.n; ++j) out[i * ld + j] = static_cast<W>(from[j * p.addend_col]);
    });
  }
  if constexpr (std::is_same_v<W, float>) {
    sgemm(p.m, p.n, p.k, alpha, a, b, adds ? beta : W(0), out, ld);
  } else {
    blas_gemm<W>(p.m, p.n, p.k, alpha, a, b, adds ? beta : W(0), out, ld);
  }
  if (out_copy) {
    for_rows(p.m, p.n, [&](int64_t i) {
      T* to = p.out + i * p.out_row;
      for (int64_t j = 0; j < p.n; ++j) to[j * p.out_col] = static_cast<T>(out[i * p.n + j]);
    });
  }
}

// bfloat16 has products of its own in oneDNN, with sums in float. An addend is added to those, so
// that the result is rounded once.
void bfloat16_gemm(const Problem<BFloat16>& p, float alpha, float beta) {
  Memory<BFloat16> a_copy, b_copy;
  const auto a = for_blas<BFloat16>(p.a, p.m, p.k, p.a_row, p.a_col, a_copy);
  const auto b = for_blas<BFloat16>(p.b, p.k, p.n, p.b_row, p.b_col, b_copy);
  const bool adds = p.addend && beta != 0;
  const bool is_bias = adds && beta == 1 && p.addend_row == 0 && p.addend_col == 1;
  if ((!adds || is_bias) && alpha == 1 && p.out_col == 1 && (p.out_row >= p.n || p.m == 1)) {
    return bgemm(p.m, p.n, p.k, a, b, p.out, std::max(p.out_row, p.n), DType::bfloat16,
                 adds ? p.addend : nullptr);
  }
  const auto sums = memory_for<float>(p.m * p.n);
  bgemm(p.m, p.n, p.k, a, b, sums.get(), p.n, DType::float32);
  for_rows(p.m, p.n, [&](int64_t i) {
    BFloat16* to = p.out + i * p.out_row;
    const BFloat16* addend = p.addend + i * p.addend_row;
    for (int64_t j = 0; j < p.n; ++j) {
      float value = alpha * sums[i * p.n + j];
      if (adds) value += beta * static_cast<float>(addend[j * p.addend_col]);
      to[j * p.out_col] = BFloat16(value);
    }
  });
}

template <class T>
void library_batch(const Gemm& p) {
  const auto alpha = p.alpha.to<Wide<T>>(), beta = p.beta.to<Wide<T>>();
  const auto run = [&](int64_t index) {
    const BatchOffsets at = batch_offsets(p, index);
    const T* addend = static_cast<const T*>(p.addend.data);
    const Problem<T> problem{p.m,
                             p.n,
                             p.k,
                             static_cast<const T*>(p.a.data) + at.a,
                             static_cast<const T*>(p.b.data) + at.b,
                             addend ? addend + at.addend : nullptr,
                             p.a.row,
                             p.a.col,
                             p.b.row,
                             p.b.col,
                             p.addend.row,
                             p.addend.col,
                             static_cast<T*>(p.out.data) + at.out,
                             p.out.row,
                             p.out.col};
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (has_bgemm()) return bfloat16_gemm(problem, alpha, beta);
    }
    library_gemm<T>(problem, alpha, beta);
  };
  const int64_t count = p.batch_count();
  if (count >= get_num_threads() && p.m * p.n * p.k < threaded_work) {
    parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) run(i);
    });
  } else {
    for (int64_t i = 0; i < count; ++i) run(i);
  }
}

// Of half precision: matrices that fit small squares, and one or a few vectors times matrices.
bool is_small(const Gemm& p) {
  constexpr int64_t limit = small_side * small_side;
  if (p.n == 1) return p.a.col == 1;
  if (p.m == 1) return p.b.row == 1;
  if (p.n <= narrow_columns && p.a.col == 1 && p.k >= small_side) return true;
  if (p.m <= narrow_columns && p.b.row == 1 && p.k >= small_side) return true;
  return p.m <= limit && p.n <= limit && p.k <= limit && p.m * p.k <= limit && p.k * p.n <= limit &&
         p.m * p.n <= limit;
}

// The product of two long vectors: in chunks, the same for any number of threads.
void long_dot(const Gemm& p) {
  constexpr int64_t chunk = 1 << 14;
  const int64_t chunks = (p.k + chunk - 1) / chunk, item = item_size(p.dtype);
  const Tensor sums = make_tensor(chunks, p.dtype, Device{});
  const auto byte = [](const Matrix& x, int64_t at) { return static_cast<char*>(x.data) + at; };
  parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Gemm part = p;
      part.k = std::min(chunk, p.k - i * chunk);
      part.a.data = byte(p.a, i * chunk * p.a.col * item);
      part.b.data = byte(p.b, i * chunk * p.b.row * item);
      part.out.data = static_cast<char*>(sums.raw()) + i * item;
      kernels::gemm_direct(DeviceType::cpu, part);
    }
  });
  dispatch<dtypes::FloatingComplex>(p.op, p.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = std::conditional_t<is_complex_type<T>, std::complex<double>, double>;
    const T* sum = sums.data<T>();
    Sum total = 0;
    for (int64_t i = 0; i < chunks; ++i) total += static_cast<Sum>(sum[i]);
    *static_cast<T*>(p.out.data) = static_cast<T>(total);
  });
}

void gemm_kernel(const Gemm& p) {
  if (p.m == 0 || p.n == 0) return;
  const bool integers = !is_differentiable(p.dtype);
  // Exact for what matters: three sizes below 2^31 may overflow, so compare in floating point.
  const double work =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const bool vectorised = p.dtype == DType::float32 || p.dtype == DType::float64;
  const bool is_thin = vectorised && (p.m <= thin || p.n <= thin);
  const bool is_long = work >= 1 << 16 && p.m == 1 && p.n == 1 && p.batch.empty();
  const bool in_chunks = vectorised || (is_complex(p.dtype) && p.a.col == 1 && p.b.row == 1);
  if (in_chunks && is_long && !p.addend.data && p.alpha == Scalar(1.0)) return long_dot(p);
  const bool reduced = p.dtype == DType::bfloat16 || p.dtype == DType::float16;
  // Our own loops first copy a complex b, which a few rows do not pay for.
  const bool few_rows = is_complex(p.dtype) && p.m < 4 && p.n > 1 && work > 4096;
  const bool goes_direct = reduced ? is_small(p) : work <= direct_work && !few_rows;
  if (integers || is_thin || goes_direct) {
    kernels::gemm_direct(DeviceType::cpu, p);
    return;
  }
  dispatch<dtypes::FloatingComplex>(
      p.op, p.dtype, [&](auto tag) { library_batch<typename decltype(tag)::type>(p); });
}

const bool filled = (kernels::gemm.fill(DeviceType::cpu, gemm_kernel), true);

}  // namespace
}  // namespace flambeau::cpu
