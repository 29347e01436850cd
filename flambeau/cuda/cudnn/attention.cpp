// Attention in half precision through cuDNN's fused kernels, which never hold all scores. The
// graphs are written in the form that cuDNN knows as attention: the same formulas in another order
// would be computed step by step or not at all.
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "flambeau/base/check.h"
#include "flambeau/cuda/cudnn/graph.h"
#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/nn/attention.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cuda {
namespace {

constexpr const char* op = "scaled_dot_product_attention";

// The strides of (batch, heads, steps); the last dimension's is 1.
struct HeadStrides {
  int64_t batch, head, step;
};

// All that a plan depends on, as numbers that can be compared as bytes.
struct AttentionProblem {
  int64_t device, dtype, backward, causal, deterministic, dropout;  // dropout: its bits
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  HeadStrides q, k, v, out, grad, grad_q, grad_k, grad_v;
  bool operator==(const AttentionProblem& other) const {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
struct ProblemHash {
  size_t operator()(const AttentionProblem& p) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&p), sizeof p});
  }
};

// The ids of a graph's tensors.
struct AttentionIds {
  int64_t q, k, v, out, lse, scale, never;
  int64_t seed, offset, rescale;  // of dropout; rescale: one over what is kept
  int64_t grad, grad_q, grad_k, grad_v, one, row_sums, q_sums;  // of the backward pass
};

struct AttentionPlan {
  std::shared_ptr<CudnnPlan> plan;  // null where cuDNN has none
  AttentionIds ids{};
};

// --- The graphs ----------------------------------------------------------------------------------

// A graph of attention, and what its formulas are made of.
class AttentionGraph {
 public:
  AttentionGraph(CudnnGraph& graph, const AttentionProblem& p)
      : graph_(graph), p_(p), type_(cudnn_type(op, static_cast<DType>(p.dtype))) {}

  AttentionIds forward() {
    add_inputs();
    ids.v = heads_tensor(p_.kv_heads, p_.keys, p_.value_width, p_.v, false);
    ids.out = heads_tensor(p_.heads, p_.queries, p_.value_width, p_.out, false);
    const int64_t scores = causal(make_scores());
    const int64_t most = row(), sum = row(), log = row();
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
    const int64_t powers = unary(CUDNN_POINTWISE_EXP, binary(CUDNN_POINTWISE_SUB, scores, most));
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    graph_.pointwise(CUDNN_POINTWISE_LOG, log, sum);
    graph_.pointwise(CUDNN_POINTWISE_ADD, ids.lse, most, log);
    int64_t weights = square(p_.dropout ? CUDNN_DATA_FLOAT : type_);
    graph_.pointwise(CUDNN_POINTWISE_DIV, weights, powers, sum);
    if (p_.dropout) {
      const int64_t kept = binary(CUDNN_POINTWISE_MUL, weights, draw());
      weights = square(type_);
      graph_.pointwise(CUDNN_POINTWISE_MUL, weights, kept, ids.rescale);
    }
    graph_.matmul(weights, ids.v, ids.out);
    return ids;
  }

  AttentionIds backward() {
    add_inputs();
    ids.v = heads_tensor(p_.kv_heads, p_.keys, p_.value_width, p_.v, true);
    ids.out = heads_tensor(p_.heads, p_.queries, p_.value_width, p_.out, false);
    ids.grad = heads_tensor(p_.heads, p_.queries, p_.value_width, p_.grad, false);
    ids.grad_q = heads_tensor(p_.heads, p_.queries, p_.width, p_.grad_q, false);
    ids.grad_k = heads_tensor(p_.kv_heads, p_.keys, p_.width, p_.grad_k, false);
    ids.grad_v = heads_tensor(p_.kv_heads, p_.keys, p_.value_width, p_.grad_v, false);
    ids.one = graph_.number();
    ids.row_sums = row(true);
    const int64_t kept = p_.dropout ? draw() : -1;
    const auto dropped = [&](int64_t x) {
      return p_.dropout ? binary(CUDNN_POINTWISE_MUL, x, kept) : x;
    };
    const auto rescaled = [&](int64_t x) {
      return p_.dropout ? binary(CUDNN_POINTWISE_MUL, x, ids.rescale) : x;
    };
    add_row_sums();
    const int64_t weights =
        unary(CUDNN_POINTWISE_EXP, causal(binary(CUDNN_POINTWISE_SUB, make_scores(), ids.lse)));
    spread_to_keys(rescaled(dropped(weights)), ids.grad, p_.value_width, ids.grad_v);
    const int64_t grad_weights = square();
    graph_.matmul(ids.grad, ids.v, grad_weights);
    const int64_t centred = binary(CUDNN_POINTWISE_SUB, dropped(grad_weights), ids.row_sums);
    const int64_t grad_scores = binary(
        CUDNN_POINTWISE_MUL, rescaled(binary(CUDNN_POINTWISE_MUL, centred, weights)), ids.scale);
    spread_to_keys(grad_scores, ids.q, p_.width, ids.grad_k);
    add_query_gradient(grad_scores);
    return ids;
  }

