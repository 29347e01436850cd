// Reductions on the CPU for any layout, any dtype and any accumulation.
//
// An accumulation (Op) says:
//   using Lane, Acc            what elements are gathered in, and what lanes are gathered in
//   Lane start()               the neutral value
//   Lane step(Lane, C)         takes one element, in its compute type
//   Lane join(Lane, Lane)
//   Acc widen(Lane)
//   Acc merge(Acc, Acc)
//   Out finish(Acc)
// and, where GCC does not find vector code for it,
//   Pairs step_register(Pairs, Pairs)   the same as step, for registers of elements
// Here are the loops over elements, made for every accumulation and dtype; which elements they run
// over is decided once for all of them, by the driver in reduce/driver.cpp.
#pragma once

#include <algorithm>
#include <limits>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/kernels/simd/every_second.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/reduce.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// An accumulation as the driver sees it: lanes and gathered values are bytes of a known size.
struct Gatherer {
  const int64_t item, lane, acc, result;  // bytes of an element, a lane, a gathered value, a result
  const int64_t leaf;                     // how many elements gather_run takes at most
  const int64_t few;                      // how many rows are reduced together, at most

  // n elements, `stride` bytes apart, into one value.
  virtual void gather_run(const char* data, int64_t stride, int64_t n, char* value) const = 0;
  // Rows of r.count elements each, at most `few` along the innermost kept dimension, which begin at
  // `in` and whose results begin at item `out`: for short rows, and for longer ones whose elements
  // are neighbours. How a row is gathered does not depend on the rows beside it.
  virtual void reduce_short_rows(const Reduction& r, const char* in, int64_t out,
                                 int64_t rows) const = 0;
  virtual void reduce_dense_rows(const Reduction& r, const char* in, int64_t out,
                                 int64_t rows) const = 0;
  // The same one by one: any number of rows of at most `leaf` elements.
  virtual void reduce_single_rows(const Reduction& r, const char* in, int64_t out,
                                  int64_t rows) const = 0;
  // Columns side by side: their lanes start neutral, take rows, and become values.
  virtual void start_lanes(char* lanes, int64_t n) const = 0;
  virtual void step_rows(char* lanes, const char* rows, int64_t stride, int64_t count,
                         int64_t n) const = 0;
  virtual void widen(const char* lanes, char* values, int64_t n) const = 0;
  // values[i] = merge(values[i], others[i])
  virtual void merge(char* values, const char* others, int64_t n) const = 0;
  // Finishes values and stores them as results, `stride` items apart.
  virtual void store(const char* values, char* out, int64_t stride, int64_t n) const = 0;

 protected:
  Gatherer(int64_t item, int64_t lane, int64_t acc, int64_t result, int64_t leaf, int64_t few)
      : item(item), lane(lane), acc(acc), result(result), leaf(leaf), few(few) {}
  ~Gatherer() = default;
};

void run_reduction(const Reduction& r, const Gatherer& gatherer);

template <class Op>
concept TakesRegisterSteps = requires(typename Op::Pairs x) {
  Op::step_register(x, x);
};

template <class In, class Out, class Op>
class TypedGatherer final : public Gatherer {
  using C = ComputeType<In>;
  using Lane = typename Op::Lane;
  using Acc = typename Op::Acc;
  static constexpr bool chooses = requires { Op::chooses; };
  static constexpr int many = 256 / sizeof(Lane);  // lanes in four registers
  static constexpr int some = std::min<int>(16, register_bytes / sizeof(Lane));  // at most one
  // Whether the lanes of a run are joined as gathered values already, which hold more; of all
  // lanes, if they took many elements.
  static constexpr bool joins_values = requires { Op::joins_values; }
  &&!std::is_same_v<Lane, Acc>;
  static constexpr int few_steps = 16 * many;
  static constexpr int two_lines = 128;  // bytes
  // Whether lanes of columns stand in two rows, those of even columns and those of odd ones, as
  // words of two elements give them; the last one of an odd number behind both.
  static constexpr bool in_pairs = std::is_same_v<In, BFloat16> && !chooses;
  static constexpr bool takes_registers = TakesRegisterSteps<Op>;

