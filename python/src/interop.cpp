// Tensors as lists, and as arrays of NumPy without NumPy's headers: arrays describe themselves as
// buffers or through __array_interface__.
#include "python/src/interop.h"

#include <algorithm>
#include <cstring>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/shape/misaligned.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/node.h"

namespace flambeau::python {
namespace {

struct ArrayType {
  const char* text;
  DType dtype;
};
constexpr ArrayType array_types[] = {
    {"|b1", DType::bool_},     {"|u1", DType::uint8},      {"|i1", DType::int8},
    {"<i2", DType::int16},     {"<i4", DType::int32},      {"<i8", DType::int64},
    {"<u2", DType::uint16},    {"<u4", DType::uint32},     {"<u8", DType::uint64},
    {"<f2", DType::float16},   {"<f4", DType::float32},    {"<f8", DType::float64},
    {"<c8", DType::complex64}, {"<c16", DType::complex128}};

std::optional<DType> array_dtype(const char* text) {
  for (const ArrayType& type : array_types) {
    if (std::strcmp(type.text, text) == 0) return type.dtype;
  }
  return std::nullopt;
}
bool has_array_type(DType dtype) {
  return std::any_of(std::begin(array_types), std::end(array_types),
                     [&](const ArrayType& type) { return type.dtype == dtype; });
}

Tensor over(PyObject* owner, void* data, IntSpan sizes, IntSpan byte_strides, DType dtype) {
  const auto item = static_cast<int64_t>(item_size(dtype));
  Dims strides;
  for (size_t i = 0; i < sizes.size(); ++i) {
    CHECK(byte_strides[i] >= 0, ValueError,
          "At least one stride in the given numpy array is negative, and tensors with negative "
          "strides are not currently "
          "supported. (You can probably work around this by making a copy of your array with "
          "array.copy().)");
    CHECK(byte_strides[i] % item == 0, ValueError,
          "given numpy array strides not a multiple of the element byte size. Copy the numpy array "
          "to reallocate the memory.");
    strides.push_back(byte_strides[i] / item);
  }
  const size_t bytes = static_cast<size_t>(storage_extent(sizes, strides)) * item;
  StoragePtr storage = make_intrusive<Storage>(data, bytes, Device(),
                                               [keep = hold(owner)]() mutable { keep.reset(); });
  return marked_if_misaligned(make_over(std::move(storage), sizes, strides, 0, dtype));
}

// The dtype of a buffer's elements, by the letters of Python's struct module.
std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t size) {
  const std::string_view kind = format.substr(std::min(format.find_first_not_of("@=<"), size_t{1}));
  const auto of_size = [&](DType one, DType two, DType four, DType eight) {
    return size == 1 ? one : size == 2 ? two : size == 4 ? four : eight;
  };
  if (kind == "?") return DType::bool_;
  if (kind == "e") return DType::float16;
  if (kind == "f") return DType::float32;
  if (kind == "d") return DType::float64;
  if (kind == "Zf") return DType::complex64;
  if (kind == "Zd") return DType::complex128;
  if (kind.size() == 1 && kind.find_first_of("bhilq") == 0)
    return of_size(DType::int8, DType::int16, DType::int32, DType::int64);
  if (kind.size() == 1 && kind.find_first_of("BHILQ") == 0)
    return of_size(DType::uint8, DType::uint16, DType::uint32, DType::uint64);
  return std::nullopt;
}

// What an object says of its elements as a buffer, which is quicker to ask than NumPy's own words.
struct Description {
  std::string format;
  Py_ssize_t item_size = 0;
  void* data = nullptr;
  Dims sizes, strides;
  bool read_only = false;

