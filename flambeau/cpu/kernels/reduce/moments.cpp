// CPU kernel of variances and means that reads its elements once.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce/moments.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T>
class MomentsOf {
  static constexpr int64_t grain_size = 65536;  // elements that one thread adds up
  static constexpr int64_t block = 4096;        // elements that are added up at a time
  static constexpr int64_t width = ColumnMoments<T>::width;

 public:
  MomentsOf(const Reduction& r, double correction, bool root)
      : r_(r),
        count_(static_cast<double>(r.count)),
        free_(std::max(0.0, count_ - correction)),
        root_(root),
        run_(r.reduced_dims > 0 ? r.reduced_sizes[0] : 1),
        step_(r.reduced_dims > 0 ? r.reduced_in[0] : static_cast<int64_t>(sizeof(T))),
        runs_(run_ > 0 ? r.count / run_ : 0) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.count > 0 && r_.kept_dims > 0 && r_.reduced_dims == 1 &&
                         r_.kept_in[0] == sizeof(T) && r_.kept_sizes[0] >= 4 &&
                         r_.reduced_in[0] > static_cast<int64_t>(sizeof(T));
    if (columns) {
      run_columns();
    } else if (r_.outputs >= 16 || r_.count < default_grain) {
      const int64_t grain =
          std::max<int64_t>(1, default_grain / 2 / std::max<int64_t>(1, r_.count));
      parallel_for(0, r_.outputs, grain, [&](int64_t first, int64_t last) { rows(first, last); });
    } else {
      rows(0, r_.outputs);  // each is cut into parts of its own
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
  const char* place_of_run(const char* in, int64_t index) const {
    for (int d = 1; d < r_.reduced_dims; ++d) {
      in += index % r_.reduced_sizes[d] * r_.reduced_in[d];
      index /= r_.reduced_sizes[d];
    }
    return in;
  }

  // Of n elements of a run, and of whole runs: neighbours as they lie, others brought together.
  Moments of_steps(const char* x, int64_t n) const {
    Moments all;
    const bool neighbours = step_ == sizeof(T);
    for (int64_t i = 0; i < n; i += block) {
      const int64_t count = std::min(block, n - i);
      if (neighbours) {
        all.join(moments_of(reinterpret_cast<const T*>(x) + i, count));
      } else {
        T row[block];
        for (int64_t k = 0; k < count; ++k) row[k] = load_stored(x + (i + k) * step_);
        all.join(moments_of(row, count));
      }
    }
    return all;
  }
  Moments of_runs(const char* in, int64_t first, int64_t last) const {
    Moments all;
    if (run_ >= block / 8) {
      for (int64_t run = first; run < last; ++run) all.join(of_steps(place_of_run(in, run), run_));
      return all;
    }
    T rows[block];
    int64_t filled = 0;
    for (int64_t run = first; run < last; ++run) {
      const char* x = place_of_run(in, run);
      if (filled + run_ > block) {
        all.join(moments_of(rows, filled));
        filled = 0;
      }
      for (int64_t k = 0; k < run_; ++k) rows[filled + k] = load_stored(x + k * step_);
      filled += run_;
    }
    if (filled) all.join(moments_of(rows, filled));
    return all;
  }
  static T load_stored(const char* x) {
    T value;
    std::memcpy(&value, x, sizeof value);
    return value;
  }

  // Of all elements of one result: parts of the only run, or several runs, at a time.
  Moments moments(const char* in) const {
    const bool one = runs_ == 1;
    const int64_t units = one ? run_ : runs_;
    const int64_t grain =
        one ? grain_size : std::max<int64_t>(1, grain_size / std::max<int64_t>(1, run_));
    const auto part = [&](int64_t k) {
      const int64_t first = k * grain, last = std::min(units, first + grain);
      return one ? of_steps(in + first * step_, last - first) : of_runs(in, first, last);
    };
    if (units <= grain) return part(0);
    std::vector<Moments> parts((units + grain - 1) / grain);
    parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) parts[k] = part(k);
    });
    Moments all;
    for (const Moments& some : parts) all.join(some);
    return all;
  }

  void rows(int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i) {
      int64_t in, out;
      place(i, 0, in, out);
      const Moments found = moments(r_.in + in);
      store(out, found.count > 0 ? found.mean + found.rest : std::nan(""), found.squares);
    }
  }

  struct Block {
    const char* in;
    int64_t out, n;
  };
  Block block_of_columns(int64_t index) const {
    const int64_t row = r_.kept_sizes[0], blocks = (row + width - 1) / width;
    const int64_t column = index % blocks * width;
    int64_t in, out;
    place(index / blocks, 1, in, out);
    return {r_.in + in + column * static_cast<int64_t>(sizeof(T)), out + column * r_.kept_out[0],
            std::min(width, row - column)};
  }
  [[gnu::noinline]] void finish(const Block& of, const ColumnMoments<T>& all) const {
    for (int64_t j = 0; j < of.n; ++j) {
      store(of.out + j * r_.kept_out[0], all.mean(j), all.squares(j));
    }
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0], size = r_.count * std::min(row, width);
    const int64_t blocks = r_.outputs / row * ((row + width - 1) / width);
    if (blocks < 16 && size >= 2 * grain_size) return cut_columns(blocks, size);
    const int64_t grain = std::max<int64_t>(1, default_grain / 2 / std::max<int64_t>(1, size));
    parallel_for(0, blocks, grain, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const Block of = block_of_columns(k);
        double known[3 * width];
        ColumnMoments<T> all(of.n, known);
        all.add(of.in, step_, r_.count);
        finish(of, all);
      }
    });
  }
  // Few blocks of columns are cut into groups of rows as well.
  void cut_columns(int64_t blocks, int64_t size) const {
    const int64_t cuts = std::min<int64_t>(size / grain_size, 32);
    const int64_t height = (r_.count + cuts - 1) / cuts;
    const int64_t stride = 3 * ColumnMoments<T>::padded_size(std::min(r_.kept_sizes[0], width));
    const auto rows_of = [&](int64_t part) {
      return std::max<int64_t>(0, std::min(height, r_.count - part * height));
    };
    const std::unique_ptr<double[]> parts(new double[blocks * cuts * stride]);
    parallel_for(0, blocks * cuts, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const Block of = block_of_columns(k / cuts);
        const char* in = of.in + k % cuts * height * step_;
        ColumnMoments<T>(of.n, &parts[k * stride]).add(in, step_, rows_of(k % cuts));
      }
    });
    constexpr int64_t chunk = 128, chunks = width / chunk;
    parallel_for(0, blocks * chunks, 2, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const Block all = block_of_columns(k / chunks);
        const int64_t column = k % chunks * chunk;
        if (column >= all.n) continue;
        const Block of{all.in, all.out + column * r_.kept_out[0], std::min(chunk, all.n - column)};
        double known[3 * chunk];
        ColumnMoments<T> found(of.n, known);
        for (int64_t part = 0; part < cuts; ++part) {
          const double* some = &parts[(k / chunks * cuts + part) * stride + 3 * column];
          found.join(static_cast<double>(rows_of(part)), some);
        }
        finish(of, found);
      }
    });
  }

  const Reduction& r_;
  const double count_, free_;
  const bool root_;
  const int64_t run_, step_, runs_;  // the elements of a result: runs with steps between elements
};

void var_mean_kernel(const Reduction& r, double correction, bool root) {
  dispatch<dtypes::Floating>("var_mean", r.in_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MomentsOf<T>(r, correction, root).run();
  });
}
KERNEL_FOR(var_mean, var_mean_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
