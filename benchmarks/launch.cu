// What it costs the host to start a kernel, by the way it is started: the floor under every op.
// Usage: nvcc -O2 -std=c++17 -arch=native benchmarks/launch.cu -o launch -lcuda && ./launch
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

struct Arguments {
  char bytes[96];
};

__global__ void nothing(const __grid_constant__ Arguments) {}

// What a launch costs the host, and what the device, from the first to the end of the last. It
// answers with 0 where all went well.
template <class Launch>
void measure(const char* name, const Launch& launch) {
  constexpr int repeats = 500;  // fewer than a queue holds
  const auto since = [](auto start) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
               .count() /
           repeats;
  };
  double host = 1e9, both = 1e9;
  int failed = 0;
  for (int round = 0; round < 20; ++round) {
    cudaDeviceSynchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) failed += static_cast<int>(launch()) != 0;
    host = std::min(host, since(start));
    cudaDeviceSynchronize();
    both = std::min(both, since(start));
  }
  failed += cudaDeviceSynchronize() != cudaSuccess;
  std::printf("%-46s %6.2f us, %6.2f until done, %d failed\n", name, host, both, failed);
}

// A kernel as a graph of its own, with the arguments of every launch put into it before.
void measure_graph_of_one(cudaFunction_t function, void** pointers, cudaStream_t stream) {
  CUDA_KERNEL_NODE_PARAMS node_parameters{};
  node_parameters.func = function;
  node_parameters.gridDimX = node_parameters.gridDimY = node_parameters.gridDimZ = 1;
  node_parameters.blockDimX = 32;
  node_parameters.blockDimY = node_parameters.blockDimZ = 1;
  node_parameters.kernelParams = pointers;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec executable = nullptr;
  cuGraphCreate(&graph, 0);
  cuGraphAddKernelNode(&node, graph, nullptr, 0, &node_parameters);
  cuGraphInstantiate(&executable, graph, 0);
  measure("  a graph of one kernel", [&] { return cuGraphLaunch(executable, stream); });
  const auto launch_new = [&] {
    const CUresult set = cuGraphExecKernelNodeSetParams(executable, node, &node_parameters);
    return set == CUDA_SUCCESS ? cuGraphLaunch(executable, stream) : set;
  };
  measure("  a graph of one kernel, new arguments", launch_new);
  CUlaunchConfig config{1, 1, 1, 32, 1, 1, 0, stream, nullptr, 0};
  measure("  that and a kernel in turn", [&] {
    const CUresult first = launch_new();
    return first != CUDA_SUCCESS ? first : cuLaunchKernelEx(&config, function, pointers, nullptr);
  });
}

int main() {
  cudaStream_t side = nullptr, blocking = nullptr;
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaStreamCreate(&blocking);
  Arguments arguments{};
  void* pointers[] = {&arguments};
  cudaFunction_t function = nullptr;
  cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(nothing));
  const auto* symbol = reinterpret_cast<const void*>(nothing);

  const struct {
    const char* name;
    cudaStream_t stream;
  } streams[] = {{"default stream", nullptr},
                 {"per-thread default stream", cudaStreamPerThread},
                 {"non-blocking stream", side}};
  for (const auto& [name, stream] : streams) {
    std::printf("%s\n", name);
    measure("  <<<>>>, cudaGetLastError", [&, s = stream] {
      nothing<<<1, 32, 0, s>>>(arguments);
      return cudaGetLastError();
    });
    measure("  cudaLaunchKernel",
            [&, s = stream] { return cudaLaunchKernel(symbol, 1, 32, pointers, 0, s); });
    measure("  cuLaunchKernel", [&, s = stream] {
      return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, s, pointers, nullptr);
    });
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    measure("  cuLaunchKernelEx",
            [&] { return cuLaunchKernelEx(&config, function, pointers, nullptr); });
    size_t size = sizeof arguments;
    void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &size, CU_LAUNCH_PARAM_END};
    measure("  cuLaunchKernelEx, packed arguments",
            [&] { return cuLaunchKernelEx(&config, function, nullptr, packed); });
    measure_graph_of_one(function, pointers, stream);
  }

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < 40; ++i) nothing<<<1, 32, 0, side>>>(arguments);
  cudaStreamEndCapture(side, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  measure("a graph of 40 kernels, non-blocking stream",
          [&] { return cudaGraphLaunch(executable, side); });
  measure("cudaGetDevice", [] {
    int device = 0;
    return cudaGetDevice(&device);
  });
}
