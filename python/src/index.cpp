// Subscripts: x[key] and x[key] = value for every key that Python allows. Integers, slices, None
// and Ellipsis are views; masks and index tensors go to one index op.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"
#include "python/src/binding.h"

namespace flambeau::python {
namespace {

// The view part of a key is applied as it is read; index tensors are collected by dimension.
struct Applied {
  Tensor view;
  std::vector<Tensor> indices;  // in the order of dimensions; undefined where there is none
  bool any_index = false;
  int64_t covered = 0;  // dimensions of `view` that `indices` speak of: a mask, of several
};

bool is_mask(const Tensor& index) {
  return index.dtype() == DType::bool_ || index.dtype() == DType::uint8;
}

// Dimensions of the tensor that one item of a key uses up.
int64_t uses(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  if (is_tensor(item)) {
    const Tensor& tensor = tensor_of(item);
    return is_mask(tensor) ? tensor.dim() : 1;
  }
  return 1;
}

Tensor tensor_from_sequence(PyObject* object, Device device) {
  Object data = check(tensor_from_data(object, std::nullopt, device));
  Tensor tensor = tensor_of(data.get());
  if (tensor.numel() == 0 && tensor.is_floating()) tensor = to(tensor, DType::int64);
  return tensor;
}

int64_t slice_part(PyObject* part, int64_t otherwise, const char* what) {
  if (part == Py_None) return otherwise;
  CHECK(PyIndex_Check(part), TypeError,
        "slice indices must be integers or None or have an __index__ method ({})", what);
  Object number = check(PyNumber_Index(part));
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  return overflow ? (overflow > 0 ? INT64_MAX : INT64_MIN) : value;
}

// A slice of everything is the tensor itself, unless a view of it is asked for.
Tensor apply_slice(const Tensor& tensor, int64_t dim, PyObject* object, bool makes_view) {
  auto* key = reinterpret_cast<PySliceObject*>(object);
  const int64_t step = slice_part(key->step, 1, "step");
  CHECK(step != 0, ValueError, "slice step cannot be zero");
  CHECK(step > 0, ValueError, "step must be greater than zero");
  const int64_t start = slice_part(key->start, 0, "start");
  const int64_t stop = slice_part(key->stop, INT64_MAX, "stop");
  if (!makes_view && start == 0 && step == 1 && dim < tensor.dim() && stop >= tensor->sizes[dim]) {
    return tensor;
  }
  return slice(tensor, dim, start, stop, step);
}

void add_index(Applied& result, int64_t dim, Tensor index) {
  for (; result.covered < dim; ++result.covered) result.indices.emplace_back();
  result.covered += is_mask(index) ? index.dim() : 1;
  result.indices.push_back(std::move(index));
  result.any_index = true;
}

// A bool on its own adds a dimension of size one and keeps all or nothing of it.
void apply_bool(Applied& result, int64_t& dim, bool keep) {
  result.view = unsqueeze(result.view, dim);
  Options options;
  options.dtype = DType::int64;
  options.device = result.view.device();
  add_index(result, dim, keep ? zeros(1, options) : empty(0, options));
  ++dim;
}

void apply_tensor(Applied& result, int64_t& dim, const Tensor& index) {
  if (index.dtype() == DType::uint8) [[unlikely]]
    warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
        "instead.");
  const bool mask = is_mask(index);
  if (index.dim() == 0 && !mask) {
    CHECK(is_integral(index.dtype()), IndexError,
          "tensors used as indices must be long, int, byte or bool tensors, got {}", index.dtype());
    if (!index.device().is_meta()) {
      result.view = select(result.view, dim, item(index).to_int());
      return;
    }
  }
  if (index.dim() == 0) return apply_bool(result, dim, item(index).to<bool>());
  add_index(result, dim, resolve(index));
  dim += mask ? index.dim() : 1;
}

int64_t index_from(PyObject* key) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(key, &overflow);
  CHECK(overflow == 0, ValueError, "Overflow when unpacking long long");
  return number;
}

// What is read through a slice alone is a view; what is written through one of everything is self.
enum class Purpose { read, write };

