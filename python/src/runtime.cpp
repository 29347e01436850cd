// Settings of the process: default dtype and device, threads; and questions about types.
#include <cmath>
#include <limits>

#include "flambeau/base/parallel.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/backend.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

PyObject* get_default_dtype(PyObject*, PyObject*) { return wrap_dtype(default_dtype()); }
PyObject* set_default(PyObject*, PyObject* dtype) {
  return guarded([&]() -> PyObject* {
    CHECK(is_dtype(dtype), TypeError,
          "invalid dtype object: only floating-point types are supported as the default type");
    set_default_dtype(dtype_of_object(dtype));
    Py_RETURN_NONE;
  });
}
PyObject* get_default(PyObject*, PyObject*) { return wrap_device(default_device()); }
PyObject* set_default_dev(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    Device device;
    if (object != Py_None)
      CHECK(device_from(object, device), TypeError, "set_default_device: expected a device, not {}",
            Py_TYPE(object)->tp_name);
    set_default_device(device);
    Py_RETURN_NONE;
  });
}
template <int (*Get)()>
PyObject* get_threads(PyObject*, PyObject*) {
  return PyLong_FromLong(Get());
}
template <void (*Set)(int)>
PyObject* set_threads(PyObject*, PyObject* count) {
  return guarded([&]() -> PyObject* {
    int64_t value = 0;
    CHECK(int_from(count, value), RuntimeError, "set_num_threads expects an int, but got {}",
          Py_TYPE(count)->tp_name);
    CHECK(value < 4096, RuntimeError, "set_num_threads: {} threads are more than any machine has",
          value);
    Set(static_cast<int>(value));
    Py_RETURN_NONE;
  });
}
Operand operand_of(PyObject* object, const char* op, Scalar& scalar) {
  if (is_tensor(object)) return Operand(tensor_of(object));
  CHECK(scalar_from(object, scalar), TypeError,
        "{}(): arguments must be Tensors or Numbers, not {}", op, Py_TYPE(object)->tp_name);
  return Operand(scalar);
}
PyObject* py_result_type(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *a = nullptr, *b = nullptr;
    if (!PyArg_ParseTuple(args, "OO:result_type", &a, &b)) return nullptr;
    CHECK(!is_quantized(a) && !is_quantized(b), RuntimeError,
          "result_type: promoteTypes with quantized numbers is not handled yet");
    Scalar scalar_a, scalar_b;
    return wrap_dtype(result_type(operand_of(a, "result_type", scalar_a),
                                  operand_of(b, "result_type", scalar_b)));
  });
}
template <class F>
PyObject* with_dtypes(PyObject* args, const char* name, F function) {
  return guarded([&]() -> PyObject* {
    PyObject *a = nullptr, *b = nullptr;
    if (!PyArg_UnpackTuple(args, name, 2, 2, &a, &b)) return nullptr;
    CHECK(is_dtype(a) && is_dtype(b), TypeError,
          "{}(): arguments must be torch.dtype, not {} and {}", name, Py_TYPE(a)->tp_name,
          Py_TYPE(b)->tp_name);
    return function(dtype_of_object(a), dtype_of_object(b));
  });
}
PyObject* py_promote_types(PyObject*, PyObject* args) {
  return with_dtypes(args, "promote_types",
                     [](DType a, DType b) { return wrap_dtype(promote_types(a, b)); });
}
PyObject* py_can_cast(PyObject*, PyObject* args) {
  return with_dtypes(args, "can_cast",
                     [](DType a, DType b) { return PyBool_FromLong(can_cast(a, b)); });
}

