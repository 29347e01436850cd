// "CPUFloatType": what older programs ask a tensor for.
#pragma once

#include "flambeau/api/tensor_base.h"

namespace flambeau::torch {

enum class Backend : uint8_t { CPU, CUDA, Meta, SparseCPU, SparseCUDA, Undefined };
const char* toString(Backend backend);

class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(Backend backend, ScalarType dtype) : backend_(backend), dtype_(dtype) {}
  [[nodiscard]] Backend backend() const { return backend_; }
  [[nodiscard]] ScalarType scalarType() const { return dtype_; }
  [[nodiscard]] TypeMeta typeMeta() const { return dtype_; }
  [[nodiscard]] DeviceType device_type() const {
    return is_cuda() ? kCUDA : backend_ == Backend::Meta ? kMeta : kCPU;
  }
  [[nodiscard]] bool is_cuda() const {
    return backend_ == Backend::CUDA || backend_ == Backend::SparseCUDA;
  }
  [[nodiscard]] bool is_sparse() const {
    return backend_ == Backend::SparseCPU || backend_ == Backend::SparseCUDA;
  }
  [[nodiscard]] Layout layout() const { return is_sparse() ? kSparse : kStrided; }
  [[nodiscard]] TensorOptions options() const {
    return TensorOptions(dtype_).device(device_type());
  }
  operator TensorOptions() const { return options(); }  // NOLINT
  [[nodiscard]] DeprecatedTypeProperties toScalarType(ScalarType dtype) const {
    return {backend_, dtype};
  }
  [[nodiscard]] std::string toString() const;
  bool operator==(const DeprecatedTypeProperties& other) const = default;

 private:
  Backend backend_;
  ScalarType dtype_;
};
std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& type);
inline DeviceType backendToDeviceType(Backend backend) {
  return DeprecatedTypeProperties(backend, kFloat).device_type();
}

namespace detail {
// What AT_DISPATCH_... is given.
inline ScalarType scalar_type(ScalarType type) { return type; }
inline ScalarType scalar_type(const DeprecatedTypeProperties& type) { return type.scalarType(); }
}  // namespace detail

}  // namespace flambeau::torch