 private:
  void add_inputs() {
    ids.q = heads_tensor(p_.heads, p_.queries, p_.width, p_.q, false);
    ids.k = heads_tensor(p_.kv_heads, p_.keys, p_.width, p_.k, true);
    ids.lse = row(true);
    ids.scale = graph_.number();
    ids.never = graph_.number();
  }

  int64_t heads_tensor(int64_t heads, int64_t steps, int64_t width, const HeadStrides& s,
                       bool transposed) {
    if (transposed) {
      return graph_.tensor(type_, {p_.batch, heads, width, steps}, {s.batch, s.head, 1, s.step});
    }
    return graph_.tensor(type_, {p_.batch, heads, steps, width}, {s.batch, s.head, s.step, 1});
  }
  // A number for each query; one for each query and key.
  int64_t row(bool in_memory = false) {
    const Dims sizes{p_.batch, p_.heads, p_.queries, 1};
    const Dims strides{p_.heads * p_.queries, p_.queries, 1, 1};
    return in_memory ? graph_.tensor(CUDNN_DATA_FLOAT, sizes, strides)
                     : graph_.inner(CUDNN_DATA_FLOAT, sizes, strides);
  }
  int64_t square(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const int64_t plane = p_.queries * p_.keys;
    return graph_.inner(type, {p_.batch, p_.heads, p_.queries, p_.keys},
                        {p_.heads * plane, plane, p_.keys, 1});
  }
  int64_t unary(cudnnPointwiseMode_t mode, int64_t x) {
    const int64_t out = square();
    graph_.pointwise(mode, out, x);
    return out;
  }
  int64_t binary(cudnnPointwiseMode_t mode, int64_t a, int64_t b) {
    const int64_t out = square();
    graph_.pointwise(mode, out, a, b);
    return out;
  }

  int64_t make_scores() {
    const int64_t products = square();
    graph_.matmul(ids.q, ids.k, products);
    return binary(CUDNN_POINTWISE_MUL, products, ids.scale);
  }

  // One where a weight is kept, else zero: from a seed and an offset in the device's memory.
  int64_t draw() {
    ids.seed = graph_.tensor(CUDNN_DATA_INT64, {1, 1, 1, 1}, {1, 1, 1, 1});
    ids.offset = graph_.tensor(CUDNN_DATA_INT64, {1, 1, 1, 1}, {1, 1, 1, 1});
    ids.rescale = graph_.number();
    const int64_t kept = square();
    graph_.bernoulli(ids.seed, ids.offset, kept, 1 - std::bit_cast<double>(p_.dropout));
    return kept;
  }

