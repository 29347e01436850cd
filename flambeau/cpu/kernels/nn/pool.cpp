// Pooling on the CPU. Planes of one channel are walked window by window; channels-last tensors are
// walked with the channels innermost, which vectorises.
#include <algorithm>
#include <cmath>
#include <limits>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

bool is_channels_last(const Tensor& x) { return !x.is_contiguous() && x.strides()[1] == 1; }

// Elements of one channel of one sample.
int64_t plane_size(const Tensor& x) {
  int64_t size = 1;
  for (int64_t d = 2; d < x.dim(); ++d) size *= x.sizes()[d];
  return size;
}

template <class T>
T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

// Calls body(i0, i1, i2, index of the output) for all outputs of a plane.
template <class Body>
void for_outputs(const PoolGeometry& g, const Body& body) {
  int64_t index = 0;
  for (int64_t i0 = 0; i0 < g.dims[0].out; ++i0) {
    for (int64_t i1 = 0; i1 < g.dims[1].out; ++i1) {
      for (int64_t i2 = 0; i2 < g.dims[2].out; ++i2) body(i0, i1, i2, index++);
    }
  }
}

int64_t first_offset(const PoolGeometry& g, int64_t i0, int64_t i1, int64_t i2) {
  return (g.dims[0].start[i0] * g.dims[1].in + g.dims[1].start[i1]) * g.dims[2].in +
         g.dims[2].start[i2];
}

// Calls body(offset in the plane) for all inputs of one window.
template <class Body>
[[gnu::always_inline]] inline void for_window(const PoolGeometry& g, int64_t i0, int64_t i1,
                                              int64_t i2, const Body& body) {
  const PoolDim &d0 = g.dims[0], &d1 = g.dims[1], &d2 = g.dims[2];
  for (int64_t x0 = d0.start[i0]; x0 < d0.end[i0]; x0 += d0.step) {
    for (int64_t x1 = d1.start[i1]; x1 < d1.end[i1]; x1 += d1.step) {
      const int64_t row = (x0 * d1.in + x1) * d2.in;
      for (int64_t x2 = d2.start[i2]; x2 < d2.end[i2]; x2 += d2.step) body(row + x2);
    }
  }
}

// Calls body(first, last) on chunks of the planes, in parallel.
template <class Body>
void for_plane_chunks(int64_t planes, int64_t size, const Body& body) {
  parallel_for(0, planes, default_grain / std::max<int64_t>(size, 1) + 1, body);
}
template <class Body>
void for_planes(int64_t planes, int64_t size, const Body& body) {
  for_plane_chunks(planes, size, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) body(p);
  });
}

// --- Maxima --------------------------------------------------------------------------------------

template <class T>
void max_plane_irregular(const T* x, T* out, int64_t* indices, const PoolGeometry& g) {
  using C = ComputeType<T>;
  for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
    C best = lowest<C>();
    int64_t where = first_offset(g, i0, i1, i2);
    for_window(g, i0, i1, i2, [&](int64_t offset) {
      const C value = static_cast<C>(x[offset]);
      if (value > best || value != value) best = value, where = offset;
    });
    out[at] = static_cast<T>(best);
    if (indices) indices[at] = where;
  });
}

// The outputs of a row whose window, at place k in it, lies inside the input.
struct Reach {
  Reach(const PoolDim& d, int64_t k) : offset(k * d.step - d.padding) {
    first = offset >= 0 ? 0 : (-offset + d.stride - 1) / d.stride;
    last = offset >= d.in ? 0 : std::min(d.out, (d.in - 1 - offset) / d.stride + 1);
  }
  int64_t offset, first, last;
};

// Calls body(stride) with the stride as a constant where loops over it are worth a copy.
template <class Body>
void with_stride(int64_t stride, const Body& body) {
  if (stride == 1) return body(std::integral_constant<int64_t, 1>());
  if (stride == 2) return body(std::integral_constant<int64_t, 2>());
  body(stride);
}

