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

// Halves a fixed number of lanes until one is left, by loops of known length.
template <int N, class Op, class Lane>
inline Lane fold_lanes(const Op& op, Lane* lane) {
  if constexpr (N == 1) {
    return lane[0];
  } else {
    for (int j = 0; j < N / 2; ++j) lane[j] = op.join(lane[j], lane[j + N / 2]);
    return fold_lanes<N / 2>(op, lane);
  }
}

template <class In, class Out, class Op>
class Reducer {
  using C = ComputeType<In>;
  using Lane = typename Op::Lane;
  using Acc = typename Op::Acc;
  static constexpr int lanes = 256 / sizeof(Lane);
  static constexpr int64_t leaf = 64 * lanes;    // elements that lanes gather before they are folded
  static constexpr int64_t width = 2048 / sizeof(Acc);  // columns gathered at a time
  static constexpr int64_t rows_per_leaf = 64;
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
    return r_.reduced_in[0] > static_cast<int64_t>(sizeof(In)) && r_.kept_sizes[0] >= 4;
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
      const int64_t i = index % r_.kept_sizes[d];
      index /= r_.kept_sizes[d];
      at.in += i * r_.kept_in[d];
      at.out += i * r_.kept_out[d];
    }
    return at;
  }

  Acc strided(const char* p, int64_t stride, int64_t n) const {
    Lane a = op_.start(), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, p += 4 * stride) {
      a = op_.step(a, load<In>(p));
      b = op_.step(b, load<In>(p + stride));
      c = op_.step(c, load<In>(p + 2 * stride));
      d = op_.step(d, load<In>(p + 3 * stride));
    }
    for (; i < n; ++i, p += stride) a = op_.step(a, load<In>(p));
    return op_.widen(op_.join(op_.join(a, b), op_.join(c, d)));
  }

  // At most a leaf of elements.
  Acc segment(const char* data, int64_t stride, int64_t n) const {
    if (stride != sizeof(In) || n < lanes) return strided(data, stride, n);
    const In* p = reinterpret_cast<const In*>(data);
    Lane lane[lanes];
    for (int j = 0; j < lanes; ++j) lane[j] = op_.start();
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (int j = 0; j < lanes; ++j) lane[j] = op_.step(lane[j], static_cast<C>(p[i + j]));
    }
    const Acc most = op_.widen(fold_lanes<lanes>(op_, lane));
    return i == n ? most : op_.merge(most, strided(data + i * sizeof(In), stride, n - i));
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
  int64_t pieces(int64_t tasks, int64_t elements_per_task) const {
    return tasks < 16 && elements_per_task >= 2 * piece ? (elements_per_task + piece - 1) / piece : 1;
  }

  // One result after the other, each along its reduced dimensions.
  void run_rows() const {
    const int64_t cuts = std::min(pieces(r_.outputs, r_.count), r_.count);
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

  // Columns [0, n) side by side over reduced positions [begin, end): up to 64 rows into lanes,
  // those into levels of 64 each.
  void gather_columns(const char* base, int64_t n, int64_t begin, int64_t end, Acc* total) const {
    constexpr int levels = 4;
    Lane lane[width];
    Acc level[levels - 1][width];
    int64_t rows = 0;
    for (int64_t j = 0; j < n; ++j) lane[j] = op_.start(), total[j] = op_.widen(op_.start());
    for (auto& each : level) std::fill_n(each, n, op_.widen(op_.start()));
    const auto carry = [&] {
      for (int64_t j = 0; j < n; ++j) {
        level[0][j] = op_.merge(level[0][j], op_.widen(lane[j]));
        lane[j] = op_.start();
      }
      int64_t full = rows_per_leaf * 64;
      for (int k = 0; k < levels - 1 && rows % full == 0; ++k, full *= 64) {
        Acc* next = k + 1 < levels - 1 ? level[k + 1] : total;
        for (int64_t j = 0; j < n; ++j) {
          next[j] = op_.merge(next[j], level[k][j]);
          level[k][j] = op_.widen(op_.start());
        }
      }
    };
    for_each_reduced_row(base, begin, end, [&](const char* row, int64_t m) {
      for (int64_t i = 0; i < m; ++i, row += r_.reduced_in[0]) {
        const In* x = reinterpret_cast<const In*>(row);
        IVDEP for (int64_t j = 0; j < n; ++j) lane[j] = op_.step(lane[j], static_cast<C>(x[j]));
        if (++rows % rows_per_leaf == 0) carry();
      }
    });
    for (int64_t j = 0; j < n; ++j) total[j] = op_.merge(total[j], op_.widen(lane[j]));
    for (auto& each : level) {
      for (int64_t j = 0; j < n; ++j) total[j] = op_.merge(total[j], each[j]);
    }
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0];
    const int64_t blocks = (row + width - 1) / width;
    const int64_t outer = r_.outputs / row;
    const int64_t tasks = outer * blocks;
    const int64_t size = r_.count * std::min(row, width);  // elements of a task
    const int64_t cuts = std::min(pieces(tasks, size), r_.count);
    const int64_t share = (r_.count + cuts - 1) / cuts;
    const auto partial = cuts > 1 ? std::make_unique<Acc[]>(r_.outputs * cuts) : nullptr;
    const int64_t grain = cuts > 1 ? 1 : std::max<int64_t>(1, default_grain / std::max<int64_t>(size, 1));
    parallel_for(0, tasks * cuts, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t task = i / cuts, begin = std::min(i % cuts * share, r_.count);
        const int64_t column = task % blocks * width, n = std::min(width, row - column);
        const Place at = place(task / blocks, 1);
        Acc total[width];
        gather_columns(r_.in + at.in + column * sizeof(In), n, begin,
                       std::min(begin + share, r_.count), total);
        if (cuts == 1) {
          for (int64_t j = 0; j < n; ++j) store(at.out + (column + j) * r_.kept_out[0], total[j]);
        } else {
          std::copy_n(total, n, &partial[i % cuts * r_.outputs + task / blocks * row + column]);
        }
      }
    });
    if (cuts == 1) return;
    for (int64_t i = 0; i < r_.outputs; ++i) {
      LeafTree<Op> tree(op_);
      for (int64_t k = 0; k < cuts; ++k) tree.add(partial[k * r_.outputs + i]);
      store(place(i, 0).out, tree.total());
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
using SumLane = std::conditional_t<
    std::is_integral_v<In>, std::conditional_t<sizeof(In) <= 2, int32_t, int64_t>, ComputeType<In>>;
template <class In>
using SumAcc = std::conditional_t<std::is_integral_v<In>, int64_t, ComputeType<In>>;
// The dtype of a sum, stored.
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
  static C choose(C a, C b) { return math::maximum(a, b); }
};

template <class C>
struct Smallest : Choosing<Smallest<C>, C> {
  static C start() {
    return std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity()
                                       : std::numeric_limits<C>::max();
  }
  static C choose(C a, C b) { return math::minimum(a, b); }
};

}  // namespace flambeau::cpu::ISA_NAMESPACE
