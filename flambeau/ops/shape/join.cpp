// Ops that put tensors together: cat, stack and their relatives.
#include "flambeau/kernels/join.h"

#include <algorithm>

#include "flambeau/base/warn.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

// Programs build up lists from torch.tensor([]): such a vector of nothing joins with anything.
bool is_nothing(const Tensor& tensor) { return tensor.dim() == 1 && tensor->sizes[0] == 0; }

struct Joined {
  Dims sizes;
  DType dtype;
  MemoryFormat format;
};

void check_fits(const Tensor& tensor, size_t number, const Dims& sizes, int64_t dim) {
  CHECK(tensor.dim() == static_cast<int64_t>(sizes.size()), RuntimeError,
        "Tensors must have same number of dimensions: got {} and {} (tensor number {} of cat has "
        "shape {})",
        sizes.size(), tensor.dim(), number, tensor.sizes());
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    CHECK(
        d == dim || tensor->sizes[d] == sizes[d], RuntimeError,
        "Sizes of tensors must match except in dimension {}. Expected size {} but got size {} for "
        "tensor number {} in the list.",
        dim, sizes[d], tensor->sizes[d], number);
  }
}

Joined plan_cat(const std::vector<Tensor>& tensors, int64_t& dim) {
  CHECK(!tensors.empty(), ValueError, "torch.cat(): expected a non-empty list of Tensors");
  const Tensor* lead = nullptr;
  ResultType type;
  bool same_format = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    CHECK(tensor.dim() > 0, RuntimeError,
          "zero-dimensional tensor (at position {}) cannot be concatenated", i);
    CHECK(tensor.device() == tensors[0].device(), RuntimeError,
          "cat: Expected all tensors to be on the same device, but found at least two devices, {} "
          "and "
          "{}!",
          tensors[0].device(), tensor.device());
    type.add(tensor);
    if (is_nothing(tensor)) continue;
    if (!lead) lead = &tensor;
    same_format = same_format && suggest_format(tensor) == suggest_format(*lead);
  }
  if (!lead) {
    lead = &tensors[0];
    dim = 0;  // as in PyTorch, which does not look at it where there is nothing to join
  }
  dim = wrap_dim(dim, lead->dim());
  Joined plan{(*lead)->sizes, type.get(),
              same_format ? suggest_format(*lead) : MemoryFormat::contiguous};
  plan.sizes[dim] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_nothing(tensors[i])) continue;
    check_fits(tensors[i], i, plan.sizes, dim);
    CHECK(!__builtin_add_overflow(plan.sizes[dim], tensors[i]->sizes[dim], &plan.sizes[dim]),
          RuntimeError, "cat(): the size of dimension {} of all tensors together is too large",
          dim);
  }
  return plan;
}

// A channels-last tensor with its dimensions in the order in which they lie in memory.
Tensor in_memory_order(const Tensor& tensor) {
  Dims sizes, strides;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d == 1) continue;
    sizes.push_back(tensor->sizes[d]);
    strides.push_back(tensor->strides[d]);
  }
  sizes.push_back(tensor->sizes[1]);
  strides.push_back(tensor->strides[1]);
  return make_alias(tensor, sizes, strides, tensor.offset());
}

// Whether the dimensions before `dim` are steps of one length between rows without gaps.
bool lies_in_rows(const Tensor& part, int64_t dim) {
  if (part.numel() == 0) return true;
  int64_t next = 1, d = part.dim();  // the stride that continues what was seen so far
  while (--d >= dim) {
    if (part->sizes[d] != 1 && part->strides[d] != next) return false;
    next *= part->sizes[d];
  }
  bool innermost = true;
  for (; d >= 0; --d) {
    if (part->sizes[d] == 1) continue;
    if (!innermost && part->strides[d] != next) return false;
    next = part->strides[d] * part->sizes[d];
    innermost = false;
  }
  return true;
}

// Whether rows have one element of each tensor, which tensors that lie otherwise are put in order
// for: a copy more costs less than single elements do that are written far apart.
bool alternates(const std::vector<Tensor>& parts, const Tensor& out, int64_t dim) {
  return dim == out.dim() - 1 && out->sizes[dim] == static_cast<int64_t>(parts.size()) &&
         out.device().is_cpu();
}

