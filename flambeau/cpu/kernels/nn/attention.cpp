// Attention on the CPU without a matrix of all scores: blocks of queries pass over blocks of keys,
// keeping a running maximum and sum a query. The backward pass computes the blocks again.
//
// Scores stand key by key: a register holds those of several queries for one key. So the largest
// score of each query, its sum, and what a mask or the exponential makes of it need no exchange
// between lanes, and every product has contiguous rows on its right, which is where products of
// small matrices are fastest. Only queries are transposed for it, once a block.
#include "flambeau/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/gemm/small.h"
#include "flambeau/cpu/kernels/nn/exp_rows.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Scores of a block and its keys stay in the second-level cache. Keys are a multiple of the rows
// that a product computes at a time.
constexpr int64_t query_block = 64, key_block = 192, step_rows = 12;

template <class T>
constexpr T nothing = -std::numeric_limits<T>::infinity();

// One head of one sample of a (batch, heads, steps, width) tensor.
template <class T>
struct Plane {
  T* data;
  int64_t row;
  [[nodiscard]] T* at(int64_t i) const { return data + i * row; }
};
template <class T>
Plane<T> plane(const Tensor& x, int64_t b, int64_t h) {
  const IntSpan strides = x.strides();
  return {x.data<T>() + b * strides[0] + h * strides[1], strides[2]};
}

// Blocks of queries and keys: how many, and which are the first ones.
struct Block {
  int64_t batch, head, query, rows, key, keys;
};

// Scores of a block, key by key or, of few queries, query by query.
template <class T>
struct Scores {
  T* data;
  bool by_key;
  [[nodiscard]] int64_t row() const { return by_key ? query_block : key_block; }
};

// Where queries may look: a mask of bools, or numbers to add, and whether only backwards.
template <class T>
struct Sight {
  const Tensor& mask;
  bool causal;

  void apply(const Scores<T>& scores, const Block& block) const {
    if (causal) look_back(scores, block);
    if (!mask.defined()) return;
    constexpr int64_t side = one<T>;
    T rows[side][key_block] = {}, transposed[key_block][side];
    for (int64_t i = 0; i < block.rows; i += side) {
      const int64_t some = std::min(side, block.rows - i);
      for (int64_t r = 0; r < some; ++r) read(block, i + r, rows[r]);
      if (scores.by_key) {
        transpose(rows[0], side, block.keys, key_block, transposed[0], side);
        for (int64_t j = 0; j < block.keys; ++j) {
          T* to = scores.data + j * scores.row() + i;
          for (int64_t r = 0; r < side; ++r) to[r] += transposed[j][r];
        }
      } else {
        for (int64_t r = 0; r < some; ++r) {
          T* to = scores.data + (i + r) * scores.row();
          for (int64_t j = 0; j < block.keys; ++j) to[j] += rows[r][j];
        }
      }
    }
  }

 private:
  static void look_back(const Scores<T>& scores, const Block& block) {
    for (int64_t j = 0; j < block.keys; ++j) {
      const int64_t before = std::clamp<int64_t>(block.key + j - block.query, 0, block.rows);
      if (scores.by_key) {
        std::fill_n(scores.data + j * scores.row(), before, nothing<T>);
      } else {
        for (int64_t i = 0; i < before; ++i) scores.data[i * scores.row() + j] = nothing<T>;
      }
    }
  }

  // What the mask adds to the scores of the block's query i.
  void read(const Block& block, int64_t i, T* out) const {
    const IntSpan s = mask.strides();
    const int64_t start =
        block.batch * s[0] + block.head * s[1] + (block.query + i) * s[2] + block.key * s[3];
    const auto each = [&](auto step, auto value) {
      for (int64_t j = 0; j < block.keys; ++j) out[j] = value(j * step);
    };
    const auto all = [&](auto value) {
      if (s[3] == 1) {
        each(std::integral_constant<int64_t, 1>(), value);
      } else {
        each(s[3], value);
      }
    };
    if (mask.dtype() == DType::bool_) {
      const StoredBool* allowed = mask.data<StoredBool>() + start;
      all([=](int64_t at) { return allowed[at] ? T(0) : nothing<T>; });
    } else {
      const T* added = mask.data<T>() + start;
      all([=](int64_t at) { return added[at]; });
    }
  }
};

