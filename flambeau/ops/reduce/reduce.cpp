// Sums, means and products over dimensions.
#include "flambeau/ops/reduce/reduce.h"

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/softmax.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/sparse/sparse.h"

namespace flambeau {
namespace {

// The input in the dtype that a sum or product is made in, and the dtype of its result.
struct Summands {
  Tensor input;
  DType result;
};

// Integers are added up in int64, whatever dtype the result shall have: wrapping around there and
// being cut afterwards is the same.
Summands summands(const Tensor& input, std::optional<DType> dtype) {
  const DType own = is_integral(input.dtype(), true) ? DType::int64 : input.dtype();
  const DType wanted = dtype.value_or(own);
  const Tensor x = wanted == own ? input : to(input, wanted);
  const DType result = is_integral(wanted, true) ? DType::int64 : wanted;
  return {dtypes::Unsigned.has(x.dtype()) ? to(x, DType::int64) : x, result};
}

Tensor finish_dtype(Tensor result, std::optional<DType> dtype) {
  return dtype && result.dtype() != *dtype ? to(result, *dtype) : result;
}

// Of named dimensions, or of all at once.
Tensor sum_over(bool named, const Tensor& input, DimSet dims, bool keepdim,
                std::optional<DType> dtype) {
  if (dtype.value_or(input.dtype()) == DType::complex32 && !input.device().is_cpu())
    return to(sum_over(named, input, dims, keepdim, DType::complex64), DType::complex32);
  const Summands x = summands(input, dtype);
  Tensor out = reduce_with(kernels::sum, x.input, dims, keepdim, x.result);
  if (Record r{named ? "sum.1" : "sum", out, {x.input}}) {
    r.wrt(0, [sizes = x.input->sizes, dims, keepdim, named](const Tensor& g) {
      return named ? spread_back(g, sizes, dims, keepdim) : expand(g, sizes);
    });
  }
  return finish_dtype(std::move(out), dtype);
}

}  // namespace

Tensor sum(const Tensor& input, std::optional<DType> dtype) {
  REDIRECT(sum, input, dtype)
  return sum_over(false, input, DimSet::all(input.dim()), false, dtype);
}

Tensor sum(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
           std::optional<DType> dtype) {
  REDIRECT(sum, input, dim, keepdim, dtype)
  return sum_over(true, input, DimSet::of(dim, input.dim()), keepdim, dtype);
}

static Tensor sum_all(const Tensor& input, std::optional<DType> dtype) { return sum(input, dtype); }
static Tensor sum_dims(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
                       std::optional<DType> dtype) {
  return sum(input, dim, keepdim, dtype);
}
OP(sum_all, "sum(input, *, dtype=None)", "The sum of all elements.",
   reduces | cuda_exact | takes_jagged | takes_nested | no_out)
OP(sum_dims, "sum.dim_IntList(input, dim, keepdim=False, *, dtype=None)",
   "The sum of the elements along the given dimensions.",
   reduces | cuda_exact | takes_jagged | takes_nested | out_repeats | dtype_of_out)

Tensor sum_to_size(const Tensor& input, IntSpan size) {
  REDIRECT(sum_to_size, input, size)
  if (input.sizes() == size) return input;
  if (input->parts) [[unlikely]]
    return sum_to_size(to_dense(input), size);
  CHECK(can_broadcast_to(size, input.sizes()), RuntimeError,
        "size {{}} is not expandable to size {{}}.", size, input.sizes());
  const int64_t lead = input.dim() - static_cast<int64_t>(size.size());
  Dims dims;
  Tensor x = input;
  int64_t copies = 1;  // of what is expanded, as gradients of sums are
  for (int64_t d = 0; d < input.dim(); ++d) {
    const int64_t n = input->sizes[d];
    if (n == 1 || (d >= lead && size[d - lead] != 1)) continue;
    if (n > 1 && input->strides[d] == 0 && is_differentiable(input.dtype())) {
      x = narrow(x, d, 0, 1);
      copies *= n;
    } else {
      dims.push_back(d);
    }
  }
  Tensor summed = dims.empty() ? x : sum(x, IntSpan(dims), true);
  if (copies > 1) summed = summed * copies;
  return lead > 0 ? view(summed, size) : summed;
}
static Tensor sum_to_size_op(const Tensor& input, IntSpan size) {
  return size.size() == 0 ? sum(input) : sum_to_size(input, size);
}
OP_METHOD(sum_to_size_op, "sum_to_size(input, *size)",
          "input summed over the dimensions in which size would have to be expanded to its shape.",
          composed)

Tensor mean(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
            std::optional<DType> dtype) {
  REDIRECT(mean, input, dim, keepdim, dtype)
  CHECK(dtype || is_differentiable(input.dtype()), NotImplementedError,
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: {}",
        dtype_legacy_name(input.dtype()));
  CHECK(!dtype || is_differentiable(*dtype), NotImplementedError,
        "mean(): could not infer output dtype. Optional dtype must be either a floating point or "
        "complex dtype. Got: {}",
        dtype_legacy_name(*dtype));
  // A mean in half precision is still made in single precision, and rounded once.
  if (dtype && dtypes::Reduced.has(*dtype) && *dtype != input.dtype()) {
    return to(mean(to(input, DType::float32), dim, keepdim), *dtype);
  }
  const Tensor x = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  const DimSet dims = DimSet::of(dim, x.dim());
  Tensor out = reduce_with(kernels::mean, x, dims, keepdim, x.dtype());
  if (Record r{dim ? "mean.1" : "mean", out, {x}}) {
    const auto count = static_cast<double>(reduced_count(x.sizes(), dims));
    r.wrt(0, [sizes = x->sizes, dims, keepdim, count](const Tensor& g) {
      return spread_back(g, sizes, dims, keepdim) / count;
    });
  }
  return out;
}
static Tensor mean_all(const Tensor& input, std::optional<DType> dtype) {
  return mean(input, std::nullopt, false, dtype);
}
OP(mean_all, "mean(input, *, dtype=None)", "The mean of all elements.",
   casts_out | reduces | takes_jagged)
OP(mean, "mean.dim(input, dim, keepdim=False, *, dtype=None)",
   "The mean of the elements along the given dimensions.", casts_out | reduces | takes_jagged)

namespace {

Tensor nansum(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
              std::optional<DType> dtype) {
  const bool complex = input.is_complex() || (dtype && is_complex(*dtype));
  CHECK(!complex || !input.device().is_cpu(), NotImplementedError,
        "nansum on CPU does not support complex inputs");
  // Integers hold no NaN.
  if (!is_differentiable(input.dtype())) return sum(input, dim, keepdim, dtype);
  if (dtype && !is_differentiable(*dtype))
    return sum(masked_fill(input, isnan(input), 0.0), dim, keepdim, dtype);
  const Tensor x = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  const DimSet dims = DimSet::of(dim, x.dim());
  Tensor out = reduce_with(kernels::nansum, x, dims, keepdim, x.dtype());
  if (Record r{"nansum", out, {x}}) {
    r.wrt(0, [kept = r.save(x), dims, keepdim](const Tensor& g) {
      const Tensor values = kept();
      return spread_back(g, values.sizes(), dims, keepdim) * (values == values);
    });
  }
  return out;
}
OP(nansum, "nansum(input, dim=None, keepdim=False, *, dtype=None)",
   "The sum of the elements that are not NaN, of all or along the given dimensions.",
   casts_out | reduces | out_repeats)

Tensor nanmean(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
               std::optional<DType> dtype) {
  CHECK(is_differentiable(input.dtype()), NotImplementedError,
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        dtype_legacy_name(input.dtype()));
  const Tensor count = sum(input == input, dim, keepdim);
  return nansum(input, dim, keepdim, dtype) / count;
}
OP(nanmean, "nanmean(input, dim=None, keepdim=False, *, dtype=None)",
   "The mean of the elements that are not NaN, of all or along the given dimensions.",
   casts_out | reduces)

Tensor logsumexp(const Tensor& input, IntSpan dim, bool keepdim) {
  const Tensor x = is_integral(input.dtype(), true) ? to(input, default_dtype()) : input;
  const DimSet dims = DimSet::of(dim, x.dim());
  Tensor out;
  {
    const NoGrad off;
    if (x.numel() == 0) {
      out = log(sum(exp(x), dim, keepdim));
    } else if (dim.size() == 1 && !x.is_complex() && kernels::logsumexp.filled(x.device_type())) {
      out = make_tensor(reduced_shape(x.sizes(), dims, keepdim), x.dtype(), x.device());
      kernels::logsumexp(x.device_type(), contiguous(x), out, wrap_dim(dim[0], x.dim()));
    } else {
      // The largest element, or real part, is taken out so that nothing overflows, unless it is
      // infinite itself.
      const Tensor sizes = x.is_complex() ? real(x) : x;
      const Tensor most = reduce_with(kernels::amax, sizes, dims, true, sizes.dtype());
      const Tensor shift = masked_fill(most, isinf(most), 0.0);
      const Tensor total = log(reduce_with(kernels::sum, exp(x - shift), dims, true, x.dtype()));
      out = total + shift;
      const Dims shape = reduced_shape(x.sizes(), dims, keepdim);
      set_geometry(*out.impl(), shape, contiguous_strides(shape));
    }
  }
  if (Record r{"logsumexp", out, {x}}) {
    r.wrt(0, [kept = r.save(x), y = r.save_output(out), dims, keepdim](const Tensor& g) {
      const Tensor values = kept();
      const IntSpan sizes = values.sizes();
      return with_reduced_dims(g, sizes, dims, keepdim) *
             conj(exp(values - with_reduced_dims(y(), sizes, dims, keepdim)));
    });
  }
  return out;
}
OP(logsumexp, "logsumexp(input, dim, keepdim=False)",
   "The logarithm of the sum of exponentials along the given dimensions, without overflow.",
   casts_out | reduces | cuda_exact | in_special)

}  // namespace
}  // namespace flambeau
