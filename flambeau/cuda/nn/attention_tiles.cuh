// Attention in float32 that never holds all scores: a block of threads keeps 64 queries (or, for
// the gradients of keys and values, 64 keys) and walks along the keys (the queries) in tiles. Each
// warp owns 16 of the 64 rows. Nothing is added by atomics: every run gives the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "flambeau/cuda/nn/tensor_cores.cuh"

namespace flambeau::cuda {

constexpr int tile_threads = 128, tile_rows = 64;
// Rows of the tiles that are walked along, few, so that sums take few registers; and the blocks
// that a multiprocessor shall be able to hold: it waits less where more warps are at work.
constexpr int tile_columns = 32;
template <int D>
constexpr int tile_blocks = D <= 64 ? 4 : 2;
template <int D>
constexpr int key_tile_blocks = D <= 64 ? 3 : 2;  // with twice the sums
// Numbers from row to row of a tile in shared memory: warps that read along or across rows use no
// bank twice.
template <int D>
constexpr int tile_pitch = D + 4;

// The rows of a tensor (batch, heads, steps, width).
struct HeadRows {
  float* data;
  int64_t batch, head, step;
  __device__ float* of(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

// Which scores count, or what is added to them; see MaskView.
struct TileMask {
  const bool* looks;
  const float* adds;
  int64_t batch, head, query, key;
};

struct TileProblem {
  int batches, heads, group, queries, keys, width, value_width;  // group: heads that share keys
  float scale;
  bool causal, aligned;  // aligned: all rows of inputs begin at multiples of 16 bytes
  HeadRows q, k, v, out, grad, grad_q, grad_k, grad_v;
  TileMask mask;
  float *lse, *passed;  // (batch, heads, queries); passed: the sums of grad * out over the width

  [[nodiscard]] __device__ int64_t line(int batch, int head) const {
    return (static_cast<int64_t>(batch) * heads + head) * queries;
  }
};

// This thread's place in the tiles that a warp multiplies.
struct LanePlace {
  int group = threadIdx.x % 32 / 4, place = threadIdx.x % 4, first = threadIdx.x / 32 * 16;
};

// --- Tiles in shared memory ---------------------------------------------------------------------

// Rows and columns behind `rows` and `width` are zeros.
template <int D, int Rows, int Bytes>
__device__ void load_words(float* tile, const float* from, int64_t step, int rows, int width) {
  constexpr int word = Bytes / 4, words = D / word;
  for (int i = threadIdx.x; i < Rows * words; i += tile_threads) {
    const int row = i / words, column = i % words * word;
    const int left = row < rows ? min(max(width - column, 0), word) : 0;
    copy_async<Bytes>(tile + row * tile_pitch<D> + column, left ? from + row * step + column : from,
                      left * 4);
  }
}
template <int D, int Rows>
__device__ void load_tile(float* tile, const float* from, int64_t step, int first, int end,
                          int width, bool aligned) {
  from += first * step;
  if (aligned) {
    load_words<D, Rows, 16>(tile, from, step, end - first, width);
  } else {
    load_words<D, Rows, 4>(tile, from, step, end - first, width);
  }
}

// --- Products
// -------------------------------------------------------------------------------------

// Four products of 16 x 8 side by side. Tensor cores cut sums off instead of rounding them: small
// and large products are added up apart, over one tile at most.
struct FourSums {
  float large[4][4] = {}, small[4][4] = {};

  template <bool Exact>
  __device__ __forceinline__ void add(int n, const Parts<4>& a, const Parts<2>& b) {
    if constexpr (Exact) {
      multiply_tile(small[n], a.low, b.high);
      multiply_tile(small[n], a.high, b.low);
    }
    multiply_tile(large[n], a.high, b.high);
  }
  [[nodiscard]] __device__ float sum(int n, int i) const { return large[n][i] + small[n][i]; }
};

template <bool Exact, int Count>
__device__ __forceinline__ Parts<Count> parts_of(const float (&x)[Count]) {
  Parts<Count> parts;
#pragma unroll
  for (int i = 0; i < Count; ++i) take_apart<Exact>(x[i], parts.high[i], parts.low[i]);
  return parts;
}

// The products of the warp's 16 rows of `a` with the rows of `b`, along the width.
template <int D, bool Exact, int N>
__device__ void multiply_rows(float (&out)[N][4], const float* a, const float* b) {
  constexpr int pitch = tile_pitch<D>;
  const LanePlace at;
  a += (at.first + at.group) * pitch + at.place;
  b += at.group * pitch + at.place;
#pragma unroll
  for (int first = 0; first < N; first += 4) {
    FourSums sums;
#pragma unroll 4
    for (int k = 0; k < D; k += 8) {
      const auto row = parts_of<Exact, 4>({a[k], a[8 * pitch + k], a[k + 4], a[8 * pitch + k + 4]});
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* column = b + (first + n) * 8 * pitch + k;
        sums.add<Exact>(n, row, parts_of<Exact, 2>({column[0], column[4]}));
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[first + n][i] = sums.sum(n, i);
    }
  }
}

// out = out * keep + weights b: the weights lie as multiply_rows leaves them, keep is one number
// for each of a thread's two rows. A product's depth may be walked in any order: here in the one
// in which a thread already holds its weights.
template <int D, bool Exact, int N>
__device__ void add_weighted(float (&out)[D / 8][4], const float (&weights)[N][4], const float* b,
                             float keep_upper = 1, float keep_lower = 1) {
  constexpr int pitch = tile_pitch<D>;
  const LanePlace at;
  b += 2 * at.place * pitch + at.group;
#pragma unroll
  for (int first = 0; first < D / 8; first += 4) {
    FourSums sums;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const auto row =
          parts_of<Exact, 4>({weights[k][0], weights[k][2], weights[k][1], weights[k][3]});
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* column = b + k * 8 * pitch + (first + n) * 8;
        sums.add<Exact>(n, row, parts_of<Exact, 2>({column[0], column[pitch]}));
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        out[first + n][i] = out[first + n][i] * (i < 2 ? keep_upper : keep_lower) + sums.sum(n, i);
      }
    }
  }
}

// Writes the warp's 16 rows, each times its factor, of which `rows` exist.
template <int D>
__device__ void store_rows(float* to, int64_t step, const float (&sums)[D / 8][4], int rows,
                           int width, float upper, float lower) {
  const LanePlace at;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = at.first + at.group + i / 2 * 8, column = n * 8 + 2 * at.place + i % 2;
      if (row < rows && column < width)
        to[row * step + column] = sums[n][i] * (i < 2 ? upper : lower);
    }
  }
}

