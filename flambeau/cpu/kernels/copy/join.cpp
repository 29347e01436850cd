// CPU kernels that move whole rows: joining and cutting triangles.
#include "flambeau/kernels/join.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/copy/large_copy.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Bytes that one thread should have to copy at least.
constexpr int64_t copy_grain = int64_t{1} << 17;

constexpr int64_t short_part = 512;  // bytes of a part that a few moves copy

struct Part {
  const char* data;
  int64_t bytes;  // of one row
  int64_t step;   // from row to row
  int64_t start;  // within a row of the result
};

// In chunks of some size, the last of which takes bytes again that the one before it has taken.
template <int64_t size>
void move_lines(char* to, int64_t step, const char* from, int64_t from_step, int64_t lines,
                int64_t bytes) {
  const int64_t last = bytes - size;
  for (int64_t line = 0; line < lines; ++line, to += step, from += from_step) {
    for (int64_t i = 0; i < last; i += size) std::memcpy(to + i, from + i, size);
    std::memcpy(to + last, from + last, size);
  }
}
auto mover_of(int64_t bytes) {
  switch (std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(bytes, 64)))) {
    case 1: return move_lines<1>;
    case 2: return move_lines<2>;
    case 4: return move_lines<4>;
    case 8: return move_lines<8>;
    case 16: return move_lines<16>;
    case 32: return move_lines<32>;
    default: return move_lines<64>;
  }
}

// Lines [first, last) of short parts: some lines of one part after the other.
void join_short_parts(const std::vector<Part>& parts, char* to, int64_t row, int64_t first,
                      int64_t last) {
  constexpr int64_t block = 256;
  for (int64_t begin = first; begin < last; begin += block) {
    const int64_t lines = std::min(block, last - begin);
    for (const Part& part : parts) {
      char* place = to + begin * row + part.start;
      const char* from = part.data + begin * part.step;
      mover_of(part.bytes)(place, row, from, part.step, lines, part.bytes);
    }
  }
}

// Lines of one element of each of a few parts, whose lines follow each other: whole registers are
// written, where lines of one part after the other would be written an element at a time.
template <int width, class T>
void take_turns(const Part* parts, char* to, int64_t first, int64_t last) {
  typedef T Item __attribute__((aligned(1), may_alias));  // or some smaller elements
  const Item* from[width];
  for (int k = 0; k < width; ++k) from[k] = reinterpret_cast<const Item*>(parts[k].data);
  Item* out = reinterpret_cast<Item*>(to);
#pragma GCC ivdep
  for (int64_t i = first; i < last; ++i) {
    for (int k = 0; k < width; ++k) out[i * width + k] = from[k][i];
  }
}
using TakeTurns = void (*)(const Part* parts, char* to, int64_t first, int64_t last);
TakeTurns turns_of(const std::vector<Part>& parts) {
  const int64_t size = parts[0].bytes;
  const auto fits = [=](const Part& part) { return part.bytes == size && part.step == size; };
  if (size > 8 || !std::has_single_bit(static_cast<uint64_t>(size)) || parts.size() < 2 ||
      parts.size() > 4 || !std::all_of(parts.begin(), parts.end(), fits))
    return nullptr;
  TakeTurns turns = nullptr;
  dispatch_size(size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) <= 8) {
      turns = parts.size() == 2   ? take_turns<2, T>
              : parts.size() == 3 ? take_turns<3, T>
                                  : take_turns<4, T>;
    }
  });
  return turns;
}

// Of a tensor that lies in rows before `dim`.
int64_t bytes_to_next_row(const Tensor& tensor, int64_t dim, int64_t otherwise) {
  while (--dim >= 0) {
    if (tensor->sizes[dim] > 1)
      return tensor->strides[dim] * static_cast<int64_t>(tensor.item_size());
  }
  return otherwise;
}

