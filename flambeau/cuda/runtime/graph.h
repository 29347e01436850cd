// Captured work. While a stream is captured, random kernels read their seed and position from
// memory that each replay writes anew, so that every replay draws new numbers.
#pragma once

#include <vector>

#include <cuda_runtime_api.h>

#include "flambeau/cuda/runtime/generator.h"
#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {

class Graph final : public DeviceGraph {
 public:
  explicit Graph(bool keep) : keep_(keep) {}
  ~Graph() override { forget(); }

  void begin(PoolId pool, const std::string& mode) override;
  size_t end() override;
  void instantiate() override;
  void replay() override;
  void reset() override;
  PoolId pool() override;
  void keep_for_dump() override { keep_for_dump_ = true; }
  void dump(const std::string& path) override;
  void* raw(bool executable) override;
  void register_generator(Generator& generator) override;

  // The next `words` words of the generator's stream, as kernels of this graph will find them.
  PhiloxState claim(PhiloxGenerator& generator, uint64_t words);
  // A copy of bytes of the host that lives as long as the graph.
  void* keep(const void* host, size_t bytes);

 private:
  struct Draws {  // of one generator
    IntrusivePtr<PhiloxGenerator> generator;
    uint64_t* state;     // on the device: seed, offset
    uint64_t words = 0;  // that a replay takes
  };

  void forget() noexcept;
  void leave_capture() noexcept;

  bool keep_, keep_for_dump_ = false;
  bool capturing_ = false, has_pool_ = false;
  int device_ = -1;
  cudaStream_t stream_ = nullptr;
  unsigned long long capture_ = 0;
  PoolId pool_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<Draws> draws_;
  std::vector<void*> host_;  // copies that replays read
};

// The graph that the current stream of a device is being captured into; null if none.
Graph* capturing_graph(int device);

// Copies bytes of the host, which may be gone afterwards, to the device; into a graph as well.
void upload(const char* op, void* to, const void* host, size_t bytes, int device);

// Writes a generator's seed and offset where the kernels of a graph read them (graph_state.cu).
void write_philox_state(uint64_t* state, uint64_t seed, uint64_t offset);

}  // namespace flambeau::cuda
