// CPU kernels that read and write at offsets made of index tensors.
#include "flambeau/cpu/kernels/index/indexing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/copy/large_copy.h"
#include "flambeau/cpu/ordered_rows.h"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Rows of the innermost dimension on this thread, in order.
void for_each_row_in_order(const TensorIter& iter, const void* context, RowsBody body) {
  if (iter.numel == 0) return;
  constexpr int most = TensorIter::max_operands;
  int64_t steps[most] = {}, row_steps[most] = {}, index[max_dims] = {};
  char* data[most] = {};
  for (int k = 0; k < iter.count; ++k) {
    steps[k] = iter.strides[k][0];
    row_steps[k] = iter.ndim > 1 ? iter.strides[k][1] : 0;
    data[k] = iter.data[k];
  }
  const int64_t n = iter.ndim > 0 ? iter.shape[0] : 1, rows = iter.ndim > 1 ? iter.shape[1] : 1;
  do body(context, data, {n, rows, steps, row_steps});
  while (next_place(iter, 2, index, data));
}

// Memory is the bound for whole rows, most of which one thread takes: a second one pays for more
// elements.
constexpr int64_t row_grain = 16 * default_grain;

}  // namespace

void for_each_row_by_lane(const TensorIter& iter, const void* context, RowsBody body) {
  int lane = -1;
  for (int d = 0; d < iter.ndim; ++d) {
    if (iter.strides[0][d] != 0 && (lane < 0 || iter.shape[d] > iter.shape[lane])) lane = d;
  }
  const int64_t grain = takes_whole_rows(iter) ? row_grain / 2 : default_grain / 4;
  if (lane < 0 || iter.numel <= grain) return for_each_row_in_order(iter, context, body);
  const int64_t work = std::max<int64_t>(iter.numel / iter.shape[lane], 1);
  const int64_t lanes = std::max<int64_t>(grain / work, 1);
  parallel_for(0, iter.shape[lane], lanes, [&](int64_t begin, int64_t end) {
    TensorIter part = iter;
    part.shape[lane] = end - begin;
    part.numel = iter.numel / iter.shape[lane] * (end - begin);
    for (int k = 0; k < iter.count; ++k) part.data[k] += begin * iter.strides[k][lane];
    for_each_row_in_order(part, context, body);
  });
}

namespace {

// Writes the offsets of a row of indices, or adds them to others, and says whether all indices are
// some: the largest, counted from the smallest allowed one, is found without a branch.
template <bool add, class OutStep, class InStep>
bool offsets_of_row(char* const* data, OutStep step_out, InStep step_in, int64_t n,
                    const IndexedDim& at) {
  const auto size = static_cast<uint64_t>(at.size), stride = static_cast<uint64_t>(at.stride);
  const uint64_t below = at.from_end ? size : 0;
  uint64_t most = 0;
  IVDEP for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = *reinterpret_cast<const uint64_t*>(data[1] + i * step_in);
    const uint64_t counted = index + below;
    most = counted > most ? counted : most;
    // Wraps instead of overflowing: a bad index is reported before anybody uses the offset.
    const uint64_t place = static_cast<int64_t>(index) < 0 ? index + size : index;
    uint64_t& out = *reinterpret_cast<uint64_t*>(data[0] + i * step_out);
    out = add ? out + place * stride : place * stride;
  }
  return most < size + below;
}

void index_offsets_kernel(const TensorIter& iter, const IndexedDim& at, bool add) {
  for_each_row(iter, [&](char** data, const int64_t* strides, int64_t n) {
    constexpr std::integral_constant<int64_t, 8> dense;
    const bool is_dense = strides[0] == 8 && strides[1] == 8;
    const bool good = add        ? offsets_of_row<true>(data, strides[0], strides[1], n, at)
                      : is_dense ? offsets_of_row<false>(data, dense, dense, n, at)
                                 : offsets_of_row<false>(data, strides[0], strides[1], n, at);
    if (good) return;
    const int64_t least = at.from_end ? -at.size : 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = *reinterpret_cast<const int64_t*>(data[1] + i * strides[1]);
      if (index < least || index >= at.size) fail_index(index, at);
    }
  });
}
KERNEL_FOR(index_offsets, index_offsets_kernel)

// Of some hundred bytes, without the call.
inline void copy_short(char* to, const char* from, int64_t bytes) {
  if (bytes > 1024) {
    std::memcpy(to, from, bytes);
    return;
  }
  int64_t i = 0;
  for (; i + register_bytes <= bytes; i += register_bytes) {
    copy_lanes<register_bytes>(from + i, to + i);
  }
  for (; i + 8 <= bytes; i += 8) std::memcpy(to + i, from + i, 8);
  for (; i < bytes; ++i) to[i] = from[i];
}

