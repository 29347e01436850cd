// The elementwise part of a step of LSTM, GRU and plain RNN: a thread for each unit of a state.
#include "flambeau/kernels/rnn.h"

#include "flambeau/cuda/elementwise/loops.cuh"

namespace flambeau::cuda {
namespace {

// The place of a unit among states (b, H) and, by gate, among gates (b, Gates * H).
template <int Gates>
struct Unit {
  int64_t at, gate, width;
  __device__ Unit(int64_t i, int64_t n) : at(i), gate(i / n * n * Gates + i % n), width(n) {}
  __device__ int64_t operator[](int k) const { return gate + k * width; }
};

template <class F>
__global__ void __launch_bounds__(block_size) for_units(int64_t count, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < count) f(i);
}

template <class F>
void launch_units(const char* op, const Tensor& like, const F& f) {
  if (like.numel() == 0) return;
  const DeviceGuard guard(like.device().index);
  launch(op, for_units<F>, blocks_for(like.numel(), block_size), block_size, like.numel(), f);
}

template <class T>
struct LstmStep {
  using C = ComputeType<T>;
  T* gates;
  const T* c_before;
  T *c, *h;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    const Unit<4> u(i, n);
    const C in = math::sigmoid(static_cast<C>(gates[u[0]]));
    const C forget = math::sigmoid(static_cast<C>(gates[u[1]]));
    const C cell = math::tanh(static_cast<C>(gates[u[2]]));
    const C out = math::sigmoid(static_cast<C>(gates[u[3]]));
    const C state = forget * static_cast<C>(c_before[i]) + in * cell;
    gates[u[0]] = static_cast<T>(in), gates[u[1]] = static_cast<T>(forget);
    gates[u[2]] = static_cast<T>(cell), gates[u[3]] = static_cast<T>(out);
    c[i] = static_cast<T>(state);
    h[i] = static_cast<T>(out * math::tanh(state));
  }
};

template <class T>
struct LstmStepBackward {
  using C = ComputeType<T>;
  const T *gates, *c_before, *c, *grad_h;
  T *grad_c, *grad;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    const Unit<4> u(i, n);
    const C in = static_cast<C>(gates[u[0]]), forget = static_cast<C>(gates[u[1]]);
    const C cell = static_cast<C>(gates[u[2]]), out = static_cast<C>(gates[u[3]]);
    const C squashed = math::tanh(static_cast<C>(c[i])), gh = static_cast<C>(grad_h[i]);
    const C gc = static_cast<C>(grad_c[i]) + gh * out * (C(1) - squashed * squashed);
    grad[u[0]] = static_cast<T>(gc * cell * in * (C(1) - in));
    grad[u[1]] = static_cast<T>(gc * static_cast<C>(c_before[i]) * forget * (C(1) - forget));
    grad[u[2]] = static_cast<T>(gc * in * (C(1) - cell * cell));
    grad[u[3]] = static_cast<T>(gh * squashed * out * (C(1) - out));
    grad_c[i] = static_cast<T>(gc * forget);
  }
};

template <class T>
struct GruStep {
  using C = ComputeType<T>;
  T* gates;
  const T *hidden, *h_before;
  T* h;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    const Unit<3> u(i, n);
    const C reset = math::sigmoid(static_cast<C>(gates[u[0]]) + static_cast<C>(hidden[u[0]]));
    const C update = math::sigmoid(static_cast<C>(gates[u[1]]) + static_cast<C>(hidden[u[1]]));
    const C fresh = math::tanh(static_cast<C>(gates[u[2]]) + reset * static_cast<C>(hidden[u[2]]));
    gates[u[0]] = static_cast<T>(reset), gates[u[1]] = static_cast<T>(update);
    gates[u[2]] = static_cast<T>(fresh);
    h[i] = static_cast<T>(fresh + update * (static_cast<C>(h_before[i]) - fresh));
  }
};

