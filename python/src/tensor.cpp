// The Tensor type: the object of a C++ tensor, its life, its attributes, and the number, sequence and
// mapping protocols. Written on the C API because it is the hot path.
//
// Note [One object a tensor]
// A C++ tensor has at most one Python object. The object owns the tensor; the tensor knows the
// object. When the last Python reference goes while C++ still holds the tensor (a saved value, a
// gradient), an object without state simply goes, and a new one is made when needed. An object with
// state - attributes, a subclass, weak references - stays: ownership turns round, the tensor keeps
// the object until C++ lets go or Python asks for it again.
#include <cstddef>

#include "binding.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "structmember.h"

namespace flambeau::python {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* parameter_type = nullptr;
thread_local int overrides_disabled = 0;

namespace {

PyTypeObject* tensor_meta = nullptr;

PyTensor* as_object(PyObject* self) { return reinterpret_cast<PyTensor*>(self); }

PyObject* allocate(PyTypeObject* type, Tensor tensor) {
  PyObject* self = nullptr;
  if (type == tensor_type) {
    self = reinterpret_cast<PyObject*>(PyObject_GC_New(PyTensor, type));
    if (!self) return nullptr;
    // Tracked by the collector only once it has attributes: see set_attribute.
    as_object(self)->dict = as_object(self)->weak_references = as_object(self)->backward_hooks = nullptr;
  } else {
    self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
  }
  new (&as_object(self)->tensor) Tensor(std::move(tensor));
  as_object(self)->tensor->python = self;
  return self;
}

bool has_state(PyObject* self) {
  const PyTensor* object = as_object(self);
  return Py_TYPE(self) != tensor_type || object->dict || object->weak_references || object->backward_hooks;
}

// The last Python reference is gone. True if the object stays, owned by its tensor.
bool stays_with_tensor(PyObject* self) {
  TensorImpl* impl = as_object(self)->tensor.impl();
  if (!impl || impl->use_count() <= 1 || !has_state(self)) return false;
  Py_SET_REFCNT(self, 1);  // now the tensor's reference
#ifdef Py_TRACE_REFS
  _Py_NewReference(self);
#endif
  impl->owns_python = true;
  if (!impl->release_exactly()) return true;
  // Another thread let go of the tensor at this moment.
  impl->owns_python = false;
  impl->retain();
  Py_SET_REFCNT(self, 0);
  return false;
}

void destroy_object(PyObject* self) {
  PyTensor* object = as_object(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->backward_hooks);
  Py_CLEAR(object->dict);
  if (object->tensor.defined()) object->tensor->python = nullptr;
  {
    // A large tensor, or a long graph, dies here; nobody else needs the GIL for that, but giving it
    // up costs more than most deaths.
    object->tensor.~Tensor();
  }
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

void tensor_dealloc(PyObject* self) {
  if (stays_with_tensor(self)) return;
  if (Py_TYPE(self) == tensor_type) {
    PyTensor* object = as_object(self);
    if (!object->dict && !object->weak_references && !object->backward_hooks) {
      if (object->tensor.defined()) object->tensor->python = nullptr;
      object->tensor.~Tensor();
      PyObject_GC_Del(self);
      Py_DECREF(tensor_type);
      return;
    }
  }
  destroy_object(self);
}

// Of classes derived in Python: what their own deallocator would do, and the resurrection.
void subclass_dealloc(PyObject* self) {
  if (stays_with_tensor(self)) return;
  PyTypeObject* type = Py_TYPE(self);
  if (type->tp_finalize) {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;
  }
  for (PyTypeObject* base = type; base && base != tensor_type; base = base->tp_base) {
    auto* members = PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)
                        ? reinterpret_cast<PyHeapTypeObject*>(base)
                        : nullptr;
    if (!members || Py_SIZE(base) == 0) continue;
    // Values of __slots__.
    PyMemberDef* member = reinterpret_cast<PyMemberDef*>(reinterpret_cast<char*>(base) + Py_TYPE(base)->tp_basicsize);
    for (Py_ssize_t i = 0; i < Py_SIZE(base); ++i, ++member) {
      if (member->type != T_OBJECT_EX || (member->flags & READONLY)) continue;
      PyObject** place = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member->offset);
      Py_CLEAR(*place);
    }
  }
  destroy_object(self);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_object(self)->dict);
  Py_VISIT(as_object(self)->backward_hooks);
  Py_VISIT(Py_TYPE(self));
  return 0;
}
int tensor_clear(PyObject* self) {
  Py_CLEAR(as_object(self)->dict);
  Py_CLEAR(as_object(self)->backward_hooks);
  return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  if (status == 0 && as_object(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return status;
}

int meta_init(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  reinterpret_cast<PyTypeObject*>(cls)->tp_dealloc = subclass_dealloc;
  return 0;
}

// --- Numbers -----------------------------------------------------------------------------------------

using BinaryFunction = Tensor (*)(const Operand&, const Operand&);

// a op b where one side is a tensor and the other a tensor or a number. NotImplemented for anything
// else, so that Python tries the other object.
template <BinaryFunction function>
PyObject* binary_slot(const char* name, const char* reflected, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    const bool a_is = is_tensor(a), b_is = is_tensor(b);
    if (overridden(a, b)) [[unlikely]] {
      PyObject* const args[] = {a_is ? a : b, a_is ? b : a};
      return call_method(a_is ? name : reflected, args, 2, nullptr);
    }
    Scalar number;
    if (a_is && b_is) {
      const Tensor &x = tensor_of(a), &y = tensor_of(b);
      Tensor result;
      {
        const GilRelease release(std::max(x.numel(), y.numel()) >= gil_threshold);
        result = function(x, y);
      }
      return wrap(std::move(result));
    }
    if (a_is) {
      if (!scalar_from(b, number)) Py_RETURN_NOTIMPLEMENTED;
      const Tensor& x = tensor_of(a);
      Tensor result;
      {
        const GilRelease release(x.numel() >= gil_threshold);
        result = function(x, number);
      }
      return wrap(std::move(result));
    }
    if (!scalar_from(a, number)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& y = tensor_of(b);
    Tensor result;
    {
      const GilRelease release(y.numel() >= gil_threshold);
      result = function(number, y);
    }
    return wrap(std::move(result));
  });
}

// Through the method's own parser, for the rest.
PyObject* through_method(const char* name, PyObject* a, PyObject* b) {
  PyObject* const args[] = {a, b};
  PyObject* result = call_method(name, args, 2, nullptr);
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError) && !is_tensor(b) && !is_number(b)) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  return result;
}

