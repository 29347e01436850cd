// DLPack: tensors exchanged with other libraries without copying, both ways, old and versioned
// capsules. The structs are the ABI that the standard fixes.
#include <cstring>

#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/shape/misaligned.h"
#include "python/src/interop.h"

namespace flambeau::python {
namespace {

struct DLDevice {
  int32_t type;  // 1 CPU, 2 CUDA, 3 pinned host memory
  int32_t index;
};
struct DLDataType {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLVersion {
  uint32_t major, minor;
};
struct DLManagedVersioned {
  DLVersion version;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;  // 1 read-only, 2 copied
  DLTensor tensor;
};

constexpr const char* plain_name = "dltensor";
constexpr const char* versioned_name = "dltensor_versioned";

DLDataType type_of(DType dtype) {
  uint8_t code = 0;
  if (dtype == DType::bool_) {
    code = 6;
  } else if (dtype == DType::bfloat16) {
    code = 4;
  } else if (dtypes::Float8.has(dtype)) {
    code = dtype == DType::float8_e4m3fn     ? 10
           : dtype == DType::float8_e4m3fnuz ? 11
           : dtype == DType::float8_e5m2     ? 12
           : dtype == DType::float8_e5m2fnuz ? 13
                                             : 14;
  } else if (is_floating(dtype)) {
    code = 2;
  } else if (is_complex(dtype)) {
    code = 5;
  } else {
    code = is_signed(dtype) ? 0 : 1;
  }
  return {code, static_cast<uint8_t>(item_size(dtype) * 8), 1};
}

DType dtype_from(const DLDataType& type) {
  for (int i = 0; i < dtype_count; ++i) {
    const DLDataType known = type_of(static_cast<DType>(i));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  }
  fail<ValueError>("from_dlpack: unsupported type code {} with {} bits and {} lanes",
                   static_cast<int>(type.code), static_cast<int>(type.bits),
                   static_cast<int>(type.lanes));
}

// What an exported capsule owns.
template <class Managed>
struct Export {
  Managed managed{};
  Tensor tensor;
  Dims shape, strides;
};

template <class Managed>
Managed* exported(const Tensor& tensor) {
  auto* owner = new Export<Managed>;
  lend_memory(tensor);
  owner->tensor = make_alias(tensor);  // the tensor itself may be given other memory
  owner->shape = tensor->sizes;
  owner->strides = tensor->strides;
  DLTensor& out = owner->managed.tensor;
  out.data = tensor.raw();
  out.device = {tensor.device().is_cuda() ? 2 : 1,
                tensor.device().is_cuda() ? tensor.device().index : 0};
  out.ndim = static_cast<int32_t>(tensor.dim());
  out.dtype = type_of(tensor.dtype());
  out.shape = owner->shape.data();
  out.strides = owner->strides.data();
  owner->managed.context = owner;
  owner->managed.deleter = [](Managed* managed) {
    delete static_cast<Export<Managed>*>(managed->context);
  };
  return &owner->managed;
}

template <class Managed>
void capsule_destructor(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // consumed
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter) managed->deleter(managed);
}

Object call_streams(const char* function, const char* format, auto... arguments) {
  Object streams = check(PyImport_ImportModule("flambeau.cuda.streams"));
  return check(PyObject_CallMethod(streams.get(), function, format, arguments...));
}

// Lets the stream that the consumer will read on wait for what this one is doing. On the CPU there
// is none to wait for.
void hand_over(const Tensor& tensor, PyObject* stream) {
  if (stream == Py_None) return;
  CHECK(PyLong_Check(stream), TypeError, "__dlpack__(): stream must be int or None, not {}",
        Py_TYPE(stream)->tp_name);
  const int64_t number = PyLong_AsLong(stream);
  if (PyErr_Occurred()) throw PythonError();
  if (number == -1) return;
  if (tensor.device().is_cuda()) {
    call_streams("_hand_over", "iO", tensor.device().index, stream);
  } else if (tensor.device().is_cpu()) {
    PyErr_SetString(PyExc_AssertionError, "__dlpack__(): stream should be None on cpu.");
    throw PythonError();
  }
}

// The device that dl_device=(kind, number) names.
Device device_named(PyObject* object) {
  int64_t kind = 0, index = 0;
  CHECK(PyTuple_Check(object), TypeError,
        "__dlpack__(): argument 'dl_device' must be tuple of ints, not {}",
        Py_TYPE(object)->tp_name);
  CHECK(PyTuple_GET_SIZE(object) == 2, RuntimeError,
        "__dlpack__(): dl_device must be either None or a tuple of two ints");
  CHECK(int_from(PyTuple_GET_ITEM(object, 0), kind) && int_from(PyTuple_GET_ITEM(object, 1), index),
        TypeError, "__dlpack__(): argument 'dl_device' must be tuple of ints, not {}",
        Py_TYPE(object)->tp_name);
  if (kind != 1 && kind != 2) {
    PyErr_Format(PyExc_BufferError, "__dlpack__(): Unsupported device_type: %lld",
                 static_cast<long long>(kind));
    throw PythonError();
  }
  CHECK(kind == 1 || (index >= 0 && index < 128), ValueError,
        "__dlpack__(): there is no CUDA device {}", index);
  return kind == 1 ? Device() : Device(DeviceType::cuda, static_cast<int>(index));
}

PyObject* dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OOO:__dlpack__", const_cast<char**>(names),
                                     &stream, &version, &device, &copy))
      return nullptr;
    Tensor tensor = tensor_of(self);
    hand_over(tensor, stream);
    const char* obstacle =
        tensor.requires_grad() ? "Can't export tensors that require gradient, use tensor.detach()"
        : tensor.device().is_meta() ? "Cannot pack tensors on meta: they have no data"
        : tensor.is_sparse()        ? "Can't export tensors with layout other than torch.strided"
        : tensor->pending & ~misaligned ? "Can't export tensors with the conjugate bit set"
                                        : nullptr;
    if (obstacle) {
      PyErr_SetString(PyExc_BufferError, obstacle);
      return nullptr;
    }
    const Device target = device == Py_None ? tensor.device() : device_named(device);
    const bool moves = target != tensor.device();
    CHECK(!moves || copy != Py_False, ValueError,
          "__dlpack__(): cannot move (i.e. copy=False) tensor from {} to {} without copying",
          tensor.device(), target);
    if (moves) tensor = to(tensor, target);
    if (copy == Py_True && !moves) tensor = clone(tensor);
    int64_t major = 0;
    if (PyTuple_Check(version) && PyTuple_GET_SIZE(version) > 0) {
      CHECK(int_from(PyTuple_GET_ITEM(version, 0), major), TypeError,
            "__dlpack__(): argument 'max_version' must be a tuple of ints");
    }
    const bool versioned = major >= 1;
    if (!versioned)
      return PyCapsule_New(exported<DLManaged>(tensor), plain_name,
                           [](PyObject* c) { capsule_destructor<DLManaged>(c, plain_name); });
    auto* managed = exported<DLManagedVersioned>(tensor);
    managed->version = {1, 0};
    managed->flags = copy == Py_True || moves ? 2 : 0;
    return PyCapsule_New(managed, versioned_name, [](PyObject* c) {
      capsule_destructor<DLManagedVersioned>(c, versioned_name);
    });
  });
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Device device = tensor_of(self).device();
    const Object module = check(PyImport_ImportModule("flambeau.utils.dlpack"));
    const Object type =
        check(PyObject_CallMethod(module.get(), "DLDeviceType", "i", device.is_cuda() ? 2 : 1));
    return Py_BuildValue("(Oi)", type.get(), device.is_cuda() ? device.index : 0);
  });
}

