// parallel_for over a range of work. One OpenMP runtime serves us and oneDNN, so that their
// threads never compete. Nested calls run on the caller's thread.
#pragma once

#include <cstdint>
#include <type_traits>

namespace flambeau {

// Elements of cheap work below which a second thread costs more than it saves.
constexpr int64_t default_grain = 32768;

int get_num_threads();
void set_num_threads(int count);
int get_num_interop_threads();
void set_num_interop_threads(int count);
bool in_parallel_region();
int thread_index();  // 0 .. get_num_threads() - 1 inside parallel_for

namespace detail {
void run_parallel(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*body)(void* context, int64_t begin, int64_t end));
}

// Calls body(first, last) on chunks of [begin, end) of at least `grain` elements. An exception in
// any chunk is rethrown on the calling thread.
template <class Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_parallel(begin, end, grain, const_cast<void*>(static_cast<const void*>(&body)),
                       [](void* context, int64_t first, int64_t last) {
                         (*static_cast<Plain*>(context))(first, last);
                       });
}

}  // namespace flambeau