template <class T>
struct GruStepBackward {
  using C = ComputeType<T>;
  const T *gates, *hidden, *h_before;
  T *grad_h, *grad, *grad_hidden;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    const Unit<3> u(i, n);
    const C reset = static_cast<C>(gates[u[0]]), update = static_cast<C>(gates[u[1]]);
    const C fresh = static_cast<C>(gates[u[2]]), gh = static_cast<C>(grad_h[i]);
    const C g_fresh = gh * (C(1) - update) * (C(1) - fresh * fresh);
    const C g_update = gh * (static_cast<C>(h_before[i]) - fresh) * update * (C(1) - update);
    const C g_reset = g_fresh * static_cast<C>(hidden[u[2]]) * reset * (C(1) - reset);
    grad[u[0]] = grad_hidden[u[0]] = static_cast<T>(g_reset);
    grad[u[1]] = grad_hidden[u[1]] = static_cast<T>(g_update);
    grad[u[2]] = static_cast<T>(g_fresh);
    grad_hidden[u[2]] = static_cast<T>(g_fresh * reset);
    grad_h[i] = static_cast<T>(gh * update);
  }
};

template <class T>
struct RnnStep {
  using C = ComputeType<T>;
  const T* gates;
  T* h;
  bool relu;
  __device__ void operator()(int64_t i) const {
    const C x = static_cast<C>(gates[i]);
    h[i] = static_cast<T>(relu ? (x < C(0) ? C(0) : x) : math::tanh(x));
  }
};

template <class T>
struct RnnStepBackward {
  using C = ComputeType<T>;
  const T *h, *grad_h;
  T* grad;
  bool relu;
  __device__ void operator()(int64_t i) const {
    const C v = static_cast<C>(h[i]);
    const C slope = relu ? static_cast<C>(v > C(0)) : C(1) - v * v;
    grad[i] = static_cast<T>(static_cast<C>(grad_h[i]) * slope);
  }
};

void lstm_step_kernel(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                      const Tensor& h) {
  dispatch<dtypes::Floating>("lstm_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units(
        "lstm_cell", c,
        LstmStep<T>{gates.data<T>(), c_before.data<T>(), c.data<T>(), h.data<T>(), c.sizes()[1]});
  });
}
KERNEL_FOR(lstm_step, lstm_step_kernel)

void lstm_step_backward_kernel(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                               const Tensor& grad_h, const Tensor& grad_c,
                               const Tensor& grad_gates) {
  dispatch<dtypes::Floating>("lstm_cell_backward", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units(
        "lstm_cell_backward", c,
        LstmStepBackward<T>{gates.data<T>(), c_before.data<T>(), c.data<T>(), grad_h.data<T>(),
                            grad_c.data<T>(), grad_gates.data<T>(), c.sizes()[1]});
  });
}
KERNEL_FOR(lstm_step_backward, lstm_step_backward_kernel)

void gru_step_kernel(const Tensor& gates, const Tensor& hidden, const Tensor& h_before,
                     const Tensor& h) {
  dispatch<dtypes::Floating>("gru_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units("gru_cell", h,
                 GruStep<T>{gates.data<T>(), hidden.data<T>(), h_before.data<T>(), h.data<T>(),
                            h.sizes()[1]});
  });
}
KERNEL_FOR(gru_step, gru_step_kernel)

void gru_step_backward_kernel(const Tensor& gates, const Tensor& hidden, const Tensor& h_before,
                              const Tensor& grad_h, const Tensor& grad_gates,
                              const Tensor& grad_hidden) {
  dispatch<dtypes::Floating>("gru_cell_backward", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units(
        "gru_cell_backward", h_before,
        GruStepBackward<T>{gates.data<T>(), hidden.data<T>(), h_before.data<T>(), grad_h.data<T>(),
                           grad_gates.data<T>(), grad_hidden.data<T>(), h_before.sizes()[1]});
  });
}
KERNEL_FOR(gru_step_backward, gru_step_backward_kernel)

void rnn_step_kernel(const Tensor& gates, const Tensor& h, bool relu) {
  dispatch<dtypes::Floating>("rnn_cell", gates.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units("rnn_cell", h, RnnStep<T>{gates.data<T>(), h.data<T>(), relu});
  });
}
KERNEL_FOR(rnn_step, rnn_step_kernel)

void rnn_step_backward_kernel(const Tensor& h, const Tensor& grad_h, const Tensor& grad_gates,
                              bool relu) {
  dispatch<dtypes::Floating>("rnn_cell_backward", h.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_units("rnn_cell_backward", h,
                 RnnStepBackward<T>{h.data<T>(), grad_h.data<T>(), grad_gates.data<T>(), relu});
  });
}
KERNEL_FOR(rnn_step_backward, rnn_step_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
