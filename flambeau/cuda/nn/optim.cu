// Optimizer steps on the device: many parameters in one launch. Tensors are cut into chunks, and a
// block finds its chunk in a table that travels with the kernel's arguments.
#include "flambeau/kernels/optim.h"

#include <cmath>

#include "flambeau/cuda/elementwise/loops.cuh"

namespace flambeau::cuda {
namespace {

// Elements that a block takes: few, so that every multiprocessor has some, unless there are many.
constexpr int64_t min_chunk = 1024, max_chunk = 16384;
int64_t chunk_for(int64_t elements, int device) {
  const int64_t share = elements / multiprocessors(device);
  return std::clamp(share / min_chunk * min_chunk, min_chunk, max_chunk);
}

// Up to `tensors` tensors, each with Arrays arrays of one length, in up to `chunks` chunks.
template <int Arrays>
struct Table {
  static constexpr int tensors = 32, chunks = 256;
  void* data[tensors][Arrays];
  int64_t sizes[tensors];
  double numbers[tensors][2];  // what differs from tensor to tensor
  unsigned char tensor_of[chunks];
  int chunk_of[chunks];
  int64_t chunk;
};

// Collects tensors and calls run(table, blocks) whenever the table is full, and at the end.
template <int Arrays, class Run>
class Batches {
 public:
  Batches(Run run, int64_t chunk) : run_(run) { table_.chunk = chunk; }

  void add(void* const (&data)[Arrays], int64_t size, double first = 0, double second = 0) {
    const int64_t parts = (size + table_.chunk - 1) / table_.chunk;
    int slot = -1;
    for (int64_t part = 0; part < parts; ++part) {
      if (slot < 0) {
        if (tensors_ == Table<Arrays>::tensors) flush();
        slot = tensors_++;
        std::copy_n(data, Arrays, table_.data[slot]);
        table_.sizes[slot] = size;
        table_.numbers[slot][0] = first;
        table_.numbers[slot][1] = second;
      }
      table_.tensor_of[chunks_] = static_cast<unsigned char>(slot);
      table_.chunk_of[chunks_] = static_cast<int>(part);
      if (++chunks_ == Table<Arrays>::chunks) {
        flush();
        slot = -1;  // the rest of this tensor starts the next table
      }
    }
  }
  void flush() {
    if (chunks_) run_(table_, chunks_);
    tensors_ = chunks_ = 0;
  }

