// CPU kernels of the largest or smallest element with its index. The reduced dimension is one; the
// first of equal elements counts, and NaN is both larger and smaller than any number.
//
// First only the value is sought, by whole registers, and where its block begins; where it stands
// in the block is seen at the end. Numbers of 16 bits are compared as integers, twice as many at a
// time as floats.
#include <bit>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce_loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// One bit for each byte of a register of lanes that are all ones or all zeros.
template <class Mask>
inline uint64_t bytes_of(Mask mask) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi8_mask(std::bit_cast<__m512i>(mask));
#else
  return static_cast<uint32_t>(_mm256_movemask_epi8(std::bit_cast<__m256i>(mask)));
#endif
}

// Bits for each lane that is the same in two registers: one, or one for each of its bytes.
template <class Lanes>
inline uint64_t same_lanes(Lanes a, Lanes b) {
#if FLAMBEAU_ISA_RANK >= 4
  using Lane = std::remove_cvref_t<decltype(a[0])>;
  const auto x = std::bit_cast<__m512i>(a), y = std::bit_cast<__m512i>(b);
  if constexpr (std::is_same_v<Lane, float>) return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  if constexpr (std::is_same_v<Lane, double>) return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ);
  if constexpr (sizeof(Lane) == 1) return _mm512_cmpeq_epi8_mask(x, y);
  if constexpr (sizeof(Lane) == 2) return _mm512_cmpeq_epi16_mask(x, y);
  if constexpr (sizeof(Lane) == 4) return _mm512_cmpeq_epi32_mask(x, y);
  return _mm512_cmpeq_epi64_mask(x, y);
#else
  return bytes_of(a == b);
#endif
}
template <class Lane>
constexpr int bits_of_lane = FLAMBEAU_ISA_RANK >= 4 ? 1 : sizeof(Lane);

// What elements are compared as. With `reads_nan`, NaN is one of these keys; else, if there is such
// a number at all, a key that no number has and that is preferred to all of them.
template <class T, bool largest>
struct Keys {
  static constexpr bool is_short = is_reduced_type<T>;
  static constexpr bool reads_nan = std::is_floating_point_v<T>;
  using Whole = std::conditional_t<std::is_same_v<T, Truth>, uint8_t, T>;
  using Key = std::conditional_t<is_short, int16_t, Whole>;
  using Lanes = typename Register<Key>::type;
  static constexpr int lanes = register_bytes / sizeof(Key);

  static bool better(Key a, Key b) { return largest ? a > b : a < b; }
  static auto better(Lanes a, Lanes b) { return largest ? a > b : a < b; }
  static Lanes best(Lanes a, Lanes b) {
    return largest ? larger_or_second(a, b) : smaller_or_second(a, b);
  }
  // What any number is at least as good as.
  static Key worst() {
    if constexpr (reads_nan) return largest ? -infinity : infinity;
    return largest ? std::numeric_limits<Key>::lowest() : std::numeric_limits<Key>::max();
  }
  // Elements as they are stored.
  using Bits = typename Register<std::conditional_t<is_short, uint16_t, Key>>::type;
  static Bits stored(const T* x) {
    Bits bits;
    std::memcpy(&bits, x, sizeof bits);
    return bits;
  }
  static Lanes at(const T* x) {
    const Bits bits = stored(x);
    if constexpr (is_short) {
      // Negative numbers descend from zero, of which there is one; moved by what lies beyond
      // infinity, NaN of one sign wraps around to that of the other.
      const auto mirrored = static_cast<uint16_t>(0x8000 + moved) - bits;
      return std::bit_cast<Lanes>(bits) < 0 ? std::bit_cast<Lanes>(mirrored)
                                            : std::bit_cast<Lanes>(bits + moved);
    } else if constexpr (std::is_same_v<T, Truth>) {
      return smaller_or_second(bits, Lanes{} + Key{1});
    } else {
      return bits;
    }
  }
  static Key of(T x) {
    if constexpr (is_short) {
      const auto bits = std::bit_cast<uint16_t>(x);
      return static_cast<int16_t>(bits >= 0x8000 ? 0x8000 + moved - bits : bits + moved);
    } else {
      return static_cast<Key>(x);
    }
  }
  static int16_t zero() { return static_cast<int16_t>(moved); }
  // How the number with some key is stored, but for zero, which may have either sign.
  static uint16_t bits_of(int16_t key) {
    const int distance = key - zero();
    return static_cast<uint16_t>(distance < 0 ? 0x8000 - distance : distance);
  }
  // Whether a key is NaN's.
  static auto is_nan(Lanes keys) {
    if constexpr (is_short)
      return better(keys, Lanes{} + last);
    else
      return keys != keys;
  }
  static bool is_nan(Key key) {
    if constexpr (is_short)
      return better(key, last);
    else
      return key != key;
  }

