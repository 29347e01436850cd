#include "flambeau/base/format.h"

#include <cmath>
#include <cstdio>

namespace flambeau {

std::string to_text(std::string_view text) { return std::string(text); }
std::string to_text(bool value) { return value ? "True" : "False"; }
std::string to_text(int64_t value) { return std::to_string(value); }
std::string to_text(uint64_t value) { return std::to_string(value); }

std::string to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  // The shortest of the precisions that reads back as the same number.
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer;
}

std::string to_text(std::complex<double> value) {
  return "(" + to_text(value.real()) + (std::signbit(value.imag()) ? "" : "+") +
         to_text(value.imag()) + "j)";
}

std::string format_parts(std::string_view pattern, std::initializer_list<Shown> parts) {
  std::string text;
  const Shown* part = parts.begin();
  while (true) {
    const size_t hole = pattern.find("{}");
    text += pattern.substr(0, hole);
    if (hole == std::string_view::npos) return text;
    if (part != parts.end()) text += (part++)->text();
    pattern.remove_prefix(hole + 2);
  }
}

}  // namespace flambeau