// The number of keys that any query up to `last` looks at.
int64_t keys_seen(const Attention& p, int64_t last) {
  return p.causal ? std::min(p.keys, last) : p.keys;
}

// out (m, n) = a (m, k) @ b (k, n) * scale [+ out], of contiguous rows of b.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b,
              int64_t b_row, const Plane<T>& out, bool add, T scale = T(1)) {
  block_product<T>({m, n, k, a, a_row, a_col, b, b_row, 1, out.data, out.row, 1,
                    add ? out.data : nullptr, out.row, 1, scale, T(1)});
}

// --- Forward -------------------------------------------------------------------------------------

// Turns scores of one block of keys into their exponentials relative to the largest so far, and
// says by what sums of earlier blocks are to be multiplied for that.
template <class T>
struct RunningSoftmax {
  alignas(register_bytes) T most[query_block], total[query_block], factor[query_block];

  void begin() {
    std::fill_n(most, query_block, nothing<T>);
    std::fill_n(total, query_block, T(0));
  }

  void add(const Scores<T>& scores, int64_t rows, int64_t keys) {
    if (scores.by_key) {
      for (int64_t i = 0; i < rows; i += one<T>) add_lanes(scores.data + i, keys, i);
    } else {
      for (int64_t i = 0; i < rows; ++i) add_row(scores.data + i * scores.row(), keys, i);
    }
  }

 private:
  // A query that has seen nothing yet stays empty: exp(-inf - -inf) is no number.
  static constexpr T lowest = std::numeric_limits<T>::lowest();

  void add_lanes(T* scores, int64_t keys, int64_t i) {
    using Lanes = OneRegister<T>;
    constexpr int registers = 4;
    const auto before = Lanes::load(most + i);
    const int64_t whole = keys / registers * registers;
    typename Lanes::Register tops[registers] = {before, before, before, before};
    for (int64_t j = 0; j < whole; j += registers) {
#pragma GCC unroll 4
      for (int k = 0; k < registers; ++k) {
        tops[k] = larger_or_second(Lanes::load(scores + (j + k) * query_block), tops[k]);
      }
    }
    for (int64_t j = whole; j < keys; ++j) {
      tops[0] = larger_or_second(Lanes::load(scores + j * query_block), tops[0]);
    }
    const auto largest =
        larger_or_second(larger_or_second(tops[0], tops[1]), larger_or_second(tops[2], tops[3]));
    const auto shift = larger_or_second(largest, decltype(largest){} + lowest);
    typename Lanes::Register sums[registers] = {};
    const auto weigh = [&](int64_t j, int k) {
      const auto powers = Lanes::exp_below(Lanes::load(scores + j * query_block) - shift);
      sums[k] += powers;
      std::memcpy(scores + j * query_block, &powers, sizeof powers);
    };
    for (int64_t j = 0; j < whole; j += registers) {
#pragma GCC unroll 4
      for (int k = 0; k < registers; ++k) weigh(j + k, k);
    }
    for (int64_t j = whole; j < keys; ++j) weigh(j, 0);
    const auto scale = Lanes::exp_below(before - shift);
    const auto sum = Lanes::load(total + i) * scale + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    std::memcpy(most + i, &largest, sizeof largest);
    std::memcpy(factor + i, &scale, sizeof scale);
    std::memcpy(total + i, &sum, sizeof sum);
  }

  void add_row(T* scores, int64_t keys, int64_t i) {
    const T before = most[i];
    most[i] = std::max(before, row_max(scores, keys));
    const T shift = std::max(most[i], lowest);
    factor[i] = std::exp(before - shift);
    total[i] = total[i] * factor[i] + row_exp_sum<true>(scores, keys, shift, scores);
  }
};

template <class T>
struct Forward {
  const Attention& p;
  Tensor q, k, v, out, lse;
  Sight<T> sight;
  bool beyond_cache = out.numel() * static_cast<int64_t>(sizeof(T)) >= cached_bytes;

