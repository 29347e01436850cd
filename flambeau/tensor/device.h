// Where a tensor's bytes are: cpu, cuda:N, or meta (nowhere: shapes without data).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flambeau {

// Those after meta have no place in tables of device_type_count: they are names that programs ask
// for, compare and choose another of, and load_backend refuses them, so nothing ever lies there.
enum class DeviceType : int8_t {
  cpu,
  cuda,
  meta,
  IPU,
  XPU,
  MKLDNN,
  OPENGL,
  OPENCL,
  IDEEP,
  HIP,
  VE,
  FPGA,
  MAIA,
  XLA,
  Lazy,
  Vulkan,
  MPS,
  HPU,
  MTIA,
  PrivateUse1,
  CPU = cpu,
  CUDA = cuda,
  Meta = meta
};
constexpr int device_type_count = 3;

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = -1;  // -1: the current one of its type

  Device() = default;
  Device(DeviceType type, int index = -1)  // NOLINT(google-explicit-constructor)
      : type(type), index(static_cast<int8_t>(index)) {}
  static Device parse(std::string_view text);  // "cpu", "cuda:1"
  bool operator==(const Device&) const = default;
  [[nodiscard]] bool is_cpu() const { return type == DeviceType::cpu; }
  [[nodiscard]] bool is_cuda() const { return type == DeviceType::cuda; }
  [[nodiscard]] bool is_meta() const { return type == DeviceType::meta; }
};

std::string_view device_type_name(DeviceType type);
std::string to_text(Device device);
std::string to_text(DeviceType type);

// Raises RuntimeError: the tensors of a call to `op` lie on two devices.
[[noreturn, gnu::cold]] void refuse_devices(std::string_view op, Device one, Device other);
inline void check_same_device(std::string_view op, Device one, Device other) {
  if (!(one == other)) [[unlikely]]
    refuse_devices(op, one, other);
}

// What tensors are made on when nobody says; each thread has its own.
Device default_device();
void set_default_device(Device device);

}  // namespace flambeau
