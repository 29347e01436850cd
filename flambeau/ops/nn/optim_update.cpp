// Steps of the optimizers whose formula is made of ops: of one parameter and its state, in place.
// They are recorded where gradients are on, so that a step can be differentiated.
#include <algorithm>
#include <cmath>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// A number that may lie in a tensor of one element: to be captured, or differentiated by.
class Number {
 public:
  Number(double value) : value_(value) {}                // NOLINT
  Number(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT
  Number(const Operand& operand)                         // NOLINT
      : tensor_(operand.is_tensor() ? operand.tensor() : Tensor()),
        value_(operand.is_tensor() ? 0 : operand.scalar().to_double()) {}
  [[nodiscard]] bool is_tensor() const { return tensor_.defined(); }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] Operand operand() const { return is_tensor() ? Operand(tensor_) : Operand(value_); }
  Number operator-() const { return is_tensor() ? Number(neg(tensor_)) : Number(-value_); }

#define NUMBER_OPERATOR(symbol, op)                                                \
  friend Number operator symbol(const Number& a, const Number& b) {                \
    if (!a.is_tensor() && !b.is_tensor()) return Number(a.value_ symbol b.value_); \
    return Number(op(a.operand(), b.operand()));                                   \
  }
  NUMBER_OPERATOR(+, add)
  NUMBER_OPERATOR(-, sub)
  NUMBER_OPERATOR(*, mul)
  NUMBER_OPERATOR(/, div)
#undef NUMBER_OPERATOR
  friend Number power(const Number& a, const Number& b) {
    if (!a.is_tensor() && !b.is_tensor()) return Number(std::pow(a.value_, b.value_));
    return Number(flambeau::pow(a.operand(), b.operand()));
  }

 private:
  Tensor tensor_;
  double value_ = 0;
};

Tensor times(const Tensor& tensor, const Number& number) { return tensor * number.operand(); }

// What a tensor of one element holds; itself if it `stays` one.
Number number(const Tensor& tensor, bool stays) {
  return stays ? Number(tensor) : Number(item(tensor).to_double());
}
Number count(const Tensor& step, bool stays) {
  add_(step, 1);
  return number(step, stays);
}

// Complex tensors are updated as pairs of real numbers.
Tensor real_pairs(const Tensor& x) { return x.defined() && x.is_complex() ? view_as_real(x) : x; }
// The gradient of the loss plus weight_decay / 2 times the square of the parameter.
Tensor with_decay(const Tensor& grad, const Tensor& param, double weight_decay) {
  return weight_decay == 0 ? grad : add_scaled(grad, param, weight_decay);
}
// The same, or the parameter decays by itself.
Tensor decayed(const Tensor& grad, const Tensor& param, const Number& lr, double weight_decay,
               bool decoupled) {
  if (!decoupled) return with_decay(grad, param, weight_decay);
  mul_(param, (1 - lr * weight_decay).operand());
  return grad;
}

// Exponential averages of the gradient and of its square, as they move on.
Tensor average_(const Tensor& mean, const Tensor& grad, double beta) {
  return tensor_op("lerp_", {mean, grad, 1 - beta});
}
Tensor average_square_(const Tensor& mean, const Tensor& grad, double beta) {
  mul_(mean, beta);
  return tensor_op("addcmul_", {mean, grad, grad, 1 - beta});
}

void rmsprop_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& square_avg,
                  const Tensor& step, const Tensor& momentum_buffer, const Tensor& grad_avg,
                  const Operand& lr, double alpha, double eps, double weight_decay, double momentum,
                  bool capturable) {
  count(step, capturable);
  const Tensor param = real_pairs(complex_param);
  const Tensor grad = with_decay(real_pairs(complex_grad), param, weight_decay);
  const Tensor mean_square = average_square_(real_pairs(square_avg), grad, alpha);
  Tensor scale;
  if (grad_avg.defined()) {
    const Tensor mean = average_(real_pairs(grad_avg), grad, alpha);
    scale = sqrt_(tensor_op("addcmul", {mean_square, mean, mean, -1}));
  } else {
    scale = sqrt(mean_square);
  }
  scale = scale + eps;
  const Tensor change =
      momentum_buffer.defined()
          ? tensor_op("addcdiv_", {mul_(real_pairs(momentum_buffer), momentum), grad, scale})
          : grad / scale;
  add_(param, times(change, -Number(lr)));
}
OP_FUNCTION(rmsprop_step,
            "_rmsprop_step(param, grad, square_avg, step, momentum_buffer=None, grad_avg=None, *, "
            "lr, alpha, eps, weight_decay, momentum, capturable=False)",
            "One step of RMSprop on a parameter and its state, in place.", composed)