 private:
  static constexpr Key infinity = std::numeric_limits<Key>::infinity();
  static constexpr int16_t infinite = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
  static constexpr uint16_t moved = largest ? infinite - 0x8000 : 0x7fff - infinite;
  static constexpr int16_t last = largest ? static_cast<int16_t>(2 * infinite - 0x8000)
                                          : static_cast<int16_t>(0x7fff - 2 * infinite);
};

template <class T, bool largest>
class Row {
  using K = Keys<T, largest>;
  using Key = typename K::Key;
  using Lanes = typename K::Lanes;
  static constexpr int lanes = K::lanes;

 public:
  static constexpr int64_t least = lanes;  // elements of a row
  static constexpr int64_t block = 4096;   // elements of which the best is sought at a time

  // The best key so far, and where the first block with such a key begins.
  struct Found {
    Key key = K::worst();
    bool nan = false;
    int64_t from = -1;

    // Of a later part of the row.
    void join(const Found& other) {
      if (from < 0 || (!nan && (other.nan || K::better(other.key, key)))) *this = other;
    }
  };

  static Found look_at(const T* x, int64_t first, int64_t last) {
    Found all;
    for (int64_t i = first; i < last && !all.nan; i += block) {
      // The last block is made no shorter than a register.
      const int64_t n = std::min(block, last - i), from = std::min(i, last - lanes);
      all.join(best_of(x + from, i + n - from, from));
    }
    return all;
  }
  static int64_t find(const T* x, int64_t n, const Found& found) {
    const int64_t count = std::min(n - found.from, block);
    const auto first = [&](const auto& match) {
      return found.from + first_of(x + found.from, count, match);
    };
    if (found.nan) {
      return first([](const T* at) {
        const auto is_nan = K::is_nan(K::at(at));
        return same_lanes(is_nan, ~(is_nan ^ is_nan));
      });
    }
    if constexpr (K::is_short) {
      if (found.key != K::zero()) {
        const auto bits = typename K::Bits{} + K::bits_of(found.key);
        return first([&](const T* at) { return same_lanes(K::stored(at), bits); });
      }
    }
    const Lanes key = Lanes{} + found.key;
    return first([&](const T* at) { return same_lanes(K::at(at), key); });
  }

 private:
  static Found best_of(const T* x, int64_t n, int64_t from) {
    Lanes best[4] = {Lanes{} + K::worst(), Lanes{} + K::worst(), Lanes{} + K::worst(),
                     Lanes{} + K::worst()};
    NanSeen nan;
    const auto take = [&](int64_t i, int k) {
      const Lanes keys = K::at(x + i);
      if constexpr (K::reads_nan) nan.look_at(keys, keys);
      best[k] = K::best(keys, best[k]);
    };
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        // The processor alone begins to read too late, unless small elements keep it long enough.
        if constexpr (sizeof(T) >= 4) {
          ask_second_level(reinterpret_cast<const char*>(x + i + k * lanes) + bytes_ahead_reading);
        }
        take(i + k * lanes, k);
      }
    }
    for (; i + lanes <= n; i += lanes) take(i, 0);
    if (i < n) take(n - lanes, 0);
    Key keys[lanes];
    const Lanes both = K::best(K::best(best[0], best[1]), K::best(best[2], best[3]));
    std::memcpy(keys, &both, sizeof keys);
    fold<lanes>(keys);
    return {keys[0], K::reads_nan ? nan.any() : K::is_nan(keys[0]), from};
  }
  template <int n>
  static void fold(Key* keys) {
    if constexpr (n > 1) {
      for (int k = 0; k < n / 2; ++k) {
        keys[k] = K::better(keys[k], keys[k + n / 2]) ? keys[k] : keys[k + n / 2];
      }
      fold<n / 2>(keys);
    }
  }

  template <class Match>
  static int64_t first_of(const T* x, int64_t n, const Match& match) {
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      const uint64_t two = match(x + i) | match(x + i + lanes);
      if (two | match(x + i + 2 * lanes) | match(x + i + 3 * lanes)) break;
    }
    for (;; i += lanes) {
      i = std::min(i, n - lanes);
      const uint64_t bits = match(x + i);
      if (bits) return i + std::countr_zero(bits) / bits_of_lane<Key>;
      // Another thread may have overwritten it meanwhile: then the last one is as good as any.
      if (i == n - lanes) return n - 1;
    }
  }
};