// One row of the input at one place of the windows, for all outputs of a row, and where they are
// found if anybody asks for it.
template <bool with_indices, class T, class Stride>
[[gnu::always_inline]] inline void max_step(const T* from, Stride stride, const Reach& reach,
                                            int32_t base, ComputeType<T>* best, int32_t* where) {
  using C = ComputeType<T>;
  const T* at = from + reach.offset;
  IVDEP for (int64_t i = reach.first; i < reach.last; ++i) {
    const C value = static_cast<C>(at[i * stride]), before = best[i];
    const bool wins = value > before || value != value;
    best[i] = wins ? value : before;
    if constexpr (with_indices)
      where[i] = wins ? base + static_cast<int32_t>(i * stride) : where[i];
  }
}

// Windows at equal distances: a row of outputs at a time, all of them in step, which vectorises.
// Inputs are visited in the order of the plane, so that among equals the first is chosen.
template <class T>
void max_plane(const T* x, T* out, int64_t* indices, const PoolGeometry& g, ComputeType<T>* best,
               int32_t* where) {
  using C = ComputeType<T>;
  const PoolDim &d0 = g.dims[0], &d1 = g.dims[1], &d2 = g.dims[2];
  int64_t row = 0;
  // The type of most networks has a loop of its own for values alone.
  const bool only_values = std::is_same_v<T, float> && !indices;
  for (int64_t i0 = 0; i0 < d0.out; ++i0) {
    for (int64_t i1 = 0; i1 < d1.out; ++i1, ++row) {
      std::fill_n(best, d2.out, lowest<C>());
      for (int64_t i = 0; i < d2.out && !only_values; ++i)
        where[i] = static_cast<int32_t>(first_offset(g, i0, i1, i));
      with_stride(d2.stride, [&](auto stride) {
        for (int64_t x0 = d0.start[i0]; x0 < d0.end[i0]; x0 += d0.step) {
          for (int64_t x1 = d1.start[i1]; x1 < d1.end[i1]; x1 += d1.step) {
            const int64_t begin = (x0 * d1.in + x1) * d2.in;
            for (int64_t k = 0; k < d2.kernel; ++k) {
              const Reach reach(d2, k);
              const auto base = static_cast<int32_t>(begin + reach.offset);
              if constexpr (std::is_same_v<T, float>) {
                if (only_values) {
                  max_step<false>(x + begin, stride, reach, base, best, where);
                  continue;
                }
              }
              max_step<true>(x + begin, stride, reach, base, best, where);
            }
          }
        }
      });
      for (int64_t i = 0; i < d2.out; ++i) out[row * d2.out + i] = static_cast<T>(best[i]);
      if (!indices) continue;
      for (int64_t i = 0; i < d2.out; ++i) indices[row * d2.out + i] = where[i];
    }
  }
}

// One output position of all channels.
template <class T>
void max_channels(const T* x, int64_t channels, ComputeType<T>* best, int64_t* where, T* out,
                  const PoolGeometry& g, int64_t i0, int64_t i1, int64_t i2) {
  using C = ComputeType<T>;
  std::fill_n(best, channels, lowest<C>());
  std::fill_n(where, channels, first_offset(g, i0, i1, i2));
  for_window(g, i0, i1, i2, [&](int64_t offset) {
    const T* row = x + offset * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const C value = static_cast<C>(row[c]);
      const bool wins = value > best[c] || value != value;
      best[c] = wins ? value : best[c];
      where[c] = wins ? offset : where[c];
    }
  });
  for (int64_t c = 0; c < channels; ++c) out[c] = static_cast<T>(best[c]);
}

