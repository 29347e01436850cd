// x[i, j, mask]: reading and writing at places that index tensors name, and the ops that do so
// along one dimension.
//
// Note [How indexing works]
// Index tensors and masks become one tensor of byte offsets into the indexed tensor, broadcast
// together and checked. The result has the dimensions that were not indexed and those of the
// offsets; the kernel walks it with the indexed tensor standing still along the latter.
#include "flambeau/ops/indexing.h"

#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise.h"
#include "flambeau/tensor/shape.h"

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
struct Places {
  Dims shape;      // of the result
  Tensor window;   // the indexed tensor over that shape, still where it is indexed
  Tensor offsets;  // in bytes, over that shape, still elsewhere
};

class Indexing {
 public:
  explicit Indexing(const Tensor& self) : self_(self) {}

  void add(const Tensor& index) {
    if (!index.defined()) {
      check_room(1);
      axes_.push_back({dim_, self_->sizes[dim_], self_->strides[dim_], {}});
      ++dim_;
    } else if (is_mask(index)) {
      add_mask(index);
    } else {
      CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, IndexError,
            "tensors used as indices must be long, int, byte or bool tensors, got {}",
            index.dtype());
      check_room(1);
      axes_.push_back(
          {dim_, self_->sizes[dim_], self_->strides[dim_], to(at_home(index), DType::int64)});
      ++dim_;
    }
  }

  // `check` looks at the shape of the result before any index is read.
  template <class Check>
  Places finish(const IndexedDim& rules, const Check& check, bool brackets = true) {
    while (dim_ < self_.dim()) add({});
    broadcast();
    const auto indexed = [](const Axis& axis) { return axis.index.defined(); };
    const auto first = std::find_if(axes_.begin(), axes_.end(), indexed);
    const auto after = std::find_if_not(first, axes_.end(), indexed);
    // Neighbouring indices leave their dimensions in place; others go to the front.
    const bool together = std::none_of(after, axes_.end(), indexed);
    const size_t at = together ? first - axes_.begin() : 0;
    Places places;
    Dims window_strides, offset_strides;
    const auto add_offsets = [&] {
      const Dims dense = contiguous_strides(common_);
      places.shape.append(common_.begin(), common_.end());
      window_strides.resize(places.shape.size(), 0);
      offset_strides.append(dense.begin(), dense.end());
    };
    // The strides that the offsets would have if they were reshaped to lie between dimensions of
    // size 1: with those of the window they say in which order the result lies.
    int64_t single = checked_numel(common_);
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
      places.shape.push_back(axes_[i].size);
      window_strides.push_back(axes_[i].stride);
      offset_strides.push_back(axes_[i].size == 1 ? single : 0);
    }
    CHECK(static_cast<int64_t>(places.shape.size()) <= max_dims, RuntimeError,
          "index: a tensor can have at most {} dimensions", max_dims);
    const bool none = checked_numel(places.shape) == 0;
    if (brackets) check_not_empty();
    check(places.shape);
    places.window = make_alias(self_, places.shape, window_strides, self_.offset());
    // As in PyTorch, indices that lead nowhere are not looked at.
    const Tensor at_places =
        none ? make_tensor(common_, DType::int64, self_.device()) : offsets(rules);
    places.offsets = make_alias(at_places, places.shape, offset_strides, 0);
    return places;
  }

 private:
  void check_room(int64_t dims) const {
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
    check_room(rank);
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
      at.stride = axis.stride * static_cast<int64_t>(self_.item_size());
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

constexpr IndexedDim python_rules{.from_end = true};

constexpr auto any_shape = [](IntSpan) {};

template <class Check = decltype(any_shape)>
Places places_of(const Tensor& self, const std::vector<Tensor>& indices,
                 const Check& check = any_shape) {
  const NoGrad off;
  Indexing indexing(self);
  for (const Tensor& index : indices) indexing.add(index);
  return indexing.finish(python_rules, check);
}

// One index along one dimension of a tensor that has at least one.
Places places_along(const Tensor& self, int64_t dim, const Tensor& index, const IndexedDim& rules) {
  const NoGrad off;
  Indexing indexing(self);
  for (int64_t d = 0; d < dim; ++d) indexing.add({});
  indexing.add(index);
  return indexing.finish(rules, any_shape, false);
}

// Into `out` where it is given, else into a new tensor in the order of dimensions of the source.
Tensor read(const char* op, const Places& places, Tensor out = {}) {
  const DType dtype = places.window.dtype();
  const Operand inputs[] = {places.window, places.offsets};
  TensorIter iter;
  iter.build({op, false, false}, &out, &dtype, 1, inputs, 2, dtype);
  kernels::index_read(out.device_type(), iter);
  return out;
}

// `values` broadcast to the shape of the places.
void write(const char* op, const Places& places, const Operand& values, WriteMode mode) {
  Tensor target = places.window;
  const DType dtype = target.dtype();
  const Operand inputs[] = {values, places.offsets};
  TensorIter iter;
  iter.build({op, false, false}, &target, &dtype, 1, inputs, 2, dtype);
  kernels::index_write(target.device_type(), iter, mode);
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
  return read(op, places_of(self, indices));
}

void write_at(const char* op, const Tensor& self, const std::vector<Tensor>& indices,
              const Tensor& values, WriteMode mode) {
  write(op, places_of(self, indices), values, mode);
}

// --- index, index_put --------------------------------------------------------------------------

Tensor index(const Tensor& input, const std::vector<Tensor>& indices) {
  Tensor out = read("index", places_of(input, indices));
  if (Record r{"index", out, {input}}) {
    r.wrt(0, [shape = input->sizes, saved = save_all(r, indices)](const Tensor& g) {
      return index_put_(zeros(shape, options_of(g)), all_of(saved), g, true);
    });
  }
  return out;
}

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
  const Places places = places_of(self, indices, [&](IntSpan shape) {
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
  write("index_put_", places, source, accumulate ? WriteMode::add : WriteMode::assign);
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
  return index_put_(clone(input), indices, values, accumulate);
}
OP(index_put, "index_put(input, indices, values, accumulate=False)",
   "A copy of input with values written (or added) at the places that indices name.")
OP_METHOD(index_put_, "index_put_(self, indices, values, accumulate=False)",
          "Writes (or adds) values at the places that indices name.")

// --- Along one dimension -----------------------------------------------------------------------

namespace {

Tensor vector_index(const char* op, const Tensor& index, const Tensor& self) {
  CHECK(index.dim() <= 1, IndexError,
        "{}(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}", op,
        index.dim(), dtype_legacy_name(index.dtype()), index.sizes());
  const Tensor checked = checked_index(op, index, self.device());
  return checked.dim() == 0 ? make_alias(checked, 1, 1, checked.offset()) : checked;
}

// self, or its only element as a vector.
Tensor with_dims(const Tensor& self) {
  return self.dim() == 0 ? make_alias(self, 1, 1, self.offset()) : self;
}

void check_same_type(const char* op, const Tensor& self, const Tensor& source) {
  CHECK(self.dtype() == source.dtype(), RuntimeError,
        "{}(): self ({}) and source ({}) must have the same scalar type", op,
        dtype_legacy_name(self.dtype()), dtype_legacy_name(source.dtype()));
  CHECK(self.device() == source.device(), RuntimeError,
        "{}(): self and source must be on the same device, got {} and {}", op, self.device(),
        source.device());
}

// How many slices source has along dim; -1 if it has no such dimension.
int64_t slices_of(const Tensor& source, int64_t dim) {
  return source.dim() == 0 ? 1 : dim < source.dim() ? source->sizes[dim] : -1;
}

// Checks that slices of source have the shape of those of self.
void check_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& source) {
  bool same = self.dim() == source.dim();
  for (int64_t d = 0; same && d < self.dim(); ++d) {
    same = d == dim || self->sizes[d] == source->sizes[d];
  }
  CHECK(same, RuntimeError,
        "{}(): source tensor shape must match self tensor shape, excluding the specified "
        "dimension. Got "
        "self.shape = {} source.shape = {}",
        op, self.sizes(), source.sizes());
}

}  // namespace

Tensor index_of_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source) {
  Tensor vector = vector_index(op, index, self);
  check_same_type(op, self, source);
  CHECK(vector.numel() == slices_of(source, dim), RuntimeError,
        "{}(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {}", op,
        vector.numel(), slices_of(source, dim), dim);
  check_slices(op, self, dim, source);
  return vector;
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  dim = wrap_dim(dim, input.dim());
  CHECK(index.dtype() == DType::int64 || index.dtype() == DType::int32, RuntimeError,
        "index_select(): Expected dtype int32 or int64 for index, got {}", index.dtype());
  const Tensor vector = vector_index("index_select", index, input);
  CHECK(input.dim() > 0 || vector.numel() == 1, RuntimeError,
        "index_select(): Index to scalar can have only 1 value, got {} value(s)", vector.numel());
  const Tensor source = with_dims(input);
  const bool nowhere = source.size(dim) == 0 && vector.numel() > 0;
  CHECK(!nowhere || source.dim() > 1, IndexError, "index_select(): index out of range in self");
  CHECK(!nowhere, RuntimeError,
        "index_select(): self indexing axis dim should be positive (dim {} of shape {})", dim,
        input.sizes());
  Places places = places_along(source, dim, vector, {.runtime_error = dim == 1});
  if (checked_numel(places.shape) == 0) {  // its indices are looked at all the same
    places_along(zeros(source.size(dim), options_of(vector)), 0, vector, {.runtime_error = true});
  }
  Tensor out =
      read("index_select", places, make_tensor(places.shape, input.dtype(), input.device()));
  if (input.dim() == 0) out = make_alias(out, {}, {}, out.offset());
  if (Record r{"index_select", out, {input}}) {
    r.wrt(0, [shape = input->sizes, dim, saved = r.save(index)](const Tensor& g) {
      return index_add_(zeros(shape, options_of(g)), dim, saved(), g, 1);
    });
  }
  return out;
}
OP(index_select, "index_select(input, dim, index)",
   "The slices of input along dim that index names.", picks)

