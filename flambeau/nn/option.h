// FLAMBEAU_OPTION(type, name): an option of a layer or an optimizer, by the name that Python's
// argument has. `options.name()` reads it, `options.name(value)` sets it and can be chained.
// (A template, so that a program compiles the setters it calls and no others.)
#pragma once

#include <utility>

#define FLAMBEAU_OPTION(type, name)                                   \
 public:                                                              \
  template <class = void>                                             \
  auto name(type value)->decltype(*this) {                            \
    name##_ = std::move(value);                                       \
    return *this;                                                     \
  }                                                                   \
  [[nodiscard]] const type& name() const noexcept { return name##_; } \
  type& name() noexcept { return name##_; }                           \
                                                                      \
 private:                                                             \
  type name##_ /* NOLINT(bugprone-macro-parentheses) */

#define TORCH_ARG(type, name) FLAMBEAU_OPTION(type, name)
