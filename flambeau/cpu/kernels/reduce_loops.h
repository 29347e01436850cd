// The reduction loop on the CPU for any layout, any dtype and any accumulation.
//
// An accumulation (Op) says:
//   using Lane, Acc            what elements are gathered in, and what lanes are gathered in
//   Lane start()               the neutral value
//   Lane step(Lane, C)         takes one element, in its compute type
//   Lane join(Lane, Lane)
//   Acc widen(Lane)
//   Acc merge(Acc, Acc)
//   Out finish(Acc)
// Sums are gathered in a tree (lanes, leaves of some thousand elements, levels of leaves), which
// keeps the rounding error near that of pairwise summation. How work is cut does not depend on the
// number of threads, and so neither does a result.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/reduce.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// Gathers leaves in a tree: level k holds up to 2**k leaves.
template <class Op>
class LeafTree {
  using Acc = typename Op::Acc;

 public:
  explicit LeafTree(const Op& op) : op_(op) {}

  void add(Acc leaf) {
    int level = 0;
    for (uint64_t n = leaves_++; n & 1; n >>= 1) leaf = op_.merge(levels_[level++], leaf);
    levels_[level] = leaf;
  }
  Acc total() const {
    Acc sum = op_.widen(op_.start());
    for (int level = 0; leaves_ >> level; ++level) {
      if (leaves_ >> level & 1) sum = op_.merge(levels_[level], sum);
    }
    return sum;
  }

 private:
  const Op& op_;
  uint64_t leaves_ = 0;
  Acc levels_[64];
};

// Halves N lanes until M are left, by loops of known length.
template <int N, int M, class Op, class Lane>
inline void fold_lanes(const Op& op, Lane* lane) {
  if constexpr (N > M) {
    for (int j = 0; j < N / 2; ++j) lane[j] = op.join(lane[j], lane[j + N / 2]);
    fold_lanes<N / 2, M>(op, lane);
  }
}

// Gathers columns side by side: up to 64 rows into lanes, those into levels of 64 each.
template <class In, class Op>
class ColumnGatherer {
  using Lane = typename Op::Lane;
  using Acc = typename Op::Acc;

 public:
  // Room for `width` columns: that many lanes, and three times as many sums.
  ColumnGatherer(Lane* lanes, Acc* sums, int64_t width)
      : lane_(lanes), level_{sums, sums + width, sums + 2 * width} {}

  void start(const Op& op, int64_t n) {
    n_ = n;
    rows_ = 0;
    std::fill_n(lane_, n, op.start());
  }
  void add_row(const Op& op, const char* row) {
    const In* x = reinterpret_cast<const In*>(row);
    IVDEP for (int64_t j = 0; j < n_; ++j) {
      lane_[j] = op.step(lane_[j], static_cast<ComputeType<In>>(x[j]));
    }
    if (++rows_ % 64 == 0) carry(op);
  }
  void finish(const Op& op, Acc* total) {
    for (int64_t j = 0; j < n_; ++j) total[j] = op.widen(lane_[j]);
    if (rows_ < 64) return;
    for (const Acc* level : level_) {
      for (int64_t j = 0; j < n_; ++j) total[j] = op.merge(total[j], level[j]);
    }
  }

 private:
  void carry(const Op& op) {
    if (rows_ == 64) {
      for (Acc* level : level_) std::fill_n(level, n_, op.widen(op.start()));
    }
    for (int64_t j = 0; j < n_; ++j) {
      level_[0][j] = op.merge(level_[0][j], op.widen(lane_[j]));
      lane_[j] = op.start();
    }
    for (int k = 0; k < 2 && rows_ % (k ? 64 * 64 * 64 : 64 * 64) == 0; ++k) {
      for (int64_t j = 0; j < n_; ++j) {
        level_[k + 1][j] = op.merge(level_[k + 1][j], level_[k][j]);
        level_[k][j] = op.widen(op.start());
      }
    }
  }

  int64_t n_ = 0, rows_ = 0;
  Lane* lane_;
  Acc* level_[3];
};

