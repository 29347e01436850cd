namespace flambeau::cpu {

bool supports(int rank) {
  if (rank >= 4) return __builtin_cpu_supports("x86-64-v4");
  return __builtin_cpu_supports("x86-64-v3");
}

}  // namespace flambeau::cpu
