#include "flambeau/api/tensor_base.h"

#include "flambeau/api/indexing.h"
#include "flambeau/api/tensor_type.h"
#include "flambeau/autograd/assign.h"
#include "flambeau/autograd/engine.h"
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/index/subscript.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::torch {

IntSpan TensorBase::no_sizes() {
  static constexpr int64_t none = 0;
  return {&none, 1};
}

void TensorBase::refuse(const char* what) { fail<RuntimeError>("{}", what); }

bool TensorBase::is_non_overlapping_and_dense() const {
  return flambeau::is_non_overlapping_and_dense(sizes(), strides());
}
MemoryFormat TensorBase::suggest_memory_format(bool) const {
  return defined() ? suggest_format(*this) : MemoryFormat::Contiguous;
}

torch::Storage TensorBase::storage() const {
  CHECK(defined(), NotImplementedError, "Cannot access storage of UndefinedTensorImpl");
  return flambeau::Tensor::storage();
}

TensorOptions TensorBase::options() const {
  return TensorOptions(dtype()).device(device()).layout(layout());
}

bool TensorBase::is_pinned() const { return defined() && flambeau::is_pinned(*this); }

void* TensorBase::data_as(ScalarType type) const {
  CHECK(defined() && type == dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(type), torch::toString(dtype()));
  return raw();
}
void TensorBase::check_dims(size_t dims) const {
  CHECK(static_cast<int64_t>(dims) == dim(), RuntimeError,
        "TensorAccessor expected {} dims but tensor has {}", dims, dim());
}
void TensorBase::check_int_indices() const {
  CHECK(numel() <= INT32_MAX, RuntimeError,
        "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
}

bool TensorBase::is_leaf() const { return with_autograd(), flambeau::is_leaf(*this); }
NodePtr TensorBase::grad_fn() const { return with_autograd(), flambeau::grad_fn(*this); }
int64_t TensorBase::output_nr() const {
  with_autograd();
  const AutogradMeta* meta = maybe_meta(*this);
  return meta ? meta->output : 0;
}
void TensorBase::retain_grad() const {
  CHECK(requires_grad(), RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
  flambeau::retain_grad(*this);
}
bool TensorBase::retains_grad() const {
  const AutogradMeta* meta = defined() ? maybe_meta(*this) : nullptr;
  return meta && meta->retained_at;
}
void TensorBase::remove_hook(unsigned key) const {
  with_autograd();
  flambeau::remove_hook(*this, key);
}
void TensorBase::set_data(const flambeau::Tensor& source) const {
  CHECK(defined() && source.defined(), RuntimeError,
        "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
        "incompatible tensor type.");
  assign_data(*this, source);
}

namespace detail {

flambeau::Tensor convert(const TensorBase& tensor, const TensorOptions& options, bool copy,
                         std::optional<MemoryFormat> format) {
  static_cast<void>(tensor.device());
  if (options.has_layout() && options.layout() != tensor.layout()) {
    fail<RuntimeError>(
        "to(options) doesn't support converting to a different layout, but got self.layout being "
        "{} and options.layout set as {}",
        tensor.layout(), options.layout());
  }
  if (!format) format = options.memory_format_opt();
  return flambeau::to(tensor, options.get().device, options.get().dtype, false, copy, format);
}

Scalar item_of(const TensorBase& tensor) {
  CHECK(tensor.defined(), RuntimeError, "a Tensor with 0 elements cannot be converted to Scalar");
  return flambeau::item(tensor);
}

namespace {

Subscript subscript_of(const TensorBase& tensor, ArrayRef<TensorIndex> indices,
                       Subscript::Purpose purpose) {
  static_cast<void>(tensor.device());
  int64_t used = 0;
  for (const TensorIndex& index : indices) {
    CHECK(!index.is_tensor() || index.tensor().defined(), IndexError,
          "at least one index must be provided");
    if (index.is_tensor()) used += Subscript::uses(index.tensor());
    if (index.is_integer() || index.is_slice()) ++used;
  }
  Subscript result(tensor, used, static_cast<int64_t>(indices.size()), purpose);
  using Type = indexing::TensorIndexType;
  for (const TensorIndex& index : indices) {
    switch (index.type()) {
      case Type::None: result.add_none(); break;
      case Type::Ellipsis: result.add_ellipsis(); break;
      case Type::SymInt: result.add_integer(index.integer()); break;
      case Type::Boolean: result.add_bool(index.boolean()); break;
      case Type::Slice:
        result.add_slice(index.slice().start(), index.slice().stop(), index.slice().step());
        break;
      case Type::Tensor: result.add_tensor(index.tensor()); break;
    }
  }
  return result;
}

// What is written into a tensor, as one on its device.
flambeau::Tensor source_of(const TensorBase& tensor, const Operand& values) {
  if (!values.is_tensor()) return full({}, values.scalar(), options_of(tensor));
  const flambeau::Tensor& source = values.tensor();
  CHECK(source.defined(), RuntimeError, "index_put_: the values are an undefined tensor");
  const bool elsewhere = !(source.device() == tensor.device()) && source.numel() == 1;
  return elsewhere ? flambeau::to(source, tensor.device()) : source;
}

}  // namespace

flambeau::Tensor pick(const TensorBase& tensor, ArrayRef<TensorIndex> indices) {
  return subscript_of(tensor, indices, Subscript::Purpose::read).read();
}
void put(const TensorBase& tensor, ArrayRef<TensorIndex> indices, const Operand& values) {
  Subscript subscript = subscript_of(tensor, indices, Subscript::Purpose::write);
  if (!values.is_tensor() && !subscript.has_index()) return subscript.fill(values.scalar());
  const flambeau::Tensor source = source_of(tensor, values);
  if (!subscript.has_index() && !can_broadcast_to(source.sizes(), subscript.view().sizes()))
    static_cast<void>(flambeau::expand(source, subscript.view().sizes()));  // which says why not
  subscript.write(source);
}
flambeau::Tensor pick(const TensorBase& tensor, const ITensorListRef& indices) {
  static_cast<void>(tensor.device());
  return flambeau::index(tensor, indices.get());
}
void put(const TensorBase& tensor, const ITensorListRef& indices, const Operand& values,
         bool accumulate) {
  static_cast<void>(tensor.device());
  flambeau::index_put_(tensor, indices.get(), source_of(tensor, values), accumulate);
}

int64_t index_from(const Scalar& index) {
  CHECK(index.is_integral(), IndexError, "Can only index tensors with integral scalars");
  return index.to_int();
}
int64_t index_from(const TensorBase& index) {
  CHECK(index.defined(), IndexError, "Can only index with tensors that are defined");
  CHECK(index.dim() == 0, IndexError, "Can only index with tensors that are scalars (zero-dim)");
  return index_from(flambeau::item(index));
}

const flambeau::Tensor& gradient_of(const TensorBase& tensor) {
  tensor.with_autograd();
  const flambeau::Tensor& gradient = flambeau::grad(tensor);
  if (!gradient.defined() && !tensor.is_leaf() && !tensor.retains_grad()) {
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
        "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
        "instead.");
  }
  return gradient;
}
flambeau::Tensor& mutable_gradient_of(const TensorBase& tensor) {
  tensor.with_autograd();
  return autograd_meta(tensor).grad;
}
flambeau::Tensor pinned(const TensorBase& tensor) {
  static_cast<void>(tensor.device());
  return flambeau::pin_memory(tensor);
}
flambeau::Tensor base_of(const TensorBase& tensor) {
  CHECK(tensor.is_view(), RuntimeError, "Can't get base of non-view Variable");
  return flambeau::Tensor(tensor->view_base);
}
flambeau::Tensor without_history(const TensorBase& tensor, bool shares_version) {
  CHECK(tensor.defined(), RuntimeError, "cannot call {}() on undefined tensor",
        shares_version ? "tensor_data" : "variable_data");
  flambeau::Tensor result = detach_alias(tensor);
  if (!shares_version) result->version = nullptr;
  return result;
}
void want_gradient(const TensorBase& tensor, bool wants) {
  tensor.with_autograd();
  set_requires_grad(tensor, wants);
}
unsigned add_hook(const TensorBase& tensor,
                  std::function<flambeau::Tensor(const flambeau::Tensor&)> hook) {
  CHECK(tensor.requires_grad(), RuntimeError,
        "cannot register a hook on a variable that doesn't require gradient");
  return static_cast<unsigned>(flambeau::add_hook(tensor, std::move(hook)));
}

void zero_gradient(const flambeau::Tensor& tensor, bool set_to_none) {
  const flambeau::Tensor gradient = flambeau::grad(tensor);
  if (!gradient.defined()) return;
  if (set_to_none) return assign_grad(tensor, {});
  set_requires_grad(gradient, false);
  zero_(gradient);
}

std::vector<flambeau::Tensor> run_backward(const std::vector<flambeau::Tensor>& outputs,
                                           const std::vector<flambeau::Tensor>& grads,
                                           const std::vector<flambeau::Tensor>* inputs,
                                           std::optional<bool> retain_graph, bool create_graph,
                                           bool accumulate, bool allow_unused) {
  CHECK(grads.empty() || grads.size() == outputs.size(), RuntimeError,
        "got {} tensors and {} gradients", outputs.size(), grads.size());
  CHECK(!inputs || !accumulate || !inputs->empty(), RuntimeError,
        "'inputs' argument to backward cannot be empty");
  std::vector<Edge> roots, wanted;
  std::vector<flambeau::Tensor> root_grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const flambeau::Tensor& output = outputs[i];
    CHECK(output.defined() && output.requires_grad(), RuntimeError,
          "element {} of tensors does not require grad and does not have a grad_fn", i);
    const flambeau::Tensor grad = grads.empty() ? flambeau::Tensor() : grads[i];
    CHECK(grad.defined() || output.numel() == 1, RuntimeError,
          "grad can be implicitly created only for scalar outputs");
    CHECK(!grad.defined() || grad.sizes() == output.sizes(), RuntimeError,
          "Mismatch in shape: grad_output[{}] has a shape of {} and output[{}] has a shape of {}.",
          i, grad.sizes(), i, output.sizes());
    roots.push_back(gradient_edge(output));
    root_grads.push_back(grad.defined() ? grad : ones_like(output));
  }
  for (size_t i = 0; inputs && i < inputs->size(); ++i) {
    const flambeau::Tensor& input = (*inputs)[i];
    CHECK(input.defined() && input.requires_grad(), RuntimeError,
          "One of the differentiated Tensors does not require grad");
    wanted.push_back(gradient_edge(input));
  }
  BackwardOptions options;
  options.keep_graph = retain_graph.value_or(create_graph);
  options.create_graph = create_graph;
  options.accumulate = accumulate;
  options.allow_unused = allow_unused;
  return flambeau::run_backward(roots, std::move(root_grads), wanted, options);
}

}  // namespace detail

namespace indexing {

Slice::Slice(std::optional<int64_t> start, std::optional<int64_t> stop, std::optional<int64_t> step)
    : step_(step.value_or(1)) {
  CHECK(step_ != 0, ValueError, "slice step cannot be zero");
  constexpr int64_t least = -(int64_t{1} << 62), most = -(least + 1);
  start_ = start.value_or(step_ < 0 ? most : 0);
  stop_ = stop.value_or(step_ < 0 ? least : most);
}

}  // namespace indexing

TensorIndex::TensorIndex(const char* text) : type_(Type::Ellipsis) {
  CHECK(std::string_view(text) == "...", ValueError,
        "Expected \"...\" to represent an ellipsis index, but got \"{}\"", text);
}

}  // namespace flambeau::torch