Applied apply_key(const Tensor& self, PyObject* const* items, Py_ssize_t n, Purpose purpose) {
  int64_t used = 0;
  for (Py_ssize_t i = 0; i < n; ++i) used += uses(items[i]);
  CHECK(used <= self.dim(), IndexError, "too many indices for tensor of dimension {}", self.dim());
  Applied result{self, {}, false};
  int64_t dim = 0;   // of result.view
  int64_t from = 0;  // of self
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = items[i];
    int64_t number = 0;
    const int64_t source = from;
    from += key == Py_Ellipsis ? self.dim() - used : uses(key);
    if (PySlice_Check(key)) {
      result.view = apply_slice(result.view, dim++, key, n == 1 && purpose == Purpose::read);
    } else if (key == Py_None) {
      result.view = unsqueeze(result.view, dim++);
    } else if (key == Py_Ellipsis) {
      dim += self.dim() - used;
    } else if (PyBool_Check(key)) {
      apply_bool(result, dim, key == Py_True);
    } else if (is_tensor(key)) {
      apply_tensor(result, dim, tensor_of(key));
    } else if (PyLong_CheckExact(key) || int_from(key, number)) {
      if (PyLong_CheckExact(key)) number = index_from(key);
      // Past a second ellipsis there are no dimensions left.
      const int64_t size = source < self.dim() ? self->sizes[source] : 0;
      CHECK(number >= -size && number < size, IndexError,
            "index {} is out of bounds for dimension {} with size {}", number, source, size);
      result.view = select(result.view, dim, number);
    } else if (PySequence_Check(key) && !PyUnicode_Check(key)) {
      apply_tensor(result, dim, tensor_from_sequence(key, self.device()));
    } else if (PyUnicode_Check(key) || PyDict_Check(key)) {
      fail<TypeError>("new(): invalid data type '{}'", Py_TYPE(key)->tp_name);
    } else {
      fail<IndexError>(
          "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
          "valid "
          "indices (got {})",
          Py_TYPE(key)->tp_name);
    }
  }
  return result;
}

// As in older NumPy, a short list that holds sequences, slices, tensors or None stands for a tuple:
// x[[[0, 2], [1, 1]]] is x[[0, 2], [1, 1]].
bool stands_for_tuple(PyObject* key) {
  constexpr Py_ssize_t longest = 32;
  if (!PyList_Check(key) || PyList_GET_SIZE(key) >= longest) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); ++i) {
    PyObject* item = PyList_GET_ITEM(key, i);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
        (PySequence_Check(item) && !PyUnicode_Check(item))) {
      return true;
    }
  }
  return false;
}

Applied apply_key(const Tensor& self, PyObject* key, Purpose purpose) {
  if (stands_for_tuple(key)) {
    const Object items = check(PyList_AsTuple(key));  // reading a number may change the list
    return apply_key(self, items.get(), purpose);
  }
  if (PyTuple_Check(key)) {
    return apply_key(self, PySequence_Fast_ITEMS(key), PyTuple_GET_SIZE(key), purpose);
  }
  return apply_key(self, &key, 1, purpose);
}

// A mask that comes first is compared with what it picks from before anything else.
void check_first_mask(const Applied& applied) {
  const auto found = std::ranges::find_if(applied.indices, &Tensor::defined);
  if (found == applied.indices.end() || !is_mask(*found)) return;
  int64_t dim = found - applied.indices.begin();
  for (int64_t d = 0; d < found->dim(); ++d, ++dim) {
    CHECK(dim < applied.view.dim() && (*found)->sizes[d] == applied.view->sizes[dim], IndexError,
          "The shape of the mask {} at index {} does not match the shape of the indexed tensor "
          "{} at index {}",
          found->sizes(), d, applied.view.sizes(), dim);
  }
}

// What stands right of the equals sign, as a tensor of the target's dtype. A number may be
// `checked` whether it fits.
Tensor value_tensor(const Tensor& target, PyObject* value, bool masked = false,
                    bool checked = true) {
  if (is_tensor(value)) {
    const Tensor& tensor = tensor_of(value);
    return tensor.device() == target.device() || tensor.numel() != 1 ? tensor
                                                                     : to(tensor, target.device());
  }
  Scalar number;
  Options options = options_of(target);
  if (scalar_from(value, number)) {
    // Where a mask is filled, any number counts as a bool.
    if (masked && target.dtype() == DType::bool_) number = Scalar(!(number == Scalar(0)));
    if (checked) return full({}, number, options);
    const NoGrad off;
    return fill_(empty({}, options), number);
  }
  if (PySequence_Check(value) && !PyUnicode_Check(value)) {
    Object data = check(tensor_from_data(value, target.dtype(), target.device()));
    return tensor_of(data.get());
  }
  fail<TypeError>("can't assign a {} to a {} tensor", Py_TYPE(value)->tp_name, target.dtype());
}

