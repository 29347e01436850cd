// Kernels of nll_loss and of cross-entropy with class indices, whose targets are checked as they
// are read, and of the mean squared error.
#include <algorithm>
#include <cmath>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/nn/exp_rows.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Targets of either dtype.
struct Targets {
  explicit Targets(const Tensor& target, int64_t classes_, int64_t ignore_)
      : wide(target.dtype() == DType::int64 ? target.data<int64_t>() : nullptr),
        narrow(target.dtype() == DType::uint8 ? target.data<uint8_t>() : nullptr),
        classes(classes_),
        ignore(ignore_) {}
  // The class, or -1 for one to ignore.
  [[nodiscard]] int64_t operator[](int64_t i) const {
    const int64_t at = wide ? wide[i] : narrow[i];
    if (at == ignore) return -1;
    CHECK(at >= 0 && at < classes, IndexError, "Target {} is out of bounds.", at);
    return at;
  }
  const int64_t* wide;
  const uint8_t* narrow;
  int64_t classes, ignore;
};

template <class T>
void nll_loss_typed(const Tensor& x, const Tensor& target, const Tensor& weight,
                    Reduction reduction, int64_t ignore_index, const Tensor& out,
                    const Tensor& total_weight) {
  using C = ComputeType<T>;
  const int64_t samples = x.sizes()[0], classes = x.sizes()[1], inner = x.sizes()[2];
  const Targets targets(target, classes, ignore_index);
  const T* data = x.data<T>();
  const T* weights = weight.defined() ? weight.data<T>() : nullptr;
  double total = 0, weight_sum = 0;
  for (int64_t i = 0; i < samples * inner; ++i) {
    const int64_t at = targets[i];
    double loss = 0;
    if (at >= 0) {
      const double w = weights ? static_cast<double>(static_cast<C>(weights[at])) : 1.0;
      loss = -w * static_cast<double>(
                      static_cast<C>(data[(i / inner * classes + at) * inner + i % inner]));
      weight_sum += w;
    }
    if (reduction == Reduction::none) {
      out.data<T>()[i] = static_cast<T>(static_cast<C>(loss));
    } else {
      total += loss;
    }
  }
  if (reduction == Reduction::none) return;
  if (reduction == Reduction::mean) total /= weight_sum;
  out.data<T>()[0] = static_cast<T>(static_cast<C>(total));
  total_weight.data<T>()[0] = static_cast<T>(static_cast<C>(weight_sum));
}

void nll_loss_kernel(const Tensor& x, const Tensor& target, const Tensor& weight,
                     Reduction reduction, int64_t ignore_index, const Tensor& out,
                     const Tensor& total_weight) {
  dispatch<dtypes::Floating>("nll_loss_out_frame", x.dtype(), [&](auto tag) {
    nll_loss_typed<typename decltype(tag)::type>(x, target, weight, reduction, ignore_index, out,
                                                 total_weight);
  });
}
KERNEL_FOR(nll_loss, nll_loss_kernel)

template <class T>
void nll_loss_backward_typed(const Tensor& grad, const Tensor& target, const Tensor& weight,
                             Reduction reduction, int64_t ignore_index, const Tensor& total_weight,
                             const Tensor& grad_input) {
  using C = ComputeType<T>;
  const int64_t samples = grad_input.sizes()[0], classes = grad_input.sizes()[1];
  const int64_t inner = grad_input.sizes()[2];
  const Targets targets(target, classes, ignore_index);
  const T* g = grad.data<T>();
  const T* weights = weight.defined() ? weight.data<T>() : nullptr;
  T* out = grad_input.data<T>();
  std::fill_n(out, grad_input.numel(), T());
  const C divisor = reduction == Reduction::mean ? static_cast<C>(total_weight.data<T>()[0]) : C(1);
  for (int64_t i = 0; i < samples * inner; ++i) {
    const int64_t at = targets[i];
    if (at < 0) continue;
    const C w = weights ? static_cast<C>(weights[at]) : C(1);
    const C incoming = static_cast<C>(g[reduction == Reduction::none ? i : 0]);
    out[(i / inner * classes + at) * inner + i % inner] = static_cast<T>(-w * incoming / divisor);
  }
}

