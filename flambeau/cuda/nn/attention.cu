// The choice of a way to compute attention, and the one that always works: scores by matrix
// products, for as many heads at a time as a bounded workspace holds, with mask and softmax in one
// kernel between them. It is left with double precision, wide heads and masks of half precision.
// Scores of half precision are kept in single precision up to the softmax. The gradient makes the
// scores again.
#include "flambeau/cuda/nn/attention.h"

#include <limits>

#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/gemm/gemm.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/random/random.cuh"
#include "flambeau/cuda/reduce/rows_of.cuh"

namespace flambeau::cuda {
namespace {

constexpr int64_t workspace_limit = int64_t{512} << 20;

// Which scores count, and what is added to them.
struct MaskView {
  const void* data = nullptr;
  bool is_bool = false;
  int64_t strides[4] = {};
  explicit MaskView(const Tensor& mask) {
    if (!mask.defined()) return;
    data = mask.raw();
    is_bool = mask.dtype() == DType::bool_;
    std::copy_n(mask.strides().begin(), 4, strides);
  }
};

// A row of scores: of query `query` of head `head` of batch `batch`.
struct ScoreRow {
  int64_t batch, head, query;
};
struct RowShape {
  int64_t first_batch, heads, first_head, chunk_heads;
  int64_t first_query, queries, all_queries, keys;
  bool causal;
  __device__ ScoreRow row(int64_t r) const {
    const int64_t line = r / queries;
    return {first_batch + line / chunk_heads, first_head + line % chunk_heads,
            first_query + r % queries};
  }
  // Where a row's number lies in (batch, heads, queries).
  __device__ int64_t place(const ScoreRow& at) const {
    return (at.batch * heads + at.head) * all_queries + at.query;
  }
};

// The score with what the mask does to it.
template <class T, class C>
__device__ C masked(C score, const MaskView& mask, const ScoreRow& at, int64_t key) {
  constexpr C never = -std::numeric_limits<C>::infinity();
  if (!mask.data) return score;
  const int64_t place = at.batch * mask.strides[0] + at.head * mask.strides[1] +
                        at.query * mask.strides[2] + key * mask.strides[3];
  if (mask.is_bool) return static_cast<const bool*>(mask.data)[place] ? score : never;
  return score + static_cast<C>(static_cast<const T*>(mask.data)[place]);
}

// Where a row's scores end that count.
__device__ inline int64_t seen_keys(const RowShape& shape, const ScoreRow& at) {
  return shape.causal ? min(shape.keys, at.query + 1) : shape.keys;
}

// Calls body(values, i) for this lane's scores of a row, N neighbours at a time and up to `end`;
// what lies behind is -infinity.
template <class T, int Lanes, int N, class C, class Body>
__device__ void for_scores(const C* scores, const MaskView& mask, const ScoreRow& at, int64_t end,
                           const Body& body) {
  for (int64_t i = threadIdx.x * N; i < end; i += Lanes * N) {
    const auto words = *reinterpret_cast<const Vector<C, N>*>(scores + i);
    C values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values[j] = i + j < end ? masked<T>(words.values[j], mask, at, i + j)
                              : -std::numeric_limits<C>::infinity();
    }
    body(values, i);
  }
}

template <class T, int Lanes, int N>
__device__ void fill_zeros(T* row, int64_t begin, int64_t end) {
  const int64_t first = (begin + N - 1) / N * N;
  for (int64_t i = first + threadIdx.x * N; i < end; i += Lanes * N) {
    *reinterpret_cast<Vector<T, N>*>(row + i) = Vector<T, N>{};
  }
}

// Softmax of the rows of `scores` into `weights`, which may be the same memory.
template <class T, int Lanes, int N>
__global__ void __launch_bounds__(row_threads<Lanes>)
    weight_rows(const ComputeType<T>* scores, T* weights, ComputeType<T>* lse,
                const __grid_constant__ MaskView mask, const __grid_constant__ RowShape shape,
                int64_t rows) {
  using C = ComputeType<T>;
  const int64_t r = my_row();
  if (r >= rows) return;
  const ScoreRow at = shape.row(r);
  scores += r * shape.keys;
  weights += r * shape.keys;
  const int64_t end = seen_keys(shape, at);
  ExpSum<C> mine = no_exp_sum<C>();
  for_scores<T, Lanes, N>(scores, mask, at, end,
                          [&](const C(&values)[N], int64_t) { mine.add(values); });
  const ExpSum<C> all = fold_row<Lanes>(mine, MergeExpSums<C>());
  // A row that may look nowhere has no weights.
  const bool blind = all.most == -std::numeric_limits<C>::infinity();
  const C factor = blind ? C(0) : C(1) / all.sum;
  for_scores<T, Lanes, N>(scores, mask, at, end, [&](const C(&values)[N], int64_t i) {
    Vector<T, N> words;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      words.values[j] = static_cast<T>(blind ? C(0) : math::exp(values[j] - all.most) * factor);
    }
    *reinterpret_cast<Vector<T, N>*>(weights + i) = words;
  });
  fill_zeros<T, Lanes, N>(weights, end, shape.keys);
  if (threadIdx.x == 0) {
    lse[shape.place(at)] = all.log_sum();
  }
}

