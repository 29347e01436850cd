// A move-only callable with room for a few captures in place: what closures of the backward pass
// are kept in. (std::move_only_function comes with a later standard.)
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace flambeau {

template <class Signature, size_t Room = 48>
class Function;

template <class R, class... Args, size_t Room>
class Function<R(Args...), Room> {
 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function>)
      Function(F&& callable) {  // NOLINT(google-explicit-constructor)
    using Body = std::remove_cvref_t<F>;
    if constexpr (fits<Body>) {
      new (room_) Body(std::forward<F>(callable));
    } else {
      *reinterpret_cast<Body**>(room_) = new Body(std::forward<F>(callable));
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

  R operator()(Args... args) { return vtable_->call(room_, std::forward<Args>(args)...); }
  explicit operator bool() const { return vtable_ != nullptr; }
  void reset() {
    if (vtable_) std::exchange(vtable_, nullptr)->destroy(room_);
  }

 private:
  struct VTable {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);
    void (*destroy)(void*);
  };

  template <class Body>
  static constexpr bool fits =
      sizeof(Body) <= Room &&
      alignof(Body) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Body>;

  template <class Body>
  static Body& body(void* room) {
    if constexpr (fits<Body>) {
      return *std::launder(reinterpret_cast<Body*>(room));
    } else {
      return **reinterpret_cast<Body**>(room);
    }
  }

  template <class Body>
  static constexpr VTable table = {
      [](void* room, Args&&... args) -> R { return body<Body>(room)(std::forward<Args>(args)...); },
      [](void* from, void* to) {
        if constexpr (fits<Body>) {
          new (to) Body(std::move(body<Body>(from)));
          body<Body>(from).~Body();
        } else {
          *reinterpret_cast<Body**>(to) = *reinterpret_cast<Body**>(from);
        }
      },
      [](void* room) {
        if constexpr (fits<Body>) {
          body<Body>(room).~Body();
        } else {
          delete &body<Body>(room);
        }
      }};

  void take(Function& other) {
    if (other.vtable_) {
      other.vtable_->move(other.room_, room_);
      vtable_ = std::exchange(other.vtable_, nullptr);
    }
  }

  const VTable* vtable_ = nullptr;
  alignas(std::max_align_t) unsigned char room_[Room];
};

}  // namespace flambeau
