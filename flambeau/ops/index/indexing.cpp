// x[i, j, mask]: reading and writing the elements that index tensors name.
//
// Note [How indexing works]
// Index tensors and masks become one tensor of byte offsets into the indexed tensor, broadcast
// together and checked. The result has the dimensions that were not indexed and those of the
// offsets; the kernel walks it with the indexed tensor standing still along the latter.
#include "flambeau/ops/index/indexing.h"

#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {

Tensor checked_index(const char* op, const Tensor& index, Device device) {
  CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, RuntimeError,
        "{}(): Expected dtype int32/int64 for index but got: {}", op,
        dtype_legacy_name(index.dtype()));
  check_same_device(op, device, index.device());
  return to(index, DType::int64);
}

namespace {

bool is_mask(const Tensor& index) {
  return index.dtype() == DType::bool_ || index.dtype() == DType::uint8;
}

// A dimension of the indexed tensor and, if it is indexed, its index.
struct Axis {
  int64_t dim, size, stride;
  Tensor index;
};

// Everything a kernel needs to know about an indexing expression.
struct Targets {
  Dims shape;           // of the result
  Tensor window;        // the indexed tensor over that shape, still where it is indexed
  Tensor offsets;       // in bytes, over that shape, still elsewhere
  bool spread = false;  // whether there are dimensions that are not indexed, of a size beside 1
};

// What is done at the targets: one value is written by brackets, or another thing, or it is done
// along one dimension.
enum class Use { writes_one, other, along };

class Indexing {
 public:
  explicit Indexing(const Tensor& self) : self_(self) {}

  void add(const Tensor& index) {
    if (!index.defined()) {
      check_dims(1);
      axes_.push_back({dim_, self_->sizes[dim_], self_->strides[dim_], {}});
      ++dim_;
    } else if (is_mask(index)) {
      add_mask(index);
    } else {
      CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, IndexError,
            "tensors used as indices must be long, int, byte or bool tensors, got {}",
            index.dtype());
      check_dims(1);
      axes_.push_back(
          {dim_, self_->sizes[dim_], self_->strides[dim_], to(at_home(index), DType::int64)});
      ++dim_;
    }
  }