void copy_joined(std::vector<Tensor> parts, const Tensor& out, int64_t dim) {
  const bool in_order = alternates(parts, out, dim);
  const auto fits = [&](const Tensor& part) {
    return part.dtype() == out.dtype() && (in_order || part.is_contiguous() ||
                                           (part.device().is_cpu() && lies_in_rows(part, dim)));
  };
  if (out.is_contiguous() && kernels::cat.filled(out.device_type()) &&
      std::all_of(parts.begin(), parts.end(), fits)) {
    if (in_order) {
      for (Tensor& part : parts) part = contiguous(part);
    }
    int64_t rows = 1;
    for (int64_t d = 0; d < dim; ++d) rows *= out->sizes[d];
    return kernels::cat(out.device_type(), parts, out, rows, dim);
  }
  int64_t start = 0;
  Dims sizes = out->sizes;
  for (const Tensor& part : parts) {
    sizes[dim] = part->sizes[dim];
    copy_(make_alias(out, sizes, out.strides(), out.offset() + start * out->strides[dim]), part);
    start += part->sizes[dim];
  }
}

void fill_joined(const std::vector<Tensor>& tensors, const Tensor& out, int64_t dim,
                 MemoryFormat format) {
  const NoGrad off;
  const bool channels_last = format != MemoryFormat::contiguous;
  std::vector<Tensor> parts;
  parts.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    if (!is_nothing(tensor) || out.dim() == 1) {
      parts.push_back(channels_last ? in_memory_order(tensor) : tensor);
    }
  }
  if (!channels_last) return copy_joined(std::move(parts), out, dim);
  copy_joined(std::move(parts), in_memory_order(out),
              dim == 0   ? 0
              : dim == 1 ? out.dim() - 1
                         : dim - 1);
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
  return grad_enabled() && std::any_of(tensors.begin(), tensors.end(),
                                       [](const Tensor& tensor) { return tensor.requires_grad(); });
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  REDIRECT(cat, tensors, dim)
  const Joined plan = plan_cat(tensors, dim);
  Tensor out = plan.format == MemoryFormat::contiguous
                   ? make_tensor(plan.sizes, plan.dtype, tensors[0].device())
                   : make_strided(plan.sizes, format_strides(plan.sizes, plan.format), plan.dtype,
                                  tensors[0].device());
  fill_joined(tensors, out, dim, plan.format);
  if (!any_requires_grad(tensors)) return out;
  if (Record r{"cat", out, tensors}) {
    int64_t start = 0;
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      if (is_nothing(tensors[i]) && out.dim() != 1) {
        r.wrt(i, [](const Tensor& g) { return zeros(0, options_of(g)); });
        continue;
      }
      const int64_t length = tensors[i]->sizes[dim];
      r.wrt(i, [=](const Tensor& g) { return narrow(g, dim, start, length); });
      start += length;
    }
  }
  return out;
}
namespace {
Tensor cat_out(const std::vector<Tensor>& tensors, int64_t dim, const Tensor& out) {
  const Joined plan = plan_cat(tensors, dim);
  CHECK(can_cast(plan.dtype, out.dtype()), TypeError,
        "torch.cat(): input types can't be cast to the desired output type {}",
        dtype_legacy_name(out.dtype()));
  CHECK(
      !any_requires_grad(tensors) && !(grad_enabled() && out.requires_grad()), RuntimeError,
      "cat(): functions with out=... arguments don't support automatic differentiation, but one of "
      "the arguments requires grad.");
  CHECK(
      out.device() == tensors[0].device(), RuntimeError,
      "torch.cat(): all input tensors and out must be on the same device, but inputs are on {} and "
      "out is on {}",
      tensors[0].device(), out.device());
  for (const Tensor& tensor : tensors) {
    const bool same = tensor.storage() == out.storage() && tensor.offset() == out.offset() &&
                      tensor.sizes() == out.sizes();
    // An input that is the output itself would grow with it, also if it is empty now.
    const bool grows = tensor.is_same(out) && !(out.sizes() == plan.sizes);
    CHECK(!grows && (!same || out.numel() == 0), RuntimeError,
          "cat: unsupported operation: the input tensors cannot refer to any of the output memory "
          "locations. Found overlap in out=");
    check_no_partial_overlap("cat", out, tensor);
  }
  const Dims strides = plan.format == MemoryFormat::contiguous
                           ? contiguous_strides(plan.sizes)
                           : format_strides(plan.sizes, plan.format);
  if (!(out.sizes() == plan.sizes)) resize_tensor(out, plan.sizes, strides);
  const Tensor target = make_alias(out);
  target->version = nullptr;  // all the parts are one write
  fill_joined(tensors, target, dim,
              out.strides() == strides ? plan.format : MemoryFormat::contiguous);
  out.bump_version("cat");
  return out;
}
}  // namespace
#define CAT_OPS(name)                                                                          \
  OP_FUNCTION(cat, name "(tensors, dim=0)", "The tensors joined along an existing dimension.", \
              moves | joins | takes_quantized | autocast_widest)                               \
  OP_OUT(cat_out, name "(tensors, dim=0, *, out)")