// The strides of a tensor (batch, heads, steps, width) but for the last.
struct RowStrides {
  int64_t batch, head, step;
  explicit RowStrides(const Tensor& x)
      : batch(x.strides()[0]), head(x.strides()[1]), step(x.strides()[2]) {}
  __device__ int64_t of(const ScoreRow& at) const {
    return at.batch * batch + at.head * head + at.query * step;
  }
};

// From scores and gradients of weights to weights and gradients of scores, which may be the same
// memory as their sources.
template <class T, int Lanes, int N>
__global__ void __launch_bounds__(row_threads<Lanes>)
    gradient_rows(const ComputeType<T>* scores, T* weights, const ComputeType<T>* grad_weights,
                  T* grad_scores, const ComputeType<T>* lse, const T* grad, RowStrides grad_at,
                  const T* out, RowStrides out_at, const __grid_constant__ MaskView mask,
                  const __grid_constant__ RowShape shape, int64_t rows, int64_t width) {
  using C = ComputeType<T>;
  const int64_t r = my_row();
  if (r >= rows) return;
  const ScoreRow at = shape.row(r);
  scores += r * shape.keys;
  weights += r * shape.keys;
  grad_weights += r * shape.keys;
  grad_scores += r * shape.keys;
  grad += grad_at.of(at);
  out += out_at.of(at);
  Single<C> mine{C(0)};
  for (int64_t i = threadIdx.x; i < width; i += Lanes) {
    mine.value += static_cast<C>(grad[i]) * static_cast<C>(out[i]);
  }
  const C passed = fold_row<Lanes>(mine, AddSingles<C>()).value;
  const C log_sum = lse[shape.place(at)];
  const bool blind = log_sum == -std::numeric_limits<C>::infinity();
  const int64_t end = seen_keys(shape, at);
  for_scores<T, Lanes, N>(scores, mask, at, end, [&](const C(&values)[N], int64_t i) {
    const auto gradients = *reinterpret_cast<const Vector<C, N>*>(grad_weights + i);
    Vector<T, N> words, grad_words;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C weight = blind ? C(0) : math::exp(values[j] - log_sum);
      words.values[j] = static_cast<T>(weight);
      grad_words.values[j] = static_cast<T>(weight * (gradients.values[j] - passed));
    }
    *reinterpret_cast<Vector<T, N>*>(weights + i) = words;
    *reinterpret_cast<Vector<T, N>*>(grad_scores + i) = grad_words;
  });
  fill_zeros<T, Lanes, N>(weights, end, shape.keys);
  fill_zeros<T, Lanes, N>(grad_scores, end, shape.keys);
}

