// Convolution and its two adjoints through cuDNN's graph interface. A problem (shapes, layouts,
// dtypes, alignment, permissions) is planned once: cuDNN's heuristics propose configurations, the
// first that works is kept, or in benchmark mode the fastest of several.
#include "flambeau/cuda/nn/conv.h"

#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "flambeau/base/check.h"
#include "flambeau/cuda/cudnn/graph.h"
#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/kernels/conv.h"
#include "flambeau/kernels/math_mode.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cuda {
namespace {

enum class ConvKind : int64_t { forward, input, weight };
constexpr const char* conv_names[] = {"convolution", "convolution_backward_input",
                                      "convolution_backward_weight"};

constexpr int max_rank = 3;
struct TensorShape {
  int64_t sizes[max_rank + 2], strides[max_rank + 2], alignment;
};

// All that the choice of an algorithm depends on, as numbers that can be compared as bytes.
struct ConvProblem {
  ConvKind kind;
  int64_t dtype, device, rank, tf32, deterministic, benchmark;
  TensorShape x, w, y;
  int64_t before[max_rank], behind[max_rank], stride[max_rank], dilation[max_rank];
  bool operator==(const ConvProblem& other) const {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
struct ProblemHash {
  size_t operator()(const ConvProblem& p) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&p), sizeof p});
  }
};

// One spatial dimension becomes two, since cuDNN's algorithms are made for these.
TensorShape shape_of(const Tensor& tensor, int64_t rank) {
  TensorShape shape;
  std::memset(&shape, 0, sizeof shape);
  int to = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d == 2 && tensor.dim() - 2 < rank) {
      shape.sizes[to] = 1;
      shape.strides[to++] = tensor.sizes()[2] * tensor.strides()[2];
    }
    shape.sizes[to] = tensor.sizes()[d];
    shape.strides[to++] = tensor.strides()[d];
  }
  shape.alignment = 16;
  while (reinterpret_cast<uintptr_t>(tensor.raw()) % shape.alignment) shape.alignment /= 2;
  return shape;
}

// cuDNN takes the strides of dimensions of size 1 seriously: they must fit the layout.
void settle_strides(TensorShape& shape, int64_t rank, bool channels_last) {
  int64_t step = 1;
  const int64_t dims = rank + 2;
  int order[max_rank + 2], count = 0;  // innermost first
  if (channels_last) order[count++] = 1;
  for (int64_t d = dims - 1; d >= 2; --d) order[count++] = static_cast<int>(d);
  if (!channels_last) order[count++] = 1;
  order[count++] = 0;
  for (int i = 0; i < count; ++i) {
    shape.strides[order[i]] = step;
    step *= shape.sizes[order[i]];
  }
}

bool is_channels_last(const Tensor& x) {
  return !x.is_contiguous() && x.dim() > 3 && x.strides()[1] == 1;
}
bool can_be_channels_last(const Tensor& x) {
  return x.dim() > 3 && x.is_contiguous(x.dim() == 4 ? MemoryFormat::channels_last
                                                     : MemoryFormat::channels_last_3d);
}

// A weight in the layout of the tensors that it works on, copied if need be.
Tensor matching_weight(const Tensor& w, const Tensor& x, const Tensor& y) {
  const bool last = is_channels_last(x) || is_channels_last(y);
  if (!last || can_be_channels_last(w)) return w;
  const MemoryFormat format =
      w.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
  Tensor copy = make_strided(w.sizes(), format_strides(w.sizes(), format), w.dtype(), w.device());
  copy_into("convolution", copy, w);
  return copy;
}

