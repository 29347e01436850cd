// scatter_reduce: elements that go to one position are combined there.
#include <limits>
#include <memory>

#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

enum class Reduce { sum, prod, mean, amax, amin };

Reduce parse_reduce(std::string_view name) {
  if (name == "sum") return Reduce::sum;
  if (name == "prod") return Reduce::prod;
  if (name == "mean") return Reduce::mean;
  if (name == "amax") return Reduce::amax;
  if (name == "amin") return Reduce::amin;
  fail<RuntimeError>(
      "scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got {}", name);
}

// The value that changes nothing under the reduction.
Scalar neutral(Reduce reduce, DType dtype) {
  if (reduce == Reduce::sum || reduce == Reduce::mean) return 0;
  if (reduce == Reduce::prod) return 1;
  Scalar value;
  dispatch<dtypes::RealBool>("scatter_reduce", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_floating_type<T>) {
      const double infinity = std::numeric_limits<double>::infinity();
      value = reduce == Reduce::amax ? -infinity : infinity;
    } else if constexpr (std::is_same_v<T, StoredBool>) {
      value = reduce != Reduce::amax;
    } else {
      value =
          reduce == Reduce::amax ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    }
  });
  return value;
}

// How many elements go to each position, at least one.
Tensor target_counts(const Tensor& self, int64_t dim, const Tensor& index, bool include_self) {
  const NoGrad off;
  const DType dtype = to_real(self.dtype());
  const Tensor start = include_self ? ones_like(self, dtype) : zeros_like(self, dtype);
  const Tensor counts = scatter_add_(start, dim, index, ones(index.sizes(), options_of(start)));
  return clamp(counts, Scalar(1), std::nullopt);
}

struct ReduceRule {
  Reduce reduce;
  int64_t dim;
  bool include_self;
  Saved self, index, src, out;  // self before, out after

  // Gradients of self and of those elements of src that the index reaches.
  std::pair<Tensor, Tensor> operator()(const Tensor& g) const {
    const Tensor at = index();
    if (at.numel() == 0) return {g, zeros_like(src())};
    switch (reduce) {
      case Reduce::sum: return {kept(g), gather(g, dim, at)};
      case Reduce::mean: {
        const Tensor share = g / target_counts(self(), dim, at, include_self);
        return {kept(share), gather(share, dim, at)};
      }
      case Reduce::prod: return of_product(g);
      default: return of_extreme(g);
    }
  }

  // Where self does not take part, its gradient ends.
  Tensor kept(const Tensor& g) const { return include_self ? g : scatter(g, dim, index(), 0); }

  std::pair<Tensor, Tensor> of_extreme(const Tensor& g) const {
    const Tensor at = index(), best = out(), source = corner(src(), at.sizes());
    const Tensor mine = to(self() == best, g.dtype());
    const Tensor theirs = to(source == gather(best, dim, at), g.dtype());
    // All that reached the extreme share its gradient.
    const Tensor from_self = include_self ? mine : zeros_like(mine);
    const Tensor count = clamp(scatter_add(from_self, dim, at, theirs), Scalar(1), std::nullopt);
    const Tensor share = g / count;
    return {kept(mine * share), theirs * gather(share, dim, at)};
  }

  // The product of the others at the same place: the whole over the element itself; a single zero
  // receives the product of the rest, and beside it the whole is zero already.
  std::pair<Tensor, Tensor> of_product(const Tensor& g) const {
    const Tensor at = index(), source = corner(src(), at.sizes());
    const Tensor x = include_self ? self() : scatter(self(), dim, at, 1);
    const Tensor x_zero = x == 0, source_zero = source == 0;
    const Tensor zero_count =
        scatter_add(to(x_zero, g.dtype()), dim, at, to(source_zero, g.dtype()));
    CHECK(!grad_enabled() || nonzero(zero_count > 1).numel() == 0, RuntimeError,
          "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are "
          "scattered "
          "to the same position in self");
    const Tensor plain_x = masked_fill(x, x_zero, 1);
    const Tensor plain_source = masked_fill(source, source_zero, 1);
    const Tensor whole = scatter_reduce(x, dim, at, source, "prod", true);
    const Tensor rest = scatter_reduce(plain_x, dim, at, plain_source, "prod", true);
    const Tensor for_zero = where(zero_count == 1, rest, 0);
    const Tensor of_x = where(x_zero, for_zero, whole / plain_x);
    const Tensor of_source =
        where(source_zero, gather(for_zero, dim, at), gather(whole, dim, at) / plain_source);
    return {kept(g * of_x), gather(g, dim, at) * of_source};
  }
};