// --- Scores
// ---------------------------------------------------------------------------------------

constexpr float never_score = -INFINITY;

__device__ inline float exp_of(float x) { return exp2f(x * 1.4426950408889634f); }

// A score with its scale and what the mask does to it. `mask` begins at the batch and head.
__device__ __forceinline__ float finished_score(const TileProblem& p, const TileMask& mask,
                                                float score, int query, int key) {
  if (query >= p.queries || key >= p.keys || (p.causal && key > query)) return never_score;
  score *= p.scale;
  const int64_t place = query * mask.query + key * mask.key;
  if (mask.looks) return mask.looks[place] ? score : never_score;
  return mask.adds ? score + mask.adds[place] : score;
}

__device__ inline TileMask mask_of(const TileProblem& p, int batch, int head) {
  TileMask mask = p.mask;
  const int64_t begin = batch * mask.batch + head * mask.head;
  if (mask.looks) mask.looks += begin;
  if (mask.adds) mask.adds += begin;
  return mask;
}

// Finishes scores of queries (rows) from `query` on and keys from `key` on; the other way round
// where the rows are keys.
template <bool RowsAreKeys, int N>
__device__ void finish_scores(const TileProblem& p, const TileMask& mask, float (&scores)[N][4],
                              int query, int key) {
  const LanePlace at;
  const int row = at.first + at.group, column = 2 * at.place;
  const int last_query = query + (RowsAreKeys ? N * 8 : tile_rows) - 1;
  const int last_key = key + (RowsAreKeys ? tile_rows : N * 8) - 1;
  // Where nothing is cut off the tile and no mask is given there is nothing to ask.
  const bool whole = !mask.looks && !mask.adds && last_query < p.queries && last_key < p.keys &&
                     !(p.causal && last_key > query);
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + i / 2 * 8, c = column + n * 8 + i % 2;
      scores[n][i] = whole         ? scores[n][i] * p.scale
                     : RowsAreKeys ? finished_score(p, mask, scores[n][i], query + c, key + r)
                                   : finished_score(p, mask, scores[n][i], query + r, key + c);
    }
  }
}

