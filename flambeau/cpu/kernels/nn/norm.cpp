// Kernels of batch, layer and group normalization. Sums run in lanes, so that they vectorise, and
// are carried from block to block in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/rows.h"
#include "flambeau/kernels/nn.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// The type of statistics of x.
template <class T>
using Stat = ComputeType<T>;

bool is_channels_last(const Tensor& x) { return !x.is_contiguous() && x.strides()[1] == 1; }

int64_t plane_size(const Tensor& x) {
  int64_t size = 1;
  for (int64_t d = 2; d < x.dim(); ++d) size *= x.sizes()[d];
  return size;
}

// The sum of lanes, added up in halves: one after the other they would take longer than a short
// row.
template <class S, size_t N>
[[gnu::always_inline]] inline double in_double(const S (&lanes)[N]) {
  double wide[N];
  for (size_t l = 0; l < N; ++l) wide[l] = static_cast<double>(lanes[l]);
#pragma GCC unroll 8
  for (size_t half = N / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) wide[l] += wide[l + half];
  }
  return wide[0];
}

// The sums of term(i) and other(i) over 0 .. n-1.
template <class S, class Term, class Other>
[[gnu::always_inline]] inline void add_sums(int64_t n, double& total, double& total_other,
                                            const Term& term, const Other& other) {
  constexpr int lanes = 128 / sizeof(S);
  constexpr int64_t block = 64 * lanes;  // what a float sum carries without losing digits
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(n, begin + block);
    S sums[lanes] = {}, others[lanes] = {};
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      for (int l = 0; l < lanes; ++l) sums[l] += term(i + l);
      for (int l = 0; l < lanes; ++l) others[l] += other(i + l);
    }
    for (int l = 0; i < end; ++i, ++l) {
      sums[l] += term(i);
      others[l] += other(i);
    }
    total += in_double(sums);
    total_other += in_double(others);
  }
}
template <class S, class Term>
[[gnu::always_inline]] inline double sum_of(int64_t n, const Term& term) {
  double total = 0, nothing = 0;
  add_sums<S>(n, total, nothing, term, [](int64_t) { return S(0); });
  return total;
}

// The sum of term(x) over a row. Of floats in SIMD registers, four at once: each waits for its last
// addition.
template <class T, class Term>
[[gnu::always_inline]] inline double sum_of_row(const T* x, int64_t n, const Term& term) {
  using S = Stat<T>;
  if constexpr (!std::is_same_v<T, float>) {
    return sum_of<S>(n, [=](int64_t i) { return term(static_cast<S>(x[i])); });
  } else {
    constexpr int64_t step = 4 * float_lanes, block = 64 * step;
    double total = 0;
    int64_t i = 0;
    while (i + step <= n) {
      Floats sums[4] = {};
      for (const int64_t end = std::min(n, i + block); i + step <= end; i += step) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) sums[k] += term(load_floats(x + i + k * float_lanes));
      }
      float lanes[float_lanes];
      store_floats((sums[0] + sums[1]) + (sums[2] + sums[3]), lanes);
      total += in_double(lanes);
    }
    for (; i < n; ++i) total += static_cast<double>(term(x[i]));
    return total;
  }
}

// A view of (N, C, spatial) as samples, channels and plane.
struct Layout {
  explicit Layout(const Tensor& x)
      : samples(x.sizes()[0]),
        channels(x.sizes()[1]),
        plane(plane_size(x)),
        last(is_channels_last(x) || plane == 1) {}
  int64_t samples, channels, plane;
  bool last;  // channels innermost, which a plane of one element is too
  [[nodiscard]] int64_t rows() const { return samples * plane; }
};

// Per-channel sums of two terms of channels-last rows: chunks of rows in parallel, then together.
template <class S, class Terms>
void sum_rows(const Layout& x, double* sums, double* others, const Terms& terms) {
  const int64_t chunks = std::min<int64_t>(get_num_threads(), std::max<int64_t>(x.rows(), 1));
  std::vector<double> partial(chunks * x.channels * 2);
  parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      double* one = partial.data() + chunk * x.channels * 2;
      double* two = one + x.channels;
      const int64_t begin = x.rows() * chunk / chunks, end = x.rows() * (chunk + 1) / chunks;
      for (int64_t row = begin; row < end; ++row) terms(row * x.channels, one, two);
    }
  });
  std::fill_n(sums, x.channels, 0.0);
  std::fill_n(others, x.channels, 0.0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const double* one = partial.data() + chunk * x.channels * 2;
    for (int64_t c = 0; c < x.channels; ++c) {
      sums[c] += one[c];
      others[c] += one[x.channels + c];
    }
  }
}

