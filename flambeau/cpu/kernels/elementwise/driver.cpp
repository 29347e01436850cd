// Brings operands of any layout to the loops over arrays of loops.h: what does not lie side by side
// goes through small buffers, a chunk at a time; what lies across the rows is transposed on the
// way, and what is computed in another type than it is stored in is converted.
#include <optional>

#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/math/result_tables.h"
#include "flambeau/cpu/kernels/simd/every_second.h"
#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/cpu/memory.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Bytes of a buffer: small enough for a few in the first-level cache and on a small stack.
constexpr int64_t buffer_bytes = 4096;
constexpr int max_inputs = 3;
// Bytes of results that are stored non-temporally at once: their writing and the next ones' reading
// overlap.
constexpr int64_t streamed_bytes = 1024;
// Note [Transposed tiles]
// An operand that lies across the rows is transposed into a buffer, a tile at a time. Of a tile in
// the caches, whole lines of memory are read, two neighbours at a time, and the buffer stays in the
// first-level cache. Of one that is beyond them, memory sends lines the faster the more neighbours
// they have, and processors do not keep track of so many rows: such tiles are long rows of four
// registers below each other. While a tile is computed, what the next one turns is asked for, and
// while that is transposed again, as the last cache holds so many rows at large powers of two
// apart, and the second one has not.
constexpr int64_t tile_bytes = 32768, tile_row_bytes = 1024, tile_row = 256;
// Elements of rows that are better joined than left single: where every row repeats one value, that
// is written again for each, unless the loop goes from row to row itself; where all rows repeat the
// same one, that is written once.
constexpr int64_t short_spread_row = 128, short_row = 256;
constexpr int64_t max_spread = 256;  // the same where a single value has to be spread in any case
constexpr int64_t spread_bytes = register_bytes;

void move_elements(int64_t size, char* to, int64_t to_step, const char* from, int64_t from_step,
                   int64_t n) {
  if (to_step == size && from_step == size) {
    std::memcpy(to, from, n * size);
    return;
  }
  dispatch_size(static_cast<size_t>(size), [&](auto tag) {
    constexpr size_t bytes = sizeof(typename decltype(tag)::type);
    if (to_step == bytes) return move_together<bytes>(to, from, from_step, n);
    move_strided<bytes>(to, to_step, from, from_step, n);
  });
}

template <class T>
void spread(char* to, const char* from, int64_t step, int64_t rows, int64_t n) {
  constexpr int lanes = spread_bytes / sizeof(T);
  T* next = reinterpret_cast<T*>(to);
  for (int64_t row = 0; row < rows; ++row, from += step, next += n) {
    const auto all = LanesOf<T, lanes>::all(reinterpret_cast<const T*>(from));
    for (int64_t i = 0; i < n; i += lanes) LanesOf<T, lanes>::store(all, next + i);
  }
}
// Each of `rows` elements, `step` bytes apart, n times side by side. Written by whole registers:
// the last one may reach up to `spread_bytes` beyond the end.
void spread_elements(int64_t size, char* to, const char* from, int64_t step, int64_t rows,
                     int64_t n) {
  dispatch_size(static_cast<size_t>(size),
                [&](auto tag) { spread<typename decltype(tag)::type>(to, from, step, rows, n); });
}

// Bytes of an element of the operand that has the largest ones.
int64_t largest_size(const ElementwiseLoop& loop) {
  return *std::max_element(loop.sizes, loop.sizes + loop.inputs + 1);
}

class Driver {
 public:
  Driver(const ElementwiseLoop& loop, const void* formula, bool beyond_cache, bool streams,
         bool converts)
      : loop_(loop),
        formula_(formula),
        longest_((beyond_cache ? streamed_bytes : buffer_bytes) / largest_size(loop)),
        beyond_cache_(beyond_cache),
        streams_(streams),
        is_plain_(!converts && loop.sizes[0] == loop.sizes[1]) {}

