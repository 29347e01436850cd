// Samples of gamma, Dirichlet and binomial distributions with tensors of parameters. The first two
// are differentiable: their samples move with the parameters at the same place of the distribution.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// The CPU has no samples in half precision.
void check_sampled(const char* kernel, const Tensor& input) {
  const bool is_wide = input.dtype() == DType::float32 || input.dtype() == DType::float64;
  const bool is_half = input.dtype() == DType::float16 || input.dtype() == DType::bfloat16;
  CHECK(is_wide || (is_half && input.device_type() != DeviceType::cpu), NotImplementedError,
        "\"{}\" not implemented for '{}'", kernel, dtype_legacy_name(input.dtype()));
}

void check_alike(const char* op, const Tensor& expected, const Tensor& other) {
  CHECK(other.device() == expected.device(), RuntimeError,
        "{}: Expected all tensors to be on the same device, but found at least two devices, {} and "
        "{}!",
        op, expected.device(), other.device());
  CHECK(other.dtype() == expected.dtype(), RuntimeError, "Found dtype {} but expected {}",
        dtype_legacy_name(other.dtype()), dtype_legacy_name(expected.dtype()));
}

// What kernels take: contiguous, broadcast to `sizes`, without history.
Tensor spread(const Tensor& input, IntSpan sizes) {
  const NoGrad off;
  return contiguous(expand(input, sizes));
}

// --- Gamma ---------------------------------------------------------------------------------------

Tensor standard_gamma_grad(const Tensor& input, const Tensor& output) {
  check_sampled("_standard_gamma_grad_cpu", input);
  check_alike("_standard_gamma_grad", input, output);
  const Dims sizes = broadcast_shapes(input.sizes(), output.sizes());
  Tensor result = make_tensor(sizes, input.dtype(), input.device());
  kernels::standard_gamma_grad(result.device_type(), result, spread(input, sizes),
                               spread(output, sizes));
  if (Record r{"StandardGammaGrad", result, {input, output}}) {
    r.all([](Grads&, Grads&) {
      fail<NotImplementedError>("the derivative for '_standard_gamma_grad' is not implemented.");
    });
  }
  return result;
}
OP_FUNCTION(standard_gamma_grad, "_standard_gamma_grad(input, output)",
            "How samples `output` of gamma distributions with the shapes `input` move with them.",
            no_out)

Tensor standard_gamma(const Tensor& input, Generator* generator) {
  check_sampled("gamma_cpu", input);
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  const Tensor shapes = spread(input, input.sizes());
  with_generator(result, generator, [&](Generator& g) {
    kernels::standard_gamma(result.device_type(), result, shapes, g);
  });
  if (Record r{"StandardGamma", result, {input}}) {
    r.wrt(0, [x = r.save(input), y = r.save_output(result)](const Tensor& g) {
      return g * standard_gamma_grad(x(), y());
    });
  }
  return result;
}
OP_FUNCTION(standard_gamma, "_standard_gamma(input, generator=None)",
            "Samples of gamma distributions with the shapes given by input and the scale one.",
            draws | no_out)

// --- Dirichlet -----------------------------------------------------------------------------------

Tensor dirichlet_grad(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  check_sampled("_dirichlet_grad_cpu", x);
  check_alike("_dirichlet_grad", x, alpha);
  check_alike("_dirichlet_grad", x, total);
  const Dims sizes = broadcast_shapes(broadcast_shapes(x.sizes(), alpha.sizes()), total.sizes());
  Tensor result = make_tensor(sizes, x.dtype(), x.device());
  kernels::dirichlet_grad(result.device_type(), result, spread(x, sizes), spread(alpha, sizes),
                          spread(total, sizes));
  if (Record r{"DirichletGrad", result, {x, alpha, total}}) {
    r.all([](Grads&, Grads&) {
      fail<RuntimeError>("derivative for aten::_dirichlet_grad is not implemented");
    });
  }
  return result;
}
OP_FUNCTION(dirichlet_grad, "_dirichlet_grad(x, alpha, total)",
            "How the components x of Dirichlet samples move with their concentrations alpha, which "
            "sum to total, before the sample is normalised again.",
            no_out)

Tensor sample_dirichlet(const Tensor& input, Generator* generator) {
  check_sampled("dirichlet", input);
  Tensor result = make_tensor(input.sizes(), input.dtype(), input.device());
  const Tensor concentration = spread(input, input.sizes());
  with_generator(result, generator, [&](Generator& g) {
    kernels::dirichlet(result.device_type(), result, concentration, g);
  });
  if (Record r{"SampleDirichlet", result, {input}}) {
    r.wrt(0, [a = r.save(input), y = r.save_output(result)](const Tensor& g) {
      const Tensor alpha = a(), x = y();
      const Tensor total = sum(alpha, IntSpan({-1}), true);
      return dirichlet_grad(x, alpha, total) * (g - sum(g * x, IntSpan({-1}), true));
    });
  }
  return result;
}
OP_FUNCTION(sample_dirichlet, "_sample_dirichlet(input, generator=None)",
            "Samples of Dirichlet distributions whose concentrations are the rows of input.",
            draws | no_out)

// --- Binomial ------------------------------------------------------------------------------------

void check_binomial(const char* name, const Tensor& input) {
  CHECK(input.is_floating(), ValueError,
        "binomial only supports floating-point dtypes for {}, got: {}", name,
        dtype_legacy_name(input.dtype()));
}

Tensor binomial(const Tensor& count, const Tensor& prob, Generator* generator) {
  check_binomial("count", count);
  check_binomial("prob", prob);
  check_alike("binomial", count, prob);
  check_sampled("binomial_cpu", count);
  const Dims sizes = broadcast_shapes(count.sizes(), prob.sizes());
  Tensor result = make_tensor(sizes, count.dtype(), count.device());
  const Tensor counts = spread(count, sizes), probs = spread(prob, sizes);
  with_generator(result, generator, [&](Generator& g) {
    kernels::binomial(result.device_type(), result, counts, probs, g);
  });
  if (Record r{"binomial", result, {count, prob}}) {
    r.all([](Grads&, Grads&) {
      fail<RuntimeError>("derivative for aten::binomial is not implemented");
    });
  }
  return result;
}
OP_FUNCTION(binomial, "binomial(count, prob, generator=None)",
            "The numbers of successes in count trials, each of which succeeds with probability "
            "prob.",
            draws | no_out)

}  // namespace
}  // namespace flambeau