 private:
  Run run_;
  Table<Arrays> table_;
  int tensors_ = 0, chunks_ = 0;
};

// Runs body(i) for the elements of this block's chunk.
template <int Arrays, class Body>
__device__ void for_chunk(const Table<Arrays>& table, const Body& body) {
  const int64_t first = table.chunk_of[blockIdx.x] * table.chunk;
  const int64_t last = min(first + table.chunk, table.sizes[table.tensor_of[blockIdx.x]]);
#pragma unroll 4
  for (int64_t i = first + threadIdx.x; i < last; i += block_size) body(i);
}

// --- Stochastic gradient descent -----------------------------------------------------------------

template <class C>
struct Sgd {
  C lr, decay, factor, kept, added, ahead, now;
  bool has_buffer, first;
  explicit Sgd(const SgdStep& s, bool buffers)
      : lr(static_cast<C>(s.lr)),
        decay(static_cast<C>(s.weight_decay)),
        factor(static_cast<C>(s.factor)),
        kept(s.first ? C(0) : static_cast<C>(s.momentum)),
        added(s.first ? C(1) : static_cast<C>(1 - s.dampening)),
        ahead(s.nesterov ? static_cast<C>(s.momentum) : C(1)),
        now(s.nesterov ? C(1) : C(0)),
        has_buffer(buffers),
        first(s.first) {}
};

template <class T>
__global__ void __launch_bounds__(block_size)
    sgd_kernel(const __grid_constant__ Table<3> table, Sgd<ComputeType<T>> s) {
  using C = ComputeType<T>;
  const int tensor = table.tensor_of[blockIdx.x];
  T* p = static_cast<T*>(table.data[tensor][0]);
  const T* g = static_cast<const T*>(table.data[tensor][1]);
  T* buffer = static_cast<T*>(table.data[tensor][2]);
  for_chunk(table, [&](int64_t i) {
    const C x = static_cast<C>(p[i]);
    const C gradient = static_cast<C>(g[i]) * s.factor + s.decay * x;
    if (!s.has_buffer) {
      p[i] = static_cast<T>(x - s.lr * gradient);
      return;
    }
    const C before = s.first ? C(0) : static_cast<C>(buffer[i]);
    const C velocity = s.kept * before + s.added * gradient;
    buffer[i] = static_cast<T>(velocity);
    p[i] = static_cast<T>(x - s.lr * (s.now * gradient + s.ahead * velocity));
  });
}

// Calls body(TypeTag) once for each real dtype among the parameters, with those that have it.
template <class Body>
void by_dtype(const char* op, const kernels::Tensors& params, const Body& body) {
  uint32_t seen = 0;
  for (const Tensor& param : params) {
    const DType real = to_real(param.dtype());
    if (DTypeSet(seen).has(real)) continue;
    seen |= DTypeSet(real).bits;
    dispatch<dtypes::Floating>(op, real, [&](auto tag) { body(tag, real); });
  }
}

// A complex number is two real ones.
int64_t real_elements(const Tensor& x) { return x.numel() * (x.is_complex() ? 2 : 1); }

int64_t chunk_for(const kernels::Tensors& params) {
  int64_t elements = 0;
  for (const Tensor& param : params) elements += real_elements(param);
  return chunk_for(elements, params[0].device().index);
}

void sgd_step_kernel(const kernels::Tensors& params, const kernels::Tensors& grads,
                     const kernels::Tensors& buffers, const SgdStep& step) {
  const DeviceGuard guard(params[0].device().index);
  const int64_t chunk = chunk_for(params);
  by_dtype("_sgd_step", params, [&](auto tag, DType real) {
    using T = typename decltype(tag)::type;
    const Sgd<ComputeType<T>> numbers(step, !buffers.empty());
    const auto run = [&](const Table<3>& table, int blocks) {
      launch("_sgd_step", sgd_kernel<T>, blocks, block_size, table, numbers);
    };
    Batches<3, decltype(run)> batches(run, chunk);
    for (size_t i = 0; i < params.size(); ++i) {
      if (to_real(params[i].dtype()) != real) continue;
      batches.add({params[i].raw(), grads[i].raw(), buffers.empty() ? nullptr : buffers[i].raw()},
                  real_elements(params[i]));
    }
    batches.flush();
  });
}
KERNEL_FOR(sgd_step, sgd_step_kernel)

// --- Gradients of a scaled loss ------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size)
    unscale_kernel(const __grid_constant__ Table<1> table, float* found_inf, const float* factor) {
  using C = ComputeType<T>;
  T* g = static_cast<T*>(table.data[table.tensor_of[blockIdx.x]][0]);
  const C by = static_cast<C>(*factor);
  bool broken = false;
  for_chunk(table, [&](int64_t i) {
    const C x = static_cast<C>(g[i]);
    broken |= !isfinite(x);
    g[i] = static_cast<T>(x * by);
  });
  if (broken) *found_inf = 1;  // whoever writes it writes this
}

void unscale_grads(const kernels::Tensors& grads, const Tensor& found_inf, const Tensor& factor) {
  const DeviceGuard guard(grads[0].device().index);
  const int64_t chunk = chunk_for(grads);
  by_dtype("_amp_unscale", grads, [&](auto tag, DType real) {
    using T = typename decltype(tag)::type;
    const auto run = [&](const Table<1>& table, int blocks) {
      launch("_amp_unscale", unscale_kernel<T>, blocks, block_size, table, found_inf.data<float>(),
             factor.data<float>());
    };
    Batches<1, decltype(run)> batches(run, chunk);
    for (const Tensor& grad : grads) {
      if (grad.dtype() == real) batches.add({grad.raw()}, grad.numel());
    }
    batches.flush();
  });
}
KERNEL_FOR(unscale, unscale_grads)

// --- Adam ----------------------------------------------------------------------------------------

// Numbers that a step reads on the device; null where the host knows them.
struct OnDevice {
  const float *lr = nullptr, *scale = nullptr, *found_inf = nullptr;
  double beta1 = 0, beta2 = 0, decay = 0;
  explicit OnDevice(const AdamStep& s)
      : lr(at(s.lr_tensor)),
        scale(at(s.grad_scale)),
        found_inf(at(s.found_inf)),
        beta1(s.beta1),
        beta2(s.beta2),
        decay(s.decoupled ? s.weight_decay : 0) {}

