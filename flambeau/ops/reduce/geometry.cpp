// Shapes and strides of reductions; see reduce.h.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {

DimSet DimSet::of(std::optional<IntSpan> dims, int64_t rank) {
  if (!dims || dims->empty()) return all(rank);
  uint64_t bits = 0;
  for (const int64_t dim : *dims) {
    const uint64_t bit = 1ull << wrap_dim(dim, rank);
    CHECK(!(bits & bit), RuntimeError, "dim {} appears multiple times in the list of dims {}",
          wrap_dim(dim, rank), *dims);
    bits |= bit;
  }
  return rank == 0 ? DimSet() : DimSet(bits);
}

Dims reduced_shape(IntSpan sizes, DimSet dims, bool keepdim) {
  Dims shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!dims.has(d)) {
      shape.push_back(sizes[d]);
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return shape;
}

namespace {

// Wraps only in a tensor without elements, whose other sizes and strides may be of any size.
int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

int64_t reduced_count(IntSpan sizes, DimSet dims) {
  int64_t count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (dims.has(d)) count = product(count, sizes[d]);
  }
  return count;
}

namespace {

struct Dimension {
  int64_t size, in, out;
};

// By the input's stride, smallest first.
bool is_kept_first(const Dimension& a, const Dimension& b) { return a.in < b.in; }
// The same, but of windows that overlap the longer dimension comes first, and what is expanded is
// best read whole, again and again.
bool is_reduced_first(const Dimension& a, const Dimension& b) {
  if ((a.in == 0) != (b.in == 0)) return b.in == 0;
  return a.in != b.in ? a.in < b.in : a.size > b.size;
}

// Sorts, and joins dimensions that are stepped through as one.
int order_and_merge(Dimension* dims, int n, bool (*first)(const Dimension&, const Dimension&)) {
  for (int i = 1; i < n; ++i) {
    for (int j = i; j > 0 && first(dims[j], dims[j - 1]); --j) std::swap(dims[j], dims[j - 1]);
  }
  int last = 0;
  for (int i = 1; i < n; ++i) {
    Dimension& inner = dims[last];
    if (dims[i].in == product(inner.size, inner.in) &&
        dims[i].out == product(inner.size, inner.out)) {
      inner.size = product(inner.size, dims[i].size);
    } else {
      dims[++last] = dims[i];
    }
  }
  return n ? last + 1 : 0;
}

}  // namespace

void describe_reduction(Reduction& r, const Tensor& input, DimSet dims, const Tensor& out,
                        const Tensor& second) {
  if (input.is_sparse()) [[unlikely]]
    refuse_sparse("sum", input);
  r.in = static_cast<const char*>(input.raw());
  r.out = out.defined() ? static_cast<char*>(out.raw()) : nullptr;
  r.second = second.defined() ? static_cast<char*>(second.raw()) : nullptr;
  r.in_dtype = input.dtype();
  r.out_dtype = out.defined() ? out.dtype() : second.dtype();
  const auto item = static_cast<int64_t>(input.item_size());
  const int64_t rank = input.dim();
  if (input.is_contiguous() && dims.is_all(rank)) {
    r.reduced_dims = 1;
    r.reduced_sizes[0] = r.count = input.numel();
    r.reduced_in[0] = item;
    return;
  }
  Dimension kept[max_dims], reduced[max_dims];
  int n_kept = 0, n_reduced = 0;
  int64_t step = 1;  // of the contiguous results
  for (int64_t d = rank - 1; d >= 0; --d) {
    const int64_t size = input->sizes[d], stride = product(input->strides[d], item);
    if (dims.has(d)) {
      r.count = product(r.count, size);
      if (size != 1) reduced[n_reduced++] = {size, stride, 0};
    } else {
      r.outputs = product(r.outputs, size);
      if (size != 1) kept[n_kept++] = {size, stride, step};
      step = product(step, size);
    }
  }
  r.kept_dims = order_and_merge(kept, n_kept, is_kept_first);
  if (r.count == 0) {  // kernels would look for elements along the other dimensions
    reduced[0] = {0, item, 0};
    n_reduced = 1;
  }
  r.reduced_dims = order_and_merge(reduced, n_reduced, is_reduced_first);
  for (int d = 0; d < r.kept_dims; ++d) {
    r.kept_sizes[d] = kept[d].size;
    r.kept_in[d] = kept[d].in;
    r.kept_out[d] = kept[d].out;
  }
  for (int d = 0; d < r.reduced_dims; ++d) {
    r.reduced_sizes[d] = reduced[d].size;
    r.reduced_in[d] = reduced[d].in;
  }
}

Tensor reduce_with(const ReduceSlot& slot, const Tensor& input, DimSet dims, bool keepdim,
                   DType out_dtype) {
  const Dims shape = reduced_shape(input.sizes(), dims, keepdim);
  Tensor out = make_tensor(shape, out_dtype, input.device());
  Reduction r;
  describe_reduction(r, input, dims, out);
  slot(input.device_type(), r);
  return out;
}

Tensor write_result(const Tensor& out, const Tensor& result) {
  const NoGrad off;
  if (!(out.sizes() == result.sizes())) {
    resize_tensor(out, result.sizes(), contiguous_strides(result.sizes()));
  }
  return copy_(out, result);
}

Tensor with_reduced_dims(const Tensor& reduced, IntSpan sizes, DimSet dims, bool keepdim) {
  if (keepdim || reduced.dim() == static_cast<int64_t>(sizes.size())) return reduced;
  return view(reduced, reduced_shape(sizes, dims, true));
}

Tensor spread_back(const Tensor& reduced, IntSpan sizes, DimSet dims, bool keepdim) {
  // A single value spreads without its dimensions being put back, unless they were named.
  if (reduced.dim() == 0 && sizes.size() != 1) return expand(reduced, sizes);
  return expand(with_reduced_dims(reduced, sizes, dims, keepdim), sizes);
}

void record_selection(const char* op, const Tensor& input, int64_t dim, bool keepdim,
                      const Tensor& values, const Tensor& indices) {
  Record r{op, {values, indices}, {input}};
  if (!r) return;
  const bool squeezed = !keepdim && input.dim() > 0;
  dim = wrap_dim(dim, input.dim());
  r.wrt(0, [sizes = input->sizes, dim, squeezed, at = r.save(indices)](const Tensor& g) {
    const Tensor index = at();
    const Tensor nothing = zeros(sizes, options_of(g));
    return squeezed ? scatter(nothing, dim, unsqueeze(index, dim), unsqueeze(g, dim))
                    : scatter(nothing, dim, index, g);
  });
}

void check_not_empty(const char* op, const Tensor& input, std::optional<IntSpan> dims) {
  if (input.numel() > 0) return;
  if (!dims || dims->empty()) {
    fail<RuntimeError>(
        "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction "
        "dim with the 'dim' argument.",
        op);
  }
  for (const int64_t dim : *dims) {
    CHECK(input.size(dim) != 0, IndexError,
          "{}(): Expected reduction dim {} to have non-zero size.", op, dim);
  }
}

}  // namespace flambeau
