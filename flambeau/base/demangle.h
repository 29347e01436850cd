// Names of symbols and types as programs write them.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace flambeau {

// The name itself where it is none that a compiler made.
inline std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return readable ? readable.get() : name;
}

}  // namespace flambeau
