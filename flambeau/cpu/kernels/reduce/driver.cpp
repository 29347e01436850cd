// Which elements the loops of reduce/loops.h run over, for any layout.
//
// Results are gathered in a tree (lanes, leaves of some thousand elements, levels of leaves), which
// keeps the rounding error of a sum near that of pairwise summation. How work is cut does not
// depend on the number of threads, and so neither does a result.
#include <cstring>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/reduce/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr int64_t max_bytes = 16;   // of a lane or a value: a complex number of doubles
constexpr int64_t narrow = 128;     // columns that fit the stack
constexpr int64_t short_row = 48;   // elements of rows that are gathered side by side
constexpr int64_t dense_row = 256;  // the same, where a row's elements are neighbours
constexpr int64_t part = 65536;     // elements of each part of a result that is cut
constexpr int64_t carry_rows = 64;  // rows that lanes take before they are emptied
constexpr int64_t merged = 512;     // columns whose cuts the nearest cache holds

// Of a cache: lanes that begin with one are not split between two.
constexpr int64_t line = 64;
struct alignas(line) Line {
  char bytes[line];
};

// One gathered value.
struct Value {
  alignas(max_bytes) char bytes[max_bytes];
};

// Gathers leaves in a tree: level k holds up to 2**k leaves.
class LeafTree {
 public:
  explicit LeafTree(const Gatherer& gatherer) : gatherer_(gatherer) {}

  void add(const char* leaf) {
    int level = 0;
    for (uint64_t n = leaves_++; n & 1; n >>= 1) {
      gatherer_.merge(levels_[level].bytes, leaf, 1);
      leaf = levels_[level++].bytes;
    }
    std::memcpy(levels_[level].bytes, leaf, gatherer_.acc);
  }
  // Ends the gathering: the levels are used up.
  Value total() {
    Value sum, lane;
    gatherer_.start_lanes(lane.bytes, 1);
    gatherer_.widen(lane.bytes, sum.bytes, 1);
    for (int level = 0; leaves_ >> level; ++level) {
      if (!(leaves_ >> level & 1)) continue;
      gatherer_.merge(levels_[level].bytes, sum.bytes, 1);
      sum = levels_[level];
    }
    return sum;
  }

 private:
  const Gatherer& gatherer_;
  uint64_t leaves_ = 0;
  Value levels_[64];
};

// Gathers columns side by side: up to 64 rows into lanes, those into levels of 64 each.
class Columns {
 public:
  // Wide lanes lie half a page off the input, whose rows are often pages: the processor would take
  // a load for one of what it has just stored at the same place in another page.
  Columns(const Gatherer& gatherer, int64_t width, const char* input) : gatherer_(gatherer) {
    constexpr int64_t page = 4096;
    const int64_t values = width * std::max(gatherer.lane, gatherer.acc);
    const int64_t bytes = (values + line - 1) / line * line;
    lanes_ = few_[0].bytes;
    if (width > narrow) {
      many_.reset(new Line[(6 * bytes + page) / line]);
      const auto apart =
          reinterpret_cast<uintptr_t>(input) - reinterpret_cast<uintptr_t>(many_.get());
      lanes_ = many_[(apart + page / 2) % page / line].bytes;
    }
    for (int k = 0; k < 3; ++k) level_[k] = lanes_ + (k + 1) * bytes;
    scratch_ = lanes_ + 4 * bytes;
    values_ = lanes_ + 5 * bytes;
  }

  void start(int64_t n) {
    n_ = n;
    rows_ = 0;
    gatherer_.start_lanes(lanes_, n);
  }
  void add_rows(const char* rows, int64_t stride, int64_t count) {
    while (count > 0) {
      // Only now that there are more, since the last lanes may stay what they are.
      if (rows_ > 0 && rows_ % carry_rows == 0) carry();
      const int64_t some = std::min(count, carry_rows - rows_ % carry_rows);
      gatherer_.step_rows(lanes_, rows, stride, some, n_);
      rows_ += some;
      rows += some * stride;
      count -= some;
    }
  }
  // The gathered values: at `values` if that is given, else until the next start.
  char* finish(char* values = nullptr) {
    if (!values) values = values_;
    gatherer_.widen(lanes_, values, n_);
    if (rows_ > carry_rows) {
      for (const char* level : level_) gatherer_.merge(values, level, n_);
    }
    return values;
  }