 public:
  TypedGatherer(const Op& op, const Reduction& r)
      : Gatherer(sizeof(In), sizeof(Lane), sizeof(Acc), sizeof(Out), 64 * many, some),
        op_(op),
        asks_(r.outputs * r.count > (cached_bytes - 1) / static_cast<int64_t>(sizeof(In))) {}

  void gather_run(const char* data, int64_t stride, int64_t n, char* value) const override {
    *reinterpret_cast<Acc*>(value) = run_of(data, stride, n);
  }

  void reduce_single_rows(const Reduction& r, const char* in, int64_t out,
                          int64_t rows) const override {
    Out* to = reinterpret_cast<Out*>(r.out) + out;
    for (int64_t j = 0; j < rows; ++j) {
      const Acc gathered = run_of(in + j * r.kept_in[0], r.reduced_in[0], r.count);
      to[j * r.kept_out[0]] = static_cast<Out>(op_.finish(gathered));
    }
  }
  // A single result of few elements, without the driver.
  void reduce_one(const Reduction& r) const {
    *reinterpret_cast<Out*>(r.out) =
        static_cast<Out>(op_.finish(run_of(r.in, r.reduced_in[0], r.count)));
  }

  // One row in each lane of a register; the last row once more in those that are left.
  void reduce_short_rows(const Reduction& r, const char* in, int64_t out,
                         int64_t rows) const override {
    int64_t begin[some];
    for (int j = 0; j < some; ++j) begin[j] = std::min<int64_t>(j, rows - 1) * r.kept_in[0];
    Lane lanes[some];
    std::fill_n(lanes, some, op_.start());
    for (int64_t k = 0; k < r.count; ++k, in += r.reduced_in[0]) {
      C values[some];
      for (int j = 0; j < some; ++j) values[j] = load<In>(in + begin[j]);
      for (int j = 0; j < some; ++j) lanes[j] = op_.step(lanes[j], values[j]);
    }
    store_lanes(r, lanes, out, rows);
  }

  // A register of lanes for each row; then all of them are folded together.
  void reduce_dense_rows(const Reduction& r, const char* in, int64_t out,
                         int64_t rows) const override {
    Lane lanes[some][some];
    for (int64_t j = 0; j < rows; ++j, in += r.kept_in[0]) {
      const In* x = opaque(reinterpret_cast<const In*>(in));
      Lane lane[some];
      std::fill_n(lane, some, op_.start());
      int64_t i = 0;
      for (; i + some <= r.count; i += some) step_block<some>(x + i, lane);
      copy_lanes<some>(lane, lanes[j]);
      if (i < r.count) step_rest<some / 2>(x + i, r.count - i, lanes[j]);
    }
    for (int64_t j = rows; j < some; ++j) std::fill_n(lanes[j], some, op_.start());
    fold_rows<some>(
        lanes, [this](const Lane* a, const Lane* b, Lane* out) { join_lanes<some>(a, b, out); });
    store_lanes(r, lanes[0], out, rows);
  }