  // `check` looks at the shape of the result before any index is read.
  template <class Check>
  Targets finish(const IndexedDim& rules, const Check& check, Use use) {
    while (dim_ < self_.dim()) add({});
    broadcast();
    const auto indexed = [](const Axis& axis) { return axis.index.defined(); };
    const auto first = std::find_if(axes_.begin(), axes_.end(), indexed);
    const auto after = std::find_if_not(first, axes_.end(), indexed);
    // Neighbouring indices leave their dimensions in place; others go to the front.
    const bool together = std::none_of(after, axes_.end(), indexed);
    const size_t at = together ? first - axes_.begin() : 0;
    Targets targets;
    Dims window_strides, offset_strides;
    const auto add_offsets = [&] {
      const Dims dense = contiguous_strides(common_);
      targets.shape.append(common_.begin(), common_.end());
      window_strides.resize(targets.shape.size(), 0);
      offset_strides.append(dense.begin(), dense.end());
    };
    // The strides that the offsets would have if they were reshaped to lie between dimensions of
    // size 1: with those of the window they say in which order the result lies.
    int64_t single = 1;
    for (const int64_t size : common_) single *= std::max<int64_t>(size, 1);
    if (at == 0) {
      add_offsets();
      single = 1;
    }
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (i == at && at > 0) {
        add_offsets();
        single = 1;
      }
      if (indexed(axes_[i])) continue;
      targets.shape.push_back(axes_[i].size);
      targets.spread |= axes_[i].size != 1;
      window_strides.push_back(axes_[i].stride);
      offset_strides.push_back(axes_[i].size == 1 ? single : 0);
    }
    CHECK(static_cast<int64_t>(targets.shape.size()) <= max_dims, RuntimeError,
          "index: a tensor can have at most {} dimensions", max_dims);
    const bool none = checked_numel(targets.shape) == 0;
    if (use == Use::other) check_not_empty();
    check(targets.shape);
    // As in PyTorch, a write to more than the nothing that is there is no matter of its indices.
    CHECK(use != Use::writes_one || none || self_.numel() > 0, RuntimeError,
          "index_put_: a tensor of shape {} has no elements to write to", self_.sizes());
    targets.window = make_alias(self_, targets.shape, window_strides, self_.offset());
    // As in PyTorch, indices that lead nowhere are not looked at.
    const Tensor at_targets =
        none ? make_tensor(common_, DType::int64, self_.device()) : offsets(rules);
    targets.offsets = make_alias(at_targets, targets.shape, offset_strides, 0);
    return targets;
  }

 private:
  void check_dims(int64_t dims) const {
    CHECK(dim_ + dims <= self_.dim(), IndexError, "too many indices for tensor of dimension {}",
          self_.dim());
  }

  Tensor at_home(const Tensor& index) const {
    if (index.device() == self_.device()) return index;
    CHECK(
        index.device().is_cpu(), RuntimeError,
        "indices should be either on cpu or on the same device as the indexed tensor ({}), got {}",
        self_.device(), index.device());
    return to(index, self_.device());
  }

  // A mask stands for the positions where it is true: for one index, where the dimensions that it
  // covers lie evenly in memory, else for one each.
  void add_mask(const Tensor& given) {
    const Tensor mask = at_home(given);
    const int64_t rank = mask.dim();
    check_dims(rank);
    for (int64_t d = 0; d < rank; ++d) {
      CHECK(mask->sizes[d] == self_->sizes[dim_ + d], IndexError,
            "The shape of the mask {} at index {} does not match the shape of the indexed tensor "
            "{} at "
            "index {}",
            mask.sizes(), d, self_.sizes(), dim_ + d);
    }
    if (rank == 0) {  // a new dimension, of size 1 or 0
      axes_.push_back({dim_, 1, 0, nonzero_flat(mask) * 0});
      return;
    }
    const IntSpan sizes = self_.sizes().from(dim_).first(rank);
    const IntSpan strides = self_.strides().from(dim_).first(rank);
    if (const auto merged = view_strides(sizes, strides, mask.numel())) {
      axes_.push_back({dim_, mask.numel(), (*merged)[0], nonzero_flat(mask)});
    } else {
      const Tensor columns = nonzero_columns(mask);
      for (int64_t d = 0; d < rank; ++d) {
        axes_.push_back({dim_ + d, sizes[d], strides[d], select(columns, 0, d)});
      }
    }
    dim_ += rank;
  }

  void broadcast() {
    std::string shapes;
    bool fits = true;
    for (const Axis& axis : axes_) {
      if (!axis.index.defined()) continue;
      shapes += (shapes.empty() ? "" : ", ") + to_text(axis.index.sizes());
      Dims joined;
      try {
        joined = broadcast_shapes(common_, axis.index.sizes());
      } catch (const Error&) {
        fits = false;
        continue;
      }
      common_ = joined;
    }
    CHECK(fits, IndexError,
          "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
          shapes);
  }

  // Brackets ask that there is something to index.
  void check_not_empty() const {
    for (const Axis& axis : axes_) {
      CHECK(!axis.index.defined() || axis.size > 0 || checked_numel(common_) == 0, IndexError,
            "index is out of bounds for dimension with size 0 (dimension {})", axis.dim);
    }
  }

  Tensor offsets(const IndexedDim& rules) const {
    Tensor total = make_tensor(common_, DType::int64, self_.device());
    const DType dtype = DType::int64;
    bool add = false;
    for (const Axis& axis : axes_) {
      if (!axis.index.defined()) continue;
      IndexedDim at = rules;
      at.dim = axis.dim;
      at.size = axis.size;
      // The stride of a single place may be any number.
      at.stride = axis.size > 1 ? scaled_stride(axis.stride, self_.item_size()) : 0;
      const Tensor index = expand(axis.index, common_);
      const Operand inputs[] = {index};
      TensorIter iter;
      iter.build({"index", false, false}, &total, &dtype, 1, inputs, 1, dtype);
      kernels::index_offsets(self_.device_type(), iter, at, add);
      add = true;
    }
    if (!add) fill_(total, 0);
    return total;
  }

  const Tensor& self_;
  int64_t dim_ = 0;
  std::vector<Axis> axes_;
  Dims common_;
};