template <class In, class Out, class Op>
class Reducer {
  using C = ComputeType<In>;
  using Lane = typename Op::Lane;
  using Acc = typename Op::Acc;
  static constexpr int lanes = 256 / sizeof(Lane);                  // four registers
  static constexpr int few = std::min<int>(16, 64 / sizeof(Lane));  // at most one
  static constexpr int64_t leaf = 64 * lanes;  // elements that lanes gather before folding
  static constexpr int64_t width = 16384 / sizeof(Acc);  // columns gathered at a time
  static constexpr int64_t narrow = 128;                 // columns that the stack has room for
  static constexpr int64_t piece = 65536;  // elements of a result from which it is cut into pieces

 public:
  Reducer(const Reduction& r, const Op& op) : r_(r), op_(op) {}

  void run() const {
    if (r_.outputs == 0) return;
    if (r_.kept_dims == 0 && r_.reduced_dims == 1 && r_.count <= leaf) {
      store(0, segment(r_.in, r_.reduced_in[0], r_.count));
      return;
    }
    if (columns_are_dense()) {
      run_columns();
    } else {
      run_rows();
    }
  }

 private:
  // Whether the kept dimension is the one to run along memory.
  bool columns_are_dense() const {
    if (r_.kept_dims == 0 || r_.reduced_dims == 0 || r_.kept_in[0] != sizeof(In)) return false;
    return r_.reduced_in[0] > static_cast<int64_t>(sizeof(In)) &&
           (r_.kept_sizes[0] >= 4 || rows_are_adjacent());
  }
  // Whether narrow rows lie one after the other, so that many can be taken as a wide one.
  bool rows_are_adjacent() const {
    return r_.reduced_dims == 1 && r_.kept_sizes[0] <= narrow / 2 &&
           r_.reduced_in[0] == r_.kept_sizes[0] * static_cast<int64_t>(sizeof(In));
  }

  void store(int64_t at, Acc value) const {
    reinterpret_cast<Out*>(r_.out)[at] = static_cast<Out>(op_.finish(value));
  }

  // Where a kept position lies in the input (bytes) and the output (items).
  struct Place {
    int64_t in = 0, out = 0;
  };
  Place place(int64_t index, int first_dim) const {
    Place at;
    for (int d = first_dim; d < r_.kept_dims; ++d) {
      int64_t i = index;
      if (d + 1 < r_.kept_dims) {
        i = index % r_.kept_sizes[d];
        index /= r_.kept_sizes[d];
      }
      at.in += i * r_.kept_in[d];
      at.out += i * r_.kept_out[d];
    }
    return at;
  }

  template <int N>
  void step_block(const In* x, Lane* lane) const {
    for (int j = 0; j < N; ++j) lane[j] = op_.step(lane[j], static_cast<C>(x[j]));
  }
  // The first n of a register of elements.
  void step_rest(const In* x, int64_t n, Lane* lane) const {
    for (int j = 0; j < few; ++j) {
      const Lane stepped = op_.step(lane[j], static_cast<C>(x[j]));
      lane[j] = j < n ? stepped : lane[j];
    }
  }

  // At most a leaf of elements. Elements that are not neighbours are brought together first.
  // Not inlined: inside the loop of range(), GCC 12 turns it into AVX-512 code that drops elements.
  [[gnu::noinline]] Acc segment(const char* data, int64_t stride, int64_t n) const {
    if (n <= 2) {
      Lane a = op_.start();
      for (int64_t i = 0; i < n; ++i) a = op_.step(a, load<In>(data + i * stride));
      return op_.widen(a);
    }
    Lane lane[lanes];
    int64_t i = 0;
    if (stride == sizeof(In)) {
      const In* x = reinterpret_cast<const In*>(data);
      if (n >= lanes) {
        std::fill_n(lane, lanes, op_.start());
        for (; i + lanes <= n; i += lanes) step_block<lanes>(x + i, lane);
        fold_lanes<lanes, few>(op_, lane);
      } else {
        std::fill_n(lane, few, op_.start());
      }
      for (; i + few <= n; i += few) step_block<few>(x + i, lane);
    } else {
      std::fill_n(lane, few, op_.start());
      for (; i + few <= n; i += few) {
        In together[few];
        for (int j = 0; j < few; ++j) {
          together[j] = *reinterpret_cast<const In*>(data + (i + j) * stride);
        }
        step_block<few>(together, lane);
      }
    }
    if (i < n) {
      In rest[few] = {};
      for (int64_t j = 0; i + j < n; ++j) {
        rest[j] = *reinterpret_cast<const In*>(data + (i + j) * stride);
      }
      step_rest(rest, n - i, lane);
    }
    fold_lanes<few, 1>(op_, lane);
    return op_.widen(lane[0]);
  }