void adagrad_step(const Tensor& param, const Tensor& grad, const Tensor& sum, const Tensor& step,
                  const Operand& lr, double lr_decay, double weight_decay, double eps,
                  bool capturable) {
  const Number rate = Number(lr) / (1 + (count(step, capturable) - 1) * lr_decay);
  if (grad.is_sparse()) {
    CHECK(weight_decay == 0, RuntimeError,
          "weight_decay option is not compatible with sparse gradients");
    const Tensor dense = tensor_op("coalesce", {grad});
    const std::vector<Tensor> at = unbind(tensor_op("_indices", {dense}), 0);
    const Tensor values = tensor_op("_values", {dense});
    const Tensor sums = index(sum, at) + values * values;
    index_put_(sum, at, sums, false);
    const Tensor change = times(values / (sqrt(sums) + eps), -rate);
    index_put_(param, at, index(param, at) + change, false);
    return;
  }
  const Tensor x = real_pairs(param);
  const Tensor g = with_decay(real_pairs(grad), x, weight_decay);
  const Tensor total = tensor_op("addcmul_", {real_pairs(sum), g, g});
  add_(x, times(g / (sqrt(total) + eps), -rate));
}
OP_FUNCTION(adagrad_step,
            "_adagrad_step(param, grad, sum, step, *, lr, lr_decay, weight_decay, eps, "
            "capturable=False)",
            "One step of Adagrad on a parameter and its state, in place.", composed | takes_sparse)

void adadelta_step(const Tensor& complex_param, const Tensor& complex_grad,
                   const Tensor& square_avg, const Tensor& acc_delta, const Tensor& step,
                   const Operand& lr, double rho, double eps, double weight_decay,
                   bool capturable) {
  count(step, capturable);
  const Tensor param = real_pairs(complex_param), deltas = real_pairs(acc_delta);
  const Tensor grad = with_decay(real_pairs(complex_grad), param, weight_decay);
  const Tensor mean_square = average_square_(real_pairs(square_avg), grad, rho);
  const Tensor delta = sqrt(deltas + eps) / sqrt(mean_square + eps) * grad;
  average_square_(deltas, delta, rho);
  add_(param, times(delta, -Number(lr)));
}
OP_FUNCTION(adadelta_step,
            "_adadelta_step(param, grad, square_avg, acc_delta, step, *, lr, rho, eps, "
            "weight_decay, capturable=False)",
            "One step of Adadelta on a parameter and its state, in place.", composed)

void adamax_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& exp_avg,
                 const Tensor& exp_inf, const Tensor& step, const Operand& lr, double beta1,
                 double beta2, double eps, double weight_decay, bool capturable) {
  const Number steps = count(step, capturable);
  const Tensor param = real_pairs(complex_param), largest = real_pairs(exp_inf);
  const Tensor grad = with_decay(real_pairs(complex_grad), param, weight_decay);
  const Tensor mean = average_(real_pairs(exp_avg), grad, beta1);
  copy_(largest, maximum(largest * beta2, abs(grad) + eps));
  add_(param, times(mean / largest, -Number(lr) / (1 - power(beta1, steps))));
}
OP_FUNCTION(adamax_step,
            "_adamax_step(param, grad, exp_avg, exp_inf, step, *, lr, beta1, beta2, eps, "
            "weight_decay, capturable=False)",
            "One step of Adamax on a parameter and its state, in place.", composed)

void asgd_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& ax,
               const Tensor& eta_tensor, const Tensor& mu_tensor, const Tensor& step,
               const Operand& lr, double lambd, double alpha, double t0, double weight_decay,
               bool capturable) {
  const Number steps = count(step, capturable);
  const Number eta = number(eta_tensor, capturable), mu = number(mu_tensor, capturable);
  const Tensor param = real_pairs(complex_param), average = real_pairs(ax);
  const Tensor grad = with_decay(real_pairs(complex_grad), param, weight_decay);
  mul_(param, (1 - lambd * eta).operand());
  add_(param, times(grad, -eta));
  if (mu.is_tensor()) {
    const Tensor moved = average + times(param - average, mu);
    copy_(average, where(mu.tensor() == 1, param, moved));
    copy_(mu_tensor, 1 / clamp((steps - t0).tensor(), 1, {}));
  } else {
    mu.value() == 1 ? copy_(average, param) : add_(average, times(param - average, mu));
    fill_(mu_tensor, 1 / std::max(1.0, steps.value() - t0));
  }
  fill_(eta_tensor, (Number(lr) / power(1 + lambd * Number(lr) * steps, alpha)).operand());
}
OP_FUNCTION(asgd_step,
            "_asgd_step(param, grad, ax, eta, mu, step, *, lr, lambd, alpha, t0, weight_decay, "
            "capturable=False)",
            "One step of averaged gradient descent on a parameter and its state, in place.",
            composed)

