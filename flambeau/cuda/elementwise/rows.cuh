// How rows of unary.def and binary.def become kernels. A row's dtypes are spread over several
// units, so that none takes long to compile: each unit instantiates the row for one group of dtypes
// and enters it here, and the slot's body picks the group.
#pragma once

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/elementwise.h"

namespace flambeau::cuda {

enum class Group : int { wide, reduced, integral, complex };
constexpr int group_count = 4;

inline constexpr DTypeSet group_dtypes[group_count] = {
    DType::float32 | DType::float64, dtypes::Reduced, dtypes::IntegralBool, dtypes::Complex};

using RowKernel = ElementwiseSlot::Kernel;

// The bodies of one row, by group. Row is a type that carries the row's name.
template <class Row>
inline constinit RowKernel row_kernels[group_count] = {};

template <class Row>
void run_row(const TensorIter& iter, const Scalar* params) {
  for (int g = 0; g < group_count; ++g) {
    if (group_dtypes[g].has(iter.dtypes[1]) && row_kernels<Row>[g])
      return row_kernels<Row>[g](iter, params);
  }
  fail<NotImplementedError>("\"{}\" not implemented for '{}'", Row::name,
                            dtype_legacy_name(iter.dtypes[1]));
}

template <class Row>
bool enter_row(const ElementwiseSlot& slot, Group group, RowKernel kernel) {
  row_kernels<Row>[static_cast<int>(group)] = kernel;
  const_cast<ElementwiseSlot&>(slot).fill(DeviceType::cuda, run_row<Row>);
  return true;
}

constexpr DTypeSet both(DTypeSet a, DTypeSet b) { return DTypeSet(a.bits & b.bits); }

}  // namespace flambeau::cuda
