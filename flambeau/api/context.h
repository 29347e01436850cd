// Devices, threads and what the library was built with: torch::cuda::is_available(),
// at::parallel_for.
#pragma once

#include "flambeau/api/types.h"
#include "flambeau/base/parallel.h"

namespace flambeau::torch {

using flambeau::get_num_interop_threads;
using flambeau::get_num_threads;
using flambeau::set_num_interop_threads;
using flambeau::set_num_threads;
inline void init_num_threads() {}
inline int get_thread_num() { return thread_index(); }
inline bool in_parallel_region() { return flambeau::in_parallel_region(); }
namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;  // elements that are worth a thread
}
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& body) {
  flambeau::parallel_for(begin, end, grain_size, body);
}

void manual_seed(uint64_t seed);  // of the generators that ops draw from by default

namespace cuda {
size_t device_count();
bool is_available();
bool cudnn_is_available();
void manual_seed(uint64_t seed);
void manual_seed_all(uint64_t seed);
void synchronize(int64_t device_index = -1);
}  // namespace cuda
namespace mps {
inline bool is_available() { return false; }
}  // namespace mps
namespace xpu {
inline bool is_available() { return false; }
}  // namespace xpu

inline bool hasCUDA() { return cuda::is_available(); }
inline bool hasMPS() { return false; }
inline bool hasXLA() { return false; }
inline bool hasXPU() { return false; }
inline bool hasHIP() { return false; }
inline bool hasMKL() { return false; }
inline size_t getNumGPUs() { return cuda::device_count(); }

enum class Float32MatmulPrecision { HIGHEST, HIGH, MEDIUM };

// What a process has one of.
class Context {
 public:
  static bool hasCUDA() { return cuda::is_available(); }
  static bool hasCuDNN() { return cuda::cudnn_is_available(); }
  static bool hasMPS() { return false; }
  static bool hasMKL() { return false; }
  static bool hasOpenMP() { return true; }
  bool deterministicAlgorithms() const;
  bool deterministicAlgorithmsWarnOnly() const;
  void setDeterministicAlgorithms(bool on, bool warn_only) const;
  bool deterministicCuDNN() const;
  void setDeterministicCuDNN(bool on) const;
  bool benchmarkCuDNN() const;
  void setBenchmarkCuDNN(bool on) const;
  bool userEnabledCuDNN() const;
  void setUserEnabledCuDNN(bool on) const;
  bool allowTF32CuBLAS() const;
  void setAllowTF32CuBLAS(bool on) const;
  bool allowTF32CuDNN() const;
  void setAllowTF32CuDNN(bool on) const;
  Float32MatmulPrecision float32MatmulPrecision() const;
  void setFloat32MatmulPrecision(Float32MatmulPrecision precision) const;
  void setFloat32MatmulPrecision(const std::string& precision) const;
};
Context& globalContext();

}  // namespace flambeau::torch
