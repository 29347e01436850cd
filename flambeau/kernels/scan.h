// The slots of cumulative functions. All tensors are contiguous and of one shape.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// In and out have one dtype; `reverse` runs from the last element to the first.
using ScanSlot = Slot<void(const Tensor& input, const Tensor& out, int64_t dim, bool reverse)>;
// Running extremes; `indices` are int64.
using ScanIndexSlot =
    Slot<void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim)>;

namespace kernels {
// On the CPU, forward sums also take these integers where `out` has int64.
constexpr DTypeSet summed_integers = dtypes::Signed | DType::uint8 | DType::bool_;
inline constinit ScanSlot cumsum{"cumsum"};
inline constinit ScanSlot cumprod{"cumprod"};
inline constinit ScanSlot logcumsumexp{"logcumsumexp"};
inline constinit ScanIndexSlot cummax{"cummax"};
inline constinit ScanIndexSlot cummin{"cummin"};
// The gradient of the input of logcumsumexp.
inline constinit Slot<void(const Tensor& grad, const Tensor& input, const Tensor& output,
                           const Tensor& out, int64_t dim)>
    logcumsumexp_backward{"logcumsumexp_backward"};
}  // namespace kernels

}  // namespace flambeau
