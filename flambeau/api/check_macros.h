// TORCH_CHECK and its kin: errors of C++ programs, which say what stands behind the condition.
#pragma once

#include <sstream>

#include "flambeau/api/sequences.h"
#include "flambeau/base/check.h"
#include "flambeau/base/intrusive_ptr.h"
#include "flambeau/base/warn.h"

namespace flambeau {

// Where it points, as of a std::shared_ptr.
template <class T>
std::ostream& operator<<(std::ostream& out, const IntrusivePtr<T>& pointer) {
  return out << static_cast<const void*>(pointer.get());
}

}  // namespace flambeau

namespace flambeau::torch {

using flambeau::Error;
using flambeau::IndexError;
using flambeau::LinAlgError;
using flambeau::NotImplementedError;
using flambeau::OutOfMemoryError;
using flambeau::TypeError;
using flambeau::ValueError;
struct AcceleratorError : Error {
  using Error::Error;
};
struct BufferError : Error {
  using Error::Error;
};
struct EnforceFiniteError : Error {
  using Error::Error;
};
struct SyntaxError : Error {
  using Error::Error;
};

// The texts of all values, one after the other.
template <class... T>
std::string str(const T&... values) {
  if constexpr (sizeof...(T) == 1 && (std::is_convertible_v<T, std::string> && ...)) {
    return std::string(values...);
  } else {
    std::ostringstream out;
    (void)(out << ... << values);
    return out.str();
  }
}

namespace detail {
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* condition, std::string message) {
  if (message.empty())
    message = std::string("Expected ") + condition + " to be true, but got false.";
  throw E(std::move(message));
}
}  // namespace detail

}  // namespace flambeau::torch

// A statement with or without a semicolon behind it.
#define FLAMBEAU_CHECK(type, condition, ...)                                                  \
  if (!(condition)) [[unlikely]] {                                                            \
    ::flambeau::torch::detail::refuse<::flambeau::type>(#condition,                           \
                                                        ::flambeau::torch::str(__VA_ARGS__)); \
  }
#define TORCH_CHECK(condition, ...) FLAMBEAU_CHECK(Error, condition, __VA_ARGS__)
#define TORCH_CHECK_WITH(type, condition, ...) FLAMBEAU_CHECK(type, condition, __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) FLAMBEAU_CHECK(IndexError, condition, __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) FLAMBEAU_CHECK(ValueError, condition, __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) FLAMBEAU_CHECK(TypeError, condition, __VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) FLAMBEAU_CHECK(LinAlgError, condition, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  FLAMBEAU_CHECK(NotImplementedError, condition, __VA_ARGS__)
#define TORCH_CHECK_ARG(condition, number, ...) \
  TORCH_CHECK(condition, "invalid argument ", number, ": ", ::flambeau::torch::str(__VA_ARGS__))
#define TORCH_INTERNAL_ASSERT(condition, ...)                                                 \
  TORCH_CHECK(condition, #condition " INTERNAL ASSERT FAILED at \"" __FILE__ "\":", __LINE__, \
              ", please report a bug to PyTorch. ", ::flambeau::torch::str(__VA_ARGS__))
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) static_cast<void>(0)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#endif
#define TORCH_CHECK_OP(a, b, op) \
  TORCH_CHECK((a)op(b), "Check failed: " #a " " #op " " #b " (", (a), " vs. ", (b), "). ")
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK_OP(a, b, ==)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK_OP(a, b, !=)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK_OP(a, b, <)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK_OP(a, b, <=)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK_OP(a, b, >)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK_OP(a, b, >=)
#define TORCH_CHECK_NOTNULL(value)                             \
  ([](auto&& given) -> decltype(auto) {                        \
    TORCH_CHECK(given != nullptr, #value " must not be null"); \
    return static_cast<decltype(given)>(given);                \
  }(value))
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define AT_ERROR(...) \
  ::flambeau::torch::detail::refuse<::flambeau::Error>("", ::flambeau::torch::str(__VA_ARGS__))
#define TORCH_WARN(...) ::flambeau::warn(::flambeau::torch::str(__VA_ARGS__))
#define TORCH_WARN_ONCE(...)                                          \
  [&] {                                                               \
    static std::atomic<bool> told{false};                             \
    ::flambeau::warn_once(told, ::flambeau::torch::str(__VA_ARGS__)); \
  }()
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
