// What the CPU kernels of indexing share: how a write changes a value, and iteration in which no
// two threads meet at one place.
#pragma once

#include <algorithm>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/indexing.h"

namespace flambeau::cpu::ISA_NAMESPACE {

template <WriteMode mode, class T>
inline void write_to(char* at, T value) {
  T& there = *reinterpret_cast<T*>(at);
  using C = ComputeType<T>;
  const C a = static_cast<C>(there), b = static_cast<C>(value);
  if constexpr (mode == WriteMode::assign) {
    there = value;
  } else if constexpr (mode == WriteMode::add) {
    if constexpr (std::is_same_v<T, bool>) {
      there = a || b;
    } else {
      there = static_cast<T>(a + b);
    }
  } else if constexpr (mode == WriteMode::multiply) {
    if constexpr (std::is_same_v<T, bool>) {
      there = a && b;
    } else {
      there = static_cast<T>(a * b);
    }
  } else if constexpr (!is_complex_type<T>) {
    // NaN wins, as in maximum().
    const bool better = mode == WriteMode::maximum ? b > a : b < a;
    if (better || b != b) there = value;
  }
}

// Calls body(std::integral_constant<WriteMode, mode>) for every mode but assign.
template <class Body>
void dispatch_mode(WriteMode mode, Body&& body) {
  switch (mode) {
    case WriteMode::assign: break;
    case WriteMode::add: return body(std::integral_constant<WriteMode, WriteMode::add>());
    case WriteMode::multiply: return body(std::integral_constant<WriteMode, WriteMode::multiply>());
    case WriteMode::maximum: return body(std::integral_constant<WriteMode, WriteMode::maximum>());
    case WriteMode::minimum: return body(std::integral_constant<WriteMode, WriteMode::minimum>());
  }
}

// Rows of the innermost dimension on this thread, in order.
template <class Body>
void for_each_row_in_order(const TensorIter& iter, const Body& body) {
  if (iter.numel == 0) return;
  constexpr int most = TensorIter::max_operands;
  int64_t steps[most] = {}, row_steps[most] = {}, index[max_dims] = {};
  char* data[most] = {};
  for (int k = 0; k < iter.count; ++k) {
    steps[k] = iter.strides[k][0];
    row_steps[k] = iter.ndim > 1 ? iter.strides[k][1] : 0;
    data[k] = iter.data[k];
  }
  const int64_t n = iter.ndim > 0 ? iter.shape[0] : 1, rows = iter.ndim > 1 ? iter.shape[1] : 1;
  for (;;) {
    for (int64_t i = 0; i < rows; ++i) {
      char* row[most];
      for (int k = 0; k < most; ++k) row[k] = data[k] + i * row_steps[k];
      body(row, steps, n);
    }
    int d = 2;
    for (; d < iter.ndim; ++d) {
      for (int k = 0; k < iter.count; ++k) data[k] += iter.strides[k][d];
      if (++index[d] < iter.shape[d]) break;
      for (int k = 0; k < iter.count; ++k) data[k] -= iter.shape[d] * iter.strides[k][d];
      index[d] = 0;
    }
    if (d >= iter.ndim) return;
  }
}

// The same on several threads, split along a dimension in which the target moves: writes of
// different threads then go to different places, and those to one place keep their order.
template <class Body>
void for_each_row_by_lane(const TensorIter& iter, const Body& body) {
  int lane = -1;
  for (int d = 0; d < iter.ndim; ++d) {
    if (iter.strides[0][d] != 0 && (lane < 0 || iter.shape[d] > iter.shape[lane])) lane = d;
  }
  if (lane < 0 || iter.numel <= default_grain / 4) return for_each_row_in_order(iter, body);
  const int64_t work = std::max<int64_t>(iter.numel / iter.shape[lane], 1);
  const int64_t grain = std::max<int64_t>(default_grain / 4 / work, 1);
  parallel_for(0, iter.shape[lane], grain, [&](int64_t begin, int64_t end) {
    TensorIter part = iter;
    part.shape[lane] = end - begin;
    part.numel = iter.numel / iter.shape[lane] * (end - begin);
    for (int k = 0; k < iter.count; ++k) part.data[k] += begin * iter.strides[k][lane];
    for_each_row_in_order(part, body);
  });
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
