// Tensors and what goes with them across pybind11: the same object on both sides. Exceptions of the
// library arrive as the Python exceptions that they stand for.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "flambeau/python/tensor_api.h"
#include "flambeau/torch.h"

namespace flambeau::python {

inline const TensorApi& tensor_api() {
  static const TensorApi* api = import_tensor_api();
  if (!api) throw pybind11::error_already_set();
  return *api;
}

// Every module translates for itself: pybind11 asks those of a module in which a function is.
[[maybe_unused]] static const bool translates = [] {
  const PyGILState_STATE state = PyGILState_Ensure();
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const flambeau::Error&) {
      tensor_api().set_python_error();
    }
  });
  PyGILState_Release(state);
  return true;
}();

// What a caster has that converts a value by functions of the table. The type may be derived from
// the one of the table, without data of its own.
template <class Value, class Stored, auto from, auto to>
struct ValueCaster {
  bool load(pybind11::handle source, bool) {
    Stored stored{};
    if (!(tensor_api().*from)(source.ptr(), stored)) {
      PyErr_Clear();
      return false;
    }
    value.emplace(stored);
    return true;
  }
  static pybind11::handle cast(const Value& given, pybind11::return_value_policy,
                               pybind11::handle) {
    return (tensor_api().*to)(given);
  }
  static pybind11::handle cast(const Value* given, pybind11::return_value_policy policy,
                               pybind11::handle parent) {
    return given ? cast(*given, policy, parent) : pybind11::none().release();
  }
  operator Value*() { return &*value; }                // NOLINT
  operator Value&() { return *value; }                 // NOLINT
  operator Value&&() && { return std::move(*value); }  // NOLINT
  template <class T>
  using cast_op_type = pybind11::detail::movable_cast_op_type<T>;

  std::optional<Value> value;
};

}  // namespace flambeau::python

namespace pybind11::detail {

template <>
struct type_caster<flambeau::torch::Tensor> {
  PYBIND11_TYPE_CASTER(flambeau::torch::Tensor, const_name("torch.Tensor"));
  bool load(handle source, bool) {
    const auto& api = flambeau::python::tensor_api();
    if (!api.is_tensor(source.ptr())) return false;
    value = api.tensor_of(source.ptr());
    return true;
  }
  static handle cast(const flambeau::Tensor& tensor, return_value_policy, handle) {
    return flambeau::python::tensor_api().wrap(tensor);
  }
};

#define FLAMBEAU_CASTER(type, stored, from, to, text)                                   \
  template <>                                                                           \
  struct type_caster<type>                                                              \
      : flambeau::python::ValueCaster<type, stored, &flambeau::python::TensorApi::from, \
                                      &flambeau::python::TensorApi::to> {               \
    static constexpr auto name = const_name(text);                                      \
  };
FLAMBEAU_CASTER(flambeau::DType, flambeau::DType, dtype_from, wrap_dtype, "torch.dtype")
FLAMBEAU_CASTER(flambeau::Device, flambeau::Device, device_from, wrap_device, "torch.device")
FLAMBEAU_CASTER(flambeau::torch::Device, flambeau::Device, device_from, wrap_device, "torch.device")
FLAMBEAU_CASTER(flambeau::Layout, flambeau::Layout, layout_from, wrap_layout, "torch.layout")
FLAMBEAU_CASTER(flambeau::MemoryFormat, flambeau::MemoryFormat, memory_format_from,
                wrap_memory_format, "torch.memory_format")
FLAMBEAU_CASTER(flambeau::Scalar, flambeau::Scalar, scalar_from, wrap_scalar, "Number")
FLAMBEAU_CASTER(flambeau::torch::Scalar, flambeau::Scalar, scalar_from, wrap_scalar, "Number")
#undef FLAMBEAU_CASTER

template <>
struct type_caster<flambeau::torch::Generator> {
  PYBIND11_TYPE_CASTER(flambeau::torch::Generator, const_name("torch.Generator"));
  bool load(handle source, bool) {
    flambeau::Generator* found = flambeau::python::tensor_api().generator_from(source.ptr());
    if (found) value = flambeau::GeneratorPtr(found);
    return found;
  }
  static handle cast(const flambeau::torch::Generator& generator, return_value_policy, handle) {
    return flambeau::python::tensor_api().wrap_generator(&generator.get());
  }
};

// Borrows from the caster, which lives as long as the call.
template <>
struct type_caster<flambeau::torch::IntArrayRef> {
  PYBIND11_TYPE_CASTER(flambeau::torch::IntArrayRef, const_name("Tuple[int, ...]"));
  bool load(handle source, bool) {
    if (!PyTuple_Check(source.ptr()) && !PyList_Check(source.ptr())) return false;
    for (const handle item : reinterpret_borrow<sequence>(source)) {
      int64_t number = 0;
      if (!flambeau::python::tensor_api().int_from(item.ptr(), number)) {
        PyErr_Clear();
        return false;
      }
      numbers_.push_back(number);
    }
    value = numbers_;
    return true;
  }
  static handle cast(flambeau::torch::IntArrayRef numbers, return_value_policy, handle) {
    tuple result(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) result[i] = numbers[i];
    return result.release();
  }

 private:
  std::vector<int64_t> numbers_;
};

}  // namespace pybind11::detail

namespace flambeau::torch {

// What load_inline binds: exceptions are translated wherever a function is bound.
template <class Function>
Function wrap_pybind_function(Function function) {
  return function;
}
// The same for functions that run without the GIL.
template <class Result, class... Args>
auto wrap_pybind_function_no_gil(Result (*function)(Args...)) {
  return [function](Args... args) -> Result {
    const pybind11::gil_scoped_release no_gil;
    return function(std::forward<Args>(args)...);
  };
}

}  // namespace flambeau::torch