 private:
  void carry() {
    gatherer_.widen(lanes_, scratch_, n_);
    gatherer_.start_lanes(lanes_, n_);
    if (rows_ == carry_rows) {
      for (char* level : level_) gatherer_.widen(lanes_, level, n_);
    }
    gatherer_.merge(level_[0], scratch_, n_);
    int64_t full = carry_rows * carry_rows;
    for (int k = 0; k < 2 && rows_ % full == 0; ++k, full *= carry_rows) {
      gatherer_.merge(level_[k + 1], level_[k], n_);
      gatherer_.widen(lanes_, level_[k], n_);
    }
  }

  const Gatherer& gatherer_;
  int64_t n_ = 0, rows_ = 0;
  char *lanes_, *level_[3], *scratch_, *values_;
  std::unique_ptr<Line[]> many_;
  Line few_[6 * narrow * max_bytes / line];
};

// How many parts a result is cut into, so that few large results still keep all threads busy.
int64_t parts_of(int64_t tasks, int64_t elements, int64_t most) {
  if (tasks >= 16 || elements < 2 * part) return 1;
  return std::min((elements + part - 1) / part, most);
}

class Driver {
 public:
  Driver(const Reduction& r, const Gatherer& gatherer)
      : r_(r), gatherer_(gatherer), width_(16384 / gatherer.acc) {}

  void run() const {
    if (r_.outputs == 0) return;
    if (columns_are_dense()) {
      run_columns();
    } else {
      run_rows();
    }
  }

 private:
  // Whether the kept dimension is the one to run along memory.
  bool columns_are_dense() const {
    if (r_.kept_dims == 0 || r_.reduced_dims == 0 || r_.kept_in[0] != gatherer_.item) return false;
    const bool across = r_.reduced_in[0] > gatherer_.item || r_.reduced_in[0] == 0;
    return across && (r_.kept_sizes[0] >= 4 || rows_are_adjacent());
  }
  // Whether narrow rows lie one after the other, so that many can be taken as a wide one.
  bool rows_are_adjacent() const {
    return r_.reduced_dims == 1 && r_.kept_sizes[0] <= narrow / 2 &&
           r_.reduced_in[0] == r_.kept_sizes[0] * gatherer_.item;
  }

  void store(int64_t at, const Value& value) const {
    gatherer_.store(value.bytes, result(at), 1, 1);
  }
  char* result(int64_t at) const { return r_.out + at * gatherer_.result; }

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

