// The attributes of tensors.
#include "flambeau/autograd/assign.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/tensor_parts.h"

namespace flambeau::python {
namespace {

// An attribute's closure is its name, which classes and modes that take it over are told.
#define GETTER(name, ...)                                                                     \
  PyObject* get_##name(PyObject* self, void* attribute) {                                     \
    return guarded([&]() -> PyObject* {                                                       \
      if (overridden(self)) [[unlikely]]                                                      \
        return call_override_of(static_cast<char*>(attribute), &self, 1, nullptr, "__get__"); \
      const Tensor& tensor [[maybe_unused]] = tensor_of(self);                                \
      __VA_ARGS__                                                                             \
    });                                                                                       \
  }
GETTER(shape, return wrap_size(tensor.sizes());)
GETTER(dtype, return wrap_dtype(tensor.dtype());)
GETTER(device, return wrap_device(tensor.device());)
GETTER(layout, return wrap_layout(tensor.layout());)
GETTER(requires_grad, return PyBool_FromLong(tensor.requires_grad());)
GETTER(is_leaf, return PyBool_FromLong(is_leaf(tensor));)
GETTER(ndim, return PyLong_FromLongLong(tensor.dim());)
GETTER(itemsize, return PyLong_FromSize_t(tensor.item_size());)
GETTER(nbytes, {
  CHECK(!tensor->parts, RuntimeError,
        "nbytes is not defined for sparse tensors: add those of the indices and of the values");
  return PyLong_FromLongLong(tensor.numel() * static_cast<int64_t>(tensor.item_size()));
})
GETTER(cdata, return PyLong_FromVoidPtr(tensor.impl());)
GETTER(version, CHECK(!tensor->inference || tensor->version, RuntimeError,
                      "Inference tensors do not track version counter.");
       return PyLong_FromUnsignedLong(tensor.version());)
GETTER(is_cuda, return PyBool_FromLong(tensor.device().is_cuda());)
GETTER(is_cpu, return PyBool_FromLong(tensor.device().is_cpu());)
GETTER(is_meta, return PyBool_FromLong(tensor.device().is_meta());)
GETTER(is_sparse, return PyBool_FromLong(is_coo(tensor));)
GETTER(is_sparse_csr, return PyBool_FromLong(tensor.layout() == Layout::sparse_csr);)
GETTER(never, Py_RETURN_FALSE;)
GETTER(output_nr, return PyLong_FromUnsignedLong(grad_fn(tensor) ? maybe_meta(tensor)->output : 0);)
GETTER(retains_grad, return PyBool_FromLong(maybe_meta(tensor) && maybe_meta(tensor)->retained_at);)
GETTER(base, return tensor->view_base ? wrap(Tensor(tensor->view_base)) : Py_NewRef(Py_None);)
GETTER(grad, {
  Tensor found = grad(tensor);
  const AutogradMeta* meta = maybe_meta(tensor);
  if (!found.defined() && meta && meta->grad_fn && !meta->retained_at) [[unlikely]] {
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you want it to be, call "
        ".retain_grad() on the tensor before; if a leaf was meant, access that one.");
  }
  return wrap(std::move(found));
})
GETTER(data, {
  Tensor plain = make_alias(tensor);
  plain->version = nullptr;  // .data is outside of what autograd watches
  return wrap(std::move(plain));
})
GETTER(grad_fn, return wrap_node(grad_fn(tensor));)
GETTER(T, {
  if (tensor->parts) [[unlikely]]
    return call_sparse("T", &self, 1);
  if (tensor.dim() != 2) {
    static std::atomic<bool> told{false};
    warn_once(told,
              "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
              "deprecated and it will throw an error in a future release. Consider `x.mT` to "
              "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
              "reverse the dimensions of a tensor.");
  }
  return wrap(numpy_T(tensor));
})
GETTER(mT, {
  if (tensor->parts) [[unlikely]]
    return call_sparse("mT", &self, 1);
  return wrap(flambeau::mT(tensor));
})
GETTER(H, {
  if (tensor->parts) [[unlikely]]
    return call_sparse("H", &self, 1);
  return wrap(matrix_H(tensor));
})
GETTER(mH, {
  if (tensor->parts) [[unlikely]]
    return call_sparse("mH", &self, 1);
  if (tensor.dim() == 0) return wrap(conj_view(tensor));
  CHECK(tensor.dim() >= 2, RuntimeError,
        "tensor.mH is only supported on matrices or batches of matrices. Got {}-D tensor.",
        tensor.dim());
  return wrap(conj_view(transpose(tensor, -2, -1)));
})
Tensor real_part(const Tensor& tensor) { return tensor.is_complex() ? real(tensor) : tensor; }
Tensor imaginary_part(const Tensor& tensor) {
  CHECK(tensor.is_complex(), TypeError,
        "imag is not implemented for tensors with non-complex dtypes.");
  return imag(tensor);
}
GETTER(real, return wrap(real_part(tensor));)
GETTER(imag, return wrap(imaginary_part(tensor));)
GETTER(name, Py_RETURN_NONE;)
GETTER(backward_hooks, {
  PyObject* hooks = as_object(self)->backward_hooks;
  return Py_NewRef(hooks ? hooks : Py_None);
})

