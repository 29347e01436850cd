// Complex numbers from their parts.
#include <cmath>

#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/record.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

void check_parts(const Tensor& one, const Tensor& two) {
  const auto part = [](const Tensor& x) {
    return dtypes::Floating.has(x.dtype()) && x.dtype() != DType::bfloat16;
  };
  CHECK(part(one) && part(two), NotImplementedError,
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        dtype_legacy_name(one.dtype()), dtype_legacy_name(two.dtype()));
  CHECK(one.dtype() == two.dtype(), RuntimeError,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        dtype_legacy_name(one.dtype()), dtype_legacy_name(two.dtype()));
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  check_parts(real, imag);
  const DType dtype = to_complex(real.dtype());
  Tensor out;
  if (real.is_contiguous() && imag.is_contiguous() && real.sizes() == imag.sizes()) {
    const NoGrad off;
    const Tensor pairs = stack({real, imag}, -1);
    out = make_alias(pairs, real.sizes(), real.strides(), 0);
    out->dtype = dtype;
  } else {
    const Dims sizes = broadcast_shapes(real.sizes(), imag.sizes());
    const Tensor* parts[] = {&real, &imag};
    out = make_strided(sizes, common_strides(sizes, parts, 2), dtype, real.device());
    const NoGrad off;
    const Tensor halves = view_as_real(out);
    copy_(select(halves, -1, 0), real);
    copy_(select(halves, -1, 1), imag);
  }
  if (Record r{"complex", out, {real, imag}}) {
    r.wrt(0, [](const Tensor& g) { return flambeau::real(g); });
    r.wrt(1, [](const Tensor& g) { return flambeau::imag(g); });
  }
  return out;
}
OP_FUNCTION(complex, "complex(real, imag)", "Complex numbers from their real and imaginary parts.",
            elementwise)

Tensor polar(const Tensor& abs, const Tensor& angle) {
  check_parts(abs, angle);
  if (abs.dtype() == DType::float16) {
    const Tensor size = to(abs, DType::float32), turn = to(angle, DType::float32);
    return to(complex(size * cos(turn), size * sin(turn)), DType::complex32);
  }
  return complex(abs * cos(angle), abs * sin(angle));
}
OP_FUNCTION((one_step<polar, "polar">), "polar(abs, angle)",
            "Complex numbers from their absolute values and angles.", elementwise | cpu_exact)

}  // namespace
}  // namespace flambeau
