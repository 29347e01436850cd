// Starting kernels. The runtime library finds a kernel by its address on the host in every launch;
// here every thread remembers the driver's handles of the kernels it started, and calls the driver.
#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/driver_function.h"
#include "flambeau/cuda/runtime/launch.cuh"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/cuda/runtime/trace.h"

namespace flambeau::cuda {
namespace {

// The driver's functions; null where it has no such.
struct Driver {
  CUresult (*launch)(const CUlaunchConfig*, CUfunction, void**, void**) = nullptr;
  CUresult (*new_graph)(CUgraph*, unsigned) = nullptr;
  CUresult (*add_kernel)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                         const CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*instantiate)(CUgraphExec*, CUgraph, unsigned long long) = nullptr;
  CUresult (*set_kernel)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*launch_graph)(CUgraphExec, CUstream) = nullptr;
  CUresult (*capture_of)(CUstream, CUstreamCaptureStatus*) = nullptr;
  CUresult (*priority_of)(CUstream, int*) = nullptr;

  Driver() {
    find_driver_function("cuLaunchKernelEx", 12000, launch);
    find_driver_function("cuGraphCreate", 12000, new_graph);
    find_driver_function("cuGraphAddKernelNode", 12000, add_kernel);
    find_driver_function("cuGraphInstantiateWithFlags", 12000, instantiate);
    find_driver_function("cuGraphExecKernelNodeSetParams", 12000, set_kernel);
    find_driver_function("cuGraphLaunch", 12000, launch_graph);
    find_driver_function("cuStreamIsCapturing", 12000, capture_of);
    find_driver_function("cuStreamGetPriority", 12000, priority_of);
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

// How a kernel is to be started.
struct Launch {
  const void* kernel;
  cudaFunction_t handle;
  dim3 grid, block;
  size_t shared_bytes;
  void** arguments;
};

// --- Small kernels -------------------------------------------------------------------------------

// Note [Kernels as graphs]
// A graph of one kernel, given new arguments, costs the host half of what a launch does
// (benchmarks/launch.cu), and a program with many small kernels is bound by that. So kernels of few
// blocks are started as graphs after some launches. Launches of one graph wait for each other, as
// they do in one stream: there is one graph a kernel, thread and stream. A stream that is captured
// takes plain launches, and so does one of another priority than the default, which its graphs
// would not have. While a trace is taken launches are plain, so that kernels are found under what
// asked for them. FLAMBEAU_LAUNCH_GRAPHS=0 makes all launches plain, for tools that show graphs as
// a whole.
const bool uses_graphs = [] {
  const char* value = std::getenv("FLAMBEAU_LAUNCH_GRAPHS");
  return !value || std::strcmp(value, "0") != 0;
}();
constexpr unsigned few_blocks = 512;
constexpr int launches_before_graph = 16, launches_after_failure = 1 << 20;

CUDA_KERNEL_NODE_PARAMS as_node(const Launch& launch) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = launch.handle;
  node.gridDimX = launch.grid.x, node.gridDimY = launch.grid.y, node.gridDimZ = launch.grid.z;
  node.blockDimX = launch.block.x, node.blockDimY = launch.block.y;
  node.blockDimZ = launch.block.z;
  node.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  node.kernelParams = launch.arguments;
  return node;
}

class KernelGraph {
 public:
  KernelGraph(const Launch& launch, cudaStream_t stream) {
    int priority = 0;
    if (stream && (driver().priority_of(stream, &priority) != CUDA_SUCCESS || priority != 0))
      return;
    const OutsideCapture outside;
    const CUDA_KERNEL_NODE_PARAMS node = as_node(launch);
    const bool made = driver().new_graph(&graph_, 0) == CUDA_SUCCESS &&
                      driver().add_kernel(&node_, graph_, nullptr, 0, &node) == CUDA_SUCCESS &&
                      driver().instantiate(&executable_, graph_, 0) == CUDA_SUCCESS;
    if (!made) executable_ = nullptr;
  }
  ~KernelGraph() {
    if (getpid() != process_) return;  // a forked process has nothing of the driver's
    if (executable_) cudaGraphExecDestroy(executable_);  // after what is under way has ended
    if (graph_) cudaGraphDestroy(graph_);
  }
  KernelGraph(const KernelGraph&) = delete;
  KernelGraph& operator=(const KernelGraph&) = delete;