Tensor index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha) {
  check_inplace("index_add_", self, source.requires_grad());
  check_number_fits("index_add_", alpha, self.dtype());
  dim = wrap_dim(dim, self.dim());
  const Tensor vector = index_of_slices("index_add_", self, dim, index, source);
  check_no_internal_overlap("index_add_", self);
  for (const Tensor* other : {&source, &index}) check_no_overlap("index_add_", self, *other);
  Tensor values = apart_from(self, source);
  const Tensor sums = place_of_sums(self, vector.numel(), values.numel());
  {
    const NoGrad off;
    if (!(alpha == Scalar(1))) values = to(values * alpha, self.dtype());
    values = to(values, sums.dtype());
  }
  const IndexedDim rules{.runtime_error = self.dim() > 1};
  if (self.dim() <= 1 || self.numel() > 0) {  // else it does not matter which slices are named
    write("index_add_", places_along(with_dims(sums), dim, vector, rules), values, WriteMode::add);
  }
  keep_sums(self, sums);
  self.bump_version("index_add_");
  if (Record r = Record::in_place("index_add", self, {source})) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(1, [dim, saved = r.save_for(1, index), alpha, shape = source->sizes](const Tensor& g) {
      const Tensor picked = reshape(index_select(g, dim, saved()), shape);
      return alpha == Scalar(1) ? picked : picked * alpha;
    });
  }
  return self;
}
Tensor index_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
  return index_add_(clone(input, MemoryFormat::contiguous), dim, index, source, alpha);
}
OP(index_add, "index_add(input, dim, index, source, *, alpha=1)",
   "A copy of input to whose slices along dim, named by index, those of source are added.")
