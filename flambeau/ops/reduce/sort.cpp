// Sorting and selection along a dimension.
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

Pair sort(const Tensor& input, int64_t dim, bool descending, std::optional<bool> stable) {
  dim = wrap_dim(dim, input.dim());
  CHECK(!input.is_complex(), TypeError, "sort(): Sort does not support complex dtypes, got {}",
        input.dtype());
  const Tensor x = detach(input);
  Tensor values = empty_like(x), indices = empty_like(x, DType::int64);
  kernels::sort(x.device_type(), x, values, indices, dim, descending);
  record_selection(stable.value_or(false) ? "sort.1" : "sort", input, dim, true, values, indices);
  return {values, indices};
}
OP(sort,
   "sort.default/stable(input, dim=-1, descending=False, *, stable=False) -> (values, indices)",
   "The elements in order along dim, and the indices that they had. NaN counts as the largest; "
   "equal elements keep their order.",
   along | takes_quantized)

Tensor argsort(const Tensor& input, int64_t dim, bool descending, std::optional<bool> stable) {
  return std::get<1>(sort(input, dim, descending, stable));
}
OP(argsort, "argsort(input, dim=-1, descending=False, *, stable=False)",
   "The indices that put the elements in order along dim.", along | takes_quantized | no_out)

Tensor msort(const Tensor& input) { return std::get<0>(sort(input, 0, false, false)); }
OP(msort, "msort(input)", "The elements in order along the first dimension.", takes_quantized)

// The result of selecting `size` elements along dim.
Pair make_selected(const Tensor& input, int64_t dim, int64_t size) {
  Dims shape = input->sizes;
  if (input.dim() > 0) shape[dim] = size;
  return {make_tensor(shape, input.dtype(), input.device()),
          make_tensor(shape, DType::int64, input.device())};
}

Pair topk(const Tensor& input, int64_t k, int64_t dim, bool largest, bool /*sorted*/) {
  dim = wrap_dim(dim, input.dim());
  const int64_t size = input.dim() > 0 ? input->sizes[dim] : 1;
  CHECK(k >= 0 && k <= size, RuntimeError,
        "selected index k out of range: topk got k = {} for dimension {} of size {}", k, dim, size);
  CHECK(!input.is_complex(), TypeError, "topk does not support complex dtypes, got {}",
        input.dtype());
  CHECK(input.dtype() != DType::bool_, NotImplementedError, "topk does not support bool dtypes");
  auto [values, indices] = make_selected(input, dim, k);
  // The one element of a zero-dim tensor is the answer even to k = 0.
  const int64_t wanted = input.dim() > 0 ? k : 1;
  kernels::topk(input.device_type(), input, values, indices, wanted, dim, largest);
  record_selection("topk", input, dim, true, values, indices);
  return {values, indices};
}
OP(topk, "topk(input, k, dim=-1, largest=True, sorted=True) -> (values, indices)",
   "The k largest, or smallest, elements along dim, and their indices.", along | takes_quantized)

// A selection of one element along dim that drops the dimension unless it is kept.
template <class Kernel>
Pair select_one(const char* op, const Tensor& input, int64_t dim, bool keepdim,
                const Kernel& kernel) {
  auto [values, indices] = make_selected(input, dim, 1);
  if (input.dim() == 0 && std::string_view(op) == "kthvalue") {  // the only one, of any dtype
    const NoGrad off;
    copy_(values, input);
    zero_(indices);
  } else {
    kernel(values, indices);
  }
  if (!keepdim && input.dim() > 0) {
    const Dims shape = reduced_shape(input.sizes(), DimSet::of(dim, input.dim()), false);
    values = make_over(values.storage(), shape, contiguous_strides(shape), 0, values.dtype());
    indices = make_over(indices.storage(), shape, contiguous_strides(shape), 0, DType::int64);
  }
  record_selection(op, input, dim, keepdim, values, indices);
  return {values, indices};
}