void nadam_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& exp_avg,
                const Tensor& exp_avg_sq, const Tensor& mu_product, const Tensor& step,
                const Operand& lr, double beta1, double beta2, double eps, double weight_decay,
                double momentum_decay, bool decoupled_weight_decay, bool capturable) {
  const Number steps = count(step, capturable), rate(lr);
  const Tensor param = real_pairs(complex_param);
  const Tensor grad =
      decayed(real_pairs(complex_grad), param, rate, weight_decay, decoupled_weight_decay);
  // The momentum of this step and of the next, which rises to beta1.
  const Number mu = beta1 * (1 - 0.5 * power(0.96, steps * momentum_decay));
  const Number mu_next = beta1 * (1 - 0.5 * power(0.96, (steps + 1) * momentum_decay));
  mul_(mu_product, mu.operand());
  const Number product = number(mu_product, capturable);
  const Tensor mean = average_(real_pairs(exp_avg), grad, beta1);
  const Tensor mean_square = average_square_(real_pairs(exp_avg_sq), grad, beta2);
  const Tensor unbiased = mean_square / (1 - power(beta2, steps)).operand();
  const Tensor scale = sqrt(unbiased) + eps;
  add_(param, times(grad / scale, -rate * (1 - mu) / (1 - product)));
  add_(param, times(mean / scale, -rate * mu_next / (1 - product * mu_next)));
}
OP_FUNCTION(nadam_step,
            "_nadam_step(param, grad, exp_avg, exp_avg_sq, mu_product, step, *, lr, beta1, beta2, "
            "eps, weight_decay, momentum_decay, decoupled_weight_decay, capturable=False)",
            "One step of NAdam on a parameter and its state, in place.", composed)

void radam_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& exp_avg,
                const Tensor& exp_avg_sq, const Tensor& step, const Operand& lr, double beta1,
                double beta2, double eps, double weight_decay, bool decoupled_weight_decay,
                bool capturable) {
  const Number steps = count(step, capturable), rate(lr);
  const Tensor param = real_pairs(complex_param);
  const Tensor grad =
      decayed(real_pairs(complex_grad), param, rate, weight_decay, decoupled_weight_decay);
  const Tensor mean = average_(real_pairs(exp_avg), grad, beta1);
  const Tensor mean_square = average_square_(real_pairs(exp_avg_sq), grad, beta2);
  const Tensor unbiased = mean / (1 - power(beta1, steps)).operand();
  // The length of the simple average that approximates the exponential one, now and at last.
  const double longest = 2 / (1 - beta2) - 1;
  const Number remaining = power(beta2, steps);
  const Number length = longest - 2 * steps * remaining / (1 - remaining);
  if (!length.is_tensor() && length.value() <= 5) {
    add_(param, times(unbiased, -rate));
    return;
  }
  const Number rectification =
      power((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length), 0.5);
  const Tensor adapted = div(power(1 - remaining, 0.5).operand(), sqrt(mean_square) + eps);
  Tensor factor = times(adapted, rectification);
  if (length.is_tensor()) factor = where(length.tensor() > 5, factor, 1.0);
  add_(param, times(unbiased * factor, -rate));
}
OP_FUNCTION(radam_step,
            "_radam_step(param, grad, exp_avg, exp_avg_sq, step, *, lr, beta1, beta2, eps, "
            "weight_decay, decoupled_weight_decay, capturable=False)",
            "One step of RAdam on a parameter and its state, in place.", composed)

void rprop_step(const Tensor& complex_param, const Tensor& complex_grad, const Tensor& prev,
                const Tensor& step_size, const Tensor& step, double shrink, double grow,
                double smallest, double largest, bool capturable) {
  count(step, capturable);
  const Tensor grad = real_pairs(complex_grad), before = real_pairs(prev);
  const Tensor agreement = grad * before;
  const Tensor factor =
      masked_fill(masked_fill(ones_like(grad), agreement > 0, grow), agreement < 0, shrink);
  const Tensor size = mul_(real_pairs(step_size), factor);
  tensor_op("clamp_", {size, smallest, largest});
  // Where the sign changed the last step went too far: do not move, and forget the gradient.
  const Tensor kept = masked_fill(grad, agreement < 0, 0);
  add_(real_pairs(complex_param), sign(kept) * -size);
  copy_(before, kept);
}
OP_FUNCTION(rprop_step,
            "_rprop_step(param, grad, prev, step_size, step, *, shrink, grow, smallest, largest, "
            "capturable=False)",
            "One step of Rprop on a parameter and its state, in place.", composed)

}  // namespace
}  // namespace flambeau
