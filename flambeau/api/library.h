// Operators that programs register in C++ (operators.h): how functions of C++ types take and give
// the values of a stack.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

#include "flambeau/api/operators.h"
#include "flambeau/torch.h"

namespace flambeau::torch::detail {

// --- Arguments out of values ---------------------------------------------------------------------

// What a schema calls type T; `of` reads a value, which Python may have written as a narrower
// number.
template <class T>
struct Boxing {
  static_assert(!std::is_same_v<T, T>, "an operator cannot take or give this type");
};
#define FLAMBEAU_BOXING(type, text, expression)                \
  template <>                                                  \
  struct Boxing<type> {                                        \
    using Held = type;                                         \
    static std::string name() { return text; }                 \
    static type of(const IValue& value) { return expression; } \
  };
FLAMBEAU_BOXING(Tensor, "Tensor", value.tensor())
FLAMBEAU_BOXING(bool, "bool", value.toBool())
FLAMBEAU_BOXING(std::string, "str", value.toStringRef())
FLAMBEAU_BOXING(Scalar, "Scalar", value.toScalar())
FLAMBEAU_BOXING(ScalarType, "ScalarType", value.toScalarType())
FLAMBEAU_BOXING(Device, "Device", value.toDevice())
FLAMBEAU_BOXING(Layout, "Layout", value.toLayout())
FLAMBEAU_BOXING(MemoryFormat, "MemoryFormat", value.toMemoryFormat())
#undef FLAMBEAU_BOXING
template <std::integral T>
struct Boxing<T> {
  using Held = T;
  static std::string name() { return "int"; }
  static T of(const IValue& value) {
    return static_cast<T>(value.isBool() ? value.toBool() : value.toInt());
  }
};
template <std::floating_point T>
struct Boxing<T> {
  using Held = T;
  static std::string name() { return "float"; }
  static T of(const IValue& value) {
    return static_cast<T>(value.isDouble() ? value.toDouble() : Boxing<int64_t>::of(value));
  }
};
template <class T>
struct Boxing<std::optional<T>> {
  using Held = std::optional<typename Boxing<T>::Held>;
  static std::string name() { return Boxing<T>::name() + "?"; }
  static Held of(const IValue& value) {
    return value.isNone() ? Held() : Held(Boxing<T>::of(value));
  }
};
template <class T>
struct Boxing<std::vector<T>> {
  using Held = std::vector<typename Boxing<T>::Held>;
  static std::string name() { return Boxing<T>::name() + "[]"; }
  static Held of(const IValue& value) {
    Held result;
    const std::vector<IValue>& items = value.isTuple() ? value.items() : value.toListRef();
    for (const IValue& item : items) result.push_back(Boxing<T>::of(item));
    return result;
  }
};
// What borrows is held by what it borrows from.
template <class T>
struct Boxing<ArrayRef<T>> : Boxing<std::vector<T>> {};
template <>
struct Boxing<ITensorListRef> : Boxing<std::vector<Tensor>> {};
template <>
struct Boxing<OptionalIntArrayRef> : Boxing<std::optional<std::vector<int64_t>>> {};
template <>
struct Boxing<std::string_view> : Boxing<std::string> {};
template <class T>
struct Boxing<List<T>> : Boxing<std::vector<T>> {
  using Held = List<T>;
  static Held of(const IValue& value) {
    Held list;
    for (auto& item : Boxing<std::vector<T>>::of(value)) list.push_back(std::move(item));
    return list;
  }
};
template <class Key, class T>
struct Boxing<Dict<Key, T>> {
  using Held = Dict<Key, T>;
  static std::string name() {
    return "Dict(" + Boxing<Key>::name() + ", " + Boxing<T>::name() + ")";
  }
  static Held of(const IValue& value) { return value.to<Held>(); }
};
template <class... T>
struct Boxing<std::tuple<T...>> {
  using Held = std::tuple<typename Boxing<T>::Held...>;
  static std::string name() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + Boxing<T>::name()), ...);
    return "(" + text + ")";
  }
  static Held of(const IValue& value) {
    const auto& items = value.toTupleRef().elements();
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return Held(Boxing<T>::of(items.at(I))...);
    }
    (std::index_sequence_for<T...>());
  }
};
template <class T>
using BoxingOf = Boxing<std::remove_cvref_t<T>>;

// An argument as a function takes it, where that differs from what holds it.
template <class T, class Held>
decltype(auto) pass(Held& held) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Plain, Held>) {
    return static_cast<std::conditional_t<std::is_reference_v<T>, T, Plain&&>>(held);
  } else if constexpr (requires { held.has_value(); }) {
    return held ? Plain(typename Plain::value_type(*held)) : Plain();
  } else {
    return Plain(held);
  }
}

// --- Results ------------------------------------------------------------------------------------

template <class T>
struct Results {
  static std::string name() { return BoxingOf<T>::name(); }
  static void push(Stack& stack, T&& result) { stack.emplace_back(std::forward<T>(result)); }
  static std::remove_cvref_t<T> pop(Stack& stack) { return BoxingOf<T>::of(stack.at(0)); }
};
template <class T>
struct Results<T&> : Results<T> {
  static void push(Stack& stack, const T& result) { stack.emplace_back(result); }
};
template <>
struct Results<void> {
  static std::string name() { return "()"; }
  static void pop(Stack&) {}
};
template <class... T>
struct Results<std::tuple<T...>> {
  static std::string name() { return Boxing<std::tuple<std::remove_cvref_t<T>...>>::name(); }
  static void push(Stack& stack, std::tuple<T...>&& results) {
    std::apply([&](auto&... each) { (stack.emplace_back(each), ...); }, results);
  }
  static std::tuple<T...> pop(Stack& stack) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>(BoxingOf<T>::of(stack.at(I))...);
    }
    (std::index_sequence_for<T...>());
  }
};

template <class Result, class... Args>
struct Signature {
  static std::string schema() {
    std::string text;
    size_t count = 0;
    ((text += (count ? ", " : "") + BoxingOf<Args>::name() + " _" + std::to_string(count), ++count),
     ...);
    return "(" + text + ") -> " + Results<Result>::name();
  }
  template <class F>
  static void call(const F& function, Stack& stack) {
    if (stack.size() != sizeof...(Args)) refuse_count(sizeof...(Args), stack.size());
    [&]<size_t... I>(std::index_sequence<I...>) {
      std::tuple<typename BoxingOf<Args>::Held...> held{BoxingOf<Args>::of(stack[I])...};
      if constexpr (std::is_void_v<Result>) {
        function(pass<Args>(std::get<I>(held))...);
        stack.clear();
      } else {
        Result result = function(pass<Args>(std::get<I>(held))...);
        stack.clear();
        Results<Result>::push(stack, std::forward<Result>(result));
      }
    }
    (std::index_sequence_for<Args...>());
  }
};
template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R(A...)> : Signature<R, A...> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> : Signature<R, A...> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : Signature<R, A...> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const> : Signature<R, A...> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...)> : Signature<R, A...> {};

}  // namespace flambeau::torch::detail