CAT_OPS("cat")
CAT_OPS("concat")
CAT_OPS("concatenate")
#undef CAT_OPS

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  REDIRECT(stack, tensors, dim)
  CHECK(!tensors.empty(), RuntimeError, "stack expects a non-empty TensorList");
  const Tensor& first = tensors[0];
  dim = wrap_dim(dim, first.dim() + 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(tensors[i].sizes() == first.sizes(), RuntimeError,
          "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}",
          first.sizes(), tensors[i].sizes(), i);
  }
  Tensor out;
  {
    const NoGrad off;
    if (dim == first.dim()) {
      std::vector<Tensor> parts;
      parts.reserve(tensors.size());
      for (const Tensor& tensor : tensors) parts.push_back(unsqueeze(tensor, dim));
      out = cat(parts, dim);
    } else {  // joined along the dimension that the new one goes before
      const Tensor joined = cat(tensors, dim);
      Dims sizes = joined->sizes, strides = joined->strides;
      sizes[dim] = first->sizes[dim];
      sizes.insert(sizes.begin() + dim, static_cast<int64_t>(tensors.size()));
      strides.insert(strides.begin() + dim, next_stride(strides[dim], first->sizes[dim]));
      if (joined.numel() == 0) strides = contiguous_strides(sizes);
      out = make_alias(joined, sizes, strides, 0);
    }
  }
  if (!any_requires_grad(tensors)) return out;
  if (Record r{"stack", out, tensors}) {
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      r.wrt(i, [dim, i](const Tensor& g) { return select(g, dim, i); });
    }
  }
  return out;
}
OP_FUNCTION(stack, "stack(tensors, dim=0)", "The tensors joined along a new dimension.",
            casts_out | type_error_out | joins | autocast_widest | moves | takes_quantized)

// --- Shapes with at least so many dimensions ---------------------------------------------------

