// What becomes of a tensor given by out=: which dtypes it may have, and how a result gets into it.
#pragma once

#include "python/src/arguments.h"

namespace flambeau::python {

// Puts a fresh result into a tensor given by out=. One behind the first may tell places.
void write_out(const Family& family, const Tensor& out, const Tensor& result,
               bool is_place = false);

// A dtype that is asked for by name is that of the output, too.
void check_out_dtype(const Family& family, const Overload& overload, const Frame& frame,
                     PyObject* out);

// For ops that write into out= themselves: raises unless all tensors of the call are where it is.
void check_out_device(const Family& family, const Call& call, const Tensor& out);

// Raises where out= shares memory with a tensor of the call in a way that the op does not allow:
// in part, or, for ops that pick elements, at all; and where several share memory.
void check_no_overlap(const Family& family, const Call& call, PyObject* out);

// Tells that a tensor that was not empty has been given another shape. Ops that make tensors out of
// numbers do so silently, but for arange.
void warn_if_resized(const Family& family, IntSpan before, IntSpan after);

}  // namespace flambeau::python
