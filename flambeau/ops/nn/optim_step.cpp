// Fused optimizer steps: one op updates all parameters of a group and their state in place. They
// are not recorded; differentiable optimizers are written in ordinary operations.
#include <algorithm>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/kernels/optim.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

using kernels::Tensors;

void check_lengths(const char* op, const char* name, const Tensors& list, size_t count) {
  CHECK(list.size() == count, RuntimeError, "{}: got {} params but {} {}", op, count, list.size(),
        name);
}

// Whether x can be walked element by element together with param.
bool lies_like(const Tensor& x, const Tensor& param) {
  return x.dtype() == param.dtype() && x.strides() == param.strides();
}

// The lists with every tensor in the layout of its parameter. Those that are not get a stand-in,
// which is copied back if it is state.
class Aligned {
 public:
  Aligned(const char* op, const Tensors& params) : op_(op), params_(params) {
    for (const Tensor& param : params) {
      CHECK(param.defined() && is_differentiable(param.dtype()), RuntimeError,
            "{}: parameters must be floating-point or complex tensors", op);
      CHECK(param.device() == params[0].device(), RuntimeError,
            "{}: parameters must be on one device, got {} and {}", op, params[0].device(),
            param.device());
    }
  }

  // The parameters themselves, dense.
  Tensors params() {
    Tensors result;
    for (const Tensor& param : params_) {
      const bool dense = is_non_overlapping_and_dense(param.sizes(), param.strides());
      result.push_back(
          dense ? param : stand_in(param, clone(detach(param), MemoryFormat::contiguous), true));
    }
    dense_ = result;
    return result;
  }

  Tensors like_params(const char* name, const Tensors& list, bool is_state) {
    check_lengths(op_, name, list, params_.size());
    Tensors result;
    for (size_t i = 0; i < list.size(); ++i) {
      CHECK(list[i].defined() && list[i].sizes() == params_[i].sizes(), RuntimeError,
            "{}: {}[{}] does not have the shape {} of its parameter", op_, name, i,
            params_[i].sizes());
      CHECK(list[i].device() == params_[i].device(), RuntimeError,
            "{}: {}[{}] is on {}, but its parameter is on {}", op_, name, i, list[i].device(),
            params_[i].device());
      if (lies_like(list[i], dense_[i])) {
        result.push_back(list[i]);
        if (is_state) written_.push_back(list[i]);
      } else {
        const Tensor copy = copy_(make_strided(dense_[i].sizes(), dense_[i].strides(),
                                               dense_[i].dtype(), dense_[i].device()),
                                  list[i]);
        result.push_back(stand_in(list[i], copy, is_state));
      }
    }
    return result;
  }

  // Copies stand-ins back and says that the tensors were written.
  void finish() const {
    for (const auto& [original, copy] : stand_ins_) copy_(original, copy);
    for (const Tensor& tensor : written_) tensor.bump_version(op_);
    for (size_t i = 0; i < params_.size(); ++i) {
      if (dense_[i].is_same(params_[i])) params_[i].bump_version(op_);
    }
  }

 private:
  Tensor stand_in(const Tensor& original, const Tensor& copy, bool is_state) {
    if (is_state) stand_ins_.emplace_back(original, copy);
    return copy;
  }

  const char* op_;
  const Tensors& params_;
  Tensors dense_, written_;
  std::vector<std::pair<Tensor, Tensor>> stand_ins_;
};

// What gradients are multiplied with, or nothing if the step is to be left out.
std::optional<double> gradient_factor(bool maximize, const Tensor& grad_scale,
                                      const Tensor& found_inf) {
  if (found_inf.defined() && is_nonzero(found_inf)) return {};
  const double scale = grad_scale.defined() ? item(grad_scale).to_double() : 1.0;
  return (maximize ? -1.0 : 1.0) / scale;
}

bool any_sparse(const Tensors& grads) {
  return std::any_of(grads.begin(), grads.end(),
                     [](const Tensor& grad) { return grad.defined() && grad.is_sparse(); });
}