  // -infinity where the key comes behind the query.
  int64_t causal(int64_t scores) {
    if (!p_.causal) return scores;
    const int64_t query = square(CUDNN_DATA_INT32), key = square(CUDNN_DATA_INT32);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, query, scores, -1, -1, CUDNN_DATA_FLOAT, 2);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, key, scores, -1, -1, CUDNN_DATA_FLOAT, 3);
    const int64_t seen = square(CUDNN_DATA_BOOLEAN), masked = square();
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, seen, query, key, -1, CUDNN_DATA_BOOLEAN);
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, masked, scores, ids.never, seen);
    return masked;
  }

  // The dot products of each row of the result with its gradient.
  void add_row_sums() {
    const int64_t plane = p_.queries * p_.value_width;
    const int64_t products =
        graph_.inner(CUDNN_DATA_FLOAT, {p_.batch, p_.heads, p_.queries, p_.value_width},
                     {p_.heads * plane, plane, p_.value_width, 1});
    graph_.pointwise(CUDNN_POINTWISE_MUL, products, ids.grad, ids.out);
    const int64_t sums = row();
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    // With dropout this number is what is kept of all weights.
    graph_.pointwise(CUDNN_POINTWISE_MUL, ids.row_sums, sums, ids.one);
  }

  // to = matrix^T from: what the queries give to the keys or values. Heads that share them add up.
  void spread_to_keys(int64_t matrix, int64_t from, int64_t width, int64_t to) {
    const int64_t plane = p_.queries * p_.keys;
    const int64_t transposed = graph_.inner(type_, {p_.batch, p_.heads, p_.keys, p_.queries},
                                            {p_.heads * plane, plane, 1, p_.keys});
    graph_.reshape(matrix, transposed);
    if (p_.heads == p_.kv_heads) return graph_.matmul(transposed, from, to);
    const int64_t size = p_.keys * width;
    const int64_t of_all_heads = graph_.inner(type_, {p_.batch, p_.heads, p_.keys, width},
                                              {p_.heads * size, size, width, 1});
    graph_.matmul(transposed, from, of_all_heads);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_all_heads, to);
  }

  // The queries' gradient, summed in single precision in whatever order, or in one order.
  void add_query_gradient(int64_t grad_scores) {
    const int64_t keys = graph_.inner(type_, {p_.batch, p_.kv_heads, p_.keys, p_.width},
                                      {p_.k.batch, p_.k.head, p_.k.step, 1});
    graph_.reshape(ids.k, keys);
    if (p_.deterministic) return graph_.matmul(grad_scores, keys, ids.grad_q);
    const int64_t plane = p_.queries * p_.width;
    ids.q_sums = graph_.tensor(CUDNN_DATA_FLOAT, {p_.batch, p_.heads, p_.queries, p_.width},
                               {p_.heads * plane, plane, p_.width, 1});
    graph_.matmul(grad_scores, keys, ids.q_sums);
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, ids.grad_q, ids.q_sums);
  }

  CudnnGraph& graph_;
  const AttentionProblem& p_;
  cudnnDataType_t type_;
  AttentionIds ids{};
};

// --- Plans ---------------------------------------------------------------------------------------

AttentionPlan make_plan(const AttentionProblem& p, const CudnnHandle& handle) {
  CudnnGraph graph(op);
  AttentionPlan made;
  AttentionGraph attention(graph, p);
  made.ids = p.backward ? attention.backward() : attention.forward();
  made.plan = graph.plan(handle, [&](const CudnnObject& config) {
    if (!p.deterministic) return true;
    for (const cudnnBackendNumericalNote_t note : numerical_notes(config)) {
      if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    }
    return true;
  });
  return made;
}

AttentionPlan find_plan(const AttentionProblem& p, const CudnnHandle& handle) {
  static auto* plans = new std::unordered_map<AttentionProblem, AttentionPlan, ProblemHash>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto known = plans->find(p);
  if (known != plans->end()) return known->second;
  AttentionPlan plan;
  try {
    plan = make_plan(p, handle);
  } catch (const RuntimeError&) {
    plan.plan = nullptr;  // a graph that cuDNN does not take: the other kernels do
  }
  return plans->emplace(p, plan).first->second;
}

bool has_fused_form(const Attention& p, DType dtype) {
  const bool reduced = dtype == DType::float16 || dtype == DType::bfloat16;
  return reduced && p.keys > 0 && p.queries > 0 && (p.queries > 1 || p.keys > 1) &&
         p.width % 8 == 0 && p.value_width % 8 == 0 && p.width <= 256 && p.value_width <= 256 &&
         has_cudnn() && cudnn().version() >= 90600;
}

// Whether the fused kernels can read it where it lies: rows of whole words of 16 bytes.
bool is_readable(const Tensor& x) {
  if (reinterpret_cast<uintptr_t>(x.raw()) % 16 != 0) return false;
  for (int64_t d = 0; d < 3; ++d) {
    if (x.sizes()[d] > 1 && (x.strides()[d] <= 0 || x.strides()[d] % 8 != 0)) return false;
  }
  return x.sizes()[3] == 1 || x.strides()[3] == 1;
}
Tensor readable(const Tensor& x) {
  if (is_readable(x)) return x;
  Tensor copy = make_tensor(x.sizes(), x.dtype(), x.device());
  copy_into(op, copy, x);
  return copy;
}

