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

inline std::string to_text(std::string_view text) { return std::string(text); }
inline std::string to_text(const char* text) { return text; }
inline std::string to_text(const std::string& text) { return text; }
std::string to_text(double value);
std::string to_text(std::complex<double> value);

template <class T>
requires std::is_integral_v<T> std::string to_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else {
    return std::to_string(value);
  }
}

// Puts the pieces where the pattern has "{}", in order.
std::string format_pieces(std::string_view pattern, std::initializer_list<std::string> pieces);

template <class... Args>
std::string format(std::string_view pattern, const Args&... args) {
  return format_pieces(pattern, {to_text(args)...});
}

}  // namespace flambeau
