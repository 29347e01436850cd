// Sums of formulas of two tensors that take several kernels, a piece of the tensors at a time: what
// one kernel leaves for the next stays in the cache, and no tensor is made for it.
#pragma once

#include <functional>
#include <initializer_list>

#include "flambeau/kernels/elementwise.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Neighbouring elements of both tensors, and room for as many results of kernels.
class Piece {
 public:
  char *a = nullptr, *b = nullptr, *out = nullptr, *spare = nullptr;

  Piece(DType dtype, int64_t n) : dtype_(dtype), n_(n) {}
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
using PieceFormula = std::function<void(const Piece& piece)>;

// Whether the sum can be had so: of large arrays of the same floating dtype on the CPU whose
// elements nobody asks a gradient of.
bool sums_by_pieces(const Tensor& a, const Tensor& b);
// The sum of piece.out over all elements, or their mean, in the dtype of the tensors.
Tensor sum_by_pieces(const Tensor& a, const Tensor& b, bool mean, const PieceFormula& formula);

}  // namespace flambeau
