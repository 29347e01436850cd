// Brings operands of any layout to the loops over arrays of loops.h: what does not lie side by side
// goes through small buffers, a piece at a time.
#include "flambeau/cpu/kernels/lanes.h"
#include "flambeau/cpu/kernels/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Bytes of a buffer: small enough for a few in the first-level cache and on a small stack.
constexpr int64_t buffer_bytes = 4096;
constexpr int most_inputs = 3;
constexpr int64_t most_spread = 256;  // elements of rows whose single values are worth spreading
constexpr int64_t spread_bytes = register_bytes;

void move_elements(int64_t size, char* to, int64_t to_step, const char* from, int64_t from_step,
                   int64_t n) {
  dispatch_size(static_cast<size_t>(size), [&](auto tag) {
    move_strided<sizeof(typename decltype(tag)::type)>(to, to_step, from, from_step, n);
  });
}

// Each of `rows` elements, `step` bytes apart, n times side by side. Written by whole registers:
// the last one may reach up to `spread_bytes` beyond the end.
void spread_elements(int64_t size, char* to, const char* from, int64_t step, int64_t rows,
                     int64_t n) {
  dispatch_size(static_cast<size_t>(size), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int lanes = spread_bytes / sizeof(T);
    T* next = reinterpret_cast<T*>(to);
    for (int64_t row = 0; row < rows; ++row, from += step, next += n) {
      T values[lanes];
      std::fill_n(values, lanes, *reinterpret_cast<const T*>(from));
      const auto all = LanesOf<T, lanes>::load(values);
      for (int64_t i = 0; i < n; i += lanes) LanesOf<T, lanes>::store(all, next + i);
    }
  });
}

class Driver {
 public:
  explicit Driver(const ElementwiseLoop& loop)
      : loop_(loop),
        longest_(buffer_bytes / *std::max_element(loop.sizes, loop.sizes + loop.inputs + 1)) {}

  void run(char** data, const Block& block) const {
    if (block.m > 1 && join_rows(data, block)) return;
    char* at[most_inputs + 1];
    std::copy_n(data, loop_.inputs + 1, at);
    for (int64_t row = 0; row < block.m; ++row) {
      run_row(at, block.steps, block.n);
      for (int k = 0; k <= loop_.inputs; ++k) at[k] += block.row_steps[k];
    }
  }

 private:
  void dense(char* const* data, int64_t n, bool second_is_number = false) const {
    loop_.dense(loop_.formula, data, n, second_is_number);
  }
  // Whether operand k lies side by side.
  bool is_dense(const int64_t* steps, int k) const { return steps[k] == loop_.sizes[k]; }

  void run_row(char** data, const int64_t* steps, int64_t n) const {
    bool all_dense = true;  // but for the last input
    for (int k = 0; k < loop_.inputs; ++k) all_dense &= is_dense(steps, k);
    if (all_dense && is_dense(steps, loop_.inputs)) return dense(data, n);
    if (all_dense && loop_.inputs == 2 && steps[2] == 0) return dense(data, n, true);

    alignas(64) char buffers[most_inputs + 1][buffer_bytes];
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (steps[k] == 0) fill(k, buffers[k], data[k], std::min(n, longest_));
    }
    for (int64_t begin = 0; begin < n; begin += longest_) {
      const int64_t count = std::min(longest_, n - begin);
      char* at[most_inputs + 1];
      for (int k = 0; k <= loop_.inputs; ++k) {
        char* place = data[k] + begin * steps[k];
        at[k] = is_dense(steps, k) ? place : buffers[k];
        if (k > 0 && at[k] == buffers[k] && steps[k] != 0)
          move_elements(loop_.sizes[k], buffers[k], loop_.sizes[k], place, steps[k], count);
      }
      dense(at, count);
      if (!is_dense(steps, 0)) {
        const int64_t size = loop_.sizes[0];
        move_elements(size, data[0] + begin * steps[0], steps[0], buffers[0], size, count);
      }
    }
  }
  void fill(int k, char* buffer, const char* value, int64_t n) const {
    move_elements(loop_.sizes[k], buffer, loop_.sizes[k], value, 0, n);
  }

  // How an operand goes on from one short row to the next.
  enum class Rows { adjacent, same_row, one_value_each, other };
  Rows rows_of(const Block& block, int k) const {
    if (is_dense(block.steps, k) && block.row_steps[k] == block.n * loop_.sizes[k])
      return Rows::adjacent;
    if (block.row_steps[k] == 0) return Rows::same_row;
    return block.steps[k] == 0 && block.n <= most_spread ? Rows::one_value_each : Rows::other;
  }

  // Short rows at once, if the output and every input but those that repeat the same row or a value
  // along each row go on from row to row: those are written into a buffer several times. False if
  // it is not so.
  bool join_rows(char** data, const Block& block) const {
    const int64_t rows = std::min(longest_ / block.n, block.m);
    if (rows < 2) return false;
    Rows kinds[most_inputs + 1];
    for (int k = 0; k <= loop_.inputs; ++k) {
      kinds[k] = rows_of(block, k);
      if (kinds[k] == Rows::other || (k == 0 && kinds[k] != Rows::adjacent)) return false;
    }
    alignas(64) char buffers[most_inputs + 1][buffer_bytes + spread_bytes];
    for (int k = 1; k <= loop_.inputs; ++k) {
      if (kinds[k] != Rows::same_row) continue;
      const int64_t size = loop_.sizes[k];
      for (int64_t row = 0; row < rows; ++row) {
        move_elements(size, buffers[k] + row * block.n * size, size, data[k], block.steps[k],
                      block.n);
      }
    }
    for (int64_t row = 0; row < block.m; row += rows) {
      const int64_t count = std::min(rows, block.m - row);
      char* at[most_inputs + 1];
      for (int k = 0; k <= loop_.inputs; ++k) {
        char* place = data[k] + row * block.row_steps[k];
        at[k] = kinds[k] == Rows::adjacent ? place : buffers[k];
        if (kinds[k] == Rows::one_value_each)
          spread_elements(loop_.sizes[k], buffers[k], place, block.row_steps[k], count, block.n);
      }
      dense(at, count * block.n);
    }
    return true;
  }

  const ElementwiseLoop& loop_;
  const int64_t longest_;  // elements that every buffer has room for
};

}  // namespace

void run_elementwise(const TensorIter& iter, const ElementwiseLoop& loop, int cost) {
  const Driver driver(loop);
  for_each_block(
      iter, [&driver](char** data, const Block& block) { driver.run(data, block); }, cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