// The most, or the sum, of what the four threads have that share a row.
__device__ inline float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The logarithm of a row's sum of exponentials as backward wants it: a row that looks nowhere has
// no weights, and neither has one that does not exist.
__device__ inline float usable_lse(const float* lse, int query, int queries) {
  const float value = query < queries ? lse[query] : -never_score;
  return value == never_score ? -never_score : value;
}

// Which rows of which head a block of threads keeps. The longest walks begin first.
struct BlockRows {
  int batch, head, first;
  __device__ BlockRows(int rows, int batches, int heads, bool last_first) {
    const int lines = batches * heads, line = static_cast<int>(blockIdx.x % lines);
    const int blocks = (rows + tile_rows - 1) / tile_rows, block = blockIdx.x / lines;
    batch = line / heads, head = line % heads;
    first = (last_first ? blocks - 1 - block : block) * tile_rows;
  }
};

// --- The kernels
// ------------------------------------------------------------------------------------

// Takes a tile's scores into the running softmax of two rows: they become weights, and the factors
// say what earlier sums are still worth.
template <int N>
__device__ void weigh(float (&scores)[N][4], float (&most)[2], float (&sum)[2], float (&keep)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = most[r];
#pragma unroll
    for (int n = 0; n < N; ++n) top = fmaxf(top, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    top = max_of_row(top);
    const float base = top == never_score ? 0.0f : top;
    keep[r] = exp_of(most[r] - base);
    most[r] = top;
    sum[r] *= keep[r];
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[n][i] = exp_of(scores[n][i] - base);
        sum[r] += scores[n][i];
      }
    }
  }
}

template <int D, bool Exact>
__global__ void __launch_bounds__(tile_threads, tile_blocks<D>)
    attend_tiles(const __grid_constant__ TileProblem p) {
  constexpr int columns = tile_columns, pitch = tile_pitch<D>;
  extern __shared__ float4 tile_memory[];
  float* queries = reinterpret_cast<float*>(tile_memory);
  float *keys = queries + tile_rows * pitch, *values = keys + columns * pitch;
  const BlockRows mine(p.queries, p.batches, p.heads, p.causal);
  const int kv = mine.head / p.group;
  const float *k = p.k.of(mine.batch, kv), *v = p.v.of(mine.batch, kv);
  const int end = p.causal ? min(p.keys, mine.first + tile_rows) : p.keys;
  const TileMask mask = mask_of(p, mine.batch, mine.head);
  float out[D / 8][4] = {}, most[2] = {never_score, never_score}, sum[2] = {}, keep[2];
  load_tile<D, tile_rows>(queries, p.q.of(mine.batch, mine.head), p.q.step, mine.first, p.queries,
                          p.width, p.aligned);
  load_tile<D, columns>(keys, k, p.k.step, 0, p.keys, p.width, p.aligned);
  end_copies();
  for (int first = 0; first < end; first += columns) {
    load_tile<D, columns>(values, v, p.v.step, first, p.keys, p.value_width, p.aligned);
    end_copies();
    wait_for_copies<1>();
    __syncthreads();
    float scores[columns / 8][4];
    multiply_rows<D, Exact>(scores, queries, keys);
    __syncthreads();  // the keys have been read
    if (first + columns < end) {
      load_tile<D, columns>(keys, k, p.k.step, first + columns, p.keys, p.width, p.aligned);
    }
    end_copies();
    finish_scores<false>(p, mask, scores, mine.first, first);
    weigh(scores, most, sum, keep);
    wait_for_copies<1>();
    __syncthreads();
    add_weighted<D, Exact>(out, scores, values, keep[0], keep[1]);
    __syncthreads();  // the values have been read
  }
  const LanePlace at;
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float all = sum_of_row(sum[r]);
    factor[r] = all == 0 ? 0.0f : 1 / all;
    const int query = mine.first + at.first + at.group + 8 * r;
    if (at.place == 0 && query < p.queries) {
      p.lse[p.line(mine.batch, mine.head) + query] = all == 0 ? never_score : most[r] + logf(all);
    }
  }
  store_rows<D>(p.out.of(mine.batch, mine.head) + mine.first * p.out.step, p.out.step, out,
                p.queries - mine.first, p.value_width, factor[0], factor[1]);
}

