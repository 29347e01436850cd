// The memory under a tensor.
#pragma once

#include "flambeau/api/types.h"

namespace flambeau::torch {

template <class T, class... A>
IntrusivePtr<T> make_intrusive(A&&... arguments) {
  return IntrusivePtr<T>(new T(std::forward<A>(arguments)...));
}

// A pointer that may be asked for what it points to and where that is. It borrows.
class DataPtr {
 public:
  DataPtr() : device_(kCPU) {}
  DataPtr(void* data, Device device) : data_(data), device_(device) {}
  [[nodiscard]] void* get() const { return data_; }
  void* operator->() const { return data_; }
  operator bool() const { return data_ != nullptr; }  // NOLINT: programs print and compare it
  [[nodiscard]] Device device() const { return device_; }

 private:
  void* data_ = nullptr;
  Device device_;
};

class Storage {
 public:
  Storage() = default;
  Storage(StoragePtr storage) : storage_(std::move(storage)) {}  // NOLINT

  [[nodiscard]] void* mutable_data() const { return storage_ ? storage_->data() : nullptr; }
  [[nodiscard]] const void* data() const { return mutable_data(); }
  [[nodiscard]] DataPtr data_ptr() const { return {mutable_data(), device()}; }
  template <class T>
  [[nodiscard]] T* unsafe_data() const {
    return static_cast<T*>(mutable_data());
  }
  [[nodiscard]] size_t nbytes() const { return storage_ ? storage_->bytes() : 0; }
  [[nodiscard]] Device device() const { return storage_ ? storage_->device() : flambeau::Device(); }
  [[nodiscard]] DeviceType device_type() const { return device().type(); }
  [[nodiscard]] size_t use_count() const { return storage_ ? storage_->use_count() : 0; }
  [[nodiscard]] bool unique() const { return use_count() == 1; }
  [[nodiscard]] bool resizable() const { return storage_ && storage_->resizable(); }
  [[nodiscard]] bool is_alias_of(const Storage& other) const { return storage_ == other.storage_; }
  operator bool() const { return static_cast<bool>(storage_); }  // NOLINT: programs print it
  bool operator==(const Storage& other) const = default;
  [[nodiscard]] const StoragePtr& get() const { return storage_; }

 private:
  StoragePtr storage_;
};

}  // namespace flambeau::torch
