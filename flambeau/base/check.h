// Errors and the one way to raise them: CHECK(condition, ErrorType, "message {}", values...).
// One class per Python exception that PyTorch would raise; the binding translates them.
#pragma once

#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "flambeau/base/format.h"

namespace flambeau {

class Error : public std::exception {  // Python's RuntimeError
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  // The same: there is no backtrace in it.
  [[nodiscard]] const char* what_without_backtrace() const noexcept { return what(); }
  [[nodiscard]] const std::string& msg() const noexcept { return message_; }

 private:
  std::string message_;
};

using RuntimeError = Error;
struct IndexError : Error {
  using Error::Error;
};
struct ValueError : Error {
  using Error::Error;
};
struct TypeError : Error {
  using Error::Error;
};
struct NotImplementedError : Error {
  using Error::Error;
};
struct OutOfMemoryError : Error {
  using Error::Error;
};
struct LinAlgError : Error {
  using Error::Error;
};
struct OverflowError : Error {
  using Error::Error;
};
struct ZeroDivisionError : Error {  // of Python code; ops raise a RuntimeError that says so
  using Error::Error;
};

// Compiled once for each type of error, not once for each combination of types of values.
template <class ErrorType>
[[noreturn, gnu::noinline, gnu::cold]] void raise(std::string_view pattern,
                                                  std::initializer_list<Shown> parts) {
  throw ErrorType(format_parts(pattern, parts));
}

// Out of line so that a check costs a compare and a jump where it stands.
template <class ErrorType, class... Args>
[[noreturn, gnu::noinline, gnu::cold]] void fail(std::string_view pattern, const Args&... args) {
  raise<ErrorType>(pattern, {Shown(args)...});
}

#define CHECK(condition, ErrorType, ...)                    \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::flambeau::fail<::flambeau::ErrorType>(__VA_ARGS__); \
  } while (false)

}  // namespace flambeau
