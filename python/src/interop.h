// Memory shared with other libraries.
#pragma once

#include "flambeau/tensor/shape.h"
#include "python/src/binding.h"

namespace flambeau::python {

// A tensor over the memory of an array (an object with __array_interface__), which it keeps alive;
// undefined if the object is no array.
Tensor tensor_over_array(PyObject* object);

// Says that another library holds the address of a tensor's memory: it is not resized any more.
void lend_memory(const Tensor& tensor);

DType dtype_of_buffer(PyObject* object);
// A flat tensor over the memory of an object that exposes a buffer; count -1 means all of it.
Tensor tensor_over_buffer(PyObject* object, DType dtype, Py_ssize_t count = -1,
                          Py_ssize_t offset = 0);
PyObject* from_dlpack_object(PyObject* object);  // a new reference

// Gives the Tensor type further methods.
bool add_methods(PyMethodDef* methods);

bool add_interop(PyObject* module);
bool add_dlpack(PyObject* module);

}  // namespace flambeau::python
