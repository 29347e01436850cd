#include "flambeau/tensor/vendor_library.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

namespace flambeau {
namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> paths;
};
Folders& folders() {
  static auto* known = new Folders;
  return *known;
}

}  // namespace

void set_vendor_folders(std::vector<std::string> paths) {
  const std::lock_guard lock(folders().mutex);
  folders().paths = std::move(paths);
}

void* open_vendor_library(const char* name) {
  // Others that depend on it find it once it is loaded for all.
  constexpr int flags = RTLD_NOW | RTLD_GLOBAL;
  if (void* found = dlopen(name, flags)) return found;
  const std::lock_guard lock(folders().mutex);
  for (const std::string& folder : folders().paths) {
    if (void* found = dlopen((folder + "/" + name).c_str(), flags)) return found;
  }
  return nullptr;
}

}  // namespace flambeau