void cat_kernel(const std::vector<Tensor>& tensors, const Tensor& out, int64_t rows, int64_t dim) {
  if (out.numel() == 0) return;
  std::vector<Part> parts;
  parts.reserve(tensors.size());
  int64_t row = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const int64_t bytes = tensor.numel() / rows * static_cast<int64_t>(tensor.item_size());
    const int64_t step = bytes_to_next_row(tensor, dim, bytes);
    parts.push_back({static_cast<const char*>(tensor.raw()), bytes, step, row});
    row += bytes;
  }
  char* to = static_cast<char*>(out.raw());
  const auto is_short = [](const Part& part) { return part.bytes <= short_part; };
  if (rows > 1 && std::all_of(parts.begin(), parts.end(), is_short)) {
    const TakeTurns turns = turns_of(parts);
    if (turns) {
      return parallel_for(0, rows, copy_grain / row,
                          [&](int64_t begin, int64_t end) { turns(parts.data(), to, begin, end); });
    }
    return parallel_for(
        0, rows, std::max<int64_t>(copy_grain / row, 1),
        [&](int64_t begin, int64_t end) { join_short_parts(parts, to, row, begin, end); });
  }
  const bool beyond_cache = rows * row >= cached_bytes;
  const auto copy = beyond_cache ? copy_large : copy_bytes;
  parallel_for(0, rows * row, copy_grain, [&](int64_t begin, int64_t end) {
    int64_t line = begin / row, within = begin % row;
    const auto holds = [&](const Part& part) { return within < part.start + part.bytes; };
    auto part = std::find_if(parts.begin(), parts.end(), holds);
    while (begin < end) {
      const int64_t skip = within - part->start;
      const int64_t bytes = std::min(part->bytes - skip, end - begin);
      copy(to + begin, part->data + line * part->step + skip, bytes);
      begin += bytes;
      within += bytes;
      if (++part == parts.end()) {
        part = parts.begin();
        within = 0;
        ++line;
      }
    }
    if (beyond_cache) _mm_sfence();
  });
}
KERNEL_FOR(cat, cat_kernel)

// Of many small matrices: zeros one element of all of them at a time.
void small_triangles(const Tensor& input, const Tensor& out, int64_t diagonal, bool upper) {
  const int64_t columns = out->sizes.back(), height = out->sizes[out.dim() - 2];
  const int64_t size = columns * height;
  dispatch_size(out.item_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr T zero{};
    const T* from = static_cast<const T*>(input.raw());
    T* to = static_cast<T*>(out.raw());
    parallel_for(0, out.numel() / size, default_grain / size, [&](int64_t begin, int64_t end) {
      constexpr int64_t some = 64;  // that stay in the first-level cache
      for (int64_t first = begin; first < end; first += some) {
        const int64_t last = std::min(first + some, end);
        if (from != to) std::copy(from + first * size, from + last * size, to + first * size);
        for (int64_t e = 0; e < size; ++e) {
          const int64_t right = e % columns - e / columns - diagonal;
          if (upper ? right >= 0 : right <= 0) continue;
          for (int64_t i = first; i < last; ++i) to[i * size + e] = zero;
        }
      }
    });
  });
}

void triangle_kernel(const Tensor& input, const Tensor& out, int64_t diagonal, bool upper) {
  const int64_t columns = input->sizes.back(), height = input->sizes[input.dim() - 2];
  if (input.numel() == 0) return;
  const int64_t item = static_cast<int64_t>(input.item_size());
  const char* from = static_cast<const char*>(input.raw());
  char* to = static_cast<char*>(out.raw());
  // Offsets beyond the corners mean the corners; this also keeps i + diagonal from overflowing.
  diagonal = std::clamp(diagonal, -height - 1, columns + 1);
  const bool beyond_cache = input.numel() * item >= cached_bytes;
  const auto copy = beyond_cache ? copy_large : copy_bytes;
  const int64_t size = height * columns;
  if (takes_elements_at_a_time(size, input.numel() / size, size * item))
    return small_triangles(input, out, diagonal, upper);
  const int64_t grain = std::max<int64_t>(copy_grain / (columns * item), 1);
  parallel_for(0, input.numel() / columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t i = r % height;
      const int64_t border = std::clamp<int64_t>(i + diagonal + (upper ? 0 : 1), 0, columns);
      const int64_t keep_from = upper ? border : 0, keep_to = upper ? columns : border;
      char* row = to + r * columns * item;
      if (from != to) {
        copy(row + keep_from * item, from + (r * columns + keep_from) * item,
             (keep_to - keep_from) * item);
      }
      // Not of no bytes: that would still touch a line that is stored non-temporally.
      if (keep_from > 0) std::memset(row, 0, keep_from * item);
      if (keep_to < columns) std::memset(row + keep_to * item, 0, (columns - keep_to) * item);
    }
    if (beyond_cache) _mm_sfence();
  });
}
KERNEL_FOR(triangle, triangle_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