  // The memory of a thread: transposed queries, scores, and sums of weighted values.
  struct Scratch {
    explicit Scratch(const Attention& p)
        : queries(p.width * query_block),
          scores(query_block * key_block),
          sums(query_block * p.value_width) {}
    std::vector<T> queries, scores, sums;
    RunningSoftmax<T> softmax;
  };

  // What a task reads: a block of queries, and the keys and values of its head.
  struct Task {
    int64_t b, h, first, rows;
    Plane<T> query, key, value;
  };
  [[nodiscard]] int64_t tasks() const { return p.batch * p.heads * blocks(); }
  [[nodiscard]] Task task(int64_t index) const {
    const int64_t first = index % blocks() * query_block, head = index / blocks();
    const int64_t b = head / p.heads, h = head % p.heads, kv = h * p.kv_heads / p.heads;
    const Plane<T> query = plane<T>(q, b, h);
    return {b,
            h,
            first,
            std::min(query_block, p.queries - first),
            {query.at(first), query.row},
            plane<T>(k, b, kv),
            plane<T>(v, b, kv)};
  }

  // What the next task reads and this one does not, where it comes from memory: asked for a few
  // rows at a time while products are computed, since all of it would fill the ways to memory.
  class Coming {
   public:
    Coming(const Attention& p, const Task& now, const Task& next, bool from_memory)
        : parts_{next.query, next.key, next.value}, widths_{p.width, p.width, p.value_width} {
      if (!from_memory) return;
      rows_[0] = next.first == now.first && next.h == now.h && next.b == now.b ? 0 : next.rows;
      rows_[1] = rows_[2] = next.key.data == now.key.data ? 0 : std::min(p.keys, key_block);
      const int64_t steps = (now.rows + std::min(p.keys, key_block)) / step_rows + 1;
      at_once_ = (rows_[0] + rows_[1] + rows_[2]) / steps + 1;
    }
    [[nodiscard]] bool any() const { return at_once_ > 0; }
    void ask_for_some() {
      constexpr int64_t line = 64 / sizeof(T);
      for (int64_t count = at_once_; count > 0 && part_ < 3;) {
        if (row_ == rows_[part_]) {
          ++part_, row_ = 0;
          continue;
        }
        const T* row = parts_[part_].at(row_++);
        for (int64_t d = 0; d < widths_[part_]; d += line) ask_second_level(row + d);
        --count;
      }
    }

   private:
    Plane<T> parts_[3];
    int64_t widths_[3], rows_[3] = {}, at_once_ = 0, row_ = 0;
    int part_ = 0;
  };

  // A product of contiguous rows of b, and what comes next.
  static void multiply_and_prefetch(Coming& coming, int64_t m, int64_t n, int64_t k, const T* a,
                                    int64_t a_row, int64_t a_col, const T* b, int64_t b_row,
                                    const Plane<T>& out, bool add, T scale = T(1)) {
    const int64_t step = coming.any() ? step_rows : m;
    for (int64_t i = 0; i < m; i += step) {
      coming.ask_for_some();
      multiply<T>(std::min(step, m - i), n, k, a + i * a_row, a_row, a_col, b, b_row,
                  {out.at(i), out.row}, add, scale);
    }
  }

  // Computes a task; parts of the next one are on their way from memory meanwhile.
  void run(const Task& now, const Task& next, Scratch& scratch) const {
    const auto& [b, h, first, rows, query, key, value] = now;
    const Plane<T> sums{scratch.sums.data(), p.value_width};
    const Scores<T> scores{scratch.scores.data(), rows >= few_rows};
    const auto scale = static_cast<T>(p.scale);
    RunningSoftmax<T>& softmax = scratch.softmax;
    softmax.begin();
    if (scores.by_key) {
      transpose(query.data, rows, p.width, query.row, scratch.queries.data(), query_block);
    }
    Coming coming(p, now, next, beyond_cache);
    const int64_t end = keys_seen(p, first + rows);
    for (int64_t j = 0; j < end; j += key_block) {
      const int64_t n = std::min(key_block, end - j);
      if (scores.by_key) {
        multiply_and_prefetch(coming, n, rows, p.width, key.at(j), key.row, 1,
                              scratch.queries.data(), query_block, {scores.data, query_block},
                              false, scale);
      } else {
        block_product<T>({rows, n, p.width, query.data, query.row, 1, key.at(j), 1, key.row,
                          scores.data, key_block, 1, nullptr, 0, 0, scale, T(0)});
      }
      sight.apply(scores, {b, h, first, rows, j, n});
      softmax.add(scores, rows, n);
      for (int64_t i = 0; j > 0 && i < rows; ++i) {
        const T factor = softmax.factor[i];
        if (factor == T(1)) continue;
        T* sum = sums.at(i);
        for (int64_t d = 0; d < p.value_width; ++d) sum[d] *= factor;
      }
      multiply_and_prefetch(coming, rows, p.value_width, n, scores.data,
                            scores.by_key ? 1 : key_block, scores.by_key ? query_block : 1,
                            value.at(j), value.row, sums, j > 0);
    }
    if (end == 0) std::fill_n(sums.data, rows * p.value_width, T(0));
    finish(softmax, sums, now);
  }