#define SETTER(name, ...)                                                                    \
  int set_##name(PyObject* self, PyObject* value, void* attribute) {                         \
    return guarded_int([&]() -> int {                                                        \
      if (value && overridden(self, value)) [[unlikely]] {                                   \
        PyObject* const args[] = {self, value};                                              \
        check(call_override_of(static_cast<char*>(attribute), args, 2, nullptr, "__set__")); \
        return 0;                                                                            \
      }                                                                                      \
      const Tensor& tensor [[maybe_unused]] = tensor_of(self);                               \
      __VA_ARGS__                                                                            \
      return 0;                                                                              \
    });                                                                                      \
  }
SETTER(requires_grad, {
  CHECK(value && PyBool_Check(value), RuntimeError, "requires_grad must be a bool");
  CHECK(value != Py_True || is_differentiable(tensor.dtype()), RuntimeError,
        "only Tensors of floating point and complex dtype can require gradients, got {}",
        tensor.dtype());
  CHECK(is_leaf(tensor), RuntimeError,
        "you can only change requires_grad flags of leaf variables.{}",
        value == Py_True ? ""
                         : " If you want to use a computed variable in a subgraph that doesn't "
                           "require differentiation use var_no_grad = var.detach().");
  set_requires_grad(tensor, value == Py_True);
})
SETTER(grad, {
  if (!value || value == Py_None) {
    assign_grad(tensor, Tensor());
    return 0;
  }
  CHECK(is_tensor(value), TypeError,
        "assigned grad expected to be a Tensor or None but got grad of type {}",
        Py_TYPE(value)->tp_name);
  assign_grad(tensor, tensor_of(value));
})
GETTER(grad_dtype, {
  const std::optional<DType> dtype = grad_dtype(tensor);
  return dtype ? wrap_dtype(*dtype) : Py_NewRef(Py_None);
})
SETTER(grad_dtype, {
  CHECK(value && (value == Py_None || is_dtype(value)), RuntimeError,
        "grad_dtype must be a torch.dtype or None, but got {}",
        value ? Py_TYPE(value)->tp_name : "nothing");
  set_grad_dtype(tensor, value == Py_None ? std::nullopt : std::optional(dtype_of_object(value)));
})
SETTER(data, {
  CHECK(value, RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!");
  CHECK(is_tensor(value), TypeError, "Variable data has to be a tensor, but got {}",
        Py_TYPE(value)->tp_name);
  assign_data(tensor, tensor_of(value));
})
// Writes a tensor or a number into a view, as `view[...] = value` does.
void write_into(Tensor view, PyObject* value) {
  CHECK(value, RuntimeError, "the parts of a complex tensor can't be deleted");
  const Object target = check(wrap(std::move(view)));
  if (PyObject_SetItem(target.get(), Py_Ellipsis, value) < 0) throw PythonError();
}
SETTER(real, write_into(real_part(tensor), value);)
SETTER(imag, write_into(imaginary_part(tensor), value);)
SETTER(backward_hooks, {
  Py_XINCREF(value == Py_None ? nullptr : value);
  PyObject* old = as_object(self)->backward_hooks;
  as_object(self)->backward_hooks = value == Py_None ? nullptr : value;
  Py_XDECREF(old);
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
})

#define READ_ONLY(name, getter, doc) \
  { name, getter, nullptr, doc, const_cast<char*>(name) }
#define SETTABLE(name, getter, setter, doc) \
  { name, getter, setter, doc, const_cast<char*>(name) }

}  // namespace

