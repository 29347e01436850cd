// Connectionist temporal classification on the CPU: the forward and backward recursions of Graves
// et al. (2006) in logarithms, a sample a task.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/sequences.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T>
constexpr T impossible = -std::numeric_limits<T>::infinity();

template <class T>
T log_add(T a, T b) {
  const T most = std::max(a, b);
  return most == impossible<T> ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// One sample: its log-probabilities, and its labels with blanks before, between and after.
template <class T>
struct Sample {
  const T* x;
  int64_t step, steps, states;  // step: from one time to the next in x
  const int64_t* labels;
  int64_t blank;

  Sample(const Tensor& log_probs, const CtcTargets& targets, int64_t n)
      : x(log_probs.data<T>() + n * log_probs.sizes()[2]),
        step(log_probs.sizes()[1] * log_probs.sizes()[2]),
        steps(targets.input_lengths[n]),
        states(2 * targets.lengths[n] + 1),
        labels(targets.labels.data() + targets.starts[n]),
        blank(targets.blank) {}

  [[nodiscard]] int64_t label(int64_t s) const { return s % 2 ? labels[s / 2] : blank; }
  [[nodiscard]] T at(int64_t t, int64_t s) const { return x[t * step + label(s)]; }
  // Whether state s may follow s - 2: two labels with only a blank between them must differ.
  [[nodiscard]] bool skips(int64_t s) const { return s >= 2 && s % 2 && label(s) != label(s - 2); }
};

template <class T>
T forward_sample(const Sample<T>& sample, T* alpha, int64_t width) {
  if (sample.steps == 0) return sample.states == 1 ? T(0) : std::numeric_limits<T>::infinity();
  std::fill_n(alpha, sample.steps * width, impossible<T>);
  for (int64_t s = 0; s < std::min<int64_t>(2, sample.states); ++s) alpha[s] = sample.at(0, s);
  for (int64_t t = 1; t < sample.steps; ++t) {
    const T* before = alpha + (t - 1) * width;
    for (int64_t s = 0; s < sample.states; ++s) {
      T sum = before[s];
      if (s >= 1) sum = log_add(sum, before[s - 1]);
      if (sample.skips(s)) sum = log_add(sum, before[s - 2]);
      alpha[t * width + s] = sum + sample.at(t, s);
    }
  }
  const T* last = alpha + (sample.steps - 1) * width + sample.states - 1;
  return -(sample.states > 1 ? log_add(last[0], last[-1]) : last[0]);
}

void ctc_loss_kernel(const Tensor& x, const CtcTargets& targets, const Tensor& losses,
                     const Tensor& log_alpha) {
  const int64_t width = log_alpha.sizes()[2], steps = log_alpha.sizes()[1];
  dispatch<DType::float32 | DType::float64>("ctc_loss_cpu", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, losses.numel(), 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        losses.data<T>()[n] = forward_sample(Sample<T>(x, targets, n),
                                             log_alpha.data<T>() + n * steps * width, width);
      }
    });
  });
}
KERNEL_FOR(ctc_loss, ctc_loss_kernel)

template <class T>
void backward_sample(const Sample<T>& sample, const T* alpha, int64_t width, int64_t classes,
                     T loss, T grad, T* out) {
  std::vector<T> beta(sample.states, impossible<T>), next(sample.states), total(classes);
  for (int64_t t = sample.steps; t-- > 0;) {
    std::fill(total.begin(), total.end(), impossible<T>);
    std::swap(beta, next);
    for (int64_t s = 0; s < sample.states; ++s) {
      T sum = impossible<T>;
      if (t == sample.steps - 1) {
        if (s >= sample.states - 2) sum = T(0);
      } else {
        sum = next[s];
        if (s + 1 < sample.states) sum = log_add(sum, next[s + 1]);
        if (s + 2 < sample.states && sample.skips(s + 2)) sum = log_add(sum, next[s + 2]);
      }
      beta[s] = sum + sample.at(t, s);
      T& all = total[sample.label(s)];
      all = log_add(all, alpha[t * width + s] + beta[s]);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const T x = sample.x[t * sample.step + c];
      out[t * sample.step + c] = (std::exp(x) - std::exp(total[c] + loss - x)) * grad;
    }
  }
}

void ctc_loss_backward_kernel(const Tensor& grad, const Tensor& x, const CtcTargets& targets,
                              const Tensor& losses, const Tensor& log_alpha, const Tensor& grad_x,
                              bool zero_infinity) {
  const int64_t width = log_alpha.sizes()[2], steps = log_alpha.sizes()[1];
  const int64_t classes = x.sizes()[2];
  dispatch<DType::float32 | DType::float64>("ctc_loss_backward_cpu", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(0, losses.numel(), 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        const T loss = losses.data<T>()[n];
        if (zero_infinity && loss == std::numeric_limits<T>::infinity()) continue;
        backward_sample(Sample<T>(x, targets, n), log_alpha.data<T>() + n * steps * width, width,
                        classes, loss, grad.data<T>()[n], grad_x.data<T>() + n * classes);
      }
    });
  });
}
KERNEL_FOR(ctc_loss_backward, ctc_loss_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
