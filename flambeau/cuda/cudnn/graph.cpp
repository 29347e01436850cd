#include "flambeau/cuda/cudnn/graph.h"

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"

namespace flambeau::cuda {

cudnnDataType_t cudnn_type(const char* op, DType dtype) {
  switch (dtype) {
    case DType::float16: return CUDNN_DATA_HALF;
    case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
    case DType::float32: return CUDNN_DATA_FLOAT;
    case DType::float64: return CUDNN_DATA_DOUBLE;
    default:
      fail<NotImplementedError>("\"{}\" not implemented for '{}' on CUDA", op,
                                dtype_legacy_name(dtype));
  }
}

std::vector<CudnnObject> propose(const CudnnObject& graph, cudnnBackendHeurMode_t mode) {
  CudnnObject heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  std::vector<CudnnObject> configs;
  if (!heuristics.try_finalize()) return configs;
  const int64_t count =
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().raw());
  }
  if (count == 0) return configs;
  const int64_t got = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     count, raw.data());
  configs.erase(configs.begin() + std::min(got, count), configs.end());
  return configs;
}

std::shared_ptr<CudnnPlan> plan_of(CudnnObject config, const CudnnHandle& handle) {
  auto plan = std::make_shared<CudnnPlan>(
      CudnnPlan{CudnnObject(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), {}, 0});
  const cudnnHandle_t raw = handle.get();
  plan->plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &raw);
  plan->plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!plan->plan.try_finalize()) return nullptr;
  plan->plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &plan->workspace);
  plan->parts.push_back(std::move(config));
  return plan;
}

std::vector<cudnnBackendNumericalNote_t> numerical_notes(const CudnnObject& config) {
  const CudnnObject engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  notes.resize(std::min<int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
  return notes;
}

void execute(const char* op, const CudnnPlan& plan, const CudnnHandle& handle, int device,
             std::span<const int64_t> ids, std::span<void* const> pointers) {
  const Workspace workspace(plan.workspace, device);
  CudnnObject pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  void* memory = workspace.get();
  const auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &memory);
  pack.finalize(op);
  check_cudnn(cudnn().execute(handle.get(), plan.plan.raw(), pack.raw()), op);
}

// --- Building a graph ----------------------------------------------------------------------------

int64_t CudnnGraph::add_tensor(cudnnDataType_t type, const Dims& sizes, const Dims& strides,
                               bool is_inner, bool is_number) {
  const auto id = static_cast<int64_t>(tensors_.size()), rank = static_cast<int64_t>(sizes.size());
  const int64_t alignment = 16;
  CudnnObject tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, sizes.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_inner);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_number);
  tensor.finalize(op_);
  tensors_.push_back(std::move(tensor));
  return id;
}

void CudnnGraph::add_operation(cudnnBackendDescriptorType_t type, Operands operands,
                               std::optional<Described> described) {
  CudnnObject operation(type);
  if (described) {
    described->how.finalize(op_);
    operation.set(described->attribute, described->how);
    descriptions_.push_back(std::move(described->how));
  }
  for (const auto& [attribute, tensor] : operands) {
    if (tensor >= 0) operation.set(attribute, tensors_[tensor]);
  }
  operation.finalize(op_);
  operations_.push_back(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, int64_t out, int64_t x, int64_t b, int64_t t,
                           cudnnDataType_t compute, int64_t axis) {
  CudnnObject how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  add_operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                 {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                 {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t},
                 {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out}},
                Described{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, std::move(how)});
}

void CudnnGraph::matmul(int64_t a, int64_t b, int64_t out) {
  CudnnObject how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  add_operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                 {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                 {CUDNN_ATTR_OPERATION_MATMUL_CDESC, out}},
                Described{CUDNN_ATTR_OPERATION_MATMUL_DESC, std::move(how)});
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how_to, int64_t x, int64_t out) {
  CudnnObject how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_to);
  add_operation(
      CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
      {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out}},
      Described{CUDNN_ATTR_OPERATION_REDUCTION_DESC, std::move(how)});
}

void CudnnGraph::reshape(int64_t x, int64_t out) {
  add_operation(
      CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
      {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out}});
}

void CudnnGraph::bernoulli(int64_t seed, int64_t offset, int64_t out, double probability) {
  CudnnObject how(CUDNN_BACKEND_RNG_DESCRIPTOR);
  const cudnnRngDistribution_t distribution = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
  how.set(CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &distribution);
  how.set(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &probability);
  add_operation(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR,
                {{CUDNN_ATTR_OPERATION_RNG_SEED, seed},
                 {CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset},
                 {CUDNN_ATTR_OPERATION_RNG_YDESC, out}},
                Described{CUDNN_ATTR_OPERATION_RNG_DESC, std::move(how)});
}

void CudnnGraph::finalize(std::vector<CudnnObject>& parts, cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnObject& operation : operations_) raw.push_back(operation.raw());
  CudnnObject graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(raw.size()), raw.data());
  graph.finalize(op_);
  for (auto* list : {&tensors_, &descriptions_, &operations_}) {
    for (CudnnObject& object : *list) parts.push_back(std::move(object));
    list->clear();
  }
  parts.push_back(std::move(graph));
}

std::shared_ptr<CudnnPlan> CudnnGraph::plan(
    const CudnnHandle& handle, const std::function<bool(const CudnnObject&)>& permitted) {
  std::vector<CudnnObject> parts;
  finalize(parts, handle.get());
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnObject& config : propose(parts.back(), mode)) {
      if (!permitted(config)) continue;
      const std::shared_ptr<CudnnPlan> plan = plan_of(std::move(config), handle);
      if (!plan) continue;
      for (CudnnObject& part : parts) plan->parts.push_back(std::move(part));
      return plan;
    }
  }
  return nullptr;
}

}  // namespace flambeau::cuda
