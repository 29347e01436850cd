// Tensors that change their own geometry: transpose_ and the like, resize_, set_, detach_.
#include "flambeau/ops/creation/known_contents.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/misaligned.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

// Makes self look like the view that `take` takes of it. As an op without a kernel: the history of
// a tensor gets one more step, and a view of a base becomes another view of it.
template <class Take, class Undo>
Tensor become(const char* op, const Tensor& self, Take take, Undo undo) {
  check_inplace(op, self);
  Tensor look;
  {
    const NoGrad off;
    look = take(make_alias(self));
  }
  AutogradMeta* meta = maybe_meta(self);
  const bool retake = self->view_base && self.requires_grad() && grad_enabled();
  if (self->view_base && meta && meta->replay) {
    meta->replay = [before = std::move(meta->replay), take](const Tensor& base) {
      return take(before(base));
    };
  }
  self->offset = look.offset();
  set_geometry(*self.impl(), look.sizes(), look.strides());
  self.bump_version(op);
  if (retake) {
    const Tensor fresh = take_view(self, Tensor(self->view_base));
    set_history(self, maybe_meta(fresh)->grad_fn, maybe_meta(fresh)->output);
  } else if (!self->view_base) {
    if (Record r = Record::in_place(op, self, {})) r.wrt(0, undo);
  } else if (!self.requires_grad()) {
    self->view_version = self.version();
  }  // else the view is taken from its base anew when somebody asks for its history
  return self;
}

Tensor transpose_(const Tensor& self, int64_t dim0, int64_t dim1) {
  const auto exchange = [=](const Tensor& x) { return transpose(x, dim0, dim1); };
  return become("transpose_", self, exchange, exchange);
}
Tensor t_(const Tensor& self) {
  const auto exchange = [](const Tensor& x) { return t(x); };
  return become("t_", self, exchange, exchange);
}
Tensor unsqueeze_(const Tensor& self, int64_t dim) {
  return become(
      "unsqueeze_", self, [=](const Tensor& x) { return unsqueeze(x, dim); },
      [=](const Tensor& x) { return squeeze(x, dim); });
}
template <class Take>
Tensor become_squeezed(const Tensor& self, Take take) {
  return become("squeeze_", self, take,
                [shape = self->sizes](const Tensor& g) { return reshape(g, shape); });
}
Tensor squeeze_all_(const Tensor& self) {
  return become_squeezed(self, [](const Tensor& x) { return squeeze(x); });
}
Tensor squeeze_dim_(const Tensor& self, int64_t dim) {
  return become_squeezed(self, [=](const Tensor& x) { return squeeze(x, dim); });
}
Tensor squeeze_dims_(const Tensor& self, IntSpan dims) {
  return become_squeezed(self, [dims = dims.dims()](const Tensor& x) { return squeeze(x, dims); });
}
Tensor as_strided_(const Tensor& self, IntSpan size, IntSpan stride,
                   std::optional<int64_t> offset) {
  check_inplace("as_strided_", self);
  const Geometry here = geometry_of(self);
  const Geometry there = geometry_of(as_strided(detach_alias(self), size, stride, offset));
  const auto take = [=](const Tensor& x) {
    return as_strided(x, there.sizes, there.strides, there.offset);
  };
  const auto undo = [=](const Tensor& g) { return window_gradient(g, there, here); };
  if (!(self->view_base && self.requires_grad() && grad_enabled())) {
    return become("as_strided_", self, take, undo);
  }
  // A view is taken from what it was, not from its base: elements outside that get no gradient.
  NodePtr node = make_intrusive<Node>("as_strided.1");
  node->edges.push_back(gradient_edge(self));
  node->set_rule(0, Rule(undo));
  {
    const NoGrad off;
    become("as_strided_", self, take, undo);
  }
  node->add_input(self);
  set_history(self, node, 0);
  return self;
}

// Gives self another size and strides; what kept it for backward learns of a change.
void resize_to(const char* op, const Tensor& self, IntSpan sizes, IntSpan strides) {
  const bool changes = !(self.sizes() == sizes && self.strides() == strides);
  const auto stored = [&] {
    const size_t bytes = self.is_sparse() ? 0 : self.storage()->bytes();
    return static_cast<int64_t>(bytes / item_size(self.dtype()));
  };
  const int64_t before = stored();
  resize_tensor(self, sizes, strides);
  if (const int64_t added = stored() - before; added > 0) {
    known_contents(make_over(self.storage(), {added}, {1}, before, self.dtype()));
  }
  if (changes) self.bump_version(op);
}

Tensor resize_(const Tensor& self, IntSpan size, std::optional<MemoryFormat> format) {
  CHECK(!self.requires_grad(), RuntimeError, "cannot resize variables that require grad");
  CHECK(format != MemoryFormat::preserve, RuntimeError,
        "resize_: unsupported memory format preserve");
  if (!format && size == self.sizes()) return self;  // nothing to resize: the strides stay
  resize_to("resize_", self, size, format_strides(size, format.value_or(MemoryFormat::contiguous)));
  return self;
}
Tensor resize_as_(const Tensor& self, const Tensor& other, std::optional<MemoryFormat> format) {
  CHECK(!self.requires_grad(), RuntimeError, "cannot resize variables that require grad");
  if (!format && other.sizes() == self.sizes()) return self;
  const bool same_layout = format == MemoryFormat::preserve;
  resize_to("resize_as_", self, other.sizes(),
            same_layout ? preserved_strides(other)
                        : format_strides(other.sizes(), format.value_or(MemoryFormat::contiguous)));
  return self;
}

