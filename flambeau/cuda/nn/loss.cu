// CUDA kernels of nll_loss and of cross-entropy with class indices. A class outside the range is
// reported (see fault.h) and counts as ignored.
#include <limits>

#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/reduce/rows_of.cuh"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/nn.h"

namespace flambeau::cuda {
namespace {

// Targets of either dtype.
struct Targets {
  const int64_t* wide;
  const uint8_t* narrow;
  int64_t classes, ignore;
  FaultPlace fault;

  Targets(const Tensor& target, int64_t classes_, int64_t ignore_)
      : wide(target.dtype() == DType::int64 ? target.data<int64_t>() : nullptr),
        narrow(target.dtype() == DType::uint8 ? target.data<uint8_t>() : nullptr),
        classes(classes_),
        ignore(ignore_),
        fault(fault_of(target.device().index)) {}
  // The class, or -1 for one to ignore.
  __device__ int64_t operator[](int64_t i) const {
    const int64_t at = wide ? wide[i] : narrow[i];
    if (at == ignore) return -1;
    if (at >= 0 && at < classes) return at;
    report(fault, FaultKind::target, at, 1, classes);
    return -1;
  }
  __device__ bool is_ignored(int64_t i) const { return (wide ? wide[i] : narrow[i]) == ignore; }
};

// --- nll_loss ------------------------------------------------------------------------------------

// x is (N, C, inner); positions count over (N, inner).
template <class T>
struct Nll {
  const T *x, *weights;
  Targets targets;
  int64_t inner, positions;

  __device__ int64_t at(int64_t i, int64_t chosen) const {
    return (i / inner * targets.classes + chosen) * inner + i % inner;
  }
  __device__ double weight(int64_t chosen) const {
    return weights ? static_cast<double>(static_cast<ComputeType<T>>(weights[chosen])) : 1.0;
  }
};

template <class T>
__global__ void __launch_bounds__(block_size) nll_each(Nll<T> nll, T* out) {
  using C = ComputeType<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= nll.positions) return;
  const int64_t chosen = nll.targets[i];
  const double loss =
      chosen < 0
          ? 0.0
          : -nll.weight(chosen) * static_cast<double>(static_cast<C>(nll.x[nll.at(i, chosen)]));
  out[i] = static_cast<T>(static_cast<C>(loss));
}

struct LossAndWeight {
  double loss, weight;
  __device__ LossAndWeight shuffled(int step) const {
    return {__shfl_xor_sync(0xffffffffu, loss, step), __shfl_xor_sync(0xffffffffu, weight, step)};
  }
};
struct AddLosses {
  __device__ LossAndWeight operator()(LossAndWeight a, LossAndWeight b) const {
    return {a.loss + b.loss, a.weight + b.weight};
  }
};

// One block adds up all losses, always in the same order.
template <class T>
__global__ void __launch_bounds__(block_size)
    nll_reduced(Nll<T> nll, bool mean, T* out, T* total_weight) {
  using C = ComputeType<T>;
  LossAndWeight mine{0, 0};
  for (int64_t i = threadIdx.x; i < nll.positions; i += block_size) {
    const int64_t chosen = nll.targets[i];
    if (chosen < 0) continue;
    const double weight = nll.weight(chosen);
    mine.loss -= weight * static_cast<double>(static_cast<C>(nll.x[nll.at(i, chosen)]));
    mine.weight += weight;
  }
  const LossAndWeight all = fold_row<block_size>(mine, AddLosses());
  if (threadIdx.x != 0) return;
  *out = static_cast<T>(static_cast<C>(mean ? all.loss / all.weight : all.loss));
  *total_weight = static_cast<T>(static_cast<C>(all.weight));
}

template <class T>
Nll<T> describe(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  return {x.data<T>(), weight.defined() ? weight.data<T>() : nullptr,
          Targets(target, x.sizes()[1], ignore_index), x.sizes()[2], x.sizes()[0] * x.sizes()[2]};
}

void nll_loss_kernel(const Tensor& x, const Tensor& target, const Tensor& weight,
                     Reduction reduction, int64_t ignore_index, const Tensor& out,
                     const Tensor& total_weight) {
  const DeviceGuard guard(x.device().index);
  dispatch<dtypes::Floating>("nll_loss_forward_reduce_cuda_kernel_2d", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Nll<T> nll = describe<T>(x, target, weight, ignore_index);
    if (reduction != Reduction::none) {
      launch("nll_loss", nll_reduced<T>, 1, block_size, nll, reduction == Reduction::mean,
             out.data<T>(), total_weight.data<T>());
    } else if (nll.positions > 0) {
      launch("nll_loss", nll_each<T>, blocks_for(nll.positions, block_size), block_size, nll,
             out.data<T>());
    }
  });
}
KERNEL_FOR(nll_loss, nll_loss_kernel)

