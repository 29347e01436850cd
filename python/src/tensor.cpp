// The Tensor type: the object of a C++ tensor, its life, its attributes, and the number, sequence
// and mapping protocols. Written on the C API because it is the hot path.
//
// Note [One object a tensor]
// A C++ tensor has at most one Python object. The object owns the tensor; the tensor knows the
// object. When the last Python reference goes while C++ still holds the tensor (a saved value, a
// gradient), an object without state simply goes, and a new one is made when needed. An object with
// state - attributes, a subclass, weak references - stays: ownership turns round, the tensor keeps
// the object until C++ lets go or Python asks for it again.
#include <algorithm>
#include <cstddef>

#include "flambeau/autograd/meta.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/tensor_parts.h"

namespace flambeau::python {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* parameter_type = nullptr;
thread_local int overrides_disabled = 0;

namespace {

PyTypeObject* tensor_meta = nullptr;

PyObject* allocate(PyTypeObject* type, Tensor tensor) {
  PyObject* self = nullptr;
  if (type == tensor_type) {
    self = reinterpret_cast<PyObject*>(PyObject_GC_New(PyTensor, type));
    if (!self) return nullptr;
    // Tracked by the collector only once it has attributes: see set_attribute.
    as_object(self)->dict = as_object(self)->weak_references = as_object(self)->backward_hooks =
        nullptr;
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
  return Py_TYPE(self) != tensor_type || object->dict || object->weak_references ||
         object->backward_hooks;
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

// Serves classes derived in Python too: what their own deallocator would do, and the resurrection.
// With one deallocator for all, an object can change between those that add no slots.
void tensor_dealloc(PyObject* self) {
  if (stays_with_tensor(self)) return;
  PyTypeObject* type = Py_TYPE(self);
  if (type == tensor_type) {
    PyTensor* object = as_object(self);
    if (!object->dict && !object->weak_references && !object->backward_hooks) {
      if (object->tensor.defined()) object->tensor->python = nullptr;
      object->tensor.~Tensor();
      PyObject_GC_Del(self);
      Py_DECREF(tensor_type);
      return;
    }
  }
  if (type->tp_finalize) {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;
  }
  for (PyTypeObject* base = type; base && base != tensor_type; base = base->tp_base) {
    auto* members = PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)
                        ? reinterpret_cast<PyHeapTypeObject*>(base)
                        : nullptr;
    if (!members || Py_SIZE(base) == 0) continue;
    // Values of __slots__.
    PyMemberDef* member =
        reinterpret_cast<PyMemberDef*>(reinterpret_cast<char*>(base) + Py_TYPE(base)->tp_basicsize);
    for (Py_ssize_t i = 0; i < Py_SIZE(base); ++i, ++member) {
      if (member->type != T_OBJECT_EX || (member->flags & READONLY)) continue;
      PyObject** place =
          reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member->offset);
      Py_CLEAR(*place);
    }
  }
  destroy_object(self);
}

// A tensor that C++ holds too can come back with all it had: what it refers to is not garbage.
bool is_held_elsewhere(PyObject* self) {
  const Tensor& tensor = tensor_of(self);
  return tensor.defined() && tensor.impl()->use_count() > 1;
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (is_held_elsewhere(self)) return 0;
  Py_VISIT(as_object(self)->dict);
  Py_VISIT(as_object(self)->backward_hooks);
  return visit_hooks(tensor_of(self), visit, arg);
}
int tensor_clear(PyObject* self) {
  if (is_held_elsewhere(self)) return 0;
  Py_CLEAR(as_object(self)->dict);
  Py_CLEAR(as_object(self)->backward_hooks);
  clear_hooks(tensor_of(self));
  return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  if (status == 0 && as_object(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return status;
}

int meta_init(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  type->tp_dealloc = tensor_dealloc;
  return prefer_dispatch(type) ? 0 : -1;
}

Py_hash_t tensor_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self));  // id(self), as in PyTorch
}

Py_ssize_t tensor_length(PyObject* self) {
  if (overridden(self)) [[unlikely]] {
    Object length(guarded([&] { return call_override_of("__len__", &self, 1); }));
    return length ? PyLong_AsSsize_t(length.get()) : -1;
  }
  const Tensor& tensor = tensor_of(self);
  if (tensor.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return tensor->sizes[0];
}

// --- Methods that are no ops ---------------------------------------------------------------------

PyObject* dim_or_all(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                     const char* name, bool strides) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (strides) check_strided("strides", tensor);
    const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    CHECK(nargs + keywords <= 1, TypeError, "{}() takes at most 1 argument ({} given)", name,
          nargs + keywords);
    CHECK(
        keywords == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "dim") == 0,
        TypeError, "{}() got an unexpected keyword argument '{}'", name,
        text_of(PyTuple_GET_ITEM(kwnames, 0)));
    if (nargs + keywords == 0 || args[0] == Py_None)
      return strides ? wrap_ints(tensor.strides()) : wrap_size(tensor.sizes());
    int64_t dim = 0;
    CHECK(int_from(args[0], dim), TypeError,
          "{}(): argument 'dim' (position 1) must be int, not {}", name, Py_TYPE(args[0])->tp_name);
    return PyLong_FromLongLong(strides ? tensor.stride(dim) : tensor.size(dim));
  });
}
PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return dim_or_all(self, args, nargs, kwnames, "size", false);
}
PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  return dim_or_all(self, args, nargs, kwnames, "stride", true);
}
PyObject* method_dim(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(tensor_of(self).dim());
}
PyObject* method_numel(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(tensor_of(self).numel());
}
PyObject* method_element_size(PyObject* self, PyObject*) {
  return PyLong_FromSize_t(tensor_of(self).item_size());
}
PyObject* method_storage_offset(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(tensor_of(self).offset());
}
PyObject* method_data_ptr(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (is_wrapped(tensor)) return PyLong_FromLong(0);
    check_has_storage(tensor);
    return PyLong_FromVoidPtr(tensor.numel() && tensor.storage()->data() ? tensor.raw() : nullptr);
  });
}
PyObject* method_is_floating_point(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self).is_floating());
}
PyObject* method_is_complex(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self).is_complex());
}
PyObject* method_is_inference(PyObject* self, PyObject*) {
  return PyBool_FromLong(tensor_of(self)->inference);
}
PyObject* method_is_view(PyObject* self, PyObject*) {
  return PyBool_FromLong(static_cast<bool>(tensor_of(self)->view_base));
}
PyObject* method_get_device(PyObject* self, PyObject*) {
  return PyLong_FromLong(tensor_of(self).device().is_cuda() ? tensor_of(self).device().index : -1);
}
PyObject* method_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                               PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    MemoryFormat format = MemoryFormat::contiguous;
    if (n > 0) {
      CHECK(Py_TYPE(args[0]) == memory_format_type, TypeError,
            "is_contiguous(): argument 'memory_format' must be torch.memory_format, not {}",
            Py_TYPE(args[0])->tp_name);
      format = static_cast<MemoryFormat>(reinterpret_cast<EnumObject*>(args[0])->value);
    }
    const Tensor& tensor = tensor_of(self);
    check_strided("is_contiguous", tensor);
    return PyBool_FromLong(tensor.is_contiguous(format));
  });
}
PyObject* method_requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t n = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    CHECK(n <= 1, TypeError, "requires_grad_() takes at most 1 argument, got {}", n);
    CHECK(n == 0 || PyBool_Check(args[0]), TypeError,
          "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {}",
          Py_TYPE(args[0])->tp_name);
    const bool wanted = n == 0 || args[0] == Py_True;
    CHECK(!wanted || is_differentiable(tensor_of(self).dtype()), RuntimeError,
          "only Tensors of floating point dtype can require gradients, got {}",
          tensor_of(self).dtype());
    set_requires_grad(tensor_of(self), wanted);
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|p:_make_subclass",
                                     const_cast<char**>(names), &PyType_Type, &cls, &data,
                                     &requires_grad))
      return nullptr;
    CHECK(is_tensor(data), TypeError,
          "_make_subclass(): argument 'data' (position 2) must be Tensor, not {}",
          Py_TYPE(data)->tp_name);
    CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type), TypeError,
          "_make_subclass(): cls must be a subclass of Tensor");
    Tensor tensor = make_alias(tensor_of(data));
    if (requires_grad) set_requires_grad(tensor, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(tensor));
  });
}
PyObject* method_set_parameter_type(PyObject*, PyObject* type) {
  return guarded([&]() -> PyObject* {
    CHECK(
        PyType_Check(type) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type),
        TypeError, "_set_parameter_type(): expected a subclass of Tensor");
    parameter_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    Py_RETURN_NONE;
  });
}

