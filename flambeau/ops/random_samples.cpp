// Samples of discrete distributions whose parameters are tensors: bernoulli and poisson.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

Tensor no_gradient(const Tensor& g) { return zeros_like(g); }

Tensor bernoulli(const Tensor& input, Generator* generator, const Tensor& out) {
  Tensor result = out;
  if (!out.defined()) {
    result = make_tensor(input.sizes(), input.dtype(), input.device());
  } else {
    if (!(out.sizes() == input.sizes())) {
      resize_tensor(out, input.sizes(), contiguous_strides(input.sizes()));
    }
    out.bump_version("bernoulli");
  }
  draw_bernoulli(result, input, generator);
  if (out.defined()) return result;
  if (Record r{"bernoulli", result, {input}}) r.wrt(0, &no_gradient);
  return result;
}
OP(bernoulli, "bernoulli(input, *, generator=None, out=None)",
   "Ones and zeros; element i is one with probability input[i].")

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
OP(bernoulli_of, "bernoulli(input, p, *, generator=None)",
   "Ones and zeros in the shape of input, each one with probability p.")

Tensor poisson(const Tensor& input, Generator* generator) {
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  with_generator(result, generator,
                 [&](Generator& g) { kernels::poisson(result.device_type(), result, input, g); });
  if (Record r{"poisson", result, {input}}) r.wrt(0, &no_gradient);
  return result;
}
OP_FUNCTION(poisson, "poisson(input, generator=None)",
            "Samples of Poisson distributions with the rates given by input.")

}  // namespace
}  // namespace flambeau