// grad_x is `nll.x`, written to; an element gets a gradient where its class was chosen.
template <class T>
__global__ void __launch_bounds__(block_size)
    nll_gradient(Nll<T> nll, T* grad_x, int64_t numel, const T* grad, bool each, const T* divisor) {
  using C = ComputeType<T>;
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  const int64_t sample = e / (nll.targets.classes * nll.inner), within = e % nll.inner;
  const int64_t i = sample * nll.inner + within, chosen = nll.targets[i];
  C value = 0;
  if (chosen >= 0 && nll.at(i, chosen) == e) {
    const C w = nll.weights ? static_cast<C>(nll.weights[chosen]) : C(1);
    value = -w * static_cast<C>(grad[each ? i : 0]) / (divisor ? static_cast<C>(*divisor) : C(1));
  }
  grad_x[e] = static_cast<T>(value);
}

void nll_loss_backward_kernel(const Tensor& grad, const Tensor& target, const Tensor& weight,
                              Reduction reduction, int64_t ignore_index, const Tensor& total_weight,
                              const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const DeviceGuard guard(grad.device().index);
  dispatch<dtypes::Floating>(
      "nll_loss_backward_reduce_cuda_kernel_2d", grad.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* divisor = reduction == Reduction::mean ? total_weight.data<T>() : nullptr;
        launch("nll_loss_backward", nll_gradient<T>, blocks_for(grad_input.numel(), block_size),
               block_size, describe<T>(grad_input, target, weight, ignore_index),
               grad_input.data<T>(), grad_input.numel(), grad.data<T>(),
               reduction == Reduction::none, divisor);
      });
}
KERNEL_FOR(nll_loss_backward, nll_loss_backward_kernel)

// --- Cross-entropy -------------------------------------------------------------------------------

// What is wanted of a row: its class with the chance `chosen`, and every class with `each` more.
template <class C>
struct Smoothing {
  C chosen, each;
  Smoothing(double part, int64_t classes)
      : chosen(static_cast<C>(1 - part)),
        each(static_cast<C>(part / static_cast<double>(classes))) {}
};

template <class T, int Lanes>
__global__ void __launch_bounds__(block_size)
    cross_entropy_rows(const T* x, Targets targets, Smoothing<ComputeType<T>> wanted,
                       ComputeType<T>* losses, ComputeType<T>* log_sums, int64_t rows) {
  using C = ComputeType<T>;
  const int64_t row = my_row(), classes = targets.classes;
  if (row >= rows) return;
  x += row * classes;
  ExpSum<C> mine = no_exp_sum<C>();
  Single<C> sum{C(0)};
  for_ragged_row<Lanes, row_width<T>>(x, 0, classes, [&](const auto& values, int64_t) {
    mine.add(values);
    for (const C value : values) sum.value += value;
  });
  const ExpSum<C> all = fold_row<Lanes>(mine, MergeExpSums<C>());
  if (wanted.each > C(0)) sum = fold_row<Lanes>(sum, AddSingles<C>());
  if (threadIdx.x != 0) return;
  const int64_t chosen = targets[row];
  log_sums[2 * row] = all.most;
  log_sums[2 * row + 1] = math::isfinite(all.most) ? math::log(all.sum) : C(0);
  if (chosen < 0) {
    losses[row] = C(0);
    return;
  }
  C loss = all.log_sum(static_cast<C>(x[chosen]));
  if (wanted.each > C(0)) {
    loss = loss * wanted.chosen +
           all.log_sum(sum.value / static_cast<C>(classes)) * (C(1) - wanted.chosen);
  }
  losses[row] = loss;
}

void cross_entropy_kernel(const Tensor& x, const Tensor& target, int64_t ignore_index,
                          double smoothing, const Tensor& losses, const Tensor& log_sums) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(x.device().index);
  const int64_t rows = x.sizes()[0], classes = x.sizes()[1];
  const Targets targets(target, classes, ignore_index);
  dispatch<dtypes::Floating>("cross_entropy", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto run = [&](auto lanes) {
      launch("cross_entropy", cross_entropy_rows<T, lanes()>, row_grid<lanes()>(rows),
             row_block<lanes()>(), x.data<T>(), targets, Smoothing<C>(smoothing, classes),
             losses.data<C>(), log_sums.data<C>(), rows);
    };
    if (classes <= short_row) {
      run(std::integral_constant<int, warp>());
    } else {
      run(std::integral_constant<int, block_size>());
    }
  });
}
KERNEL_FOR(cross_entropy, cross_entropy_kernel)

// Rows whose losses a block adds up, always in the same order.
constexpr int64_t loss_chunk = 16384;

template <class C>
__device__ void store_mean(const LossAndWeight& all, C* out, C* count) {
  *out = static_cast<C>(all.loss / all.weight);
  *count = static_cast<C>(all.weight);
}

// A block that is not alone leaves its sum to mean_of_chunks.
template <class C>
__global__ void __launch_bounds__(large_block)
    mean_losses(const C* losses, Targets targets, int64_t rows, LossAndWeight* chunks, C* out,
                C* count) {
  const int64_t first = blockIdx.x * loss_chunk, last = min(first + loss_chunk, rows);
  LossAndWeight mine{0, 0};
#pragma unroll 4
  for (int64_t i = first + threadIdx.x; i < last; i += large_block) {
    mine.loss += static_cast<double>(losses[i]);  // zero where it is ignored
    mine.weight += targets.is_ignored(i) ? 0 : 1;
  }
  const LossAndWeight all = fold_row<large_block>(mine, AddLosses());
  if (threadIdx.x != 0) return;
  if (chunks) {
    chunks[blockIdx.x] = all;
  } else {
    store_mean(all, out, count);
  }
}