namespace {

Tensor atleast_1d(const Tensor& input) { return input.dim() == 0 ? reshape(input, 1) : input; }
Tensor atleast_2d(const Tensor& input) {
  if (input.dim() == 0) return reshape(input, {1, 1});
  return input.dim() == 1 ? unsqueeze(input, 0) : input;
}
Tensor atleast_3d(const Tensor& input) {
  if (input.dim() == 0) return reshape(input, {1, 1, 1});
  if (input.dim() == 1) return unsqueeze(unsqueeze(input, 0), -1);
  return input.dim() == 2 ? unsqueeze(input, -1) : input;
}
template <class Each>
std::vector<Tensor> map(const std::vector<Tensor>& tensors, Each each) {
  std::vector<Tensor> out;
  for (const Tensor& tensor : tensors) out.push_back(each(tensor));
  return out;
}
#define ATLEAST(op)                                                                             \
  std::vector<Tensor> op##_all(const std::vector<Tensor>& tensors) { return map(tensors, op); } \
  OP_FUNCTION(op, #op "(input)", "A view of input with at least so many dimensions.",           \
              makes_view | composed)                                                            \
  OP_FUNCTION(op##_all, #op "(*tensors)", "Views with at least so many dimensions.",            \
              makes_view | composed)
ATLEAST(atleast_1d)
ATLEAST(atleast_2d)
ATLEAST(atleast_3d)
#undef ATLEAST

void check_not_empty(const char* op, const std::vector<Tensor>& tensors) {
  CHECK(!tensors.empty(), RuntimeError, "{} expects a non-empty TensorList", op);
}
Tensor hstack(const std::vector<Tensor>& tensors) {
  check_not_empty("hstack", tensors);
  const std::vector<Tensor> parts = map(tensors, atleast_1d);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& tensors) {
  check_not_empty("vstack", tensors);
  return cat(map(tensors, atleast_2d), 0);
}
Tensor dstack(const std::vector<Tensor>& tensors) {
  check_not_empty("dstack", tensors);
  return cat(map(tensors, atleast_3d), 2);
}
Tensor column_stack(const std::vector<Tensor>& tensors) {
  check_not_empty("column_stack", tensors);
  return cat(map(tensors,
                 [](const Tensor& x) {
                   return x.dim() <= 1 ? reshape(x, {x.numel(), 1}) : x;
                 }),
             1);
}

// Blocks along the diagonal of a matrix of zeros.
Tensor block_diag(const std::vector<Tensor>& tensors) {
  ResultType type;
  int64_t height = 0, width = 0;
  std::vector<Tensor> blocks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(tensors[i].dim() <= 2, RuntimeError,
          "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {} has {} "
          "dimensions",
          i, tensors[i].dim());
    CHECK(tensors[i].device() == tensors[0].device(), RuntimeError,
          "torch.block_diag: input tensors must all be on the same device. Input 0 is on device {} "
          "and input {} is on device {}",
          tensors[0].device(), i, tensors[i].device());
    blocks.push_back(atleast_2d(tensors[i]));
    type.add(tensors[i]);
    height += blocks.back()->sizes[0];
    width += blocks.back()->sizes[1];
  }
  if (tensors.empty()) return empty({1, 0});
  Options options = options_of(tensors[0]);
  options.dtype = type.get();
  Tensor out = make_tensor({height, width}, type.get(), tensors[0].device());
  {
    const NoGrad off;
    const Tensor nothing = zeros(width, options);  // a row, which all rows repeat
    int64_t above = 0, before = 0;
    for (const Tensor& block : blocks) {
      const int64_t h = block->sizes[0], w = block->sizes[1], after = width - before - w;
      const Tensor rows = make_alias(out, {h, width}, {width, 1}, above * width);
      copy_joined({expand(narrow(nothing, 0, 0, before), {h, before}), block,
                   expand(narrow(nothing, 0, 0, after), {h, after})},
                  rows, 1);
      above += h;
      before += w;
    }
  }
  if (!any_requires_grad(tensors)) return out;
  if (Record r{"block_diag", out, tensors}) {
    int64_t above = 0, before = 0;
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      const int64_t h = blocks[i]->sizes[0], w = blocks[i]->sizes[1];
      r.wrt(i, [=, sizes = tensors[i]->sizes](const Tensor& g) {
        return reshape(narrow(narrow(g, 0, above, h), 1, before, w), sizes);
      });
      above += h;
      before += w;
    }
  }
  return out;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors,
                             std::optional<std::string_view> indexing) {
  check_not_empty("meshgrid", tensors);
  if (!indexing) {
    static std::atomic<bool> told{false};
    warn_once(told,
              "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
              "argument; without it the grids are those of indexing='ij'.");
  }
  const std::string_view order = indexing.value_or("ij");
  CHECK(order == "ij" || order == "xy", RuntimeError,
        "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}", order);
  Dims shape;
  for (const Tensor& tensor : tensors) {
    CHECK(tensor.dim() <= 1, RuntimeError,
          "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {}",
          tensor.sizes());
    CHECK(tensor.dtype() == tensors[0].dtype(), RuntimeError,
          "meshgrid expects all tensors to have the same dtype, got {} and {}", tensors[0].dtype(),
          tensor.dtype());
    CHECK(tensor.device() == tensors[0].device(), RuntimeError,
          "meshgrid expects all tensors to have the same device");
    shape.push_back(tensor.numel());
  }
  const bool swap = order == "xy" && tensors.size() >= 2;
  if (swap) std::swap(shape[0], shape[1]);
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims own(tensors.size(), 1);
    own[swap && i < 2 ? 1 - i : i] = tensors[i].numel();
    grids.push_back(expand(reshape(tensors[i], own), shape));
  }
  return grids;
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors) {
  check_not_empty("cartesian_prod", tensors);
  for (const Tensor& tensor : tensors) {
    CHECK(tensor.dim() == 1, RuntimeError, "cartesian_prod: Expect a 1D vector, but got shape {}",
          tensor.sizes());
  }
  if (tensors.size() == 1) return tensors[0];
  return reshape(stack(meshgrid(tensors, "ij"), -1), {-1, static_cast<int64_t>(tensors.size())});
}

}  // namespace
OP_FUNCTION(hstack, "hstack(tensors)", "The tensors joined side by side.",
            casts_out | type_error_out | moves | takes_quantized | composed)
OP_FUNCTION(vstack, "vstack(tensors)", "The tensors joined one below the other.",
            casts_out | type_error_out | moves | takes_quantized | composed)
OP_FUNCTION(vstack, "row_stack(tensors)", "The tensors joined one below the other.",
            casts_out | type_error_out | moves | takes_quantized | composed)
OP_FUNCTION(dstack, "dstack(tensors)", "The tensors joined along the third dimension.",
            casts_out | type_error_out | moves | takes_quantized | composed)
OP_FUNCTION(column_stack, "column_stack(tensors)",
            "Vectors as columns, and matrices, joined side by side.",
            casts_out | type_error_out | moves | takes_quantized | composed)
OP_FUNCTION(block_diag, "block_diag(*tensors)", "A matrix with the tensors along its diagonal.",
            no_out)
OP_FUNCTION(meshgrid, "meshgrid(*tensors, *, indexing=None)",
            "The coordinates of the grid that vectors span, one tensor a dimension.",
            makes_view | composed)
OP_FUNCTION(cartesian_prod, "cartesian_prod(*tensors)",
            "All combinations of one element of each vector.",
            moves | takes_quantized | no_out | composed)

}  // namespace flambeau
