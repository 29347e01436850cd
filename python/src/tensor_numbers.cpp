// The number protocol of tensors: operators, in place too, comparison, conversion to numbers.
#include <atomic>
#include <cstring>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/profiler.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"
#include "python/src/interop.h"
#include "python/src/tensor_parts.h"

namespace flambeau::python {
namespace {

using BinaryFunction = Tensor (*)(const Operand&, const Operand&);

// A tensor over the memory of a NumPy array; none over any other object.
Tensor over_ndarray(PyObject* object) {
  return std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") == 0 ? tensor_over_array(object)
                                                                     : Tensor();
}

// Whether conjugation or negation of the operand is still to be done.
bool is_pending(const Operand& x) {
  const uint8_t pending = x.is_tensor() ? x.tensor()->pending : Pending::nothing;
  return pending & Pending::resolvable && !(pending & Pending::layered);
}
int64_t count(const Operand& x) { return x.is_tensor() ? x.tensor().numel() : 0; }

template <BinaryFunction function>
PyObject* computed(const Operand& a, const Operand& b) {
  if (is_pending(a)) [[unlikely]]
    return computed<function>(resolve(a.tensor()), b);
  if (is_pending(b)) [[unlikely]]
    return computed<function>(a, resolve(b.tensor()));
  Tensor result;
  {
    const GilRelease release(std::max(count(a), count(b)) >= gil_threshold);
    result = function(a, b);
  }
  return wrap(std::move(result));
}

// a op b where one side is a tensor and the other a tensor, an array or a number. NotImplemented
// for anything else, so that Python tries the other object.
template <BinaryFunction function>
PyObject* binary_slot(const char* name, const char* reflected, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    const bool a_is = is_tensor(a);
    if (overridden(a, b)) [[unlikely]] {
      PyObject* const args[] = {a_is ? a : b, a_is ? b : a};
      return call_override_of(a_is ? name : reflected, args, 2);
    }
    current_op = name;
    const Span span(SpanKind::op, name);
    if (a_is && is_tensor(b)) return computed<function>(tensor_of(a), tensor_of(b));
    Scalar number;
    PyObject* other = a_is ? b : a;
    if (scalar_from(other, number))
      return a_is ? computed<function>(tensor_of(a), number)
                  : computed<function>(number, tensor_of(b));
    const Tensor array = over_ndarray(other);
    if (!array.defined()) Py_RETURN_NOTIMPLEMENTED;
    return a_is ? computed<function>(tensor_of(a), array) : computed<function>(array, tensor_of(b));
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

// A number is divided by multiplying the reciprocal: what is kept for backward, and the last bit,
// depend on it.
Tensor quotient(const Operand& a, const Operand& b) {
  return a.is_tensor() ? div(a, b) : mul(reciprocal(b.tensor()), a);
}

// What begins with a number is another operator to those who see operators.
Tensor difference(const Operand& a, const Operand& b) {
  if (!a.is_tensor() && (layered(b) & Dispatched::mark || active_layers & Active::dispatch)) {
    return tensor_op("rsub", {b.tensor(), a});
  }
  return sub(a, b);
}

#define BINARY_SLOT(slot_name, function, method, reflected)                             \
  PyObject* slot_name(PyObject* a, PyObject* b) {                                       \
    return binary_slot<static_cast<BinaryFunction>(function)>(method, reflected, a, b); \
  }
BINARY_SLOT(nb_add, flambeau::add, "add", "add")
BINARY_SLOT(nb_multiply, flambeau::mul, "mul", "mul")
BINARY_SLOT(nb_true_divide, quotient, "div", "__rdiv__")
BINARY_SLOT(nb_and, flambeau::bitwise_and, "__and__", "bitwise_and")
BINARY_SLOT(nb_or, flambeau::bitwise_or, "__or__", "bitwise_or")
BINARY_SLOT(nb_xor, flambeau::bitwise_xor, "__xor__", "bitwise_xor")
BINARY_SLOT(nb_power_two, flambeau::pow, "pow", "__rpow__")
BINARY_SLOT(nb_subtract, difference, "sub", "__rsub__")
BINARY_SLOT(nb_floor_divide, flambeau::floor_divide, "__floordiv__", "__rfloordiv__")
BINARY_SLOT(nb_remainder, flambeau::remainder_checked, "remainder", "__rmod__")
BINARY_SLOT(nb_lshift, flambeau::bitwise_left_shift, "__lshift__", "__rlshift__")
BINARY_SLOT(nb_rshift, flambeau::bitwise_right_shift, "__rshift__", "__rrshift__")

PyObject* nb_power(PyObject* a, PyObject* b, PyObject* modulo) {
  if (modulo != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return nb_power_two(a, b);
}

PyObject* nb_matmul(PyObject* a, PyObject* b) {
  PyObject* const args[] = {a, b};
  if (!is_tensor(a) && overridden(b)) [[unlikely]] {
    PyObject* const swapped[] = {b, a};
    return guarded([&] { return call_override_of("__rmatmul__", swapped, 2); });
  }
  if (!is_tensor(a) || !(is_tensor(b) || has_override(b))) Py_RETURN_NOTIMPLEMENTED;
  return call_method("matmul", args, 2, nullptr);
}

using InplaceFunction = Tensor (*)(const Tensor&, const Operand&);
template <InplaceFunction function>
PyObject* inplace_slot(const char* name, PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    if (overridden(self, other)) [[unlikely]] {
      PyObject* const args[] = {self, other};
      return call_override_of(name, args, 2);
    }
    Scalar number;
    if (!is_tensor(other) && !scalar_from(other, number)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& x = tensor_of(self);
    const Operand y = is_tensor(other) ? Operand(tensor_of(other)) : Operand(number);
    if (is_pending(x) || is_pending(y)) [[unlikely]] {
      const Tensor values = resolve(x);
      function(values, is_pending(y) ? Operand(resolve(y.tensor())) : y);
      if (!values.is_same(x)) copy_(x, values);
    } else {
      const GilRelease release(x.numel() >= gil_threshold);
      function(x, y);
    }
    return Py_NewRef(self);
  });
}
#define INPLACE_SLOT(slot_name, function, method) \
  PyObject* slot_name(PyObject* a, PyObject* b) { return inplace_slot<function>(method, a, b); }
INPLACE_SLOT(nb_inplace_add, flambeau::add_, "add_")
INPLACE_SLOT(nb_inplace_subtract, flambeau::sub_, "sub_")
INPLACE_SLOT(nb_inplace_multiply, flambeau::mul_, "mul_")
INPLACE_SLOT(nb_inplace_true_divide, flambeau::div_, "div_")
INPLACE_SLOT(nb_inplace_and, flambeau::bitwise_and_, "__iand__")
INPLACE_SLOT(nb_inplace_or, flambeau::bitwise_or_, "__ior__")
INPLACE_SLOT(nb_inplace_xor, flambeau::bitwise_xor_, "__ixor__")
INPLACE_SLOT(nb_inplace_lshift, flambeau::bitwise_left_shift_, "__ilshift__")
INPLACE_SLOT(nb_inplace_rshift, flambeau::bitwise_right_shift_, "__irshift__")
PyObject* nb_inplace_remainder(PyObject* a, PyObject* b) {
  return through_method("remainder_", a, b);
}
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) {
  return through_method("pow_", a, b);
}
PyObject* nb_inplace_floor_divide(PyObject* a, PyObject* b) {
  return through_method("floor_divide_", a, b);
}

PyObject* unary_method(const char* name, PyObject* self) {
  PyObject* const args[] = {self};
  return call_method(name, args, 1, nullptr);
}
PyObject* nb_negative(PyObject* self) {
  if (Py_TYPE(self) != tensor_type || tensor_of(self)->pending) return unary_method("neg", self);
  return guarded([&] {
    CHECK(tensor_of(self).dtype() != DType::bool_, NotImplementedError,
          "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
          "invert a mask, use the "
          "`~` or `logical_not()` operator instead.");
    return wrap(neg(tensor_of(self)));
  });
}
PyObject* nb_positive(PyObject* self) { return unary_method("positive", self); }
PyObject* nb_absolute(PyObject* self) { return unary_method("abs", self); }
PyObject* nb_invert(PyObject* self) {
  if (overridden(self)) [[unlikely]]
    return guarded([&] { return call_override_of("__invert__", &self, 1); });
  if (!is_integral(tensor_of(self).dtype(), true)) {
    PyErr_SetString(PyExc_TypeError,
                    "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return nullptr;
  }
  return unary_method("bitwise_not", self);
}

int nb_bool(PyObject* self) {
  if (overridden(self)) [[unlikely]] {
    Object value(guarded([&] { return call_override_of("__bool__", &self, 1); }));
    if (!value) return -1;
    // As for classes in Python. Another tensor would be asked in turn, and so on without an end.
    if (PyBool_Check(value.get())) return value.get() == Py_True;
    PyErr_Format(PyExc_TypeError, "__bool__ should return bool, returned %s",
                 Py_TYPE(value.get())->tp_name);
    return -1;
  }
  return guarded_int([&] { return is_nonzero(tensor_of(self)) ? 1 : 0; });
}
Scalar number_of(PyObject* self, const char* what) {
  const Tensor& tensor = tensor_of(self);
  CHECK(tensor.numel() == 1, ValueError,
        "only one element tensors can be converted to Python scalars, not {} elements to {}",
        tensor.numel(), what);
  return item(tensor);
}
PyObject* nb_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (overridden(self)) [[unlikely]]
      return call_override_of("__int__", &self, 1);
    const Scalar value = number_of(self, "Scalar");
    CHECK(!value.is_complex(), RuntimeError,
          "value cannot be converted to type int64_t without overflow");
    if (!value.is_floating())
      return wrap_scalar(value.is_boolean() ? Scalar(value.to_int()) : value);
    Object number = check(PyFloat_FromDouble(value.to_double()));
    return PyNumber_Long(number.get());
  });
}
// As PyTorch says where a number leaves the graph by float() or complex(), the first time.
void warn_of_lost_history(const Tensor& tensor) {
  static std::atomic<bool> told{false};
  if (!tensor.requires_grad() || !grad_enabled()) return;
  warn_once(told,
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
            "behavior.\nConsider using tensor.detach() first.");
}

