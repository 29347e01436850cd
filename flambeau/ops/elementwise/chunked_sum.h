// Sums of formulas of two tensors that take several kernels, a chunk of the tensors at a time: what
// one kernel leaves for the next stays in the cache, and no tensor is made for it.
#pragma once

#include <functional>
#include <initializer_list>

#include "flambeau/kernels/elementwise.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Neighbouring elements of both tensors, and scratch memory for as many results of kernels.
class Chunk {
 public:
  char *a = nullptr, *b = nullptr, *out = nullptr, *spare = nullptr;

  Chunk(DType dtype, int64_t n) : dtype_(dtype), n_(n) {}
  // An iteration over arrays, the output first.
  [[nodiscard]] TensorIter over(std::initializer_list<char*> arrays) const;
  // Runs the kernel of a row.
  void run(const ElementwiseSlot& slot, std::initializer_list<char*> arrays) const {
    slot(DeviceType::cpu, over(arrays), nullptr);
  }

 private:
  DType dtype_;
  int64_t n_;
};
using ChunkFormula = std::function<void(const Chunk& chunk)>;

// Whether the sum can be had so: of large arrays of the same floating dtype on the CPU whose
// elements nobody asks a gradient of.
bool sums_in_chunks(const Tensor& a, const Tensor& b);
// The sum of chunk.out over all elements, or their mean, in the dtype of the tensors.
Tensor sum_in_chunks(const Tensor& a, const Tensor& b, bool mean, const ChunkFormula& formula);

}  // namespace flambeau