// The sum of grad * out over the width of every query: what each score's gradient is less.
__global__ void __launch_bounds__(tile_threads) sum_passed(const __grid_constant__ TileProblem p) {
  const int lane = threadIdx.x % 32;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * tile_threads + threadIdx.x) / 32;
  const int64_t line = row / p.queries, query = row % p.queries;
  const int64_t batch = line / p.heads, head = line % p.heads;
  if (batch >= p.batches) return;
  const float* grad = p.grad.of(batch, head) + query * p.grad.step;
  const float* out = p.out.of(batch, head) + query * p.out.step;
  float sum = 0;
  for (int i = lane; i < p.value_width; i += 32) sum += grad[i] * out[i];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) p.passed[row] = sum;
}

template <int D, bool Exact>
__global__ void __launch_bounds__(tile_threads, tile_blocks<D>)
    attend_tiles_query_gradient(const __grid_constant__ TileProblem p) {
  constexpr int columns = tile_columns, pitch = tile_pitch<D>;
  extern __shared__ float4 tile_memory[];
  float* queries = reinterpret_cast<float*>(tile_memory);
  float *grads = queries + tile_rows * pitch, *keys = grads + tile_rows * pitch;
  float* values = keys + columns * pitch;
  const BlockRows mine(p.queries, p.batches, p.heads, p.causal);
  const int kv = mine.head / p.group;
  const float *k = p.k.of(mine.batch, kv), *v = p.v.of(mine.batch, kv);
  const int end = p.causal ? min(p.keys, mine.first + tile_rows) : p.keys;
  const TileMask mask = mask_of(p, mine.batch, mine.head);
  const LanePlace at;
  float lse[2], passed[2], sums[D / 8][4] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = mine.first + at.first + at.group + 8 * r;
    const int64_t line = p.line(mine.batch, mine.head);
    lse[r] = usable_lse(p.lse + line, query, p.queries);
    passed[r] = query < p.queries ? p.passed[line + query] : 0.0f;
  }
  load_tile<D, tile_rows>(queries, p.q.of(mine.batch, mine.head), p.q.step, mine.first, p.queries,
                          p.width, p.aligned);
  load_tile<D, tile_rows>(grads, p.grad.of(mine.batch, mine.head), p.grad.step, mine.first,
                          p.queries, p.value_width, p.aligned);
  for (int first = 0; first < end; first += columns) {
    load_tile<D, columns>(keys, k, p.k.step, first, p.keys, p.width, p.aligned);
    load_tile<D, columns>(values, v, p.v.step, first, p.keys, p.value_width, p.aligned);
    end_copies();
    wait_for_copies<0>();
    __syncthreads();
    float scores[columns / 8][4], grad_scores[columns / 8][4];
    multiply_rows<D, Exact>(scores, queries, keys);
    finish_scores<false>(p, mask, scores, mine.first, first);
    multiply_rows<D, Exact>(grad_scores, grads, values);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        grad_scores[n][i] = exp_of(scores[n][i] - lse[i / 2]) * (grad_scores[n][i] - passed[i / 2]);
      }
    }
    add_weighted<D, Exact>(sums, grad_scores, keys);
    __syncthreads();  // keys and values have been read
  }
  store_rows<D>(p.grad_q.of(mine.batch, mine.head) + mine.first * p.grad_q.step, p.grad_q.step,
                sums, p.queries - mine.first, p.width, p.scale, p.scale);
}

