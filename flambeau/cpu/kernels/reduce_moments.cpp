// CPU kernel of variances and means, in double precision, that reads floats once.
#include <cmath>
#include <cstring>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce_loops.h"
#include "flambeau/cpu/kernels/register_doubles.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// What elements add up to, as distances from some number and as squares of these, in double
// precision. From that number, the mean and the squared distances from the mean follow: the number
// is the mean of some of the elements, k of n, whose distance from the mean of all cannot be large
// beside the variance. What is lost by the difference in `squares_around_mean` is at most a share
// of n / k roundings, nothing to those who have floats; doubles are added up once more, around the
// mean that was found.
struct Sums {
  double distances = 0, squares = 0;

  void operator+=(const Sums& other) {
    distances += other.distances;
    squares += other.squares;
  }
};
double squares_around_mean(const Sums& sums, double count) {
  // NaN, which infinite elements lead to, stays.
  return std::max(sums.squares - sums.distances * (sums.distances / count), 0.0);
}
constexpr int64_t sample = 64;  // elements, or rows, that the number is the mean of
double finite_or_zero(double around) { return std::isfinite(around) ? around : 0; }

inline Doubles doubles_at(const double* x) {
  Doubles values;
  std::memcpy(&values, x, sizeof values);
  return values;
}
inline Doubles doubles_at(const float* x) {
  HalfFloats values;
  std::memcpy(&values, x, sizeof values);
  return __builtin_convertvector(values, Doubles);
}
inline Doubles doubles_at(const BFloat16* x) {
  typedef uint16_t Bits __attribute__((vector_size(register_bytes / 4)));
  typedef uint32_t Words __attribute__((vector_size(register_bytes / 2)));
  Bits bits;
  std::memcpy(&bits, x, sizeof bits);
  const Words words = __builtin_convertvector(bits, Words) << 16;
  return __builtin_convertvector(std::bit_cast<HalfFloats>(words), Doubles);
}
inline Doubles doubles_at(const Half* x) {
  HalfFloats values = {};
  for (int lane = 0; lane < double_lanes; ++lane) values[lane] = static_cast<float>(x[lane]);
  return __builtin_convertvector(values, Doubles);
}

template <class T>
Sums sums_of_row(const T* x, int64_t n, double around) {
  constexpr int lanes = double_lanes, registers = 4;
  Doubles distances[registers] = {}, squares[registers] = {};
  int64_t i = 0;
  for (; i + lanes * registers <= n; i += lanes * registers) {
    for (int k = 0; k < registers; ++k) {
      const Doubles distance = doubles_at(x + i + k * lanes) - around;
      distances[k] += distance;
      squares[k] += distance * distance;
    }
  }
  Sums all;
  const Doubles d = (distances[0] + distances[1]) + (distances[2] + distances[3]);
  const Doubles s = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  for (int lane = 0; lane < lanes; ++lane) all += {d[lane], s[lane]};
  for (; i < n; ++i) {
    const double distance = static_cast<ComputeType<T>>(x[i]) - around;
    all += {distance, distance * distance};
  }
  return all;
}

template <class T>
Sums sums_of_steps(const char* x, int64_t n, int64_t step, double around) {
  if (step == sizeof(T)) return sums_of_row(reinterpret_cast<const T*>(x), n, around);
  constexpr int64_t few = 256;
  Sums all;
  for (int64_t i = 0; i < n; i += few) {
    T row[few];
    const int64_t count = std::min(few, n - i);
    for (int64_t k = 0; k < count; ++k) row[k] = load<T>(x + (i + k) * step);
    all += sums_of_row(row, count, around);
  }
  return all;
}

template <class T>
class Moments {
  static constexpr int64_t width = 256;    // columns at a time
  static constexpr int64_t piece = 65536;  // elements that one thread adds up
  static constexpr int passes = std::is_same_v<T, double> ? 2 : 1;

 public:
  Moments(const Reduction& r, double correction, bool root)
      : r_(r),
        count_(static_cast<double>(r.count)),
        free_(std::max(0.0, count_ - correction)),
        root_(root),
        run_(r.reduced_dims > 0 ? r.reduced_sizes[0] : 1),
        step_(r.reduced_dims > 0 ? r.reduced_in[0] : static_cast<int64_t>(sizeof(T))),
        runs_(run_ > 0 ? r.count / run_ : 0) {}

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
  const char* place_of_run(const char* in, int64_t index) const {
    for (int d = 1; d < r_.reduced_dims; ++d) {
      in += index % r_.reduced_sizes[d] * r_.reduced_in[d];
      index /= r_.reduced_sizes[d];
    }
    return in;
  }