// Calls body(integral constants Lanes, N) for rows of this many scores.
template <class C, class Body>
void with_row_shape(int64_t keys, const Body& body) {
  constexpr int wide = 16 / static_cast<int>(sizeof(C));
  const auto with_width = [&](auto lanes) {
    if (keys % wide == 0) return body(lanes, std::integral_constant<int, wide>());
    body(lanes, std::integral_constant<int, 1>());
  };
  if (keys <= short_row) return with_width(std::integral_constant<int, warp>());
  with_width(std::integral_constant<int, block_size>());
}

// One product for each of `count` heads of one batch, `step` elements apart.
struct Operands {
  LtMatrix a, b, out;
};
void multiply(const char* op, DType dtype, int64_t m, int64_t n, int64_t k, int64_t count,
              const Operands& operands, double alpha, bool accumulate, bool wide, int device) {
  LtProduct p{};
  p.op = op;
  p.dtype = dtype;
  p.m = m, p.n = n, p.k = k, p.count = count;
  p.a = operands.a, p.b = operands.b, p.out = operands.out, p.c = operands.out;
  p.alpha = alpha, p.beta = accumulate ? 1.0 : 0.0;
  p.wide_out = wide;
  CHECK(run_lt(p, device), RuntimeError, "{}: cuBLASLt has no algorithm for {} x {} x {}", op, m, n,
        k);
}

// The matrices of heads of a tensor (batch, heads, steps, width), from head `head` on.
LtMatrix heads_of(const Tensor& x, int64_t batch, int64_t head, int64_t head_step = 1,
                  int64_t first_row = 0) {
  const int64_t offset =
      batch * x.strides()[0] + head * x.strides()[1] + first_row * x.strides()[2];
  char* data = static_cast<char*>(x.raw()) + offset * static_cast<int64_t>(x.item_size());
  return {data, false, std::max(x.strides()[2], x.sizes()[3]), x.strides()[1] * head_step};
}
LtMatrix transposed(LtMatrix m) {
  m.transposed = !m.transposed;
  return m;
}

// A tensor whose rows lie apart, as products want it; one that is spread over a dimension is
// copied.
Tensor rows_apart(const Tensor& x) {
  return x.sizes()[2] > 1 && x.strides()[2] < x.sizes()[3]
             ? dense("scaled_dot_product_attention", x)
             : x;
}

// Queries that are worked on together, and the keys that they look at: causal attention leaves out
// what lies behind its last query.
struct QueryBlock {
  int64_t first, queries, keys;
};
constexpr int64_t causal_block = 512;
template <class Body>
void for_query_blocks(const Attention& p, const Body& body) {
  const int64_t size = p.causal && p.queries >= 2 * causal_block ? causal_block : p.queries;
  for (int64_t first = 0; first < p.queries; first += size) {
    const int64_t count = std::min(size, p.queries - first);
    body(QueryBlock{first, count, p.causal ? std::min(p.keys, first + count) : p.keys});
  }
}

// How many batches and heads are worked on together.
struct Chunks {
  int64_t batches, heads, count;
  Chunks(Attention p, const QueryBlock& block, size_t bytes_per_score) {
    p.queries = block.queries, p.keys = block.keys;
    const int64_t head_bytes = p.queries * p.keys * static_cast<int64_t>(bytes_per_score);
    const int64_t fit = std::max<int64_t>(workspace_limit / std::max<int64_t>(head_bytes, 1), 1);
    const int64_t group = p.heads / p.kv_heads;
    // Whole groups of heads that share keys, unless one is too large.
    heads = std::min(p.heads, std::max(fit / group * group, group));
    batches = heads == p.heads ? std::clamp<int64_t>(fit / p.heads, 1, p.batch) : 1;
    count = batches * heads * p.queries * p.keys;
  }
};