// Columns side by side.
template <class T, bool largest>
class IndexColumns {
  using K = Keys<T, largest>;
  using Key = typename K::Key;
  using Lanes = typename K::Lanes;
  static constexpr int lanes = K::lanes;

 public:
  static constexpr int64_t width = 1024;
  alignas(64) Key key[width];
  int32_t index[width];

  // Rows [first, last) of n columns, neighbours or `across` bytes apart.
  void look_at(const char* in, int64_t step, int64_t across, int64_t first, int64_t last,
               int64_t n) {
    constexpr int together = 8;
    step_ = step;
    const char* x = in + first * step;
    std::fill_n(key, n, K::worst());
    std::fill_n(index, n, static_cast<int32_t>(first));
    if (across != sizeof(T)) {
      for (int64_t i = first; i < last; ++i, x += step) {
        for (int64_t j = 0; j < n; ++j) update(j, K::of(load_stored(x + j * across)), i);
      }
      return;
    }
    int64_t i = first;
    for (; i + together <= last; i += together, x += together * step)
      look_at_rows<together>(x, i, n);
    for (; i < last; ++i, x += step) look_at_rows<1>(x, i, n);
  }
  // What was found in later rows.
  void join(const IndexColumns& other, int64_t n) {
    for (int64_t j = 0; j < n; ++j) update(j, other.key[j], other.index[j]);
  }

 private:
  static T load_stored(const char* x) {
    T value;
    std::memcpy(static_cast<void*>(&value), x, sizeof value);
    return value;
  }

  void update(int64_t j, Key x, int64_t i) {
    const bool taken = (K::better(x, key[j]) | K::is_nan(x)) & !K::is_nan(key[j]);
    key[j] = taken ? x : key[j];
    index[j] = taken ? static_cast<int32_t>(i) : index[j];
  }
  // The last register of columns may have some of the one before, which changes nothing.
  template <int rows>
  void look_at_rows(const char* x, int64_t i, int64_t n) {
    if (n < lanes) {
      for (int k = 0; k < rows; ++k, x += step_) {
        for (int64_t j = 0; j < n; ++j) update(j, K::of(reinterpret_cast<const T*>(x)[j]), i + k);
      }
      return;
    }
    for (int64_t j = 0; j < n; j += lanes) {
      const int64_t from = std::min(j, n - lanes);
      if (improves<rows>(x, from)) update_register<rows>(x, from, i);
    }
  }

