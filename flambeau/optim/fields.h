// The named values of an optimizer's options and of a parameter's state, for all that treats them
// alike: comparing, inheriting, saving. A class lists its own in each(), once.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
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
using Fields = std::vector<std::pair<std::string, Field>>;

// Of members by their names, "lr_, eps_".
template <class... T>
Fields fields_of(std::string_view names, T&... members) {
  Fields fields;
  const auto add = [&](Field field) {
    const size_t end = std::min(names.find("_,"), names.size() - 1);
    fields.emplace_back(names.substr(0, end), field);
    names.remove_prefix(std::min(end + std::string_view("_, ").size(), names.size()));
  };
  (add(&members), ...);
  return fields;
}

#define FLAMBEAU_FIELDS_OF(Class, ...) \
  Fields Class::each() { return fields_of(#__VA_ARGS__, __VA_ARGS__); }

}  // namespace flambeau::torch::optim
