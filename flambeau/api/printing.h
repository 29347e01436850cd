// Tensors as text, as libtorch writes them to streams.
#pragma once

#include "flambeau/api/tensor_base.h"

namespace flambeau {

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

namespace torch {

std::ostream& print(std::ostream& out, const flambeau::Tensor& tensor, int64_t line_size);
void print(const flambeau::Tensor& tensor, int64_t line_size = 80);

}  // namespace torch
}  // namespace flambeau