template <class T>
void max_pool_typed(const Tensor& x, const Tensor& out, const Tensor& indices,
                    const PoolGeometry& g) {
  const int64_t in_size = plane_size(x), out_size = plane_size(out), channels = x.sizes()[1];
  const T* from = x.data<T>();
  T* to = out.data<T>();
  int64_t* found = indices.defined() ? indices.data<int64_t>() : nullptr;
  if (!is_channels_last(x)) {
    const bool regular = g.dims[2].regular && in_size <= INT32_MAX;
    for_plane_chunks(x.sizes()[0] * channels, in_size, [&](int64_t first, int64_t last) {
      std::vector<ComputeType<T>> best(g.dims[2].out);
      std::vector<int32_t> where(g.dims[2].out);
      for (int64_t p = first; p < last; ++p) {
        int64_t* at = found ? found + p * out_size : nullptr;
        if (regular) {
          max_plane(from + p * in_size, to + p * out_size, at, g, best.data(), where.data());
        } else {
          max_plane_irregular(from + p * in_size, to + p * out_size, at, g);
        }
      }
    });
    return;
  }
  parallel_for(0, x.sizes()[0], 1, [&](int64_t first, int64_t last) {
    std::vector<ComputeType<T>> best(channels);
    std::vector<int64_t> spare(channels);
    for (int64_t n = first; n < last; ++n) {
      for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
        const int64_t offset = (n * out_size + at) * channels;
        max_channels(from + n * in_size * channels, channels, best.data(),
                     found ? found + offset : spare.data(), to + offset, g, i0, i1, i2);
      });
    }
  });
}

void max_pool_kernel(const Tensor& x, const Tensor& out, const Tensor& indices,
                     const PoolGeometry& g) {
  dispatch<dtypes::Floating | dtypes::Signed | DType::uint8>(
      "max_pool2d", x.dtype(),
      [&](auto tag) { max_pool_typed<typename decltype(tag)::type>(x, out, indices, g); });
}
KERNEL_FOR(max_pool, max_pool_kernel)

// Calls body(element of the pooled tensor, element of the plane's tensor) for every pooled element.
template <class Body>
void for_chosen(const Tensor& pooled, const Tensor& indices, const Tensor& full, const Body& body) {
  const int64_t small = plane_size(pooled), large = plane_size(full), channels = full.sizes()[1];
  const int64_t* at = indices.data<int64_t>();
  // Somebody else may have written there since the pooling.
  const auto chosen = [at, large](int64_t i) {
    const int64_t index = at[i];
    CHECK(index >= 0 && index < large, IndexError,
          "max_pool: index {} is out of bounds for a plane of {} elements", index, large);
    return index;
  };
  const bool channels_last = is_channels_last(full) || is_channels_last(pooled);
  if (!channels_last) {
    for_planes(full.sizes()[0] * channels, large, [&](int64_t p) {
      for (int64_t i = p * small; i < (p + 1) * small; ++i) body(i, p * large + chosen(i));
    });
    return;
  }
  parallel_for(0, full.sizes()[0], 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      for (int64_t i = n * small; i < (n + 1) * small; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
          body(i * channels + c, (n * large + chosen(i * channels + c)) * channels + c);
        }
      }
    }
  });
}

void max_pool_backward_kernel(const Tensor& grad, const Tensor& indices, const Tensor& grad_x,
                              const PoolGeometry& /*indices say all*/) {
  dispatch<dtypes::Floating>("max_pool2d_backward", grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* g = grad.data<T>();
    T* out = grad_x.data<T>();
    parallel_for(0, grad_x.numel(), default_grain,
                 [&](int64_t first, int64_t last) { std::fill(out + first, out + last, T()); });
    for_chosen(grad, indices, grad_x, [&](int64_t from, int64_t to) {
      out[to] = static_cast<T>(static_cast<ComputeType<T>>(out[to]) +
                               static_cast<ComputeType<T>>(g[from]));
    });
  });
}
KERNEL_FOR(max_pool_backward, max_pool_backward_kernel)

void max_pool_take_kernel(const Tensor& x, const Tensor& indices, const Tensor& out) {
  dispatch_size(x.item_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for_chosen(out, indices, x, [&](int64_t at, int64_t source) { to[at] = from[source]; });
  });
}
KERNEL_FOR(max_pool_take, max_pool_take_kernel)