PyGetSetDef tensor_attributes[] = {
    READ_ONLY("shape", get_shape, "The size of each dimension."),
    READ_ONLY("dtype", get_dtype, "The type of the elements."),
    READ_ONLY("device", get_device, "Where the elements are."),
    READ_ONLY("layout", get_layout, "How the elements are laid out."),
    SETTABLE("requires_grad", get_requires_grad, set_requires_grad,
             "Whether gradients are wanted."),
    READ_ONLY("is_leaf", get_is_leaf, "Whether no recorded op made this tensor."),
    SETTABLE("grad", get_grad, set_grad, "The gradient that backward() has accumulated."),
    READ_ONLY("grad_fn", get_grad_fn, "The node of the graph that made this tensor."),
    SETTABLE("grad_dtype", get_grad_dtype, set_grad_dtype,
             "The dtype that the gradient of this leaf has; None lets it have any."),
    SETTABLE("data", get_data, set_data, "The values, outside of what autograd watches."),
    READ_ONLY("ndim", get_ndim, "The number of dimensions."),
    READ_ONLY("itemsize", get_itemsize, "Bytes an element."),
    READ_ONLY("nbytes", get_nbytes, "Bytes of all elements."),
    READ_ONLY("T", get_T, "With its dimensions reversed."),
    READ_ONLY("mT", get_mT, "With its last two dimensions swapped."),
    READ_ONLY("H", get_H, "The conjugate transpose of a matrix."),
    READ_ONLY("mH", get_mH, "The conjugate transpose of each matrix."),
    SETTABLE("real", get_real, set_real, "The real parts."),
    SETTABLE("imag", get_imag, set_imag, "The imaginary parts."),
    READ_ONLY("is_cuda", get_is_cuda, nullptr),
    READ_ONLY("is_cpu", get_is_cpu, nullptr),
    READ_ONLY("is_meta", get_is_meta, nullptr),
    READ_ONLY("is_sparse", get_is_sparse, nullptr),
    READ_ONLY("is_sparse_csr", get_is_sparse_csr, nullptr),
    READ_ONLY("is_quantized", get_never, nullptr),
    READ_ONLY("is_mkldnn", get_never, nullptr),
    READ_ONLY("is_mps", get_never, nullptr),
    READ_ONLY("is_xpu", get_never, nullptr),
    READ_ONLY("is_nested", get_never, nullptr),
    READ_ONLY("output_nr", get_output_nr, nullptr),
    READ_ONLY("retains_grad", get_retains_grad, nullptr),
    READ_ONLY("_version", get_version, "How often the data has been overwritten."),
    READ_ONLY("_cdata", get_cdata, "Where the tensor itself is, apart from its data."),
    READ_ONLY("_base", get_base, "The tensor that this is a view of."),
    SETTABLE("_backward_hooks", get_backward_hooks, set_backward_hooks, nullptr),
    SETTABLE("_grad", get_grad, set_grad, nullptr),
    READ_ONLY("name", get_name, nullptr),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace flambeau::python