// The step of SGD on one parameter in sparse operations; its buffer is sparse as its gradient is.
void sparse_sgd_step(const Tensor& param, Tensor grad, const Tensor* buffer, const SgdStep& step) {
  if (step.factor < 0) grad = tensor_op("neg", {grad});
  if (step.weight_decay != 0) grad = tensor_op("add", {grad, param, step.weight_decay});
  if (buffer) {
    if (step.first) {
      tensor_op("copy_", {*buffer, grad});
    } else {
      tensor_op("mul_", {*buffer, step.momentum});
      tensor_op("add_", {*buffer, grad, 1 - step.dampening});
    }
    grad = step.nesterov ? tensor_op("add", {grad, *buffer, step.momentum}) : *buffer;
  }
  tensor_op("add_", {param, grad, -step.lr});
}

void sgd_step(const Tensors& params, const Tensors& grads, const Tensors& momentum_buffers,
              double lr, double momentum, double dampening, double weight_decay, bool nesterov,
              bool maximize, bool first_step, const Tensor& grad_scale, const Tensor& found_inf) {
  const NoGrad off;
  const auto factor = gradient_factor(maximize, grad_scale, found_inf);
  if (params.empty() || !factor) return;
  const bool buffered = momentum != 0 && !momentum_buffers.empty();
  const SgdStep step{lr, momentum, dampening, weight_decay, *factor, nesterov, first_step};
  if (any_sparse(grads)) {
    CHECK(!grad_scale.defined() && !found_inf.defined(), RuntimeError,
          "`_fused_sgd` does not support sparse gradients");
    check_lengths("_sgd_step", "grads", grads, params.size());
    if (buffered) check_lengths("_sgd_step", "buffers", momentum_buffers, params.size());
    for (size_t i = 0; i < params.size(); ++i)
      sparse_sgd_step(params[i], grads[i], buffered ? &momentum_buffers[i] : nullptr, step);
    return;
  }
  Aligned lists("_sgd_step", params);
  const Tensors p = lists.params(), g = lists.like_params("grads", grads, false);
  const Tensors buffers =
      buffered ? lists.like_params("momentum_buffers", momentum_buffers, true) : Tensors();
  kernels::sgd_step(params[0].device_type(), p, g, buffers, step);
  lists.finish();
}
OP_FUNCTION(sgd_step,
            "_sgd_step(params, grads, momentum_buffers, *, lr, momentum, dampening, weight_decay, "
            "nesterov, "
            "maximize, first_step, grad_scale=None, found_inf=None)",
            "One step of stochastic gradient descent on all params, in place.", takes_sparse)

// --- Gradients of a scaled loss ------------------------------------------------------------------

bool is_number_beside(const Tensor& number, const Tensor& grad) {
  return number.defined() && number.numel() == 1 && number.dtype() == DType::float32 &&
         number.device() == grad.device();
}

void amp_unscale_(const Tensors& grads, const Tensor& found_inf, const Tensor& inv_scale) {
  constexpr const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  const NoGrad off;
  Tensors dense;
  for (const Tensor& grad : grads) {
    CHECK(is_number_beside(found_inf, grad) && is_number_beside(inv_scale, grad), RuntimeError,
          "{}: found_inf and inv_scale must be one float32 each on {}, where the gradients are", op,
          grad.device());
    CHECK(grad.is_floating(), RuntimeError, "{}: gradients must be floating-point, got {}", op,
          grad.dtype());
    if (grad.numel() == 0) continue;
    if (kernels::unscale.filled(grad.device_type()) &&
        is_non_overlapping_and_dense(grad.sizes(), grad.strides())) {
      dense.push_back(grad);
      grad.bump_version(op);
      continue;
    }
    const Tensor broken =
        amax(to(logical_not(isfinite(grad)), DType::float32), std::nullopt, false);
    copy_(found_inf, maximum(found_inf, reshape(broken, found_inf.sizes())));
    mul_(grad, reshape(inv_scale, {}));
  }
  if (!dense.empty()) kernels::unscale(dense[0].device_type(), dense, found_inf, inv_scale);
  found_inf.bump_version(op);
}
OP_FUNCTION(amp_unscale_, "_amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)",
            "Multiplies gradients by inv_scale, and sets found_inf to 1 where one is not finite.")