Pair kthvalue(const Tensor& input, int64_t k, int64_t dim, bool keepdim) {
  dim = wrap_dim(dim, input.dim());
  const int64_t size = input.dim() > 0 ? input->sizes[dim] : 1;
  CHECK(size != 0, IndexError, "kthvalue(): Expected reduction dim {} to have non-zero size.", dim);
  CHECK(k >= 1 && k <= size, RuntimeError,
        "kthvalue(): selected number k out of range for dimension {}: k = {}, size {}", dim, k,
        size);
  return select_one("kthvalue", input, dim, keepdim, [&](const Tensor& values, const Tensor& at) {
    if (input.dim() == 0) {
      // The one element, whatever its dtype.
      copy_(values, detach(input));
      fill_(at, 0);
      return;
    }
    kernels::kthvalue(input.device_type(), input, values, at, k, dim);
  });
}
OP(kthvalue, "kthvalue(input, k, dim=-1, keepdim=False) -> (values, indices)",
   "The k-th smallest element along dim, counting from 1, and its index.", picks | reduces)

Pair median_along(const char* op, const Tensor& input, int64_t dim, bool keepdim, bool ignore_nan) {
  dim = wrap_dim(dim, input.dim());
  if (input.dim() > 0) {
    CHECK(input->sizes[dim] != 0, IndexError,
          "{}(): Expected reduction dim {} to have non-zero size.",
          ignore_nan ? "nanmedian" : "median", dim);
  }
  return select_one(op, input, dim, keepdim, [&](const Tensor& values, const Tensor& at) {
    kernels::median(input.device_type(), input, values, at, dim, ignore_nan);
  });
}

// NaN, or what the conversion of it gives.
Scalar no_median(DType dtype) {
  if (is_differentiable(dtype)) return std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::bool_) return true;
  if (dtype == DType::int64) return std::numeric_limits<int64_t>::min();
  if (dtype == DType::int32) return int64_t{std::numeric_limits<int32_t>::min()};
  return 0;
}

// Without dim, equal elements share the gradient.
Tensor median_of_all(const char* op, const Tensor& input, bool ignore_nan) {
  const Tensor flat = reshape(detach(input), {-1});
  Tensor out = flat.numel() == 0 ? full({}, no_median(input.dtype()), options_of(input))
                                 : std::get<0>(median_along(op, flat, 0, false, ignore_nan));
  if (Record r{op, out, {input}}) {
    r.wrt(0, [x = r.save(input), y = r.save_output(out)](const Tensor& g) {
      const Tensor values = x(), middle = y();
      const Tensor chosen = (values == middle) | (isnan(values) & isnan(middle));
      return where(chosen, g / sum(chosen), 0.0);
    });
  }
  return out;
}

Tensor median_all(const Tensor& input) { return median_of_all("median", input, false); }
Pair median_dim(const Tensor& input, int64_t dim, bool keepdim) {
  return median_along("median.1", input, dim, keepdim, false);
}
Tensor nanmedian_all(const Tensor& input) { return median_of_all("nanmedian", input, true); }
Pair nanmedian_dim(const Tensor& input, int64_t dim, bool keepdim) {
  return median_along("nanmedian.1", input, dim, keepdim, true);
}
OP(median_all, "median(input)", "The lower of the two middle elements; NaN if there is one.",
   reduces | no_out)
OP(median_dim, "median.dim(input, dim, keepdim=False) -> (values, indices)",
   "The lower of the two middle elements along dim, and its index.", reduces)
OP(nanmedian_all, "nanmedian(input)", "The lower of the two middle elements that are not NaN.",
   reduces | no_out)
OP(nanmedian_dim, "nanmedian.dim(input, dim, keepdim=False) -> (values, indices)",
   "The lower of the two middle elements along dim that are not NaN, and its index.", reduces)

}  // namespace
}  // namespace flambeau
