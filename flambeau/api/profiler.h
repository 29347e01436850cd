// torch::autograd::profiler: what ran between enableProfiler() and disableProfiler(), as a file for
// chrome://tracing; and RECORD_FUNCTION, which adds a span of one's own.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "flambeau/base/profiler.h"

namespace flambeau::torch {
namespace profiler::impl {

enum class ActivityType { CPU, XPU, CUDA, HPU, MTIA, PrivateUse1 };
enum class ProfilerState { Disabled, CPU, CUDA, NVTX, ITT, KINETO, KINETO_GPU_FALLBACK };

struct ProfilerConfig {
  explicit ProfilerConfig(ProfilerState state, bool report_input_shapes = false,
                          bool profile_memory = false, bool with_stack = false,
                          bool with_flops = false, bool with_modules = false)
      : state(state),
        report_input_shapes(report_input_shapes),
        profile_memory(profile_memory),
        with_stack(with_stack),
        with_flops(with_flops),
        with_modules(with_modules) {}
  ProfilerState state;
  bool report_input_shapes, profile_memory, with_stack, with_flops, with_modules;
};

}  // namespace profiler::impl

namespace autograd::profiler {

using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

class ProfilerResult {
 public:
  explicit ProfilerResult(std::vector<ProfiledSpan> spans) : spans_(std::move(spans)) {}
  [[nodiscard]] const std::vector<ProfiledSpan>& events() const { return spans_; }
  void save(const std::string& path) const;

 private:
  std::vector<ProfiledSpan> spans_;
};

inline void prepareProfiler(const ProfilerConfig&, const std::set<ActivityType>&) {}
inline void enableProfiler(const ProfilerConfig&, const std::set<ActivityType>&) {
  start_profiling();
}
inline std::unique_ptr<ProfilerResult> disableProfiler() {
  return std::make_unique<ProfilerResult>(stop_profiling());
}

}  // namespace autograd::profiler

enum class RecordScope : uint8_t { FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 8 };

}  // namespace flambeau::torch

#define FLAMBEAU_SPAN_NAME(line) flambeau_span_##line
#define FLAMBEAU_SPAN(name, line) \
  const ::flambeau::Span FLAMBEAU_SPAN_NAME(line)(::flambeau::SpanKind::user, name)
#define RECORD_FUNCTION(name, ...) FLAMBEAU_SPAN(name, __LINE__)
#define RECORD_USER_SCOPE(name) FLAMBEAU_SPAN(name, __LINE__)