void nll_loss_backward_kernel(const Tensor& grad, const Tensor& target, const Tensor& weight,
                              Reduction reduction, int64_t ignore_index, const Tensor& total_weight,
                              const Tensor& grad_input) {
  dispatch<dtypes::Floating>("nll_loss_backward_out_frame", grad.dtype(), [&](auto tag) {
    nll_loss_backward_typed<typename decltype(tag)::type>(grad, target, weight, reduction,
                                                          ignore_index, total_weight, grad_input);
  });
}
KERNEL_FOR(nll_loss_backward, nll_loss_backward_kernel)

// --- Cross-entropy -------------------------------------------------------------------------------

// What the logarithm of a row's sum of exponentials is the sum of. Kept apart, since small losses
// of large logits would be rounded away in it.
template <class C>
struct LogSum {
  C most, rest;
  LogSum() = default;
  // total: of exp(x - most). Beside an infinite logit no probability is a number.
  LogSum(C top, C total) : most(top), rest(math::isfinite(top) ? math::log(total) : top - top) {}
  [[nodiscard]] C log_probability(C x) const { return (x - most) - rest; }
};

template <class C>
LogSum<C> log_sum_exp(const C* row, int64_t n) {
  const C most = row_max(row, n);
  if (!math::isfinite(most)) return {most, C(1)};
  return {most, row_exp_sum<false>(row, n, most, static_cast<C*>(nullptr))};
}

// log_sum_exp of each row; rows of middle length several at a time.
template <class T>
void log_sums_of_rows(const T* x, int64_t n, int64_t rows, LogSum<ComputeType<T>>* out) {
  using C = ComputeType<T>;
  constexpr int width = one<C>;
  if (n < width || n > middle_row) {
    const std::unique_ptr<C[]> scratch(is_reduced_type<T> ? new C[n] : nullptr);
    if constexpr (std::is_same_v<C, float>) {
      if (n > middle_row) {
        return logs_of_long_rows(x, n, rows, [&](int64_t row, double log) {
          if (log != log) {
            out[row] = log_sum_exp(computed(x + row * n, scratch.get(), n), n);
          } else {
            out[row].most = static_cast<float>(log);
            out[row].rest = static_cast<float>(log - out[row].most);
          }
        });
      }
    }
    for (int64_t i = 0; i < rows; ++i)
      out[i] = log_sum_exp(computed(x + i * n, scratch.get(), n), n);
    return;
  }
  for (int64_t i = 0; i < rows; i += width) {
    const int64_t some = std::min<int64_t>(width, rows - i);
    C most[width][width], total[width][width];
    if constexpr (is_reduced_type<T>) {
      C scratch[width * middle_row];
      load_row(x + i * n, scratch, some * n);
      exp_sums_of_rows<false>(scratch, scratch, n, some, most, total);
    } else {
      exp_sums_of_rows<false>(x + i * n, static_cast<C*>(nullptr), n, some, most, total);
    }
    for (int64_t j = 0; j < some; ++j) out[i + j] = LogSum<C>(most[0][j], total[0][j]);
  }
}

// Several partial sums, so that compilers can vectorise.
template <class T>
double mean_of_row(const T* x, int64_t n) {
  constexpr int lanes = 16;
  double parts[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int j = 0; j < lanes; ++j)
      parts[j] += static_cast<double>(static_cast<ComputeType<T>>(x[i + j]));
  }
  for (; i < n; ++i) parts[0] += static_cast<double>(static_cast<ComputeType<T>>(x[i]));
  double total = 0;
  for (const double part : parts) total += part;
  return total / static_cast<double>(n);
}