  // Reduced positions [begin, end) of the result whose first element is `base`.
  Acc range(const char* base, int64_t begin, int64_t end) const {
    if (r_.reduced_dims <= 1 && end - begin <= leaf) {
      const int64_t stride = r_.reduced_dims ? r_.reduced_in[0] : sizeof(In);
      return segment(base + begin * stride, stride, end - begin);
    }
    LeafTree<Op> tree(op_);
    Acc partial{};
    int64_t pending = 0;  // elements in `partial`
    for_each_reduced_row(base, begin, end, [&](const char* row, int64_t n) {
      const int64_t stride = r_.reduced_in[0];
      for (int64_t i = 0; i < n; i += leaf) {
        const int64_t m = std::min(leaf, n - i);
        const Acc value = segment(row + i * stride, stride, m);
        partial = pending ? op_.merge(partial, value) : value;
        pending += m;
        if (pending >= leaf / 4) {
          tree.add(partial);
          pending = 0;
        }
      }
    });
    if (pending) tree.add(partial);
    return tree.total();
  }

  // Calls body(data, n) for runs along the innermost reduced dimension.
  template <class Body>
  void for_each_reduced_row(const char* base, int64_t begin, int64_t end, const Body& body) const {
    if (begin >= end) return;
    int64_t index[max_dims];
    int64_t rest = begin;
    for (int d = 0; d < r_.reduced_dims; ++d) {
      index[d] = rest % r_.reduced_sizes[d];
      rest /= r_.reduced_sizes[d];
      base += index[d] * r_.reduced_in[d];
    }
    while (begin < end) {
      const int64_t n = std::min(r_.reduced_sizes[0] - index[0], end - begin);
      body(base, n);
      begin += n;
      base -= index[0] * r_.reduced_in[0];
      index[0] = 0;
      for (int d = 1; d < r_.reduced_dims; ++d) {
        base += r_.reduced_in[d];
        if (++index[d] < r_.reduced_sizes[d]) break;
        base -= r_.reduced_sizes[d] * r_.reduced_in[d];
        index[d] = 0;
      }
    }
  }

  // How many pieces a result is cut into, so that few large results still keep all threads busy.
  static int64_t pieces(int64_t tasks, int64_t elements, int64_t most) {
    if (tasks >= 16 || elements < 2 * piece) return 1;
    return std::min((elements + piece - 1) / piece, most);
  }