constexpr auto any_shape = [](IntSpan) {};

template <class Check = decltype(any_shape)>
Targets targets_of(const Tensor& self, const std::vector<Tensor>& indices, Use use,
                   const Check& check = any_shape) {
  const NoGrad off;
  Indexing indexing(self);
  for (const Tensor& index : indices) indexing.add(index);
  return indexing.finish(python_rules, check, use);
}

// One index along one dimension of a tensor that has at least one.
Targets targets_along(const Tensor& self, int64_t dim, const Tensor& index,
                      const IndexedDim& rules) {
  const NoGrad off;
  Indexing indexing(self);
  for (int64_t d = 0; d < dim; ++d) indexing.add({});
  indexing.add(index);
  return indexing.finish(rules, any_shape, Use::along);
}

// Into `out` where it is given, else into a new tensor in the order of dimensions of the source.
Tensor read(const char* op, const Targets& targets, Tensor out = {}) {
  const DType dtype = targets.window.dtype();
  const Operand inputs[] = {targets.window, targets.offsets};
  if (!out.defined() && targets.spread && checked_numel(targets.shape) == 0) {
    const Tensor* operands[] = {&targets.window, &targets.offsets};
    out = make_strided(targets.shape, common_strides(targets.shape, operands, 2), dtype,
                       targets.window.device());
  }
  TensorIter iter;
  iter.build({op, false, false}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::index_read(out.device_type(), iter);
  return out;
}

// Targets of complex halves as targets of their parts: sums are taken part by part.
Targets targets_of_parts(const Targets& targets) {
  Dims shape = targets.shape;
  shape.push_back(2);
  return {shape, view_as_real(targets.window), unsqueeze(targets.offsets, -1)};
}

// `values` broadcast to the shape of the targets, beside them.
TensorIter writing(const char* op, const Targets& targets, const Tensor& values, WriteMode mode) {
  if (mode == WriteMode::add && values.dtype() == DType::complex32) [[unlikely]]
    return writing(op, targets_of_parts(targets), view_as_real(values), mode);
  Tensor target = targets.window;
  const DType dtype = target.dtype();
  const Operand inputs[] = {values, targets.offsets};
  TensorIter iter;
  iter.build({op, false, false}, &target, &dtype, 1, inputs, 2, dtype);
  return iter;
}
void write(const char* op, const Targets& targets, const Tensor& values, WriteMode mode) {
  const TensorIter iter = writing(op, targets, values, mode);
  kernels::index_write(iter.device.type, iter, mode);
}

// One mask of the whole tensor, where a kernel picks elements without asking for their indices.
bool is_plain_mask(const Tensor& self, const std::vector<Tensor>& indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == DType::bool_ &&
         self.dim() > 0 && indices[0].sizes() == self.sizes() &&
         indices[0].device() == self.device() &&
         kernels::masked_select.filled(self.device_type()) && self.is_contiguous() &&
         indices[0].is_contiguous();
}

std::vector<Saved> save_all(const Record& r, const std::vector<Tensor>& indices) {
  std::vector<Saved> saved;
  for (const Tensor& index : indices) saved.push_back(r.save(index));
  return saved;
}
std::vector<Tensor> all_of(const std::vector<Saved>& saved) {
  std::vector<Tensor> indices;
  for (const Saved& index : saved) indices.push_back(index());
  return indices;
}

}  // namespace