  // What for_each_block is to run.
  static void run_block(void* driver, char** data, const Block& block) {
    const Driver& self = *static_cast<const Driver*>(driver);
    const ElementwiseLoop& loop = self.loop_;
    const bool number = self.second_is_number(block.steps);
    if (self.is_dense(block.steps, number ? 1 : loop.inputs)) {
      if (self.is_new(data) && !self.streams_ && (block.m == 1 || self.streams_rows(block)))
        return self.run_non_temporal(data, block);
      // Once only: the output may be one of the inputs.
      const bool goes_on = loop.rows_with_numbers && !self.beyond_cache_;
      const int64_t short_one = !number   ? short_row
                                : goes_on ? register_bytes / loop.sizes[1]
                                          : short_spread_row;
      if (block.n < short_one && block.m > 1 && self.join_rows(data, block)) return;
      if (!number || loop.row_with_number) return self.run_dense_rows(data, block, number);
    }
    if (block.m == 1) {
      const bool non_temporal = self.is_new(data) && self.is_dense_at(block.steps, 0);
      return non_temporal ? self.run_non_temporal(data, block) : self.run_row(data, block, false);
    }
    if (!self.join_rows(data, block)) self.run_tiles(data, block);
  }

 private:
  void dense(char* const* data, int64_t n, bool past = false) const {
    loop_.row(formula_, data, n, past);
  }
  void run_dense_rows(char* const* data, const Block& block, bool number) const {
    const auto run = number ? loop_.row_with_number : loop_.row;
    const bool non_temporal = streams_ && is_new(data) && begins_lines(data[0], block);
    // Memory sends the lines that a large output has next while others are computed.
    const bool is_large = is_new(data) && !non_temporal && loop_.sizes[0] >= 4 && block.m > 1;
    const int64_t chunk = is_large ? 2 * streamed_bytes / loop_.sizes[0] : block.n;
    if (number && loop_.rows_with_numbers && !is_large)
      return loop_.rows_with_numbers(formula_, data, block.n, block.m, block.row_steps);
    char* at[max_inputs + 1];
    for (int64_t row = 0; row < block.m; ++row) {
      for (int k = 0; k <= loop_.inputs; ++k) at[k] = data[k] + row * block.row_steps[k];
      if (!is_large) {
        run(formula_, at, block.n, non_temporal);
        continue;
      }
      for (int64_t begin = 0; begin < block.n; begin += chunk) {
        const int64_t count = std::min(chunk, block.n - begin);
        prefetch_next(at[0], count * loop_.sizes[0]);
        run(formula_, at, count, non_temporal);
        for (int k = 0; k <= loop_.inputs; ++k) at[k] += count * block.steps[k];
      }
    }
    if (non_temporal) _mm_sfence();
  }
  // Whether rows of results are long, or begin with a line of memory each: others share too many
  // lines with their neighbours to be stored non-temporally.
  bool begins_lines(const char* out, const Block& block) const {
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out));
    return block.n * loop_.sizes[0] >= streamed_bytes || (place | block.row_steps[0]) % 64 == 0;
  }
  // Whether operand k lies side by side.
  bool is_dense_at(const int64_t* steps, int k) const { return steps[k] == loop_.sizes[k]; }
  // Whether all operands up to `last` do.
  bool is_dense(const int64_t* steps, int last) const {
    for (int k = 0; k <= last; ++k) {
      if (!is_dense_at(steps, k)) return false;
    }
    return true;
  }
  bool second_is_number(const int64_t* steps) const { return loop_.inputs == 2 && steps[2] == 0; }

  // Whether the output is large and no input: its lines are not in a cache, and need not get there.
  bool is_new(char* const* data) const {
    return beyond_cache_ &&
           std::find(data + 1, data + 1 + loop_.inputs, data[0]) == data + 1 + loop_.inputs;
  }
  // Whether rows are better written non-temporally: long ones beside an operand as large, which
  // memory binds more than arithmetic.
  bool streams_rows(const Block& block) const {
    bool reads = false;
    for (int k = 1; k <= loop_.inputs; ++k) reads |= block.row_steps[k] >= block.n * loop_.sizes[k];
    const int64_t size = loop_.sizes[0];
    return reads && (size >= 4 || is_plain_) && block.n * size >= streamed_bytes;
  }
  // Rows whose results go to memory without reading its lines before.
  void run_non_temporal(char* const* data, const Block& block) const {
    char* at[max_inputs + 1];
    std::copy_n(data, loop_.inputs + 1, at);
    for (int64_t row = 0; row < block.m; ++row) {
      run_row(at, block, true);
      for (int k = 0; k <= loop_.inputs; ++k) at[k] += block.row_steps[k];
    }
    _mm_sfence();
  }

  // A row in chunks: operands that do not lie side by side go through buffers, and so do results
  // that are stored non-temporally, after which a fence is to follow.
  void run_row(char* const* data, const Block& block, bool non_temporal) const {
    const int64_t n = block.n, *steps = block.steps;
    if (is_dense(steps, loop_.inputs) && !non_temporal) return dense(data, n);
    const bool number = second_is_number(steps) && loop_.row_with_number && is_dense_at(steps, 1);
    const auto run = number ? loop_.row_with_number : loop_.row;
    alignas(64) char buffers[max_inputs + 1][buffer_bytes + spread_bytes];
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (steps[k] == 0 && !(k == 2 && number))
        spread_elements(loop_.sizes[k], buffers[k], data[k], 0, 1, std::min(n, longest_));
    }
    // For non-temporal stores the first chunk ends at a cache line, and so do all others.
    int64_t count = longest_;
    if (non_temporal) count -= reinterpret_cast<uintptr_t>(data[0]) % 64 / loop_.sizes[0];
    for (int64_t begin = 0; begin < n; begin += count, count = longest_) {
      count = std::min(count, n - begin);
      char* at[max_inputs + 1];
      for (int k = 0; k <= loop_.inputs; ++k) {
        char* place = data[k] + begin * steps[k];
        const bool as_it_lies = is_dense_at(steps, k) || (k == 2 && number);
        at[k] = as_it_lies && !(k == 0 && non_temporal) ? place : buffers[k];
        if (k == 0 || steps[k] == 0) continue;
        const bool goes_on = block.m == 1 || block.row_steps[k] != 0;
        if (non_temporal && as_it_lies && goes_on) prefetch_next(place, count * steps[k]);
        if (!as_it_lies)
          move_elements(loop_.sizes[k], buffers[k], loop_.sizes[k], place, steps[k], count);
      }
      run(formula_, at, count, false);
      deliver(data[0] + begin * steps[0], steps[0], buffers[0], count, non_temporal);
    }
  }
  // Prefetches what will be read some chunks later while others are written.
  static void prefetch_next(const char* place, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) ask_second_level(place + bytes_ahead + i);
  }
  // Results from a buffer to where they belong, if they do not lie there already.
  void deliver(char* to, int64_t step, const char* buffer, int64_t n, bool non_temporal) const {
    const int64_t size = loop_.sizes[0];
    if (non_temporal) return copy_non_temporal(to, buffer, n * size);
    if (step != size) move_elements(size, to, step, buffer, size, n);
  }

  // How the rows of a tile of an operand become dense ones: they are, or are written into a buffer
  // from what lies one element below the other, from one value for all of the tile or for a row
  // each, or from elements a step apart.
  enum class Source { dense, transposed, one_value, one_value_each, steps };
  Source source_of(const Block& block, int k) const {
    const int64_t size = loop_.sizes[k], step = block.steps[k], down = block.row_steps[k];
    if (is_dense_at(block.steps, k)) return Source::dense;
    if (step == 0 && k > 0) return down == 0 ? Source::one_value : Source::one_value_each;
    const bool transposed = k > 0 && down == size && step % size == 0 && block.m >= 8;
    return transposed ? Source::transposed : Source::steps;
  }

  // Rows of any operands, a tile at a time.
  struct Tile {
    int64_t width, height;
    Source sources[max_inputs + 1];
    bool turns;     // some of them is transposed
    bool is_large;  // in a buffer of its own: see Note [Transposed tiles]
    bool streams;   // the results are stored non-temporally
    char* buffers[max_inputs + 1];
  };
  void run_tiles(char* const* data, const Block& block) const {
    const int64_t largest = largest_size(loop_);
    Tile tile{};
    for (int k = 0; k <= loop_.inputs; ++k) {
      tile.sources[k] = source_of(block, k);
      tile.turns |= tile.sources[k] == Source::transposed;
    }
    tile.is_large = tile.turns && beyond_cache_;
    const int64_t longest = tile_row_bytes / largest, large_height = 4 * register_bytes / largest;
    const int64_t side = tile.is_large ? longest : std::min(tile_row, longest);
    const int64_t bytes = !tile.turns     ? buffer_bytes
                          : tile.is_large ? large_height * (side * largest + 64)
                                          : tile_bytes;
    tile.width = std::min(block.n, tile.turns ? side : bytes / largest);
    tile.height = std::min(block.m, tile.is_large ? large_height : bytes / largest / tile.width);
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data[0]));
    tile.streams = tile.sources[0] == Source::dense && is_new(data) && tile.width >= 64 &&
                   (place | block.row_steps[0]) % 64 == 0;
    if (tile.is_large) {
      const auto scratch = memory_for<char>((loop_.inputs + 1) * (bytes + spread_bytes));
      return run_tiles(data, block, tile, scratch.get(), bytes + spread_bytes);
    }
    alignas(64) char buffers[max_inputs + 1][tile_bytes + spread_bytes];
    run_tiles(data, block, tile, buffers[0], sizeof buffers[0]);
  }
  void run_tiles(char* const* data, const Block& block, Tile& tile, char* buffers,
                 int64_t buffer_step) const {
    for (int k = 0; k <= loop_.inputs; ++k) {
      tile.buffers[k] = buffers + k * buffer_step;
      if (tile.sources[k] == Source::one_value)
        spread_elements(loop_.sizes[k], tile.buffers[k], data[k], 0, 1, tile.width * tile.height);
    }
    const auto run = [&](int64_t row, int64_t column) {
      char* at[max_inputs + 1] = {};
      for (int k = 0; k <= loop_.inputs; ++k)
        at[k] = data[k] + row * block.row_steps[k] + column * block.steps[k];
      run_tile(at, tile,
               {std::min(tile.width, block.n - column), std::min(tile.height, block.m - row),
                block.steps, block.row_steps});
    };
    if (tile.is_large) {  // down, where what is transposed goes on
      for (int64_t column = 0; column < block.n; column += tile.width) {
        for (int64_t row = 0; row < block.m; row += tile.height) run(row, column);
      }
    } else {
      for (int64_t row = 0; row < block.m; row += tile.height) {
        for (int64_t column = 0; column < block.n; column += tile.width) run(row, column);
      }
    }
    if (tile.streams) _mm_sfence();
  }

  // Ahead of their use, since no processor expects what stands in the next row.
  static void prefetch_rows(const char* data, int64_t step, int64_t bytes, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, data += step) {
      for (int64_t i = 0; i < bytes; i += 64) ask_second_level(data + i);
    }
  }

  // Has memory send the next rows. Of small tiles, the processor expects more when it has seen two
  // lines; in a large one, rows some steps ahead are asked for whole.
  void ask_for_rows(char* const* data, const Tile& tile, const int64_t* row_steps) const {
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (tile.sources[k] != Source::dense) continue;
      const int64_t bytes = tile.is_large ? tile.width * loop_.sizes[k] : 128;
      prefetch_rows(data[k] + (tile.is_large ? 4 : 1) * row_steps[k], 0, bytes, 1);
    }
  }

  // A row's share of what is transposed in the next tile below.
  void prefetch_transposed(char* const* data, const Block& block, const Tile& tile,
                           int64_t row) const {
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (tile.sources[k] != Source::transposed) continue;
      const int64_t bytes = block.m * loop_.sizes[k], first = block.n * row / block.m;
      prefetch_rows(data[k] + first * block.steps[k] + bytes, block.steps[k], bytes,
                    block.n * (row + 1) / block.m - first);
    }
  }

  // Brings one tile's rows into their buffers, and computes it.
  void run_tile(char* const* data, const Tile& tile, const Block& block) const {
    char* at[max_inputs + 1] = {};
    int64_t row_steps[max_inputs + 1];
    bool adjacent = true;
    for (int k = loop_.inputs; k >= 0; --k) {
      const int64_t size = loop_.sizes[k], step = block.steps[k], down = block.row_steps[k];
      const bool dense = tile.sources[k] == Source::dense && !(k == 0 && tile.streams && !streams_);
      at[k] = dense ? data[k] : tile.buffers[k];
      row_steps[k] = dense ? down : block.n * size;
      if (tile.is_large && tile.sources[k] == Source::transposed) row_steps[k] += 64;
      adjacent &= row_steps[k] == block.n * size;
      if (k == 0) continue;
      if (dense && tile.turns && !tile.streams && !tile.is_large) {
        prefetch_rows(data[k], down, block.n * size, block.m);
      } else if (tile.sources[k] == Source::transposed) {
        copy_transposed(size, {at[k], row_steps[k]}, {data[k], step}, block.n, block.m,
                        tile.is_large ? TransposedStore::into_buffer : TransposedStore::in_cache);
      } else if (tile.sources[k] == Source::one_value_each) {
        spread_elements(size, at[k], data[k], down, block.m, block.n);
      } else if (tile.sources[k] == Source::steps) {
        for (int64_t row = 0; row < block.m; ++row) {
          move_elements(size, at[k] + row * row_steps[k], size, data[k] + row * down, step,
                        block.n);
        }
      }
    }
    const bool in_place = at[0] == data[0];
    const int64_t rows_at_once = adjacent ? block.m : 1;
    for (int64_t row = 0; row < block.m; row += rows_at_once) {
      if (tile.turns && tile.streams) ask_for_rows(at, tile, row_steps);
      if (tile.is_large && !adjacent) prefetch_transposed(data, block, tile, row);
      dense(at, block.n * rows_at_once, tile.streams && in_place);
      for (int64_t i = 0; i < rows_at_once && !in_place; ++i) {
        deliver(data[0] + (row + i) * block.row_steps[0], block.steps[0], at[0] + i * row_steps[0],
                block.n, tile.streams);
      }
      for (int k = in_place ? 0 : 1; k <= loop_.inputs; ++k) at[k] += row_steps[k];
    }
  }

  // How an operand goes on from one short row to the next.
  enum class Rows { adjacent, same_row, one_value_each, other };
  Rows rows_of(const Block& block, int k) const {
    if (is_dense_at(block.steps, k) && block.row_steps[k] == block.n * loop_.sizes[k])
      return Rows::adjacent;
    if (block.row_steps[k] == 0) return Rows::same_row;
    return block.steps[k] == 0 && block.n <= max_spread ? Rows::one_value_each : Rows::other;
  }

  // Short rows at once, if the output and every input but those that repeat the same row or a value
  // along each row go on from row to row: those are written into a buffer several times. False if
  // it is not so.
  bool join_rows(char** data, const Block& block) const {
    const int64_t rows = std::min(longest_ / block.n, block.m);
    if (rows < 2) return false;
    Rows kinds[max_inputs + 1];
    for (int k = 0; k <= loop_.inputs; ++k) {
      kinds[k] = rows_of(block, k);
      if (kinds[k] == Rows::other || (k == 0 && kinds[k] != Rows::adjacent)) return false;
    }
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data[0]));
    const bool non_temporal = is_new(data) && (place | rows * block.row_steps[0]) % 64 == 0;
    alignas(64) char buffers[max_inputs + 1][buffer_bytes + spread_bytes];
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (kinds[k] != Rows::same_row) continue;
      const int64_t size = loop_.sizes[k], bytes = block.n * size;
      move_elements(size, buffers[k], size, data[k], block.steps[k], block.n);
      for (int64_t made = 1, more = 0; made < rows; made += more) {  // twice as many each time
        more = std::min(made, rows - made);
        std::memcpy(buffers[k] + made * bytes, buffers[k], more * bytes);
      }
    }
    for (int64_t row = 0; row < block.m; row += rows) {
      const int64_t count = std::min(rows, block.m - row);
      char* at[max_inputs + 1];
      for (int k = 0; k <= loop_.inputs; ++k) {
        char* place = data[k] + row * block.row_steps[k];
        at[k] = kinds[k] == Rows::adjacent && !(k == 0 && non_temporal) ? place : buffers[k];
        if (kinds[k] == Rows::one_value_each)
          spread_elements(loop_.sizes[k], buffers[k], place, block.row_steps[k], count, block.n);
        if (k > 0 && non_temporal && at[k] == place)
          prefetch_next(place, count * block.row_steps[k]);
      }
      dense(at, count * block.n);
      deliver(data[0] + row * block.row_steps[0], block.steps[0], buffers[0], count * block.n,
              non_temporal);
    }
    if (non_temporal) _mm_sfence();
    return true;
  }

  const ElementwiseLoop& loop_;
  const void* const formula_;
  const int64_t longest_;  // elements of a chunk
  const bool beyond_cache_;
  const bool streams_;   // the loop can write non-temporally itself
  const bool is_plain_;  // it converts nothing
};