PyObject* nb_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (overridden(self)) [[unlikely]]
      return call_override_of("__float__", &self, 1);
    warn_of_lost_history(tensor_of(self));
    const Scalar value = number_of(self, "Scalar");
    CHECK(!value.is_complex() || value.to<std::complex<double>>().imag() == 0, RuntimeError,
          "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(value.to_double());
  });
}
PyObject* nb_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (overridden(self)) [[unlikely]]
      return call_override_of("__index__", &self, 1);
    const Tensor& tensor = tensor_of(self);
    CHECK(tensor.numel() == 1 && is_integral(tensor.dtype(), true), TypeError,
          "only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(item(tensor).to_int());
  });
}
PyObject* compare(PyObject* a, PyObject* b, int op) {
  constexpr const char* names[] = {"lt", "le", "__eq__", "ne", "gt", "ge"};
  constexpr BinaryFunction functions[] = {flambeau::lt, flambeau::le, flambeau::eq,
                                          flambeau::ne, flambeau::gt, flambeau::ge};
  return guarded([&]() -> PyObject* {
    if (overridden(a, b)) [[unlikely]] {
      PyObject* const args[] = {a, b};
      return call_override_of(names[op], args, 2);
    }
    const Tensor x = resolve(tensor_of(a));
    if (is_tensor(b)) return wrap(functions[op](x, resolve(tensor_of(b))));
    Scalar number;
    if (scalar_from(b, number)) return wrap(functions[op](x, number));
    const Tensor array = over_ndarray(b);
    if (!array.defined()) Py_RETURN_NOTIMPLEMENTED;
    return wrap(functions[op](x, array));
  });
}

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyObject* tensor_complex(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    warn_of_lost_history(tensor_of(self));
    const auto value = number_of(self, "Scalar").to<std::complex<double>>();
    return PyComplex_FromDoubles(value.real(), value.imag());
  });
}