template <class Managed>
Tensor imported(Managed* managed) {
  const DLTensor& in = managed->tensor;
  // From here on the memory is ours to release, also when it turns out to be of no use.
  struct Owner {
    Managed* managed;
    explicit Owner(Managed* m) : managed(m) {}
    Owner(Owner&& other) noexcept : managed(std::exchange(other.managed, nullptr)) {}
    ~Owner() {
      if (managed && managed->deleter) managed->deleter(managed);
    }
    void operator()() {
      const GilAcquire gil;  // the producer may be Python
      if (managed->deleter) managed->deleter(managed);
      managed = nullptr;
    }
  } owner(managed);
  const DType dtype = dtype_from(in.dtype);
  CHECK(in.device.type >= 1 && in.device.type <= 3, ValueError,
        "from_dlpack: unsupported device type {}", in.device.type);
  const Device device = in.device.type == 2 ? Device(DeviceType::cuda, in.device.index) : Device();
  CHECK(in.ndim >= 0 && in.ndim <= 64, ValueError, "from_dlpack: {} dimensions", in.ndim);
  const Dims shape(in.shape, in.shape + in.ndim);
  checked_numel(shape);
  const Dims strides =
      in.strides ? Dims(in.strides, in.strides + in.ndim) : contiguous_strides(shape);
  for (const int64_t stride : strides)
    CHECK(stride >= 0, ValueError, "from_dlpack: negative strides are not supported, got {}",
          strides);
  const size_t bytes = static_cast<size_t>(storage_extent(shape, strides)) * item_size(dtype);
  StoragePtr storage = make_intrusive<Storage>(static_cast<char*>(in.data) + in.byte_offset, bytes,
                                               device, std::move(owner));
  return marked_if_misaligned(make_over(std::move(storage), shape, strides, 0, dtype));
}

