// What an op says that gives other results in another run, where a program demands the same.
#pragma once

#include "flambeau/base/check.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cuda {

inline void alert_not_deterministic(const char* op) {
  if (!math_mode.deterministic.load(std::memory_order_relaxed)) return;
  const std::string text = flambeau::format(
      "{} does not have a deterministic implementation, but you set "
      "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
      "operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
      "application.",
      op);
  const bool warns = math_mode.deterministic_warn_only.load(std::memory_order_relaxed);
  CHECK(warns, RuntimeError, "{}", text);
  warn(text);
}

}  // namespace flambeau::cuda