template <class T>
void read_row(char** data, const int64_t* strides, int64_t n) {
  char* out = data[0];
  if (strides[2] == 0) {
    const char* from = data[1] + *reinterpret_cast<const int64_t*>(data[2]);
    for (int64_t i = 0; i < n; ++i) {
      *reinterpret_cast<T*>(out + i * strides[0]) =
          *reinterpret_cast<const T*>(from + i * strides[1]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t offset = *reinterpret_cast<const int64_t*>(data[2] + i * strides[2]);
    *reinterpret_cast<T*>(out + i * strides[0]) =
        *reinterpret_cast<const T*>(data[1] + i * strides[1] + offset);
  }
}

// Whole rows, which are stored non-temporally if they are too many for it.
void read_rows(char** data, const int64_t* steps, int64_t bytes, int64_t rows, bool beyond_cache) {
  const auto source = [&](int64_t row) {
    return data[1] + row * steps[1] + *reinterpret_cast<const int64_t*>(data[2] + row * steps[2]);
  };
  for (int64_t row = 0; row < rows; ++row) {
    if (!beyond_cache) {
      copy_short(data[0] + row * steps[0], source(row), bytes);
      continue;
    }
    // Where the next one begins the processor cannot know; having seen that, it expects the rest.
    if (row + 1 < rows) {
      const char* next = source(row + 1);
      for (int64_t i = 0; i < std::min<int64_t>(bytes, 256); i += 64) prefetch(next + i);
    }
    copy_large(data[0] + row * steps[0], source(row), bytes);
  }
  if (beyond_cache) _mm_sfence();
}

template <class T>
void read_block(char** data, const Block& block, bool beyond_cache) {
  const int64_t *steps = block.steps, *rows = block.row_steps;
  if (steps[0] == sizeof(T) && steps[1] == sizeof(T) && steps[2] == 0)
    return read_rows(data, rows, block.n * sizeof(T), block.m, beyond_cache);
  for (int64_t row = 0; row < block.m; ++row) {
    char* at[] = {data[0] + row * rows[0], data[1] + row * rows[1], data[2] + row * rows[2]};
    read_row<T>(at, steps, block.n);
  }
}

void index_read_kernel(const TensorIter& iter) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // For so few a second thread, and asking how to split them, cost more than they save.
    constexpr int64_t few_bytes = 96 * 1024;
    const int64_t bytes = iter.numel * static_cast<int64_t>(sizeof(T));
    if (bytes <= few_bytes && takes_whole_rows(iter)) {
      char* data[] = {iter.data[0], iter.data[1], iter.data[2]};
      const int64_t steps[] = {sizeof(T), sizeof(T), 0};
      const int64_t rows[] = {iter.strides[0][1], iter.strides[1][1], iter.strides[2][1]};
      return read_block<T>(data, {iter.shape[0], iter.shape[1], steps, rows}, false);
    }
    const bool beyond_cache = bytes >= cached_bytes;
    for_each_block(
        iter, [=](char** data, const Block& block) { read_block<T>(data, block, beyond_cache); },
        2);
  });
}
KERNEL_FOR(index_read, index_read_kernel)