// A loop over whole registers alone. The vector form of a function may round otherwise than its
// form for single numbers, which the compiler takes for the rest of a row; equal elements shall
// have equal results wherever they stand. So the rest is computed in a register of its own.
class WholeRegisters {
 public:
  WholeRegisters(const ElementwiseLoop& loop, const void* formula)
      : loop_(loop), formula_(formula), whole_(loop), lanes_(register_bytes / largest_size(loop)) {
    whole_.row = [](const void* self, char* const* data, int64_t n, bool non_temporal) {
      const auto& mine = *static_cast<const WholeRegisters*>(self);
      mine.run(mine.loop_.row, data, n, non_temporal, false);
    };
    whole_.rows_with_numbers = nullptr;
    if (!loop.row_with_number) return;
    whole_.row_with_number = [](const void* self, char* const* data, int64_t n, bool non_temporal) {
      const auto& mine = *static_cast<const WholeRegisters*>(self);
      mine.run(mine.loop_.row_with_number, data, n, non_temporal, true);
    };
  }
  const ElementwiseLoop& loop() const { return whole_; }

 private:
  void run(ElementwiseLoop::Row* row, char* const* data, int64_t n, bool non_temporal,
           bool second_is_number) const {
    const int64_t rest = n % lanes_, whole = n - rest;
    if (whole > 0) row(formula_, data, whole, non_temporal);
    if (rest == 0) return;
    alignas(64) char scratch[max_inputs + 1][register_bytes];
    char* at[max_inputs + 1] = {scratch[0], scratch[1], scratch[2], scratch[3]};
    for (int k = 1; k <= loop_.inputs; ++k) {
      const int64_t size = loop_.sizes[k];
      const bool single = k == 2 && second_is_number;
      const char* from = data[k] + (single ? 0 : whole * size);
      // Its elements again and again, so that none of the lanes is out of the ordinary.
      int64_t filled = single ? 1 : rest;
      std::memcpy(scratch[k], from, filled * size);
      while (!single && filled < lanes_) {
        const int64_t more = std::min(filled, lanes_ - filled);
        std::memcpy(scratch[k] + filled * size, scratch[k], more * size);
        filled += more;
      }
    }
    row(formula_, at, lanes_, false);
    const int64_t size = loop_.sizes[0];
    std::memcpy(data[0] + whole * size, scratch[0], rest * size);
  }

