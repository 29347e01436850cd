// softmax, log_softmax and softmin. The gradient is one fused kernel, itself differentiable.
#include "flambeau/kernels/softmax.h"
#include "flambeau/autograd/record.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

Tensor softmax_gradient(const Tensor& grad, const Tensor& output, int64_t dim) {
  REDIRECT(_softmax_backward_data, grad, output, dim, output.dtype())
  const Tensor g = contiguous(grad), y = contiguous(output);
  Tensor out = make_tensor(y.sizes(), y.dtype(), y.device());
  kernels::softmax_backward(y.device_type(), g, y, out, dim);
  if (Record r{"softmax_backward_data", out, {g, y}}) {
    const Saved saved_g = r.save(g), saved_y = r.save(y);
    r.wrt(0, [saved_y, dim](const Tensor& v) { return softmax_gradient(v, saved_y(), dim); });
    r.wrt(1, [saved_g, saved_y, dim](const Tensor& v) {
      const Tensor first = saved_g(), second = saved_y();
      return v * (first - sum(first * second, IntSpan(dim), true)) -
             first * sum(v * second, IntSpan(dim), true);
    });
  }
  return out;
}

Tensor log_softmax_gradient(const Tensor& grad, const Tensor& output, int64_t dim) {
  REDIRECT(_log_softmax_backward_data, grad, output, dim, output.dtype())
  const Tensor g = contiguous(grad), y = contiguous(output);
  Tensor out = make_tensor(y.sizes(), y.dtype(), y.device());
  kernels::log_softmax_backward(y.device_type(), g, y, out, dim);
  if (Record r{"log_softmax_backward_data", out, {g, y}}) {
    const Saved saved_g = r.save(g), saved_y = r.save(y);
    r.wrt(0, [saved_y, dim](const Tensor& v) {
      return v - sum(v * exp(saved_y()), IntSpan(dim), true);
    });
    r.wrt(1, [saved_g, saved_y, dim](const Tensor& v) {
      return -(v * exp(saved_y())) * sum(saved_g(), IntSpan(dim), true);
    });
  }
  return out;
}

struct Family {
  const char* name;
  const SoftmaxSlot& slot;
  Tensor (*gradient)(const Tensor& grad, const Tensor& output, int64_t dim);
};

Tensor apply(const Family& family, const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  dim = wrap_dim(dim, input.dim());
  const Tensor typed = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  CHECK(typed.is_floating() || typed.numel() == 0, NotImplementedError,
        "\"{}_lastdim_kernel_impl\" not implemented for '{}'", family.name,
        dtype_legacy_name(typed.dtype()));
  const Tensor x = contiguous(typed);
  Tensor out = make_tensor(x.sizes(), x.dtype(), x.device());
  if (x.is_floating()) family.slot(x.device_type(), x, out, dim);
  if (Record r{family.name, out, {x}}) {
    r.wrt(0, [y = r.save_output(out), dim, gradient = family.gradient](const Tensor& g) {
      return gradient(g, y(), dim);
    });
  }
  return out;
}

}  // namespace

Tensor softmax(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  REDIRECT(softmax, input, dim, dtype)
  return apply({"softmax", kernels::softmax, softmax_gradient}, input, dim, dtype);
}
OP(softmax, "softmax(input, dim, dtype=None)",
   "Rescales input along dim so that its elements are positive and sum to one.",
   along | cuda_exact | in_special | takes_nested | composed | out_fails)

Tensor log_softmax(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  REDIRECT(log_softmax, input, dim, dtype)
  return apply({"log_softmax", kernels::log_softmax, log_softmax_gradient}, input, dim, dtype);
}
OP(log_softmax, "log_softmax(input, dim, dtype=None)",
   "The logarithm of softmax(input, dim), exact where softmax is close to zero.",
   along | cuda_exact | in_special | composed | out_fails)

// What PyTorch makes of them.
#define SOFTMAX_STEPS(name)                                                                        \
  static Tensor inner_##name(const Tensor& input, int64_t dim, bool half_to_float) {               \
    return name(half_to_float ? to(input, DType::float32) : input, dim, {});                       \
  }                                                                                                \
  OP_FUNCTION(inner_##name, "_" #name "(input, dim, half_to_float)",                               \
              #name ", of half precision in float32 where that is asked for.", along)              \
  static Tensor name##_backward_data(const Tensor& grad_output, const Tensor& output, int64_t dim, \
                                     DType input_dtype) {                                          \
    return to(name##_gradient(grad_output, output, dim), input_dtype);                             \
  }                                                                                                \
  OP_FUNCTION(name##_backward_data,                                                                \
              "_" #name "_backward_data(grad_output, output, dim, input_dtype)",                   \
              "The gradient of " #name ".")                                                        \
  static Tensor name##_steps(const Tensor& input, int64_t dim, std::optional<DType> dtype) {       \
    return tensor_op("_" #name, {dtype ? to(input, *dtype) : input, dim, false});                  \
  }                                                                                                \
  STEPS(name, name##_steps)
SOFTMAX_STEPS(softmax)
SOFTMAX_STEPS(log_softmax)

}  // namespace flambeau
