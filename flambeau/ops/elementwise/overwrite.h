// Results that are written over an input.
//
// Note [Results over inputs]
// The front end makes name_() of name() by a copy of the result. While it has a MayOverwrite, an op
// that computes each element of its result from those at the same place writes the result over its
// first input instead, if that is the tensor in question and what the result will be like.
#pragma once

#include <initializer_list>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

class MayOverwrite {
 public:
  explicit MayOverwrite(const Tensor* target);  // no target: nothing may be overwritten
  ~MayOverwrite();
  MayOverwrite(const MayOverwrite&) = delete;
  MayOverwrite& operator=(const MayOverwrite&) = delete;

 private:
  const Tensor* before_;
};

// Where an op that has these inputs writes its result of this dtype: nowhere yet, mostly.
Tensor place_of_result(const Tensor& first, std::initializer_list<const Tensor*> others,
                       DType dtype);

}  // namespace flambeau