  const ElementwiseLoop& loop_;
  const void* const formula_;
  ElementwiseLoop whole_;
  const int64_t lanes_;
};

template <class T>
using TwiceAsWide = std::conditional_t<std::is_same_v<T, uint16_t>, int32_t, int64_t>;

void convert_to_floats(DType dtype, const char* stored, char* computed, int64_t n) {
  dispatch<dtypes::Signed | DType::uint8>("convert_row", dtype, [&](auto tag) {
    const auto* from = reinterpret_cast<const typename decltype(tag)::type*>(stored);
    float* to = reinterpret_cast<float*>(computed);
    IVDEP for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
  });
}
// Whether operand k is no single number.
bool moves(const TensorIter& iter, int k) {
  const int64_t* strides = iter.strides[k];
  return std::any_of(strides, strides + iter.ndim, [](int64_t stride) { return stride != 0; });
}

// A loop over operands as they are stored, some in another type than the given loop takes.
class ConvertingLoop {
 public:
  ConvertingLoop(const TensorIter& iter, const ElementwiseLoop& loop, const void* formula)
      : loop_(loop), formula_(formula) {
    for (int k = 0; k <= loop.inputs; ++k) {
      const bool as_floats = k > 0 && iter.stored_dtype && moves(iter, k);
      const DType dtype = as_floats ? *iter.stored_dtype : iter.dtypes[k];
      const auto size = static_cast<int64_t>(item_size(dtype));
      if (!as_floats && (!converted_dtypes.has(dtype) || size == loop.sizes[k])) continue;
      if (!any()) stored_ = loop;
      converts_[k] = as_floats ? convert_to_floats : convert_row;
      any_ = true;
      dtypes_[k] = dtype;
      stored_.sizes[k] = size;
    }
    stored_.row = [](const void* self, char* const* data, int64_t n, bool) {
      static_cast<const ConvertingLoop*>(self)->run(data, n, false);
    };
    stored_.rows_with_numbers = nullptr;
    if (loop.row_with_number) {
      stored_.row_with_number = [](const void* self, char* const* data, int64_t n, bool) {
        static_cast<const ConvertingLoop*>(self)->run(data, n, true);
      };
    }
  }
  bool any() const { return any_; }
  const ElementwiseLoop& stored() const { return stored_; }

