// torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format and torch.Generator.
#include <cstddef>
#include <cstring>
#include <map>

#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "python/src/binding.h"

namespace flambeau::python {

PyTypeObject *dtype_type, *device_type, *layout_type, *memory_format_type, *size_type;

namespace {

// The class of these classes. They call themselves torch's, where pickle would look for them in
// vain; having a class of their own, they can tell it where they are (flambeau/_utils.py).
PyObject* core_meta() {
  static PyObject* const meta = [] {
    PyType_Slot slots[] = {{0, nullptr}};
    PyType_Spec spec{"torch._C._CoreMeta", 0, 0, Py_TPFLAGS_DEFAULT, slots};
    Object bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyType_Type)));
    return bases ? PyType_FromSpecWithBases(&spec, bases.get()) : nullptr;
  }();
  return meta;
}

PyTypeObject* make_type(const char* name, int size, PyType_Slot* slots, unsigned flags = 0,
                        PyObject* bases = nullptr) {
  PyType_Spec spec{name, size, 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | flags, slots};
  PyObject* type = PyType_FromSpecWithBases(&spec, bases);
  if (type && core_meta()) {
    Py_SET_TYPE(type, reinterpret_cast<PyTypeObject*>(Py_NewRef(core_meta())));
  }
  return reinterpret_cast<PyTypeObject*>(type);
}
template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

// --- Enumerations: dtype, layout, memory format --------------------------------------------------

int value_of(PyObject* object) { return reinterpret_cast<EnumObject*>(object)->value; }

PyObject* dtypes_made[dtype_count];
PyObject* layouts_made[6];
PyObject* formats_made[4];
constexpr const char* layout_names[] = {"strided",    "sparse_coo", "sparse_csr",
                                        "sparse_csc", "sparse_bsr", "sparse_bsc"};
constexpr const char* format_names[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};

PyObject* make_enum(PyTypeObject* type, int value) {
  auto* object = PyObject_New(EnumObject, type);
  if (object) object->value = value;
  return reinterpret_cast<PyObject*>(object);
}

DType dtype_value(PyObject* self) { return static_cast<DType>(value_of(self)); }
PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromString(to_text(dtype_value(self)).c_str());
}
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(std::string(dtype_name(dtype_value(self))).c_str());
}
PyObject* dtype_itemsize(PyObject* self, void*) {
  return PyLong_FromSize_t(item_size(dtype_value(self)));
}
PyObject* dtype_floating(PyObject* self, void*) {
  return PyBool_FromLong(is_floating(dtype_value(self)));
}
PyObject* dtype_complex(PyObject* self, void*) {
  return PyBool_FromLong(is_complex(dtype_value(self)));
}
PyObject* dtype_signed(PyObject* self, void*) {
  return PyBool_FromLong(is_signed(dtype_value(self)));
}
PyObject* dtype_to_real(PyObject* self, PyObject*) {
  return wrap_dtype(to_real(dtype_value(self)));
}
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const DType dtype = dtype_value(self);
    CHECK(is_floating(dtype) || is_complex(dtype), RuntimeError,
          "Unknown Complex ScalarType for {}", dtype_legacy_name(dtype));
    return wrap_dtype(to_complex(dtype));
  });
}
PyObject* module_name(PyObject*, void*) { return PyUnicode_FromString("flambeau"); }

PyGetSetDef dtype_attributes[] = {
    {"itemsize", dtype_itemsize, nullptr, "Bytes an element.", nullptr},
    {"is_floating_point", dtype_floating, nullptr, nullptr, nullptr},
    {"is_complex", dtype_complex, nullptr, nullptr, nullptr},
    {"is_signed", dtype_signed, nullptr, nullptr, nullptr},
    {"__module__", module_name, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The real type of a complex one."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type of a real one."},
    {nullptr, nullptr, 0, nullptr}};