ConvProblem describe(ConvKind kind, const Tensor& x, const Tensor& w, const Tensor& y,
                     const ConvGeometry& g, const Dims& behind) {
  ConvProblem p;
  std::memset(&p, 0, sizeof p);
  const auto given = static_cast<int64_t>(g.stride.size());
  p.kind = kind;
  p.dtype = static_cast<int64_t>(x.dtype());
  p.device = x.device().index;
  p.rank = std::max<int64_t>(given, 2);
  p.tf32 = math_mode.conv_tf32.load(std::memory_order_relaxed);
  p.deterministic = math_mode.deterministic.load(std::memory_order_relaxed);
  p.benchmark = math_mode.conv_benchmark.load(std::memory_order_relaxed);
  p.x = shape_of(x, p.rank), p.w = shape_of(w, p.rank), p.y = shape_of(y, p.rank);
  const bool last = is_channels_last(x) || is_channels_last(y);
  settle_strides(p.x, p.rank, last);
  settle_strides(p.y, p.rank, last);
  settle_strides(p.w, p.rank, is_channels_last(w) || (last && can_be_channels_last(w)));
  for (int64_t d = 0; d < p.rank; ++d) {
    const int64_t from = d - (p.rank - given);
    p.stride[d] = from < 0 ? 1 : g.stride[from];
    p.dilation[d] = from < 0 ? 1 : g.dilation[from];
    p.before[d] = from < 0 ? 0 : g.padding[from];
    p.behind[d] = from < 0 ? 0 : behind[from];
  }
  return p;
}

// --- Making a plan -------------------------------------------------------------------------------

constexpr int64_t x_id = 'x', w_id = 'w', y_id = 'y';

CudnnObject make_tensor_object(const TensorShape& shape, const ConvProblem& p, cudnnDataType_t type,
                               int64_t id) {
  CudnnObject tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, p.rank + 2, shape.sizes);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, p.rank + 2, shape.strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &shape.alignment);
  tensor.finalize(conv_names[static_cast<int>(p.kind)]);
  return tensor;
}

CudnnObject make_convolution(const ConvProblem& p, cudnnDataType_t type) {
  CudnnObject conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &p.rank);
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, p.rank, p.before);
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, p.rank, p.behind);
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, p.rank, p.stride);
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, p.rank, p.dilation);
  conv.finalize(conv_names[static_cast<int>(p.kind)]);
  return conv;
}

// The names of an operation's attributes, by kind.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, conv, alpha, beta;
};
constexpr OperationNames operation_names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

// The objects that describe the problem, the last of them the graph of its one operation.
std::vector<CudnnObject> make_graph(const ConvProblem& p, cudnnHandle_t handle) {
  const char* op = conv_names[static_cast<int>(p.kind)];
  const cudnnDataType_t type = cudnn_type(op, static_cast<DType>(p.dtype));
  const OperationNames& names = operation_names[static_cast<int>(p.kind)];
  std::vector<CudnnObject> objects;
  objects.push_back(make_tensor_object(p.x, p, type, x_id));
  objects.push_back(make_tensor_object(p.w, p, type, w_id));
  objects.push_back(make_tensor_object(p.y, p, type, y_id));
  objects.push_back(make_convolution(p, type));
  CudnnObject operation(names.type);
  const cudnnBackendAttributeName_t attributes[] = {names.x, names.w, names.y, names.conv};
  for (int i = 0; i < 4; ++i) operation.set(attributes[i], objects[i]);
  if (type == CUDNN_DATA_DOUBLE) {
    const double one = 1, zero = 0;
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1, &one);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, 1, &zero);
  } else {
    const float one = 1, zero = 0;
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  }
  operation.finalize(op);
  CudnnObject graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize(op);
  objects.push_back(std::move(operation));
  objects.push_back(std::move(graph));
  return objects;
}