template <class C>
__global__ void __launch_bounds__(large_block)
    mean_of_chunks(const LossAndWeight* chunks, int number, C* out, C* count) {
  LossAndWeight mine{0, 0};
  for (int i = threadIdx.x; i < number; i += large_block) mine = AddLosses()(mine, chunks[i]);
  const LossAndWeight all = fold_row<large_block>(mine, AddLosses());
  if (threadIdx.x == 0) store_mean(all, out, count);
}

void mean_of_losses_kernel(const Tensor& losses, const Tensor& target, int64_t ignore_index,
                           const Tensor& out, const Tensor& count) {
  const int device = losses.device().index;
  const DeviceGuard guard(device);
  const int64_t rows = losses.numel();
  const auto blocks = std::max(blocks_for(rows, loss_chunk), 1U);
  const Workspace chunks(blocks == 1 ? 0 : blocks * sizeof(LossAndWeight), device);
  dispatch<dtypes::Floating>("cross_entropy", losses.dtype(), [&](auto tag) {
    using C = ComputeType<typename decltype(tag)::type>;
    launch("cross_entropy", mean_losses<C>, blocks, large_block, losses.data<C>(),
           Targets(target, 0, ignore_index), rows, chunks.get<LossAndWeight>(), out.data<C>(),
           count.data<C>());
    if (blocks == 1) return;
    launch("cross_entropy", mean_of_chunks<C>, 1, large_block, chunks.get<LossAndWeight>(),
           static_cast<int>(blocks), out.data<C>(), count.data<C>());
  });
}
KERNEL_FOR(mean_of_losses, mean_of_losses_kernel)

// Elements of a row that a block takes at a time.
constexpr int64_t gradient_part = 4096;

// N neighbours a thread; x and grad_x lie alike where vectors are asked for.
template <class T, int N>
__global__ void __launch_bounds__(block_size)
    cross_entropy_gradient(const ComputeType<T>* scale, bool one_scale, const ComputeType<T>* count,
                           const T* x, const ComputeType<T>* log_sums, Targets targets,
                           Smoothing<ComputeType<T>> wanted, T* grad_x, int64_t parts,
                           int64_t total) {
  using C = ComputeType<T>;
  const int64_t classes = targets.classes;
  for (int64_t part = blockIdx.x; part < total; part += gridDim.x) {
    const int64_t row = part / parts, begin = part % parts * gradient_part;
    const int64_t end = min(begin + gradient_part, classes), chosen = targets[row];
    const C factor = scale[one_scale ? 0 : row] / (count ? *count : C(1));
    const C most = log_sums[2 * row], rest = log_sums[2 * row + 1];
    T* out = grad_x + row * classes;
    for_ragged_row<block_size, N>(
        x + row * classes, begin, end, [&](const auto& values, int64_t i) {
          constexpr int width = std::extent_v<std::remove_reference_t<decltype(values)>>;
          Vector<T, width> results;
#pragma unroll
          for (int j = 0; j < width; ++j) {
            const C hit = i + j == chosen ? wanted.chosen : C(0);
            const C value = (math::exp((values[j] - most) - rest) - hit - wanted.each) * factor;
            results.values[j] = static_cast<T>(chosen < 0 ? C(0) : value);
          }
          *reinterpret_cast<Vector<T, width>*>(out + i) = results;
        });
  }
}

void cross_entropy_backward_kernel(const Tensor& scale, const Tensor& count, const Tensor& x,
                                   const Tensor& log_sums, const Tensor& target,
                                   int64_t ignore_index, double smoothing, const Tensor& grad_x) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(x.device().index);
  const int64_t classes = x.sizes()[1], parts = (classes + gradient_part - 1) / gradient_part;
  const int64_t total = x.sizes()[0] * parts;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(total, INT32_MAX));
  const Targets targets(target, classes, ignore_index);
  dispatch<dtypes::Floating>("cross_entropy_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto run = [&](auto width) {
      launch("cross_entropy_backward", cross_entropy_gradient<T, width()>, blocks, block_size,
             scale.data<C>(), scale.numel() == 1, count.defined() ? count.data<C>() : nullptr,
             x.data<T>(), log_sums.data<C>(), targets, Smoothing<C>(smoothing, classes),
             grad_x.data<T>(), parts, total);
    };
    constexpr int wide = 16 / static_cast<int>(sizeof(T));
    const auto apart =
        reinterpret_cast<uintptr_t>(x.raw()) - reinterpret_cast<uintptr_t>(grad_x.raw());
    if (apart % 16 == 0) {
      run(std::integral_constant<int, wide>());
    } else {
      run(std::integral_constant<int, 1>());
    }
  });
}
KERNEL_FOR(cross_entropy_backward, cross_entropy_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
