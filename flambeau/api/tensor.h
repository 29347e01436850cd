// What stands behind the class of the printed header (flambeau/torch.h), which includes this:
// members that need it whole, and operators.
#pragma once

#include <iterator>

#include "flambeau/api/guards.h"
#include "flambeau/torch.h"

namespace flambeau::torch {
namespace detail {

inline std::vector<Tensor> list(std::vector<flambeau::Tensor> tensors) {
  return {std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())};
}
inline Tensor& written(const TensorBase& tensor) {
  return const_cast<Tensor&>(static_cast<const Tensor&>(tensor));
}

}  // namespace detail

inline torch::Tensor TensorBase::operator[](int64_t index) const {
  return static_cast<const torch::Tensor*>(this)->select(0, index);
}
inline torch::Tensor TensorBase::slice(int64_t dim, std::optional<int64_t> start,
                                       std::optional<int64_t> end, int64_t step) const {
  return _slice(*static_cast<const torch::Tensor*>(this), dim, start, end, step);
}
template <class T>
T TensorBase::item() const {
  return static_cast<const torch::Tensor*>(this)->item().template to<T>();
}

inline torch::Tensor TensorBase::grad() const { return detail::gradient_of(*this); }
inline torch::Tensor& TensorBase::requires_grad_(bool requires_grad) const {
  detail::want_gradient(*this, requires_grad);
  return detail::written(*this);
}

inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator~(const Tensor& a) { return bitwise_not(a); }
#define FLAMBEAU_OPERATOR(symbol, name) \
  inline Tensor operator symbol(const Tensor& a, const Operand& b) { return name(a, b); }
#define FLAMBEAU_ARITHMETIC(symbol, name)                                         \
  FLAMBEAU_OPERATOR(symbol, name)                                                 \
  template <class T>                                                              \
  requires std::is_arithmetic_v<T> Tensor operator symbol(T a, const Tensor& b) { \
    return name(Operand(a), b);                                                   \
  }                                                                               \
  inline Tensor& operator symbol##=(Tensor& a, const Operand& b) { return a.name##_(b); }
FLAMBEAU_ARITHMETIC(+, add)
FLAMBEAU_ARITHMETIC(-, sub)
FLAMBEAU_ARITHMETIC(*, mul)
FLAMBEAU_ARITHMETIC(/, div)
FLAMBEAU_OPERATOR(%, remainder)
FLAMBEAU_OPERATOR(<, lt)
FLAMBEAU_OPERATOR(<=, le)
FLAMBEAU_OPERATOR(>, gt)
FLAMBEAU_OPERATOR(>=, ge)
FLAMBEAU_OPERATOR(==, eq)
FLAMBEAU_OPERATOR(!=, ne)
FLAMBEAU_OPERATOR(&, bitwise_and)
FLAMBEAU_OPERATOR(|, bitwise_or)
FLAMBEAU_OPERATOR(^, bitwise_xor)
#undef FLAMBEAU_ARITHMETIC
#undef FLAMBEAU_OPERATOR

}  // namespace flambeau::torch