Tensor read_at(const char* op, const Tensor& self, const std::vector<Tensor>& indices) {
  if (is_plain_mask(self, indices)) {
    Tensor out;
    kernels::masked_select(self.device_type(), self, indices[0], out);
    return out;
  }
  return read(op, targets_of(self, indices, Use::other));
}

void write_at(const char* op, const Tensor& self, const std::vector<Tensor>& indices,
              const Tensor& values, WriteMode mode) {
  write(op, targets_of(self, indices, Use::other), values, mode);
}

Tensor read_along(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                  const IndexedDim& rules) {
  if (self.dim() == 1 && index.numel() > 0 && self.device().is_cpu()) {
    // A vector needs no offsets: its elements are looked up by the indices themselves.
    Tensor out = make_tensor(index.sizes(), self.dtype(), self.device());
    const DType dtype = self.dtype();
    const Tensor window = make_alias(self, index.sizes(), IntSpan{0}, self.offset());
    const Operand inputs[] = {window, index};
    TensorIter iter;
    iter.build({op, false, false}, &out, &dtype, 1, inputs, 2, dtype);
    IndexedDim at = rules;
    at.dim = dim, at.size = self->sizes[0];
    at.stride = at.size > 1 ? scaled_stride(self->strides[0], self.item_size()) : 0;
    kernels::gather(self.device_type(), iter, at);
    return out;
  }
  const Targets targets = targets_along(self, dim, index, rules);
  return read(op, targets, make_tensor(targets.shape, self.dtype(), self.device()));
}

void write_along(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                 const IndexedDim& rules, const Tensor& values, WriteMode mode) {
  const NoGrad off;
  const Targets targets = targets_along(self, dim, index, rules);
  const TensorIter iter = writing(op, targets, values, mode);
  const Tensor sums = mode == WriteMode::add && !takes_whole_rows(iter)
                          ? place_of_sums(self, index.numel(), values.numel())
                          : self;
  if (sums.dtype() == self.dtype()) return kernels::index_write(iter.device.type, iter, mode);
  write(op, targets_along(sums, dim, index, rules), to(values, sums.dtype()), mode);
  keep_sums(self, sums);
}

// --- index, index_put --------------------------------------------------------------------------

Tensor index(const Tensor& input, const std::vector<Tensor>& indices) {
  REDIRECT(_index, input, indices)
  Tensor out = read_at("index", input, indices);
  if (Record r{"index", out, {input}}) {
    r.wrt(0, [shape = input->sizes, saved = save_all(r, indices)](const Tensor& g) {
      return index_put_(zeros(shape, options_of(g)), all_of(saved), g, true);
    });
  }
  return out;
}
OP_FUNCTION(index, "_index.index.Tensor(input, indices)",
            "The elements at indices, of which an undefined one stands for a whole dimension.")

namespace {

// The one mask among the indices, shaped so that it broadcasts over self; undefined if there is
// more.
Tensor sole_mask(const Tensor& self, const std::vector<Tensor>& indices) {
  Tensor mask;
  int64_t before = 0, after = 0;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      ++(mask.defined() ? after : before);
      continue;
    }
    if (mask.defined() || !is_mask(index) || index.dim() == 0) return {};
    if (index.device() != self.device()) return {};
    mask = index;
  }
  // Whatever is wrong with the shapes is told by the general way.
  if (!mask.defined() || before + mask.dim() + after > self.dim()) return {};
  for (int64_t d = 0; d < mask.dim(); ++d) {
    if (mask->sizes[d] != self->sizes[before + d]) return {};
  }
  Dims shape = mask->sizes;
  shape.resize(self.dim() - before, 1);
  return reshape(mask, shape);
}

}  // namespace