// --- Averages ------------------------------------------------------------------------------------

double divisor_at(const PoolGeometry& g, int64_t i0, int64_t i1, int64_t i2) {
  if (g.divisor != 0) return g.divisor;
  return static_cast<double>(g.dims[0].extent[i0] * g.dims[1].extent[i1] * g.dims[2].extent[i2]);
}

// Sums of integers wrap.
template <class T>
using SumType = std::conditional_t<std::is_integral_v<T>, uint64_t, ComputeType<T>>;

template <class T>
T average(SumType<T> sum, double divisor) {
  if constexpr (std::is_integral_v<T>) {
    // The processor cannot divide the lowest number by -1.
    if (divisor == -1) return static_cast<T>(0 - sum);
    return static_cast<T>(sum) / (divisor < 0x1p63 ? static_cast<T>(divisor) : INT64_MAX);
  } else {
    return static_cast<T>(sum / static_cast<SumType<T>>(divisor));
  }
}

// The sum of n elements in a row.
template <class T>
SumType<T> run_sum(const T* x, int64_t n) {
  using C = SumType<T>;
  constexpr int lanes = 16;
  C sums[lanes] = {}, total = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int l = 0; l < lanes; ++l) sums[l] += static_cast<C>(x[i + l]);
  }
  for (const C sum : sums) total += sum;
  for (; i < n; ++i) total += static_cast<C>(x[i]);
  return total;
}

// The sum of one window; rows that follow each other in memory are one run.
template <class T>
SumType<T> window_sum(const T* x, const PoolGeometry& g, int64_t i0, int64_t i1, int64_t i2) {
  using C = SumType<T>;
  const PoolDim &d0 = g.dims[0], &d1 = g.dims[1], &d2 = g.dims[2];
  const int64_t width = d2.end[i2] - d2.start[i2], height = d1.end[i1] - d1.start[i1];
  const bool joined = width == d2.in;
  C total = 0;
  for (int64_t x0 = d0.start[i0]; x0 < d0.end[i0]; ++x0) {
    const T* rows = x + (x0 * d1.in + d1.start[i1]) * d2.in + d2.start[i2];
    if (joined) {
      total += run_sum(rows, width * height);
    } else {
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) total += static_cast<C>(rows[r * d2.in + c]);
      }
    }
  }
  return total;
}

// Where windows overlap, or share rows with their neighbours, the rows of a row of windows are
// added up first, which vectorises. Windows as wide as the input are sums of all that lies in them.
template <class T>
void avg_plane(const T* x, T* out, const PoolGeometry& g) {
  using C = SumType<T>;
  const PoolDim &d0 = g.dims[0], &d1 = g.dims[1], &d2 = g.dims[2];
  if (d2.out == 1) {
    for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
      const C sum = window_sum(x, g, i0, i1, i2);
      out[at] = average<T>(sum, divisor_at(g, i0, i1, i2));
    });
    return;
  }
  std::vector<C> columns(d2.in);
  for (int64_t i0 = 0; i0 < d0.out; ++i0) {
    for (int64_t i1 = 0; i1 < d1.out; ++i1) {
      std::fill(columns.begin(), columns.end(), C(0));
      for (int64_t x0 = d0.start[i0]; x0 < d0.end[i0]; ++x0) {
        for (int64_t x1 = d1.start[i1]; x1 < d1.end[i1]; ++x1) {
          const T* row = x + (x0 * d1.in + x1) * d2.in;
          IVDEP for (int64_t i = 0; i < d2.in; ++i) columns[i] += static_cast<C>(row[i]);
        }
      }
      for (int64_t i2 = 0; i2 < d2.out; ++i2) {
        C sum = 0;
        for (int64_t i = d2.start[i2]; i < d2.end[i2]; ++i) sum += columns[i];
        *out++ = average<T>(sum, divisor_at(g, i0, i1, i2));
      }
    }
  }
}

