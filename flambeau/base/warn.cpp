#include "flambeau/base/warn.h"

#include <atomic>
#include <cstdio>

namespace flambeau {
namespace {

void print_warning(const std::string& text) {
  std::fprintf(stderr, "Warning: %s\n", text.c_str());  // NOLINT
}

std::atomic<WarnHandler> current{print_warning};

}  // namespace

void warn(const std::string& text) { current.load()(text); }
void set_warn_handler(WarnHandler handler) { current = handler ? handler : print_warning; }

}  // namespace flambeau