  void start_lanes(char* lanes, int64_t n) const override {
    std::fill_n(reinterpret_cast<Lane*>(lanes), n, op_.start());
  }
  void step_rows(char* lanes, const char* rows, int64_t stride, int64_t count,
                 int64_t n) const override {
    Lane* lane = reinterpret_cast<Lane*>(lanes);
    int64_t i = 0;
    if constexpr (in_pairs) {
      for (; i + 4 <= count; i += 4) step_pairs<4>(lane, rows + i * stride, stride, n);
      for (; i < count; ++i) step_pairs<1>(lane, rows + i * stride, stride, n);
      return;
    }
    if constexpr (!std::is_same_v<In, Half>) {
      // Four rows at a time spare three of four trips of the lanes to memory and back. Those that
      // come next are asked for meanwhile, two lines of each at a time: more at once would wait.
      const int64_t some_columns = asks_ ? int64_t{two_lines / sizeof(In)} : n;
      for (; i + 4 <= count; i += 4, rows += 4 * stride) {
        for (int64_t j = 0; j < n; j += some_columns) {
          const char* first = rows + j * item;
          if (asks_) ask_for_rows<4>(first + 4 * stride, stride);
          step_four_rows(lane + j, first, stride, std::min(some_columns, n - j));
        }
      }
    }
    for (; i < count; ++i, rows += stride) {
      const In* x = reinterpret_cast<const In*>(rows);
      int64_t j = 0;
      constexpr int block = std::is_same_v<In, Half> ? 32 : some;
      if constexpr (std::is_same_v<In, Half> || takes_registers) {
        for (; j + block <= n; j += block) step_block<block>(x + j, lane + j);
      }
      IVDEP for (; j < n; ++j) lane[j] = op_.step(lane[j], static_cast<C>(x[j]));
    }
  }
  void widen(const char* lanes, char* values, int64_t n) const override {
    const Lane* lane = reinterpret_cast<const Lane*>(lanes);
    Acc* value = reinterpret_cast<Acc*>(values);
    if constexpr (in_pairs) {
      const Lane* odd = lane + n / 2;
      IVDEP for (int64_t j = 0; j < n / 2; ++j) {
        value[2 * j] = op_.widen(lane[j]);
        value[2 * j + 1] = op_.widen(odd[j]);
      }
      if (n % 2 != 0) value[n - 1] = op_.widen(lane[n - 1]);
    } else {
      for (int64_t j = 0; j < n; ++j) value[j] = op_.widen(lane[j]);
    }
  }
  void merge(char* values, const char* others, int64_t n) const override {
    Acc* value = reinterpret_cast<Acc*>(values);
    const Acc* other = reinterpret_cast<const Acc*>(others);
    IVDEP for (int64_t j = 0; j < n; ++j) value[j] = op_.merge(value[j], other[j]);
  }
  void store(const char* values, char* out, int64_t stride, int64_t n) const override {
    const Acc* value = reinterpret_cast<const Acc*>(values);
    Out* to = reinterpret_cast<Out*>(out);
    if (stride == 1) {
      IVDEP for (int64_t j = 0; j < n; ++j) to[j] = static_cast<Out>(op_.finish(value[j]));
    } else {
      for (int64_t j = 0; j < n; ++j) to[j * stride] = static_cast<Out>(op_.finish(value[j]));
    }
  }