template <class T>
void cross_entropy_typed(const Tensor& x, const Tensor& target, int64_t ignore_index,
                         double smoothing, const Tensor& losses, const Tensor& log_sums) {
  using S = ComputeType<T>;
  auto* const sums = reinterpret_cast<LogSum<S>*>(log_sums.data<S>());
  const int64_t rows = x.sizes()[0], classes = x.sizes()[1];
  const Targets targets(target, classes, ignore_index);
  // So few rows that the logits of targets are still in a cache when the sums are known.
  const int64_t together =
      std::clamp<int64_t>(32768 / std::max<int64_t>(classes, 1), 1, 4 * one<S>);
  parallel_for(
      0, rows, default_grain / 8 / std::max<int64_t>(classes, 1) + 1,
      [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const T* logits = x.data<T>() + row * classes;
          if ((row - first) % together == 0) {
            log_sums_of_rows(logits, classes, std::min(together, last - row), sums + row);
          }
          const int64_t at = targets[row];
          S loss = at < 0 ? S(0) : -sums[row].log_probability(static_cast<S>(logits[at]));
          if (loss < S(0)) loss = S(0);  // a probability that was rounded to more than one
          if (at >= 0 && smoothing > 0) {
            const double apart = static_cast<double>(sums[row].most) - mean_of_row(logits, classes);
            loss = static_cast<S>(static_cast<double>(loss) * (1 - smoothing) +
                                  (apart + static_cast<double>(sums[row].rest)) * smoothing);
          }
          losses.data<S>()[row] = loss;
        }
      });
}

void cross_entropy_kernel(const Tensor& x, const Tensor& target, int64_t ignore_index,
                          double smoothing, const Tensor& losses, const Tensor& log_sums) {
  dispatch<dtypes::Floating>("cross_entropy", x.dtype(), [&](auto tag) {
    cross_entropy_typed<typename decltype(tag)::type>(x, target, ignore_index, smoothing, losses,
                                                      log_sums);
  });
}
KERNEL_FOR(cross_entropy, cross_entropy_kernel)

void mean_of_losses_kernel(const Tensor& losses, const Tensor& target, int64_t ignore_index,
                           const Tensor& out, const Tensor& count) {
  dispatch<dtypes::Floating>("cross_entropy", losses.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = losses.data<T>();
    double sum = 0, used = 0;
    dispatch<DTypeSet{} | DType::int64 | DType::uint8>("nll_loss", target.dtype(), [&](auto kind) {
      const auto* classes = target.data<typename decltype(kind)::type>();
      for (int64_t i = 0; i < losses.numel(); ++i) {
        sum += static_cast<double>(values[i]);  // zero where it is ignored
        used += static_cast<int64_t>(classes[i]) != ignore_index ? 1 : 0;
      }
    });
    *out.data<T>() = static_cast<T>(sum / used);
    *count.data<T>() = static_cast<T>(used);
  });
}
KERNEL_FOR(mean_of_losses, mean_of_losses_kernel)