// Whether a configuration computes as exactly and repeatably as is asked for.
bool is_permitted(const CudnnObject& config, const ConvProblem& p) {
  const bool single = static_cast<DType>(p.dtype) == DType::float32;
  for (const cudnnBackendNumericalNote_t note : numerical_notes(config)) {
    if (p.deterministic && note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (single && !p.tf32 &&
        (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
         note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
      return false;
  }
  return true;
}

struct Pointers {
  void *x, *w, *y;
};

void execute(const CudnnPlan& plan, const CudnnHandle& handle, const Pointers& data,
             const ConvProblem& p) {
  const int64_t ids[] = {x_id, w_id, y_id};
  void* const pointers[] = {data.x, data.w, data.y};
  execute(conv_names[static_cast<int>(p.kind)], plan, handle, static_cast<int>(p.device), ids,
          pointers);
}

// Milliseconds of one run, or a negative number if it fails.
float time_plan(const CudnnPlan& plan, const CudnnHandle& handle, const Pointers& data,
                const ConvProblem& p) {
  const cudaStream_t stream = current_handle(static_cast<int>(p.device));
  cudaEvent_t start = nullptr, end = nullptr;
  float best = -1;
  try {
    check(cudaEventCreate(&start), "convolution");
    check(cudaEventCreate(&end), "convolution");
    for (int i = 0; i < 3; ++i) {  // the first one warms up
      float taken = 0;
      check(cudaEventRecord(start, stream), "convolution");
      execute(plan, handle, data, p);
      check(cudaEventRecord(end, stream), "convolution");
      check(cudaEventSynchronize(end), "convolution");
      check(cudaEventElapsedTime(&taken, start, end), "convolution");
      if (i > 0 && (best < 0 || taken < best)) best = taken;
    }
  } catch (const Error&) {
    best = -1;  // a configuration that does not run is no candidate
  }
  if (start) cudaEventDestroy(start);
  if (end) cudaEventDestroy(end);
  return best;
}

std::shared_ptr<CudnnPlan> make_plan(const ConvProblem& p, const CudnnHandle& handle,
                                     const Pointers& data) {
  std::vector<CudnnObject> objects = make_graph(p, handle.get());
  std::shared_ptr<CudnnPlan> best;
  float best_time = -1;
  int timed = 0;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<CudnnObject> configs = propose(objects.back(), mode);
    for (CudnnObject& config : configs) {
      if ((best && !p.benchmark) || timed == 10) break;
      if (!is_permitted(config, p)) continue;
      const std::shared_ptr<CudnnPlan> plan = plan_of(std::move(config), handle);
      if (!plan) continue;
      const float taken = p.benchmark ? time_plan(*plan, handle, data, p) : 0;
      timed += p.benchmark;
      if (taken >= 0 && (best_time < 0 || taken < best_time)) best = plan, best_time = taken;
    }
    if (best) break;
  }
  CHECK(best, RuntimeError, "{}: cuDNN has no algorithm for input {}, weight {} of dtype {}",
        conv_names[static_cast<int>(p.kind)], IntSpan(p.x.sizes, p.rank + 2),
        IntSpan(p.w.sizes, p.rank + 2), static_cast<DType>(p.dtype));
  for (CudnnObject& object : objects) best->parts.push_back(std::move(object));
  return best;
}

void run(ConvKind kind, const Tensor& x, const Tensor& w, const Tensor& y, const ConvGeometry& g,
         const Dims& behind) {
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const ConvProblem problem = describe(kind, x, w, y, g, behind);
  const CudnnHandle handle(device);
  const Pointers data{x.raw(), w.raw(), y.raw()};
  static auto* plans = new std::unordered_map<ConvProblem, std::shared_ptr<CudnnPlan>, ProblemHash>;
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  std::shared_ptr<CudnnPlan>& known = (*plans)[problem];
  if (!known) known = make_plan(problem, handle, data);
  const std::shared_ptr<CudnnPlan> plan = known;
  lock.unlock();
  execute(*plan, handle, data, problem);
}

// --- Padding that differs before and behind ------------------------------------------------------

// The padding behind each dimension: that before it if the sizes allow, else what the sizes ask
// for.
Dims padding_behind(const Tensor& x, const Tensor& w, const Tensor& y, const ConvGeometry& g) {
  Dims behind;
  for (size_t d = 0; d < g.stride.size(); ++d) {
    const int64_t reach = g.dilation[d] * (w.sizes()[d + 2] - 1) + 1, size = y.sizes()[d + 2];
    const int64_t span = x.sizes()[d + 2] + 2 * g.padding[d] - reach;
    const bool alike = span >= 0 && span / g.stride[d] + 1 == size;
    const int64_t needed = (size - 1) * g.stride[d] + reach - x.sizes()[d + 2] - g.padding[d];
    behind.push_back(alike ? g.padding[d] : std::max<int64_t>(needed, 0));
  }
  return behind;
}

// x with its padding as elements, or a place for it: cuDNN's algorithms pad alike on both sides.
struct Padded {
  Tensor whole, inside;  // the padded tensor, and the part of it that is x
  ConvGeometry geometry;
  Dims none;
  Padded(const Tensor& x, const ConvGeometry& g, const Dims& behind) : geometry(g) {
    Dims sizes = x.sizes().dims();
    int64_t first = 0;
    for (size_t d = 0; d < g.stride.size(); ++d) sizes[d + 2] += g.padding[d] + behind[d];
    whole = make_tensor(sizes, x.dtype(), x.device());
    for (size_t d = 0; d < g.stride.size(); ++d) {
      first += g.padding[d] * whole.strides()[d + 2];
      geometry.padding[d] = 0;
      none.push_back(0);
    }
    inside = make_alias(whole, x.sizes(), whole.strides(), first);
  }
  void fill(const Tensor& x) const {
    const int device = x.device().index;
    const DeviceGuard guard(device);
    check(
        cudaMemsetAsync(whole.raw(), 0, whole.numel() * whole.item_size(), current_handle(device)),
        "convolution");
    copy_into("convolution", inside, x);
  }
};

void conv_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 const ConvGeometry& geometry) {
  if (x.is_complex()) {
    return convolve_complex(x, weight, bias, y,
                            [&](const Tensor& a, const Tensor& b, const Tensor& out) {
                              conv_kernel(a, b, {}, out, geometry);
                            });
  }
  const Dims behind = padding_behind(x, weight, y, geometry);
  if (behind == geometry.padding) {
    run(ConvKind::forward, x, matching_weight(weight, x, y), y, geometry, behind);
  } else {
    const Padded padded(x, geometry, behind);
    padded.fill(x);
    const DenseResult out(y);
    run(ConvKind::forward, padded.whole, dense("convolution", weight), out.work(), padded.geometry,
        padded.none);
    out.finish("convolution");
  }
  if (bias.defined()) add_bias(y, bias);
}

void conv_input_kernel(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x,
                       const ConvGeometry& geometry) {
  if (grad_y.is_complex()) {
    return convolve_complex(grad_y, weight, {}, grad_x,
                            [&](const Tensor& a, const Tensor& b, const Tensor& out) {
                              conv_input_kernel(a, b, out, geometry);
                            });
  }
  const Dims behind = padding_behind(grad_x, weight, grad_y, geometry);
  if (behind == geometry.padding) {
    run(ConvKind::input, grad_x, matching_weight(weight, grad_x, grad_y), grad_y, geometry, behind);
    return;
  }
  const Padded padded(grad_x, geometry, behind);
  run(ConvKind::input, padded.whole, dense("convolution", weight), dense("convolution", grad_y),
      padded.geometry, padded.none);
  copy_into("convolution", grad_x, padded.inside);
}

void conv_weight_kernel(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight,
                        const Tensor& grad_bias, const ConvGeometry& geometry) {
  if (x.is_complex()) {  // whose bias gets its gradient from the op
    return convolve_complex(grad_y, x, {}, grad_weight,
                            [&](const Tensor& a, const Tensor& b, const Tensor& out) {
                              conv_weight_kernel(a, b, out, {}, geometry);
                            });
  }
  const Dims behind = padding_behind(x, grad_weight, grad_y, geometry);
  if (behind == geometry.padding) {
    run(ConvKind::weight, x, grad_weight, grad_y, geometry, behind);
  } else {
    const Padded padded(x, geometry, behind);
    padded.fill(x);
    const DenseResult out(grad_weight);
    run(ConvKind::weight, padded.whole, out.work(), dense("convolution", grad_y), padded.geometry,
        padded.none);
    out.finish("convolution");
  }
  if (grad_bias.defined()) sum_bias_gradient(grad_y, grad_bias);
}

const bool filled = (kernels::conv.fill(DeviceType::cuda, conv_kernel),
                     kernels::conv_input.fill(DeviceType::cuda, conv_input_kernel),
                     kernels::conv_weight.fill(DeviceType::cuda, conv_weight_kernel), true);

}  // namespace
}  // namespace flambeau::cuda