 private:
  static const float* at(const Tensor& x) { return x.defined() ? x.data<float>() : nullptr; }
};

template <class C>
struct Adam {
  C keep, decay, factor, new1, old2, new2, eps;
  double lr;
  explicit Adam(const AdamStep& s)
      : keep(static_cast<C>(s.decoupled ? 1 - s.lr * s.weight_decay : 1.0)),
        decay(static_cast<C>(s.decoupled ? 0.0 : s.weight_decay)),
        factor(static_cast<C>(s.factor)),
        new1(static_cast<C>(1 - s.beta1)),
        old2(static_cast<C>(s.beta2)),
        new2(static_cast<C>(1 - s.beta2)),
        eps(static_cast<C>(s.eps)),
        lr(s.lr) {}
};

// Counts a step of every tensor; the counts are the first array.
__global__ void __launch_bounds__(block_size)
    count_kernel(const __grid_constant__ Table<1> table, int tensors, const float* found_inf) {
  if (threadIdx.x >= tensors || (found_inf && *found_inf != 0)) return;
  *static_cast<float*>(table.data[threadIdx.x][0]) += 1;
}

// Counted says that the table's last array is a count of steps on the device.
template <class T, bool Counted, int Arrays>
__global__ void __launch_bounds__(block_size)
    adam_kernel(const __grid_constant__ Table<Arrays> table, Adam<ComputeType<T>> s, OnDevice on) {
  using C = ComputeType<T>;
  const int tensor = table.tensor_of[blockIdx.x];
  T* p = static_cast<T*>(table.data[tensor][0]);
  const T* g = static_cast<const T*>(table.data[tensor][1]);
  T* average = static_cast<T*>(table.data[tensor][2]);
  T* square = static_cast<T*>(table.data[tensor][3]);
  T* max_square = static_cast<T*>(table.data[tensor][4]);
  double length = table.numbers[tensor][0], root = table.numbers[tensor][1];
  if constexpr (Counted) {
    if (on.found_inf && *on.found_inf != 0) return;
    __shared__ double shared[2];
    const double lr = on.lr ? static_cast<double>(*on.lr) : s.lr;
    if (threadIdx.x == 0) {
      const double count = *static_cast<const float*>(table.data[tensor][5]);
      shared[0] = lr / (1 - pow(on.beta1, count));
      shared[1] = sqrt(1 - pow(on.beta2, count));
    }
    __syncthreads();
    length = shared[0];
    root = shared[1];
    if (on.lr) s.keep = static_cast<C>(1 - lr * on.decay);
    if (on.scale) s.factor /= static_cast<C>(*on.scale);
  }
  const C size = static_cast<C>(length), root_scale = static_cast<C>(root);
  for_chunk(table, [&](int64_t i) {
    const C x = static_cast<C>(p[i]) * s.keep, old = static_cast<C>(average[i]);
    const C gradient = static_cast<C>(g[i]) * s.factor + s.decay * x;
    const C m = old + s.new1 * (gradient - old);
    const C v = static_cast<C>(square[i]) * s.old2 + s.new2 * gradient * gradient;
    average[i] = static_cast<T>(m);
    square[i] = static_cast<T>(v);
    C most = v;
    if (max_square) {
      const C before = static_cast<C>(max_square[i]);
      most = before > v ? before : v;
      max_square[i] = static_cast<T>(most);
    }
    p[i] = static_cast<T>(x - size * (m / (math::sqrt(most) / root_scale + s.eps)));
  });
}

void adam_step_kernel(const kernels::Tensors& params, const kernels::Tensors& grads,
                      const kernels::Tensors& averages, const kernels::Tensors& squares,
                      const kernels::Tensors& max_squares, const std::vector<double>& counts,
                      const kernels::Tensors& device_counts, const AdamStep& step) {
  const DeviceGuard guard(params[0].device().index);
  const OnDevice on(step);
  const int64_t chunk = chunk_for(params);
  if (!device_counts.empty()) {
    const auto run = [&](const Table<1>& table, int tensors) {
      launch("_adam_step", count_kernel, 1, block_size, table, tensors, on.found_inf);
    };
    Batches<1, decltype(run)> batches(run, min_chunk);
    for (const Tensor& count : device_counts) batches.add({count.raw()}, 1);
    batches.flush();
  }
  by_dtype("_adam_step", params, [&](auto tag, DType real) {
    using T = typename decltype(tag)::type;
    const Adam<ComputeType<T>> numbers(step);
    if (!device_counts.empty()) {
      const auto run = [&](const Table<6>& table, int blocks) {
        launch("_adam_step", adam_kernel<T, true, 6>, blocks, block_size, table, numbers, on);
      };
      Batches<6, decltype(run)> batches(run, chunk);
      for (size_t i = 0; i < params.size(); ++i) {
        if (to_real(params[i].dtype()) != real) continue;
        batches.add({params[i].raw(), grads[i].raw(), averages[i].raw(), squares[i].raw(),
                     max_squares.empty() ? nullptr : max_squares[i].raw(), device_counts[i].raw()},
                    real_elements(params[i]));
      }
      return batches.flush();
    }
    const auto run = [&](const Table<5>& table, int blocks) {
      launch("_adam_step", adam_kernel<T, false, 5>, blocks, block_size, table, numbers, on);
    };
    Batches<5, decltype(run)> batches(run, chunk);
    for (size_t i = 0; i < params.size(); ++i) {
      if (to_real(params[i].dtype()) != real) continue;
      batches.add({params[i].raw(), grads[i].raw(), averages[i].raw(), squares[i].raw(),
                   max_squares.empty() ? nullptr : max_squares[i].raw()},
                  real_elements(params[i]), step.lr / (1 - std::pow(step.beta1, counts[i])),
                  std::sqrt(1 - std::pow(step.beta2, counts[i])));
    }
    batches.flush();
  });
}
KERNEL_FOR(adam_step, adam_step_kernel)

}  // namespace
}  // namespace flambeau::cuda