// Strides of dimensions of size 1 are set to what a dense tensor would have.
HeadStrides strides_of(const Tensor& x) {
  HeadStrides s{x.strides()[0], x.strides()[1], x.strides()[2]};
  if (x.sizes()[2] == 1) s.step = x.sizes()[3];
  if (x.sizes()[1] == 1) s.head = x.sizes()[2] * s.step;
  if (x.sizes()[0] == 1) s.batch = x.sizes()[1] * std::max(s.head, x.sizes()[2] * s.step);
  return s;
}

AttentionProblem describe(const Attention& p, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& out) {
  AttentionProblem problem;
  std::memset(&problem, 0, sizeof problem);
  problem.device = q.device().index;
  problem.dtype = static_cast<int64_t>(q.dtype());
  problem.causal = p.causal;
  problem.dropout = std::bit_cast<int64_t>(p.dropout);
  problem.batch = p.batch, problem.heads = p.heads, problem.kv_heads = p.kv_heads;
  problem.queries = p.queries, problem.keys = p.keys;
  problem.width = p.width, problem.value_width = p.value_width;
  problem.q = strides_of(q), problem.k = strides_of(k), problem.v = strides_of(v);
  problem.out = strides_of(out);
  return problem;
}

// A pointer for each tensor of a graph.
struct Bindings {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  void add(int64_t id, const void* data) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(data));
  }
};

// The numbers of dropout: what is kept, and the seed of which weights are.
class Dropout {
 public:
  Dropout(const Attention& p, int device)
      : kept(static_cast<float>(1 - p.dropout)),
        rescale_(1 / kept),
        seed_(p.dropout > 0 ? 4 * sizeof(int64_t) : 0, device) {
    if (p.dropout > 0) write_seed(seed_.get<int64_t>(), p.random);
  }
  void add(Bindings& data, const AttentionIds& ids) const {
    if (!seed_.get()) return;
    data.add(ids.seed, seed_.get<int64_t>());
    data.add(ids.offset, seed_.get<int64_t>() + 2);
    data.add(ids.rescale, &rescale_);
  }
  const float kept;

 private:
  float rescale_;
  Workspace seed_;
};

