// Connectionist temporal classification on CUDA: the forward and backward recursions of Graves et
// al. (2006) in logarithms. A block takes a sample, its threads the states of one time.
#include <limits>
#include <vector>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/deterministic.h"
#include "flambeau/cuda/runtime/graph.h"
#include "flambeau/kernels/sequences.h"

namespace flambeau::cuda {
namespace {

template <class T>
__device__ constexpr T impossible = -std::numeric_limits<T>::infinity();

template <class T>
__device__ T log_add(T a, T b) {
  const T most = a > b ? a : b;
  return most == impossible<T> ? most : most + ::log(::exp(a - most) + ::exp(b - most));
}

// Lengths and labels of all samples, in device memory.
struct Batch {
  const int64_t *inputs, *targets, *starts, *labels;
  int64_t samples, classes, blank, width, steps;  // width, steps: of log_alpha
};

// One sample: its log-probabilities, and its labels with blanks before, between and after.
template <class T>
struct Sample {
  const T* x;
  int64_t step, steps, states;
  const int64_t* labels;
  int64_t blank;

  __device__ Sample(const T* log_probs, const Batch& b, int64_t n)
      : x(log_probs + n * b.classes),
        step(b.samples * b.classes),
        steps(b.inputs[n]),
        states(2 * b.targets[n] + 1),
        labels(b.labels + b.starts[n]),
        blank(b.blank) {}
  __device__ int64_t label(int64_t s) const { return s % 2 ? labels[s / 2] : blank; }
  __device__ T at(int64_t t, int64_t s) const { return x[t * step + label(s)]; }
  // Whether state s may follow s - 2: two labels with only a blank between them must differ.
  __device__ bool skips(int64_t s) const { return s >= 2 && s % 2 && label(s) != label(s - 2); }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    forward_kernel(const T* log_probs, Batch b, T* losses, T* log_alpha) {
  const int64_t n = blockIdx.x;
  const Sample<T> sample(log_probs, b, n);
  T* alpha = log_alpha + n * b.steps * b.width;
  for (int64_t t = 0; t < sample.steps; ++t) {
    const T* before = alpha + (t - 1) * b.width;
    for (int64_t s = threadIdx.x; s < b.width; s += block_size) {
      T value = impossible<T>;
      if (s < sample.states && t == 0) {
        if (s < 2) value = sample.at(0, s);
      } else if (s < sample.states) {
        T sum = before[s];
        if (s >= 1) sum = log_add(sum, before[s - 1]);
        if (sample.skips(s)) sum = log_add(sum, before[s - 2]);
        value = sum + sample.at(t, s);
      }
      alpha[t * b.width + s] = value;
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  if (sample.steps == 0) {
    losses[n] = sample.states == 1 ? T(0) : std::numeric_limits<T>::infinity();
    return;
  }
  const T* last = alpha + (sample.steps - 1) * b.width + sample.states - 1;
  losses[n] = -(sample.states > 1 ? log_add(last[0], last[-1]) : last[0]);
}

// The probabilities, given the labels, of each state at each time; and in beta, of two times, the
// logarithms of the probabilities of all endings.
template <class T>
__global__ void __launch_bounds__(block_size)
    backward_kernel(const T* log_probs, Batch b, const T* losses, const T* log_alpha, T* betas,
                    T* chances) {
  const int64_t n = blockIdx.x;
  const Sample<T> sample(log_probs, b, n);
  const T* alpha = log_alpha + n * b.steps * b.width;
  T* chance = chances + n * b.steps * b.width;
  T* beta = betas + n * 2 * b.width;
  for (int64_t t = sample.steps - 1; t >= 0; --t) {
    T* now = beta + (t % 2) * b.width;
    const T* next = beta + ((t + 1) % 2) * b.width;
    for (int64_t s = threadIdx.x; s < sample.states; s += block_size) {
      T sum = impossible<T>;
      if (t == sample.steps - 1) {
        if (s >= sample.states - 2) sum = T(0);
      } else {
        sum = next[s];
        if (s + 1 < sample.states) sum = log_add(sum, next[s + 1]);
        if (s + 2 < sample.states && sample.skips(s + 2)) sum = log_add(sum, next[s + 2]);
      }
      const T x = sample.at(t, s);
      now[s] = sum + x;
      // alpha and beta both have x in them.
      chance[t * b.width + s] = ::exp(alpha[t * b.width + s] + sum + losses[n]);
    }
    __syncthreads();
  }
}

// A thread for each log-probability: the softmax's share of the gradient.
template <class T>
__global__ void __launch_bounds__(block_size)
    spread_kernel(const T* log_probs, Batch b, const T* losses, const T* grad, T* grad_x,
                  int64_t numel, bool zero_infinity) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  const int64_t n = e / b.classes % b.samples, t = e / b.classes / b.samples;
  if (t >= b.inputs[n]) return;
  const bool endless = losses[n] == std::numeric_limits<T>::infinity();
  if (endless && zero_infinity) return;
  grad_x[e] = endless ? std::numeric_limits<T>::quiet_NaN() : ::exp(log_probs[e]) * grad[n];
}

// A thread for each state and time: what it takes from its label's gradient.
template <class T>
__global__ void __launch_bounds__(block_size)
    take_kernel(Batch b, const T* losses, const T* chances, const T* grad, T* grad_x,
                int64_t numel) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  const int64_t s = e % b.width, t = e / b.width % b.steps, n = e / b.width / b.steps;
  if (t >= b.inputs[n] || s >= 2 * b.targets[n] + 1) return;
  if (losses[n] == std::numeric_limits<T>::infinity()) return;
  const int64_t label = s % 2 ? b.labels[b.starts[n] + s / 2] : b.blank;
  const T chance = chances[e];
  if (chance != T(0))
    atomicAdd(grad_x + (t * b.samples + n) * b.classes + label, -chance * grad[n]);
}

// What the kernels know of the batch, copied to the device.
class BatchOnDevice {
 public:
  BatchOnDevice(const Tensor& x, const CtcTargets& targets, const Tensor& log_alpha)
      : samples_(x.sizes()[1]),
        memory_((3 * samples_ + targets.labels.size() + 1) * sizeof(int64_t), x.device().index) {
    std::vector<int64_t> all(targets.input_lengths);
    for (const auto& part : {targets.lengths, targets.starts, targets.labels})
      all.insert(all.end(), part.begin(), part.end());
    upload("ctc_loss", memory_.get(), all.data(), all.size() * sizeof(int64_t), x.device().index);
    const int64_t* at = memory_.get<int64_t>();
    batch = {at,           at + samples_, at + 2 * samples_,    at + 3 * samples_,   samples_,
             x.sizes()[2], targets.blank, log_alpha.sizes()[2], log_alpha.sizes()[1]};
  }
  Batch batch{};