  // Reduced positions [begin, end) of the result whose first element is `base`.
  Value range(const char* base, int64_t begin, int64_t end) const {
    Value value;
    const int64_t leaf = gatherer_.leaf;
    if (r_.reduced_dims <= 1 && end - begin <= leaf) {
      const int64_t stride = r_.reduced_dims ? r_.reduced_in[0] : gatherer_.item;
      gatherer_.gather_run(base + begin * stride, stride, end - begin, value.bytes);
      return value;
    }
    LeafTree tree(gatherer_);
    Value partial;
    int64_t pending = 0;  // elements in `partial`
    for_each_reduced_row(base, begin, end, [&](const char* row, int64_t n) {
      const int64_t stride = r_.reduced_in[0];
      for (int64_t i = 0; i < n; i += leaf) {
        const int64_t m = std::min(leaf, n - i);
        gatherer_.gather_run(row + i * stride, stride, m, pending ? value.bytes : partial.bytes);
        if (pending) gatherer_.merge(partial.bytes, value.bytes, 1);
        pending += m;
        if (pending >= leaf / 4) {
          tree.add(partial.bytes);
          pending = 0;
        }
      }
    });
    if (pending) tree.add(partial.bytes);
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

  // One result after the other, each along its reduced dimensions.
  void run_rows() const {
    const int64_t cuts = parts_of(r_.outputs, r_.count, r_.count);
    if (cuts == 1) {
      const int64_t grain = std::max<int64_t>(1, default_grain / std::max<int64_t>(r_.count, 1));
      parallel_for(0, r_.outputs, grain,
                   [&](int64_t first, int64_t last) { run_whole_rows(first, last); });
      return;
    }
    const int64_t share = (r_.count + cuts - 1) / cuts;
    const auto partial = std::make_unique<Value[]>(r_.outputs * cuts);
    parallel_for(0, r_.outputs * cuts, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t begin = task % cuts * share;
        partial[task] = range(r_.in + place(task / cuts, 0).in, std::min(begin, r_.count),
                              std::min(begin + share, r_.count));
      }
    });
    for (int64_t i = 0; i < r_.outputs; ++i) {
      LeafTree tree(gatherer_);
      for (int64_t k = 0; k < cuts; ++k) tree.add(partial[i * cuts + k].bytes);
      store(place(i, 0).out, tree.total());
    }
  }

  // Whether each result has many runs that are short: those are gathered side by side.
  bool runs_are_short() const {
    return r_.reduced_dims > 1 && r_.reduced_in[0] == gatherer_.item && r_.reduced_sizes[0] >= 8 &&
           r_.reduced_sizes[0] <= narrow && r_.count >= 4 * r_.reduced_sizes[0];
  }
  Value gather_short_runs(Columns& columns, const char* base) const {
    int64_t n = r_.reduced_sizes[0];
    columns.start(n);
    int64_t index[max_dims] = {};
    for (int d = 1; d < r_.reduced_dims;) {
      columns.add_rows(base, r_.reduced_in[1], r_.reduced_sizes[1]);
      for (d = 2; d < r_.reduced_dims; ++d) {
        base += r_.reduced_in[d];
        if (++index[d] < r_.reduced_sizes[d]) break;
        base -= r_.reduced_sizes[d] * r_.reduced_in[d];
        index[d] = 0;
      }
    }
    char* values = columns.finish();
    while (n > 1) {
      const int64_t half = (n + 1) / 2;
      gatherer_.merge(values, values + half * gatherer_.acc, n - half);
      n = half;
    }
    Value value;
    std::memcpy(value.bytes, values, gatherer_.acc);
    return value;
  }

  void run_whole_rows(int64_t first, int64_t last) const {
    if (runs_are_short()) {
      Columns columns(gatherer_, narrow, r_.in);
      for (int64_t i = first; i < last; ++i) {
        const Place at = place(i, 0);
        store(at.out, gather_short_runs(columns, r_.in + at.in));
      }
      return;
    }
    if (r_.count == 0 || r_.count > gatherer_.leaf || r_.reduced_dims != 1 || r_.kept_dims == 0) {
      for (int64_t i = first; i < last; ++i) {
        const Place at = place(i, 0);
        store(at.out, range(r_.in + at.in, 0, r_.count));
      }
      return;
    }
    const bool dense = r_.reduced_in[0] == gatherer_.item && r_.count >= gatherer_.few;
    const bool single = r_.count > (dense ? dense_row : short_row);
    const auto reduce_rows = single  ? &Gatherer::reduce_single_rows
                             : dense ? &Gatherer::reduce_dense_rows
                                     : &Gatherer::reduce_short_rows;
    for (int64_t i = first, rows; i < last; i += rows) {
      const Place at = place(i, 0);
      rows = std::min(last - i, r_.kept_sizes[0] - i % r_.kept_sizes[0]);
      if (!single) rows = std::min(rows, gatherer_.few);
      (gatherer_.*reduce_rows)(r_, r_.in + at.in, at.out, rows);
    }
  }

  // Columns [0, n) over reduced positions [begin, end), to `values` if that is given.
  char* gather_columns(Columns& columns, const char* base, int64_t n, int64_t begin, int64_t end,
                       char* values) const {
    columns.start(n);
    for_each_reduced_row(base, begin, end, [&](const char* row, int64_t count) {
      columns.add_rows(row, r_.reduced_in[0], count);
    });
    return columns.finish(values);
  }
  // The same for adjacent narrow rows: many are taken as one wide row, which is folded in the end.
  char* gather_adjacent(Columns& columns, const char* base, int64_t n, int64_t begin, int64_t end,
                        char* values) const {
    const int64_t fold = narrow / n, stride = n * gatherer_.item;
    const int64_t wide_rows = (end - begin) / fold;
    Value wide[narrow];
    columns.start(fold * n);
    columns.add_rows(base + begin * stride, fold * stride, wide_rows);
    std::memcpy(wide, columns.finish(), fold * n * gatherer_.acc);
    values = gather_columns(columns, base, n, begin + wide_rows * fold, end, values);
    for (int64_t k = 0; k < fold; ++k) {
      gatherer_.merge(values, wide->bytes + k * n * gatherer_.acc, n);
    }
    return values;
  }

  void run_columns() const {
    const int64_t row = r_.kept_sizes[0];
    const int64_t blocks = (row + width_ - 1) / width_;
    const int64_t tasks = r_.outputs / row * blocks;
    const int64_t size = r_.count * std::min(row, width_);  // elements of a task
    const int64_t cuts = parts_of(tasks, size, std::min<int64_t>(r_.count, 16));
    const std::unique_ptr<char[]> partial(cuts > 1 ? new char[r_.outputs * cuts * gatherer_.acc]
                                                   : nullptr);
    const int64_t grain =
        cuts > 1 ? 1 : std::max<int64_t>(1, default_grain / std::max<int64_t>(size, 1));
    parallel_for(0, tasks * cuts, grain, [&](int64_t first, int64_t last) {
      run_column_tasks(partial.get(), cuts, first, last);
    });
    if (cuts > 1) merge_cuts(partial.get(), cuts);
  }

  // Stores what was gathered in several cuts: neighbours are merged, then neighbours of those.
  void merge_cuts(char* partial, int64_t cuts) const {
    const int64_t acc = gatherer_.acc, row = r_.kept_sizes[0];
    parallel_for(0, r_.outputs, default_grain / cuts, [&](int64_t first, int64_t last) {
      for (int64_t i = first, n; i < last; i += n) {
        n = std::min({row - i % row, last - i, merged});
        for (int64_t apart = 1; apart < cuts; apart *= 2) {
          for (int64_t k = 0; k + apart < cuts; k += 2 * apart) {
            char* values = partial + (k * r_.outputs + i) * acc;
            gatherer_.merge(values, values + apart * r_.outputs * acc, n);
          }
        }
        const int64_t to = place(i / row, 1).out + i % row * r_.kept_out[0];
        gatherer_.store(partial + i * acc, result(to), r_.kept_out[0], n);
      }
    });
  }

  void run_column_tasks(char* partial, int64_t cuts, int64_t first, int64_t last) const {
    const int64_t row = r_.kept_sizes[0], blocks = (row + width_ - 1) / width_;
    const int64_t share = (r_.count + cuts - 1) / cuts, acc = gatherer_.acc;
    Columns columns(gatherer_, std::max(narrow, std::min(row, width_)), r_.in);
    for (int64_t i = first; i < last; ++i) {
      const int64_t task = i / cuts, begin = std::min(i % cuts * share, r_.count);
      const int64_t end = std::min(begin + share, r_.count);
      const int64_t column = task % blocks * width_, n = std::min(width_, row - column);
      const Place at = place(task / blocks, 1);
      const char* base = r_.in + at.in + column * gatherer_.item;
      const int64_t to = i % cuts * r_.outputs + task / blocks * row + column;
      char* values = cuts > 1 ? partial + to * acc : nullptr;
      values = rows_are_adjacent() && end - begin >= narrow
                   ? gather_adjacent(columns, base, n, begin, end, values)
                   : gather_columns(columns, base, n, begin, end, values);
      if (cuts == 1)
        gatherer_.store(values, result(at.out + column * r_.kept_out[0]), r_.kept_out[0], n);
    }
  }

  const Reduction& r_;
  const Gatherer& gatherer_;
  const int64_t width_;  // columns gathered at a time
};

}  // namespace

void run_reduction(const Reduction& r, const Gatherer& gatherer) { Driver(r, gatherer).run(); }

}  // namespace flambeau::cpu::ISA_NAMESPACE
