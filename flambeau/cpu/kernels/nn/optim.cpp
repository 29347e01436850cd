// Optimizer steps on the CPU: one pass over each parameter and its state.
#include <cmath>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/optim.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Calls body(TypeTag) for the real type of a parameter and the number of such elements; a complex
// number is two.
template <class Body>
void for_real_elements(const char* op, const Tensor& param, const Body& body) {
  const DType real = to_real(param.dtype());
  const int64_t n = param.numel() * (param.is_complex() ? 2 : 1);
  dispatch<dtypes::Floating>(op, real, [&](auto tag) { body(tag, n); });
}

// The real numbers of a parameter or its state.
template <class T>
T* reals(const Tensor& x) {
  return static_cast<T*>(x.raw());
}

// Without momentum `buffer` is not read, at the first step it is only written. Both are known when
// it is compiled, or the loop were no vector code.
enum class Momentum { none, begins, goes_on };
template <Momentum Kind, class T>
void sgd_one(T* p, const T* g, T* buffer, int64_t first, int64_t last, const SgdStep& s) {
  using C = ComputeType<T>;
  const C lr = static_cast<C>(s.lr), decay = static_cast<C>(s.weight_decay);
  const C momentum = static_cast<C>(s.momentum), fresh = static_cast<C>(1 - s.dampening);
  const C factor = static_cast<C>(s.factor);
  const C ahead = s.nesterov ? momentum : C(1), now = s.nesterov ? C(1) : C(0);
  IVDEP for (int64_t i = first; i < last; ++i) {
    const C x = static_cast<C>(p[i]);
    const C gradient = static_cast<C>(g[i]) * factor + decay * x;
    C step = gradient;
    if constexpr (Kind != Momentum::none) {
      C velocity = gradient;
      if constexpr (Kind == Momentum::goes_on) {
        velocity = momentum * static_cast<C>(buffer[i]) + fresh * gradient;
      }
      buffer[i] = static_cast<T>(velocity);
      step = now * gradient + ahead * velocity;
    }
    p[i] = static_cast<T>(x - lr * step);
  }
}

void sgd_step_kernel(const kernels::Tensors& params, const kernels::Tensors& grads,
                     const kernels::Tensors& buffers, const SgdStep& step) {
  for (size_t i = 0; i < params.size(); ++i) {
    for_real_elements("_sgd_step", params[i], [&](auto tag, int64_t n) {
      using T = typename decltype(tag)::type;
      T* p = reals<T>(params[i]);
      const T* g = reals<T>(grads[i]);
      T* buffer = buffers.empty() ? nullptr : reals<T>(buffers[i]);
      parallel_for(0, n, default_grain, [&](int64_t first, int64_t last) {
        if (!buffer) {
          sgd_one<Momentum::none>(p, g, buffer, first, last, step);
        } else if (step.first) {
          sgd_one<Momentum::begins>(p, g, buffer, first, last, step);
        } else {
          sgd_one<Momentum::goes_on>(p, g, buffer, first, last, step);
        }
      });
    });
  }
}
KERNEL_FOR(sgd_step, sgd_step_kernel)

// Whether there are largest squares is known when it is compiled, or the loop were no vector code.
template <bool KeepsMost, class T>
void adam_one(T* p, const T* g, T* average, T* square, T* max_square, int64_t first, int64_t last,
              double count, const AdamStep& s) {
  using C = ComputeType<T>;
  const C keep = static_cast<C>(s.decoupled ? 1 - s.lr * s.weight_decay : 1.0);
  const C decay = static_cast<C>(s.decoupled ? 0.0 : s.weight_decay),
          factor = static_cast<C>(s.factor);
  const C new1 = static_cast<C>(1 - s.beta1);
  const C old2 = static_cast<C>(s.beta2), new2 = static_cast<C>(1 - s.beta2);
  const C size = static_cast<C>(s.lr / (1 - std::pow(s.beta1, count)));
  const C root_scale = static_cast<C>(1 / std::sqrt(1 - std::pow(s.beta2, count)));
  const C eps = static_cast<C>(s.eps);
  IVDEP for (int64_t i = first; i < last; ++i) {
    const C x = static_cast<C>(p[i]) * keep;
    const C gradient = static_cast<C>(g[i]) * factor + decay * x;
    const C m = static_cast<C>(average[i]) + new1 * (gradient - static_cast<C>(average[i]));
    const C v = static_cast<C>(square[i]) * old2 + new2 * gradient * gradient;
    average[i] = static_cast<T>(m);
    square[i] = static_cast<T>(v);
    C most = v;
    if constexpr (KeepsMost) {
      const C before = static_cast<C>(max_square[i]);
      most = before > v ? before : v;
      max_square[i] = static_cast<T>(most);
    }
    p[i] = static_cast<T>(x - size * (m / (std::sqrt(most) * root_scale + eps)));
  }
}

void adam_step_kernel(const kernels::Tensors& params, const kernels::Tensors& grads,
                      const kernels::Tensors& averages, const kernels::Tensors& squares,
                      const kernels::Tensors& max_squares, const std::vector<double>& counts,
                      const kernels::Tensors&, const AdamStep& step) {
  for (size_t i = 0; i < params.size(); ++i) {
    for_real_elements("_adam_step", params[i], [&](auto tag, int64_t n) {
      using T = typename decltype(tag)::type;
      T *p = reals<T>(params[i]), *average = reals<T>(averages[i]), *square = reals<T>(squares[i]);
      const T* g = reals<T>(grads[i]);
      T* max_square = max_squares.empty() ? nullptr : reals<T>(max_squares[i]);
      parallel_for(0, n, default_grain / 2, [&](int64_t first, int64_t last) {
        if (max_square) {
          adam_one<true>(p, g, average, square, max_square, first, last, counts[i], step);
        } else {
          adam_one<false>(p, g, average, square, max_square, first, last, counts[i], step);
        }
      });
    });
  }
}
KERNEL_FOR(adam_step, adam_step_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
