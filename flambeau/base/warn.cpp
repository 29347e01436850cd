#include "flambeau/base/warn.h"

#include <cstdio>

namespace flambeau {
namespace {

void print_warning(const std::string& text) {
  std::fprintf(stderr, "Warning: %s\n", text.c_str());  // NOLINT
}

std::atomic<WarnHandler> current{print_warning};
std::atomic<bool> always{false};

}  // namespace

void warn(const std::string& text) { current.load()(text); }
void warn_once(std::atomic<bool>& told, const std::string& text) {
  if (!told.exchange(true) || always) warn(text);
}
void set_warn_always(bool is_on) { always = is_on; }
void set_warn_handler(WarnHandler handler) { current = handler ? handler : print_warning; }

}  // namespace flambeau