 private:
  void store_lanes(const Reduction& r, const Lane* lanes, int64_t at, int64_t n) const {
    Out* to = reinterpret_cast<Out*>(r.out) + at;
    for (int j = 0; j < some; ++j) {
      if (j < n) to[j * r.kept_out[0]] = static_cast<Out>(op_.finish(op_.widen(lanes[j])));
    }
  }
  template <int N>
  void step_block(const In* x, Lane* lane) const {
    if constexpr (std::is_same_v<In, Half> || (chooses && N > 1)) {
      C values[N];
      load_block<N>(x, values);
      if constexpr (chooses) return join_lanes<N>(lane, values, lane);
      for (int j = 0; j < N; ++j) lane[j] = op_.step(lane[j], values[j]);
    } else if constexpr (takes_registers && N % some == 0) {
      for (int j = 0; j < N; j += some) step_registers<1>(x + j, 0, 1, lane + j);
    } else {
      for (int j = 0; j < N; ++j) lane[j] = op_.step(lane[j], static_cast<C>(x[j]));
    }
  }
  // Registers of lanes, each of which takes `count` registers of elements, `step` elements apart.
  template <int registers>
  static void step_registers(const In* x, int64_t step, int64_t count, Lane* lane) {
    using Pairs = typename Op::Pairs;
    Pairs held[registers];
    std::memcpy(held, lane, sizeof held);
    for (int64_t i = 0; i < count; ++i, x += step) {
#pragma GCC unroll 8
      for (int j = 0; j < registers; ++j) {
        Pairs values;
        std::memcpy(&values, x + j * some, sizeof values);
        held[j] = Op::step_register(held[j], values);
      }
    }
    std::memcpy(static_cast<void*>(lane), held, sizeof held);
  }
  template <int rows>
  [[gnu::always_inline]] static void ask_for_rows(const char* place, int64_t stride) {
#pragma GCC unroll 4
    for (int k = 0; k < rows; ++k, place += stride) {
      ask_second_level(place);
      ask_second_level(place + two_lines / 2);
    }
  }
  void step_four_rows(Lane* lane, const char* rows, int64_t stride, int64_t n) const {
    const In *p = reinterpret_cast<const In*>(rows),
             *q = reinterpret_cast<const In*>(rows + stride),
             *r = reinterpret_cast<const In*>(rows + 2 * stride),
             *s = reinterpret_cast<const In*>(rows + 3 * stride);
    int64_t j = 0;
    if constexpr (chooses && std::is_floating_point_v<Lane>) {
      for (; j + some <= n; j += some) choose_four(p + j, q + j, r + j, s + j, lane + j);
    } else if constexpr (takes_registers) {
      const int64_t step = stride / static_cast<int64_t>(sizeof(In));
      for (; j + some <= n; j += some) step_registers<1>(p + j, step, 4, lane + j);
    }
    IVDEP for (; j < n; ++j) {
      const Lane two = op_.step(op_.step(lane[j], static_cast<C>(p[j])), static_cast<C>(q[j]));
      lane[j] = op_.step(op_.step(two, static_cast<C>(r[j])), static_cast<C>(s[j]));
    }
  }
  template <int together>
  void step_pairs(Lane* lane, const char* rows, int64_t stride, int64_t n) const {
    const int64_t pairs = n / 2, some_pairs = asks_ ? two_lines / 4 : pairs;
    Lane* odd = lane + pairs;
    for (int64_t i = 0; i < pairs; i += some_pairs) {
      const int64_t end = std::min(pairs, i + some_pairs);
      if (asks_) ask_for_rows<together>(rows + together * stride + i * 4, stride);
      IVDEP for (int64_t j = i; j < end; ++j) {
        Lane a = lane[j], b = odd[j];
#pragma GCC unroll 4
        for (int k = 0; k < together; ++k) {
          uint32_t bits;
          std::memcpy(&bits, rows + k * stride + j * 4, sizeof bits);
          a = op_.step(a, std::bit_cast<float>(bits << 16));
          b = op_.step(b, std::bit_cast<float>(bits & 0xffff0000));
        }
        lane[j] = a;
        odd[j] = b;
      }
    }
    for (int k = 0; n % 2 != 0 && k < together; ++k) {
      lane[n - 1] = op_.step(lane[n - 1], load<In>(rows + k * stride + (n - 1) * 2));
    }
  }
  // Four rows of one register of lanes.
  void choose_four(const In* p, const In* q, const In* r, const In* s, Lane* lane) const {
    C values[4][some];
    load_block<some>(p, values[0]);
    load_block<some>(q, values[1]);
    load_block<some>(r, values[2]);
    load_block<some>(s, values[3]);
    join_lanes<some>(values[0], values[1], values[0]);
    join_lanes<some>(values[2], values[3], values[2]);
    join_lanes<some>(values[0], values[2], values[0]);
    join_lanes<some>(lane, values[0], lane);
  }
  template <int N>
  void join_lanes(const Lane* a, const Lane* b, Lane* out) const {
    if constexpr (chooses && N > 1) {
      constexpr int width = std::min<int>(N, register_bytes / sizeof(Lane));
      typedef Lane Register __attribute__((vector_size(width * sizeof(Lane))));
      for (int j = 0; j < N; j += width) {
        Register first, second;
        std::memcpy(&first, a + j, sizeof first);
        std::memcpy(&second, b + j, sizeof second);
        first = Op::choose(first, second);
        std::memcpy(out + j, &first, sizeof first);
      }
    } else {
      for (int j = 0; j < N; ++j) out[j] = op_.join(a[j], b[j]);
    }
  }
  // Halves N lanes until M are left, by loops of known length.
  template <int N, int M>
  void fold_lanes(Lane* lane) const {
    if constexpr (N > M) {
      join_lanes<N / 2>(lane, lane + N / 2, lane);
      fold_lanes<N / 2, M>(lane);
    }
  }
  // Has memory send a block of lanes that comes later: the processor alone begins to read too late.
  [[gnu::always_inline]] static void ask_for_block(const In* x) {
    const char* place = reinterpret_cast<const char*>(x);
#pragma GCC unroll 4
    for (size_t line = 0; line < many * sizeof(In); line += 64) ask_for_reading<In>(place + line);
  }

