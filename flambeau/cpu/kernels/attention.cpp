// Attention on the CPU without a matrix of all scores: blocks of queries pass over blocks of keys,
// keeping a running maximum and sum a row. The backward pass computes the blocks again.
#include "flambeau/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/exp_rows.h"
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/matmul.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// A block of scores stays in the second-level cache.
constexpr int64_t query_block = 64, key_block = 512;

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

// out (m, n) = a (m, k) @ b (k, n) [+ out]; strides in rows, columns as given.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b,
          int64_t b_row, int64_t b_col, T* out, int64_t out_row, bool add, double alpha = 1) {
  if (m == 0 || n == 0) return;
  Gemm p;
  p.op = "scaled_dot_product_attention";
  p.dtype = dtype_of<T>;
  p.m = m, p.n = n, p.k = k;
  p.a.data = const_cast<T*>(a), p.a.row = a_row, p.a.col = a_col;
  p.b.data = const_cast<T*>(b), p.b.row = b_row, p.b.col = b_col;
  p.out.data = out, p.out.row = out_row, p.out.col = 1;
  p.alpha = alpha;
  if (add) p.addend = p.out, p.beta = 1.0;
  kernels::gemm(DeviceType::cpu, p);
}

// Where queries may look: a mask of bools, or numbers to add, and whether only backwards.
template <class T>
struct Sight {
  const Tensor& mask;
  bool causal;

  // Applies both to the scores of query i for the keys first .. first + n.
  void apply(T* scores, int64_t b, int64_t h, int64_t i, int64_t first, int64_t n) const {
    constexpr T never = -std::numeric_limits<T>::infinity();
    if (causal) {
      for (int64_t j = std::max<int64_t>(0, i + 1 - first); j < n; ++j) scores[j] = never;
    }
    if (!mask.defined()) return;
    const IntSpan s = mask.strides();
    const int64_t start = b * s[0] + h * s[1] + i * s[2] + first * s[3];
    if (mask.dtype() == DType::bool_) {
      const bool* allowed = mask.data<bool>() + start;
      for (int64_t j = 0; j < n; ++j) scores[j] = allowed[j * s[3]] ? scores[j] : never;
    } else {
      const T* added = mask.data<T>() + start;
      for (int64_t j = 0; j < n; ++j) scores[j] += added[j * s[3]];
    }
  }
};

// The number of keys that any query up to `last` looks at.
int64_t keys_seen(const Attention& p, int64_t last) {
  return p.causal ? std::min(p.keys, last) : p.keys;
}

// --- Forward -------------------------------------------------------------------------------------

template <class T>
struct Forward {
  const Attention& p;
  Tensor q, k, v, out, lse;
  Sight<T> sight;

  // Few keys, all of them in one block: the exponentials of several rows of scores together, and
  // their largest elements and sums. False where rows are too long, too short, or may see nothing.
  bool weigh_at_once(int64_t b, int64_t h, int64_t first, int64_t rows, int64_t n, T* scores,
                     std::vector<T>& most, std::vector<T>& total) const {
    constexpr int width = one<T>;
    if (n < width || n > middle_row || sight.mask.defined()) return false;
    for (int64_t i = 0; i < rows; i += width) {
      const int64_t some = std::min<int64_t>(width, rows - i);
      T* group = scores + i * n;
      for (int64_t r = 0; r < some; ++r) sight.apply(group + r * n, b, h, first + i + r, 0, n);
      T largest[width][width], sums[width][width];
      exp_sums_of_rows<true>(group, group, n, some, largest, sums);
      std::copy_n(largest[0], some, most.data() + i);
      std::copy_n(sums[0], some, total.data() + i);
    }
    return true;
  }

  void block(int64_t b, int64_t h, int64_t first, int64_t rows, T* scores) const {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    const int64_t kv = h * p.kv_heads / p.heads;
    const Plane<T> query = plane<T>(q, b, h), key = plane<T>(k, b, kv), value = plane<T>(v, b, kv),
                   to = plane<T>(out, b, h);
    std::vector<T> most(rows, lowest), total(rows, T(0));
    const int64_t end = keys_seen(p, first + rows);
    for (int64_t j = 0; j < end; j += key_block) {
      const int64_t n = std::min(key_block, end - j);
      gemm<T>(rows, n, p.width, query.at(first), query.row, 1, key.at(j), 1, key.row, scores, n,
              false, p.scale);
      if (j == 0 && n == end && weigh_at_once(b, h, first, rows, n, scores, most, total)) {
        gemm<T>(rows, p.value_width, n, scores, n, 1, value.at(0), value.row, 1, to.at(first),
                to.row, false);
        break;
      }
      for (int64_t i = 0; i < rows; ++i) {
        T* row = scores + i * n;
        sight.apply(row, b, h, first + i, j, n);
        const T before = most[i], now = std::max(before, row_max(row, n));
        // A row that has seen nothing yet stays empty: exp(-inf - -inf) is no number.
        const T shift = now == lowest ? T(0) : now;
        const T factor = j == 0 ? T(0) : std::exp(before - shift);
        total[i] = total[i] * factor + row_exp_sum<true>(row, n, shift, row);
        most[i] = now;
        if (j > 0 && factor != T(1)) {
          T* sum = to.at(first + i);
          for (int64_t d = 0; d < p.value_width; ++d) sum[d] *= factor;
        }
      }
      gemm<T>(rows, p.value_width, n, scores, n, 1, value.at(j), value.row, 1, to.at(first), to.row,
              j > 0);
    }
    T* logs = lse.data<T>() + (b * p.heads + h) * p.queries + first;
    for (int64_t i = 0; i < rows; ++i) {
      T* sum = to.at(first + i);
      const T scale = total[i] > T(0) ? T(1) / total[i] : total[i] == T(0) ? T(0) : total[i];
      for (int64_t d = 0; d < p.value_width; ++d) sum[d] = end == 0 ? T(0) : sum[d] * scale;
      logs[i] = most[i] + std::log(total[i]);
    }
  }
};