  // Whether one of some rows has something better in a register of columns, or NaN.
  template <int rows>
  bool improves(const char* x, int64_t j) const {
    Lanes best = K::at(reinterpret_cast<const T*>(x) + j);
    NanSeen nan;
    if constexpr (K::reads_nan) nan.look_at(best, best);
#pragma GCC unroll 8
    for (int k = 1; k < rows; ++k) {
      const Lanes keys = K::at(reinterpret_cast<const T*>(x + k * step_) + j);
      if constexpr (K::reads_nan) nan.look_at(keys, keys);
      best = K::best(keys, best);
    }
    Lanes before;
    std::memcpy(&before, key + j, sizeof before);
    if (K::reads_nan && nan.any()) return true;
    return bytes_of(K::better(best, before)) != 0;
  }
  template <int rows>
  [[gnu::noinline]] void update_register(const char* x, int64_t j, int64_t i) {
    for (int k = 0; k < rows; ++k) {
      Lanes before, keys = K::at(reinterpret_cast<const T*>(x + k * step_) + j);
      std::memcpy(&before, key + j, sizeof before);
      // NaN is better than what is not.
      auto taken = K::better(keys, before);
      if constexpr (K::reads_nan) taken |= keys != keys;
      if constexpr (K::reads_nan || K::is_short) taken &= ~K::is_nan(before);
      keys = taken ? keys : before;
      std::memcpy(key + j, &keys, sizeof keys);
      store_index(same_lanes(taken, ~(taken ^ taken)), j, static_cast<int32_t>(i + k));
    }
  }
  // The index of those of a register's columns whose bits are set.
  void store_index(uint64_t taken, int64_t j, int32_t i) {
#if FLAMBEAU_ISA_RANK >= 4
    for (int k = 0; k < lanes; k += 16) {
      _mm512_mask_storeu_epi32(index + j + k, static_cast<__mmask16>(taken >> k),
                               _mm512_set1_epi32(i));
    }
#else
    while (taken) {
      const int lane = std::countr_zero(taken) / bits_of_lane<Key>;
      index[j + lane] = i;
      taken &= ~(((uint64_t{1} << bits_of_lane<Key>)-1) << lane * bits_of_lane<Key>);
    }
#endif
  }

  int64_t step_ = 0;
};

template <class T, bool largest>
class IndexReducer {
  using Columns = IndexColumns<T, largest>;
  using RowOf = Row<T, largest>;

