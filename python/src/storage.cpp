// torch.UntypedStorage: the bytes under tensors as a Python object.
#include <cstring>

#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "interop.h"

namespace flambeau::python {
namespace {

struct PyStorage {
  PyObject_HEAD
  StoragePtr storage;
};
PyTypeObject* storage_type = nullptr;
const StoragePtr& of(PyObject* self) { return reinterpret_cast<PyStorage*>(self)->storage; }
bool is_storage(PyObject* object) { return PyType_IsSubtype(Py_TYPE(object), storage_type); }

PyObject* make(PyTypeObject* type, StoragePtr storage) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) new (&reinterpret_cast<PyStorage*>(self)->storage) StoragePtr(std::move(storage));
  return self;
}

PyObject* storage_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"size", "device", nullptr};
    PyObject *size = nullptr, *place = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:UntypedStorage", const_cast<char**>(names), &size, &place)) return nullptr;
    Device device;
    if (place != Py_None) CHECK(device_from(place, device), TypeError, "UntypedStorage(): argument 'device' must be torch.device");
    if (size && PySequence_Check(size)) {
      Object bytes = check(PyBytes_FromObject(size));
      StoragePtr storage = make_storage(static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())), Device());
      std::memcpy(storage->data(), PyBytes_AS_STRING(bytes.get()), storage->bytes());
      return make(type, std::move(storage));
    }
    int64_t bytes = 0;
    CHECK(!size || int_from(size, bytes), TypeError, "UntypedStorage(): argument 'size' must be int, not {}", Py_TYPE(size)->tp_name);
    CHECK(bytes >= 0, RuntimeError, "Trying to create a storage with a negative size {}", bytes);
    return make(type, make_storage(static_cast<size_t>(bytes), device));
  });
}
void storage_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<PyStorage*>(self)->storage.~StoragePtr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* nbytes(PyObject* self, PyObject*) { return PyLong_FromSize_t(of(self)->bytes()); }
Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(of(self)->bytes()); }
PyObject* data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(of(self)->data()); }
PyObject* get_device(PyObject* self, void*) { return wrap_device(of(self)->device()); }
PyObject* get_is_cuda(PyObject* self, void*) { return PyBool_FromLong(of(self)->device().is_cuda()); }
PyObject* get_cdata(PyObject* self, void*) { return PyLong_FromVoidPtr(of(self).get()); }
PyObject* element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* is_shared(PyObject* self, PyObject*) { return PyBool_FromLong(of(self)->shared()); }
PyObject* resize(PyObject* self, PyObject* size) {
  return guarded([&]() -> PyObject* {
    int64_t bytes = 0;
    CHECK(int_from(size, bytes) && bytes >= 0, TypeError, "resize_ expects a non-negative int");
    of(self)->resize(static_cast<size_t>(bytes));
    return Py_NewRef(self);
  });
}
PyObject* copy(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source = nullptr, *non_blocking = nullptr;
    if (!PyArg_ParseTuple(args, "O|O:copy_", &source, &non_blocking)) return nullptr;
    CHECK(is_storage(source), TypeError, "copy_(): argument 'source' must be UntypedStorage, not {}", Py_TYPE(source)->tp_name);
    CHECK(of(source)->bytes() == of(self)->bytes(), RuntimeError, "size mismatch, self {} bytes, source {} bytes", of(self)->bytes(), of(source)->bytes());
    copy_bytes(of(self)->data(), of(self)->device(), of(source)->data(), of(source)->device(), of(self)->bytes());
    return Py_NewRef(self);
  });
}
PyObject* clone_storage(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    StoragePtr storage = make_storage(of(self)->bytes(), of(self)->device());
    copy_bytes(storage->data(), storage->device(), of(self)->data(), of(self)->device(), storage->bytes());
    return make(storage_type, std::move(storage));
  });
}
PyObject* to_cpu(PyObject* self, PyObject*) {
  if (of(self)->device().is_cpu()) return Py_NewRef(self);
  return guarded([&]() -> PyObject* {
    StoragePtr storage = make_storage(of(self)->bytes(), Device());
    copy_bytes(storage->data(), Device(), of(self)->data(), of(self)->device(), storage->bytes());
    return make(storage_type, std::move(storage));
  });
}
int64_t byte_at(PyObject* self, PyObject* key) {
  int64_t index = 0;
  CHECK(int_from(key, index), TypeError, "can't index a UntypedStorage with {}", Py_TYPE(key)->tp_name);
  const auto size = static_cast<int64_t>(of(self)->bytes());
  CHECK(index >= -size && index < size, IndexError, "index {} out of range for storage of size {}", index, size);
  CHECK(of(self)->device().is_cpu(), NotImplementedError, "UntypedStorage: indexing works on the CPU only");
  return index < 0 ? index + size : index;
}
PyObject* get_byte(PyObject* self, PyObject* key) {
  return guarded([&] { return PyLong_FromLong(static_cast<const uint8_t*>(of(self)->data())[byte_at(self, key)]); });
}
int set_byte(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    int64_t number = 0;
    CHECK(value && int_from(value, number) && number >= 0 && number < 256, TypeError, "UntypedStorage: a byte is an int from 0 to 255");
    static_cast<uint8_t*>(of(self)->data())[byte_at(self, key)] = static_cast<uint8_t>(number);
    return 0;
  });
}

