// Which of the libraries with the CPU's kernels serves this processor. There is one for each
// instruction set of Note [Instruction sets]; the best one is opened when this library is loaded,
// and no code of the others is ever in the process.
//
// FLAMBEAU_ISA=v3 in the environment asks for the named one, to compare or to look for an error.
#include <cstdlib>
#include <string>
#include <string_view>

#include "flambeau/tensor/backend.h"

namespace flambeau::cpu {
namespace {

struct InstructionSet {
  std::string_view name, meaning;
  bool built, runs_here;
};

void open_best() {
  const InstructionSet best_first[] = {
      {"v4", "AVX-512", FLAMBEAU_HAS_ISA_v4, __builtin_cpu_supports("x86-64-v4") != 0},
      {"v3", "AVX2 and FMA", FLAMBEAU_HAS_ISA_v3, __builtin_cpu_supports("x86-64-v3") != 0},
  };
  const char* asked = std::getenv("FLAMBEAU_ISA");
  std::string tried;
  for (const auto& [name, meaning, built, runs_here] : best_first) {
    if (asked && asked != name) continue;
    if (built && runs_here) {
      open_backend(DeviceType::cpu, "libflambeau_cpu_" + std::string(name) + ".so");
      return;
    }
    tried += tried.empty() ? "" : "; ";
    tried += "x86-64-" + std::string(name) + " (" + std::string(meaning) + "): ";
    tried += built ? "this processor does not have it" : "this build does not have it";
  }
  if (tried.empty()) tried = "known are v3 and v4";
  if (asked) tried = "FLAMBEAU_ISA=" + std::string(asked) + ": " + tried;
  refuse_backend(DeviceType::cpu, tried);
}

[[maybe_unused]] const bool opened = (open_best(), true);

}  // namespace
}  // namespace flambeau::cpu
