#include "flambeau/tensor/storage.h"

#include <algorithm>
#include <cstring>

#include "flambeau/base/check.h"
#include "flambeau/tensor/backend.h"

namespace flambeau {
namespace {

constinit Allocator* allocators[device_type_count] = {};
constinit CopyBytes device_copy = nullptr;

// Meta tensors have sizes and no bytes.
class NoBytes final : public Allocator {
 public:
  void* allocate(size_t, Device) override { return nullptr; }
  void free(void*, size_t, Device) override {}
};

}  // namespace

Allocator& allocator(DeviceType type) {
  if (type == DeviceType::meta) {
    static NoBytes none;
    return none;
  }
  if (static_cast<int>(type) >= device_type_count || !allocators[static_cast<int>(type)]) {
    load_backend(type);
  }
  return *allocators[static_cast<int>(type)];
}

void set_allocator(DeviceType type, Allocator* allocator) {
  allocators[static_cast<int>(type)] = allocator;
}

void set_device_copy(CopyBytes copy) { device_copy = copy; }

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0 || to_device.is_meta() || from_device.is_meta()) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
  } else {
    device_copy(to, to_device, from, from_device, bytes);
  }
}

Storage::~Storage() {
  if (owner_) {
    if (data_) owner_->free(data_, reach_, device_);
  } else if (on_release_) {
    (*on_release_)();
    delete on_release_;
  }
}

void Storage::resize(size_t bytes) {
  CHECK(resizable(), RuntimeError, "Trying to resize storage that is not resizable");
  if (bytes == 0 || !data_ || bytes > reach_) {
    const size_t reach = std::max(bytes, reach_);
    void* fresh = bytes ? owner_->allocate(reach, device_) : nullptr;
    if (data_) {
      copy_bytes(fresh, device_, data_, device_, std::min(bytes, bytes_));
      owner_->free(data_, reach_, device_);
    }
    data_ = fresh;
    reach_ = reach;
  }
  bytes_ = bytes;
}

void Storage::swap_contents(Storage& other) {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(reach_, other.reach_);
  std::swap(device_, other.device_);
  std::swap(shared_, other.shared_);
  std::swap(owner_, other.owner_);
  std::swap(on_release_, other.on_release_);
}

}  // namespace flambeau