template <class Body>
void for_channels(const Layout& x, const Body& body) {
  parallel_for(0, x.channels, default_grain / std::max<int64_t>(x.rows(), 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t c = first; c < last; ++c) body(c);
               });
}

// --- Batch normalization -------------------------------------------------------------------------

template <class T>
void channel_stats_typed(const Tensor& tensor, const Tensor& mean, const Tensor& var) {
  using S = Stat<T>;
  const Layout x(tensor);
  const T* data = tensor.data<T>();
  S *means = mean.data<S>(), *vars = var.data<S>();
  const double count = static_cast<double>(x.rows());
  if (!x.last) {
    for_channels(x, [&](int64_t c) {
      const auto plane = [&](int64_t n) { return data + (n * x.channels + c) * x.plane; };
      double total = 0, squares = 0;
      for (int64_t n = 0; n < x.samples; ++n) {
        total += sum_of<S>(x.plane, [p = plane(n)](int64_t i) { return static_cast<S>(p[i]); });
      }
      const S center = static_cast<S>(total / count);
      for (int64_t n = 0; n < x.samples; ++n) {
        squares += sum_of<S>(x.plane, [p = plane(n), center](int64_t i) {
          const S distance = static_cast<S>(p[i]) - center;
          return distance * distance;
        });
      }
      means[c] = center;
      vars[c] = static_cast<S>(squares / count);
    });
    return;
  }
  std::vector<double> sums(x.channels), others(x.channels);
  sum_rows<S>(x, sums.data(), others.data(), [&](int64_t at, double* one, double*) {
    for (int64_t c = 0; c < x.channels; ++c)
      one[c] += static_cast<double>(static_cast<S>(data[at + c]));
  });
  for (int64_t c = 0; c < x.channels; ++c) means[c] = static_cast<S>(sums[c] / count);
  sum_rows<S>(x, sums.data(), others.data(), [&](int64_t at, double* one, double*) {
    for (int64_t c = 0; c < x.channels; ++c) {
      const S distance = static_cast<S>(data[at + c]) - means[c];
      one[c] += static_cast<double>(distance * distance);
    }
  });
  for (int64_t c = 0; c < x.channels; ++c) vars[c] = static_cast<S>(sums[c] / count);
}

void channel_stats_kernel(const Tensor& x, const Tensor& mean, const Tensor& var) {
  dispatch<dtypes::Floating>("batch_norm", x.dtype(), [&](auto tag) {
    channel_stats_typed<typename decltype(tag)::type>(x, mean, var);
  });
}
KERNEL_FOR(channel_stats, channel_stats_kernel)

// out = f(i, c) for every element i of channel c.
template <class T, class F>
void map_channels(const Tensor& tensor, const Tensor& out, const F& f) {
  const Layout x(tensor);
  T* to = out.data<T>();
  if (!x.last) {
    parallel_for(0, x.samples * x.channels, default_grain / std::max<int64_t>(x.plane, 1) + 1,
                 [&](int64_t first, int64_t last) {
                   for (int64_t p = first; p < last; ++p) {
                     const int64_t begin = p * x.plane, c = p % x.channels;
                     const auto of_channel = f(c);
                     for (int64_t i = begin; i < begin + x.plane; ++i) to[i] = of_channel(i);
                   }
                 });
    return;
  }
  parallel_for(0, x.rows(), default_grain / std::max<int64_t>(x.channels, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t row = first; row < last; ++row) {
                   const int64_t begin = row * x.channels;
                   for (int64_t c = 0; c < x.channels; ++c) to[begin + c] = f(c)(begin + c);
                 }
               });
}