  // As many whole blocks of lanes as there are; how many elements they hold. A choice that keeps
  // NaN takes twice the instructions of one that does not, so NaN is looked for beside it.
  int64_t step_blocks(const In* x, int64_t n, Lane* lane) const {
    int64_t i = 0;
    if constexpr (chooses) {
      constexpr int width = register_bytes / sizeof(Lane);
      typedef Lane Register __attribute__((vector_size(register_bytes)));
      Register best[many / width];
      std::memcpy(best, lane, sizeof best);
      NanSeen nan;
      for (; i + many <= n; i += many) {
        if (asks_) ask_for_block(x + i);
#pragma GCC unroll 4
        for (int j = 0; j < many / width; j += 2) {
          Register a, b;
          if constexpr (std::is_same_v<In, Lane>) {
            std::memcpy(&a, x + i + j * width, sizeof a);
            std::memcpy(&b, x + i + (j + 1) * width, sizeof b);
          } else {
            C values[2][width];
            load_block<2 * width>(x + i + j * width, values[0]);
            std::memcpy(&a, values[0], sizeof a);
            std::memcpy(&b, values[1], sizeof b);
          }
          if constexpr (std::is_floating_point_v<Lane>) nan.look_at(a, b);
          best[j] = Op::choose_number(a, best[j]);
          best[j + 1] = Op::choose_number(b, best[j + 1]);
        }
      }
      std::memcpy(lane, best, sizeof best);
      if (nan.any()) std::fill_n(lane, many, std::numeric_limits<Lane>::quiet_NaN());
    } else if constexpr (takes_registers) {
      i = n - n % many;
      step_registers<many / some>(x, many, n / many, lane);
    } else {
      for (; i + many <= n; i += many) {
        if (asks_) ask_for_block(x + i);
        step_block<many>(x + i, lane);
      }
    }
    return i;
  }
  // Fewer than 2 N elements, by halves.
  template <int N>
  void step_rest(const In* x, int64_t n, Lane* lane) const {
    if (n & N) step_block<N>(x, lane);
    if constexpr (N > 1) step_rest<N / 2>(x + (n & N), n, lane);
  }

  // At most a leaf of elements. Elements that are not neighbours are brought together first.
  // Not inlined: inside a loop over rows, GCC 12 turns it into AVX-512 code that drops elements.
  [[gnu::noinline]] Acc run_of(const char* data, int64_t stride, int64_t n) const {
    if (n <= 2) {
      Lane a = op_.start();
      for (int64_t i = 0; i < n; ++i) a = op_.step(a, load<In>(data + i * stride));
      return op_.widen(a);
    }
    Lane lane[many];
    int64_t i = 0;
    if (stride == sizeof(In)) {
      const In* x = reinterpret_cast<const In*>(data);
      if (n >= many) {
        std::fill_n(lane, many, op_.start());
        i = step_blocks(x, n, lane);
        if (!joins_values || n <= few_steps) fold_lanes<many, some>(lane);
      } else {
        std::fill_n(lane, some, op_.start());
      }
      for (; i + some <= n; i += some) step_block<some>(opaque(x) + i, lane);
      step_rest<some / 2>(x + i, n - i, lane);
    } else {
      std::fill_n(lane, some, op_.start());
      // Many at once: single elements could not be read as a register before they reached memory.
      alignas(register_bytes) char scratch[some * 16 * sizeof(In)];
      const In* together = reinterpret_cast<const In*>(scratch);
      for (int64_t count = 0; i < n; i += count) {
        count = std::min<int64_t>(some * 16, n - i);
        move_together<sizeof(In)>(scratch, data + i * stride, stride, count);
        int64_t j = 0;
        for (; j + some <= count; j += some) step_block<some>(opaque(together) + j, lane);
        for (int k = 0; k < some && j + k < count; ++k) {
          lane[k] = op_.step(lane[k], static_cast<C>(together[j + k]));
        }
      }
    }
    if constexpr (joins_values) {
      return stride == sizeof(In) && n > few_steps ? joined<many>(lane) : joined<some>(lane);
    } else {
      fold_lanes<some, 1>(lane);
      return op_.widen(lane[0]);
    }
  }
  // N lanes as one value.
  template <int N>
  Acc joined(const Lane* lane) const {
    Acc values[N];
    for (int j = 0; j < N; ++j) values[j] = op_.widen(lane[j]);
    fold_values<N>(values);
    return values[0];
  }
  template <int N>
  void fold_values(Acc* values) const {
    if constexpr (N > 1) {
      for (int j = 0; j < N / 2; ++j) values[j] = op_.merge(values[j], values[j + N / 2]);
      fold_values<N / 2>(values);
    }
  }

