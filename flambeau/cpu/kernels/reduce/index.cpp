// CPU kernels of the largest or smallest element with its index. The reduced dimension is one; the
// first of equal elements counts, and NaN is both larger and smaller than any number.
//
// First only the value is sought, by whole registers, and where its block begins; where it stands
// in the block is seen at the end. Numbers of 16 bits are compared as integers, twice as many at a
// time as floats. Only the loops over registers are made for every dtype and both orders.
#include <bit>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce/loops.h"

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

// The best number of some elements, and where the first block that has it begins. An integer is
// itself; a float is how many others lie between it and zero, of which there is one.
struct Found {
  int64_t number = 0;
  bool nan = false;
  int64_t from = -1;

  // Of a later part of the row.
  void join(const Found& other, bool largest) {
    const bool better = largest ? other.number > number : other.number < number;
    if (from < 0 || (!nan && (other.nan || better))) *this = other;
  }
};

constexpr int64_t index_block = 4096;  // elements of which the best is sought at a time

// Columns side by side: the best key of each, as the loops compare it, and its row.
struct IndexColumns {
  static constexpr int64_t width = 1024;
  alignas(64) char keys[width * sizeof(int64_t)];
  int32_t index[width + 16];  // of which registers may be read and written
};

// The loops over elements of one dtype.
struct IndexLoops {
  const int64_t item;   // bytes of an element
  const int64_t lanes;  // elements of a register: fewer are neither a row nor columns
  const bool largest;

  // The best of elements [first, last) of a row.
  virtual Found look_at(const char* x, int64_t first, int64_t last) const = 0;
  // The index of what was found in a row of n elements.
  virtual int64_t find(const char* x, int64_t n, const Found& found) const = 0;
  // Rows [first, last) of n columns, neighbours or `across` bytes apart; the first row is at x.
  virtual void look_at_columns(IndexColumns& columns, const char* x, int64_t step, int64_t across,
                               int64_t first, int64_t last, int64_t n) const = 0;
  // What was found in later rows.
  virtual void join(IndexColumns& columns, const IndexColumns& later, int64_t n) const = 0;

 protected:
  IndexLoops(int64_t item, int64_t lanes, bool largest)
      : item(item), lanes(lanes), largest(largest) {}
  ~IndexLoops() = default;
};

// Elements as they are stored, where two are the same if their bits are: integers of that size.
template <class T>
using StoredAs = std::conditional_t<
    std::is_same_v<T, StoredBool>, StoredBool,
    std::conditional_t<sizeof(T) == 1, int8_t,
                       std::conditional_t<sizeof(T) == 2, int16_t,
                                          std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>>>;
template <class Stored>
inline auto stored_at(const char* x) {
  if constexpr (std::is_same_v<Stored, StoredBool>) {
    typename Register<uint8_t>::type bits;
    std::memcpy(&bits, x, sizeof bits);
    return std::bit_cast<Register<int8_t>::type>(smaller_or_second(bits, bits * 0 + uint8_t{1}));
  } else {
    typename Register<Stored>::type bits;
    std::memcpy(&bits, x, sizeof bits);
    return bits;
  }
}

// The first of n elements whose register `match` has bits for.
template <class Stored, class Match>
inline int64_t first_of(const char* x, int64_t n, const Match& match) {
  constexpr int64_t lanes = register_bytes / sizeof(Stored);
  const auto bits_at = [&](int64_t i) {
    return match(stored_at<Stored>(x + i * static_cast<int64_t>(sizeof(Stored))));
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const uint64_t two = bits_at(i) | bits_at(i + lanes);
    if (two | bits_at(i + 2 * lanes) | bits_at(i + 3 * lanes)) break;
  }
  for (;; i += lanes) {
    i = std::min(i, n - lanes);
    const uint64_t bits = bits_at(i);
    if (bits) return i + std::countr_zero(bits) / bits_of_lane<Stored>;
    // Another thread may have overwritten it meanwhile: then the last one is as good as any.
    if (i == n - lanes) return n - 1;
  }
}