Tensor checked_sub(const Operand& a, const Operand& b);
Tensor number_floor_divide(const Operand& a, const Operand& b);

#define BINARY_SLOT(slot_name, function, method, reflected)                          \
  PyObject* slot_name(PyObject* a, PyObject* b) {                                    \
    return binary_slot<static_cast<BinaryFunction>(function)>(method, reflected, a, b); \
  }
BINARY_SLOT(nb_add, flambeau::add, "add", "add")
BINARY_SLOT(nb_multiply, flambeau::mul, "mul", "mul")
BINARY_SLOT(nb_true_divide, flambeau::div, "div", "__rtruediv__")
BINARY_SLOT(nb_and, flambeau::bitwise_and, "bitwise_and", "bitwise_and")
BINARY_SLOT(nb_or, flambeau::bitwise_or, "bitwise_or", "bitwise_or")
BINARY_SLOT(nb_xor, flambeau::bitwise_xor, "bitwise_xor", "bitwise_xor")
BINARY_SLOT(nb_power_two, flambeau::pow, "pow", "__rpow__")
BINARY_SLOT(nb_subtract, checked_sub, "sub", "__rsub__")
BINARY_SLOT(nb_floor_divide, number_floor_divide, "floor_divide", "__rfloordiv__")
BINARY_SLOT(nb_lshift, flambeau::bitwise_left_shift, "bitwise_left_shift", "__rlshift__")
BINARY_SLOT(nb_rshift, flambeau::bitwise_right_shift, "bitwise_right_shift", "__rrshift__")

bool is_boolean(const Operand& x) {
  return x.is_tensor() ? x.tensor().dtype() == DType::bool_ : x.scalar().is_boolean();
}
Tensor checked_sub(const Operand& a, const Operand& b) {
  CHECK(!is_boolean(a) && !is_boolean(b), NotImplementedError,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
        "the `~` or `logical_not()` operator instead.");
  return sub(a, b);
}
Tensor number_floor_divide(const Operand& a, const Operand& b) { return floor_divide(a, b); }

