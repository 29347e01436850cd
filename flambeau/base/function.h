// A move-only callable that holds a few captures in place: what closures of the backward pass
// are kept in. (std::move_only_function comes with a later standard.)
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace flambeau {

template <class Signature, size_t Capacity = 48>
class Function;

template <class R, class... Args, size_t Capacity>
class Function<R(Args...), Capacity> {
 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function>)
      Function(F&& callable) {  // NOLINT(google-explicit-constructor)
    using Body = std::remove_cvref_t<F>;
    if constexpr (fits<Body>) {
      new (storage_) Body(std::forward<F>(callable));
    } else {
      *reinterpret_cast<Body**>(storage_) = new Body(std::forward<F>(callable));
    }
    vtable_ = &table<Body>;
  }
  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Function() { reset(); }

  R operator()(Args... args) { return vtable_->call(storage_, std::forward<Args>(args)...); }
  explicit operator bool() const { return vtable_ != nullptr; }
  void reset() {
    if (vtable_) std::exchange(vtable_, nullptr)->destroy(storage_);
  }

 private:
  struct VTable {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);
    void (*destroy)(void*);
  };

  template <class Body>
  static constexpr bool fits =
      sizeof(Body) <= Capacity &&
      alignof(Body) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Body>;

  template <class Body>
  static Body& body(void* storage) {
    if constexpr (fits<Body>) {
      return *std::launder(reinterpret_cast<Body*>(storage));
    } else {
      return **reinterpret_cast<Body**>(storage);
    }
  }

  template <class Body>
  static constexpr VTable table = {[](void* storage, Args&&... args) -> R {
                                     return body<Body>(storage)(std::forward<Args>(args)...);
                                   },
                                   [](void* from, void* to) {
                                     if constexpr (fits<Body>) {
                                       new (to) Body(std::move(body<Body>(from)));
                                       body<Body>(from).~Body();
                                     } else {
                                       *reinterpret_cast<Body**>(to) =
                                           *reinterpret_cast<Body**>(from);
                                     }
                                   },
                                   [](void* storage) {
                                     if constexpr (fits<Body>) {
                                       body<Body>(storage).~Body();
                                     } else {
                                       delete &body<Body>(storage);
                                     }
                                   }};

  void take(Function& other) {
    if (other.vtable_) {
      other.vtable_->move(other.storage_, storage_);
      vtable_ = std::exchange(other.vtable_, nullptr);
    }
  }

  const VTable* vtable_ = nullptr;
  alignas(std::max_align_t) unsigned char storage_[Capacity];
};

}  // namespace flambeau
