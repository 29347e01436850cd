// Attention in float32 by the kernels of attention_tiles.cuh: in products of float32's exactness,
// or in TF32 where the program allows that for matrix products.
#include "flambeau/cuda/nn/attention_tiles.cuh"

#include <array>
#include <limits>

#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/nn/attention.h"
#include "flambeau/cuda/runtime/launch.cuh"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cuda {
namespace {

constexpr const char* op = "scaled_dot_product_attention";

HeadRows rows_of(const Tensor& x) {
  return {x.data<float>(), x.strides()[0], x.strides()[1], x.strides()[2]};
}

// Whether all rows may be read 16 bytes at a time, to their ends.
bool is_aligned(const Tensor& x) {
  const auto whole = [](int64_t step) { return step % 4 == 0; };
  return reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0 && whole(x.strides()[0]) &&
         whole(x.strides()[1]) && whole(x.strides()[2]) && whole(x.sizes()[3]);
}

TileProblem describe(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& mask, const Tensor& out, const Tensor& lse) {
  TileProblem t{};
  t.batches = static_cast<int>(p.batch), t.heads = static_cast<int>(p.heads);
  t.group = static_cast<int>(p.heads / p.kv_heads);
  t.queries = static_cast<int>(p.queries), t.keys = static_cast<int>(p.keys);
  t.width = static_cast<int>(p.width), t.value_width = static_cast<int>(p.value_width);
  t.scale = static_cast<float>(p.scale);
  t.causal = p.causal;
  t.aligned = is_aligned(q) && is_aligned(k) && is_aligned(v);
  t.q = rows_of(q), t.k = rows_of(k), t.v = rows_of(v), t.out = rows_of(out);
  t.lse = lse.data<float>();
  if (mask.defined()) {
    const bool bools = mask.dtype() == DType::bool_;
    t.mask = {bools ? mask.data<bool>() : nullptr,
              bools ? nullptr : mask.data<float>(),
              mask.strides()[0],
              mask.strides()[1],
              mask.strides()[2],
              mask.strides()[3]};
  }
  return t;
}

// Calls body(the width that tiles have, whether products are exact).
template <class Body>
void with_tiles(const TileProblem& p, const Body& body) {
  const auto with_width = [&](auto exact) {
    const int width = std::max(p.width, p.value_width);
    if (width <= 32) return body(std::integral_constant<int, 32>(), exact);
    if (width <= 64) return body(std::integral_constant<int, 64>(), exact);
    body(std::integral_constant<int, 128>(), exact);
  };
  if (math_mode.matmul_tf32) return with_width(std::false_type());
  with_width(std::true_type());
}

template <int D>
constexpr size_t tile_bytes(int rows) {
  return static_cast<size_t>(rows) * tile_pitch<D> * sizeof(float);
}

unsigned tile_grid(int rows, int lines) {
  return blocks_for(rows, tile_rows) * static_cast<unsigned>(lines);
}

}  // namespace

bool fits_tiles(const Attention& p, DType dtype) {
  constexpr int64_t most = std::numeric_limits<int>::max() / 64;
  const int64_t lines = p.batch * p.heads;
  return dtype == DType::float32 && p.dropout == 0 && p.width <= 128 && p.value_width <= 128 &&
         p.queries <= most && p.keys <= most && lines <= most &&
         lines * std::max(p.queries, p.keys) <= most * tile_rows;
}

void attend_in_tiles(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& mask, const Tensor& out, const Tensor& lse) {
  const TileProblem t = describe(p, q, k, v, mask, out, lse);
  with_tiles(t, [&](auto width, auto exact) {
    constexpr int D = width();
    launch_with_shared(op, attend_tiles<D, exact()>, tile_grid(t.queries, t.batches * t.heads),
                       tile_threads, tile_bytes<D>(tile_rows + 2 * tile_columns), t);
  });
}

void attend_in_tiles_backward(const Attention& p, const Tensor& grad, const Tensor& q,
                              const Tensor& k, const Tensor& v, const Tensor& mask,
                              const Tensor& out, const Tensor& lse, const Tensor& grad_q,
                              const Tensor& grad_k, const Tensor& grad_v) {
  const Workspace passed(p.batch * p.heads * p.queries * sizeof(float), q.device().index);
  TileProblem t = describe(p, q, k, v, mask, out, lse);
  t.aligned = t.aligned && is_aligned(grad);
  t.passed = passed.get<float>();
  t.grad = rows_of(grad);
  t.grad_q = rows_of(grad_q), t.grad_k = rows_of(grad_k), t.grad_v = rows_of(grad_v);
  const int lines = t.batches * t.heads;
  launch(op, sum_passed, blocks_for(int64_t{lines} * t.queries, tile_threads / 32), tile_threads,
         t);
  with_tiles(t, [&](auto width, auto exact) {
    constexpr int D = width();
    constexpr size_t bytes = tile_bytes<D>(2 * tile_rows + 2 * tile_columns);
    launch_with_shared(op, attend_tiles_query_gradient<D, exact()>, tile_grid(t.queries, lines),
                       tile_threads, bytes, t);
    launch_with_shared(op, attend_tiles_key_gradients<D, exact()>,
                       tile_grid(t.keys, lines / t.group), tile_threads, bytes, t);
  });
}

}  // namespace flambeau::cuda