 private:
  void run(char* const* data, int64_t n, bool second_is_number) const {
    const int64_t chunk = buffer_bytes / largest_size(loop_);
    const auto run = second_is_number ? loop_.row_with_number : loop_.row;
    // Not a page apart, or a load would wait for a store to another buffer.
    alignas(64) char buffers[max_inputs + 1][buffer_bytes + 256];
    for (int64_t begin = 0; begin < n; begin += chunk) {
      const int64_t count = std::min(chunk, n - begin);
      char *at[max_inputs + 1], *to = nullptr;
      for (int k = 0; k <= loop_.inputs; ++k) {
        const bool single = k == 2 && second_is_number;
        at[k] = data[k] + (single ? 0 : begin * stored_.sizes[k]);
        if (!converts_[k]) continue;
        if (k > 0) converts_[k](dtypes_[k], at[k], buffers[k], single ? 1 : count);
        if (k == 0) to = at[0];
        at[k] = buffers[k];
      }
      run(formula_, at, count, false);
      if (to) convert_row_back(dtypes_[0], buffers[0], to, count);
    }
  }

  const ElementwiseLoop& loop_;
  const void* const formula_;
  ElementwiseLoop stored_;
  DType dtypes_[max_inputs + 1];
  decltype(&convert_row) converts_[max_inputs + 1] = {};
  bool any_ = false;
};

}  // namespace

