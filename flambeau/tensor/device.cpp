#include "flambeau/tensor/device.h"

#include "flambeau/base/check.h"

namespace flambeau {
namespace {

thread_local Device the_default;

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

std::string_view device_type_name(DeviceType type) {
  switch (type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return "cuda";
    case DeviceType::meta: return "meta";
  }
  return "unknown";
}

Device Device::parse(std::string_view text) {
  CHECK(!text.empty(), RuntimeError, "Device string must not be empty");
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  Device device;
  if (name == "cpu") {
    device.type = DeviceType::cpu;
  } else if (name == "cuda") {
    device.type = DeviceType::cuda;
  } else if (name == "meta") {
    device.type = DeviceType::meta;
  } else {
    fail<RuntimeError>("Expected one of cpu, cuda, meta device type at start of device string: {}",
                       text);
  }
  if (colon != std::string_view::npos) {
    device.index = static_cast<int8_t>(parse_index(text.substr(colon + 1), text));
  }
  return device;
}

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
