#include "flambeau/api/context.h"

#include <mutex>

#include "flambeau/api/tensor_type.h"
#include "flambeau/kernels/math_mode.h"
#include "flambeau/tensor/backend.h"
#include "flambeau/tensor/generator.h"

namespace flambeau::torch {
namespace cuda {
namespace {

void seed(int device, uint64_t seed) {
  flambeau::Generator& generator = *default_generator(flambeau::Device(kCUDA, device));
  const std::lock_guard lock(generator.mutex());
  generator.manual_seed(seed);
}

}  // namespace

size_t device_count() {
  if (!backend_available(kCUDA)) return 0;
  return static_cast<size_t>(device_runtime(kCUDA).device_count());
}
bool is_available() { return device_count() > 0; }
bool cudnn_is_available() { return is_available(); }
void manual_seed(uint64_t value) {
  if (is_available()) seed(device_runtime(kCUDA).current_device(), value);
}
void manual_seed_all(uint64_t value) {
  for (size_t i = 0; i < device_count(); ++i) seed(static_cast<int>(i), value);
}
void synchronize(int64_t device_index) {
  CHECK(is_available(), RuntimeError, "No CUDA GPUs are available");
  const DeviceRuntime& runtime = device_runtime(kCUDA);
  CHECK(device_index >= -1 && device_index < runtime.device_count(), RuntimeError,
        "Device index out of range: {}", device_index);
  runtime.synchronize(device_index < 0 ? runtime.current_device() : static_cast<int>(device_index));
}

}  // namespace cuda

void manual_seed(uint64_t seed) {
  const auto& generator = default_generator(flambeau::Device());
  {
    const std::lock_guard lock(generator->mutex());
    generator->manual_seed(seed);
  }
  if (backend_loaded(kCUDA)) cuda::manual_seed_all(seed);
}

#define FLAMBEAU_MODE(get, set, mode)                  \
  bool Context::get() const { return math_mode.mode; } \
  void Context::set(bool on) const { math_mode.mode = on; }
FLAMBEAU_MODE(deterministicCuDNN, setDeterministicCuDNN, deterministic)
FLAMBEAU_MODE(benchmarkCuDNN, setBenchmarkCuDNN, conv_benchmark)
FLAMBEAU_MODE(allowTF32CuBLAS, setAllowTF32CuBLAS, matmul_tf32)
FLAMBEAU_MODE(allowTF32CuDNN, setAllowTF32CuDNN, conv_tf32)
#undef FLAMBEAU_MODE
bool Context::deterministicAlgorithms() const { return math_mode.deterministic; }
bool Context::deterministicAlgorithmsWarnOnly() const { return math_mode.deterministic_warn_only; }
void Context::setDeterministicAlgorithms(bool on, bool warn_only) const {
  math_mode.deterministic = on;
  math_mode.deterministic_warn_only = warn_only;
}
bool Context::userEnabledCuDNN() const { return true; }
void Context::setUserEnabledCuDNN(bool on) const {
  CHECK(on, NotImplementedError,
        "setUserEnabledCuDNN(false): there are no other kernels than cuDNN's for some ops");
}
Float32MatmulPrecision Context::float32MatmulPrecision() const {
  return math_mode.matmul_tf32 ? Float32MatmulPrecision::HIGH : Float32MatmulPrecision::HIGHEST;
}
void Context::setFloat32MatmulPrecision(Float32MatmulPrecision precision) const {
  math_mode.matmul_tf32 = precision != Float32MatmulPrecision::HIGHEST;
}
void Context::setFloat32MatmulPrecision(const std::string& precision) const {
  CHECK(precision == "highest" || precision == "high" || precision == "medium", RuntimeError,
        "{} is not one of 'highest', 'high', or 'medium'", precision);
  math_mode.matmul_tf32 = precision != "highest";
}
Context& globalContext() {
  static Context context;
  return context;
}

namespace detail {
void refuse_dtype(const char* name, ScalarType dtype) {
  fail<NotImplementedError>("\"{}\" not implemented for '{}'", name, torch::toString(dtype));
}
}  // namespace detail

}  // namespace flambeau::torch