// Floats have an `infinity`, integers have none.
template <class Stored>
[[gnu::noinline]] int64_t find_stored(const char* x, int64_t n, const Found& found,
                                      int64_t infinity) {
  using Lanes = decltype(stored_at<Stored>(x));
  using Bits = std::conditional_t<std::is_same_v<Stored, StoredBool>, int8_t, Stored>;
  const int64_t count = std::min(n - found.from, index_block);
  x += found.from * static_cast<int64_t>(sizeof(Stored));
  if (infinity && (found.nan || found.number == 0)) {
    // What lies beyond infinity, or zero of either sign.
    const Bits low = found.nan ? static_cast<Bits>(infinity) : Bits{-1};
    const Bits high = found.nan ? std::numeric_limits<Bits>::max() : Bits{0};
    return found.from + first_of<Stored>(x, count, [&](Lanes bits) {
             const Lanes size = bits & std::numeric_limits<Bits>::max();
             const auto matches = (size > Lanes{} + low) & (size <= Lanes{} + high);
             return same_lanes(matches, ~(matches ^ matches));
           });
  }
  const bool mirrored = infinity && found.number < 0;
  const auto same =
      static_cast<Bits>(mirrored ? std::numeric_limits<Bits>::min() - found.number : found.number);
  return found.from +
         first_of<Stored>(x, count, [&](Lanes bits) { return same_lanes(bits, Lanes{} + same); });
}

// What elements are compared as. With `reads_nan`, NaN is one of these keys; else, if there is such
// a number at all, a key that no number has and that is preferred to all of them.
template <class T, bool largest>
struct Keys {
  static constexpr bool is_short = is_reduced_type<T>;
  static constexpr bool reads_nan = std::is_floating_point_v<T>;
  using Whole = std::conditional_t<std::is_same_v<T, StoredBool>, uint8_t, T>;
  using Key = std::conditional_t<is_short, int16_t, Whole>;
  using Lanes = typename Register<Key>::type;
  static constexpr int lanes = register_bytes / sizeof(Key);
  // How infinity is stored, or zero.
  static constexpr int64_t infinity_bits = std::is_same_v<T, Half>       ? 0x7c00
                                           : std::is_same_v<T, BFloat16> ? 0x7f80
                                           : std::is_same_v<T, float>    ? 0x7f800000
                                           : std::is_same_v<T, double>   ? 0x7ff0000000000000
                                                                         : 0;

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
  static Lanes at(const char* x) {
    typename Register<std::conditional_t<is_short, uint16_t, Key>>::type bits;
    std::memcpy(&bits, x, sizeof bits);
    if constexpr (is_short) {
      // Negative numbers descend from zero, of which there is one; moved by what lies beyond
      // infinity, NaN of one sign wraps around to that of the other.
      const auto mirrored = static_cast<uint16_t>(0x8000 + moved) - bits;
      return std::bit_cast<Lanes>(bits) < 0 ? std::bit_cast<Lanes>(mirrored)
                                            : std::bit_cast<Lanes>(bits + moved);
    } else if constexpr (std::is_same_v<T, StoredBool>) {
      return smaller_or_second(bits, Lanes{} + Key{1});
    } else {
      return bits;
    }
  }
  static Key of(const char* x) {
    std::conditional_t<is_short, uint16_t, Key> bits;
    std::memcpy(&bits, x, sizeof bits);
    if constexpr (is_short) {
      return static_cast<int16_t>(bits >= 0x8000 ? 0x8000 + moved - bits : bits + moved);
    } else if constexpr (std::is_same_v<T, StoredBool>) {
      return bits != 0;
    } else {
      return bits;
    }
  }
  // As in Found.
  static int64_t number_of(Key key) {
    if constexpr (is_short) {
      return key - static_cast<int16_t>(moved);
    } else if constexpr (reads_nan) {
      const auto bits = std::bit_cast<StoredAs<T>>(key);
      return bits < 0 ? std::numeric_limits<StoredAs<T>>::min() - bits : bits;
    } else {
      return key;
    }
  }
  // Whether a key is NaN's, or keys are.
  template <class V>
  static auto is_nan(V keys) {
    if constexpr (is_short)
      return better(keys, V{} + last);
    else
      return keys != keys;
  }

 private:
  static constexpr Key infinity = std::numeric_limits<Key>::infinity();
  static constexpr auto infinite = static_cast<int16_t>(is_short ? infinity_bits : 0);
  static constexpr uint16_t moved = largest ? infinite - 0x8000 : 0x7fff - infinite;
  static constexpr int16_t last = largest ? static_cast<int16_t>(2 * infinite - 0x8000)
                                          : static_cast<int16_t>(0x7fff - 2 * infinite);
};

template <class T, bool is_largest>
class IndexLoopsOf final : public IndexLoops {
  using K = Keys<T, is_largest>;
  using Key = typename K::Key;
  using Lanes = typename K::Lanes;
  static constexpr int some = K::lanes;

 public:
  IndexLoopsOf() : IndexLoops(sizeof(T), some, is_largest) {}

