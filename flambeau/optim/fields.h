// The named values of an optimizer's options and of a parameter's state, for all that treats them
// alike: comparing, inheriting, saving. A class lists its own in each(), once.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "flambeau/torch.h"

namespace flambeau::torch::optim {

using Pair = std::tuple<double, double>;
using Tensors = std::vector<Tensor>;

#define FLAMBEAU_FIELD_TYPES(TYPE)                \
  TYPE(boolean, bool)                             \
  TYPE(integer, int64_t)                          \
  TYPE(number, double)                            \
  TYPE(pair, Pair)                                \
  TYPE(optional_integer, std::optional<int64_t>)  \
  TYPE(optional_text, std::optional<std::string>) \
  TYPE(tensor, Tensor)                            \
  TYPE(history, std::deque<Tensor>)               \
  TYPE(optional_tensors, std::optional<Tensors>)

// A pointer to a value of one of these types.
class Field {
 public:
#define TYPE(name, T) \
  Field(T* value) : type_(Type::name), value_(value) {}  // NOLINT
  FLAMBEAU_FIELD_TYPES(TYPE)
#undef TYPE
  template <class T>
  [[nodiscard]] T* as() const {
    return Field(static_cast<T*>(nullptr)).type_ == type_ ? static_cast<T*>(value_) : nullptr;
  }
  template <class Visit>
  decltype(auto) visit(const Visit& visit) const {
    switch (type_) {
#define TYPE(name, T) \
  case Type::name: return visit(static_cast<T*>(value_));
      FLAMBEAU_FIELD_TYPES(TYPE)
#undef TYPE
    }
    __builtin_unreachable();
  }

 private:
#define TYPE(name, T) name,
  enum class Type : uint8_t { FLAMBEAU_FIELD_TYPES(TYPE) };
#undef TYPE
  Type type_;
  void* value_;
};
using Fields = std::vector<std::pair<const char*, Field>>;

}  // namespace flambeau::torch::optim
