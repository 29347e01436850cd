// Spans of time that the profiler collects: ops, steps of backward, what users name. While nobody
// profiles, a span is one read of a flag.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau {

enum class SpanKind : uint8_t { op, backward, user };

struct ProfiledSpan {
  std::string name;
  SpanKind kind = SpanKind::op;
  int64_t begin = 0, end = 0;                // nanoseconds of the system's clock
  int64_t bytes = 0;                         // allocated less freed on the CPU by the span's thread
  uint64_t thread = 0;                       // the system's number
  std::vector<std::vector<int64_t>> shapes;  // of the arguments, where shapes are recorded
};

// True between start_profiling and stop_profiling.
extern constinit std::atomic<bool> profiling_flag;
inline bool profiling() { return profiling_flag.load(std::memory_order_relaxed); }

void start_profiling();
// All spans that began and ended since, of all threads, in the order of their ends.
std::vector<ProfiledSpan> stop_profiling();

// Tells the profiler of bytes that this thread took (positive) or gave back (negative).
void count_profiled_bytes(int64_t bytes);

// Measures its own lifetime.
class Span {
 public:
  Span(SpanKind kind, std::string_view name) {
    if (profiling()) [[unlikely]]
      open(kind, std::string(name));
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (record_) [[unlikely]]
      close();
  }

  // Null while nobody profiles; whoever knows more about the span writes it here.
  [[nodiscard]] ProfiledSpan* record() const { return record_; }

 private:
  void open(SpanKind kind, std::string name);
  void close() noexcept;

  ProfiledSpan* record_ = nullptr;
  uint64_t run_ = 0;
};

}  // namespace flambeau