PyMethodDef storage_methods[] = {{"nbytes", nbytes, METH_NOARGS, "Its size in bytes."},
                                 {"size", nbytes, METH_NOARGS, "Its size in bytes."},
                                 {"data_ptr", data_ptr, METH_NOARGS, "Its address."},
                                 {"element_size", element_size, METH_NOARGS, "1."},
                                 {"is_shared", is_shared, METH_NOARGS, nullptr},
                                 {"resize_", resize, METH_O, "Changes its size, keeping the common prefix."},
                                 {"copy_", copy, METH_VARARGS, "Copies the bytes of another storage."},
                                 {"clone", clone_storage, METH_NOARGS, "A copy."},
                                 {"cpu", to_cpu, METH_NOARGS, "The same bytes on the CPU."},
                                 {nullptr, nullptr, 0, nullptr}};
PyGetSetDef storage_attributes[] = {{"device", get_device, nullptr, nullptr, nullptr},
                                    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
                                    {"_cdata", get_cdata, nullptr, nullptr, nullptr},
                                    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- Tensors and their storage ---------------------------------------------------------------------------

PyObject* untyped_storage(PyObject* self, PyObject*) { return make(storage_type, tensor_of(self).storage()); }

PyObject* op_set = nullptr;  // the op, for tensors as sources

// set_(source=None, storage_offset=0, size=(), stride=()) with a storage as source.
PyObject* set_(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    Object inner;
    PyObject* source = nargs > 0 ? args[0] : nullptr;
    if (source && !is_tensor(source) && !is_storage(source)) {
      inner = Object(PyObject_GetAttrString(source, "_untyped_storage"));
      PyErr_Clear();
      if (inner) source = inner.get();
    }
    if (!source || !is_storage(source)) {
      std::vector<PyObject*> all{self};
      all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
      return PyObject_Vectorcall(op_set, all.data(), static_cast<size_t>(nargs) + 1, kwnames);
    }
    CHECK(!kwnames, TypeError, "set_() takes a storage's offset, size and stride by position");
    const Tensor& tensor = tensor_of(self);
    const StoragePtr& storage = of(source);
    int64_t offset = 0;
    Dims size, stride;
    if (nargs == 1) size.push_back(static_cast<int64_t>(storage->bytes() / tensor.item_size()));
    CHECK(nargs < 2 || int_from(args[1], offset), TypeError, "set_(): argument 'storage_offset' (position 2) must be int");
    const auto read = [&](PyObject* object, Dims& into, const char* name) {
      int64_t one = 0;
      if (int_from(object, one)) return into.push_back(one);
      CHECK((PyTuple_Check(object) || PyList_Check(object)) && ints_from(object, into), TypeError, "set_(): argument '{}' must be tuple of ints, not {}", name, Py_TYPE(object)->tp_name);
    };
    if (nargs > 2) read(args[2], size, "size");
    if (nargs > 3) read(args[3], stride, "stride");
    if (stride.empty() && !size.empty()) stride = contiguous_strides(size);
    CHECK(storage->device() == tensor.device(), RuntimeError, "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".", to_text(tensor.device()), to_text(storage->device()));
    const Tensor fresh = make_over(storage, size, stride, offset, tensor.dtype());
    tensor->storage = storage;
    tensor->offset = offset;
    set_geometry(*tensor.impl(), size, stride);
    tensor.bump_version("set_");
    return Py_NewRef(self);
  });
}

PyMethodDef tensor_methods[] = {{"untyped_storage", untyped_storage, METH_NOARGS, "The bytes under this tensor."},
                                {"set_", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(set_)), METH_FASTCALL | METH_KEYWORDS, "Makes self a window on a storage or on the storage of a tensor."},
                                {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_storage(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(storage_new)}, {Py_tp_dealloc, reinterpret_cast<void*>(storage_dealloc)},
                         {Py_tp_methods, storage_methods}, {Py_tp_getset, storage_attributes}, {Py_mp_length, reinterpret_cast<void*>(length)},
                         {Py_mp_subscript, reinterpret_cast<void*>(get_byte)}, {Py_mp_ass_subscript, reinterpret_cast<void*>(set_byte)}, {0, nullptr}};
  PyType_Spec spec{"torch.UntypedStorage", sizeof(PyStorage), 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE), slots};
  storage_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  op_set = Py_XNewRef(PyDict_GetItemString(tensor_type->tp_dict, "set_"));
  return storage_type && op_set && add_methods(tensor_methods) && PyModule_AddObjectRef(module, "UntypedStorage", reinterpret_cast<PyObject*>(storage_type)) == 0;
}

}  // namespace flambeau::python