// (bits, max, min, eps, tiny, resolution) of a floating dtype.
PyObject* float_facts(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_dtype(object), TypeError, "finfo(): argument 'type' must be torch.dtype, not {}",
          Py_TYPE(object)->tp_name);
    const DType dtype = to_real(dtype_of_object(object));
    CHECK(is_floating(dtype), TypeError,
          "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
          "'torch.finfo'");
    double largest = 0, eps = 0, tiny = 0;
    const int bits = static_cast<int>(item_size(dtype)) * 8;
    if (dtypes::Float8.has(dtype)) {
      dispatch<dtypes::Float8>("finfo", dtype, [&](auto tag) {
        constexpr const Float8Format& format = decltype(tag)::type::kind;
        largest = float8::decode(format, format.largest);
        eps = std::ldexp(1.0, -format.mantissa);
        tiny = std::ldexp(1.0, format.has_sign ? 1 - format.bias : -format.bias);
      });
      const double least = dtype == DType::float8_e8m0fnu ? tiny : -largest;
      return Py_BuildValue("(iddddd)", bits, largest, least, eps, tiny, 1.0);
    }
    switch (dtype) {
      case DType::float16:
        largest = 65504.0;
        eps = std::ldexp(1.0, -10);
        tiny = std::ldexp(1.0, -14);
        break;
      case DType::bfloat16:
        largest = std::ldexp(255.0 / 128.0, 127);
        eps = std::ldexp(1.0, -7);
        tiny = std::ldexp(1.0, -126);
        break;
      case DType::float32:
        largest = std::numeric_limits<float>::max();
        eps = std::numeric_limits<float>::epsilon();
        tiny = std::numeric_limits<float>::min();
        break;
      default:
        largest = std::numeric_limits<double>::max();
        eps = std::numeric_limits<double>::epsilon();
        tiny = std::numeric_limits<double>::min();
        break;
    }
    const double resolution = std::pow(10.0, std::floor(std::log10(eps)) + 1);
    return Py_BuildValue("(iddddd)", bits, largest, -largest, eps, tiny, resolution);
  });
}
PyObject* integer_facts(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_dtype(object), TypeError, "iinfo(): argument 'type' must be torch.dtype, not {}",
          Py_TYPE(object)->tp_name);
    const DType dtype = dtype_of_object(object);
    CHECK(is_integral(dtype), TypeError, "torch.iinfo() requires an integer input type, got {}",
          dtype);
    PyObject* facts = nullptr;
    dispatch<dtypes::Integral>("iinfo", dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      facts = std::is_signed_v<T>
                  ? Py_BuildValue("(iLL)", static_cast<int>(sizeof(T)) * 8,
                                  static_cast<long long>(std::numeric_limits<T>::min()),
                                  static_cast<long long>(std::numeric_limits<T>::max()))
                  : Py_BuildValue("(iKK)", static_cast<int>(sizeof(T)) * 8, 0ULL,
                                  static_cast<unsigned long long>(std::numeric_limits<T>::max()));
    });
    return facts;
  });
}
PyObject* cuda_available(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!backend_available(DeviceType::cuda)) return PyLong_FromLong(0);
    return PyLong_FromLong(device_runtime(DeviceType::cuda).device_count());
  });
}
PyObject* cuda_loaded(PyObject*, PyObject*) {
  return PyBool_FromLong(backend_loaded(DeviceType::cuda));
}
PyObject* release_memory(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    allocator(DeviceType::cpu).release_cached();
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of new floating tensors."},
    {"set_default_dtype", set_default, METH_O, "Sets the dtype of new floating tensors."},
    {"get_default_device", get_default, METH_NOARGS, "Where new tensors are made."},
    {"set_default_device", set_default_dev, METH_O, "Sets where new tensors are made."},
    {"get_num_threads", get_threads<get_num_threads>, METH_NOARGS, "Threads that one op may use."},
    {"set_num_threads", set_threads<set_num_threads>, METH_O,
     "Sets how many threads one op may use."},
    {"get_num_interop_threads", get_threads<get_num_interop_threads>, METH_NOARGS, nullptr},
    {"set_num_interop_threads", set_threads<set_num_interop_threads>, METH_O, nullptr},
    {"result_type", py_result_type, METH_VARARGS, "The dtype that arithmetic on the two gives."},
    {"promote_types", py_promote_types, METH_VARARGS, "The smallest dtype that both convert to."},
    {"can_cast", py_can_cast, METH_VARARGS, "Whether promotion rules allow the conversion."},
    {"_float_facts", float_facts, METH_O, nullptr},
    {"_integer_facts", integer_facts, METH_O, nullptr},
    {"_cuda_device_count", cuda_available, METH_NOARGS, nullptr},
    {"_cuda_is_loaded", cuda_loaded, METH_NOARGS, nullptr},
    {"_release_cpu_memory", release_memory, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_runtime(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