void convert_row(DType dtype, const char* stored, char* computed, int64_t n) {
  dispatch<converted_dtypes>("convert_row", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = reinterpret_cast<const T*>(stored);
    if constexpr (is_reduced_type<T>) {
      load_row(from, reinterpret_cast<float*>(computed), n);
    } else {
      std::copy_n(from, n, reinterpret_cast<TwiceAsWide<T>*>(computed));
    }
  });
}
void convert_row_back(DType dtype, const char* computed, char* stored, int64_t n) {
  dispatch<converted_dtypes>("convert_row", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = reinterpret_cast<T*>(stored);
    if constexpr (is_reduced_type<T>) {
      store_row(reinterpret_cast<const float*>(computed), to, n);
    } else {
      std::copy_n(reinterpret_cast<const TwiceAsWide<T>*>(computed), n, to);
    }
  });
}

void run_elementwise(const TensorIter& iter, const ElementwiseLoop& loop, const void* formula,
                     int cost) {
  std::optional<WholeRegisters> whole;
  if (cost > 1) whole.emplace(loop, formula);
  const ElementwiseLoop& computed = whole ? whole->loop() : loop;
  const void* computing = whole ? &*whole : formula;
  const ConvertingLoop converting(iter, computed, computing);
  const ElementwiseLoop& stored = converting.any() ? converting.stored() : computed;
  const void* storing = converting.any() ? &converting : computing;
  static ResultTables tables;
  std::optional<ElementwiseLoop> look_up;
  ResultTables::Found table;
  if (ResultTable::serves(iter, loop, cost)) {
    table =
        tables.find(loop, iter.dtypes[1], formula, [&] { return ResultTable(stored, storing); });
    if (table && !table->is_faster()) table = nullptr;
    look_up = ResultTable::in_place_of(loop);
  }
  const bool streams = table || (loop.streams && !converting.any());
  const int64_t results = std::max(iter.numel, iter.part_of);
  const bool beyond_cache = results * largest_size(stored) >= cached_bytes;
  Driver driver(table ? *look_up : stored, table ? table.get() : storing, beyond_cache, streams,
                converting.any());
  for_each_block(iter, &driver, Driver::run_block, cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
