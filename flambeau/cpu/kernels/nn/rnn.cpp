// The elementwise part of a step of LSTM, GRU and plain RNN on the CPU: one pass over the gates.
#include "flambeau/kernels/rnn.h"

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Calls body(row) for every row, in parallel where `width` transcendental functions a row pay.
template <class Body>
void for_sequences(int64_t rows, int64_t width, const Body& body) {
  parallel_for(0, rows, default_grain / 8 / std::max<int64_t>(width, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t r = first; r < last; ++r) body(r);
               });
}

template <class T>
void lstm_row(T* gates, const T* c_before, T* c, T* h, int64_t n) {
  using C = ComputeType<T>;
  IVDEP for (int64_t j = 0; j < n; ++j) {
    const C in = math::sigmoid(static_cast<C>(gates[j]));
    const C forget = math::sigmoid(static_cast<C>(gates[n + j]));
    const C cell = math::tanh(static_cast<C>(gates[2 * n + j]));
    const C out = math::sigmoid(static_cast<C>(gates[3 * n + j]));
    const C state = forget * static_cast<C>(c_before[j]) + in * cell;
    gates[j] = static_cast<T>(in), gates[n + j] = static_cast<T>(forget);
    gates[2 * n + j] = static_cast<T>(cell), gates[3 * n + j] = static_cast<T>(out);
    c[j] = static_cast<T>(state);
    h[j] = static_cast<T>(out * math::tanh(state));
  }
}

void lstm_step_kernel(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                      const Tensor& h) {
  const int64_t n = c.sizes()[1];
  dispatch<dtypes::Floating>("lstm_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_sequences(c.sizes()[0], n, [&](int64_t r) {
      lstm_row(gates.data<T>() + r * 4 * n, c_before.data<T>() + r * n, c.data<T>() + r * n,
               h.data<T>() + r * n, n);
    });
  });
}
KERNEL_FOR(lstm_step, lstm_step_kernel)

template <class T>
void lstm_row_backward(const T* gates, const T* c_before, const T* c, const T* grad_h, T* grad_c,
                       T* grad, int64_t n) {
  using C = ComputeType<T>;
  IVDEP for (int64_t j = 0; j < n; ++j) {
    const C in = static_cast<C>(gates[j]), forget = static_cast<C>(gates[n + j]);
    const C cell = static_cast<C>(gates[2 * n + j]), out = static_cast<C>(gates[3 * n + j]);
    const C squashed = math::tanh(static_cast<C>(c[j])), gh = static_cast<C>(grad_h[j]);
    const C gc = static_cast<C>(grad_c[j]) + gh * out * (C(1) - squashed * squashed);
    grad[j] = static_cast<T>(gc * cell * in * (C(1) - in));
    grad[n + j] = static_cast<T>(gc * static_cast<C>(c_before[j]) * forget * (C(1) - forget));
    grad[2 * n + j] = static_cast<T>(gc * in * (C(1) - cell * cell));
    grad[3 * n + j] = static_cast<T>(gh * squashed * out * (C(1) - out));
    grad_c[j] = static_cast<T>(gc * forget);
  }
}

void lstm_step_backward_kernel(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                               const Tensor& grad_h, const Tensor& grad_c,
                               const Tensor& grad_gates) {
  const int64_t n = c.sizes()[1];
  dispatch<dtypes::Floating>("lstm_cell_backward", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_sequences(c.sizes()[0], n, [&](int64_t r) {
      lstm_row_backward(gates.data<T>() + r * 4 * n, c_before.data<T>() + r * n,
                        c.data<T>() + r * n, grad_h.data<T>() + r * n, grad_c.data<T>() + r * n,
                        grad_gates.data<T>() + r * 4 * n, n);
    });
  });
}
KERNEL_FOR(lstm_step_backward, lstm_step_backward_kernel)

