#include "flambeau/tensor/device.h"

#include <algorithm>
#include <array>

#include "flambeau/base/check.h"

namespace flambeau {
namespace {

thread_local Device the_default;

// In the order of DeviceType.
constexpr std::array<std::string_view, 20> names{
    "cpu", "cuda", "meta", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep", "hip",
    "ve",  "fpga", "maia", "xla", "lazy", "vulkan", "mps",    "hpu",    "mtia",  "privateuseone"};

std::string all_names() {
  std::string text;
  for (const std::string_view name : names) {
    if (name != "meta") (text += text.empty() ? "" : ", ") += name;
    if (name == "mps") text += ", meta";  // as PyTorch has it
  }
  return text;
}

int parse_index(std::string_view text, std::string_view whole) {
  CHECK(!text.empty() && text.size() <= 3 && (text.size() == 1 || text[0] != '0'), RuntimeError,
        "Invalid device string: '{}'", whole);
  int index = 0;
  for (const char digit : text) {
    CHECK(digit >= '0' && digit <= '9', RuntimeError, "Invalid device string: '{}'", whole);
    index = index * 10 + (digit - '0');
  }
  CHECK(index < 128, RuntimeError, "Device index must be between -1 and 127, got {}", index);
  return index;
}

}  // namespace

std::string_view device_type_name(DeviceType type) { return names[static_cast<size_t>(type)]; }

Device Device::parse(std::string_view text) {
  CHECK(!text.empty(), RuntimeError, "Device string must not be empty");
  const size_t colon = text.find(':');
  const auto* const found = std::ranges::find(names, text.substr(0, colon));
  CHECK(found != names.end(), RuntimeError,
        "Expected one of {} device type at start of device string: {}", all_names(), text);
  Device device(static_cast<DeviceType>(found - names.begin()));
  if (colon != std::string_view::npos) {
    device.index = static_cast<int8_t>(parse_index(text.substr(colon + 1), text));
  }
  return device;
}

std::string to_text(DeviceType type) { return std::string(device_type_name(type)); }

std::string to_text(Device device) {
  std::string text(device_type_name(device.type));
  if (device.index >= 0) text += ":" + std::to_string(device.index);
  return text;
}

void refuse_devices(std::string_view op, Device one, Device other) {
  fail<RuntimeError>(
      "{}: Expected all tensors to be on the same device, but found at least two devices, {} and "
      "{}!",
      op, one, other);
}

Device default_device() { return the_default; }
void set_default_device(Device device) { the_default = device; }

}  // namespace flambeau