  Found look_at(const char* x, int64_t first, int64_t last) const override {
    Found all;
    for (int64_t i = first; i < last && !all.nan; i += index_block) {
      // The last block is made no shorter than a register.
      const int64_t n = std::min(index_block, last - i), from = std::min<int64_t>(i, last - some);
      all.join(best_of(x + from * item, i + n - from, from), is_largest);
    }
    return all;
  }
  int64_t find(const char* x, int64_t n, const Found& found) const override {
    return find_stored<StoredAs<T>>(x, n, found, K::infinity_bits);
  }

  // The last register of columns may have some of the one before, which changes nothing.
  void look_at_columns(IndexColumns& columns, const char* x, int64_t step, int64_t across,
                       int64_t first, int64_t last, int64_t n) const override {
    Key* keys = reinterpret_cast<Key*>(columns.keys);
    std::fill_n(keys, n, K::worst());
    std::fill_n(columns.index, n, static_cast<int32_t>(first));
    const auto take_singly = [&](auto apart) {
      for (int64_t i = first; i < last; ++i, x += step) {
        for (int64_t j = 0; j < n; ++j) {
          const Key next = K::of(x + j * apart);
          const bool taken = (K::better(next, keys[j]) | K::is_nan(next)) & !K::is_nan(keys[j]);
          keys[j] = taken ? next : keys[j];
          columns.index[j] = taken ? static_cast<int32_t>(i) : columns.index[j];
        }
      }
    };
    if (across != sizeof(T)) return take_singly(across);
    if (n < some) return take_singly(std::integral_constant<int64_t, sizeof(T)>());
    for (int64_t i = first, rows; i < last; i += rows, x += rows * step) {
      rows = std::min<int64_t>(last - i, together);
      for (int64_t j = 0; j < n; j += some) {
        const int64_t from = std::min(j, n - some);
        const char* place = x + from * item;
        if (rows < together || improves(place, step, keys + from)) {
          update(columns, place, step, from, i, rows);
        }
      }
    }
  }
  void join(IndexColumns& columns, const IndexColumns& later, int64_t n) const override {
    Key* keys = reinterpret_cast<Key*>(columns.keys);
    const Key* others = reinterpret_cast<const Key*>(later.keys);
    for (int64_t j = 0; j < n; ++j) {
      if (!is_preferred(others[j], keys[j])) continue;
      keys[j] = others[j];
      columns.index[j] = later.index[j];
    }
  }

 private:
  static constexpr int together = 8;  // rows that are looked at before any is taken

  // Out of line, since vector code is not worth its size where few threads' columns are joined.
  [[gnu::noinline]] static bool is_preferred(Key next, Key before) {
    return (K::better(next, before) || K::is_nan(next)) && !K::is_nan(before);
  }

  static Found best_of(const char* x, int64_t n, int64_t from) {
    Lanes best[4] = {Lanes{} + K::worst(), Lanes{} + K::worst(), Lanes{} + K::worst(),
                     Lanes{} + K::worst()};
    NanSeen nan;
    const auto take = [&](int64_t i, int k) {
      const Lanes keys = K::at(x + i * static_cast<int64_t>(sizeof(T)));
      if constexpr (K::reads_nan) nan.look_at(keys, keys);
      best[k] = K::best(keys, best[k]);
    };
    int64_t i = 0;
    for (; i + 4 * some <= n; i += 4 * some) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        ask_for_reading<T>(x + (i + k * some) * sizeof(T));  // the processor alone is too late
        take(i + k * some, k);
      }
    }
    for (; i + some <= n; i += some) take(i, 0);
    if (i < n) take(n - some, 0);
    Key keys[some];
    const Lanes both = K::best(K::best(best[0], best[1]), K::best(best[2], best[3]));
    std::memcpy(keys, &both, sizeof keys);
    fold<some>(keys);
    return {K::number_of(keys[0]), K::reads_nan ? nan.any() : K::is_nan(keys[0]), from};
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

  // Whether one of some rows has something better in a register of columns, or NaN.
  static bool improves(const char* x, int64_t step, const Key* keys) {
    Lanes best = K::at(x);
    NanSeen nan;
    if constexpr (K::reads_nan) nan.look_at(best, best);
#pragma GCC unroll 8
    for (int k = 1; k < together; ++k) {
      const Lanes next = K::at(x + k * step);
      if constexpr (K::reads_nan) nan.look_at(next, next);
      best = K::best(next, best);
    }
    Lanes before;
    std::memcpy(&before, keys, sizeof before);
    if (K::reads_nan && nan.any()) return true;
    return bytes_of(K::better(best, before)) != 0;
  }
  static void update(IndexColumns& columns, const char* x, int64_t step, int64_t j, int64_t i,
                     int64_t rows) {
    Lanes before;
    char* place = columns.keys + j * sizeof(Key);
    std::memcpy(&before, place, sizeof before);
    int32_t* index = columns.index + j;
#if FLAMBEAU_ISA_RANK >= 4
    __m512i held[(some + 15) / 16];
    std::memcpy(held, index, sizeof held);
#endif
    for (int64_t k = 0; k < rows; ++k, x += step) {
      const Lanes keys = K::at(x);
      // NaN is better than what is not.
      auto better = K::better(keys, before);
      if constexpr (K::reads_nan) better |= keys != keys;
      if constexpr (K::reads_nan || K::is_short) better &= ~K::is_nan(before);
      before = better ? keys : before;
      uint64_t taken = same_lanes(better, ~(better ^ better));
      const auto row = static_cast<int32_t>(i + k);
#if FLAMBEAU_ISA_RANK >= 4
      for (auto& part : held) {
        part = _mm512_mask_set1_epi32(part, static_cast<__mmask16>(taken), row);
        taken >>= 16;
      }
#else
      while (taken) {
        const int lane = std::countr_zero(taken) / bits_of_lane<Key>;
        index[lane] = row;
        taken &= ~(((uint64_t{1} << bits_of_lane<Key>)-1) << lane * bits_of_lane<Key>);
      }
#endif
    }
#if FLAMBEAU_ISA_RANK >= 4
    std::memcpy(index, held, sizeof held);
#endif
    std::memcpy(place, &before, sizeof before);
  }
};