// Calls body(first batch, batches, first head, heads) for all chunks.
template <class Body>
void for_chunks(const Attention& p, const Chunks& c, const Body& body) {
  for (int64_t b = 0; b < p.batch; b += c.batches) {
    for (int64_t h = 0; h < p.heads; h += c.heads) {
      body(b, std::min(c.batches, p.batch - b), h, std::min(c.heads, p.heads - h));
    }
  }
}

// Scores of a chunk lie one head after the other.
struct ChunkOfScores {
  char* data;
  int64_t item, queries, keys, heads;
  [[nodiscard]] LtMatrix at(int64_t batch, int64_t head, int64_t head_step = 1) const {
    const int64_t matrix = queries * keys;
    return {data + (batch * heads + head) * matrix * item, false, keys, matrix * head_step};
  }
};

// Runs a product for all heads of a chunk. With shared keys each of a group's heads takes a turn.
template <class Body>
void for_head_groups(const Attention& p, int64_t batches, int64_t first_head, int64_t heads,
                     const Body& body) {
  const int64_t group = p.heads / p.kv_heads;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t g = 0; g < group; ++g) {
      // Heads first_head + g, first_head + g + group, ... use the keys' heads one after the other.
      body(b, g, first_head / group, heads / group, group);
    }
  }
}

template <class T>
void forward(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
             const Tensor& mask, const Tensor& out, const Tensor& lse) {
  using C = ComputeType<T>;
  const char* op = "scaled_dot_product_attention";
  constexpr bool wide = is_reduced_type<T>;
  const int device = q.device().index;
  for_query_blocks(p, [&](const QueryBlock& block) {
    const Chunks chunks(p, block, sizeof(C) + (wide ? sizeof(T) : 0));
    const Workspace scores(chunks.count * sizeof(C), device);
    const Workspace narrow(wide ? chunks.count * sizeof(T) : 0, device);
    T* weights = wide ? narrow.get<T>() : static_cast<T*>(scores.get());
    for_chunks(p, chunks, [&](int64_t b0, int64_t batches, int64_t h0, int64_t heads) {
      const ChunkOfScores s{scores.get<char>(), sizeof(C), block.queries, block.keys, heads};
      const ChunkOfScores w{reinterpret_cast<char*>(weights), sizeof(T), block.queries, block.keys,
                            heads};
      for_head_groups(p, batches, h0, heads,
                      [&](int64_t b, int64_t g, int64_t kv, int64_t count, int64_t step) {
                        multiply(op, q.dtype(), block.queries, block.keys, p.width, count,
                                 {heads_of(q, b0 + b, h0 + g, step, block.first),
                                  transposed(heads_of(k, b0 + b, kv)), s.at(b, g, step)},
                                 p.scale, false, wide, device);
                      });
      const RowShape shape{b0,        p.heads,    h0,      heads, block.first, block.queries,
                           p.queries, block.keys, p.causal};
      const int64_t rows = batches * heads * block.queries;
      with_row_shape<C>(block.keys, [&](auto lanes, auto width) {
        launch(op, weight_rows<T, lanes(), width()>, row_grid<lanes()>(rows), row_block<lanes()>(),
               scores.get<C>(), weights, lse.data<C>(), MaskView(mask), shape, rows);
      });
      for_head_groups(p, batches, h0, heads,
                      [&](int64_t b, int64_t g, int64_t kv, int64_t count, int64_t step) {
                        multiply(op, q.dtype(), block.queries, p.value_width, block.keys, count,
                                 {w.at(b, g, step), heads_of(v, b0 + b, kv),
                                  heads_of(out, b0 + b, h0 + g, step, block.first)},
                                 1, false, false, device);
                      });
    });
  });
}

template <class T>
struct BackwardProblem {
  using C = ComputeType<T>;
  const Attention& p;
  const Tensor &grad, &q, &k, &v, &mask, &out, &lse, &grad_q, &grad_k, &grad_v;

  void run() const {
    for_query_blocks(p, [&](const QueryBlock& block) { run(block); });
  }