float never_value() {
  return cudnn().version() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

bool forward(const Attention& p, const Tensor& q0, const Tensor& k0, const Tensor& v0,
             const Tensor& out, const Tensor& lse) {
  if (!has_fused_form(p, q0.dtype()) || !is_readable(out)) return false;
  const Tensor q = readable(q0), k = readable(k0), v = readable(v0);
  const AttentionProblem problem = describe(p, q, k, v, out);
  const int device = q.device().index;
  const CudnnHandle handle(device);
  const AttentionPlan plan = find_plan(problem, handle);
  if (!plan.plan) return false;
  const auto scale = static_cast<float>(p.scale);
  const float never = never_value();
  Bindings data;
  data.add(plan.ids.q, q.raw()), data.add(plan.ids.k, k.raw()), data.add(plan.ids.v, v.raw());
  data.add(plan.ids.out, out.raw()), data.add(plan.ids.lse, lse.raw());
  data.add(plan.ids.scale, &scale);
  if (p.causal) data.add(plan.ids.never, &never);
  const Dropout dropout(p, device);
  dropout.add(data, plan.ids);
  execute(op, *plan.plan, handle, device, data.ids, data.pointers);
  return true;
}

// The gradient in the layout of the result, as cuDNN wants it.
Tensor like_result(const Tensor& grad, const Tensor& out) {
  if (is_readable(grad) && grad.strides() == out.strides()) return grad;
  Tensor copy = make_strided(out.sizes(), out.strides(), out.dtype(), out.device());
  copy_into(op, copy, grad);
  return copy;
}

bool backward(const Attention& p, const Tensor& grad0, const Tensor& q0, const Tensor& k0,
              const Tensor& v0, const Tensor& out0, const Tensor& lse, const Tensor& grad_q,
              const Tensor& grad_k, const Tensor& grad_v) {
  if (!has_fused_form(p, q0.dtype())) return false;
  // Up to 9.15 its kernels take keys beyond the end for real ones.
  if (cudnn().version() <= 91500 && p.keys % 128 != 0) return false;
  if (!is_readable(grad_q) || !is_readable(grad_k) || !is_readable(grad_v)) return false;
  const Tensor q = readable(q0), k = readable(k0), v = readable(v0), out = readable(out0);
  const Tensor grad = like_result(grad0, out);
  AttentionProblem problem = describe(p, q, k, v, out);
  problem.backward = 1;
  problem.deterministic = math_mode.deterministic.load(std::memory_order_relaxed);
  problem.grad = strides_of(grad), problem.grad_q = strides_of(grad_q);
  problem.grad_k = strides_of(grad_k), problem.grad_v = strides_of(grad_v);
  const int device = q.device().index;
  const CudnnHandle handle(device);
  const AttentionPlan plan = find_plan(problem, handle);
  if (!plan.plan) return false;
  const size_t rows = static_cast<size_t>(p.batch * p.heads * p.queries);
  const Workspace row_sums(rows * sizeof(float), device);
  const Workspace q_sums(problem.deterministic ? 0 : rows * p.width * sizeof(float), device);
  const auto scale = static_cast<float>(p.scale);
  const float never = never_value();
  const Dropout dropout(p, device);
  const AttentionIds& ids = plan.ids;
  Bindings data;
  data.add(ids.q, q.raw()), data.add(ids.k, k.raw()), data.add(ids.v, v.raw());
  data.add(ids.out, out.raw()), data.add(ids.lse, lse.raw()), data.add(ids.grad, grad.raw());
  data.add(ids.grad_q, grad_q.raw()), data.add(ids.grad_k, grad_k.raw());
  data.add(ids.grad_v, grad_v.raw()), data.add(ids.row_sums, row_sums.get());
  data.add(ids.scale, &scale), data.add(ids.one, &dropout.kept);
  dropout.add(data, ids);
  if (p.causal) data.add(ids.never, &never);
  if (!problem.deterministic) data.add(ids.q_sums, q_sums.get());
  execute(op, *plan.plan, handle, device, data.ids, data.pointers);
  return true;
}

// Whether there is a backward pass with dropout; where there is, so is a forward pass.
void drops(const Attention& p, const Tensor& q0, const Tensor& /*k*/, const Tensor& /*v*/,
           bool& answer) {
  answer = false;
  if (!has_fused_form(p, q0.dtype())) return;
  if (cudnn().version() <= 91500 && p.keys % 128 != 0) return;
  const int device = q0.device().index;
  const DeviceGuard guard(device);
  const CudnnHandle handle(device);
  AttentionProblem problem;
  std::memset(&problem, 0, sizeof problem);
  // Strides do not decide what there is: those of dense tensors stand for all.
  const auto dense_strides = [](int64_t heads, int64_t steps, int64_t width) {
    return HeadStrides{heads * steps * width, steps * width, width};
  };
  problem.device = device;
  problem.dtype = static_cast<int64_t>(q0.dtype());
  problem.causal = p.causal;
  problem.dropout = std::bit_cast<int64_t>(p.dropout);
  problem.batch = p.batch, problem.heads = p.heads, problem.kv_heads = p.kv_heads;
  problem.queries = p.queries, problem.keys = p.keys;
  problem.width = p.width, problem.value_width = p.value_width;
  problem.q = problem.grad_q = dense_strides(p.heads, p.queries, p.width);
  problem.k = problem.grad_k = dense_strides(p.kv_heads, p.keys, p.width);
  problem.v = problem.grad_v = dense_strides(p.kv_heads, p.keys, p.value_width);
  problem.out = problem.grad = dense_strides(p.heads, p.queries, p.value_width);
  problem.backward = 1;
  problem.deterministic = math_mode.deterministic.load(std::memory_order_relaxed);
  answer = find_plan(problem, handle).plan != nullptr;
}

const bool filled = (fused_attention.forward = forward, fused_attention.backward = backward,
                     kernels::attention_drops.fill(DeviceType::cuda, drops), true);

}  // namespace
}  // namespace flambeau::cuda