 private:
  [[nodiscard]] int64_t blocks() const { return (p.queries + query_block - 1) / query_block; }

  void finish(const RunningSoftmax<T>& softmax, const Plane<T>& sums, const Task& now) const {
    const Plane<T> to = plane<T>(out, now.b, now.h);
    for (int64_t i = 0; i < now.rows; ++i) {
      const T total = softmax.total[i], scale = total > T(0) ? T(1) / total : total;
      const T* sum = sums.at(i);
      T* row = to.at(now.first + i);
      if constexpr (std::is_same_v<T, float>) {
        if (beyond_cache) {
          transform_row(sum, row, p.value_width, true,
                        [=](Floats v, int64_t) { return v * scale; });
          continue;
        }
      }
      IVDEP for (int64_t d = 0; d < p.value_width; ++d) row[d] = sum[d] * scale;
    }
    T* logs = lse.data<T>() + (now.b * p.heads + now.h) * p.queries + now.first;
    IVDEP for (int64_t i = 0; i < now.rows; ++i) {
      logs[i] = softmax.most[i] + math::log(softmax.total[i]);
    }
  }
};

void attention_kernel(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& mask, const Tensor& out, const Tensor& lse) {
  dispatch<DType::float32 | DType::float64>(
      "scaled_dot_product_attention", q.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Forward<T> forward{p, q, k, v, out, lse, {mask, p.causal}};
        parallel_for(0, forward.tasks(), 1, [&](int64_t begin, int64_t end) {
          typename Forward<T>::Scratch scratch(p);
          for (int64_t i = begin; i < end; ++i) {
            forward.run(forward.task(i), forward.task(std::min(i + 1, end - 1)), scratch);
          }
          _mm_sfence();  // for non-temporal stores of rows
        });
      });
}
KERNEL_FOR(attention, attention_kernel)

// --- Backward ------------------------------------------------------------------------------------

template <class T>
struct Backward {
  const Attention& p;
  Tensor grad, q, k, v, out, lse, grad_q, grad_k, grad_v;
  Sight<T> sight;

  // The memory of a thread: queries and incoming gradients transposed, and of each score its weight
  // and its gradient.
  struct Scratch {
    explicit Scratch(const Attention& p)
        : queries(p.width * query_block),
          grads(p.value_width * query_block),
          weights(query_block * key_block),
          slopes(query_block * key_block) {}
    std::vector<T> queries, grads, weights, slopes;
    alignas(register_bytes) T logs[query_block], means[query_block];
  };