PyObject* layout_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", layout_names[value_of(self)]);
}
PyObject* layout_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(layout_names[value_of(self)]);
}
PyObject* format_repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", format_names[value_of(self)]);
}
PyObject* format_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(format_names[value_of(self)]);
}
PyMethodDef layout_methods[] = {{"__reduce__", layout_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyMethodDef format_methods[] = {{"__reduce__", format_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyGetSetDef module_attribute[] = {{"__module__", module_name, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};

bool add_enums(PyObject* module) {
  PyType_Slot dtype_slots[] = {{Py_tp_repr, slot(dtype_repr)},
                               {Py_tp_getset, dtype_attributes},
                               {Py_tp_methods, dtype_methods},
                               {0, nullptr}};
  PyType_Slot layout_slots[] = {{Py_tp_repr, slot(layout_repr)},
                                {Py_tp_methods, layout_methods},
                                {Py_tp_getset, module_attribute},
                                {0, nullptr}};
  PyType_Slot format_slots[] = {{Py_tp_repr, slot(format_repr)},
                                {Py_tp_methods, format_methods},
                                {Py_tp_getset, module_attribute},
                                {0, nullptr}};
  const unsigned none = Py_TPFLAGS_DISALLOW_INSTANTIATION;
  dtype_type = make_type("torch.dtype", sizeof(EnumObject), dtype_slots, none);
  layout_type = make_type("torch.layout", sizeof(EnumObject), layout_slots, none);
  memory_format_type = make_type("torch.memory_format", sizeof(EnumObject), format_slots, none);
  for (const auto& [name, type] : {std::pair{"dtype", dtype_type},
                                   {"layout", layout_type},
                                   {"memory_format", memory_format_type}}) {
    if (PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)) < 0) return false;
  }
  for (int i = 0; i < dtype_count; ++i) {
    dtypes_made[i] = make_enum(dtype_type, i);
    const std::string name(dtype_name(static_cast<DType>(i)));
    if (PyModule_AddObjectRef(module, name.c_str(), dtypes_made[i]) < 0) return false;
  }
  const std::pair<const char*, DType> aliases[] = {
      {"float", DType::float32},   {"double", DType::float64},   {"half", DType::float16},
      {"long", DType::int64},      {"int", DType::int32},        {"short", DType::int16},
      {"chalf", DType::complex32}, {"cfloat", DType::complex64}, {"cdouble", DType::complex128}};
  for (const auto& [name, dtype] : aliases) {
    if (PyModule_AddObjectRef(module, name, dtypes_made[static_cast<int>(dtype)]) < 0) return false;
  }
  for (int i = 0; i < 6; ++i) {
    layouts_made[i] = make_enum(layout_type, i);
    if (PyModule_AddObjectRef(module, layout_names[i], layouts_made[i]) < 0) return false;
  }
  for (int i = 0; i < 4; ++i) {
    formats_made[i] = make_enum(memory_format_type, i);
    if (PyModule_AddObjectRef(module, format_names[i], formats_made[i]) < 0) return false;
  }
  return true;
}

// --- Device --------------------------------------------------------------------------------------

struct DeviceObject {
  PyObject_HEAD Device device;
  PyObject* before;  // default devices to restore, while used as context manager
};
Device& device_of(PyObject* object) { return reinterpret_cast<DeviceObject*>(object)->device; }

PyObject* new_device(PyTypeObject* type, Device device) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object) device_of(object) = device;
  return object;
}

PyObject* device_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"type", "index", nullptr};
    PyObject *first = nullptr, *index = nullptr;
    if (kwargs && PyDict_GetItemString(kwargs, "device") && PyTuple_GET_SIZE(args) == 0) {
      first = PyDict_GetItemString(kwargs, "device");
    } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names),
                                            &first, &index)) {
      return nullptr;
    }
    Device device;
    if (!device_from(first, device)) {
      PyErr_Format(PyExc_TypeError, "device(): argument 'type' (position 1) must be str, not %s",
                   Py_TYPE(first)->tp_name);
      return nullptr;
    }
    if (index && index != Py_None) {
      int64_t number = 0;
      CHECK(PyUnicode_Check(first) && device.index < 0, RuntimeError,
            "device(): type (string) must not include an index because index was passed "
            "explicitly: {}",
            to_text(device));
      CHECK(int_from(index, number), TypeError, "device(): argument 'index' must be int, not {}",
            Py_TYPE(index)->tp_name);
      CHECK(number >= 0 && number < 128, RuntimeError,
            "Device index must not be negative or above 127, got {}", number);
      device.index = static_cast<int8_t>(number);
    }
    return new_device(type, device);
  });
}