  bool ask(PyObject* object) {
    Py_buffer buffer{};
    if (PyObject_GetBuffer(object, &buffer, PyBUF_FULL_RO) < 0) return false;
    format = buffer.format ? buffer.format : "B";
    item_size = buffer.itemsize;
    data = buffer.buf;
    read_only = buffer.readonly != 0;
    for (int d = 0; d < buffer.ndim; ++d) {
      sizes.push_back(buffer.shape[d]);
      strides.push_back(buffer.strides[d]);
    }
    PyBuffer_Release(&buffer);
    return true;
  }
};

// An array of NumPy's, or of a class made of it. Its numbers are none, though they are buffers:
// their memory may not be written to.
bool is_array(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  while (type && std::strcmp(type->tp_name, "numpy.ndarray") != 0) type = type->tp_base;
  return type;
}

// A tensor over an array of a dtype that tensors have, or nothing.
Tensor over_array(PyObject* array, bool* read_only = nullptr) {
  Description description;
  if (!description.ask(array)) {
    PyErr_Clear();
    return {};
  }
  const auto dtype = dtype_of_format(description.format, description.item_size);
  if (!dtype) return {};
  if (read_only) *read_only = description.read_only;
  return over(array, description.data, description.sizes, description.strides, *dtype);
}

// from_numpy(array)
PyObject* from_numpy(PyObject*, PyObject* array) {
  return guarded([&]() -> PyObject* {
    CHECK(is_array(array) || PyObject_HasAttrString(array, "__array_interface__"), TypeError,
          "expected np.ndarray (got {})", Py_TYPE(array)->tp_name);
    bool read_only = false;
    const Tensor tensor = is_array(array) ? over_array(array, &read_only) : Tensor();
    static std::atomic<bool> told{false};
    if (read_only) {
      warn_once(
          told,
          "The given NumPy array is not writable, and PyTorch does not support non-writable "
          "tensors. Writing to this tensor will result in undefined behavior. Copy the array, "
          "or make it writable, before converting it to a tensor.");
    }
    return wrap(tensor.defined() ? tensor : tensor_over_array(array));
  });
}

// What an array rests on: the memory of a tensor, as bytes, and a handle that keeps it alive.
struct MemoryObject {
  PyObject_HEAD Tensor tensor;
};

int memory_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  const Tensor& tensor = reinterpret_cast<MemoryObject*>(self)->tensor;
  const int64_t items = storage_extent(tensor.sizes(), tensor.strides());
  return PyBuffer_FillInfo(buffer, self, tensor.raw(),
                           items * static_cast<int64_t>(tensor.item_size()), 0, flags);
}

void free_memory(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<MemoryObject*>(self)->tensor.~Tensor();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* memory_of(const Tensor& tensor) {
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(memory_buffer)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(free_memory)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"flambeau._C._Memory", sizeof(MemoryObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)).release());
  }();
  Object object = check(type->tp_alloc(type, 0));
  lend_memory(tensor);
  new (&reinterpret_cast<MemoryObject*>(object.get())->tensor) Tensor(make_alias(tensor));
  return object.release();
}

// NumPy's class of arrays and its dtypes, asked for once.
struct Numpy {
  Object array, dtypes[dtype_count];
  Numpy() {
    Object module = check(PyImport_ImportModule("numpy"));
    array = check(PyObject_GetAttrString(module.get(), "ndarray"));
    for (const ArrayType& type : array_types) {
      dtypes[static_cast<int>(type.dtype)] =
          check(PyObject_CallMethod(module.get(), "dtype", "s", type.text));
    }
  }
};

// A stride in bytes. Along a dimension of size one it may be any number, which is not used.
int64_t bytes_apart(const Tensor& tensor, int64_t stride) {
  return static_cast<int64_t>(static_cast<uint64_t>(stride) * tensor.item_size());
}