  void run(const QueryBlock& block) const {
    constexpr bool wide = is_reduced_type<T>;
    const int device = q.device().index;
    const Chunks chunks(p, block, 2 * (sizeof(C) + (wide ? sizeof(T) : 0)));
    const Workspace scores(chunks.count * sizeof(C), device);
    const Workspace grads(chunks.count * sizeof(C), device);
    const Workspace narrow(wide ? chunks.count * sizeof(T) : 0, device);
    const Workspace narrow_grads(wide ? chunks.count * sizeof(T) : 0, device);
    T* weights = wide ? narrow.get<T>() : static_cast<T*>(scores.get());
    T* grad_scores = wide ? narrow_grads.get<T>() : static_cast<T*>(grads.get());
    for_chunks(p, chunks, [&](int64_t b0, int64_t batches, int64_t h0, int64_t heads) {
      const auto matrices = [&](auto* data) {
        return ChunkOfScores{reinterpret_cast<char*>(data), sizeof(*data), block.queries,
                             block.keys, heads};
      };
      make_scores(block, b0, batches, h0, heads, matrices(scores.get<C>()),
                  matrices(grads.get<C>()));
      const RowShape shape{b0,        p.heads,    h0,      heads, block.first, block.queries,
                           p.queries, block.keys, p.causal};
      launch_rows(scores.get<C>(), weights, grads.get<C>(), grad_scores, shape,
                  batches * heads * block.queries);
      spread(block, b0, batches, h0, heads, matrices(weights), matrices(grad_scores));
    });
  }

  static constexpr const char* op = "scaled_dot_product_attention_backward";

  // Scores again, and the gradients of the weights.
  void make_scores(const QueryBlock& block, int64_t b0, int64_t batches, int64_t h0, int64_t heads,
                   const ChunkOfScores& s, const ChunkOfScores& g_weights) const {
    constexpr bool wide = is_reduced_type<T>;
    const int device = q.device().index;
    for_head_groups(p, batches, h0, heads,
                    [&](int64_t b, int64_t g, int64_t kv, int64_t count, int64_t step) {
                      multiply(op, q.dtype(), block.queries, block.keys, p.width, count,
                               {heads_of(q, b0 + b, h0 + g, step, block.first),
                                transposed(heads_of(k, b0 + b, kv)), s.at(b, g, step)},
                               p.scale, false, wide, device);
                      multiply(op, q.dtype(), block.queries, block.keys, p.value_width, count,
                               {heads_of(grad, b0 + b, h0 + g, step, block.first),
                                transposed(heads_of(v, b0 + b, kv)), g_weights.at(b, g, step)},
                               1, false, wide, device);
                    });
  }

  void launch_rows(const C* scores, T* weights, const C* grad_weights, T* grad_scores,
                   const RowShape& shape, int64_t rows) const {
    with_row_shape<C>(shape.keys, [&](auto lanes, auto width) {
      launch(op, gradient_rows<T, lanes(), width()>, row_grid<lanes()>(rows), row_block<lanes()>(),
             scores, weights, grad_weights, grad_scores, lse.data<C>(), grad.data<T>(),
             RowStrides(grad), out.data<T>(), RowStrides(out), MaskView(mask), shape, rows,
             p.value_width);
    });
  }

  // The gradients of queries, keys and values from those of the scores.
  void spread(const QueryBlock& block, int64_t b0, int64_t batches, int64_t h0, int64_t heads,
              const ChunkOfScores& w, const ChunkOfScores& g_scores) const {
    const int device = q.device().index;
    for_head_groups(
        p, batches, h0, heads, [&](int64_t b, int64_t g, int64_t kv, int64_t count, int64_t step) {
          const LtMatrix d_scores = g_scores.at(b, g, step);
          multiply(op, q.dtype(), block.keys, p.value_width, block.queries, count,
                   {transposed(w.at(b, g, step)), heads_of(grad, b0 + b, h0 + g, step, block.first),
                    heads_of(grad_v, b0 + b, kv)},
                   1, true, false, device);
          multiply(op, q.dtype(), block.queries, p.width, block.keys, count,
                   {d_scores, heads_of(k, b0 + b, kv),
                    heads_of(grad_q, b0 + b, h0 + g, step, block.first)},
                   p.scale, false, false, device);
          multiply(op, q.dtype(), block.keys, p.width, block.queries, count,
                   {transposed(d_scores), heads_of(q, b0 + b, h0 + g, step, block.first),
                    heads_of(grad_k, b0 + b, kv)},
                   p.scale, true, false, device);
        });
  }
};