PyObject* nb_remainder(PyObject* a, PyObject* b) {
  PyObject* const args[] = {a, b};
  if (is_tensor(a)) return is_tensor(b) || is_number(b) || has_override(b) ? call_method("remainder", args, 2, nullptr) : Py_NewRef(Py_NotImplemented);
  if (!is_number(a)) Py_RETURN_NOTIMPLEMENTED;
  PyObject* const reflected[] = {b, a};
  return call_method("__rmod__", reflected, 2, nullptr);
}

PyObject* nb_power(PyObject* a, PyObject* b, PyObject* modulo) {
  if (modulo != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return nb_power_two(a, b);
}

PyObject* nb_matmul(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) {
    if (!is_tensor(a) || !has_override(b)) Py_RETURN_NOTIMPLEMENTED;
  }
  PyObject* const args[] = {a, b};
  return call_method("matmul", args, 2, nullptr);
}

using InplaceFunction = Tensor (*)(const Tensor&, const Operand&);
template <InplaceFunction function>
PyObject* inplace_slot(const char* name, PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    if (overridden(self, other)) [[unlikely]] return through_method(name, self, other);
    const Tensor& x = tensor_of(self);
    if (is_tensor(other)) {
      const Tensor& y = tensor_of(other);
      const GilRelease release(x.numel() >= gil_threshold);
      function(x, y);
    } else {
      Scalar number;
      if (!scalar_from(other, number)) Py_RETURN_NOTIMPLEMENTED;
      const GilRelease release(x.numel() >= gil_threshold);
      function(x, number);
    }
    return Py_NewRef(self);
  });
}
Tensor checked_sub_(const Tensor& self, const Operand& other) {
  CHECK(!is_boolean(self) && !is_boolean(other), NotImplementedError,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
        "the `~` or `logical_not()` operator instead.");
  return sub_(self, other);
}
#define INPLACE_SLOT(slot_name, function, method) \
  PyObject* slot_name(PyObject* a, PyObject* b) { return inplace_slot<function>(method, a, b); }
INPLACE_SLOT(nb_inplace_add, flambeau::add_, "add_")
INPLACE_SLOT(nb_inplace_subtract, checked_sub_, "sub_")
INPLACE_SLOT(nb_inplace_multiply, flambeau::mul_, "mul_")
INPLACE_SLOT(nb_inplace_true_divide, flambeau::div_, "div_")
INPLACE_SLOT(nb_inplace_and, flambeau::bitwise_and_, "bitwise_and_")
INPLACE_SLOT(nb_inplace_or, flambeau::bitwise_or_, "bitwise_or_")
INPLACE_SLOT(nb_inplace_xor, flambeau::bitwise_xor_, "bitwise_xor_")
INPLACE_SLOT(nb_inplace_lshift, flambeau::bitwise_left_shift_, "bitwise_left_shift_")
INPLACE_SLOT(nb_inplace_rshift, flambeau::bitwise_right_shift_, "bitwise_right_shift_")
PyObject* nb_inplace_remainder(PyObject* a, PyObject* b) { return through_method("remainder_", a, b); }
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) { return through_method("pow_", a, b); }
PyObject* nb_inplace_floor_divide(PyObject* a, PyObject* b) { return through_method("floor_divide_", a, b); }