OP_METHOD(index_add_, "index_add_(self, dim, index, source, *, alpha=1)",
          "Adds the slices of source to those of self along dim that index names.")

namespace {

Tensor index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_inplace("index_copy_", self, source.requires_grad());
  dim = wrap_dim(dim, self.dim());
  check_no_internal_overlap("index_copy_", self);
  CHECK(index.dtype() == DType::int64, RuntimeError,
        "index_copy_(): Expected a long tensor for index, but got {}",
        dtype_legacy_name(index.dtype()));
  const Tensor vector = vector_index("index_copy_", index, self);
  CHECK(source.dim() == self.dim() || source.dim() == 0 || self.dim() == 0, IndexError,
        "index_copy_(): When source and destination are not scalars, their dimensionality must "
        "match. Source dimensionality ({}), destination dimensionality ({})",
        source.dim(), self.dim());
  check_same_type("index_copy_", self, source);
  CHECK(vector.numel() == slices_of(source, dim), IndexError,
        "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({})",
        vector.numel(), slices_of(source, dim));
  if (source.dim() > 0 && self.dim() > 0) check_slices("index_copy_", self, dim, source);
  check_no_overlap("index_copy_", self, source);
  check_no_overlap("index_copy_", self, index);
  write("index_copy_", places_along(with_dims(self), dim, vector, {}), apart_from(self, source),
        WriteMode::assign);
  self.bump_version("index_copy_");
  if (Record r = Record::in_place("index_copy", self, {source})) {
    const Saved saved = r.save(index);
    r.wrt(0, [dim, saved](const Tensor& g) { return index_fill(g, dim, saved(), 0); });
    r.wrt(1, [dim, saved, shape = source->sizes](const Tensor& g) {
      return reshape(index_select(g, dim, saved()), shape);
    });
  }
  return self;
}
Tensor index_copy(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source) {
  return index_copy_(clone(input, MemoryFormat::contiguous), dim, index, source);
}

}  // namespace
OP(index_copy, "index_copy(input, dim, index, source)",
   "A copy of input whose slices along dim, named by index, are those of source.")