template <class T>
void gru_row(T* gates, const T* hidden, const T* h_before, T* h, int64_t n) {
  using C = ComputeType<T>;
  IVDEP for (int64_t j = 0; j < n; ++j) {
    const C reset = math::sigmoid(static_cast<C>(gates[j]) + static_cast<C>(hidden[j]));
    const C update = math::sigmoid(static_cast<C>(gates[n + j]) + static_cast<C>(hidden[n + j]));
    const C fresh =
        math::tanh(static_cast<C>(gates[2 * n + j]) + reset * static_cast<C>(hidden[2 * n + j]));
    gates[j] = static_cast<T>(reset), gates[n + j] = static_cast<T>(update);
    gates[2 * n + j] = static_cast<T>(fresh);
    h[j] = static_cast<T>(fresh + update * (static_cast<C>(h_before[j]) - fresh));
  }
}

void gru_step_kernel(const Tensor& gates, const Tensor& hidden, const Tensor& h_before,
                     const Tensor& h) {
  const int64_t n = h.sizes()[1];
  dispatch<dtypes::Floating>("gru_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_sequences(h.sizes()[0], n, [&](int64_t r) {
      gru_row(gates.data<T>() + r * 3 * n, hidden.data<T>() + r * 3 * n, h_before.data<T>() + r * n,
              h.data<T>() + r * n, n);
    });
  });
}
KERNEL_FOR(gru_step, gru_step_kernel)

template <class T>
void gru_row_backward(const T* gates, const T* hidden, const T* h_before, T* grad_h, T* grad,
                      T* grad_hidden, int64_t n) {
  using C = ComputeType<T>;
  IVDEP for (int64_t j = 0; j < n; ++j) {
    const C reset = static_cast<C>(gates[j]), update = static_cast<C>(gates[n + j]);
    const C fresh = static_cast<C>(gates[2 * n + j]), gh = static_cast<C>(grad_h[j]);
    const C g_fresh = gh * (C(1) - update) * (C(1) - fresh * fresh);
    const C g_update = gh * (static_cast<C>(h_before[j]) - fresh) * update * (C(1) - update);
    const C g_reset = g_fresh * static_cast<C>(hidden[2 * n + j]) * reset * (C(1) - reset);
    grad[j] = grad_hidden[j] = static_cast<T>(g_reset);
    grad[n + j] = grad_hidden[n + j] = static_cast<T>(g_update);
    grad[2 * n + j] = static_cast<T>(g_fresh);
    grad_hidden[2 * n + j] = static_cast<T>(g_fresh * reset);
    grad_h[j] = static_cast<T>(gh * update);
  }
}

void gru_step_backward_kernel(const Tensor& gates, const Tensor& hidden, const Tensor& h_before,
                              const Tensor& grad_h, const Tensor& grad_gates,
                              const Tensor& grad_hidden) {
  const int64_t n = h_before.sizes()[1];
  dispatch<dtypes::Floating>("gru_cell_backward", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_sequences(h_before.sizes()[0], n, [&](int64_t r) {
      gru_row_backward(gates.data<T>() + r * 3 * n, hidden.data<T>() + r * 3 * n,
                       h_before.data<T>() + r * n, grad_h.data<T>() + r * n,
                       grad_gates.data<T>() + r * 3 * n, grad_hidden.data<T>() + r * 3 * n, n);
    });
  });
}
KERNEL_FOR(gru_step_backward, gru_step_backward_kernel)

void rnn_step_kernel(const Tensor& gates, const Tensor& h, bool relu) {
  dispatch<dtypes::Floating>("rnn_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = gates.data<T>();
    T* to = h.data<T>();
    for_sequences(h.numel(), 1, [&](int64_t i) {
      const C x = static_cast<C>(from[i]);
      to[i] = static_cast<T>(relu ? (x < C(0) ? C(0) : x) : math::tanh(x));
    });
  });
}
KERNEL_FOR(rnn_step, rnn_step_kernel)

void rnn_step_backward_kernel(const Tensor& h, const Tensor& grad_h, const Tensor& grad_gates,
                              bool relu) {
  dispatch<dtypes::Floating>("rnn_cell_backward", h.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T *y = h.data<T>(), *g = grad_h.data<T>();
    T* to = grad_gates.data<T>();
    for_sequences(h.numel(), 1, [&](int64_t i) {
      const C v = static_cast<C>(y[i]);
      const C slope = relu ? static_cast<C>(v > C(0)) : C(1) - v * v;
      to[i] = static_cast<T>(static_cast<C>(g[i]) * slope);
    });
  });
}
KERNEL_FOR(rnn_step_backward, rnn_step_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