void channel_affine_kernel(const Tensor& x, const Tensor& scale, const Tensor& shift,
                           const Tensor& out) {
  dispatch<dtypes::Floating>("batch_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T* data = x.data<T>();
    const S *factor = scale.data<S>(), *term = shift.data<S>();
    map_channels<T>(x, out, [=](int64_t c) {
      return [data, a = factor[c], b = term[c]](int64_t i) {
        return static_cast<T>(static_cast<S>(data[i]) * a + b);
      };
    });
  });
}
KERNEL_FOR(channel_affine, channel_affine_kernel)

template <class T>
void channel_sums_typed(const Tensor& g_tensor, const Tensor& tensor, const Tensor& mean,
                        const Tensor& sum_g, const Tensor& sum_gx) {
  using S = Stat<T>;
  const Layout x(tensor);
  const T *g = g_tensor.data<T>(), *data = tensor.data<T>();
  const S* center = mean.data<S>();
  std::vector<double> sums(x.channels), products(x.channels);
  if (!x.last) {
    for_channels(x, [&](int64_t c) {
      for (int64_t n = 0; n < x.samples; ++n) {
        const int64_t begin = (n * x.channels + c) * x.plane;
        add_sums<S>(
            x.plane, sums[c], products[c],
            [p = g + begin](int64_t i) { return static_cast<S>(p[i]); },
            [p = g + begin, q = data + begin, m = center[c]](int64_t i) {
              return static_cast<S>(p[i]) * (static_cast<S>(q[i]) - m);
            });
      }
    });
  } else {
    sum_rows<S>(x, sums.data(), products.data(), [&](int64_t at, double* one, double* two) {
      for (int64_t c = 0; c < x.channels; ++c) {
        const S gradient = static_cast<S>(g[at + c]);
        one[c] += static_cast<double>(gradient);
        two[c] += static_cast<double>(gradient * (static_cast<S>(data[at + c]) - center[c]));
      }
    });
  }
  for (int64_t c = 0; c < x.channels; ++c) {
    sum_g.data<S>()[c] = static_cast<S>(sums[c]);
    sum_gx.data<S>()[c] = static_cast<S>(products[c]);
  }
}

void channel_sums_kernel(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& sum_g,
                         const Tensor& sum_gx) {
  dispatch<dtypes::Floating>("batch_norm_backward", x.dtype(), [&](auto tag) {
    channel_sums_typed<typename decltype(tag)::type>(g, x, mean, sum_g, sum_gx);
  });
}
KERNEL_FOR(channel_sums, channel_sums_kernel)

void channel_backward_kernel(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& a,
                             const Tensor& b, const Tensor& c, const Tensor& out) {
  dispatch<dtypes::Floating>("batch_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T *gradient = g.data<T>(), *data = x.data<T>();
    const S *means = mean.data<S>(), *as = a.data<S>(), *bs = b.data<S>(), *cs = c.data<S>();
    map_channels<T>(x, out, [=](int64_t at) {
      return [=, m = means[at], a = as[at], b = bs[at], c = cs[at]](int64_t i) {
        return static_cast<T>(static_cast<S>(gradient[i]) * a + (static_cast<S>(data[i]) - m) * b +
                              c);
      };
    });
  });
}
KERNEL_FOR(channel_backward, channel_backward_kernel)

// --- Layer normalization -------------------------------------------------------------------------

// The mean of a row, and the sum of the squares of distances from it.
template <class S>
struct Moments {
  S center;
  double squares;
};

template <class T>
Moments<Stat<T>> moments_of_row(const T* x, int64_t n) {
  using S = Stat<T>;
  const auto center =
      static_cast<S>(sum_of_row(x, n, [](auto value) { return value; }) / static_cast<double>(n));
  return {center, sum_of_row(x, n, [center](auto value) {
            const auto distance = value - center;
            return distance * distance;
          })};
}

