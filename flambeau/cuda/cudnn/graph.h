// Computations as graphs of cuDNN's operations, and plans that run them. A graph is described
// operation by operation, cuDNN's heuristics propose configurations, and one becomes a plan.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "flambeau/cuda/cudnn/cudnn.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cuda {

cudnnDataType_t cudnn_type(const char* op, DType dtype);

struct CudnnPlan {
  CudnnObject plan;
  std::vector<CudnnObject> parts;  // what it was made of: cuDNN keeps no references
  int64_t workspace = 0;
};

// The configurations that cuDNN's heuristics propose for a finalized graph, best first.
std::vector<CudnnObject> propose(const CudnnObject& graph, cudnnBackendHeurMode_t mode);

// The plan of a configuration, or null where cuDNN cannot follow it.
std::shared_ptr<CudnnPlan> plan_of(CudnnObject config, const CudnnHandle& handle);

// What an engine says of its arithmetic.
std::vector<cudnnBackendNumericalNote_t> numerical_notes(const CudnnObject& config);

// Runs a plan on the handle's stream. Pointers belong to the tensors of the same positions in ids.
void execute(const char* op, const CudnnPlan& plan, const CudnnHandle& handle, int device,
             std::span<const int64_t> ids, std::span<void* const> pointers);

// Tensors are known by the numbers they get, which are their unique ids.
class CudnnGraph {
 public:
  explicit CudnnGraph(const char* op) : op_(op) {}

  // A tensor in memory, of 16-byte alignment; or one that exists only inside of the graph.
  int64_t tensor(cudnnDataType_t type, const Dims& sizes, const Dims& strides) {
    return add_tensor(type, sizes, strides, false, false);
  }
  int64_t inner(cudnnDataType_t type, const Dims& sizes, const Dims& strides) {
    return add_tensor(type, sizes, strides, true, false);
  }
  // A float that is given, in the host's memory, when the plan runs.
  int64_t number() { return add_tensor(CUDNN_DATA_FLOAT, ones(), ones(), false, true); }

  // out = mode(x, b); a selection also takes t, index generation an axis.
  void pointwise(cudnnPointwiseMode_t mode, int64_t out, int64_t x, int64_t b = -1, int64_t t = -1,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void matmul(int64_t a, int64_t b, int64_t out);
  void reduce(cudnnReduceTensorOp_t how, int64_t x, int64_t out);
  void reshape(int64_t x, int64_t out);
  // out = 1 with the given probability, else 0.
  void bernoulli(int64_t seed, int64_t offset, int64_t out, double probability);

  // The graph of all operations; the objects it consists of go to `parts`, itself as the last.
  void finalize(std::vector<CudnnObject>& parts, cudnnHandle_t handle);

  // The first plan of a permitted configuration, or null where cuDNN has none.
  std::shared_ptr<CudnnPlan> plan(const CudnnHandle& handle,
                                  const std::function<bool(const CudnnObject&)>& permitted);

 private:
  static Dims ones() { return {1, 1, 1, 1}; }
  int64_t add_tensor(cudnnDataType_t type, const Dims& sizes, const Dims& strides, bool is_inner,
                     bool is_number);
  // Tensors by the attributes that take them; a negative number stands for none.
  using Operands = std::initializer_list<std::pair<cudnnBackendAttributeName_t, int64_t>>;
  // What an operation does, and the attribute that says so.
  struct Described {
    cudnnBackendAttributeName_t attribute;
    CudnnObject how;
  };
  void add_operation(cudnnBackendDescriptorType_t type, Operands operands,
                     std::optional<Described> described = std::nullopt);

  const char* op_;
  std::vector<CudnnObject> tensors_, descriptions_, operations_;
};

}  // namespace flambeau::cuda
