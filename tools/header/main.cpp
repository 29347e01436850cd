// flambeau-header: prints what C++ programs include, or the tests that call all of it.
//
//   flambeau-header header FILE      flambeau/torch.h
//   flambeau-header bodies FILE      what stands behind it
//   flambeau-header tests FILE       a GoogleTest unit
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>

#include "flambeau/base/warn.h"
#include "tools/header/cpp_forms.h"

// A file that says the same already keeps its date, so that nothing is compiled again.
static bool write(const char* path, const std::string& text) {
  std::ifstream before(path, std::ios::binary);
  if (before && std::string(std::istreambuf_iterator<char>(before), {}) == text) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  try {
    std::string text;
    if (what == "header") {
      flambeau::print::print_header(text);
    } else if (what == "bodies") {
      flambeau::print::print_bodies(text);
    } else if (what == "tests") {
      flambeau::set_warn_handler([](const std::string&) {});
      flambeau::print::print_tests(text);
    } else {
      std::fprintf(stderr, "usage: flambeau-header header|bodies|tests FILE\n");
      return 2;
    }
    if (write(argv[2], text)) return 0;
    std::fprintf(stderr, "flambeau-header: %s cannot be written\n", argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flambeau-header: %s\n", error.what());
  }
  return 1;
}
