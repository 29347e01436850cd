// CPU kernels of the largest or smallest element with its index. The reduced dimension is one; the
// first of equal elements counts, and NaN is both larger and smaller than any number.
#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T, template <class> class Op>
class IndexReducer {
  using C = std::conditional_t<std::is_same_v<T, Truth>, uint8_t, ComputeType<T>>;
  static constexpr int64_t width = 256;

 public:
  IndexReducer(const Reduction& r, const ReduceSlot& slot)
      : r_(r),
        slot_(slot),
        stride_(r.reduced_dims ? r.reduced_in[0] : static_cast<int64_t>(sizeof(T))) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.kept_dims > 0 && r_.kept_in[0] == sizeof(T) && r_.kept_sizes[0] >= 4 &&
                         stride_ > static_cast<int64_t>(sizeof(T)) && r_.count <= INT32_MAX;
    const bool short_rows = r_.kept_dims > 0 && r_.count <= 128 && r_.kept_sizes[0] >= 16;
    if (columns || short_rows) {
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
    one.in_dtype = r_.in_dtype;
    one.count = r_.count;
    one.reduced_dims = 1;
    one.reduced_sizes[0] = r_.count;
    one.reduced_in[0] = stride_;
    T value;
    one.out = reinterpret_cast<char*>(&value);
    slot_(DeviceType::cpu, one);
    return static_cast<C>(value);
  }

  template <bool Nan>
  int64_t find_from(const char* row, C value) const {
    const auto found = [value](C x) { return Nan ? x != x : x == value; };
    int64_t i = 0;
    if (stride_ == sizeof(T)) {
      const T* x = reinterpret_cast<const T*>(row);
      for (; i + 64 <= r_.count; i += 64) {
        C values[64];
        if constexpr (std::is_same_v<T, Truth>) {
          for (int j = 0; j < 64; ++j) values[j] = static_cast<C>(x[i + j]);
        } else {
          load_block<64>(x + i, values);
        }
        int hits = 0;
        for (int j = 0; j < 64; ++j) hits += found(values[j]);
        if (hits) break;
      }
    }
    // Another thread may have overwritten it meanwhile: then the last one is as good as any.
    while (i + 1 < r_.count && !found(load<T>(row + i * stride_))) ++i;
    return i;
  }
  int64_t find(const char* row, C value) const {
    return value != value ? find_from<true>(row, value) : find_from<false>(row, value);
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
        gather(r_.in + in + column * r_.kept_in[0], n, value, index);
        for (int64_t j = 0; j < n; ++j) {
          store(out + (column + j) * r_.kept_out[0], value[j], index[j]);
        }
      }
    });
  }

  void gather(const char* base, int64_t n, C* value, int32_t* index) const {
    const int64_t step = r_.kept_in[0];
    const auto row = [&](int64_t i, const auto& body) {
      const char* from = base + i * stride_;
      if (step == sizeof(T)) {
        const T* x = reinterpret_cast<const T*>(from);
        IVDEP for (int64_t j = 0; j < n; ++j) body(j, static_cast<C>(x[j]));
      } else {
        IVDEP for (int64_t j = 0; j < n; ++j) body(j, load<T>(from + j * step));
      }
    };
    row(0, [&](int64_t j, C x) { value[j] = x, index[j] = 0; });
    for (int64_t i = 1; i < r_.count; ++i) {
      row(i, [&](int64_t j, C x) {
        const C chosen = Op<C>::choose(value[j], x);
        index[j] = same(chosen, value[j]) ? index[j] : static_cast<int32_t>(i);
        value[j] = chosen;
      });
    }
  }

  const Reduction& r_;
  const ReduceSlot& slot_;  // of the value alone
  const int64_t stride_;
};

template <template <class> class Op>
void index_kernel(const char* name, const Reduction& r, const ReduceSlot& slot) {
  dispatch<dtypes::RealBool - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    IndexReducer<typename decltype(tag)::type, Op>(r, slot).run();
  });
}
KERNEL_FOR(max_index, [](const Reduction& r) { index_kernel<Largest>("max", r, kernels::amax); })
KERNEL_FOR(min_index, [](const Reduction& r) { index_kernel<Smallest>("min", r, kernels::amin); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