Tensor index_put_(const Tensor& self, const std::vector<Tensor>& indices, const Tensor& values,
                  bool accumulate) {
  REDIRECT(index_put_, self, indices, values, accumulate)
  check_inplace("index_put_", self, values.requires_grad());
  CHECK(static_cast<int64_t>(indices.size()) <= self.dim(), IndexError,
        "too many indices for tensor of dimension {} (got {})", self.dim(), indices.size());
  if (values.numel() == 1 && !accumulate) {
    if (const Tensor mask = sole_mask(self, indices); mask.defined()) {
      if (self.dtype() == DType::bool_ && values.is_complex()) {
        const NoGrad off;
        return masked_fill_(self, mask, reshape(values != 0, IntSpan()));
      }
      if (self.dtype() != values.dtype() && values.device_type() == DeviceType::cpu) {
        check_number_fits("index_put_", item(values), self.dtype());
      }
      return masked_fill_(self, mask, values.dim() == 0 ? values : reshape(values, IntSpan()));
    }
  }
  warn_if_expanded("index_put_", self);
  check_no_overlap("index_put_", self, values);
  for (const Tensor& index : indices) {
    if (index.defined()) check_no_overlap("index_put_", self, index);
  }
  const Use use =
      values.dim() == 0 && values.dtype() == self.dtype() ? Use::writes_one : Use::other;
  const Targets targets = targets_of(self, indices, use, [&](IntSpan shape) {
    CHECK(can_broadcast_to(values.sizes(), shape), RuntimeError,
          "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of "
          "shape {}",
          values.sizes(), shape);
    CHECK(values.dtype() == self.dtype(), RuntimeError,
          "Index put requires the source and destination dtypes match, got {} for the destination "
          "and {} for the source.",
          dtype_legacy_name(self.dtype()), dtype_legacy_name(values.dtype()));
  });
  Tensor source = apart_from(self, values);
  if (source.device() != self.device()) {
    CHECK(source.dim() == 0 && source.device().is_cpu(), RuntimeError,
          "index_put_: expected values to be on the device of self ({}), got {}", self.device(),
          source.device());
    source = to(source, self.device());
  }
  write("index_put_", targets, source, accumulate ? WriteMode::add : WriteMode::assign);
  self.bump_version("index_put_");
  if (Record r = Record::in_place("index_put", self, {values})) {
    const std::vector<Saved> saved = save_all(r, indices);
    r.wrt(0, [saved, accumulate](const Tensor& g) {
      return accumulate ? g : index_put(g, all_of(saved), zeros({}, options_of(g)), false);
    });
    r.wrt(1, [saved](const Tensor& g) { return index(g, all_of(saved)); });
  }
  return self;
}

Tensor index_put(const Tensor& input, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate) {
  REDIRECT(index_put, input, indices, values, accumulate)
  return index_put_(clone(input), indices, values, accumulate);
}
OP(index_put, "index_put(input, indices, values, accumulate=False)",
   "A copy of input with values written (or added) at the positions that indices name.",
   cuda_widest | no_out)
OP_METHOD(index_put_, "index_put_(self, indices, values, accumulate=False)",
          "Writes (or adds) values at the positions that indices name.", cpp_by_hand)

// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {

// The indices of a call in front of which the samples are counted.
struct BatchedIndices {
  std::vector<Tensor> indices;
  int64_t first = -1, rank = 0;  // the first dimension that is indexed; dimensions of the indices
  bool adjacent = true;          // else their dimensions come first in the result
  bool counted = false;          // samples are counted by an index as well, and come first
};