  // All that one head of queries gives to the gradients of its keys and values.
  void head(int64_t b, int64_t h, Scratch& scratch) const {
    const int64_t kv = h * p.kv_heads / p.heads;
    const Plane<T> g = plane<T>(grad, b, h), query = plane<T>(q, b, h),
                   result = plane<T>(out, b, h), key = plane<T>(k, b, kv),
                   value = plane<T>(v, b, kv), to_q = plane<T>(grad_q, b, h),
                   to_k = plane<T>(grad_k, b, kv), to_v = plane<T>(grad_v, b, kv);
    T *weights = scratch.weights.data(), *slopes = scratch.slopes.data();
    for (int64_t i = 0; i < p.queries; i += query_block) {
      const int64_t rows = std::min(query_block, p.queries - i), end = keys_seen(p, i + rows);
      // A single query is a vector, whose products with keys and values are sums along both.
      const int64_t wide = rows == 1 ? 1 : query_block;
      transpose(query.at(i), rows, p.width, query.row, scratch.queries.data(), wide);
      transpose(g.at(i), rows, p.value_width, g.row, scratch.grads.data(), wide);
      const T* logs = lse.data<T>() + (b * p.heads + h) * p.queries + i;
      for (int64_t r = 0; r < rows; ++r) {
        // No score is above what a query that sees nothing is compared with.
        scratch.logs[r] = logs[r] == nothing<T> ? -nothing<T> : logs[r];
        scratch.means[r] = dot(g.at(i + r), result.at(i + r), p.value_width);
      }
      for (int64_t j = 0; j < end; j += key_block) {
        const int64_t n = std::min(key_block, end - j);
        multiply<T>(n, rows, p.width, key.at(j), key.row, 1, scratch.queries.data(), wide,
                    {weights, query_block}, false, static_cast<T>(p.scale));
        multiply<T>(n, rows, p.value_width, value.at(j), value.row, 1, scratch.grads.data(), wide,
                    {slopes, query_block}, false);
        sight.apply({weights, true}, {b, h, i, rows, j, n});
        differentiate(scratch, rows, n);
        multiply<T>(n, p.value_width, rows, weights, query_block, 1, g.at(i), g.row,
                    {to_v.at(j), to_v.row}, true);
        multiply<T>(n, p.width, rows, slopes, query_block, 1, query.at(i), query.row,
                    {to_k.at(j), to_k.row}, true);
        multiply<T>(rows, p.width, n, slopes, 1, query_block, key.at(j), key.row,
                    {to_q.at(i), to_q.row}, j > 0);
      }
    }
  }

 private:
  static T dot(const T* a, const T* b, int64_t n) {
    T lanes[one<T>] = {};
    int64_t d = 0;
    for (; d + one<T> <= n; d += one<T>) {
      for (int j = 0; j < one<T>; ++j) lanes[j] += a[d + j] * b[d + j];
    }
    T rest = 0;
    for (; d < n; ++d) rest += a[d] * b[d];
    return fold_sum<one<T>>(lanes) + rest;
  }

  // Scores become weights, and the gradients of weights those of scores.
  void differentiate(Scratch& scratch, int64_t rows, int64_t keys) const {
    using Lanes = OneRegister<T>;
    const auto scale = static_cast<T>(p.scale);
    for (int64_t i = 0; i < rows; i += one<T>) {
      const auto log = Lanes::load(scratch.logs + i), mean = Lanes::load(scratch.means + i);
      for (int64_t j = 0; j < keys; ++j) {
        T *w = scratch.weights.data() + j * query_block + i,
          *s = scratch.slopes.data() + j * query_block + i;
        const auto weight = Lanes::exp_below(Lanes::load(w) - log);
        const auto slope = weight * (Lanes::load(s) - mean) * scale;
        std::memcpy(w, &weight, sizeof weight);
        std::memcpy(s, &slope, sizeof slope);
      }
    }
  }
};

void attention_backward_kernel(const Attention& p, const Tensor& grad, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& mask,
                               const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                               const Tensor& grad_k, const Tensor& grad_v) {
  dispatch<DType::float32 | DType::float64>(
      "scaled_dot_product_attention", q.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        std::fill_n(grad_q.data<T>(), grad_q.numel(), T(0));
        std::fill_n(grad_k.data<T>(), grad_k.numel(), T(0));
        std::fill_n(grad_v.data<T>(), grad_v.numel(), T(0));
        const Backward<T> backward{
            p, grad, q, k, v, out, lse, grad_q, grad_k, grad_v, {mask, p.causal}};
        // Heads that share keys are one task, so that nobody else adds to their gradients.
        const int64_t group = p.heads / p.kv_heads;
        parallel_for(0, p.batch * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
          typename Backward<T>::Scratch scratch(p);
          for (int64_t task = begin; task < end; ++task) {
            for (int64_t g = 0; g < group; ++g) {
              backward.head(task / p.kv_heads, task % p.kv_heads * group + g, scratch);
            }
          }
        });
      });
}
KERNEL_FOR(attention_backward, attention_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
