#include "flambeau/base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>

#include "flambeau/base/check.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace flambeau {
namespace {

// ThreadSanitizer does not see into libgomp. It is told that the threads of a region begin after
// what the caller did before it, and end before what the caller does next.
#if defined(__SANITIZE_THREAD__)
void now_seen(void* edge) { __tsan_release(edge); }
void see(void* edge) { __tsan_acquire(edge); }
#else
void now_seen(void* /*edge*/) {}
void see(void* /*edge*/) {}
#endif

std::atomic<int> thread_count{0};
std::atomic<int> interop_count{1};
thread_local bool inside = false;

// libgomp's workers do not survive fork(): its next parallel region in the child would wait for
// them forever. A child therefore works alone until it asks for threads itself.
const int fork_handler = pthread_atfork(nullptr, nullptr, [] { thread_count.store(1); });

int initial_thread_count() {
  const int wanted = omp_get_max_threads();
  thread_count.store(wanted);
  return wanted;
}

}  // namespace

int get_num_threads() {
  const int count = thread_count.load(std::memory_order_relaxed);
  return count ? count : initial_thread_count();
}

void set_num_threads(int count) {
  CHECK(count > 0, RuntimeError, "set_num_threads expects a positive integer, got {}", count);
  thread_count.store(count);
  omp_set_num_threads(count);
}

int get_num_interop_threads() { return interop_count.load(); }

void set_num_interop_threads(int count) {
  CHECK(count > 0, RuntimeError, "set_num_interop_threads expects a positive integer, got {}",
        count);
  interop_count.store(count);
}

bool in_parallel_region() { return inside; }

int thread_index() { return inside ? omp_get_thread_num() : 0; }

namespace detail {

__attribute__((no_sanitize("thread"))) void run_parallel(int64_t begin, int64_t end, int64_t grain,
                                                         void* context,
                                                         void (*body)(void* context, int64_t begin,
                                                                      int64_t end)) {
  if (begin >= end) return;
  if (end - begin <= grain || get_num_threads() == 1 || inside) return body(context, begin, end);
  const int64_t most =
      (end - begin + std::max<int64_t>(grain, 1) - 1) / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(get_num_threads(), most));
  std::exception_ptr error;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  now_seen(&failed);
#pragma omp parallel num_threads(threads)
  {
    see(&failed);
    const int64_t count = omp_get_num_threads();
    const int64_t share = (end - begin + count - 1) / count;
    const int64_t first = begin + omp_get_thread_num() * share;
    const int64_t last = std::min(end, first + share);
    inside = true;
    try {
      if (first < last) body(context, first, last);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
    now_seen(&failed);
    inside = false;
  }
  see(&failed);
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace flambeau