PyObject* unary_method(const char* name, PyObject* self) {
  PyObject* const args[] = {self};
  return call_method(name, args, 1, nullptr);
}
PyObject* nb_negative(PyObject* self) {
  if (Py_TYPE(self) != tensor_type) return unary_method("neg", self);
  return guarded([&] {
    CHECK(tensor_of(self).dtype() != DType::bool_, NotImplementedError,
          "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
          "`~` or `logical_not()` operator instead.");
    return wrap(neg(tensor_of(self)));
  });
}
PyObject* nb_positive(PyObject* self) { return unary_method("positive", self); }
PyObject* nb_absolute(PyObject* self) { return unary_method("abs", self); }
PyObject* nb_invert(PyObject* self) {
  if (!is_integral(tensor_of(self).dtype(), true)) {
    PyErr_SetString(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return nullptr;
  }
  return unary_method("bitwise_not", self);
}

int nb_bool(PyObject* self) {
  if (overridden(self)) [[unlikely]] {
    Object value(unary_method("is_nonzero", self));
    return value ? PyObject_IsTrue(value.get()) : -1;
  }
  return guarded_int([&] { return is_nonzero(tensor_of(self)) ? 1 : 0; });
}
Scalar number_of(PyObject* self, const char* what) {
  const Tensor& tensor = tensor_of(self);
  CHECK(tensor.numel() == 1, ValueError, "only one element tensors can be converted to Python scalars, not {} elements to {}", tensor.numel(), what);
  return item(tensor);
}
PyObject* nb_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = number_of(self, "Scalar");
    CHECK(!value.is_complex(), TypeError, "can't convert complex to int");
    if (!value.is_floating()) return wrap_scalar(value.is_boolean() ? Scalar(value.to_int()) : value);
    Object number = check(PyFloat_FromDouble(value.to_double()));
    return PyNumber_Long(number.get());
  });
}
PyObject* nb_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = number_of(self, "Scalar");
    CHECK(!value.is_complex() || value.to<std::complex<double>>().imag() == 0, RuntimeError,
          "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(value.to_double());
  });
}
PyObject* nb_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    CHECK(tensor.numel() == 1 && is_integral(tensor.dtype(), true), TypeError,
          "only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(item(tensor).to_int());
  });
}
PyObject* tensor_complex(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto value = number_of(self, "Scalar").to<std::complex<double>>();
    return PyComplex_FromDoubles(value.real(), value.imag());
  });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  constexpr const char* names[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  constexpr BinaryFunction functions[] = {flambeau::lt, flambeau::le, flambeau::eq,
                                          flambeau::ne, flambeau::gt, flambeau::ge};
  return guarded([&]() -> PyObject* {
    if (overridden(a, b)) [[unlikely]] {
      return through_method(names[op], a, b);
    }
    Scalar number;
    Tensor result;
    if (is_tensor(b)) {
      result = functions[op](tensor_of(a), tensor_of(b));
    } else if (scalar_from(b, number)) {
      result = functions[op](tensor_of(a), number);
    } else {
      Py_RETURN_NOTIMPLEMENTED;
    }
    return wrap(std::move(result));
  });
}

Py_hash_t tensor_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

Py_ssize_t tensor_length(PyObject* self) {
  const Tensor& tensor = tensor_of(self);
  if (tensor.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return tensor->sizes[0];
}

// --- Attributes ----------------------------------------------------------------------------------------

#define GETTER(name, ...)                                             \
  PyObject* get_##name(PyObject* self, void*) {                       \
    return guarded([&]() -> PyObject* {                               \
      const Tensor& tensor [[maybe_unused]] = tensor_of(self);        \
      __VA_ARGS__                                                     \
    });                                                               \
  }