// Here rows are keys and columns queries: of all heads that share the keys, one after the other.
template <int D, bool Exact>
__global__ void __launch_bounds__(tile_threads, key_tile_blocks<D>)
    attend_tiles_key_gradients(const __grid_constant__ TileProblem p) {
  constexpr int columns = tile_columns, pitch = tile_pitch<D>;
  extern __shared__ float4 tile_memory[];
  float* keys = reinterpret_cast<float*>(tile_memory);
  float *values = keys + tile_rows * pitch, *queries = values + tile_rows * pitch;
  float* grads = queries + columns * pitch;
  __shared__ float lse[columns], passed[columns];
  const BlockRows mine(p.keys, p.batches, p.heads / p.group, false);
  const LanePlace at;
  float key_sums[D / 8][4] = {}, value_sums[D / 8][4] = {};
  load_tile<D, tile_rows>(keys, p.k.of(mine.batch, mine.head), p.k.step, mine.first, p.keys,
                          p.width, p.aligned);
  load_tile<D, tile_rows>(values, p.v.of(mine.batch, mine.head), p.v.step, mine.first, p.keys,
                          p.value_width, p.aligned);
  for (int head = mine.head * p.group; head < (mine.head + 1) * p.group; ++head) {
    const float *q = p.q.of(mine.batch, head), *grad = p.grad.of(mine.batch, head);
    const int64_t line = p.line(mine.batch, head);
    const TileMask mask = mask_of(p, mine.batch, head);
    for (int first = p.causal ? mine.first : 0; first < p.queries; first += columns) {
      load_tile<D, columns>(queries, q, p.q.step, first, p.queries, p.width, p.aligned);
      load_tile<D, columns>(grads, grad, p.grad.step, first, p.queries, p.value_width, p.aligned);
      end_copies();
      if (threadIdx.x < columns) {
        const int query = first + static_cast<int>(threadIdx.x);
        lse[threadIdx.x] = usable_lse(p.lse + line, query, p.queries);
        passed[threadIdx.x] = query < p.queries ? p.passed[line + query] : 0.0f;
      }
      wait_for_copies<0>();
      __syncthreads();
      float weights[columns / 8][4], grad_scores[columns / 8][4];
      multiply_rows<D, Exact>(weights, keys, queries);
      finish_scores<true>(p, mask, weights, first, mine.first);
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weights[n][i] = exp_of(weights[n][i] - lse[n * 8 + 2 * at.place + i % 2]);
        }
      }
      add_weighted<D, Exact>(value_sums, weights, grads);
      multiply_rows<D, Exact>(grad_scores, values, grads);
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weights[n][i] *= grad_scores[n][i] - passed[n * 8 + 2 * at.place + i % 2];
        }
      }
      add_weighted<D, Exact>(key_sums, weights, queries);
      __syncthreads();  // queries and gradients have been read
    }
  }
  store_rows<D>(p.grad_k.of(mine.batch, mine.head) + mine.first * p.grad_k.step, p.grad_k.step,
                key_sums, p.keys - mine.first, p.width, p.scale, p.scale);
  store_rows<D>(p.grad_v.of(mine.batch, mine.head) + mine.first * p.grad_v.step, p.grad_v.step,
                value_sums, p.keys - mine.first, p.value_width, 1, 1);
}

}  // namespace flambeau::cuda
