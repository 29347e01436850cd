#include "flambeau/base/profiler.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>

namespace flambeau {

constinit std::atomic<bool> profiling_flag{false};

namespace {

// What one thread has recorded. The collector takes it while the thread may still write.
struct ThreadLog {
  std::mutex mutex;
  std::vector<ProfiledSpan> spans;
  int64_t bytes = 0;
  uint64_t thread = 0;
};

// Logs live on when their threads end: what was recorded is still wanted.
struct Logs {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs;
  std::atomic<uint64_t> run{0};  // counts profiling runs: a span belongs to the one it began in
};

Logs& all_logs() {
  static Logs* const logs = new Logs;  // never destroyed: threads may outlive static objects
  return *logs;
}

ThreadLog& own_log() {
  thread_local const std::shared_ptr<ThreadLog> log = [] {
    auto made = std::make_shared<ThreadLog>();
    Logs& all = all_logs();
    const std::lock_guard lock(all.mutex);
    all.logs.push_back(made);
    made->thread = static_cast<uint64_t>(gettid());
    return made;
  }();
  return *log;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void start_profiling() {
  Logs& all = all_logs();
  const std::lock_guard lock(all.mutex);
  for (const auto& log : all.logs) {
    const std::lock_guard inner(log->mutex);
    log->spans.clear();
  }
  ++all.run;
  profiling_flag = true;
}

std::vector<ProfiledSpan> stop_profiling() {
  profiling_flag = false;
  Logs& all = all_logs();
  const std::lock_guard lock(all.mutex);
  ++all.run;
  std::vector<ProfiledSpan> result;
  for (const auto& log : all.logs) {
    const std::lock_guard inner(log->mutex);
    for (ProfiledSpan& span : log->spans) result.push_back(std::move(span));
    log->spans.clear();
  }
  return result;
}

void count_profiled_bytes(int64_t bytes) { own_log().bytes += bytes; }

void Span::open(SpanKind kind, std::string name) {
  ThreadLog& log = own_log();
  run_ = all_logs().run;
  record_ = new ProfiledSpan{.name = std::move(name), .kind = kind, .shapes = {}};
  record_->thread = log.thread;
  record_->bytes = log.bytes;
  record_->begin = now();
}

void Span::close() noexcept {
  const std::unique_ptr<ProfiledSpan> owned(record_);
  owned->end = now();
  ThreadLog& log = own_log();
  owned->bytes = log.bytes - owned->bytes;
  const std::lock_guard lock(log.mutex);
  if (run_ == all_logs().run) log.spans.push_back(std::move(*owned));
}

}  // namespace flambeau
