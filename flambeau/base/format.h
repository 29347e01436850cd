// Text for error messages: format("{} and {}", a, b) with to_text() overloads for what messages
// show. Small on purpose: it is included everywhere, by nvcc too, and runs only on failure.
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace flambeau {

std::string to_text(std::string_view text);
inline std::string to_text(const char* text) { return to_text(std::string_view(text)); }
inline std::string to_text(const std::string& text) { return to_text(std::string_view(text)); }
std::string to_text(bool value);
std::string to_text(int64_t value);
std::string to_text(uint64_t value);
std::string to_text(double value);
std::string to_text(std::complex<double> value);

template <class T>
requires std::is_integral_v<T> std::string to_text(T value) {
  return to_text(std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(value));
}

// A value of a message and how to write it. Only this knows the value's type: what makes a message
// is compiled once, not once for each combination of types.
class Shown {
 public:
  template <class T>
  explicit Shown(const T& value)
      : value_(&value),
        write_([](const void* value) { return to_text(*static_cast<const T*>(value)); }) {}
  [[nodiscard]] std::string text() const { return write_(value_); }

 private:
  const void* value_;
  std::string (*write_)(const void* value);
};

// Puts the parts where the pattern has "{}", in order.
std::string format_parts(std::string_view pattern, std::initializer_list<Shown> parts);

template <class... Args>
std::string format(std::string_view pattern, const Args&... args) {
  return format_parts(pattern, {Shown(args)...});
}

}  // namespace flambeau