__global__ void write_seed_kernel(int64_t* to, PhiloxState state) {
  to[0] = static_cast<int64_t>(seed_of(state));
  to[2] = static_cast<int64_t>(start_of(state));
}

KERNEL_FOR(attention_draws, [](Generator& generator, RandomPlace& place) {
  const PhiloxState state = claim_words(generator, 4);
  place = {state.seed, state.offset, state.of_replay};
})

// Only the fused kernels drop weights; the op asks before (attention_drops).
void refuse_dropout(const Attention& p) {
  CHECK(p.dropout == 0, RuntimeError,
        "scaled_dot_product_attention: cuDNN has no kernel with dropout for {} queries and {} keys "
        "of width {}",
        p.queries, p.keys, p.width);
}

void attention_kernel(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& mask, const Tensor& out, const Tensor& lse) {
  const DeviceGuard guard(q.device().index);
  if (p.keys == 0) {
    check(cudaMemsetAsync(out.raw(), 0, out.storage()->bytes() - out.offset() * out.item_size(),
                          current_handle(q.device().index)),
          "scaled_dot_product_attention");
    return;
  }
  if (!mask.defined() && fused_attention.forward && fused_attention.forward(p, q, k, v, out, lse)) {
    return;
  }
  refuse_dropout(p);
  if (fits_tiles(p, q.dtype())) return attend_in_tiles(p, q, k, v, mask, out, lse);
  dispatch<dtypes::Floating>("scaled_dot_product_attention", q.dtype(), [&](auto tag) {
    forward<typename decltype(tag)::type>(p, rows_apart(q), rows_apart(k), rows_apart(v), mask, out,
                                          lse);
  });
}
KERNEL_FOR(attention, attention_kernel)

void clear(const Tensor& x) {
  check(cudaMemsetAsync(x.raw(), 0, x.numel() * x.item_size(), current_handle(x.device().index)),
        "scaled_dot_product_attention_backward");
}

void attention_backward_kernel(const Attention& p, const Tensor& grad, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& mask,
                               const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                               const Tensor& grad_k, const Tensor& grad_v) {
  const DeviceGuard guard(q.device().index);
  if (!mask.defined() && fused_attention.backward &&
      fused_attention.backward(p, grad, q, k, v, out, lse, grad_q, grad_k, grad_v)) {
    return;
  }
  refuse_dropout(p);
  if (fits_tiles(p, q.dtype())) {
    return attend_in_tiles_backward(p, grad, q, k, v, mask, out, lse, grad_q, grad_k, grad_v);
  }
  clear(grad_k);
  clear(grad_v);
  dispatch<dtypes::Floating>("scaled_dot_product_attention", q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensor g = rows_apart(grad), x = rows_apart(q), keys = rows_apart(k),
                 values = rows_apart(v);
    BackwardProblem<T>{p, g, x, keys, values, mask, out, lse, grad_q, grad_k, grad_v}.run();
  });
}
KERNEL_FOR(attention_backward, attention_backward_kernel)

}  // namespace

void write_seed(int64_t* to, const RandomPlace& place) {
  launch("scaled_dot_product_attention", write_seed_kernel, 1, 1, to,
         PhiloxState{place.seed, place.offset, place.of_replay});
}

}  // namespace flambeau::cuda