// In one pass in single precision, by distances from the mean of the first ones, unless that is so
// far from the others' mean that squares would lose their digits.
template <class T>
Moments<float> moments_in_one_pass(const T* x, int64_t n) {
  constexpr int64_t step = 2 * two_registers, longest = 64 * step;
  if (n < step || n > longest) return moments_of_row(x, n);
  float lanes[2][float_lanes];
  store_floats(floats_at(x), lanes[0]);
  const auto guess = static_cast<float>(in_double(lanes[0]) / float_lanes);
  Floats sums[4] = {}, squares[4] = {};
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    read_ahead<step>(x + i);
    Floats values[4];
    two_registers_at(x + i, values);
    two_registers_at(x + i + two_registers, values + 2);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Floats distance = values[k] - guess;
      sums[k] += distance;
      squares[k] += distance * distance;
    }
  }
  store_floats((sums[0] + sums[1]) + (sums[2] + sums[3]), lanes[0]);
  store_floats((squares[0] + squares[1]) + (squares[2] + squares[3]), lanes[1]);
  double sum = in_double(lanes[0]), square = in_double(lanes[1]);
  for (; i < n; ++i) {
    const auto distance = static_cast<double>(static_cast<float>(x[i]) - guess);
    sum += distance;
    square += distance * distance;
  }
  const double away = sum / static_cast<double>(n);
  if (!(away * sum <= square / 2)) return moments_of_row(x, n);
  return {static_cast<float>(static_cast<double>(guess) + away), square - away * sum};
}

// The same of a row that is taken for centered.
template <class T>
Moments<Stat<T>> moments_around_zero(const T* x, int64_t n) {
  return {0, sum_of_row(x, n, [](auto value) { return value * value; })};
}

// What rows are multiplied with, or what is added to them, in the order of two registers.
template <class T>
class AffineRow {
 public:
  AffineRow(const Tensor& numbers, int64_t n, float otherwise)
      : numbers_(n + two_registers, otherwise) {
    if (!numbers.defined()) return;
    const float* from = numbers.data<float>();
    const auto copy = [&](int64_t i, int64_t k) {
      const float number = from[i + k];
      numbers_[i + place_in_two<T>(k)] =
          number == number ? number : std::numeric_limits<float>::quiet_NaN();
    };
    int64_t i = 0;
    for (; i + two_registers <= n; i += two_registers) {
      IVDEP for (int64_t k = 0; k < two_registers; ++k) copy(i, k);
    }
    for (int64_t k = 0; i + k < n; ++k) copy(i, k);
  }
  [[nodiscard]] Floats at(int64_t i) const { return load_floats(&numbers_[i]); }

 private:
  std::vector<float> numbers_;
};

// What is computed in single precision.
template <class T>
void layer_norm_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  const int64_t rows = rstd.numel(), cols = x.numel() / rows;
  const bool beyond_cache = out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
  const bool affine = weight.defined() || bias.defined();
  const AffineRow<T> scale(weight, affine ? cols : 0, 1), shift(bias, affine ? cols : 0, 0);
  parallel_for(0, rows, default_grain / 4 / cols + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const T* in = x.data<T>() + row * cols;
      T* to = out.data<T>() + row * cols;
      const auto [center, squares] =
          mean.defined() ? moments_in_one_pass(in, cols) : moments_around_zero(in, cols);
      const auto factor =
          static_cast<float>(1 / std::sqrt(squares / static_cast<double>(cols) + eps));
      if (mean.defined()) mean.data<float>()[row] = center;
      rstd.data<float>()[row] = factor;
      const auto normalized = [middle = center, factor](Floats x) { return (x - middle) * factor; };
      if (affine) {
        transform_by_two(in, to, cols, beyond_cache, [&](Floats* values, int64_t i) {
          for (int64_t k = 0; k < 2; ++k, i += float_lanes) {
            values[k] = normalized(values[k]) * scale.at(i) + shift.at(i);
          }
        });
      } else {
        transform_by_two(in, to, cols, beyond_cache, [&](Floats* values, int64_t) {
          for (int k = 0; k < 2; ++k) values[k] = normalized(values[k]);
        });
      }
    }
    if (beyond_cache) _mm_sfence();
  });
}

void layer_norm_doubles(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                        const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  const int64_t rows = rstd.numel(), cols = x.numel() / rows;
  const double* scale = weight.defined() ? weight.data<double>() : nullptr;
  const double* shift = bias.defined() ? bias.data<double>() : nullptr;
  parallel_for(0, rows, default_grain / 4 / cols + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const double* in = x.data<double>() + row * cols;
      double* to = out.data<double>() + row * cols;
      const auto [center, squares] =
          mean.defined() ? moments_of_row(in, cols) : moments_around_zero(in, cols);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
      if (mean.defined()) mean.data<double>()[row] = center;
      rstd.data<double>()[row] = factor;
      IVDEP for (int64_t i = 0; i < cols; ++i) {
        const double value = (in[i] - center) * factor;
        to[i] = (scale ? value * scale[i] : value) + (shift ? shift[i] : 0);
      }
    }
  });
}

