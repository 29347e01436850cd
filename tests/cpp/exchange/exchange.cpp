// Reads files of PyTorch's and writes them again: `exchange IN OUT [IN OUT ...]`. A Python test
// compares what is in them, bit for bit.
#include <cstdio>

#include "flambeau/io/file.h"

int main(int count, char** arguments) {
  using namespace flambeau;
  int failures = 0;
  for (int k = 1; k + 1 < count; k += 2) {
    try {
      io::save_file(io::load_file(arguments[k]), arguments[k + 1]);
    } catch (const Error& error) {
      std::printf("%s: %s\n", arguments[k], error.what());
      ++failures;
    }
  }
  return failures != 0;
}