GETTER(shape, return wrap_size(tensor.sizes());)
GETTER(dtype, return wrap_dtype(tensor.dtype());)
GETTER(device, return wrap_device(tensor.device());)
GETTER(layout, return wrap_layout(Layout::strided);)
GETTER(requires_grad, return PyBool_FromLong(tensor.requires_grad());)
GETTER(is_leaf, return PyBool_FromLong(is_leaf(tensor));)
GETTER(ndim, return PyLong_FromLongLong(tensor.dim());)
GETTER(itemsize, return PyLong_FromSize_t(tensor.item_size());)
GETTER(nbytes, return PyLong_FromLongLong(tensor.numel() * static_cast<int64_t>(tensor.item_size()));)
GETTER(version, return PyLong_FromUnsignedLong(tensor.version());)
GETTER(is_cuda, return PyBool_FromLong(tensor.device().is_cuda());)
GETTER(is_cpu, return PyBool_FromLong(tensor.device().is_cpu());)
GETTER(is_meta, return PyBool_FromLong(tensor.device().is_meta());)
GETTER(never, Py_RETURN_FALSE;)
GETTER(output_nr, return PyLong_FromUnsignedLong(grad_fn(tensor) ? maybe_meta(tensor)->output : 0);)
GETTER(retains_grad, return PyBool_FromLong(maybe_meta(tensor) && maybe_meta(tensor)->retained_at);)
GETTER(base, return tensor->view_base ? wrap(Tensor(tensor->view_base)) : Py_NewRef(Py_None);)
GETTER(grad, return wrap(grad(tensor));)
GETTER(data, {
  Tensor plain = make_alias(tensor);
  plain->version = nullptr;  // .data is outside of what autograd watches
  return wrap(std::move(plain));
})
GETTER(grad_fn, return wrap_node(grad_fn(tensor));)
GETTER(T, {
  if (tensor.dim() < 2) return Py_NewRef(self);
  Dims order;
  for (int64_t d = tensor.dim() - 1; d >= 0; --d) order.push_back(d);
  return wrap(permute(tensor, order));
})
GETTER(mT, {
  CHECK(tensor.dim() >= 2, RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.", tensor.dim());
  return wrap(transpose(tensor, -2, -1));
})
GETTER(H, {
  CHECK(tensor.dim() == 2 || tensor.dim() == 0, RuntimeError, "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.", tensor.dim());
  return wrap(tensor.dim() == 0 ? conj(tensor) : conj(transpose(tensor, 0, 1)));
})
GETTER(mH, {
  CHECK(tensor.dim() >= 2, RuntimeError, "tensor.mH is only supported on matrices or batches of matrices. Got {}-D tensor.", tensor.dim());
  return wrap(conj(transpose(tensor, -2, -1)));
})
GETTER(real, return wrap(tensor.is_complex() ? real(tensor) : tensor);)
GETTER(imag, {
  CHECK(tensor.is_complex(), TypeError, "imag is not implemented for tensors with non-complex dtypes.");
  return wrap(imag(tensor));
})
GETTER(name, Py_RETURN_NONE;)
GETTER(backward_hooks, {
  PyObject* hooks = as_object(self)->backward_hooks;
  return Py_NewRef(hooks ? hooks : Py_None);
})

#define SETTER(name, ...)                                                         \
  int set_##name(PyObject* self, PyObject* value, void*) {                        \
    return guarded_int([&]() -> int {                                             \
      const Tensor& tensor [[maybe_unused]] = tensor_of(self);                    \
      __VA_ARGS__                                                                 \
      return 0;                                                                   \
    });                                                                           \
  }
SETTER(requires_grad, {
  CHECK(value && PyBool_Check(value), RuntimeError, "requires_grad must be a bool");
  set_requires_grad(tensor, value == Py_True);
})
SETTER(grad, {
  if (!value || value == Py_None) {
    set_grad(tensor, Tensor());
    return 0;
  }
  CHECK(is_tensor(value), TypeError, "assigned grad expected to be a Tensor or None but got grad of type {}", Py_TYPE(value)->tp_name);
  CHECK(value != self, RuntimeError, "can't assign Variable as its own grad");
  const Tensor& grad = tensor_of(value);
  CHECK(grad.dtype() == tensor.dtype(), RuntimeError, "assigned grad has data of a different type: expected {}, got {}", tensor.dtype(), grad.dtype());
  CHECK(grad.device().type == tensor.device().type, RuntimeError, "assigned grad has data located on a different device: expected {}, got {}", tensor.device(), grad.device());
  CHECK(grad.sizes() == tensor.sizes(), RuntimeError, "assigned grad has data of a different size: expected {}, got {}", tensor.sizes(), grad.sizes());
  set_grad(tensor, grad);
})
SETTER(data, {
  CHECK(value && is_tensor(value), TypeError, "Variable data has to be a tensor, but got {}", value ? Py_TYPE(value)->tp_name : "nothing");
  const Tensor& source = tensor_of(value);
  CHECK(!(tensor.requires_grad() && !is_differentiable(source.dtype())), RuntimeError,
        "data set to a tensor that requires gradients must be floating point or complex dtype");
  TensorImpl& impl = *tensor.impl();
  impl.storage = source.storage();
  impl.offset = source.offset();
  impl.dtype = source.dtype();
  impl.device = source.device();
  set_geometry(impl, source.sizes(), source.strides());
})
SETTER(backward_hooks, {
  Py_XINCREF(value == Py_None ? nullptr : value);
  PyObject* old = as_object(self)->backward_hooks;
  as_object(self)->backward_hooks = value == Py_None ? nullptr : value;
  Py_XDECREF(old);
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
})

PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "The size of each dimension.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of the elements.", nullptr},
    {"device", get_device, nullptr, "Where the elements are.", nullptr},
    {"layout", get_layout, nullptr, "How the elements are laid out.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are wanted.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded op made this tensor.", nullptr},
    {"grad", get_grad, set_grad, "The gradient that backward() has accumulated.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node of the graph that made this tensor.", nullptr},
    {"data", get_data, set_data, "The values, outside of what autograd watches.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes an element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"T", get_T, nullptr, "With its dimensions reversed.", nullptr},
    {"mT", get_mT, nullptr, "With its last two dimensions swapped.", nullptr},
    {"H", get_H, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"mH", get_mH, nullptr, "The conjugate transpose of each matrix.", nullptr},
    {"real", get_real, nullptr, "The real parts.", nullptr},
    {"imag", get_imag, nullptr, "The imaginary parts.", nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
    {"is_sparse", get_never, nullptr, nullptr, nullptr},
    {"is_sparse_csr", get_never, nullptr, nullptr, nullptr},
    {"is_quantized", get_never, nullptr, nullptr, nullptr},
    {"is_mkldnn", get_never, nullptr, nullptr, nullptr},
    {"is_mps", get_never, nullptr, nullptr, nullptr},
    {"is_xpu", get_never, nullptr, nullptr, nullptr},
    {"is_nested", get_never, nullptr, nullptr, nullptr},
    {"output_nr", get_output_nr, nullptr, nullptr, nullptr},
    {"retains_grad", get_retains_grad, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, "How often the data has been overwritten.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this is a view of.", nullptr},
    {"_backward_hooks", get_backward_hooks, set_backward_hooks, nullptr, nullptr},
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- Methods that are no ops ---------------------------------------------------------------------------

PyObject* dim_or_all(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, const char* name,
                     bool strides) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    CHECK(nargs + keywords <= 1, TypeError, "{}() takes at most 1 argument ({} given)", name, nargs + keywords);
    if (nargs + keywords == 0 || args[0] == Py_None) return strides ? wrap_ints(tensor.strides()) : wrap_size(tensor.sizes());
    int64_t dim = 0;
    CHECK(int_from(args[0], dim), TypeError, "{}(): argument 'dim' (position 1) must be int, not {}", name, Py_TYPE(args[0])->tp_name);
    return PyLong_FromLongLong(strides ? tensor.stride(dim) : tensor.size(dim));
  });
}
PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return dim_or_all(self, args, nargs, kwnames, "size", false);
}
PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return dim_or_all(self, args, nargs, kwnames, "stride", true);
}
PyObject* method_dim(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).dim()); }
PyObject* method_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).numel()); }
PyObject* method_element_size(PyObject* self, PyObject*) { return PyLong_FromSize_t(tensor_of(self).item_size()); }
PyObject* method_storage_offset(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).offset()); }
PyObject* method_data_ptr(PyObject* self, PyObject*) {
  const Tensor& tensor = tensor_of(self);
  return PyLong_FromVoidPtr(tensor.numel() ? tensor.raw() : nullptr);
}
PyObject* method_is_floating_point(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).is_floating()); }
PyObject* method_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).is_complex()); }
PyObject* method_is_signed(PyObject* self, PyObject*) { return PyBool_FromLong(is_signed(tensor_of(self).dtype())); }
PyObject* method_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self)->inference); }
PyObject* method_is_view(PyObject* self, PyObject*) { return PyBool_FromLong(static_cast<bool>(tensor_of(self)->view_base)); }
PyObject* method_get_device(PyObject* self, PyObject*) { return PyLong_FromLong(tensor_of(self).device().is_cuda() ? tensor_of(self).device().index : -1); }
PyObject* method_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    MemoryFormat format = MemoryFormat::contiguous;
    if (n > 0) {
      CHECK(Py_TYPE(args[0]) == memory_format_type, TypeError, "is_contiguous(): argument 'memory_format' must be torch.memory_format, not {}", Py_TYPE(args[0])->tp_name);
      struct EnumObject {
        PyObject_HEAD
        int value;
      };
      format = static_cast<MemoryFormat>(reinterpret_cast<EnumObject*>(args[0])->value);
    }
    return PyBool_FromLong(tensor_of(self).is_contiguous(format));
  });
}
PyObject* method_requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    CHECK(n <= 1 && (n == 0 || PyBool_Check(args[0])), TypeError, "requires_grad_(): argument 'requires_grad' (position 1) must be bool");
    set_requires_grad(tensor_of(self), n == 0 || args[0] == Py_True);
    return Py_NewRef(self);
  });
}
PyObject* method_retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    retain_grad(tensor_of(self));
    Py_RETURN_NONE;
  });
}
// _make_subclass(cls, data, require_grad=False): a tensor of a subclass over the same values.
PyObject* make_subclass(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"cls", "data", "require_grad", nullptr};
    PyObject *cls = nullptr, *data = nullptr;
    int requires_grad = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|p:_make_subclass", const_cast<char**>(names), &PyType_Type, &cls, &data, &requires_grad)) return nullptr;
    CHECK(is_tensor(data), TypeError, "_make_subclass(): argument 'data' (position 2) must be Tensor, not {}", Py_TYPE(data)->tp_name);
    CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type), TypeError, "_make_subclass(): cls must be a subclass of Tensor");
    Tensor tensor = make_alias(tensor_of(data));
    if (requires_grad) set_requires_grad(tensor, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(tensor));
  });
}
PyObject* method_set_parameter_type(PyObject*, PyObject* type) {
  parameter_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_RETURN_NONE;
}

