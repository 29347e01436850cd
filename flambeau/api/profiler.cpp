#include "flambeau/api/profiler.h"

#include <fstream>

#include "flambeau/base/check.h"

namespace flambeau::torch::autograd::profiler {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

void ProfilerResult::save(const std::string& path) const {
  static constexpr const char* kinds[] = {"cpu_op", "backward", "user_annotation"};
  std::ofstream file(path);
  file << "{\"traceEvents\": [";
  const char* between = "\n";
  for (const ProfiledSpan& span : spans_) {
    file << between << R"({"ph": "X", "cat": ")" << kinds[static_cast<int>(span.kind)]
         << R"(", "name": )" << quoted(span.name) << R"(, "pid": 0, "tid": )" << span.thread
         << ", \"ts\": " << span.begin / 1000 << ", \"dur\": " << (span.end - span.begin) / 1000
         << "}";
    between = ",\n";
  }
  file << "\n]}\n";
  file.flush();
  CHECK(file, RuntimeError, "ProfilerResult.save: '{}' cannot be written", path);
}

}  // namespace flambeau::torch::autograd::profiler