  const Op op_;
  const bool asks_;  // memory for what is read later
};

template <class In, class Out, class Op>
void reduce(const Reduction& r, const Op& op) {
  const TypedGatherer<In, Out, Op> gatherer(op, r);
  if (r.outputs == 1 && r.kept_dims == 0 && r.reduced_dims == 1 && r.count <= gatherer.leaf) {
    gatherer.reduce_one(r);
  } else {
    run_reduction(r, gatherer);
  }
}

// Narrow integers are gathered in 32 bits for as long as a leaf or 64 rows cannot overflow them.
template <class In>
using SumLane =
    std::conditional_t<std::is_integral_v<In>,
                       std::conditional_t<sizeof(In) <= 2, int32_t, int64_t>, ComputeType<In>>;
template <class In>
using SumAcc = std::conditional_t<std::is_integral_v<In>, int64_t, ComputeType<In>>;
// How a sum is stored.
template <class In>
using SumOut = std::conditional_t<std::is_integral_v<In>, int64_t, In>;

// Gathers by +; what an element counts as is said by Self::value(x).
template <class Self, class Lane_, class Acc_ = Lane_>
struct Adding {
  using Lane = Lane_;
  using Acc = Acc_;
  static Lane start() { return Lane(0); }
  template <class C>
  Lane step(Lane a, C x) const {
    return math::plus(a, static_cast<const Self*>(this)->value(x));
  }
  static Lane join(Lane a, Lane b) { return math::plus(a, b); }
  static Acc widen(Lane a) { return static_cast<Acc>(a); }
  static Acc merge(Acc a, Acc b) { return math::plus(a, b); }
  static Acc finish(Acc a) { return a; }
};

// Gathers by a function `choose` that is its own join and merge, of numbers or vectors of them: GCC
// finds no vector code for choices among a few lanes of floats, and much of it for integers.
// `choose_number` is the same without regard to NaN in its first argument.
template <class Self, class Lane_>
struct Choosing {
  using Lane = Lane_;
  using Acc = Lane_;
  static constexpr bool chooses = true;
  static Lane step(Lane a, Lane x) { return Self::choose(a, x); }
  static Lane join(Lane a, Lane b) { return Self::choose(a, b); }
  static Acc widen(Lane a) { return a; }
  static Acc merge(Acc a, Acc b) { return Self::choose(a, b); }
  static Acc finish(Acc a) { return a; }
};

template <class C>
struct Largest : Choosing<Largest<C>, C> {
  static C start() {
    return std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity()
                                       : std::numeric_limits<C>::lowest();
  }
  template <class V>
  static V choose(V a, V b) {
    const V chosen = larger_or_second(a, b);
    return a == a ? chosen : a;
  }
  template <class V>
  static V choose_number(V a, V b) {
    return larger_or_second(a, b);
  }
};

template <class C>
struct Smallest : Choosing<Smallest<C>, C> {
  static C start() {
    return std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity()
                                       : std::numeric_limits<C>::max();
  }
  template <class V>
  static V choose(V a, V b) {
    const V chosen = smaller_or_second(a, b);
    return a == a ? chosen : a;
  }
  template <class V>
  static V choose_number(V a, V b) {
    return smaller_or_second(a, b);
  }
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
