// CPU kernel of variances and means: the mean first, then the squared distances from it, both in
// double precision.
#include <cmath>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class In>
struct DoubleSum : Adding<DoubleSum<In>, double> {
  static double value(ComputeType<In> x) { return static_cast<double>(x); }
};

template <class In>
struct Deviation : Adding<Deviation<In>, double> {
  double mean;
  explicit Deviation(double around) : mean(around) {}
  double value(ComputeType<In> x) const {
    const double d = static_cast<double>(x) - mean;
    return d * d;
  }
};

template <class T>
class Moments {
  static constexpr int64_t width = 256;

 public:
  Moments(const Reduction& r, double correction, bool root)
      : r_(r),
        count_(static_cast<double>(r.count)),
        free_(std::max(0.0, count_ - correction)),
        root_(root) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.kept_dims > 0 && r_.reduced_dims == 1 && r_.kept_in[0] == sizeof(T) &&
                         r_.kept_sizes[0] >= 4 &&
                         r_.reduced_in[0] > static_cast<int64_t>(sizeof(T));
    if (columns) {
      run_columns();
    } else if (r_.outputs >= 16 || r_.count < default_grain) {
      const int64_t grain =
          std::max<int64_t>(1, default_grain / 2 / std::max<int64_t>(1, r_.count));
      parallel_for(0, r_.outputs, grain, [&](int64_t first, int64_t last) { rows(first, last); });
    } else {
      rows(0, r_.outputs);  // each is cut into pieces of its own
    }
  }

 private:
  void store(int64_t at, double mean, double squares) const {
    const double variance = squares / free_;
    reinterpret_cast<T*>(r_.out)[at] =
        static_cast<T>(static_cast<ComputeType<T>>(root_ ? std::sqrt(variance) : variance));
    if (r_.second) {
      reinterpret_cast<T*>(r_.second)[at] = static_cast<T>(static_cast<ComputeType<T>>(mean));
    }
  }

  void place(int64_t index, int first_dim, int64_t& in, int64_t& out) const {
    in = out = 0;
    for (int d = first_dim; d < r_.kept_dims; ++d) {
      const int64_t i = index % r_.kept_sizes[d];
      index /= r_.kept_sizes[d];
      in += i * r_.kept_in[d];
      out += i * r_.kept_out[d];
    }
  }

  void rows(int64_t first, int64_t last) const {
    double value = 0;
    Reduction one;
    one.count = r_.count;
    one.reduced_dims = r_.reduced_dims;
    std::copy_n(r_.reduced_sizes, r_.reduced_dims, one.reduced_sizes);
    std::copy_n(r_.reduced_in, r_.reduced_dims, one.reduced_in);
    one.out = reinterpret_cast<char*>(&value);
    for (int64_t i = first; i < last; ++i) {
      int64_t in, out;
      place(i, 0, in, out);
      one.in = r_.in + in;
      reduce<T, double>(one, DoubleSum<T>());
      const double mean = value / count_;
      reduce<T, double>(one, Deviation<T>(mean));
      store(out, mean, value);
    }
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0];
    const int64_t blocks = (row + width - 1) / width;
    const int64_t size = std::max<int64_t>(1, r_.count * std::min(row, width));
    parallel_for(0, r_.outputs / row * blocks, std::max<int64_t>(1, default_grain / 2 / size),
                 [&](int64_t first, int64_t last) {
                   for (int64_t task = first; task < last; ++task) {
                     const int64_t column = task % blocks * width,
                                   n = std::min(width, row - column);
                     int64_t in, out;
                     place(task / blocks, 1, in, out);
                     double mean[width] = {}, squares[width] = {};
                     gather(r_.in + in + column * sizeof(T), n, mean, squares);
                     for (int64_t j = 0; j < n; ++j) {
                       store(out + (column + j) * r_.kept_out[0], mean[j], squares[j]);
                     }
                   }
                 });
  }

  void gather(const char* base, int64_t n, double* mean, double* squares) const {
    for (int64_t i = 0; i < r_.count; ++i) {
      const T* x = reinterpret_cast<const T*>(base + i * r_.reduced_in[0]);
      IVDEP for (int64_t j = 0; j < n; ++j) mean[j] += static_cast<ComputeType<T>>(x[j]);
    }
    for (int64_t j = 0; j < n; ++j) mean[j] /= count_;
    for (int64_t i = 0; i < r_.count; ++i) {
      const T* x = reinterpret_cast<const T*>(base + i * r_.reduced_in[0]);
      IVDEP for (int64_t j = 0; j < n; ++j) {
        const double d = static_cast<ComputeType<T>>(x[j]) - mean[j];
        squares[j] += d * d;
      }
    }
  }

  const Reduction& r_;
  const double count_, free_;
  const bool root_;
};

void var_mean_kernel(const Reduction& r, double correction, bool root) {
  dispatch<dtypes::Floating>("var_mean", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Moments<T>(r, correction, root).run();
  });
}
KERNEL_FOR(var_mean, var_mean_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