// x.numpy(*, force=False): an array over the same memory, which it keeps alive.
PyObject* to_numpy(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"force", nullptr};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", const_cast<char**>(names), &force))
      return nullptr;
    CHECK(!is_wrapped(tensor_of(self)), RuntimeError,
          ".numpy() is not supported for tensor subclasses that have no values of their own.");
    CHECK(!tensor_of(self).is_sparse(), TypeError,
          "can't convert {} layout tensor to numpy. Use Tensor.to_dense() first.",
          layout_word(tensor_of(self).layout()));
    const Tensor tensor =
        force ? resolve(to(detach_alias(tensor_of(self)), Device())) : tensor_of(self);
    CHECK(has_array_type(tensor.dtype()), TypeError, "Got unsupported ScalarType {}",
          dtype_legacy_name(tensor.dtype()));
    CHECK(tensor.device().is_cpu(), TypeError,
          "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
          "host memory first.",
          to_text(tensor.device()));
    CHECK(!(tensor.requires_grad() && grad_enabled()), RuntimeError,
          "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    CHECK(!(tensor->pending & Pending::conj), RuntimeError,
          "Can't call numpy() on Tensor that has conjugate bit set. Use "
          "tensor.resolve_conj().numpy() instead.");
    CHECK(!(tensor->pending & Pending::neg), RuntimeError,
          "Can't call numpy() on Tensor that has negative bit set. Use "
          "tensor.resolve_neg().numpy() instead.");
    Dims strides;
    for (const int64_t stride : tensor.strides()) strides.push_back(bytes_apart(tensor, stride));
    Object shape = check(wrap_ints(tensor.sizes())), steps = check(wrap_ints(strides));
    static const Numpy* numpy = new Numpy;
    PyObject* dtype = numpy->dtypes[static_cast<int>(tensor.dtype())].get();
    if (tensor.numel() == 0)
      return PyObject_CallFunctionObjArgs(numpy->array.get(), shape.get(), dtype, nullptr);
    Object memory = check(memory_of(tensor)), offset = check(PyLong_FromLong(0));
    return PyObject_CallFunctionObjArgs(numpy->array.get(), shape.get(), dtype, memory.get(),
                                        offset.get(), steps.get(), nullptr);
  });
}

PyObject* frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
    PyObject *object = nullptr, *type = nullptr;
    Py_ssize_t count = -1, offset = 0;
    int requires_grad = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Onnp:frombuffer", const_cast<char**>(names),
                                     &object, &type, &count, &offset, &requires_grad))
      return nullptr;
    CHECK(type && is_dtype(type), TypeError,
          "frombuffer() missing 1 required keyword argument: 'dtype'");
    CHECK(PyObject_CheckBuffer(object), ValueError,
          "object does not implement Python buffer protocol.");
    const DType dtype = dtype_of_object(type);
    Tensor tensor = tensor_over_buffer(object, dtype, count, offset);
    if (requires_grad) set_requires_grad(tensor, true);
    return wrap(std::move(tensor));
  });
}

PyObject* list_of(const Tensor& tensor, int64_t depth, const char* at) {
  if (depth == tensor.dim()) {
    Scalar scalar;
    dispatch<dtypes::AllStored>("tolist", tensor.dtype(), [&](auto tag) {
      scalar = Scalar(*reinterpret_cast<const typename decltype(tag)::type*>(at));
    });
    return wrap_scalar(scalar);
  }
  const int64_t n = tensor->sizes[depth], step = bytes_apart(tensor, tensor->strides[depth]);
  Object list = check(PyList_New(n));
  for (int64_t i = 0; i < n; ++i)
    PyList_SET_ITEM(list.get(), i,
                    check(list_of(tensor, depth + 1, at ? at + i * step : at)).release());
  return list.release();
}

PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const NoGrad off;
    check_has_storage(tensor_of(self));
    CHECK(!tensor_of(self).device().is_meta(), NotImplementedError,
          "tolist: Cannot copy out of meta tensor; no data!");
    const Tensor tensor = to(resolve(tensor_of(self)), Device());
    const bool any = tensor.numel() > 0;  // where there is none, it may lie anywhere
    return list_of(tensor, 0, any ? static_cast<const char*>(tensor.raw()) : nullptr);
  });
}

// Gives all tensors over a storage the memory of another tensor, which gets theirs; False where the
// memory is not the storage's own, and others may know its address.
PyObject* exchange_memory(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *first = nullptr, *second = nullptr;
    if (!PyArg_ParseTuple(args, "OO:_exchange_memory", &first, &second)) return nullptr;
    CHECK(is_tensor(first) && is_tensor(second), TypeError,
          "_exchange_memory(): expected two tensors");
    Storage &a = *tensor_of(first).storage(), &b = *tensor_of(second).storage();
    CHECK(a.bytes() == b.bytes() && a.device() == b.device(), RuntimeError,
          "_exchange_memory(): expected memory of the same size and device, got {} and {} bytes",
          a.bytes(), b.bytes());
    if (!a.resizable()) Py_RETURN_FALSE;
    a.swap_contents(b);
    Py_RETURN_TRUE;
  });
}