  // Of all elements of one result: pieces of the only run, or several runs, at a time.
  Sums sums(const char* in, double around) const {
    const bool one = runs_ == 1;
    const int64_t units = one ? run_ : runs_;
    const int64_t grain = one ? piece : std::max<int64_t>(1, piece / std::max<int64_t>(1, run_));
    const auto part = [&](int64_t k) {
      const int64_t first = k * grain, last = std::min(units, first + grain);
      if (one) return sums_of_steps<T>(in + first * step_, last - first, step_, around);
      Sums some;
      for (int64_t run = first; run < last; ++run)
        some += sums_of_steps<T>(place_of_run(in, run), run_, step_, around);
      return some;
    };
    if (units <= grain) return part(0);
    std::vector<Sums> parts((units + grain - 1) / grain);
    parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) parts[k] = part(k);
    });
    Sums all;
    for (const Sums& some : parts) all += some;
    return all;
  }

  void rows(int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i) {
      int64_t in, out;
      place(i, 0, in, out);
      const char* x = r_.in + in;
      const int64_t some = std::min(run_, sample);
      double mean = sums_of_steps<T>(x, some, step_, 0).distances / static_cast<double>(some);
      Sums found;
      for (int pass = 0; pass < passes; ++pass) {
        const double around = finite_or_zero(mean);
        found = sums(x, around);
        mean = around + found.distances / count_;
      }
      store(out, mean, squares_around_mean(found, count_));
    }
  }

  struct Columns {
    alignas(register_bytes) double around[width] = {}, distances[width] = {}, squares[width] = {};
  };

  // Adds rows, `together` at a time, to the sums of n columns; the row that comes next is returned.
  template <int together>
  int64_t add_rows(const char* in, int64_t first, int64_t last, int64_t n, Columns& to) const {
    for (; first + together <= last; first += together) {
      const char* x = in + first * step_;
      const auto add = [&]<class Value>(Value* distances, Value* squares, Value around,
                                        const auto& at) {
        Value some{}, more{};
        for (int k = 0; k < together; ++k) {
          const Value distance = at(reinterpret_cast<const T*>(x + k * step_)) - around;
          some += distance;
          more += distance * distance;
        }
        *distances += some;
        *squares += more;
      };
      int64_t j = 0;
      for (; j + double_lanes <= n; j += double_lanes) {
        add(reinterpret_cast<Doubles*>(to.distances + j),
            reinterpret_cast<Doubles*>(to.squares + j), doubles_at(to.around + j),
            [&](const T* row) { return doubles_at(row + j); });
      }
      for (; j < n; ++j) {
        add(to.distances + j, to.squares + j, to.around[j],
            [&](const T* row) { return static_cast<double>(static_cast<ComputeType<T>>(row[j])); });
      }
    }
    return first;
  }
  void add_all_rows(const char* in, int64_t first, int64_t last, int64_t n, Columns& to) const {
    add_rows<1>(in, add_rows<4>(in, first, last, n, to), last, n, to);
  }

  // The means of n columns so far are what distances are taken from, and sums begin again.
  static void begin_again(Columns& to, int64_t n, int64_t rows) {
    for (int64_t j = 0; j < n; ++j) {
      to.around[j] = finite_or_zero(to.around[j] + to.distances[j] / static_cast<double>(rows));
      to.distances[j] = to.squares[j] = 0;
    }
  }

  struct Block {
    const char* in;
    int64_t out, n;
  };
  Block block(int64_t index) const {
    const int64_t row = r_.kept_sizes[0], blocks = (row + width - 1) / width;
    const int64_t column = index % blocks * width;
    int64_t in, out;
    place(index / blocks, 1, in, out);
    return {r_.in + in + column * static_cast<int64_t>(sizeof(T)), out + column * r_.kept_out[0],
            std::min(width, row - column)};
  }

  void add_up(const Block& of, int64_t first, int64_t last, Columns& to) const {
    const int64_t some = std::min(r_.count, sample);
    add_all_rows(of.in, 0, some, of.n, to);
    begin_again(to, of.n, some);
    if constexpr (passes == 2) {
      add_all_rows(of.in, 0, r_.count, of.n, to);
      begin_again(to, of.n, r_.count);
    }
    add_all_rows(of.in, first, last, of.n, to);
  }
  void finish(const Block& of, const Columns& sums) const {
    for (int64_t j = 0; j < of.n; ++j) {
      store(of.out + j * r_.kept_out[0], sums.around[j] + sums.distances[j] / count_,
            squares_around_mean({sums.distances[j], sums.squares[j]}, count_));
    }
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0], size = r_.count * std::min(row, width);
    const int64_t blocks = r_.outputs / row * ((row + width - 1) / width);
    if (passes == 2 || blocks >= 16 || size < 2 * piece) {
      const int64_t grain = std::max<int64_t>(1, default_grain / 2 / std::max<int64_t>(1, size));
      parallel_for(0, blocks, grain, [&](int64_t first, int64_t last) {
        for (int64_t k = first; k < last; ++k) {
          Columns sums;
          add_up(block(k), 0, r_.count, sums);
          finish(block(k), sums);
        }
      });
      return;
    }
    // Few blocks of columns are cut into pieces of rows as well.
    const int64_t pieces = std::min<int64_t>(size / piece, 64);
    const int64_t height = (r_.count + pieces - 1) / pieces;
    std::vector<Columns> parts(blocks * pieces);
    parallel_for(0, blocks * pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const int64_t row_first = std::min(k % pieces * height, r_.count);
        add_up(block(k / pieces), row_first, std::min(row_first + height, r_.count), parts[k]);
      }
    });
    for (int64_t k = 0; k < blocks; ++k) {
      Columns& all = parts[k * pieces];
      for (int64_t part = 1; part < pieces; ++part) {
        for (int64_t j = 0; j < width; ++j) {
          all.distances[j] += parts[k * pieces + part].distances[j];
          all.squares[j] += parts[k * pieces + part].squares[j];
        }
      }
      finish(block(k), all);
    }
  }

  const Reduction& r_;
  const double count_, free_;
  const bool root_;
  const int64_t run_, step_, runs_;  // the elements of a result: runs with steps between elements
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
