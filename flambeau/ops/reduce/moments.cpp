// Variances and standard deviations, alone or together with the mean.
#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

struct Spread {
  const char* op;
  bool root;       // the standard deviation
  bool with_mean;  // the mean is a second result
};
constexpr Spread var_of{"var", false, false}, std_of{"std", true, false};
constexpr Spread var_mean_of{"var_mean", false, true}, std_mean_of{"std_mean", true, true};

Pair compute(const Spread& what, const Tensor& input, DimSet dims, bool keepdim,
             double correction) {
  const NoGrad off;
  if (input.is_complex()) {
    // The squared distance from a complex mean is that of both parts.
    const auto [re, re_mean] = compute(var_mean_of, real(input), dims, keepdim, correction);
    const auto [im, im_mean] = compute(var_mean_of, imag(input), dims, keepdim, correction);
    const Tensor variance = re + im;
    Tensor center;
    if (what.with_mean) center = reduce_with(kernels::mean, input, dims, keepdim, input.dtype());
    return {what.root ? sqrt(variance) : variance, center};
  }
  const Dims shape = reduced_shape(input.sizes(), dims, keepdim);
  Tensor out = make_tensor(shape, input.dtype(), input.device());
  Tensor center;
  if (what.with_mean) center = make_tensor(shape, input.dtype(), input.device());
  Reduction r;
  describe_reduction(r, input, dims, out, center);
  kernels::var_mean(input.device_type(), r, correction, what.root);
  return {out, center};
}

// What backward needs, and the rule for the variance or deviation.
struct SpreadRule {
  Saved x, y;
  DimSet dims;
  bool keepdim, root;
  double correction;

  [[nodiscard]] Tensor operator()(const Tensor& g) const {
    const Tensor input = x();
    const IntSpan sizes = input.sizes();
    Tensor of_variance = g;
    if (root) {
      // Where it is zero, nothing is divided by it: what is masked has derivatives, too.
      const Tensor deviation = y(), none = deviation == 0.0;
      of_variance = masked_fill(g / masked_fill(deviation * 2.0, none, 1.0), none, 0.0);
    }
    const auto count = static_cast<double>(reduced_count(sizes, dims));
    Dims list;
    for (int64_t d = 0; d < input.dim(); ++d) {
      if (dims.has(d)) list.push_back(d);
    }
    const Tensor center = list.empty() ? input : mean(input, IntSpan(list), true);
    return with_reduced_dims(of_variance, sizes, dims, keepdim) * (2.0 / (count - correction)) *
           (input - center);
  }
};

// Of as many elements as the correction takes off there is no variance.
void warn_of_few(const Spread& what, const Tensor& input, DimSet dims, double correction) {
  const int64_t count = reduced_count(input.sizes(), dims);
  if (static_cast<double>(count) > correction) return;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (!dims.has(d) && input.sizes()[d] == 0) return;  // nor is there a result
  }
  warn(format(
      "{}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
      "factor (input numel divided by output numel), but it is {} of {}.",
      what.op, correction, count));
}

Pair spread(const Spread& what, const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
            double correction) {
  CHECK(is_differentiable(input.dtype()), NotImplementedError,
        "std and var only support floating point and complex dtypes");
  const DimSet dims = DimSet::of(dim, input.dim());
  warn_of_few(what, input, dims, correction);
  auto [out, center] = compute(what, input, dims, keepdim, correction);
  const auto rule = [&, &out = out](Record& r) {
    return SpreadRule{r.save(input), what.root ? r.save_output(out) : Saved(),
                      dims,          keepdim,
                      what.root,     correction};
  };
  if (!what.with_mean) {
    if (Record r{what.op, out, {input}}) r.wrt(0, rule(r));
    return {out, center};
  }
  if (Record r{what.op, {out, center}, {input}}) {
    const auto count = static_cast<double>(reduced_count(input.sizes(), dims));
    r.all([of_spread = rule(r), sizes = input->sizes, count](Grads& in, Grads& grads) {
      Tensor total;
      if (in[0].defined()) total = of_spread(in[0]);
      if (in[1].defined()) {
        const Tensor part = spread_back(in[1] / count, sizes, of_spread.dims, of_spread.keepdim);
        total = total.defined() ? total + part : part;
      }
      grads[0] = total;
    });
  }
  return {out, center};
}

double correction_of(const std::optional<Scalar>& correction) {
  return correction ? correction->to_double() : 1.0;
}

#define SPREAD_OPS(name, what, returned, pick, doc)                                        \
  returned name##_all(const Tensor& input, bool unbiased) {                                \
    return pick(spread(what, input, std::nullopt, false, unbiased ? 1 : 0));               \
  }                                                                                        \
  returned name##_unbiased(const Tensor& input, std::optional<IntSpan> dim, bool unbiased, \
                           bool keepdim) {                                                 \
    return pick(spread(what, input, dim, keepdim, unbiased ? 1 : 0));                      \
  }                                                                                        \
  returned name##_corrected(const Tensor& input, std::optional<IntSpan> dim,               \
                            const std::optional<Scalar>& correction, bool keepdim) {       \
    return pick(spread(what, input, dim, keepdim, correction_of(correction)));             \
  }                                                                                        \
  OP_SPREAD(name##_corrected,                                                              \
            #name ".correction(input, dim=None, *, correction=None, keepdim=False)", doc)  \
  OP_SPREAD(name##_all, #name "(input, unbiased)", doc)                                    \
  OP_SPREAD(name##_unbiased, #name ".correction(input, dim, unbiased=True, keepdim=False)", doc)

Tensor first_of(Pair pair) { return std::get<0>(std::move(pair)); }
Pair both_of(Pair pair) { return pair; }

#define OP_SPREAD(...) OP(__VA_ARGS__, casts_out | reduces)
SPREAD_OPS(var, var_of, Tensor, first_of,
           "The variance along the given dimensions, with correction taken off the count.")
SPREAD_OPS(
    std, std_of, Tensor, first_of,
    "The standard deviation along the given dimensions, with correction taken off the count.")
#undef OP_SPREAD
#define OP_SPREAD(...) OP_FUNCTION(__VA_ARGS__, reduces)
SPREAD_OPS(var_mean, var_mean_of, Pair, both_of,
           "The variance and the mean along the given dimensions.")
SPREAD_OPS(std_mean, std_mean_of, Pair, both_of,
           "The standard deviation and the mean along the given dimensions.")

}  // namespace
}  // namespace flambeau
