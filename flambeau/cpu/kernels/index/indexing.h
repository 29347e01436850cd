// What the CPU kernels of indexing share: how a write changes a value, and iteration in which no
// two threads write to one element.
#pragma once

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/indexing.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

template <WriteMode mode, class T>
inline void write_to(char* at, T value) {
  T& there = *reinterpret_cast<T*>(at);
  using C = ComputeType<T>;
  const C a = static_cast<C>(there), b = static_cast<C>(value);
  if constexpr (mode == WriteMode::assign) {
    there = value;
  } else if constexpr (mode == WriteMode::add) {
    there = static_cast<T>(math::plus(a, b));
  } else if constexpr (mode == WriteMode::multiply) {
    there = static_cast<T>(math::times(a, b));
  } else {
    // NaN wins, as in maximum(). Which is better could not be foreseen, so that it is no branch.
    const C best = mode == WriteMode::maximum ? (b > a ? b : a) : (b < a ? b : a);
    there = b != b ? value : static_cast<T>(best);
  }
}

// Calls body(std::integral_constant<WriteMode, mode>, TypeTag<T>) for every mode but assign. Sums
// and products of integers have the same bits with a sign as without.
template <class Body>
void dispatch_write(std::string_view op, WriteMode mode, DType dtype, const Body& body) {
  const auto sum_or_product = [&](auto constant) {
    dispatch<dtypes::All - dtypes::Signed>(op, without_sign(dtype),
                                           [&](auto tag) { body(constant, tag); });
  };
  const auto extreme = [&](auto constant) {
    dispatch<dtypes::RealBool>(op, dtype, [&](auto tag) { body(constant, tag); });
  };
  switch (mode) {
    case WriteMode::assign: break;
    case WriteMode::add: return sum_or_product(std::integral_constant<WriteMode, WriteMode::add>());
    case WriteMode::multiply:
      return sum_or_product(std::integral_constant<WriteMode, WriteMode::multiply>());
    case WriteMode::maximum:
      return extreme(std::integral_constant<WriteMode, WriteMode::maximum>());
    case WriteMode::minimum:
      return extreme(std::integral_constant<WriteMode, WriteMode::minimum>());
  }
}

// Rows of the innermost dimension, each by a call of body(data, steps, n): on several threads where
// there is a dimension to split in which the target moves, so that writes of different threads go
// to different elements, and those to one element keep their order.
using RowsBody = void (*)(const void* context, char** data, const Block& block);
void for_each_row_by_lane(const TensorIter& iter, const void* context, RowsBody body);

template <class Body>
void for_each_row_by_lane(const TensorIter& iter, const Body& body) {
  for_each_row_by_lane(iter, &body, [](const void* context, char** data, const Block& block) {
    constexpr int most = TensorIter::max_operands;
    for (int64_t i = 0; i < block.m; ++i) {
      char* row[most];
      for (int k = 0; k < most; ++k) row[k] = data[k] + i * block.row_steps[k];
      (*static_cast<const Body*>(context))(row, block.steps, block.n);
    }
  });
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
