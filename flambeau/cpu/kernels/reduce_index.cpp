// CPU kernels of the largest or smallest element with its index. The reduced dimension is one; the
// first of equal elements counts, and NaN is both larger and smaller than any number.
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T, template <class> class Op>
class IndexReducer {
  using C = ComputeType<T>;
  static constexpr int64_t width = 256;

 public:
  explicit IndexReducer(const Reduction& r)
      : r_(r), stride_(r.reduced_dims ? r.reduced_in[0] : static_cast<int64_t>(sizeof(T))) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.kept_dims > 0 && r_.kept_in[0] == sizeof(T) && r_.kept_sizes[0] >= 4 &&
                         stride_ > static_cast<int64_t>(sizeof(T)) && r_.count <= INT32_MAX;
    if (columns) {
      run_columns();
    } else {
      run_rows();
    }
  }

 private:
  static bool same(C a, C b) { return a == b || (a != a && b != b); }

  void store(int64_t at, C value, int64_t index) const {
    if (r_.out) reinterpret_cast<T*>(r_.out)[at] = static_cast<T>(value);
    reinterpret_cast<int64_t*>(r_.second)[at] = index;
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

  // The value first, by vectors and threads, then where it stands.
  C extreme(const char* row) const {
    Reduction one;
    one.in = row;
    one.count = r_.count;
    one.reduced_dims = 1;
    one.reduced_sizes[0] = r_.count;
    one.reduced_in[0] = stride_;
    T value;
    one.out = reinterpret_cast<char*>(&value);
    reduce<T, T>(one, Op<C>());
    return static_cast<C>(value);
  }

  int64_t find(const char* row, C value) const {
    int64_t i = 0;
    if (stride_ == sizeof(T)) {
      const T* x = reinterpret_cast<const T*>(row);
      for (; i + 64 <= r_.count; i += 64) {
        bool here = false;
        for (int j = 0; j < 64; ++j) here |= same(static_cast<C>(x[i + j]), value);
        if (here) break;
      }
    }
    while (!same(load<T>(row + i * stride_), value)) ++i;
    return i;
  }

  void run_rows() const {
    const int64_t grain = std::max<int64_t>(1, default_grain / 2 / r_.count);
    parallel_for(0, r_.outputs, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int64_t in, out;
        place(i, 0, in, out);
        const C value = extreme(r_.in + in);
        store(out, value, find(r_.in + in, value));
      }
    });
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0];
    const int64_t blocks = (row + width - 1) / width;
    const int64_t tasks = r_.outputs / row * blocks;
    const int64_t grain = std::max<int64_t>(1, default_grain / (r_.count * std::min(row, width)));
    parallel_for(0, tasks, grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t column = task % blocks * width, n = std::min(width, row - column);
        int64_t in, out;
        place(task / blocks, 1, in, out);
        C value[width];
        int32_t index[width];
        gather(r_.in + in + column * sizeof(T), n, value, index);
        for (int64_t j = 0; j < n; ++j) {
          store(out + (column + j) * r_.kept_out[0], value[j], index[j]);
        }
      }
    });
  }

  void gather(const char* base, int64_t n, C* value, int32_t* index) const {
    for (int64_t j = 0; j < n; ++j) {
      value[j] = static_cast<C>(reinterpret_cast<const T*>(base)[j]);
      index[j] = 0;
    }
    for (int64_t i = 1; i < r_.count; ++i) {
      const T* x = reinterpret_cast<const T*>(base + i * stride_);
      IVDEP for (int64_t j = 0; j < n; ++j) {
        const C chosen = Op<C>::choose(value[j], static_cast<C>(x[j]));
        index[j] = same(chosen, value[j]) ? index[j] : static_cast<int32_t>(i);
        value[j] = chosen;
      }
    }
  }

  const Reduction& r_;
  const int64_t stride_;
};

template <template <class> class Op>
void index_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::RealBool - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    IndexReducer<Stored, Op>(r).run();
  });
}
KERNEL_FOR(max_index, [](const Reduction& r) { index_kernel<Largest>("max", r); })
KERNEL_FOR(min_index, [](const Reduction& r) { index_kernel<Smallest>("min", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
