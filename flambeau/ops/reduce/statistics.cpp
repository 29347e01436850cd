// Quantiles, covariances, norms held below a bound, and numbers taken apart. Compositions, but for
// frexp; their derivatives come from what they call.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"
#include "flambeau/ops/steps.h"

namespace flambeau {
namespace {

// --- Quantiles -----------------------------------------------------------------------------------

struct QuantileCall {
  const char* op;
  bool ignore_nan;
  std::string_view interpolation;
};

void check_quantile(const QuantileCall& call, const Tensor& input, const Tensor& q) {
  CHECK(input.numel() > 0, RuntimeError, "{}() input tensor must be non-empty", call.op);
  CHECK(q.dim() <= 1, RuntimeError, "{}() q must be a scalar or 1D tensor", call.op);
  CHECK(input.dtype() == DType::float32 || input.dtype() == DType::float64, RuntimeError,
        "{}() input tensor must be either float or double dtype", call.op);
  CHECK(q.dtype() == input.dtype(), RuntimeError,
        "{}() q tensor must be same dtype as the input tensor", call.op);
  CHECK(q.device() == input.device(), RuntimeError,
        "{}() q tensor must be on the same device as the input tensor", call.op);
  const std::string_view way = call.interpolation;
  CHECK(
      way == "linear" || way == "lower" || way == "higher" || way == "midpoint" || way == "nearest",
      RuntimeError,
      "{}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {}",
      call.op, way);
}

Tensor sorted_rows(const Tensor& x) {
  const Tensor plain = detach(x);
  Tensor values = empty_like(plain), indices = empty_like(plain, DType::int64);
  kernels::sort(x.device_type(), plain, values, indices, x.dim() - 1, false);
  record_selection("sort", x, x.dim() - 1, true, values, indices);
  return values;
}

// The k-th smallest element of each row, which stays as a row of one.
Tensor kth_of_rows(const Tensor& x, int64_t k) {
  Dims shape = x->sizes;
  shape.back() = 1;
  Tensor values = make_tensor(shape, x.dtype(), x.device());
  Tensor indices = make_tensor(shape, DType::int64, x.device());
  kernels::kthvalue(x.device_type(), detach(x), values, indices, k, x.dim() - 1);
  record_selection("kthvalue", x, x.dim() - 1, true, values, indices);
  return values;
}

// The ranks of the quantiles among sorted rows, one a row and a q.
Tensor quantile_ranks(const QuantileCall& call, const Tensor& rows, const Tensor& q) {
  const int64_t n = rows.size(-1);
  const Tensor is_nan = isnan(detach(rows));
  if (call.ignore_nan) {
    const Tensor numbers = sum(logical_not(is_nan), IntSpan{-1}, true);
    return clamp(q * (numbers - int64_t{1}), Scalar(0.0), std::nullopt);
  }
  // A row with a NaN, which sorts last, has nothing but NaN for a quantile.
  const Tensor spoilt = amax(is_nan, IntSpan{-1}, true);
  Dims shape = rows->sizes;
  shape.back() = q.numel();
  return masked_fill(expand(q * (n - 1), shape), spoilt, static_cast<double>(n - 1));
}

// To the nearest integer, halves to the even one.
Tensor nearest_rank(const Tensor& ranks) {
  const Tensor whole = floor(ranks), rest = ranks - whole;
  const Tensor is_odd = ne(floor(whole * 0.5) * 2, whole);
  return where((rest > 0.5) | ((rest == 0.5) & is_odd), whole + 1, whole);
}

Tensor at_ranks(const QuantileCall& call, const Tensor& sorted, const Tensor& ranks) {
  const std::string_view way = call.interpolation;
  if (way == "lower" || way == "higher" || way == "nearest") {
    const Tensor rank = way == "lower"    ? floor(ranks)
                        : way == "higher" ? ceil(ranks)
                                          : nearest_rank(ranks);
    return gather(sorted, -1, to(rank, DType::int64));
  }
  const Tensor below = to(ranks, DType::int64);
  const Tensor weight = way == "midpoint" ? full_like(ranks, 0.5) : ranks - below;
  const Tensor above = to(ceil(ranks), DType::int64);
  const Tensor low = gather(sorted, -1, below), high = gather(sorted, -1, above);
  // From the nearer end, so that both are met exactly.
  const Tensor step = high - low;
  return where(weight < 0.5, low + weight * step, high - (1 - weight) * step);
}

// One quantile of long rows without NaN takes two elements of each, not their order.
bool takes_two(const QuantileCall& call, const Tensor& rows, const Tensor& points) {
  return rows.size(-1) >= (1 << 16) && points.numel() == 1 && rows.device().is_cpu() &&
         call.interpolation != "nearest" &&
         !is_nonzero(amax(isnan(detach(rows)), std::nullopt, false));
}
Tensor between_two(const QuantileCall& call, const Tensor& rows, const Tensor& points) {
  const double rank = item(points * (rows.size(-1) - 1)).to_double();
  const auto below = static_cast<int64_t>(rank);
  Tensor low = kth_of_rows(rows, below + 1);
  if (rank == static_cast<double>(below)) return low;
  const Tensor high = kth_of_rows(rows, below + 2);
  const Tensor rest = full_like(detach(low), rank - static_cast<double>(below));
  return at_ranks(call, cat({low, high}, -1), rest);
}

Tensor quantile_of(const QuantileCall& call, const Tensor& input, const Tensor& q,
                   std::optional<int64_t> dim, bool keepdim) {
  check_quantile(call, input, q);
  const int64_t along = dim ? wrap_dim(*dim, input.dim()) : 0;
  Tensor rows;
  if (!dim || input.dim() == 0) {
    rows = reshape(input, {-1});
  } else {
    rows = transpose(unsqueeze(input, -1), along, -1);
  }
  const Tensor points = q.dim() == 0 ? unsqueeze(q, 0) : q;
  rows = contiguous(rows);
  Tensor found = takes_two(call, rows, points)
                     ? between_two(call, rows, points)
                     : at_ranks(call, sorted_rows(rows), quantile_ranks(call, rows, points));
  // The quantiles stand last; they come first in the result, or not at all.
  const bool one = q.dim() == 0;
  if (!dim || input.dim() == 0) {
    if (keepdim) {
      Dims shape(input.dim(), 1);
      shape.push_back(points.numel());
      found = reshape(found, shape);
    }
  } else if (!keepdim) {
    found = squeeze(found, IntSpan{along});
  }
  found = one ? squeeze(found, IntSpan{-1}) : movedim(found, IntSpan{-1}, IntSpan{0});
  // PyTorch interpolates and moves the dimension in place.
  const bool interpolates = call.interpolation == "linear" || call.interpolation == "midpoint";
  count_steps(found, (interpolates ? 2 : 1) + (one ? 0 : 2));
  return found;
}

Tensor checked_q(const QuantileCall& call, const Tensor& q) {
  if (q.numel() > 0 && q.device_type() == DeviceType::cpu) {
    CHECK(is_nonzero(eq(sum((q >= 0.0) & (q <= 1.0)), q.numel())), RuntimeError,
          "{}() q values must be in the range [0, 1]", call.op);
  }
  return q;
}

Tensor q_number(const QuantileCall& call, const Tensor& input, double q) {
  CHECK(q >= 0 && q <= 1, RuntimeError, "{}() q must be in the range [0, 1] but got {}", call.op,
        q);
  return full({}, q, options_of(input));
}

Tensor quantile(const Tensor& input, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  const QuantileCall call{"quantile", false, interpolation};
  check_quantile(call, input, q);
  return quantile_of(call, input, checked_q(call, q), dim, keepdim);
}
Tensor quantile_number(const Tensor& input, double q, std::optional<int64_t> dim, bool keepdim,
                       std::string_view interpolation) {
  const QuantileCall call{"quantile", false, interpolation};
  return quantile_of(call, input, q_number(call, input, q), dim, keepdim);
}
Tensor nanquantile(const Tensor& input, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  const QuantileCall call{"nanquantile", true, interpolation};
  check_quantile(call, input, q);
  return quantile_of(call, input, checked_q(call, q), dim, keepdim);
}
Tensor nanquantile_number(const Tensor& input, double q, std::optional<int64_t> dim, bool keepdim,
                          std::string_view interpolation) {
  const QuantileCall call{"nanquantile", true, interpolation};
  return quantile_of(call, input, q_number(call, input, q), dim, keepdim);
}
OP(quantile, "quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
   "The elements below which shares q of a row lie, one a value of q.",
   reduces | cpu_exact | out_records)
OP(quantile_number, "quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
   "The element below which a share q of a row lies.", reduces | cpu_exact | out_records)
OP(nanquantile, "nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
   "The quantiles of the elements that are not NaN.", reduces | cpu_exact | out_records)
OP(nanquantile_number, "nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
   "The quantile of the elements that are not NaN.", reduces | cpu_exact | out_records)

// --- Covariance ----------------------------------------------------------------------------------

void check_weights(const char* name, const Tensor& weights, int64_t observations, bool whole) {
  CHECK(weights.dim() <= 1, RuntimeError,
        "cov(): expected {} to have one or fewer dimensions but got {} with {} dimensions", name,
        name, weights.dim());
  CHECK(whole ? is_integral(weights.dtype()) : weights.is_floating(), RuntimeError,
        "cov(): expected {} to have {} dtype but got {} with {} dtype", name,
        whole ? "integral" : "floating point", name, dtype_legacy_name(weights.dtype()));
  CHECK(weights.numel() == observations, RuntimeError,
        "cov(): expected {} to have the same numel as there are observations in the input but got "
        "{} != {}",
        name, weights.numel(), observations);
  CHECK(observations == 0 || weights.device_type() == DeviceType::meta ||
            item(amin(detach(weights), std::nullopt, false)).to_double() >= 0,
        RuntimeError, "cov(): {} cannot be negative", name);
}

Tensor cov(const Tensor& input, int64_t correction, const Tensor& fweights,
           const Tensor& aweights) {
  CHECK(input.dim() <= 2, RuntimeError,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        input.dim());
  CHECK(input.dtype() != DType::bool_, NotImplementedError,
        "cov(): bool dtype is not supported for input");
  const Tensor x = input.dim() < 2 ? reshape(input, {1, -1}) : input;
  const int64_t observations = x.size(1);
  if (fweights.defined()) check_weights("fweights", fweights, observations, true);
  if (aweights.defined()) check_weights("aweights", aweights, observations, false);
  Tensor w = fweights;
  if (aweights.defined()) w = w.defined() ? w * aweights : aweights;
  if (w.defined()) w = reshape(w, {-1});
  const Tensor total = w.defined() ? sum(w) : Tensor();
  const bool known = w.defined() && observations > 0 && !w.device().is_meta();
  CHECK(!known || is_nonzero(ne(total, 0)), RuntimeError,
        "cov(): weights sum to zero, can't be normalized");
  const DType dtype = is_integral(x.dtype()) ? default_dtype() : x.dtype();
  const Tensor average =
      w.defined() ? sum(x * w, IntSpan{1}, false) / total : mean(to(x, dtype), IntSpan{1}, false);
  const Tensor centred = x - unsqueeze(average, 1);
  const Tensor other = conj(t(centred));
  const Tensor products = matmul(w.defined() ? centred * w : centred, other);
  Tensor scatter;
  const auto warn_unless_positive = [](bool is_positive) {
    if (is_positive) return;
    warn(
        "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
        "observations.");
  };
  if (!w.defined()) {
    const double freedom = static_cast<double>(observations) - static_cast<double>(correction);
    warn_unless_positive(freedom > 0);
    scatter = products / std::max(freedom, 0.0);
  } else {
    Tensor norm = total - correction;
    if (correction != 0 && aweights.defined()) {
      norm = total - sum(w * reshape(aweights, {-1})) / total * correction;
    }
    warn_unless_positive(!known || is_nonzero(gt(norm, 0)));
    scatter = products / clamp(to(norm, to_real(products.dtype())), Scalar(0.0), std::nullopt);
  }
  return squeeze(scatter);
}
OP(cov, "cov(input, *, correction=1, fweights=None, aweights=None)",
   "The covariances of variables, which are rows, over observations, which are columns.",
   composed | no_out)

Tensor corrcoef(const Tensor& input) {
  CHECK(input.dim() <= 2, RuntimeError,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} "
        "dimensions",
        input.dim());
  const Tensor c = cov(input, 1, {}, {});
  if (c.dim() == 0) return c / c;
  const Tensor variances = diagonal(c, 0, 0, 1);
  const Tensor deviations = sqrt(c.is_complex() ? real(variances) : variances);
  const Tensor r = c / unsqueeze(deviations, 1) / unsqueeze(deviations, 0);
  const auto clipped = [](const Tensor& x) { return clamp(x, Scalar(-1.0), Scalar(1.0)); };
  if (!r.is_complex()) return clipped(r);
  return view_as_complex(stack({clipped(real(r)), clipped(imag(r))}, -1));
}
OP(corrcoef, "corrcoef(input)", "The correlations of variables, which are rows.", composed | no_out)

// --- Bounded norms -------------------------------------------------------------------------------

Tensor renorm(const Tensor& input, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  CHECK(!p.is_complex(), RuntimeError, "renorm: p must be real-valued");
  CHECK(p.to_double() > 0, RuntimeError, "renorm: non-positive-norm not supported");
  CHECK(!maxnorm.is_complex(), RuntimeError, "renorm: maxnorm must be real-valued");
  CHECK(maxnorm.to_double() >= 0, RuntimeError, "renorm: expected maxnorm to be >= 0 but got {}",
        maxnorm.to_double());
  CHECK(input.dim() > 1, RuntimeError,
        "renorm: input needs at least 2 dimensions, got {} dimensions", input.dim());
  dim = wrap_dim(dim, input.dim());
  Dims others;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  const auto norm_of = [&](const Tensor& x) {
    const bool reduced = dtypes::Reduced.has(x.dtype());
    return linalg_vector_norm(x, p, IntSpan(others), true,
                              reduced ? std::optional(DType::float32) : std::nullopt);
  };
  const double bound = maxnorm.to_double();
  Tensor norm = norm_of(detach(input));
  const Tensor exceeds = norm > bound;
  // Slices that stay as they are have no part in the gradient of norms, which may be NaN.
  if (grad_enabled() && input.requires_grad()) norm = norm_of(where(exceeds, input, 0.0));
  const Tensor factor = where(exceeds, bound / (norm + 1e-7), 1.0);
  return contiguous(input) * to(factor, to_real(input.dtype()));
}
OP_INPLACE((one_step<renorm, "renorm">), "renorm(input, p, dim, maxnorm)",
           "The slices along dim, scaled down where their p-norm exceeds maxnorm.", cuda_exact)

// --- Numbers taken apart -------------------------------------------------------------------------

std::tuple<Tensor, Tensor> frexp(const Tensor& input) {
  CHECK(input.is_floating(), RuntimeError, "torch.frexp() only supports floating-point dtypes");
  Tensor outs[2] = {empty_like(input), empty_like(input, DType::int32)};
  const DType dtypes[] = {input.dtype(), DType::int32};
  const Operand inputs[] = {input};
  TensorIter iter;
  iter.build({"frexp"}, outs, dtypes, 2, inputs, 1, input.dtype());
  kernels::frexp(input.device_type(), iter);
  if (Record r{"frexp", {outs[0], outs[1]}, {input}}) {
    r.wrt(0, [exponent = r.save(outs[1])](const Tensor& g) {
      return g / exp2(to(exponent(), g.dtype()));
    });
  }
  return {outs[0], outs[1]};
}
OP(frexp, "frexp.Tensor(input) -> (mantissa, exponent)",
   "Each element as a fraction from 0.5 to 1 and a power of two.", elementwise)

}  // namespace
}  // namespace flambeau