// As in PyTorch, the exchange has a place in the history, but no derivative.
void point_at(const Tensor& self, const Tensor& source, const Tensor& recorded) {
  CHECK(self.dtype() == source.dtype(), RuntimeError,
        "set_: Could not set tensor of type {} to a tensor of type {}", dtype_name(source.dtype()),
        dtype_name(self.dtype()));
  CHECK(self.device() == source.device(), RuntimeError,
        "set_: Could not set a tensor on device {} to a tensor on device {}", source.device(),
        self.device());
  self->storage = source.storage();
  self->offset = source.offset();
  self->pending = static_cast<uint8_t>((source->pending & ~Dispatched::mark) |
                                       (self->pending & Dispatched::mark));
  set_geometry(*self.impl(), source.sizes(), source.strides());
  marked_if_misaligned(self);
  self.bump_version("set_");
  // What was recorded before keeps its accumulator; what follows gets one of the new shape.
  if (AutogradMeta* meta = maybe_meta(self)) meta->accumulator = nullptr;
  if (Record r = Record::in_place("not_implemented", self, {recorded})) {
    r.all([](Grads&, Grads&) {
      fail<NotImplementedError>("derivative for set_ is not implemented");
    });
  }
}
Tensor set_source_(const Tensor& self, const Tensor& source) {
  check_inplace("set_", self, source.requires_grad());
  point_at(self, source, source);
  return self;
}
Tensor set_window_(const Tensor& self, const Tensor& source, int64_t storage_offset, IntSpan size,
                   IntSpan stride) {
  check_inplace("set_", self, source.requires_grad());
  const Dims strides = stride.empty() ? contiguous_strides(size) : stride.dims();
  const Tensor window = make_over(source.storage(), size, strides, storage_offset, source.dtype());
  window->pending = source->pending;
  point_at(self, window, source);
  return self;
}
Tensor set_empty_(const Tensor& self) {
  check_inplace("set_", self);
  point_at(self, make_tensor(0, self.dtype(), self.device()), Tensor());
  return self;
}

Tensor detach_(const Tensor& self) {
  CHECK(!self->view_base, RuntimeError,
        "Can't detach views in-place. Use detach() instead, or clone the view first.");
  if (AutogradMeta* meta = maybe_meta(self)) meta->grad_fn = nullptr;
  self->requires_grad = false;
  return self;
}

}  // namespace

Tensor detach(const Tensor& input) {
  REDIRECT(detach, input)
  return detach_alias(input);
}

OP_VIEW(detach, "detach(input)", "The same values without history: no gradient flows through.",
        takes_sparse | elementwise | takes_nested)
OP_METHOD(detach_, "detach_(self)", "Cuts self off from its history.",
          takes_sparse | takes_pending | elementwise | takes_nested)
OP_METHOD(transpose_, "transpose_(self, dim0, dim1)", "Exchanges two dimensions of self.",
          takes_pending | reshapes)
OP_METHOD(transpose_, "swapdims_(self, dim0, dim1)", "Exchanges two dimensions of self.",
          takes_pending | reshapes | composed)
OP_METHOD(transpose_, "swapaxes_(self, axis0, axis1)", "Exchanges two dimensions of self.",
          takes_pending | reshapes | composed)
OP_METHOD(t_, "t_(self)", "Transposes self.", takes_pending)
OP_METHOD(unsqueeze_, "unsqueeze_(self, dim)", "Inserts a dimension of size 1 into self.",
          takes_pending)
OP_METHOD(squeeze_all_, "squeeze_(self)", "Removes the dimensions of size 1 from self.",
          takes_pending)
OP_METHOD(squeeze_dim_, "squeeze_.dim(self, dim)", "Removes a dimension of size 1 from self.",
          takes_pending)
OP_METHOD(squeeze_dims_, "squeeze_.dims(self, *dim)", "Removes dimensions of size 1 from self.",
          takes_pending)
OP_METHOD(as_strided_, "as_strided_(self, size, stride, storage_offset=None)",
          "Gives self another size, strides and offset over its memory.", takes_pending)
OP_METHOD(resize_, "resize_(self, *size, *, memory_format=None)",
          "Resizes self; memory grows where needed, new elements are undefined.",
          takes_pending | takes_quantized)
OP_METHOD(resize_as_, "resize_as_(self, the_template, *, memory_format=None)",
          "Resizes self to the size of another tensor.", takes_pending | takes_quantized)
OP_METHOD(set_empty_, "set_(self)", "Makes self empty.", takes_pending)
OP_METHOD(set_source_, "set_(self, source)",
          "Makes self share the memory, size and strides of source.", takes_pending)
OP_METHOD(set_window_, "set_(self, source, storage_offset, size, stride=())",
          "Makes self a window on the memory of source.", takes_pending)

}  // namespace flambeau