  // One result after the other, each along its reduced dimensions.
  void run_rows() const {
    const int64_t cuts = pieces(r_.outputs, r_.count, r_.count);
    if (cuts == 1) {
      const int64_t grain = std::max<int64_t>(1, default_grain / std::max<int64_t>(r_.count, 1));
      parallel_for(0, r_.outputs, grain, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const Place at = place(i, 0);
          store(at.out, range(r_.in + at.in, 0, r_.count));
        }
      });
      return;
    }
    const int64_t share = (r_.count + cuts - 1) / cuts;
    const auto partial = std::make_unique<Acc[]>(r_.outputs * cuts);
    parallel_for(0, r_.outputs * cuts, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t begin = task % cuts * share;
        partial[task] = range(r_.in + place(task / cuts, 0).in, std::min(begin, r_.count),
                              std::min(begin + share, r_.count));
      }
    });
    for (int64_t i = 0; i < r_.outputs; ++i) {
      LeafTree<Op> tree(op_);
      for (int64_t k = 0; k < cuts; ++k) tree.add(partial[i * cuts + k]);
      store(place(i, 0).out, tree.total());
    }
  }

  // Columns [0, n) over reduced positions [begin, end).
  void gather_columns(ColumnGatherer<In, Op>& gatherer, const char* base, int64_t n, int64_t begin,
                      int64_t end, Acc* total) const {
    gatherer.start(op_, n);
    for_each_reduced_row(base, begin, end, [&](const char* row, int64_t m) {
      for (int64_t i = 0; i < m; ++i) gatherer.add_row(op_, row + i * r_.reduced_in[0]);
    });
    gatherer.finish(op_, total);
  }
  // The same for adjacent narrow rows: many are taken as one wide row, which is folded in the end.
  void gather_adjacent(ColumnGatherer<In, Op>& gatherer, const char* base, int64_t n, int64_t begin,
                       int64_t end, Acc* total) const {
    const int64_t fold = narrow / n, stride = n * static_cast<int64_t>(sizeof(In));
    const int64_t wide_end = begin + (end - begin) / fold * fold;
    Acc wide[narrow];
    gatherer.start(op_, fold * n);
    for (int64_t i = begin; i < wide_end; i += fold) gatherer.add_row(op_, base + i * stride);
    gatherer.finish(op_, wide);
    gather_columns(gatherer, base, n, wide_end, end, total);
    for (int64_t i = 0; i < fold * n; ++i) total[i % n] = op_.merge(total[i % n], wide[i]);
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0];
    const int64_t blocks = (row + width - 1) / width;
    const int64_t tasks = r_.outputs / row * blocks;
    const int64_t size = r_.count * std::min(row, width);  // elements of a task
    const int64_t cuts = pieces(tasks, size, std::min<int64_t>(r_.count, 16));
    const auto partial = cuts > 1 ? std::make_unique<Acc[]>(r_.outputs * cuts) : nullptr;
    const int64_t grain =
        cuts > 1 ? 1 : std::max<int64_t>(1, default_grain / std::max<int64_t>(size, 1));
    parallel_for(0, tasks * cuts, grain, [&](int64_t first, int64_t last) {
      Lane few_lanes[narrow];
      Acc few_sums[4 * narrow];
      const bool many = row > narrow;
      const std::unique_ptr<Lane[]> many_lanes(many ? new Lane[width] : nullptr);
      const std::unique_ptr<Acc[]> many_sums(many ? new Acc[4 * width] : nullptr);
      Acc* sums = many ? many_sums.get() : few_sums;
      const int64_t room = many ? width : narrow;
      ColumnGatherer<In, Op> gatherer(many ? many_lanes.get() : few_lanes, sums + room, room);
      run_column_tasks(gatherer, sums, partial.get(), cuts, first, last);
    });
    if (cuts == 1) return;
    for (int64_t i = 0; i < r_.outputs; ++i) {
      LeafTree<Op> tree(op_);
      for (int64_t k = 0; k < cuts; ++k) tree.add(partial[k * r_.outputs + i]);
      store(place(i, 0).out, tree.total());
    }
  }

  void run_column_tasks(ColumnGatherer<In, Op>& gatherer, Acc* total, Acc* partial, int64_t cuts,
                        int64_t first, int64_t last) const {
    const int64_t row = r_.kept_sizes[0], blocks = (row + width - 1) / width;
    const int64_t share = (r_.count + cuts - 1) / cuts;
    for (int64_t i = first; i < last; ++i) {
      const int64_t task = i / cuts, begin = std::min(i % cuts * share, r_.count);
      const int64_t end = std::min(begin + share, r_.count);
      const int64_t column = task % blocks * width, n = std::min(width, row - column);
      const Place at = place(task / blocks, 1);
      const char* base = r_.in + at.in + column * sizeof(In);
      if (rows_are_adjacent() && end - begin >= narrow) {
        gather_adjacent(gatherer, base, n, begin, end, total);
      } else {
        gather_columns(gatherer, base, n, begin, end, total);
      }
      if (cuts == 1) {
        for (int64_t j = 0; j < n; ++j) store(at.out + (column + j) * r_.kept_out[0], total[j]);
      } else {
        std::copy_n(total, n, &partial[i % cuts * r_.outputs + task / blocks * row + column]);
      }
    }
  }

  const Reduction& r_;
  const Op& op_;
};

template <class In, class Out, class Op>
void reduce(const Reduction& r, const Op& op) {
  Reducer<In, Out, Op>(r, op).run();
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

// Gathers by a function that is its own join and merge.
template <class Self, class Lane_>
struct Choosing {
  using Lane = Lane_;
  using Acc = Lane_;
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
  static C choose(C a, C b) {
    const C larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};

template <class C>
struct Smallest : Choosing<Smallest<C>, C> {
  static C start() {
    return std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity()
                                       : std::numeric_limits<C>::max();
  }
  static C choose(C a, C b) {
    const C smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