PyObject* device_repr(PyObject* self) {
  const Device d = device_of(self);
  const std::string name(device_type_name(d.type));
  return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", name.c_str())
                     : PyUnicode_FromFormat("device(type='%s', index=%d)", name.c_str(), d.index);
}
PyObject* device_str(PyObject* self) {
  return PyUnicode_FromString(to_text(device_of(self)).c_str());
}
Py_hash_t device_hash(PyObject* self) {
  return static_cast<int>(device_of(self).type) * 256 + device_of(self).index + 2;
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}
PyObject* device_get_type(PyObject* self, void*) {
  return PyUnicode_FromString(std::string(device_type_name(device_of(self).type)).c_str());
}
PyObject* device_get_index(PyObject* self, void*) {
  if (device_of(self).index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(device_of(self).index);
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  const Device d = device_of(self);
  const std::string name(device_type_name(d.type));
  PyObject* type = reinterpret_cast<PyObject*>(device_type);
  return d.index < 0 ? Py_BuildValue("O(s)", type, name.c_str())
                     : Py_BuildValue("O(si)", type, name.c_str(), d.index);
}
PyObject* device_enter(PyObject* self, PyObject*) {
  auto* object = reinterpret_cast<DeviceObject*>(self);
  if (!object->before) object->before = PyList_New(0);
  Object before(wrap_device(default_device()));
  if (PyList_Append(object->before, before.get()) < 0) return nullptr;
  set_default_device(object->device);
  return Py_NewRef(self);
}
PyObject* device_exit(PyObject* self, PyObject*) {
  auto* object = reinterpret_cast<DeviceObject*>(self);
  const Py_ssize_t n = object->before ? PyList_GET_SIZE(object->before) : 0;
  if (n > 0) {
    set_default_device(device_of(PyList_GET_ITEM(object->before, n - 1)));
    if (PyList_SetSlice(object->before, n - 1, n, nullptr) < 0) return nullptr;
  }
  Py_RETURN_NONE;
}
void device_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<DeviceObject*>(self)->before);
  type->tp_free(self);
  Py_DECREF(type);
}

PyGetSetDef device_attributes[] = {{"type", device_get_type, nullptr, nullptr, nullptr},
                                   {"index", device_get_index, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {"__enter__", device_enter, METH_NOARGS, nullptr},
                                {"__exit__", device_exit, METH_VARARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

bool add_device(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, slot(device_new)},
                         {Py_tp_repr, slot(device_repr)},
                         {Py_tp_str, slot(device_str)},
                         {Py_tp_hash, slot(device_hash)},
                         {Py_tp_richcompare, slot(device_compare)},
                         {Py_tp_getset, device_attributes},
                         {Py_tp_methods, device_methods},
                         {Py_tp_dealloc, slot(device_dealloc)},
                         {0, nullptr}};
  device_type = make_type("torch.device", sizeof(DeviceObject), slots);
  return device_type &&
         PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(device_type)) == 0;
}

// --- Size ----------------------------------------------------------------------------------------

PyObject* size_from_tuple(PyObject* tuple) {
  Object owned = check(tuple);
  Object args = check(PyTuple_Pack(1, owned.get()));
  return PyTuple_Type.tp_new(size_type, args.get(), nullptr);
}

PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    Object size = check(PyTuple_Type.tp_new(type, args, kwargs));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(size.get(), i);
      if (PyLong_Check(item)) continue;
      int64_t value = 0;
      CHECK(int_from(item, value), TypeError,
            "torch.Size() takes an iterable of 'int' (item {} is '{}')", i, Py_TYPE(item)->tp_name);
      PyTuple_SET_ITEM(size.get(), i, check(PyLong_FromLongLong(value)).release());
      Py_DECREF(item);
    }
    return size.release();
  });
}
PyObject* size_repr(PyObject* self) {
  Object list(PySequence_List(self));
  return list ? PyUnicode_FromFormat("torch.Size(%R)", list.get()) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
  Object product(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); ++i) {
    product = Object(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(self, i)));
  }
  return product.release();
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  Object plain(PySequence_Tuple(self));
  if (!plain) return nullptr;
  return Py_BuildValue("O(O)", reinterpret_cast<PyObject*>(size_type), plain.get());
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    CHECK(PyTuple_Check(b), TypeError, "can only concatenate tuple (not {}) to torch.Size",
          Py_TYPE(b)->tp_name);
    Object joined = check(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
    return size_new(size_type, check(PyTuple_Pack(1, joined.get())).get(), nullptr);
  });
}
// A tuple may stand on the left, too; what others do with a size, as a list that it is added to, is
// theirs to say.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return size_concat(a, b);
}
PyObject* size_repeat(PyObject* self, Py_ssize_t n) {
  return guarded([&] { return size_from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, n)); });
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    Object item = check(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
    return PyTuple_Check(item.get()) ? size_from_tuple(item.release()) : item.release();
  });
}
PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."},
                              {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

bool add_size(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, slot(size_new)},
                         {Py_tp_repr, slot(size_repr)},
                         {Py_tp_methods, size_methods},
                         {Py_sq_concat, slot(size_concat)},
                         {Py_nb_add, slot(size_add)},
                         {Py_sq_repeat, slot(size_repeat)},
                         {Py_mp_subscript, slot(size_subscript)},
                         {0, nullptr}};
  Object bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  size_type = make_type("torch.Size", 0, slots, 0, bases.get());
  return size_type &&
         PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) == 0;
}

}  // namespace

PyObject* wrap_dtype(DType dtype) { return Py_NewRef(dtypes_made[static_cast<int>(dtype)]); }
PyObject* wrap_layout(Layout layout) { return Py_NewRef(layouts_made[static_cast<int>(layout)]); }
PyObject* wrap_memory_format(MemoryFormat format) {
  return Py_NewRef(formats_made[static_cast<int>(format)]);
}
PyObject* wrap_device(Device device) { return new_device(device_type, device); }
bool is_dtype(PyObject* object) { return Py_TYPE(object) == dtype_type; }
DType dtype_of_object(PyObject* object) { return dtype_value(object); }

// Python's own types stand for dtypes too, as in x.to(float).
bool dtype_from(PyObject* object, DType& dtype) {
  const auto is = [&](PyTypeObject& type) { return object == reinterpret_cast<PyObject*>(&type); };
  if (is_dtype(object)) {
    dtype = dtype_value(object);
  } else if (is(PyFloat_Type)) {
    dtype = DType::float64;
  } else if (is(PyLong_Type)) {
    dtype = DType::int64;
  } else if (is(PyBool_Type)) {
    dtype = DType::bool_;
  } else if (is(PyComplex_Type)) {
    dtype = DType::complex128;
  } else {
    CHECK(std::strcmp(Py_TYPE(object)->tp_name, "NamedDType") != 0, RuntimeError,
          "{} is no dtype of plain tensors; those that are quantized are made by "
          "quantize_per_tensor, quantize_per_channel and their like",
          PyUnicode_AsUTF8(check(PyObject_Repr(object)).get()));
    return false;
  }
  return true;
}

bool device_from(PyObject* object, Device& device) {
  if (Py_TYPE(object) == device_type) {
    device = device_of(object);
  } else if (PyUnicode_Check(object)) {
    const char* text = PyUnicode_AsUTF8(object);
    if (!text) throw PythonError();
    device = Device::parse(text);
  } else if (PyLong_Check(object) && !PyBool_Check(object)) {
    int64_t index = 0;
    int_from(object, index);
    CHECK(index >= 0 && index < 128, RuntimeError,
          "Device index must not be negative or above 127, got {}", index);
    device = Device(DeviceType::cuda, static_cast<int>(index));
  } else {
    return false;
  }
  return true;
}

PyObject* wrap_size(IntSpan sizes) {
  // A tuple subclass without fields of its own can be filled like a tuple.
  PyObject* size = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  if (!size) return nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyTuple_SET_ITEM(size, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  }
  return size;
}

bool add_small_types(PyObject* module) {
  return add_enums(module) && add_device(module) && add_size(module);
}

}  // namespace flambeau::python