  // False if the driver would not.
  bool start(const Launch& launch, cudaStream_t stream) {
    const CUDA_KERNEL_NODE_PARAMS node = as_node(launch);
    return executable_ && driver().set_kernel(executable_, node_, &node) == CUDA_SUCCESS &&
           driver().launch_graph(executable_, stream) == CUDA_SUCCESS;
  }

 private:
  CUgraph graph_ = nullptr;
  CUgraphNode node_ = nullptr;
  CUgraphExec executable_ = nullptr;
  pid_t process_ = getpid();
};

// The default stream is never captured.
bool is_captured(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream && (driver().capture_of(stream, &status) != CUDA_SUCCESS ||
                    status != CU_STREAM_CAPTURE_STATUS_NONE);
}

bool may_be_graph(const Launch& launch, cudaStream_t stream) {
  static const bool has_all = driver().new_graph && driver().add_kernel && driver().instantiate &&
                              driver().set_kernel && driver().launch_graph && driver().capture_of &&
                              driver().priority_of;
  return uses_graphs && has_all && !launch_blocking &&
         uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z <= few_blocks &&
         !tracing.load(std::memory_order_relaxed) && !is_captured(stream);
}

// --- All kernels ---------------------------------------------------------------------------------

struct Known {
  const void* kernel = nullptr;
  int device = -1;
  cudaStream_t stream = nullptr;
  cudaFunction_t handle = nullptr;
  size_t shared_bytes = 0;                     // of dynamic shared memory that it may have
  int plain_launches = launches_before_graph;  // until there is to be a graph
  std::unique_ptr<KernelGraph> graph{};
};
constexpr size_t known_count = 512;
thread_local std::unique_ptr<Known[]> known;

bool start_as_graph(Known& entry, const Launch& launch, cudaStream_t stream) {
  if (entry.plain_launches > 0) {
    --entry.plain_launches;
    return false;
  }
  if (!entry.graph) entry.graph = std::make_unique<KernelGraph>(launch, stream);
  if (entry.graph->start(launch, stream)) return true;
  entry.graph.reset();
  entry.plain_launches = launches_after_failure;
  return false;
}

// More than the usual has to be asked for.
constexpr size_t usual_shared_bytes = 48 << 10;
void allow_shared_bytes(const void* kernel, size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "shared memory of a kernel");
}

// False if the driver would not: then the runtime library is asked, which knows more ways and tells
// what is wrong.
bool launch_by_handle(Launch launch, int device, cudaStream_t stream) {
  if (!driver().launch) return false;
  if (!known) {
    known = std::make_unique<Known[]>(known_count);
    cudaSetDevice(device);  // a thread's first call: the driver wants a context
  }
  const auto mixed =
      reinterpret_cast<uintptr_t>(launch.kernel) >> 4 ^ reinterpret_cast<uintptr_t>(stream) >> 6;
  Known& entry = known[mixed % known_count];
  if (entry.kernel != launch.kernel || entry.device != device || entry.stream != stream) {
    const OutsideCapture outside;  // the kernel's code may have to be loaded
    cudaFunction_t handle = nullptr;
    if (cudaGetFuncBySymbol(&handle, launch.kernel) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    entry = {launch.kernel, device, stream, handle, usual_shared_bytes};
  }
  if (launch.shared_bytes > entry.shared_bytes) {
    allow_shared_bytes(launch.kernel, launch.shared_bytes);
    entry.shared_bytes = launch.shared_bytes;
  }
  launch.handle = entry.handle;
  if (may_be_graph(launch, stream) && start_as_graph(entry, launch, stream)) return true;
  const auto& [kernel, handle, grid, block, shared_bytes, arguments] = launch;
  const CUlaunchConfig config{
      grid.x, grid.y,  grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared_bytes),
      stream, nullptr, 0};
  return driver().launch(&config, handle, arguments, nullptr) == CUDA_SUCCESS;
}

}  // namespace

void start_kernel(const char* op, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                  void** arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // of no elements
  const int device = current_device();
  const cudaStream_t stream = current_handle(device);
  if (!launch_by_handle({kernel, nullptr, grid, block, shared_bytes, arguments}, device, stream))
      [[unlikely]] {
    if (shared_bytes > usual_shared_bytes) allow_shared_bytes(kernel, shared_bytes);
    check(cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream), op);
  }
  if (launch_blocking) [[unlikely]]
    wait_for_launch(op, stream);
}

}  // namespace flambeau::cuda