#define FAST(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL | METH_KEYWORDS
PyMethodDef methods[] = {
    {"size", FAST(method_size), "The size of one dimension, or all sizes."},
    {"stride", FAST(method_stride), "The stride of one dimension, or all strides."},
    {"dim", method_dim, METH_NOARGS, "The number of dimensions."},
    {"ndimension", method_dim, METH_NOARGS, "The number of dimensions."},
    {"numel", method_numel, METH_NOARGS, "The number of elements."},
    {"nelement", method_numel, METH_NOARGS, "The number of elements."},
    {"element_size", method_element_size, METH_NOARGS, "Bytes an element."},
    {"storage_offset", method_storage_offset, METH_NOARGS, "Where in its storage the first element is."},
    {"data_ptr", method_data_ptr, METH_NOARGS, "The address of the first element."},
    {"is_floating_point", method_is_floating_point, METH_NOARGS, nullptr},
    {"is_complex", method_is_complex, METH_NOARGS, nullptr},
    {"is_signed", method_is_signed, METH_NOARGS, nullptr},
    {"is_inference", method_is_inference, METH_NOARGS, nullptr},
    {"is_contiguous", FAST(method_is_contiguous), nullptr},
    {"_is_view", method_is_view, METH_NOARGS, nullptr},
    {"get_device", method_get_device, METH_NOARGS, nullptr},
    {"requires_grad_", FAST(method_requires_grad_), "Sets requires_grad and returns the tensor."},
    {"retain_grad", method_retain_grad, METH_NOARGS, "Asks for .grad although this is no leaf."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_subclass)), METH_VARARGS | METH_KEYWORDS | METH_STATIC, nullptr},
    {"_set_parameter_type", method_set_parameter_type, METH_O | METH_STATIC, nullptr},
    {"__complex__", tensor_complex, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak_references), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef dict_attribute = {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

void give_up_python(void* object) {
  const GilAcquire gil;
  auto* self = static_cast<PyObject*>(object);
  // The tensor is being destroyed: the object only borrows it by now.
  (void)as_object(self)->tensor.ptr().detach();
  Py_DECREF(self);
}

}  // namespace

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  TensorImpl* impl = tensor.impl();
  if (!impl->python) return allocate(tensor_type, std::move(tensor));
  auto* object = static_cast<PyObject*>(impl->python);
  if (!impl->owns_python) return Py_NewRef(object);
  // Python has it again, and owns the tensor as before. Its one reference is the caller's now.
  impl->owns_python = false;
  impl->retain();
  return object;
}

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) { return allocate(type, std::move(tensor)); }