[[noreturn]] void fail_invalid_capsule() {
  fail<RuntimeError>(
      "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
      "once, so you might have already constructed a tensor from it once.");
}

Object request_capsule(PyObject* object) {
  if (!PyObject_HasAttrString(object, "__dlpack__")) fail_invalid_capsule();
  Object method = check(PyObject_GetAttrString(object, "__dlpack__"));
  Object none = check(PyTuple_New(0)), kwargs = check(PyDict_New());
  if (PyObject_HasAttrString(object, "__dlpack_device__")) {
    Object place = check(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
    int kind = 0, index = 0;
    if (!PyArg_ParseTuple(place.get(), "ii:__dlpack_device__", &kind, &index)) throw PythonError();
    if (kind == 2) {
      Object stream = call_streams("_reading_stream", "i", index);
      if (PyDict_SetItemString(kwargs.get(), "stream", stream.get())) throw PythonError();
    }
  }
  Object versioned = check(PyDict_Copy(kwargs.get()));
  Object version = check(Py_BuildValue("(ii)", 1, 0));
  if (PyDict_SetItemString(versioned.get(), "max_version", version.get())) throw PythonError();
  PyObject* capsule = PyObject_Call(method.get(), none.get(), versioned.get());
  if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return check(capsule);
  PyErr_Clear();  // a producer of before versions
  return check(PyObject_Call(method.get(), none.get(), kwargs.get()));
}

PyObject* from_dlpack(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"ext_tensor", "device", "copy", nullptr};
    PyObject *object = nullptr, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", const_cast<char**>(names),
                                     &object, &device, &copy))
      return nullptr;
    Object capsule =
        PyCapsule_CheckExact(object) ? Object::borrow(object) : request_capsule(object);
    Tensor tensor;
    if (PyCapsule_IsValid(capsule.get(), versioned_name)) {
      auto* managed =
          static_cast<DLManagedVersioned*>(PyCapsule_GetPointer(capsule.get(), versioned_name));
      CHECK(managed->version.major <= 1, ValueError,
            "from_dlpack: unsupported DLPack version {}.{}", managed->version.major,
            managed->version.minor);
      PyCapsule_SetName(capsule.get(), "used_dltensor_versioned");
      tensor = imported(managed);
    } else if (PyCapsule_IsValid(capsule.get(), plain_name)) {
      auto* managed = static_cast<DLManaged*>(PyCapsule_GetPointer(capsule.get(), plain_name));
      PyCapsule_SetName(capsule.get(), "used_dltensor");
      tensor = imported(managed);
    } else {
      fail_invalid_capsule();
    }
    Device target;
    if (device != Py_None)
      CHECK(device_from(device, target), TypeError,
            "from_dlpack(): argument 'device' must be torch.device");
    if (copy == Py_True) tensor = clone(tensor);
    return wrap(device == Py_None ? tensor : to(tensor, target));
  });
}

PyObject* to_dlpack(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    CHECK(is_tensor(tensor), TypeError, "to_dlpack: expected a Tensor, not {}",
          Py_TYPE(tensor)->tp_name);
    return check(PyObject_CallMethod(tensor, "__dlpack__", nullptr)).release();
  });
}

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(dlpack)),
     METH_VARARGS | METH_KEYWORDS, "A DLPack capsule over this tensor's memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "(device type, device index) as DLPack numbers them."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef functions[] = {
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(from_dlpack)),
     METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(ext_tensor, *, device=None, copy=None)\n\nA tensor over the memory of any object "
     "that speaks DLPack."},
    {"_to_dlpack", to_dlpack, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* from_dlpack_object(PyObject* object) {
  Object args = check(PyTuple_Pack(1, object));
  return from_dlpack(nullptr, args.get(), nullptr);
}

bool add_dlpack(PyObject* module) {
  return add_methods(methods) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