 private:
  int64_t samples_;
  Workspace memory_;
};

constexpr auto ctc_dtypes = DType::float32 | DType::float64;

void ctc_loss_kernel(const Tensor& x, const CtcTargets& targets, const Tensor& losses,
                     const Tensor& log_alpha) {
  const DeviceGuard guard(x.device().index);
  const BatchOnDevice on_device(x, targets, log_alpha);
  dispatch<ctc_dtypes>("ctc_loss", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("ctc_loss", forward_kernel<T>, blocks_for(losses.numel(), 1), block_size, x.data<T>(),
           on_device.batch, losses.data<T>(), log_alpha.data<T>());
  });
}
KERNEL_FOR(ctc_loss, ctc_loss_kernel)

void ctc_loss_backward_kernel(const Tensor& grad, const Tensor& x, const CtcTargets& targets,
                              const Tensor& losses, const Tensor& log_alpha, const Tensor& grad_x,
                              bool zero_infinity) {
  constexpr const char* op = "ctc_loss_backward";
  alert_not_deterministic("ctc_loss_backward_gpu");
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const BatchOnDevice on_device(x, targets, log_alpha);
  const Batch& b = on_device.batch;
  dispatch<ctc_dtypes>(op, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t states = log_alpha.numel();
    const Workspace betas(2 * b.samples * b.width * sizeof(T), device);
    const Workspace chances(states * sizeof(T), device);
    launch(op, backward_kernel<T>, blocks_for(b.samples, 1), block_size, x.data<T>(), b,
           losses.data<T>(), log_alpha.data<T>(), betas.get<T>(), chances.get<T>());
    launch(op, spread_kernel<T>, blocks_for(x.numel(), block_size), block_size, x.data<T>(), b,
           losses.data<T>(), grad.data<T>(), grad_x.data<T>(), x.numel(), zero_infinity);
    launch(op, take_kernel<T>, blocks_for(states, block_size), block_size, b, losses.data<T>(),
           chances.get<T>(), grad.data<T>(), grad_x.data<T>(), states);
  });
}
KERNEL_FOR(ctc_loss_backward, ctc_loss_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