void layer_norm_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                       const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  dispatch<dtypes::Floating>("LayerNormKernelImpl", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, double>) {
      layer_norm_doubles(x, weight, bias, eps, out, mean, rstd);
    } else {
      layer_norm_rows<T>(x, weight, bias, eps, out, mean, rstd);
    }
  });
}
KERNEL_FOR(layer_norm, layer_norm_kernel)

template <class T>
void layer_norm_grad_x(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& mean,
                       const Tensor& rstd, const Tensor& grad_x) {
  using S = Stat<T>;
  const int64_t rows = rstd.numel(), cols = x.numel() / rows;
  const S* scale = weight.defined() ? weight.data<S>() : nullptr;
  parallel_for(0, rows, default_grain / 4 / cols + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const T *in = x.data<T>() + row * cols, *gradient = g.data<T>() + row * cols;
      T* to = grad_x.data<T>() + row * cols;
      const S center = mean.defined() ? mean.data<S>()[row] : S(0), factor = rstd.data<S>()[row];
      const auto scaled = [=](int64_t i) {
        return scale ? static_cast<S>(gradient[i]) * scale[i] : static_cast<S>(gradient[i]);
      };
      double sum_g = 0, sum_gx = 0;
      add_sums<S>(cols, sum_g, sum_gx, scaled,
                  [=](int64_t i) { return scaled(i) * (static_cast<S>(in[i]) - center); });
      const double n = static_cast<double>(cols), r = static_cast<double>(factor);
      const S slope = static_cast<S>(-sum_gx * r * r * r / n),
              offset = mean.defined() ? static_cast<S>(-sum_g * r / n) : S(0);
      for (int64_t i = 0; i < cols; ++i) {
        to[i] =
            static_cast<T>(scaled(i) * factor + (static_cast<S>(in[i]) - center) * slope + offset);
      }
    }
  });
}

template <class T>
void layer_norm_grad_affine(const Tensor& g, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, const Tensor& grad_weight,
                            const Tensor& grad_bias) {
  using S = Stat<T>;
  const int64_t rows = rstd.numel(), cols = x.numel() / rows;
  const int64_t chunks = std::min<int64_t>(get_num_threads(), rows);
  std::vector<S> partial(chunks * cols * 2);
  parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      S *weights = partial.data() + chunk * cols * 2, *biases = weights + cols;
      for (int64_t row = rows * chunk / chunks; row < rows * (chunk + 1) / chunks; ++row) {
        const T *in = x.data<T>() + row * cols, *gradient = g.data<T>() + row * cols;
        const S center = mean.defined() ? mean.data<S>()[row] : S(0), factor = rstd.data<S>()[row];
        for (int64_t i = 0; i < cols; ++i) {
          weights[i] += static_cast<S>(gradient[i]) * (static_cast<S>(in[i]) - center) * factor;
          biases[i] += static_cast<S>(gradient[i]);
        }
      }
    }
  });
  for (int64_t i = 0; i < cols; ++i) {
    S weight = 0, bias = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      weight += partial[chunk * cols * 2 + i];
      bias += partial[chunk * cols * 2 + cols + i];
    }
    if (grad_weight.defined()) grad_weight.data<S>()[i] = weight;
    if (grad_bias.defined()) grad_bias.data<S>()[i] = bias;
  }
}

void layer_norm_backward_kernel(const Tensor& g, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, const Tensor& grad_x,
                                const Tensor& grad_weight, const Tensor& grad_bias) {
  dispatch<dtypes::Floating>("LayerNormBackwardKernelImpl", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (grad_x.defined()) layer_norm_grad_x<T>(g, x, weight, mean, rstd, grad_x);
    if (grad_weight.defined() || grad_bias.defined()) {
      layer_norm_grad_affine<T>(g, x, mean, rstd, grad_weight, grad_bias);
    }
  });
}
KERNEL_FOR(layer_norm_backward, layer_norm_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
