// Small tensors with values of every sort, made without ops: what the printed tests call ops with,
// and what flambeau-header tries until an op takes it. The same arguments give the same values.
#pragma once

#include <complex>
#include <cstring>

#include "flambeau/tensor/sparse.h"

namespace flambeau::print {

namespace detail {
template <class T, class Make>
Tensor filled(IntSpan sizes, DType dtype, Make make) {
  Tensor made = make_tensor(sizes, dtype, Device());
  T* data = made.data<T>();
  for (int64_t i = 0; i < made.numel(); ++i) data[i] = static_cast<T>(make(i));
  return made;
}
inline double fraction(int64_t i, int shift) {
  return static_cast<double>((i * 37 + shift * 17 + 5) % 64 + 1) / 66;
}
}  // namespace detail

// Between 0 and 1, so that they can be probabilities.
inline Tensor floats(IntSpan sizes, int shift) {
  return detail::filled<float>(sizes, DType::float32,
                               [&](int64_t i) { return detail::fraction(i, shift); });
}
inline Tensor doubles(IntSpan sizes, int shift) {
  return detail::filled<double>(sizes, DType::float64,
                                [&](int64_t i) { return detail::fraction(i, shift); });
}
inline Tensor complexes(IntSpan sizes, int shift) {
  return detail::filled<std::complex<float>>(sizes, DType::complex64, [&](int64_t i) {
    return std::complex<double>(detail::fraction(i, shift), detail::fraction(i, shift + 1));
  });
}
// 0 and 1, which are indices into nearly everything.
inline Tensor integers(IntSpan sizes, int shift) {
  return detail::filled<int64_t>(sizes, DType::int64, [&](int64_t i) { return (i + shift) % 2; });
}
inline Tensor unit_integers(IntSpan sizes, int /*shift*/) {
  return detail::filled<int64_t>(sizes, DType::int64, [](int64_t) { return 1; });
}
inline Tensor bfloats(IntSpan sizes, int shift) {
  return detail::filled<BFloat16>(sizes, DType::bfloat16, [&](int64_t i) {
    return static_cast<float>(detail::fraction(i, shift));
  });
}
inline Tensor narrow_integers(IntSpan sizes, int shift) {
  return detail::filled<int32_t>(sizes, DType::int32,
                                 [&](int64_t i) { return (i + shift) % 2 + 1; });
}
inline Tensor masks(IntSpan sizes, int shift) {
  return detail::filled<uint8_t>(sizes, DType::bool_,
                                 [&](int64_t i) { return (i + shift) % 3 != 0; });
}
// Symmetric, and as positive definite as matrices of these sizes get.
inline Tensor symmetric(IntSpan sizes, int shift) {
  const int64_t n = sizes.empty() ? 1 : sizes.back();
  return detail::filled<float>(sizes, DType::float32, [&](int64_t i) {
    const int64_t row = i / n % n, column = i % n;
    return row == column ? 4.0 : detail::fraction(row * column + row + column, shift);
  });
}

// One element, of any number of dimensions, or of rows.
inline Tensor coordinates(IntSpan sizes, int shift) {
  const auto dims = static_cast<int64_t>(sizes.size());
  return make_coo(detail::filled<int64_t>({dims, 1}, DType::int64, [](int64_t) { return 0; }),
                  floats({1}, shift), sizes, true);
}
inline Tensor compressed_rows(IntSpan sizes, int shift) {
  const int64_t rows = sizes.empty() ? 1 : sizes[0];
  return make_compressed(
      Layout::sparse_csr,
      detail::filled<int64_t>({rows + 1}, DType::int64, [](int64_t i) { return i > 0; }),
      detail::filled<int64_t>({1}, DType::int64, [](int64_t) { return 0; }), floats({1}, shift),
      sizes.size() == 2 ? sizes : IntSpan({rows, 1}));
}

// One element in the first column.
inline Tensor compressed_columns(IntSpan sizes, int shift) {
  return make_compressed(
      Layout::sparse_csc,
      detail::filled<int64_t>({sizes[1] + 1}, DType::int64, [](int64_t i) { return i > 0; }),
      detail::filled<int64_t>({1}, DType::int64, [](int64_t) { return 0; }), floats({1}, shift),
      sizes);
}

}  // namespace flambeau::print