// Which elements the loops run over.
class IndexReducer {
 public:
  IndexReducer(const Reduction& r, const IndexLoops& loops)
      : r_(r),
        loops_(loops),
        item_(loops.item),
        step_(r.reduced_dims ? r.reduced_in[0] : loops.item) {}

  void run() const {
    if (r_.outputs == 0) return;
    const bool columns = r_.kept_dims > 0 && r_.kept_in[0] == item_ && r_.kept_sizes[0] >= 4 &&
                         step_ > item_ && r_.count <= INT32_MAX;
    const bool short_rows = r_.count < loops_.lanes;
    if (columns || short_rows) {
      run_columns();
    } else if (r_.outputs < 16 && r_.count >= 2 * chunk && step_ == item_) {
      for (int64_t i = 0; i < r_.outputs; ++i) run_long_row(i);
    } else {
      run_rows();
    }
  }

 private:
  static constexpr int64_t chunk = 65536;        // elements of a row that one thread looks at
  static constexpr int64_t gathered_row = 1024;  // elements that are brought together at a time
  static constexpr int64_t width = IndexColumns::width;

  // n columns, `across` bytes apart.
  struct Block {
    const char* in;
    int64_t out, n, across;
  };

  // Calls body with an integer as large as an element.
  template <class Body>
  void as_integer(const Body& body) const {
    switch (item_) {
      case 1: return body(uint8_t{});
      case 2: return body(uint16_t{});
      case 4: return body(uint32_t{});
      default: return body(uint64_t{});
    }
  }
  // Results of n columns, or of one row.
  template <class Index>
  void store(const Block& of, const Index* index) const {
    const int64_t apart = r_.kept_dims ? r_.kept_out[0] : 0;
    int64_t* second = reinterpret_cast<int64_t*>(r_.second) + of.out;
    if (!r_.out) {
      for (int64_t j = 0; j < of.n; ++j) second[j * apart] = index[j];
      return;
    }
    as_integer([of, apart, index, second, this](auto value) {
      auto* out = reinterpret_cast<decltype(value)*>(r_.out) + of.out;
      const bool is_bool = r_.in_dtype == DType::bool_;
      const int64_t step = step_;
      for (int64_t j = 0; j < of.n; ++j) {
        const int64_t at = index[j];
        std::memcpy(&value, of.in + j * of.across + at * step, sizeof value);
        if (sizeof value == 1 && is_bool) value = value != 0;
        out[j * apart] = value;
        second[j * apart] = at;
      }
    });
  }
  // Brings n elements together.
  void move(char* to, const char* from, int64_t step, int64_t n) const {
    as_integer([&](auto item) { move_together<sizeof item>(to, from, step, n); });
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
      constexpr int64_t some = 64;
      for (int64_t i = first, n; i < last; i += n) {
        const int64_t along = r_.kept_dims ? r_.kept_sizes[0] - i % r_.kept_sizes[0] : 1;
        n = std::min({some, last - i, along});
        int64_t in, out, index[some];
        place(i, 0, in, out);
        const Block of = {r_.in + in, out, n, r_.kept_dims ? r_.kept_in[0] : 0};
        for (int64_t k = 0; k < n; ++k) {
          const char* row = of.in + k * of.across;
          index[k] = step_ == item_ ? loops_.find(row, r_.count, loops_.look_at(row, 0, r_.count))
                                    : index_of_steps(row);
        }
        store(of, index);
      }
    });
  }
  // Elements that are not neighbours are brought together, the last block no shorter than the rest.
  int64_t index_of_steps(const char* row) const {
    alignas(64) char x[gathered_row * sizeof(int64_t)];
    const int64_t n = std::min(gathered_row, r_.count);
    Found best;
    int64_t index = 0;
    for (int64_t i = 0; i < r_.count && !best.nan; i += gathered_row) {
      const int64_t from = std::min(i, r_.count - n);
      move(x, row + from * step_, step_, n);
      const Found found = loops_.look_at(x, 0, n), before = best;
      best.join(found, loops_.largest);
      const bool taken = before.from < 0 || best.nan != before.nan || best.number != before.number;
      if (taken) index = from + loops_.find(x, n, found);
    }
    return index;
  }
  void run_long_row(int64_t i) const {
    int64_t in, out;
    place(i, 0, in, out);
    const char* x = r_.in + in;
    std::vector<Found> parts((r_.count + chunk - 1) / chunk);
    parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        // The last chunk may be shorter than a register.
        const int64_t end = std::min(r_.count, (k + 1) * chunk);
        parts[k] = loops_.look_at(x, std::min(k * chunk, end - loops_.lanes), end);
      }
    });
    Found all;
    for (const Found& part : parts) all.join(part, loops_.largest);
    const int64_t index = loops_.find(x, r_.count, all);
    store({x, out, 1, 0}, &index);
  }

  void run_columns() const {
    const int64_t row = r_.kept_dims ? r_.kept_sizes[0] : 1;
    const int64_t blocks = (row + width - 1) / width, tasks = r_.outputs / row * blocks;
    const int64_t size = r_.count * std::min(row, width);
    // What is found does not depend on how rows are cut: no more than there are threads.
    const int64_t threads = in_parallel_region() ? 1 : get_num_threads();
    if (tasks < threads && size >= 2 * default_grain) return cut_columns(tasks, threads);
    const int64_t grain = std::max<int64_t>(1, default_grain / size);
    parallel_for(0, tasks, grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        IndexColumns columns;
        const Block of = block(task);
        look_at(columns, of, 0, r_.count);
        store(of, columns.index);
      }
    });
  }
  void cut_columns(int64_t tasks, int64_t cuts) const {
    const int64_t height = (r_.count + cuts - 1) / cuts;
    std::vector<IndexColumns> parts(tasks * cuts);
    parallel_for(0, tasks * cuts, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const Block of = block(k / cuts);
        const int64_t begin = std::min(r_.count, k % cuts * height);
        look_at(parts[k], of, begin, std::min(r_.count, begin + height));
      }
    });
    for (int64_t task = 0; task < tasks; ++task) {
      const Block of = block(task);
      IndexColumns& all = parts[task * cuts];
      for (int64_t k = 1; k < cuts && k * height < r_.count; ++k) {
        loops_.join(all, parts[task * cuts + k], of.n);
      }
      store(of, all.index);
    }
  }

  Block block(int64_t task) const {
    if (r_.kept_dims == 0) return {r_.in, 0, 1, 0};
    const int64_t row = r_.kept_sizes[0], blocks = (row + width - 1) / width;
    const int64_t column = task % blocks * width;
    int64_t in, out;
    place(task / blocks, 1, in, out);
    return {r_.in + in + column * r_.kept_in[0], out + column * r_.kept_out[0],
            std::min(width, row - column), r_.kept_in[0]};
  }
  void look_at(IndexColumns& columns, const Block& of, int64_t first, int64_t last) const {
    loops_.look_at_columns(columns, of.in + first * step_, step_, of.across, first, last, of.n);
  }

  const Reduction& r_;
  const IndexLoops& loops_;
  const int64_t item_, step_;  // bytes of an element, and from one to the next
};

template <bool largest>
void index_kernel(const char* name, const Reduction& r) {
  dispatch<dtypes::RealBool - dtypes::Unsigned>(name, r.in_dtype, [&](auto tag) {
    const IndexLoopsOf<typename decltype(tag)::type, largest> loops;
    IndexReducer(r, loops).run();
  });
}
KERNEL_FOR(max_index, [](const Reduction& r) { index_kernel<true>("max", r); })
KERNEL_FOR(min_index, [](const Reduction& r) { index_kernel<false>("min", r); })

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