 public:
  explicit IndexReducer(const Reduction& r)
      : r_(r), step_(r.reduced_dims ? r.reduced_in[0] : static_cast<int64_t>(sizeof(T))) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.kept_dims > 0 && r_.kept_in[0] == sizeof(T) && r_.kept_sizes[0] >= 4 &&
                         step_ > static_cast<int64_t>(sizeof(T)) && r_.count <= INT32_MAX;
    const bool short_rows = r_.count < RowOf::least;
    if (columns || short_rows) {
      run_columns();
    } else if (r_.outputs < 16 && r_.count >= 2 * piece && step_ == sizeof(T)) {
      for (int64_t i = 0; i < r_.outputs; ++i) run_long_row(i);
    } else {
      run_rows();
    }
  }

 private:
  static constexpr int64_t piece = 65536;  // elements of a row that one thread looks at

  void store(const char* in, int64_t at, int64_t index) const {
    if (r_.out) reinterpret_cast<T*>(r_.out)[at] = static_cast<T>(load<T>(in + index * step_));
    reinterpret_cast<int64_t*>(r_.second)[at] = index;
  }
  void place(int64_t index, int first_dim, int64_t& in, int64_t& out) const {
    in = out = 0;
    for (int d = first_dim; d < r_.kept_dims; ++d) {
      const bool last = d + 1 == r_.kept_dims;
      const int64_t i = last ? index : index % r_.kept_sizes[d];
      if (!last) index /= r_.kept_sizes[d];
      in += i * r_.kept_in[d];
      out += i * r_.kept_out[d];
    }
  }

  void run_rows() const {
    const int64_t grain = std::max<int64_t>(1, default_grain / 2 / r_.count);
    parallel_for(0, r_.outputs, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int64_t in, out;
        place(i, 0, in, out);
        const char* row = r_.in + in;
        if (step_ != sizeof(T)) {
          store(row, out, index_of_steps(row));
        } else {
          const T* x = reinterpret_cast<const T*>(row);
          store(row, out, RowOf::find(x, r_.count, RowOf::look_at(x, 0, r_.count)));
        }
      }
    });
  }
  // Elements that are not neighbours are brought together, the last block no shorter than the rest.
  int64_t index_of_steps(const char* row) const {
    constexpr int64_t block = 1024;
    typename RowOf::Found best;
    int64_t index = 0;
    for (int64_t i = 0; i < r_.count && !best.nan; i += block) {
      T x[block];
      const int64_t n = std::min(block, r_.count), from = std::min(i, r_.count - n);
      for (int64_t k = 0; k < n; ++k) std::memcpy(&x[k], row + (from + k) * step_, sizeof(T));
      const auto found = RowOf::look_at(x, 0, n);
      const auto before = best;
      best.join(found);
      const bool taken = before.from < 0 || best.nan != before.nan || best.key != before.key;
      if (taken) index = from + RowOf::find(x, n, found);
    }
    return index;
  }
  void run_long_row(int64_t i) const {
    int64_t in, out;
    place(i, 0, in, out);
    const T* x = reinterpret_cast<const T*>(r_.in + in);
    std::vector<typename RowOf::Found> parts((r_.count + piece - 1) / piece);
    parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        // The last piece may be shorter than a register.
        const int64_t end = std::min(r_.count, (k + 1) * piece);
        parts[k] = RowOf::look_at(x, std::min(k * piece, end - RowOf::least), end);
      }
    });
    typename RowOf::Found all;
    for (const auto& part : parts) all.join(part);
    store(r_.in + in, out, RowOf::find(x, r_.count, all));
  }

  void run_columns() const {
    const int64_t row = r_.kept_dims ? r_.kept_sizes[0] : 1, width = Columns::width;
    const int64_t blocks = (row + width - 1) / width, tasks = r_.outputs / row * blocks;
    const int64_t size = r_.count * std::min(row, width);
    // What is found does not depend on how rows are cut: no more than there are threads.
    const int64_t threads = in_parallel_region() ? 1 : get_num_threads();
    if (tasks < threads && size >= 2 * default_grain) return cut_columns(tasks, threads);
    const int64_t grain = std::max<int64_t>(1, default_grain / size);
    parallel_for(0, tasks, grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        Columns columns;
        const Block of = block(task);
        columns.look_at(of.in, step_, of.across, 0, r_.count, of.n);
        store_columns(of, columns);
      }
    });
  }
  void cut_columns(int64_t tasks, int64_t cuts) const {
    const int64_t height = (r_.count + cuts - 1) / cuts;
    std::vector<Columns> parts(tasks * cuts);
    parallel_for(0, tasks * cuts, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const Block of = block(k / cuts);
        const int64_t begin = std::min(r_.count, k % cuts * height);
        parts[k].look_at(of.in, step_, of.across, begin, std::min(r_.count, begin + height), of.n);
      }
    });
    for (int64_t task = 0; task < tasks; ++task) {
      const Block of = block(task);
      Columns& all = parts[task * cuts];
      for (int64_t k = 1; k < cuts && k * height < r_.count; ++k) {
        all.join(parts[task * cuts + k], of.n);
      }
      store_columns(of, all);
    }
  }

  struct Block {
    const char* in;
    int64_t out, n, across;
  };
  Block block(int64_t task) const {
    if (r_.kept_dims == 0) return {r_.in, 0, 1, 0};
    const int64_t row = r_.kept_sizes[0], blocks = (row + Columns::width - 1) / Columns::width;
    const int64_t column = task % blocks * Columns::width;
    int64_t in, out;
    place(task / blocks, 1, in, out);
    return {r_.in + in + column * r_.kept_in[0], out + column * r_.kept_out[0],
            std::min(Columns::width, row - column), r_.kept_in[0]};
  }
  void store_columns(const Block& of, const Columns& columns) const {
    const int64_t step = r_.kept_dims ? r_.kept_out[0] : 0;
    for (int64_t j = 0; j < of.n; ++j) {
      store(of.in + j * of.across, of.out + j * step, columns.index[j]);
    }
  }

  const Reduction& r_;
  const int64_t step_;
};

template <bool largest>
void index_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::RealBool - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    IndexReducer<typename decltype(tag)::type, largest>(r).run();
  });
}
KERNEL_FOR(max_index, [](const Reduction& r) { index_kernel<true>("max", r); })
KERNEL_FOR(min_index, [](const Reduction& r) { index_kernel<false>("min", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
