// torch.Generator.
#include "flambeau/tensor/generator.h"

#include <mutex>

#include "flambeau/ops/ops.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

struct PyGenerator {
  PyObject_HEAD GeneratorPtr generator;
};
PyTypeObject* generator_type = nullptr;
Generator& of(PyObject* self) { return *reinterpret_cast<PyGenerator*>(self)->generator; }

PyObject* make(PyTypeObject* type, GeneratorPtr generator) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self)
    new (&reinterpret_cast<PyGenerator*>(self)->generator) GeneratorPtr(std::move(generator));
  return self;
}
PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device", nullptr};
    PyObject* object = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names),
                                     &object))
      return nullptr;
    Device device;
    CHECK(!object || device_from(object, device), TypeError,
          "Generator(): argument 'device' must be torch.device, not {}", Py_TYPE(object)->tp_name);
    return make(type, make_generator(device));
  });
}
void generator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<PyGenerator*>(self)->generator.~GeneratorPtr();
  type->tp_free(self);
  Py_DECREF(type);
}

// Seeds from -2**63 on; negative ones stand for 2**64 + seed.
uint64_t seed_from(PyObject* object) {
  CHECK(PyLong_Check(object), RuntimeError, "manual_seed expected a long, but got {}",
        Py_TYPE(object)->tp_name);
  int overflow = 0;
  const int64_t small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return static_cast<uint64_t>(small);
  const uint64_t wide = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    fail<ValueError>("Overflow when unpacking long long");
  }
  return wide;
}
PyObject* manual_seed(PyObject* self, PyObject* seed) {
  return guarded([&]() -> PyObject* {
    const uint64_t value = seed_from(seed);
    const std::lock_guard lock(of(self).mutex());
    of(self).manual_seed(value);
    return Py_NewRef(self);
  });
}
PyObject* seed(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const std::lock_guard lock(of(self).mutex());
    return PyLong_FromUnsignedLongLong(of(self).seed());
  });
}
PyObject* initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(of(self).initial_seed());
}
PyObject* get_state(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const std::lock_guard lock(of(self).mutex());
    Tensor state = make_tensor(static_cast<int64_t>(of(self).state_size()), DType::uint8, Device());
    of(self).get_state({static_cast<std::byte*>(state.raw()), static_cast<size_t>(state.numel())});
    return wrap(std::move(state));
  });
}
PyObject* set_state(PyObject* self, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(object), TypeError, "expected a torch.ByteTensor, but got {}",
          Py_TYPE(object)->tp_name);
    const Tensor& state = tensor_of(object);
    CHECK(state.dtype() == DType::uint8 && state.device().is_cpu(), TypeError,
          "RNG state must be a torch.ByteTensor, but it is {} on {}", state.dtype(),
          state.device());
    CHECK(state.is_contiguous(), RuntimeError,
          "RNG state must be contiguous, but it has strides {}", state.strides());
    const std::lock_guard lock(of(self).mutex());
    of(self).set_state(
        {static_cast<const std::byte*>(state.raw()), static_cast<size_t>(state.numel())});
    return Py_NewRef(self);
  });
}
PyObject* clone_state(PyObject* self, PyObject*) {
  return guarded([&] { return make(generator_type, of(self).clone()); });
}
// Goes on from the state of another generator.
PyObject* set_state_of(PyObject* self, PyObject* other) {
  Object state(PyObject_CallMethod(other, "get_state", nullptr));
  return state ? set_state(self, state.get()) : nullptr;
}
PyObject* get_offset(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(of(self).offset()); });
}
PyObject* set_offset(PyObject* self, PyObject* value) {
  return guarded([&]() -> PyObject* {
    of(self).set_offset(seed_from(value));
    return Py_NewRef(self);
  });
}
PyObject* get_device(PyObject* self, void*) { return wrap_device(of(self).device()); }
PyObject* restore_function = nullptr;  // flambeau._C._restore_generator, which pickles name
PyObject* reduce(PyObject* self, PyObject*) {
  Object state(get_state(self, nullptr)), device(get_device(self, nullptr));
  if (!state || !device) return nullptr;
  return Py_BuildValue("O(OO)", restore_function, device.get(), state.get());
}
PyObject* restore(PyObject*, PyObject* args) {
  PyObject *device = nullptr, *state = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &device, &state)) return nullptr;
  Object self(PyObject_CallOneArg(reinterpret_cast<PyObject*>(generator_type), device));
  return self ? set_state(self.get(), state) : nullptr;
}

PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "Starts the sequence that belongs to a seed."},
    {"seed", seed, METH_NOARGS, "Seeds with a number nobody can predict, and returns it."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed the sequence began with."},
    {"get_state", get_state, METH_NOARGS, "The whole state, a tensor of bytes."},
    {"set_state", set_state, METH_O, "Goes on from a state that get_state gave."},
    {"clone_state", clone_state, METH_NOARGS, "A generator in the same state."},
    {"graphsafe_get_state", clone_state, METH_NOARGS, nullptr},
    {"graphsafe_set_state", set_state_of, METH_O, "Goes on from the state of a generator."},
    {"get_offset", get_offset, METH_NOARGS, nullptr},
    {"set_offset", set_offset, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{"device", get_device, nullptr, "The device it draws for.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef restore_method = {"_restore_generator", restore, METH_VARARGS,
                              "A generator in a given state, for pickle."};

}  // namespace

Generator* generator_from(PyObject* object) {
  if (!PyType_IsSubtype(Py_TYPE(object), generator_type)) return nullptr;
  return reinterpret_cast<PyGenerator*>(object)->generator.get();
}

PyObject* wrap_generator(Generator* generator) {
  return make(generator_type, GeneratorPtr(generator));
}

bool add_generator(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(generator_new)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(generator_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {0, nullptr}};
  PyType_Spec spec{"torch._C.Generator", sizeof(PyGenerator), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE), slots};
  generator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!generator_type) return false;
  Object standard(make(generator_type, default_generator(Device())));
  Object module_name(PyModule_GetNameObject(module));
  restore_function = PyCFunction_NewEx(&restore_method, nullptr, module_name.get());
  return standard && restore_function &&
         PyModule_AddObjectRef(module, "_restore_generator", restore_function) == 0 &&
         PyModule_AddObjectRef(module, "Generator", reinterpret_cast<PyObject*>(generator_type)) ==
             0 &&
         PyModule_AddObjectRef(module, "default_generator", standard.get()) == 0;
}

}  // namespace flambeau::python