std::vector<PyType_Slot> number_slots() {
  return {{Py_tp_richcompare, slot(compare)},
          {Py_nb_add, slot(nb_add)},
          {Py_nb_subtract, slot(nb_subtract)},
          {Py_nb_multiply, slot(nb_multiply)},
          {Py_nb_true_divide, slot(nb_true_divide)},
          {Py_nb_floor_divide, slot(nb_floor_divide)},
          {Py_nb_remainder, slot(nb_remainder)},
          {Py_nb_power, slot(nb_power)},
          {Py_nb_matrix_multiply, slot(nb_matmul)},
          {Py_nb_and, slot(nb_and)},
          {Py_nb_or, slot(nb_or)},
          {Py_nb_xor, slot(nb_xor)},
          {Py_nb_lshift, slot(nb_lshift)},
          {Py_nb_rshift, slot(nb_rshift)},
          {Py_nb_inplace_add, slot(nb_inplace_add)},
          {Py_nb_inplace_subtract, slot(nb_inplace_subtract)},
          {Py_nb_inplace_multiply, slot(nb_inplace_multiply)},
          {Py_nb_inplace_true_divide, slot(nb_inplace_true_divide)},
          {Py_nb_inplace_floor_divide, slot(nb_inplace_floor_divide)},
          {Py_nb_inplace_remainder, slot(nb_inplace_remainder)},
          {Py_nb_inplace_power, slot(nb_inplace_power)},
          {Py_nb_inplace_and, slot(nb_inplace_and)},
          {Py_nb_inplace_or, slot(nb_inplace_or)},
          {Py_nb_inplace_xor, slot(nb_inplace_xor)},
          {Py_nb_inplace_lshift, slot(nb_inplace_lshift)},
          {Py_nb_inplace_rshift, slot(nb_inplace_rshift)},
          {Py_nb_negative, slot(nb_negative)},
          {Py_nb_positive, slot(nb_positive)},
          {Py_nb_absolute, slot(nb_absolute)},
          {Py_nb_invert, slot(nb_invert)},
          {Py_nb_bool, slot(nb_bool)},
          {Py_nb_int, slot(nb_int)},
          {Py_nb_float, slot(nb_float)},
          {Py_nb_index, slot(nb_index)}};
}

}  // namespace flambeau::python