template <WriteMode mode, class T>
void write_row(char** data, const int64_t* strides, int64_t n) {
  if (strides[2] == 0) {
    char* to = data[0] + *reinterpret_cast<const int64_t*>(data[2]);
    if (strides[0] == sizeof(T) && strides[1] == sizeof(T)) {
      if constexpr (mode == WriteMode::assign) {
        std::memcpy(to, data[1], n * sizeof(T));
      } else {
        IVDEP for (int64_t i = 0; i < n; ++i) {
          write_to<mode>(to + i * sizeof(T), *reinterpret_cast<const T*>(data[1] + i * sizeof(T)));
        }
      }
      return;
    }
    if (mode == WriteMode::assign && strides[0] == sizeof(T) && strides[1] == 0) {
      std::fill_n(reinterpret_cast<T*>(to), n, *reinterpret_cast<const T*>(data[1]));
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      write_to<mode>(to + i * strides[0], *reinterpret_cast<const T*>(data[1] + i * strides[1]));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t offset = *reinterpret_cast<const int64_t*>(data[2] + i * strides[2]);
    write_to<mode>(data[0] + i * strides[0] + offset,
                   *reinterpret_cast<const T*>(data[1] + i * strides[1]));
  }
}

// Rows grouped by the target that they are written to, in their order: group g are the rows
// order[starts[g]] to order[starts[g + 1] - 1].
struct RowsByTarget {
  std::vector<int64_t> order, starts;
};

// Where a row is written to, in bytes from the first element: behind its offset, and behind its own
// place where rows are those of slices that one index is taken from.
int64_t target_of(const TensorIter& iter, int64_t row) {
  const char* offset = iter.data[2] + row * iter.strides[2][1];
  return *reinterpret_cast<const int64_t*>(offset) + row * iter.strides[0][1];
}

RowsByTarget rows_by_target(const TensorIter& iter) {
  const int64_t rows = iter.shape[1];
  // Targets do not overlap, so that no two of them begin in the same one of these slots.
  const int64_t slot = iter.shape[0] * static_cast<int64_t>(item_size(iter.dtypes[0]));
  std::vector<int64_t> slots(rows);
  for (int64_t row = 0; row < rows; ++row) {
    slots[row] = target_of(iter, row) / slot;
  }
  RowsByTarget grouped;
  grouped.order.resize(rows);
  const int64_t count = *std::max_element(slots.begin(), slots.end()) + 1;
  if (count <= 8 * rows) {
    std::vector<int64_t> next(count + 1, 0);
    for (const int64_t at : slots) ++next[at + 1];
    for (int64_t at = 0; at < count; ++at) {
      if (next[at + 1] > 0) grouped.starts.push_back(next[at]);
      next[at + 1] += next[at];
    }
    for (int64_t row = 0; row < rows; ++row) grouped.order[next[slots[row]]++] = row;
  } else {
    std::iota(grouped.order.begin(), grouped.order.end(), 0);
    std::stable_sort(grouped.order.begin(), grouped.order.end(),
                     [&](int64_t a, int64_t b) { return slots[a] < slots[b]; });
    for (int64_t i = 0; i < rows; ++i) {
      if (i == 0 || slots[grouped.order[i]] != slots[grouped.order[i - 1]])
        grouped.starts.push_back(i);
    }
  }
  grouped.starts.push_back(rows);
  return grouped;
}

// Calls body(rows, count) with the rows that go to one target, in their order. Targets are taken
// in the order of memory: they are likely in the caches of the threads that filled them so.
template <class Body>
void for_each_target(const TensorIter& iter, const Body& body) {
  const auto [order, starts] = rows_by_target(iter);
  const auto groups = static_cast<int64_t>(starts.size()) - 1;
  const int64_t work = std::max<int64_t>(iter.numel / groups, 1);
  const int64_t grain = std::max<int64_t>(default_grain / 2 / work, 1);
  parallel_for(0, groups, grain,
               [&, &order = order, &starts = starts](int64_t first, int64_t last) {
                 for (int64_t group = first; group < last; ++group) {
                   body(&order[starts[group]], starts[group + 1] - starts[group]);
                 }
               });
}

// Adds the rows of half precision that go to one target in float, and rounds their sum once.
template <class T>
void add_rows_in_float(const TensorIter& iter) {
  constexpr int64_t longest = 1024, block = 32;
  const int64_t n = iter.shape[0];
  for_each_target(iter, [&](const int64_t* rows, int64_t count) {
    alignas(64) float sums[longest], wide[block];
    T* target = reinterpret_cast<T*>(iter.data[0] + target_of(iter, rows[0]));
    for (int64_t begin = 0; begin < n; begin += longest) {
      const int64_t width = std::min(longest, n - begin);
      load_row(target + begin, sums, width);
      for (int64_t i = 0; i < count; ++i) {
        const char* row = iter.data[1] + rows[i] * iter.strides[1][1];
        const T* from = reinterpret_cast<const T*>(row) + begin;
        int64_t j = 0;
        for (; j + block <= width; j += block) {
          load_block<block>(from + j, wide);
          for (int64_t lane = 0; lane < block; ++lane) sums[j + lane] += wide[lane];
        }
        for (; j < width; ++j) sums[j] += static_cast<float>(from[j]);
      }
      store_row(sums, target + begin, width);
    }
  });
}

// Whether rows are so long that threads had better share them than each row's elements, which are
// in the cache of another as often as not.
bool are_long(const TensorIter& iter) {
  constexpr int64_t long_row = 1024;  // bytes
  return get_num_threads() > 1 && takes_whole_rows(iter) &&
         iter.shape[0] * static_cast<int64_t>(item_size(iter.dtypes[0])) >= long_row;
}

void index_write_kernel(const TensorIter& iter, WriteMode mode) {
  if (iter.numel == 0) return;
  if (mode == WriteMode::add && dtypes::Reduced.has(iter.dtypes[0]) && takes_whole_rows(iter)) {
    return dispatch<dtypes::Reduced>("index_put", iter.dtypes[0], [&](auto tag) {
      add_rows_in_float<typename decltype(tag)::type>(iter);
    });
  }
  if (mode == WriteMode::assign) {
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto write = [](char** data, const int64_t* strides, int64_t n) {
        write_row<WriteMode::assign, T>(data, strides, n);
      };
      // Of several that go to one place the last stays, where every run has to give the same.
      if (math_mode.deterministic) return for_each_row_by_lane(iter, write);
      for_each_row(iter, write, 2);
    });
  }
  dispatch_write("index_put", mode, iter.dtypes[0], [&](auto constant, auto tag) {
    constexpr auto write = write_row<decltype(constant)::value, typename decltype(tag)::type>;
    if (!are_long(iter)) return for_each_row_by_lane(iter, write);
    for_each_target(iter, [&](const int64_t* rows, int64_t count) {
      const int64_t steps[3] = {iter.strides[0][0], iter.strides[1][0], iter.strides[2][0]};
      for (int64_t i = 0; i < count; ++i) {
        char* data[3];
        for (int k = 0; k < 3; ++k) data[k] = iter.data[k] + rows[i] * iter.strides[k][1];
        write(data, steps, iter.shape[0]);
      }
    });
  });
}
KERNEL_FOR(index_write, index_write_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
