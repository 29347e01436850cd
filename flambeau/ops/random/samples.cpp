// Samples of discrete distributions whose parameters are tensors: bernoulli, poisson, multinomial.
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

Tensor no_gradient(const Tensor& g) { return zeros_like(g); }

Tensor bernoulli(const Tensor& input, Generator* generator) {
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  draw_bernoulli(result, input, generator);
  if (Record r{"bernoulli", result, {input}}) r.wrt(0, &no_gradient);
  return result;
}
OP(bernoulli, "bernoulli(input, *, generator=None)",
   "Ones and zeros; element i is one with probability input[i].", draws)

Tensor bernoulli_out(const Tensor& input, Generator* generator, const Tensor& out) {
  if (!(out.sizes() == input.sizes())) {
    resize_tensor(out, input.sizes(), contiguous_strides(input.sizes()));
  }
  draw_bernoulli(out, input, generator);
  out.bump_version("bernoulli");
  return out;
}
OP_OUT(bernoulli_out, "bernoulli(input, *, generator=None, out)")

Tensor bernoulli_of(const Tensor& input, double p, Generator* generator) {
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  draw_bernoulli(result, p, generator);
  if (Record r{"bernoulli", result, {input}}) {
    r.wrt(0, [](const Tensor&) -> Tensor {
      fail<RuntimeError>("derivative for aten::bernoulli is not implemented");
    });
  }
  return result;
}
OP(bernoulli_of, "bernoulli.p(input, p, *, generator=None)",
   "Ones and zeros in the shape of input, each one with probability p.", draws)

Tensor poisson(const Tensor& input, Generator* generator) {
  CHECK(input.is_floating(), NotImplementedError, "\"poisson_cpu\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  with_generator(result, generator,
                 [&](Generator& g) { kernels::poisson(result.device_type(), result, input, g); });
  if (Record r{"poisson", result, {input}}) r.wrt(0, &no_gradient);
  return result;
}
OP_FUNCTION(poisson, "poisson(input, generator=None)",
            "Samples of Poisson distributions with the rates given by input.", draws | no_out)

// --- Indices by weight ---------------------------------------------------------------------------

void check_multinomial(const Tensor& weights, int64_t num_samples, bool replacement) {
  CHECK(weights.dim() == 1 || weights.dim() == 2, RuntimeError,
        "multinomial: prob_dist must be 1 or 2 dim, but has shape {}", weights.sizes());
  CHECK(weights.is_floating(), RuntimeError,
        "multinomial only supports floating-point dtypes for input, got: {}",
        dtype_legacy_name(weights.dtype()));
  CHECK(num_samples > 0, RuntimeError,
        "multinomial: cannot sample n_sample <= 0 samples, but num_samples is {}", num_samples);
  CHECK(replacement || num_samples <= weights.size(-1), RuntimeError,
        "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement, "
        "but num_samples is {} and prob_dist has shape {}",
        num_samples, weights.sizes());
}

// Divided by exponential samples, weights race: the largest quotients are a sample without
// replacement, in the order in which they would be drawn.
Tensor race(const Tensor& weights, int64_t num_samples, Generator* generator) {
  if (!nothing_to_draw(weights)) kernels::check_weights(weights.device_type(), contiguous(weights));
  Tensor quotients = empty_like(weights);
  draw_exponential(quotients, 1, generator);
  quotients = div(weights, quotients);
  if (num_samples == 1) return argmax(quotients, -1, true);
  Dims size = weights->sizes;
  size.back() = num_samples;
  Tensor values = make_tensor(size, weights.dtype(), weights.device());
  Tensor indices = make_tensor(size, DType::int64, weights.device());
  kernels::topk(weights.device_type(), quotients, values, indices, num_samples, weights.dim() - 1,
                true);
  return indices;
}

Tensor multinomial(const Tensor& input, int64_t num_samples, bool replacement,
                   Generator* generator) {
  check_multinomial(input, num_samples, replacement);
  const NoGrad off;
  if (!replacement || num_samples == 1) return race(input, num_samples, generator);
  Dims size = input->sizes;
  size.back() = num_samples;
  Tensor result = make_tensor(size, DType::int64, input.device());
  const Tensor weights = contiguous(input);
  with_generator(result, generator, [&](Generator& g) {
    kernels::multinomial(result.device_type(), result, weights, g);
  });
  return result;
}
OP(multinomial, "multinomial(input, num_samples, replacement=False, *, generator=None)",
   "Indices drawn with the weights given by input, for each of its rows.", draws)

}  // namespace
}  // namespace flambeau
