// The slots of special functions: one for each row of special.def, and those of two tensors that
// have derivatives.
#pragma once

#include "flambeau/kernels/elementwise.h"

namespace flambeau::kernels {

#define ROW_SLOT(name) inline constinit ElementwiseSlot name{#name};
#define METHOD(name, function, keeps, gradient, doc, ...) ROW_SLOT(name)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) ROW_SLOT(name)
#define POLYNOMIAL(name, value, doc) ROW_SLOT(name)
#include "flambeau/kernels/special.def"
ROW_SLOT(polygamma)  // params: the order
ROW_SLOT(special_zeta)
ROW_SLOT(special_xlog1py)
ROW_SLOT(igamma)
ROW_SLOT(igammac)
#undef ROW_SLOT

}  // namespace flambeau::kernels