// Gives the storage under a tensor another size, for all tensors over it.
PyObject* storage_resize(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* object = nullptr;
    long long bytes = 0;
    if (!PyArg_ParseTuple(args, "OL:_storage_resize", &object, &bytes)) return nullptr;
    CHECK(is_tensor(object) && tensor_of(object).storage(), TypeError,
          "_storage_resize(): expected a dense tensor");
    CHECK(bytes >= 0, RuntimeError, "resize_: the size must not be negative, got {}", bytes);
    tensor_of(object).storage()->resize(static_cast<size_t>(bytes));
    Py_RETURN_NONE;
  });
}

// What tells one storage from another, its bytes, and whether it can have more of them.
PyObject* storage_facts(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(object) && !tensor_of(object).is_sparse(), TypeError,
          "_storage_facts(): expected a dense tensor");
    const StoragePtr& storage = tensor_of(object).storage();
    return Py_BuildValue("(KnO)", reinterpret_cast<unsigned long long>(storage.get()),
                         static_cast<Py_ssize_t>(storage->bytes()),
                         storage->resizable() ? Py_True : Py_False);
  });
}

// The same values, whose writes count, without history and without being a view.
PyObject* alias_of(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(object), TypeError, "_alias(): expected a tensor");
    return wrap(make_alias(tensor_of(object)));
  });
}

PyMethodDef methods[] = {
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists of Python numbers."},
    {"numpy", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(to_numpy)),
     METH_VARARGS | METH_KEYWORDS, "numpy(*, force=False)\n\nA NumPy array over the same memory."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef functions[] = {
    {"_alias", alias_of, METH_O, nullptr},
    {"_exchange_memory", exchange_memory, METH_VARARGS, nullptr},
    {"_storage_facts", storage_facts, METH_O, nullptr},
    {"_storage_resize", storage_resize, METH_VARARGS, nullptr},
    {"from_numpy", from_numpy, METH_O,
     "from_numpy(array)\n\nA tensor that shares the memory of a NumPy array."},
    {"frombuffer", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(frombuffer)),
     METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n\nA flat tensor over "
     "the memory of an object that exposes a buffer."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

DType dtype_of_buffer(PyObject* object) {
  Description description;
  if (!description.ask(object)) throw PythonError();
  const auto dtype = dtype_of_format(description.format, description.item_size);
  CHECK(dtype, ValueError,
        "asarray(): could not infer a dtype from buffer format '{}'. Please pass an explicit "
        "dtype=.",
        description.format);
  return *dtype;
}

Tensor tensor_over_buffer(PyObject* object, DType dtype, Py_ssize_t count, Py_ssize_t offset) {
  const auto item = static_cast<Py_ssize_t>(item_size(dtype));
  // Held until the last tensor over it is gone.
  struct Held {
    Py_buffer buffer{};
    ~Held() {
      const GilAcquire gil;
      PyBuffer_Release(&buffer);
    }
  };
  auto view = std::make_shared<Held>();
  if (PyObject_GetBuffer(object, &view->buffer, PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(object, &view->buffer, PyBUF_SIMPLE) < 0) throw PythonError();
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "The given buffer is not writable, and PyTorch does not support non-writable "
                     "tensors. Writing to this tensor is undefined; copy the buffer first.",
                     1) < 0)
      throw PythonError();
  }
  const Py_ssize_t bytes = view->buffer.len;
  CHECK(bytes > 0 && count != 0, ValueError, "both buffer length ({}) and count ({}) must not be 0",
        bytes, count);
  CHECK(offset >= 0 && offset < bytes, ValueError,
        "offset ({} bytes) must be non-negative and no greater than buffer length ({} bytes) "
        "minus 1",
        offset, bytes);
  CHECK(count > 0 || (bytes - offset) % item == 0, ValueError,
        "buffer length ({} bytes) after offset ({} bytes) must be a multiple of element size ({})",
        bytes - offset, offset, item);
  const Py_ssize_t n = count > 0 ? count : (bytes - offset) / item;
  CHECK(n <= (bytes - offset) / item, ValueError,
        "requested buffer length ({} * {} bytes) after offset ({} bytes) must not be greater "
        "than actual buffer length ({} bytes)",
        n, item, offset, bytes);
  char* start = static_cast<char*>(view->buffer.buf) + offset;
  StoragePtr storage = make_intrusive<Storage>(start, static_cast<size_t>(n * item), Device(),
                                               [view]() mutable { view.reset(); });
  return marked_if_misaligned(
      make_over(std::move(storage), static_cast<int64_t>(n), int64_t{1}, 0, dtype));
}

