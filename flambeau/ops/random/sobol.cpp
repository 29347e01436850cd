// Points of Sobol sequences; `flambeau.quasirandom` holds the state between draws.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

constexpr int64_t sobol_bits = 30;

std::tuple<Tensor, Tensor> sobol_engine_draw(const Tensor& quasi, int64_t n,
                                             const Tensor& sobolstate, int64_t dimension,
                                             int64_t num_generated, std::optional<DType> dtype) {
  const char* op = "_sobol_engine_draw";
  CHECK(quasi.dtype() == DType::int64 && sobolstate.dtype() == DType::int64, RuntimeError,
        "{}: quasi and sobolstate must be int64, but are {} and {}", op, quasi.dtype(),
        sobolstate.dtype());
  CHECK(quasi.device() == sobolstate.device(), RuntimeError,
        "{}: quasi and sobolstate must be on the same device, but are on {} and {}", op,
        quasi.device(), sobolstate.device());
  CHECK(dimension >= 1 && quasi.dim() == 1 && quasi.size(0) == dimension, RuntimeError,
        "{}: quasi must have one number for each of {} dimensions, but has shape {}", op, dimension,
        quasi.sizes());
  CHECK(
      sobolstate.dim() == 2 && sobolstate.size(0) == dimension && sobolstate.size(1) == sobol_bits,
      RuntimeError, "{}: sobolstate must have shape [{}, {}], but has {}", op, dimension,
      sobol_bits, sobolstate.sizes());
  constexpr int64_t most = int64_t{1} << sobol_bits;
  CHECK(n >= 0 && num_generated >= 0 && n <= most && num_generated <= most - n, RuntimeError,
        "{}: {} points after {} are more than a sequence has", op, n, num_generated);
  const DType kind = dtype.value_or(default_dtype());
  CHECK(is_floating(kind), NotImplementedError, "\"{}\" not implemented for '{}'", op,
        dtype_legacy_name(kind));
  const NoGrad off;
  Tensor next = clone(contiguous(quasi));
  const Dims size{n, dimension};
  Tensor result = make_tensor(size, kind, quasi.device());
  kernels::sobol_draw(result.device_type(), result, next, contiguous(sobolstate), num_generated);
  return {result, next};
}
OP_FUNCTION(sobol_engine_draw,
            "_sobol_engine_draw(quasi, n, sobolstate, dimension, num_generated, dtype)",
            "The next n points of a Sobol sequence, and its state after them.", no_out)

}  // namespace
}  // namespace flambeau
