// The bytes under tensors: reference-counted, on one device, from an allocator or borrowed from
// somebody (NumPy, DLPack, a mapped file) who is told when the last tensor lets go.
#pragma once

#include <cstddef>

#include "flambeau/base/function.h"
#include "flambeau/base/intrusive_ptr.h"
#include "flambeau/tensor/device.h"

namespace flambeau {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Never returns null for bytes > 0; raises OutOfMemoryError or RuntimeError with the size.
  virtual void* allocate(size_t bytes, Device device) = 0;
  virtual void free(void* data, size_t bytes, Device device) = 0;
  virtual void release_cached() {}
};

Allocator& allocator(DeviceType type);  // loads the device's library if need be
void set_allocator(DeviceType type, Allocator* allocator);

class Storage : public RefCounted {
 public:
  Storage(size_t bytes, Device device, Allocator& owner)
      : data_(bytes ? owner.allocate(bytes, device) : nullptr),
        bytes_(bytes),
        reach_(bytes),
        device_(device),
        owner_(&owner) {}
  Storage(void* data, size_t bytes, Device device, Function<void()> on_release)
      : data_(data),
        bytes_(bytes),
        reach_(bytes),
        device_(device),
        on_release_(new Function<void()>(std::move(on_release))) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] bool resizable() const { return owner_ != nullptr; }
  [[nodiscard]] bool shared() const { return shared_; }
  void mark_shared() { shared_ = true; }
  // Keeps the common prefix. Tensors that reached further before stay over memory of that size,
  // unless there is none at all: see Tensor::raw().
  void resize(size_t bytes);
  void swap_contents(Storage& other);

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  size_t reach_ = 0;  // the most that it ever had, and what is allocated if anything is
  Device device_;
  bool shared_ = false;
  Allocator* owner_ = nullptr;
  Function<void()>* on_release_ = nullptr;
};

using StoragePtr = IntrusivePtr<Storage>;

// Copies raw bytes between devices; filled by each backend that has memory.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
using CopyBytes = void (*)(void* to, Device to_device, const void* from, Device from_device,
                           size_t bytes);
void set_device_copy(CopyBytes copy);

}  // namespace flambeau
