// How functions that C++ calls directly reach the layers over the entry.
//
// Note [Inner calls]
// An op that is made of others calls their functions, not their registry rows. So that layers see
// these calls too, a function that C++ code calls begins with REDIRECT: where one of its tensors
// belongs to a layer, or a layer is on that sees inside of ops, the call goes through the entry. A
// layer that leaves the call as it is comes back to the function, which is told so by `arriving`.
// Functions that Python does not have are registered with an underscore in front.
#pragma once

#include <tuple>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

// The signature of the op whose function the layers are about to enter.
inline thread_local constinit const char* arriving = nullptr;
// Whether that is this function; it is asked once.
[[gnu::cold, gnu::noinline]] bool arrives(std::string_view op);

inline uint8_t layered(const Tensor& tensor) {
  return tensor.defined() ? tensor->pending & (Pending::layered | Dispatched::mark) : 0;
}
inline uint8_t layered(const Operand& operand) {
  return operand.is_tensor() ? layered(operand.tensor()) : 0;
}
inline uint8_t layered(const std::vector<Tensor>& tensors) {
  uint8_t bits = 0;
  for (const Tensor& tensor : tensors) bits |= layered(tensor);
  return bits;
}
template <class T>
constexpr uint8_t layered(const T&) {
  return 0;
}

// What an op gave, as the C++ type that its function returns.
class Redirected {
 public:
  Redirected(std::string_view op, std::initializer_list<Given> given)
      : result_(call_op(op, given)) {}
  operator Tensor() && { return std::move(result_.tensor); }                // NOLINT
  operator std::vector<Tensor>() && { return std::move(result_.tensors); }  // NOLINT
  operator Scalar() && { return result_.scalar; }                           // NOLINT
  operator bool() && { return result_.scalar.to<bool>(); }                  // NOLINT
  operator int64_t() && { return result_.scalar.to_int(); }                 // NOLINT
  template <class... T>
  operator std::tuple<T...>() && {  // NOLINT
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>{std::move(result_.tensors.at(I))...};
    }
    (std::index_sequence_for<T...>());
  }

 private:
  Result result_;
};

#define REDIRECT(op, ...)                                                             \
  if (::flambeau::layered_among(__VA_ARGS__) |                                        \
      (::flambeau::active_layers & ::flambeau::Active::inner)) [[unlikely]] {         \
    if (!::flambeau::arrives(#op)) return ::flambeau::Redirected(#op, {__VA_ARGS__}); \
  }
template <class... T>
uint8_t layered_among(const T&... values) {
  return static_cast<uint8_t>((layered(values) | ... | 0));
}

}  // namespace flambeau
