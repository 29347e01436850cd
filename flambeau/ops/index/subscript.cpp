#include "flambeau/ops/index/subscript.h"

#include <algorithm>

#include "flambeau/autograd/meta.h"
#include "flambeau/base/current_op.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {
namespace {

bool is_mask(const Tensor& index) {
  return index.dtype() == DType::bool_ || index.dtype() == DType::uint8;
}

// PyTorch drops leading ones of the value so that x[0] = tensor of shape [1, 3] works.
Tensor without_leading_ones(const Tensor& value) {
  int64_t extra = 0;
  while (extra < value.dim() && value->sizes[extra] == 1) ++extra;
  return extra ? view(value, value.sizes().from(extra)) : value;
}

}  // namespace

Subscript::Subscript(const Tensor& self, int64_t used, int64_t items, Purpose purpose)
    : self_(self),
      view_(self),
      keeps_slices_(items == 1 && purpose == Purpose::read),
      skipped_(self.dim() - used) {
  CHECK(used <= self.dim(), IndexError, "too many indices for tensor of dimension {}", self.dim());
}

int64_t Subscript::uses(const Tensor& index) { return is_mask(index) ? index.dim() : 1; }

void Subscript::add_integer(int64_t index) {
  // Past a second ellipsis there are no dimensions left.
  const int64_t source = from_++;
  const int64_t size = source < self_.dim() ? self_->sizes[source] : 0;
  CHECK(index >= -size && index < size, IndexError,
        "index {} is out of bounds for dimension {} with size {}", index, source, size);
  view_ = select(view_, dim_, index);
}

// A slice of everything is the tensor itself, unless a view of it is asked for.
void Subscript::add_slice(int64_t start, int64_t stop, int64_t step) {
  CHECK(step != 0, ValueError, "slice step cannot be zero");
  CHECK(step > 0, ValueError, "step must be greater than zero");
  ++from_;
  const int64_t dim = dim_++;
  const bool all = start == 0 && step == 1 && dim < view_.dim() && stop >= view_->sizes[dim];
  if (keeps_slices_ || !all) view_ = slice(view_, dim, start, stop, step);
}

void Subscript::add_none() { view_ = unsqueeze(view_, dim_++); }

void Subscript::add_ellipsis() {
  dim_ += skipped_;
  from_ += skipped_;
}

void Subscript::add_index(Tensor index) {
  for (; covered_ < dim_; ++covered_) indices_.emplace_back();
  covered_ += uses(index);
  indices_.push_back(std::move(index));
  any_index_ = true;
}

void Subscript::add_bool(bool keep) {
  view_ = unsqueeze(view_, dim_);
  Options options;
  options.dtype = DType::int64;
  options.device = view_.device();
  add_index(keep ? zeros(1, options) : empty(0, options));
  ++dim_;
}

void Subscript::add_tensor(const Tensor& index, int64_t used) {
  if (index.dtype() == DType::uint8) [[unlikely]]
    warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
        "instead.");
  const bool mask = is_mask(index);
  from_ += used;
  if (index.dim() == 0 && !mask) {
    CHECK(is_integral(index.dtype()), IndexError,
          "tensors used as indices must be long, int, byte or bool tensors, got {}", index.dtype());
    if (!index.device().is_meta()) {
      view_ = select(view_, dim_, item(index).to_int());
      return;
    }
  }
  if (index.dim() == 0) return add_bool(item(index).to<bool>());
  add_index(resolve(index));
  dim_ += uses(index);
}

// A mask that comes first is compared with what it picks from before anything else.
void Subscript::check_first_mask() const {
  const auto found = std::ranges::find_if(indices_, &Tensor::defined);
  if (found == indices_.end() || !is_mask(*found)) return;
  int64_t dim = found - indices_.begin();
  for (int64_t d = 0; d < found->dim(); ++d, ++dim) {
    CHECK(dim < view_.dim() && (*found)->sizes[d] == view_->sizes[dim], IndexError,
          "The shape of the mask {} at index {} does not match the shape of the indexed tensor "
          "{} at index {}",
          found->sizes(), d, view_.sizes(), dim);
  }
}

Tensor Subscript::read() {
  if (any_index_) {
    current_op = "index";
    return index(resolve(view_), indices_);
  }
  return view_.is_same(self_) ? alias(self_) : view_;  // x[...] is a new view, not x
}

void Subscript::fill(const Scalar& value) {
  if (view_->pending & Pending::resolvable) [[unlikely]] {
    Options options;
    options.dtype = view_.dtype();
    options.device = view_.device();
    return assign_to_view(view_, full({}, value, options));
  }
  fill_(view_, value);
}

void Subscript::write(const Tensor& value) {
  if (!any_index_) return assign_to_view(view_, value);
  const Tensor target = resolve(view_);
  current_op = "index_put_";
  const bool apart = !target.is_same(view_);
  if (apart) check_inplace("index_put_", view_, value.requires_grad());
  index_put_(target, indices_, without_leading_ones(resolve(value)), false);
  if (apart) copy_(view_, target);
}

void assign_to_view(const Tensor& target, const Tensor& value) {
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

}  // namespace flambeau
