// Shared ownership with the count inside the object: one word a handle, one allocation an object.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace flambeau {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }

  // True when the caller held the last reference and must destroy the object. The plain load
  // spares the read-modify-write in the common case of a sole owner.
  [[nodiscard]] bool release() const {
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // The same without the short cut, for objects that a weak lookup may revive meanwhile.
  [[nodiscard]] bool release_exactly() const {
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  [[nodiscard]] uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> count_{0};
};

// A type that wants more than `delete` at the end provides `static void destroy(T*)`; one that can
// be found again through a weak pointer declares `using WeaklyHeld = void`.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit IntrusivePtr(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  IntrusivePtr(const IntrusivePtr& other) : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> IntrusivePtr(
      const IntrusivePtr<U>& other)  // NOLINT(google-explicit-constructor)
      : IntrusivePtr(other.get()) {}
  ~IntrusivePtr() { drop(); }

  IntrusivePtr& operator=(const IntrusivePtr& other) {
    IntrusivePtr(other).swap(*this);
    return *this;
  }
  IntrusivePtr& operator=(IntrusivePtr&& other) noexcept {
    IntrusivePtr(std::move(other)).swap(*this);
    return *this;
  }

  static IntrusivePtr adopt(T* object) {  // takes over a reference that the caller holds
    IntrusivePtr result;
    result.object_ = object;
    return result;
  }
  [[nodiscard]] T* detach() { return std::exchange(object_, nullptr); }

  void swap(IntrusivePtr& other) noexcept { std::swap(object_, other.object_); }
  [[nodiscard]] T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const { return object_ == other.object_; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }

 private:
  static bool last(T* object) {
    if constexpr (requires { typename T::WeaklyHeld; }) {
      return object->release_exactly();
    } else {
      return object->release();
    }
  }

  void drop() {
    if (object_ && last(object_)) {
      if constexpr (requires { T::destroy(object_); }) {
        T::destroy(object_);
      } else {
        delete object_;
      }
    }
  }

  T* object_ = nullptr;
};

template <class T, class... Args>
IntrusivePtr<T> make_intrusive(Args&&... args) {
  return IntrusivePtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace flambeau
