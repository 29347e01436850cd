// CPU kernels of sparse matrices in compressed rows.
#include "flambeau/kernels/sparse.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A number that is to be checked, and not read again afterwards: somebody else may write there.
int64_t read_once(const int64_t* at) { return *static_cast<const volatile int64_t*>(at); }

// Not inlined, for the arguments would be laid out for the message at every element.
[[gnu::noinline, gnu::cold]] void refuse_row(const char* op, int64_t row, int64_t from, int64_t to,
                                             int64_t count) {
  fail<RuntimeError>("{}: crow_indices must ascend from 0 to {}, but row {} goes from {} to {}", op,
                     count, row, from, to);
}

[[gnu::noinline, gnu::cold]] void refuse_column(const char* op, int64_t column, int64_t columns) {
  fail<RuntimeError>("{}: col_indices must be in [0, {}), but got {}", op, columns, column);
}

void check_row(const char* op, int64_t row, int64_t from, int64_t to, int64_t count) {
  if (from < 0 || from > to || to > count) refuse_row(op, row, from, to, count);
}

void check_column(const char* op, int64_t column, int64_t columns) {
  if (static_cast<uint64_t>(column) >= static_cast<uint64_t>(columns)) {
    refuse_column(op, column, columns);
  }
}

// Calls body(row, element, column) for the elements of rows, in parallel over rows.
template <class Begin, class Body>
void for_rows(const char* op, const Tensor& crow, const Tensor& col, int64_t columns, int64_t width,
              const Begin& begin_row, const Body& body) {
  const int64_t rows = crow.numel() - 1, count = col.numel();
  const int64_t* starts = crow.data<int64_t>();
  const int64_t* column_of = col.data<int64_t>();
  const int64_t each = (count / std::max<int64_t>(rows, 1) + 1) * width;
  parallel_for(0, rows, default_grain / std::max<int64_t>(each, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t r = first; r < last; ++r) {
                   const int64_t from = read_once(starts + r), to = read_once(starts + r + 1);
                   check_row(op, r, from, to, count);
                   begin_row(r);
                   for (int64_t e = from; e < to; ++e) {
                     const int64_t column = read_once(column_of + e);
                     check_column(op, column, columns);
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

// A vector is met by one dot product a row: sums in registers, four of them, for one would wait for
// itself, and the columns checked as they are read.
template <class T>
void multiply_vector(const Tensor& crow, const Tensor& col, const Tensor& values,
                     const Tensor& dense, const Tensor& out) {
  using C = ComputeType<T>;
  const int64_t rows = crow.numel() - 1, count = col.numel(), columns = dense.size(0);
  const int64_t *starts = crow.data<int64_t>(), *column_of = col.data<int64_t>();
  const T *v = values.data<T>(), *x = dense.data<T>();
  T* y = out.data<T>();
  const auto added = [=](C sum, int64_t e) {
    const int64_t column = read_once(column_of + e);
    check_column("sparse.mm", column, columns);
    return plus_product(sum, static_cast<C>(v[e]), static_cast<C>(x[column]));
  };
  const int64_t each = count / std::max<int64_t>(rows, 1) + 1;
  parallel_for(0, rows, default_grain / each + 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t from = read_once(starts + r), to = read_once(starts + r + 1);
      check_row("sparse.mm", r, from, to, count);
      C a(0), b(0), c(0), d(0);
      int64_t e = from;
      for (; e + 4 <= to; e += 4) {
        a = added(a, e), b = added(b, e + 1), c = added(c, e + 2), d = added(d, e + 3);
      }
      for (; e < to; ++e) a = added(a, e);
      y[r] = static_cast<T>(plus_product(plus_product(a, b, C(1)), plus_product(c, d, C(1)), C(1)));
    }
  });
}

template <class T>
void multiply(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense,
              const Tensor& out) {
  using C = ComputeType<T>;
  const int64_t width = dense.size(1);
  if (width == 1) return multiply_vector<T>(crow, col, values, dense, out);
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

void matrix_ascends(const Tensor& indices, bool& ascends) {
  const int64_t count = indices.size(1);
  const int64_t *rows = indices.data<int64_t>(), *columns = rows + count;
  int64_t ascending = 1;  // counted to the end, which has no branches
  for (int64_t i = 1; i < count; ++i) {
    ascending +=
        (rows[i - 1] < rows[i]) | ((rows[i - 1] == rows[i]) & (columns[i - 1] < columns[i]));
  }
  ascends = ascending >= count;
}
KERNEL_FOR(matrix_ascends, matrix_ascends)

void check_index(int64_t value, int64_t groups) {
  CHECK(0 <= value && value < groups, RuntimeError,
        "sparse tensor: found index {} for a dimension of size {}", value, groups);
}

// Where values start that ascend already, as the rows of coalesced tensors do; false where they
// turn out not to.
bool group_ascending(const Tensor& index, int64_t* from, int64_t groups) {
  const int64_t count = index.numel();
  const int64_t* values = index.data<int64_t>();
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = read_once(values + i);
    if (value == last && value >= 0) continue;
    if (value < last) return false;
    check_index(value, groups);
    std::fill(from + last + 1, from + value + 1, i);
    last = value;
  }
  std::fill(from + last + 1, from + groups + 1, count);
  return true;
}

// Counts, then positions: linear in both lengths. What is counted is kept, for somebody else may
// write there in between.
void group_by_index(const Tensor& index, const Tensor& starts, const Tensor& order) {
  const int64_t count = index.numel(), groups = starts.numel() - 1;
  if (group_ascending(index, starts.data<int64_t>(), groups)) {
    if (order.defined()) std::iota(order.data<int64_t>(), order.data<int64_t>() + count, 0);
    return;
  }
  const std::vector<int64_t> values(index.data<int64_t>(), index.data<int64_t>() + count);
  int64_t* from = starts.data<int64_t>();
  std::fill_n(from, groups + 1, 0);
  for (const int64_t value : values) {
    check_index(value, groups);
    ++from[value + 1];
  }
  for (int64_t g = 0; g < groups; ++g) from[g + 1] += from[g];
  if (!order.defined()) return;
  std::vector<int64_t> next(from, from + groups);
  for (int64_t i = 0; i < count; ++i) order.data<int64_t>()[next[values[i]]++] = i;
}
KERNEL_FOR(group_by_index, group_by_index)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