void lend_memory(const Tensor& tensor) {
  Storage& storage = *tensor.storage();
  if (!storage.resizable() || storage.bytes() == 0) return;
  // The memory goes to a storage of its own, which the tensor's keeps as memory from outside. The
  // address that the tensor's has never changes on the way: others may be reading it.
  const StoragePtr kept =
      make_intrusive<Storage>(size_t{0}, storage.device(), allocator(storage.device().type));
  Storage lent(storage.data(), storage.bytes(), storage.device(), [kept] {});
  if (storage.shared()) lent.mark_shared();
  storage.swap_contents(lent);
  kept->swap_contents(lent);
}

Tensor tensor_over_array(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object) || PyFloat_CheckExact(object) ||
      PyLong_CheckExact(object))
    return {};
  if (is_array(object)) {
    if (Tensor tensor = over_array(object); tensor.defined()) return tensor;
  }
  Object interface(PyObject_GetAttrString(object, "__array_interface__"));
  if (!interface || !PyDict_Check(interface.get())) {
    PyErr_Clear();
    return {};
  }
  const PyMappingMethods* items = Py_TYPE(object)->tp_as_mapping;
  if (!(items && items->mp_ass_subscript) && PyObject_HasAttrString(object, "__array__")) {
    // A NumPy scalar describes memory that dies with the description; its array owns some.
    Object array = check(PyObject_CallMethod(object, "__array__", nullptr));
    return tensor_over_array(array.get());
  }
  PyObject* type = PyDict_GetItemString(interface.get(), "typestr");
  PyObject* shape = PyDict_GetItemString(interface.get(), "shape");
  PyObject* strides = PyDict_GetItemString(interface.get(), "strides");
  PyObject* data = PyDict_GetItemString(interface.get(), "data");
  CHECK(type && PyUnicode_Check(type) && shape && PyTuple_Check(shape), TypeError,
        "the object's __array_interface__ lacks typestr or shape");
  const std::string type_text = text_of(type);
  CHECK(!type_text.starts_with('>'), ValueError,
        "given numpy array has byte order different from the native byte order. Conversion between "
        "byte orders is currently not supported.");
  const auto dtype = array_dtype(type_text.c_str());
  CHECK(dtype, TypeError,
        "can't convert np.ndarray of type {}. The only supported types are: float64, float32, "
        "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, "
        "and bool.",
        type_text);
  Dims sizes, steps;
  CHECK(ints_from(shape, sizes), TypeError, "the object's __array_interface__ has a bad shape");
  if (strides && PyTuple_Check(strides)) {
    CHECK(ints_from(strides, steps) && steps.size() == sizes.size(), TypeError,
          "the object's __array_interface__ has bad strides");
  } else {
    for (const int64_t stride : contiguous_strides(sizes))
      steps.push_back(stride * static_cast<int64_t>(item_size(*dtype)));
  }
  CHECK(data && PyTuple_Check(data) && PyTuple_GET_SIZE(data) > 0, TypeError,
        "the object's __array_interface__ has no data pointer");
  void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  if (PyErr_Occurred()) throw PythonError();
  return over(object, address, sizes, steps, *dtype);
}

bool add_methods(PyMethodDef* methods) {
  for (PyMethodDef* method = methods; method->ml_name; ++method) {
    Object descriptor(PyDescr_NewMethod(tensor_type, method));
    if (!descriptor ||
        PyDict_SetItemString(tensor_type->tp_dict, method->ml_name, descriptor.get()) < 0)
      return false;
  }
  PyType_Modified(tensor_type);
  return true;
}

bool add_interop(PyObject* module) {
  return add_methods(methods) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
