#include "flambeau/cuda/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/memory/pinned.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"

namespace flambeau::cuda {
namespace {

// The captures under way. Nearly always there are none, and only the count is looked at.
std::atomic<int> capture_count{0};
std::mutex captures_mutex;
std::vector<std::pair<unsigned long long, Graph*>>& captures() {
  static auto* all = new std::vector<std::pair<unsigned long long, Graph*>>;
  return *all;
}

cudaStreamCaptureMode mode_of(const std::string& name) {
  if (name == "global") return cudaStreamCaptureModeGlobal;
  if (name == "thread_local") return cudaStreamCaptureModeThreadLocal;
  CHECK(name == "relaxed", RuntimeError,
        "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {}",
        name);
  return cudaStreamCaptureModeRelaxed;
}

}  // namespace

Graph* capturing_graph(int device) {
  if (capture_count.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  const unsigned long long capture = capture_of(current_handle(device));
  if (!capture) return nullptr;
  const std::lock_guard lock(captures_mutex);
  for (const auto& [id, graph] : captures()) {
    if (id == capture) return graph;
  }
  return nullptr;
}

void Graph::begin(PoolId pool, const std::string& mode) {
  CHECK(!graph_ && !executable_ && !capturing_, RuntimeError,
        "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a "
        "new instance.");
  const cudaStreamCaptureMode checked_mode = mode_of(mode);
  device_ = checked_index(-1);
  stream_ = current_handle(device_);
  CHECK(stream_, RuntimeError,
        "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to "
        "replay them on the default stream.)");
  pool_ = pool == PoolId{} ? new_pool(true) : pool;
  DeviceMemory& memory = caching_allocator().of(device_);
  memory.retain_pool(pool_);
  has_pool_ = true;
  memory.begin_capture();
  const cudaError_t error = cudaStreamBeginCapture(stream_, checked_mode);
  if (error != cudaSuccess) {
    memory.end_capture();
    reset();
    check(error, "CUDAGraph.capture_begin");
  }
  capturing_ = true;
  capture_ = capture_of(stream_);
  caching_allocator().begin_route(device_, pool_, capture_);
  const std::lock_guard lock(captures_mutex);
  captures().emplace_back(capture_, this);
  ++capture_count;
}

void Graph::leave_capture() noexcept {
  if (!capturing_) return;
  capturing_ = false;
  caching_allocator().end_route(device_, pool_, capture_);
  caching_allocator().of(device_).end_capture();
  const std::lock_guard lock(captures_mutex);
  std::erase_if(captures(), [&](const auto& entry) { return entry.second == this; });
  --capture_count;
}

size_t Graph::end() {
  CHECK(capturing_, RuntimeError,
        "CUDAGraph.capture_end() called, but no capture was begun with this instance");
  CHECK(current_handle(device_) == stream_, RuntimeError,
        "Capture must end on the same stream it began on.");
  const cudaError_t error = cudaStreamEndCapture(stream_, &graph_);
  leave_capture();
  if (error != cudaSuccess) {
    cudaGetLastError();
    reset();
    check(error, "CUDAGraph.capture_end");
  }
  CHECK(graph_, RuntimeError, "Invalid capture.");
  size_t nodes = 0;
  check(cudaGraphGetNodes(graph_, nullptr, &nodes), "CUDAGraph.capture_end");
  if (!keep_) instantiate();
  return nodes;
}

void Graph::instantiate() {
  CHECK(graph_, RuntimeError,
        "capture_end() must have been called before calling instantiate, on a graph that is kept");
  if (executable_) {
    check(cudaGraphExecDestroy(executable_), "CUDAGraph.instantiate");
    executable_ = nullptr;
  }
  check(cudaGraphInstantiate(&executable_, graph_, 0), "CUDAGraph.instantiate");
  if (!keep_ && !keep_for_dump_) {
    check(cudaGraphDestroy(graph_), "CUDAGraph.instantiate");
    graph_ = nullptr;
  }
}

void Graph::replay() {
  if (!executable_ && keep_ && graph_) instantiate();
  CHECK(executable_, RuntimeError,
        "Called CUDAGraph::replay without a preceding successful capture.");
  const DeviceGuard guard(device_);
  for (Draws& draws : draws_) {
    if (!draws.words) continue;
    const std::lock_guard lock(draws.generator->mutex());
    const uint64_t offset = draws.generator->take(draws.words);
    write_philox_state(draws.state, draws.generator->initial_seed(), offset);
  }
  check(cudaGraphLaunch(executable_, current_handle(device_)), "CUDAGraph.replay");
}

void Graph::forget() noexcept {
  if (capturing_) {  // never ended: what was captured is lost, the stream is not
    cudaGraph_t unfinished = nullptr;
    cudaStreamEndCapture(stream_, &unfinished);
    if (unfinished) cudaGraphDestroy(unfinished);
    cudaGetLastError();
    leave_capture();
  }
  if (executable_) cudaGraphExecDestroy(executable_);
  if (graph_) cudaGraphDestroy(graph_);
  executable_ = nullptr;
  graph_ = nullptr;
  for (const Draws& draws : draws_) {
    caching_allocator().free(draws.state, 0, Device(DeviceType::cuda, device_));
  }
  draws_.clear();
  for (void* data : host_) pinned_memory().free(data, 0, Device());
  host_.clear();
  if (has_pool_) caching_allocator().of(device_).release_pool(pool_);
  has_pool_ = false;
}

void Graph::reset() { forget(); }

PoolId Graph::pool() {
  CHECK(has_pool_, RuntimeError,
        "Called CUDAGraph::pool() without a preceding successful capture.");
  return pool_;
}

void Graph::dump(const std::string& path) {
  CHECK(graph_, RuntimeError,
        "CUDAGraph.debug_dump: the graph was not kept; call enable_debug_mode() before capturing "
        "it, or make it with keep_graph=True");
  check(cudaGraphDebugDotPrint(graph_, path.c_str(), cudaGraphDebugDotFlagsVerbose),
        "CUDAGraph.debug_dump");
  if (keep_) return;
  cudaGraphDestroy(graph_);
  graph_ = nullptr;
}

void* Graph::raw(bool executable) {
  if (executable) {
    CHECK(executable_, RuntimeError,
          "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called");
    return executable_;
  }
  CHECK(keep_, RuntimeError,
        "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with "
        "keep_graph=True");
  CHECK(graph_, RuntimeError,
        "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  return graph_;
}

void Graph::register_generator(Generator& generator) {
  // Generators are found when they are first drawn from; this only says that it is known.
  CHECK(generator.device().is_cuda(), RuntimeError,
        "CUDAGraph.register_generator_state: expected a CUDA generator, but got one of {}",
        generator.device());
}

void* Graph::keep(const void* host, size_t bytes) {
  void* copy = pinned_memory().allocate(bytes, Device());
  host_.push_back(copy);
  return std::memcpy(copy, host, bytes);
}

void upload(const char* op, void* to, const void* host, size_t bytes, int device) {
  if (Graph* graph = capturing_graph(device)) host = graph->keep(host, bytes);
  check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, current_handle(device)), op);
}

PhiloxState Graph::claim(PhiloxGenerator& generator, uint64_t words) {
  auto found = std::find_if(draws_.begin(), draws_.end(), [&](const Draws& draws) {
    return draws.generator.get() == &generator;
  });
  if (found == draws_.end()) {
    auto* state = static_cast<uint64_t*>(
        caching_allocator().allocate(2 * sizeof(uint64_t), Device(DeviceType::cuda, device_)));
    draws_.push_back({IntrusivePtr<PhiloxGenerator>(&generator), state});
    found = std::prev(draws_.end());
  }
  const PhiloxState state{0, found->words, found->state};
  found->words += (words + 3) / 4 * 4;
  return state;
}

}  // namespace flambeau::cuda