template <class T>
void avg_pool_typed(const Tensor& x, const Tensor& out, const PoolGeometry& g) {
  using C = SumType<T>;
  const int64_t in_size = plane_size(x), out_size = plane_size(out), channels = x.sizes()[1];
  const T* from = x.data<T>();
  T* to = out.data<T>();
  if (!is_channels_last(x)) {
    for_planes(x.sizes()[0] * channels, in_size,
               [&](int64_t p) { avg_plane(from + p * in_size, to + p * out_size, g); });
    return;
  }
  parallel_for(0, x.sizes()[0], 1, [&](int64_t first, int64_t last) {
    std::vector<C> sums(channels);
    for (int64_t n = first; n < last; ++n) {
      for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
        std::fill(sums.begin(), sums.end(), C(0));
        for_window(g, i0, i1, i2, [&](int64_t offset) {
          const T* row = from + (n * in_size + offset) * channels;
          for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<C>(row[c]);
        });
        const double divisor = divisor_at(g, i0, i1, i2);
        T* row = to + (n * out_size + at) * channels;
        for (int64_t c = 0; c < channels; ++c) row[c] = average<T>(sums[c], divisor);
      });
    }
  });
}

void avg_pool_kernel(const Tensor& x, const Tensor& out, const PoolGeometry& g) {
  dispatch<dtypes::Floating | DType::int64>("avg_pool2d", x.dtype(), [&](auto tag) {
    avg_pool_typed<typename decltype(tag)::type>(x, out, g);
  });
}
KERNEL_FOR(avg_pool, avg_pool_kernel)

template <class T>
void avg_pool_backward_typed(const Tensor& grad, const Tensor& grad_x, const PoolGeometry& g) {
  using C = ComputeType<T>;
  const int64_t in_size = plane_size(grad_x), out_size = plane_size(grad),
                channels = grad_x.sizes()[1];
  const T* from = grad.data<T>();
  T* to = grad_x.data<T>();
  if (!is_channels_last(grad_x)) {
    for_planes(grad_x.sizes()[0] * channels, in_size, [&](int64_t p) {
      // Windows may overlap: sums are kept in the compute type until the plane is done.
      std::vector<C> sums(in_size);
      for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
        const C share =
            static_cast<C>(from[p * out_size + at]) / static_cast<C>(divisor_at(g, i0, i1, i2));
        for_window(g, i0, i1, i2, [&](int64_t offset) { sums[offset] += share; });
      });
      for (int64_t i = 0; i < in_size; ++i) to[p * in_size + i] = static_cast<T>(sums[i]);
    });
    return;
  }
  parallel_for(0, grad_x.sizes()[0], 1, [&](int64_t first, int64_t last) {
    std::vector<C> sums(in_size * channels);
    for (int64_t n = first; n < last; ++n) {
      std::fill(sums.begin(), sums.end(), C(0));
      for_outputs(g, [&](int64_t i0, int64_t i1, int64_t i2, int64_t at) {
        const C factor = C(1) / static_cast<C>(divisor_at(g, i0, i1, i2));
        const T* row = from + (n * out_size + at) * channels;
        for_window(g, i0, i1, i2, [&](int64_t offset) {
          C* sum = sums.data() + offset * channels;
          for (int64_t c = 0; c < channels; ++c) sum[c] += static_cast<C>(row[c]) * factor;
        });
      });
      T* out = to + n * in_size * channels;
      for (int64_t i = 0; i < in_size * channels; ++i) out[i] = static_cast<T>(sums[i]);
    }
  });
}

void avg_pool_backward_kernel(const Tensor& grad, const Tensor& grad_x, const PoolGeometry& g) {
  dispatch<dtypes::Floating>("avg_pool2d_backward", grad.dtype(), [&](auto tag) {
    avg_pool_backward_typed<typename decltype(tag)::type>(grad, grad_x, g);
  });
}
KERNEL_FOR(avg_pool_backward, avg_pool_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