bool add_tensor_type(PyObject* module) {
  release_python_object = give_up_python;
  PyType_Slot meta_slots[] = {{Py_tp_init, slot(meta_init)}, {0, nullptr}};
  PyType_Spec meta_spec{"torch._C._TensorMeta", 0, 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE), meta_slots};
  Object meta_bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyType_Type)));
  tensor_meta = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&meta_spec, meta_bases.get()));
  if (!tensor_meta) return false;
  PyType_Slot slots[] = {
      {Py_tp_new, slot(new_tensor)}, {Py_tp_dealloc, slot(tensor_dealloc)}, {Py_tp_traverse, slot(tensor_traverse)},
      {Py_tp_clear, slot(tensor_clear)}, {Py_tp_setattro, slot(set_attribute)}, {Py_tp_getset, attributes},
      {Py_tp_methods, methods}, {Py_tp_members, members}, {Py_tp_hash, slot(tensor_hash)},
      {Py_tp_richcompare, slot(compare)}, {Py_mp_length, slot(tensor_length)}, {Py_sq_length, slot(tensor_length)},
      {Py_mp_subscript, slot(get_item)}, {Py_mp_ass_subscript, slot(set_item)},
      {Py_nb_add, slot(nb_add)}, {Py_nb_subtract, slot(nb_subtract)}, {Py_nb_multiply, slot(nb_multiply)},
      {Py_nb_true_divide, slot(nb_true_divide)}, {Py_nb_floor_divide, slot(nb_floor_divide)},
      {Py_nb_remainder, slot(nb_remainder)}, {Py_nb_power, slot(nb_power)}, {Py_nb_matrix_multiply, slot(nb_matmul)},
      {Py_nb_and, slot(nb_and)}, {Py_nb_or, slot(nb_or)}, {Py_nb_xor, slot(nb_xor)},
      {Py_nb_lshift, slot(nb_lshift)}, {Py_nb_rshift, slot(nb_rshift)},
      {Py_nb_inplace_add, slot(nb_inplace_add)}, {Py_nb_inplace_subtract, slot(nb_inplace_subtract)},
      {Py_nb_inplace_multiply, slot(nb_inplace_multiply)}, {Py_nb_inplace_true_divide, slot(nb_inplace_true_divide)},
      {Py_nb_inplace_floor_divide, slot(nb_inplace_floor_divide)}, {Py_nb_inplace_remainder, slot(nb_inplace_remainder)},
      {Py_nb_inplace_power, slot(nb_inplace_power)}, {Py_nb_inplace_and, slot(nb_inplace_and)},
      {Py_nb_inplace_or, slot(nb_inplace_or)}, {Py_nb_inplace_xor, slot(nb_inplace_xor)},
      {Py_nb_inplace_lshift, slot(nb_inplace_lshift)}, {Py_nb_inplace_rshift, slot(nb_inplace_rshift)},
      {Py_nb_negative, slot(nb_negative)}, {Py_nb_positive, slot(nb_positive)}, {Py_nb_absolute, slot(nb_absolute)},
      {Py_nb_invert, slot(nb_invert)}, {Py_nb_bool, slot(nb_bool)}, {Py_nb_int, slot(nb_int)},
      {Py_nb_float, slot(nb_float)}, {Py_nb_index, slot(nb_index)},
      {0, nullptr}};
  PyType_Spec spec{"torch.Tensor", sizeof(PyTensor), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC), slots};
  PyObject* made = PyType_FromSpec(&spec);
  if (!made) return false;
  tensor_type = reinterpret_cast<PyTypeObject*>(made);
  Py_SET_TYPE(made, reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(tensor_meta))));
  Object dict(PyDescr_NewGetSet(tensor_type, &dict_attribute));
  if (!dict || PyDict_SetItemString(tensor_type->tp_dict, "__dict__", dict.get()) < 0) return false;
  PyType_Modified(tensor_type);
  return PyModule_AddObjectRef(module, "Tensor", made) == 0 && PyModule_AddObjectRef(module, "TensorBase", made) == 0;
}

}  // namespace flambeau::python