// The name of a method as a template argument.
template <size_t N>
struct Name {
  char text[N];
  consteval Name(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: a literal
};
template <Name name, PyCFunction function>
PyObject* overridable(PyObject* self, PyObject*) {
  if (overridden(self)) [[unlikely]]
    return guarded([&] { return call_override_of(name.text, &self, 1); });
  return function(self, nullptr);
}
template <Name name, auto function>
PyObject* overridable_fast(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames) {
  if (!overridden(self)) [[likely]]
    return function(self, args, nargs, kwnames);
  return guarded([&] {
    std::vector<PyObject*> all = {self};
    all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return call_override_of(name.text, all.data(), nargs + 1, kwnames);
  });
}
#define PLAIN(name, function) name, overridable<name, function>, METH_NOARGS
#define FAST(name, function)                                                                      \
  name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(overridable_fast<name, function>)), \
      METH_FASTCALL | METH_KEYWORDS
PyMethodDef methods[] = {
    {FAST("size", method_size), "The size of one dimension, or all sizes."},
    {FAST("stride", method_stride), "The stride of one dimension, or all strides."},
    {PLAIN("dim", method_dim), "The number of dimensions."},
    {PLAIN("ndimension", method_dim), "The number of dimensions."},
    {PLAIN("numel", method_numel), "The number of elements."},
    {PLAIN("nelement", method_numel), "The number of elements."},
    {PLAIN("element_size", method_element_size), "Bytes an element."},
    {PLAIN("storage_offset", method_storage_offset), "Where in its storage the first element is."},
    {PLAIN("data_ptr", method_data_ptr), "The address of the first element."},
    {PLAIN("const_data_ptr", method_data_ptr), "The address of the first element, to read from."},
    {PLAIN("is_floating_point", method_is_floating_point), nullptr},
    {PLAIN("is_complex", method_is_complex), nullptr},
    {PLAIN("is_inference", method_is_inference), nullptr},
    {FAST("is_contiguous", method_is_contiguous), nullptr},
    {PLAIN("_is_view", method_is_view), nullptr},
    {PLAIN("get_device", method_get_device), nullptr},
    {FAST("requires_grad_", method_requires_grad_), "Sets requires_grad and returns the tensor."},
    {PLAIN("retain_grad", method_retain_grad), "Asks for .grad although this is no leaf."},
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(make_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, nullptr},
    {"_set_parameter_type", method_set_parameter_type, METH_O | METH_STATIC, nullptr},
    {PLAIN("__complex__", tensor_complex), nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef dict_attribute = {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr,
                              nullptr};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

void give_up_python(void* object) {
  const GilAcquire gil;
  auto* self = static_cast<PyObject*>(object);
  if (Py_REFCNT(self) > 1) {
    // A weak reference has given the object to Python again, which owns the tensor as before.
    TensorImpl* impl = as_object(self)->tensor.impl();
    impl->owns_python = false;
    if (impl->use_count() == 0) impl->retain();
    Py_DECREF(self);
    return;
  }
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

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  mark_dispatched(type, tensor);
  return allocate(type, std::move(tensor));
}

bool add_tensor_type(PyObject* module) {
  release_python_object = give_up_python;
  PyType_Slot meta_slots[] = {{Py_tp_init, slot(meta_init)}, {0, nullptr}};
  PyType_Spec meta_spec{"torch._C._TensorMeta", 0, 0,
                        static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE),
                        meta_slots};
  Object meta_bases(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyType_Type)));
  tensor_meta =
      reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&meta_spec, meta_bases.get()));
  if (!tensor_meta) return false;
  std::vector<PyType_Slot> slots = number_slots();
  const PyType_Slot own[] = {{Py_tp_new, slot(new_tensor)},
                             {Py_tp_dealloc, slot(tensor_dealloc)},
                             {Py_tp_traverse, slot(tensor_traverse)},
                             {Py_tp_clear, slot(tensor_clear)},
                             {Py_tp_setattro, slot(set_attribute)},
                             {Py_tp_getset, tensor_attributes},
                             {Py_tp_methods, methods},
                             {Py_tp_members, members},
                             {Py_tp_hash, slot(tensor_hash)},
                             {Py_mp_length, slot(tensor_length)},
                             {Py_sq_length, slot(tensor_length)},
                             {Py_mp_subscript, slot(get_item)},
                             {Py_mp_ass_subscript, slot(set_item)},
                             {0, nullptr}};
  slots.insert(slots.end(), std::begin(own), std::end(own));
  PyType_Spec spec{
      "torch.Tensor", sizeof(PyTensor), 0,
      static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC),
      slots.data()};
  PyObject* made = PyType_FromSpec(&spec);
  if (!made) return false;
  tensor_type = reinterpret_cast<PyTypeObject*>(made);
  tensor_type->tp_name = "Tensor";  // what Python's own messages call it
  Object home(PyUnicode_FromString("torch"));
  if (!home || PyDict_SetItemString(tensor_type->tp_dict, "__module__", home.get()) < 0)
    return false;
  Py_SET_TYPE(made,
              reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(tensor_meta))));
  Object dict(PyDescr_NewGetSet(tensor_type, &dict_attribute));
  if (!dict || PyDict_SetItemString(tensor_type->tp_dict, "__dict__", dict.get()) < 0) return false;
  PyType_Modified(tensor_type);
  return PyModule_AddObjectRef(module, "Tensor", made) == 0 &&
         PyModule_AddObjectRef(module, "TensorBase", made) == 0;
}

}  // namespace flambeau::python