OP_METHOD(index_copy_, "index_copy_(self, dim, index, source)",
          "Writes the slices of source into those of self along dim that index names.")

namespace {

Tensor index_fill_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value) {
  check_inplace("index_fill_", self, value.requires_grad());
  warn_if_expanded("index_fill_", self);
  check_no_overlap("index_fill_", self, index);
  CHECK(!value.is_tensor() || value.tensor().dim() == 0, RuntimeError,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} "
        "dimension(s).",
        value.tensor().dim());
  dim = wrap_dim(dim, self.dim());
  CHECK(index.dtype() == DType::int64, IndexError,
        "index_fill_(): Expected dtype int64 for index, got {}", index.dtype());
  const Tensor vector = vector_index("index_fill_", index, self);
  const Tensor target = with_dims(self);
  const bool complex =
      value.is_tensor() ? value.tensor().is_complex() : value.scalar().is_complex();
  CHECK(!complex || self.is_complex(), RuntimeError,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  if (!value.is_tensor() || (value.tensor().dtype() != self.dtype() && self.device().is_cpu())) {
    const Scalar number = value.is_tensor() ? item(value.tensor()) : value.scalar();
    check_number_fits("index_fill_", number, self.dtype());
  }
  Tensor filling;
  {
    const NoGrad off;
    filling = cast_operand(value, self.dtype(), self.device());
  }
  write("index_fill_", places_along(target, dim, vector, python_rules), filling, WriteMode::assign);
  self.bump_version("index_fill_");
  static const Tensor none;
  if (Record r = Record::in_place(value.is_tensor() ? "index_fill.1" : "index_fill", self,
                                  {value.is_tensor() ? value.tensor() : none})) {
    const Saved saved = r.save(index);
    r.wrt(0, [dim, saved](const Tensor& g) { return index_fill(g, dim, saved(), 0); });
    // Everything that reaches the filled elements, each counted once.
    r.wrt(1, [dim, saved](const Tensor& g) { return sum(g - index_fill(g, dim, saved(), 0)); });
  }
  return self;
}

}  // namespace

Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Operand& value) {
  return index_fill_(clone(input), dim, index, value);
}
OP(index_fill, "index_fill(input, dim, index, value)",
   "A copy of input whose slices along dim, named by index, are filled with value.")
OP_METHOD(index_fill_, "index_fill_(self, dim, index, value)",
          "Fills the slices of self along dim that index names with value.")

}  // namespace flambeau
