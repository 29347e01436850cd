// CPU kernels of sparse matrices in compressed rows.
#include "flambeau/kernels/sparse.h"

#include <algorithm>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A number that is to be checked, and not read again afterwards: somebody else may write there.
int64_t read_once(const int64_t* at) { return *static_cast<const volatile int64_t*>(at); }

// Calls body(row, element, column) for the elements of rows, in parallel over rows.
template <class Begin, class Body>
void for_rows(const char* op, const Tensor& crow, const Tensor& col, int64_t columns, int64_t width,
              const Begin& begin_row, const Body& body) {
  const int64_t rows = crow.numel() - 1, count = col.numel();
  const int64_t* starts = crow.data<int64_t>();
  const int64_t* places = col.data<int64_t>();
  const int64_t each = (count / std::max<int64_t>(rows, 1) + 1) * width;
  parallel_for(0, rows, default_grain / std::max<int64_t>(each, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t r = first; r < last; ++r) {
                   const int64_t from = read_once(starts + r), to = read_once(starts + r + 1);
                   CHECK(0 <= from && from <= to && to <= count, RuntimeError,
                         "{}: crow_indices must ascend from 0 to {}, but row {} goes from {} to {}",
                         op, count, r, from, to);
                   begin_row(r);
                   for (int64_t e = from; e < to; ++e) {
                     const int64_t column = read_once(places + e);
                     CHECK(0 <= column && column < columns, RuntimeError,
                           "{}: col_indices must be in [0, {}), but got {}", op, columns, column);
                     body(r, e, column);
                   }
                 }
               });
}

// Sums of integers wrap.
template <class T>
T plus_product(T sum, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(sum) +
                          static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return sum + a * b;
  }
}

template <class T>
void multiply(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense,
              const Tensor& out) {
  using C = ComputeType<T>;
  const int64_t width = dense.size(1);
  const T *v = values.data<T>(), *x = dense.data<T>();
  T* y = out.data<T>();
  if constexpr (std::is_same_v<T, C>) {
    for_rows(
        "sparse.mm", crow, col, dense.size(0), width,
        [=](int64_t r) { std::fill_n(y + r * width, width, T(0)); },
        [=](int64_t r, int64_t e, int64_t c) {
          const T weight = v[e];
          const T* from = x + c * width;
          T* to = y + r * width;
          IVDEP for (int64_t j = 0; j < width; ++j) to[j] = plus_product(to[j], weight, from[j]);
        });
  } else {  // sums of reduced precision are kept in float
    const int64_t rows = crow.numel() - 1;
    std::vector<C> sums(rows * width);
    for_rows(
        "sparse.mm", crow, col, dense.size(0), width, [](int64_t) {},
        [=, to = sums.data()](int64_t r, int64_t e, int64_t c) {
          const C weight = static_cast<C>(v[e]);
          for (int64_t j = 0; j < width; ++j) {
            to[r * width + j] += weight * static_cast<C>(x[c * width + j]);
          }
        });
    for (int64_t i = 0; i < rows * width; ++i) y[i] = static_cast<T>(sums[i]);
  }
}

void csr_mm(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense,
            const Tensor& out) {
  dispatch<dtypes::Numeric>("sparse.mm", values.dtype(), [&](auto tag) {
    multiply<typename decltype(tag)::type>(crow, col, values, dense, out);
  });
}
KERNEL_FOR(csr_mm, csr_mm)

void csr_sampled_dot(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b,
                     const Tensor& out) {
  dispatch<dtypes::FloatingComplex>("sparse.mm", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const int64_t width = a.size(1);
    const T *x = a.data<T>(), *y = b.data<T>();
    T* z = out.data<T>();
    for_rows(
        "sparse.mm", crow, col, b.size(0), width, [](int64_t) {},
        [=](int64_t r, int64_t e, int64_t c) {
          C sum(0);
          for (int64_t j = 0; j < width; ++j) {
            sum += static_cast<C>(x[r * width + j]) * static_cast<C>(y[c * width + j]);
          }
          z[e] = static_cast<T>(sum);
        });
  });
}
KERNEL_FOR(csr_sampled_dot, csr_sampled_dot)

void csr_rows(const Tensor& crow, const Tensor& rows) {
  const int64_t count = rows.numel();
  const int64_t* starts = crow.data<int64_t>();
  int64_t* to = rows.data<int64_t>();
  int64_t done = 0;
  for (int64_t r = 0; r + 1 < crow.numel(); ++r) {
    const int64_t from = read_once(starts + r), end = read_once(starts + r + 1);
    CHECK(from == done && end >= done && end <= count, RuntimeError,
          "crow_indices must ascend from 0 to {}, but row {} goes from {} to {}", count, r, from,
          end);
    for (; done < end; ++done) to[done] = r;
  }
  CHECK(done == count, RuntimeError, "crow_indices must end with {}, but got {}", count, done);
}
KERNEL_FOR(csr_rows, csr_rows)

// Counts, then places: linear in both lengths. What is counted is kept, for somebody else may write
// there in between.
void group_by_index(const Tensor& index, const Tensor& starts, const Tensor& order) {
  const int64_t count = index.numel(), groups = starts.numel() - 1;
  const std::vector<int64_t> values(index.data<int64_t>(), index.data<int64_t>() + count);
  int64_t* from = starts.data<int64_t>();
  std::fill_n(from, groups + 1, 0);
  for (const int64_t value : values) {
    CHECK(0 <= value && value < groups, RuntimeError,
          "sparse tensor: found index {} for a dimension of size {}", value, groups);
    ++from[value + 1];
  }
  for (int64_t g = 0; g < groups; ++g) from[g + 1] += from[g];
  std::vector<int64_t> next(from, from + groups);
  for (int64_t i = 0; i < count; ++i) order.data<int64_t>()[next[values[i]]++] = i;
}
KERNEL_FOR(group_by_index, group_by_index)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