void attention_kernel(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& mask, const Tensor& out, const Tensor& lse) {
  dispatch<DType::float32 | DType::float64>(
      "scaled_dot_product_attention", q.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Forward<T> forward{p, q, k, v, out, lse, {mask, p.causal}};
        const int64_t blocks = (p.queries + query_block - 1) / query_block;
        parallel_for(0, p.batch * p.heads * blocks, 1, [&](int64_t begin, int64_t end) {
          std::vector<T> scores(std::min(query_block, p.queries) * std::min(key_block, p.keys));
          for (int64_t task = begin; task < end; ++task) {
            const int64_t first = task % blocks * query_block, head = task / blocks;
            forward.block(head / p.heads, head % p.heads, first,
                          std::min(query_block, p.queries - first), scores.data());
          }
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

  // All that one head of queries gives to the gradients of its keys and values.
  void head(int64_t b, int64_t h, T* weights, T* slopes, T* delta) const {
    const int64_t kv = h * p.kv_heads / p.heads;
    const Plane<T> g = plane<T>(grad, b, h), query = plane<T>(q, b, h), to = plane<T>(out, b, h),
                   key = plane<T>(k, b, kv), value = plane<T>(v, b, kv),
                   to_q = plane<T>(grad_q, b, h), to_k = plane<T>(grad_k, b, kv),
                   to_v = plane<T>(grad_v, b, kv);
    const T* logs = lse.data<T>() + (b * p.heads + h) * p.queries;
    for (int64_t i = 0; i < p.queries; ++i) {
      T sum = 0;
      for (int64_t d = 0; d < p.value_width; ++d) sum += g.at(i)[d] * to.at(i)[d];
      delta[i] = sum;
    }
    for (int64_t i = 0; i < p.queries; i += query_block) {
      const int64_t rows = std::min(query_block, p.queries - i), end = keys_seen(p, i + rows);
      for (int64_t j = 0; j < end; j += key_block) {
        const int64_t n = std::min(key_block, end - j);
        gemm<T>(rows, n, p.width, query.at(i), query.row, 1, key.at(j), 1, key.row, weights, n,
                false, p.scale);
        gemm<T>(rows, n, p.value_width, g.at(i), g.row, 1, value.at(j), 1, value.row, slopes, n,
                false);
        for (int64_t r = 0; r < rows; ++r) {
          T *w = weights + r * n, *s = slopes + r * n;
          sight.apply(w, b, h, i + r, j, n);
          const T log = logs[i + r], mean = delta[i + r], scale = static_cast<T>(p.scale);
          if (log == -std::numeric_limits<T>::infinity()) {
            std::fill_n(w, n, T(0)), std::fill_n(s, n, T(0));
            continue;
          }
          int64_t c = 0;
          if constexpr (std::is_same_v<T, float>) {
            for (; c + float_lanes <= n; c += float_lanes) {
              const Floats weight = exp_below(load_floats(w + c) - log);
              store_floats(weight, w + c);
              store_floats(weight * (load_floats(s + c) - mean) * scale, s + c);
            }
          }
          IVDEP for (int64_t d = c; d < n; ++d) {
            w[d] = math::exp(w[d] - log);
            s[d] = w[d] * (s[d] - mean) * scale;
          }
        }
        gemm<T>(n, p.value_width, rows, weights, 1, n, g.at(i), g.row, 1, to_v.at(j), to_v.row,
                true);
        gemm<T>(n, p.width, rows, slopes, 1, n, query.at(i), query.row, 1, to_k.at(j), to_k.row,
                true);
        gemm<T>(rows, p.width, n, slopes, n, 1, key.at(j), key.row, 1, to_q.at(i), to_q.row, j > 0);
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
          const int64_t size = std::min(query_block, p.queries) * std::min(key_block, p.keys);
          std::vector<T> weights(size), slopes(size), delta(p.queries);
          for (int64_t task = begin; task < end; ++task) {
            for (int64_t g = 0; g < group; ++g) {
              backward.head(task / p.kv_heads, task % p.kv_heads * group + g, weights.data(),
                            slopes.data(), delta.data());
            }
          }
        });
      });
}
KERNEL_FOR(attention_backward, attention_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