void reduce_into(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                 Reduce reduce, bool include_self) {
  const NoGrad off;
  const Tensor window = make_alias(self);
  if (!include_self && index.numel() > 0) {
    const Tensor cleared = make_alias(self);
    cleared->version = nullptr;  // two steps, one write
    scatter_(cleared, dim, index, neutral(reduce, self.dtype()));
  }
  const WriteMode modes[] = {WriteMode::add, WriteMode::multiply, WriteMode::add,
                             WriteMode::maximum, WriteMode::minimum};
  write_scattered("scatter_reduce", window, dim, index, src, modes[static_cast<int>(reduce)]);
  if (reduce != Reduce::mean) return;
  const Tensor counts = target_counts(self, dim, index, include_self);
  if (is_integral(self.dtype())) {
    div_floor_(window, counts);
  } else {
    div_(window, counts);
  }
}

}  // namespace

Tensor scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                       std::string_view reduce, bool include_self) {
  check_inplace("scatter_reduce_", self, src.requires_grad());
  dim = wrap_dim(dim, self.dim());
  const Reduce kind = parse_reduce(reduce);
  check_no_overlap("scatter_reduce_", self, src);
  const bool extreme = kind == Reduce::amax || kind == Reduce::amin;
  const bool compares = extreme && index.numel() > 0;    // of nothing there is an extreme anywhere
  if (compares && !include_self && self.is_complex()) {  // as in PyTorch, before it is refused
    const NoGrad off;
    const Tensor cleared = make_alias(self);
    cleared->version = nullptr;
    const double infinity = std::numeric_limits<double>::infinity();
    scatter_(cleared, dim, index, kind == Reduce::amax ? -infinity : infinity);
  }
  compute_dtype("scatter_reduce",
                compares               ? dtypes::RealBool
                : kind == Reduce::mean ? dtypes::Numeric
                                       : dtypes::All,
                self.dtype());
  const bool records = grad_enabled() && (self.requires_grad() || src.requires_grad());
  // The rule needs self as it was.
  const bool reads_self = kind != Reduce::sum;
  const Tensor before = records && reads_self ? clone(self) : Tensor();
  reduce_into(self, dim, index, src, kind, include_self);
  if (!records) return self;
  if (Record r = Record::in_place("scatter_reduce", self, {src})) {
    auto rule = std::make_shared<ReduceRule>(
        ReduceRule{kind, dim, include_self, r.save(before), r.save(index), r.save(src),
                   extreme ? r.save(clone(detach_alias(self))) : Saved()});
    r.wrt(0, [rule](const Tensor& g) { return (*rule)(g).first; });
    r.wrt(1, [rule, shape = src->sizes](const Tensor& g) {
      return fill_up((*rule)(g).second, shape);
    });
  }
  return self;
}

Tensor scatter_reduce(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self) {
  REDIRECT(scatter_reduce, input, dim, index, src, reduce, include_self)
  return scatter_reduce_(clone(input, MemoryFormat::contiguous), dim, index, src, reduce,
                         include_self);
}
OP(scatter_reduce, "scatter_reduce.two(input, dim, index, src, reduce, *, include_self=True)",
   "A copy of input combined with the elements of src at the positions along dim that index names.",
   along)
OP_METHOD(scatter_reduce_,
          "scatter_reduce_.two(self, dim, index, src, reduce, *, include_self=True)",
          "Combines self with the elements of src at the positions along dim that index names.",
          along)

// --- index_reduce ------------------------------------------------------------------------------

namespace {

Tensor index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                     std::string_view reduce, bool include_self) {
  CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", RuntimeError,
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {}.",
        reduce);
  // Whole slices are combined by other kernels than single elements.
  const bool in_slices = self.dim() > 1 && include_self;
  const bool compares = (reduce == "amax" || reduce == "amin") && index.numel() > 0;
  const DTypeSet accepted = !in_slices ? dtypes::Real : compares ? dtypes::RealBool : dtypes::All;
  CHECK(accepted.has(self.dtype()), NotImplementedError,
        "\"index_reduce\" not implemented for '{}'", dtype_legacy_name(self.dtype()));
  dim = wrap_dim(dim, self.dim());
  const Tensor vector = index_of_slices("index_reduce_", self, dim, index, source);
  Dims shape(std::max<int64_t>(source.dim(), 1), 1);
  shape[dim] = vector.numel();
  const Tensor indices = source.dim() == 0 ? reshape(vector, IntSpan())
                                           : expand(reshape(vector, shape), source.sizes());
  return scatter_reduce_(self, dim, indices, source, reduce, include_self);
}
Tensor index_reduce(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self) {
  return index_reduce_(clone(input, MemoryFormat::contiguous), dim, index, source, reduce,
                       include_self);
}

}  // namespace
OP((one_step<index_reduce, "index_reduce">),
   "index_reduce(input, dim, index, source, reduce, *, include_self=True)",
   "A copy of input whose slices along dim, named by index, are combined with those of source.",
   along)
OP_METHOD(index_reduce_, "index_reduce_(self, dim, index, source, reduce, *, include_self=True)",
          "Combines the slices of self along dim that index names with those of source.", along)

BATCH(index_reduce, batch_at_index)

}  // namespace flambeau