// --- Adam ----------------------------------------------------------------------------------------

// Counts this step in a tensor of one number and returns the count.
double count_step(const Tensor& step) {
  CHECK(step.defined() && step.numel() == 1, RuntimeError,
        "_adam_step: a step count must be one number");
  if (step.device().is_cpu() && step.dtype() == DType::float32) {
    step.bump_version("_adam_step");
    return *step.data<float>() += 1;
  }
  add_(step, int64_t{1});
  return item(step).to_double();
}

// Whether all counts are numbers in float32 on an accelerator that has the parameters too.
bool counts_stay(Device device, const Tensors& steps) {
  if (!device.is_cuda()) return false;
  for (const Tensor& step : steps) {
    if (!step.defined() || step.numel() != 1 || !(step.device() == device) ||
        step.dtype() != DType::float32)
      return false;
  }
  return true;
}

// A number in float32 on the device, from wherever it is; undefined stays so.
Tensor on_device(const Tensor& number, Device device) {
  return number.defined() ? to(to(number, device), DType::float32) : number;
}

void adam_step(const Tensors& params, const Tensors& grads, const Tensors& exp_avgs,
               const Tensors& exp_avg_sqs, const Tensors& max_exp_avg_sqs,
               const Tensors& state_steps, double lr, double beta1, double beta2,
               double weight_decay, double eps, bool amsgrad, bool maximize,
               bool decoupled_weight_decay, const Tensor& grad_scale, const Tensor& found_inf,
               const Tensor& lr_tensor) {
  const NoGrad off;
  if (params.empty()) return;
  CHECK(!any_sparse(grads), RuntimeError,
        "Adam does not support sparse gradients, please consider SparseAdam instead");
  // Where the counts lie on the device nothing is asked of it: the step can run ahead and be
  // captured.
  const bool stays = counts_stay(params[0].device(), state_steps);
  CHECK(stays || !lr_tensor.defined(), RuntimeError,
        "_adam_step: lr_tensor needs step counts on the device of the parameters");
  const auto factor =
      stays ? (maximize ? -1.0 : 1.0) : gradient_factor(maximize, grad_scale, found_inf);
  if (params.empty() || !factor) return;
  check_lengths("_adam_step", "state_steps", state_steps, params.size());
  Aligned lists("_adam_step", params);
  const Tensors p = lists.params(), g = lists.like_params("grads", grads, false);
  const Tensors averages = lists.like_params("exp_avgs", exp_avgs, true);
  const Tensors squares = lists.like_params("exp_avg_sqs", exp_avg_sqs, true);
  const Tensors most =
      amsgrad ? lists.like_params("max_exp_avg_sqs", max_exp_avg_sqs, true) : Tensors();
  std::vector<double> counts;
  AdamStep numbers{lr, beta1, beta2, eps, weight_decay, *factor, decoupled_weight_decay};
  if (stays) {
    for (const Tensor& step : state_steps) step.bump_version("_adam_step");
    numbers.lr_tensor = on_device(lr_tensor, params[0].device());
    numbers.grad_scale = on_device(grad_scale, params[0].device());
    numbers.found_inf = on_device(found_inf, params[0].device());
  } else {
    for (const Tensor& step : state_steps) counts.push_back(count_step(step));
  }
  kernels::adam_step(params[0].device_type(), p, g, averages, squares, most, counts,
                     stays ? state_steps : Tensors(), numbers);
  lists.finish();
}
OP_FUNCTION(
    adam_step,
    "_adam_step(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, "
    "beta2, weight_decay, eps, amsgrad, maximize, decoupled_weight_decay, grad_scale=None, "
    "found_inf=None, lr_tensor=None)",
    "One step of Adam or AdamW on all params, in place.", takes_sparse)

}  // namespace
}  // namespace flambeau