std::optional<BatchedIndices> batch_indices(const Batching& batch,
                                            const std::vector<Tensor>& given) {
  BatchedIndices found;
  int64_t last = -1, at = 0;
  for (const Tensor& index : given) {
    const bool masks =
        index.defined() && (index.dtype() == DType::bool_ || index.dtype() == DType::uint8);
    if (masks && batch.is_batched(index)) {
      fail<SampleError>(
          "vmap: We do not support batching operators that can support dynamic shape. Attempting "
          "to batch over indexing with a boolean mask.");
    }
    if (masks) return std::nullopt;
    if (index.defined()) {
      if (found.first < 0) found.first = at;
      found.adjacent &= last < 0 || at == last + 1;
      last = at;
      found.rank = std::max(found.rank, index.dim());
      found.counted |= batch.is_batched(index);
    }
    ++at;
  }
  if (found.first < 0) return std::nullopt;
  found.counted |= !found.adjacent;
  if (found.counted) {
    Dims ones(found.rank + 1, 1);
    ones[0] = batch.size();
    const auto device = given[found.first].device();
    const Tensor count = tensor_op("arange", {batch.size()});
    found.indices.push_back(reshape_to(tensor_op("to", {count, device}), ones));
  } else {
    found.indices.emplace_back();
  }
  for (const Tensor& index : given) {
    Tensor samples = index.defined() ? batch.samples(index) : index;
    for (int64_t d = index.defined() && batch.is_batched(index) ? index.dim() : found.rank;
         d < found.rank; ++d)
      samples = unsqueeze_at(samples, 1);
    found.indices.push_back(samples);
  }
  return found;
}

// Moves `count` dimensions from one position to another.
Tensor move_dims(const Tensor& x, int64_t count, int64_t from, int64_t to) {
  if (from == to || count == 0) return x;
  Dims source, target;
  for (int64_t d = 0; d < count; ++d) source.push_back(from + d), target.push_back(to + d);
  return tensor_op("movedim", {x, source, target});
}

// One mask that all samples share, with the samples in front.
bool batch_mask(Batching& batch, const std::vector<Tensor>& given, Result& result) {
  const auto used = std::ranges::count_if(given, [](const Tensor& t) { return t.defined(); });
  if (used != 1 || !batch.only(0)) return false;
  std::vector<Tensor> indices = given;
  indices.insert(indices.begin(), Tensor());
  batch.rewrite().set(0, batch.samples(0));
  batch.rewrite().set(1, indices);
  batch.run(result);
  return true;
}

bool batch_index(Batching& batch, Result& result) {
  const std::optional<BatchedIndices> found = batch_indices(batch, *batch.value(1).tensors);
  if (!found) return batch_mask(batch, *batch.value(1).tensors, result);
  batch.rewrite().set(0, batch.whole(0));
  batch.rewrite().set(1, found->indices);
  batch.run(result);
  if (found->counted && found->adjacent)
    result.tensor = move_dims(result.tensor, found->rank, 1, 1 + found->first);
  return true;
}

bool batch_index_put(Batching& batch, Result& result) {
  const std::vector<Tensor>& given = *batch.value(1).tensors;
  const std::optional<BatchedIndices> found = batch_indices(batch, given);
  if (!found) return false;
  const Tensor values = batch.tensor(2);
  if (batch.is_batched(values)) {
    const int64_t indexed =
        std::ranges::count_if(given, [](const Tensor& t) { return t.defined(); });
    const int64_t rank = batch.rank(0) - indexed + found->rank;
    if (values.dim() > rank) return false;
    Tensor samples = batch.samples(values);
    for (int64_t d = values.dim(); d < rank; ++d) samples = unsqueeze_at(samples, 1);
    if (found->counted && found->adjacent)
      samples = move_dims(samples, found->rank, 1 + found->first, 1);
    batch.rewrite().set(2, samples);
  } else if (found->counted && found->adjacent && found->first > 0 && values.dim() > 0) {
    return false;
  }
  const bool in_place = batch.call().in_place();
  batch.rewrite().set(0, in_place ? batch.samples(0) : batch.whole(0));
  batch.rewrite().set(1, found->indices);
  batch.run(result);
  return true;
}

}  // namespace
BATCH(_index, batch_index)
BATCH(index_put, batch_index_put)
BATCH(index_put_, batch_index_put)

}  // namespace flambeau