// PyTorch drops leading ones of the value so that x[0] = tensor of shape [1, 3] works.
Tensor without_leading_ones(const Tensor& value) {
  int64_t extra = 0;
  while (extra < value.dim() && value->sizes[extra] == 1) ++extra;
  return extra ? view(value, value.sizes().from(extra)) : value;
}

void assign(const Tensor& target, const Tensor& value) {
  if (value.dim() == 0 && target.dim() > 0 && !(target->pending & Pending::resolvable)) {
    CHECK(!value.is_sparse() || is_wrapped(value), NotImplementedError, "{}",
          sparse_refusal("fill_", value));
    fill_(target, value);
    return;
  }
  Tensor source = value.sizes() == target.sizes() ? value : without_leading_ones(value);
  // Whether they overlap is told by strides, also those along dimensions of size one.
  if (source.storage() == target.storage() && !(value.sizes() == target.sizes())) {
    source = view(source, source.sizes());
  }
  CHECK(can_broadcast_to(source.sizes(), target.sizes()), RuntimeError,
        "The expanded size of the tensor must match the existing size: shape mismatch: value "
        "tensor of shape {} cannot "
        "be broadcast to indexing result of shape {}",
        value.sizes(), target.sizes());
  copy_(target, source.sizes() == target.sizes() ? source : expand(source, target.sizes()));
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  if (overridden(self) || (is_tensor(key) && class_overrides(key))) [[unlikely]] {
    return guarded([&] {
      Object method =
          check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__getitem__"));
      PyObject* const args[] = {self, key};
      return call_override(method.get(), args, 2, nullptr);
    });
  }
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (tensor.is_sparse() && !is_wrapped(tensor)) [[unlikely]] {
      PyObject* const args[] = {self, key};
      return call_sparse("__getitem__", args, 2);
    }
    if (PyLong_CheckExact(key)) {  // the common x[i]
      const int64_t index = index_from(key);
      CHECK(tensor.dim() > 0, IndexError,
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a "
            "0-dim tensor to a number");
      const int64_t size = tensor->sizes[0];
      CHECK(index >= -size && index < size, IndexError,
            "index {} is out of bounds for dimension 0 with size {}", index, size);
      return wrap(select(tensor, 0, index));
    }
    Applied applied = apply_key(tensor, key, Purpose::read);
    if (applied.any_index) {
      const GilRelease release(applied.view.numel() >= gil_threshold);
      current_op = "index";
      applied.view = index(resolve(applied.view), applied.indices);
    } else if (applied.view.is_same(tensor)) {
      applied.view = alias(tensor);  // x[...] is a new view, not x
    }
    return wrap(std::move(applied.view));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  if (overridden(self, value)) [[unlikely]] {
    return guarded_int([&] {
      Object method =
          check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__setitem__"));
      PyObject* const args[] = {self, key, value};
      check(call_override(method.get(), args, 3, nullptr));
      return 0;
    });
  }
  return guarded_int([&] {
    const Tensor& tensor = tensor_of(self);
    CHECK(!tensor.is_sparse() || is_wrapped(tensor), TypeError, "Cannot assign to a sparse tensor");
    if (key == Py_False) return 0;
    Applied applied = key == Py_True ? Applied{unsqueeze(tensor, 0), {}, false}
                                     : apply_key(tensor, key, Purpose::write);
    Scalar number;
    if (!applied.any_index && !is_tensor(value) && scalar_from(value, number)) {
      if (applied.view->pending & Pending::resolvable) [[unlikely]] {
        assign(applied.view, value_tensor(tensor, value));
        return 0;
      }
      fill_(applied.view, number);
      return 0;
    }
    const bool masked = std::ranges::all_of(applied.indices, [](const Tensor& index) {
      return !index.defined() || index.dtype() == DType::bool_;
    });
    if (!is_tensor(value)) check_first_mask(applied);
    // As PyTorch has it: a number that does not fit is refused at one tensor of indices, not at
    // two.
    const auto defined = [](const Tensor& index) { return index.defined(); };
    const bool single = std::ranges::count_if(applied.indices, defined) < 2;
    const Tensor source = value_tensor(tensor, value, masked, single);
    const GilRelease release(applied.view.numel() >= gil_threshold);
    if (applied.any_index) {
      const Tensor target = resolve(applied.view);
      current_op = "index_put_";
      const bool apart = !target.is_same(applied.view);
      if (apart) check_inplace("index_put_", applied.view, source.requires_grad());
      index_put_(target, applied.indices, without_leading_ones(resolve(source)), false);
      if (apart) copy_(applied.view, target);
    } else {
      assign(applied.view, source);
    }
    return 0;
  });
}

}  // namespace flambeau::python