template <class T>
void cross_entropy_backward_typed(const Tensor& scale, const Tensor& count, const Tensor& x,
                                  const Tensor& log_sums, const Tensor& target,
                                  int64_t ignore_index, double smoothing, const Tensor& grad_x) {
  using S = ComputeType<T>;
  const auto* const sums = reinterpret_cast<const LogSum<S>*>(log_sums.data<S>());
  const int64_t rows = x.sizes()[0], classes = x.sizes()[1];
  const auto each = static_cast<S>(smoothing / static_cast<double>(classes));
  const auto wanted = static_cast<S>(1 - smoothing) + each;
  const Targets targets(target, classes, ignore_index);
  const int64_t scale_step = scale.numel() == 1 ? 0 : 1;
  const S divisor = count.defined() ? *count.data<S>() : S(1);
  const bool beyond_cache = grad_x.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
  parallel_for(0, rows, default_grain / 8 / std::max<int64_t>(classes, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t row = first; row < last; ++row) {
                   const T* logits = x.data<T>() + row * classes;
                   T* out = grad_x.data<T>() + row * classes;
                   const int64_t at = targets[row];
                   if (at < 0) {
                     std::fill_n(out, classes, T());
                     continue;
                   }
                   const S factor = scale.data<S>()[row * scale_step] / divisor;
                   const LogSum<S> sum = sums[row];
                   const S chance = math::exp(sum.log_probability(static_cast<S>(logits[at])));
                   const S of_target = (chance - wanted) * factor;
                   if constexpr (std::is_same_v<T, float>) {
                     transform_row(logits, out, classes, beyond_cache, [=](Floats v, int64_t i) {
                       Floats slope = (exp_below((v - sum.most) - sum.rest) - each) * factor;
                       // Here, since what was stored non-temporally would come back from memory for
                       // it.
                       if (static_cast<uint64_t>(at - i) < float_lanes) [[unlikely]] {
                         slope[at - i] = of_target;
                       }
                       return slope;
                     });
                   } else {
                     for (int64_t c = 0; c < classes; ++c) {
                       const S other = math::exp(sum.log_probability(static_cast<S>(logits[c])));
                       out[c] = static_cast<T>((other - each) * factor);
                     }
                     out[at] = static_cast<T>(of_target);
                   }
                 }
                 if (beyond_cache) _mm_sfence();
               });
}

void cross_entropy_backward_kernel(const Tensor& scale, const Tensor& count, const Tensor& x,
                                   const Tensor& log_sums, const Tensor& target,
                                   int64_t ignore_index, double smoothing, const Tensor& grad_x) {
  dispatch<dtypes::Floating>("cross_entropy_backward", x.dtype(), [&](auto tag) {
    cross_entropy_backward_typed<typename decltype(tag)::type>(scale, count, x, log_sums, target,
                                                               ignore_index, smoothing, grad_x);
  });
}
KERNEL_FOR(cross_entropy_backward, cross_entropy_backward_kernel)

// --- Mean squared error --------------------------------------------------------------------------

template <class T>
double squared_distance(const T* a, const T* b, int64_t n) {
  double total = 0;
  int64_t i = 0;
  if constexpr (!std::is_same_v<T, double>) {
    // What a float carries without losing digits, several at once: each waits for its last
    // addition.
    constexpr int64_t step = 2 * two_registers, block = 16 * step;
    while (i + step <= n) {
      Floats sums[4] = {};
      for (const int64_t end = std::min(n, i + block); i + step <= end; i += step) {
        read_ahead<step>(a + i);
        read_ahead<step>(b + i);
#pragma GCC unroll 2
        for (int k = 0; k < 4; k += 2) {
          Floats x[2], y[2];
          two_registers_at(a + i + k * float_lanes, x);
          two_registers_at(b + i + k * float_lanes, y);
          for (int j = 0; j < 2; ++j) sums[k + j] += (x[j] - y[j]) * (x[j] - y[j]);
        }
      }
      float lanes[float_lanes];
      store_floats((sums[0] + sums[1]) + (sums[2] + sums[3]), lanes);
      double wide[float_lanes];
      for (int k = 0; k < float_lanes; ++k) wide[k] = lanes[k];
      total += fold_sum<float_lanes>(wide);
    }
  }
  for (; i < n; ++i) {
    const auto distance = static_cast<ComputeType<T>>(a[i]) - static_cast<ComputeType<T>>(b[i]);
    total += static_cast<double>(distance * distance);
  }
  return total;
}

void squared_distances_kernel(const Tensor& a, const Tensor& b, int64_t chunk,
                              const Tensor& totals) {
  dispatch<dtypes::Floating>("mse_cpu", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = a.data<T>(), *y = b.data<T>();
    auto* const sums = totals.data<ComputeType<T>>();
    parallel_for(0, totals.numel(), default_grain / chunk + 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t n = std::min(chunk, a.numel() - i * chunk);
        sums[i] = static_cast<ComputeType<T>>(squared_distance(x + i * chunk, y + i * chunk, n));
      }
    });
  });
}
KERNEL_FOR(squared_distances, squared_distances_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
