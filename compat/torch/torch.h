// What programs written for libtorch include: tensors, modules, optimizers, data, files. Aliases
// only: all of it is in flambeau/.
#pragma once

#if __cplusplus < 202002L
#error "Flambeau needs C++20: compile with -std=c++20"
#endif

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <queue>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "flambeau/api/library.h"
#include "flambeau/frontend.h"
#include "flambeau/script.h"

namespace at {
using namespace flambeau::torch;  // NOLINT: a program may add to this namespace
}
namespace torch {
using namespace flambeau::torch;  // NOLINT
}
namespace c10 {
using namespace flambeau::torch;  // NOLINT
using flambeau::Dict;
using flambeau::IValue;
using flambeau::List;
template <class T>
using complex = std::complex<T>;
using std::in_place;
using std::in_place_t;
using std::string_view;
template <class T>
using intrusive_ptr = flambeau::IntrusivePtr<T>;
using intrusive_ptr_target = flambeau::RefCounted;
namespace impl {
using GenericDict = Dict<IValue, IValue>;
using GenericList = List<IValue>;
using flambeau::torch::ScalarTypeToCPPType;
using flambeau::torch::ScalarTypeToCPPTypeT;
}  // namespace impl
}  // namespace c10
namespace at {
using c10::complex;
using c10::Dict;
using c10::intrusive_ptr;
using c10::IValue;
using c10::List;
}  // namespace at
namespace torch {
using c10::Dict;
using c10::IValue;
using c10::List;
}  // namespace torch
// dtype(kFloat) alone is found by its argument, whose type is the core's.
namespace flambeau {
using torch::device;
using torch::dtype;
using torch::layout;
}  // namespace flambeau
namespace caffe2 {
using flambeau::torch::TypeMeta;
}

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 15
#define TORCH_VERSION_PATCH 0
#define TORCH_VERSION "2.15.0"
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_NOINLINE __attribute__((noinline))
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define C10_API
#define C10_EXPORT
#define TORCH_API
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
#define C10_HOST_DEVICE FLAMBEAU_HOST_DEVICE
#define C10_CONCATENATE_IMPL(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_IMPL(a, b)
#define C10_STRINGIZE_IMPL(text) #text
#define C10_STRINGIZE(text) C10_STRINGIZE_IMPL(text)
#define C10_ANONYMOUS_VARIABLE(text) C10_CONCATENATE(text, __COUNTER__)
#define C10_LOG_API_USAGE_ONCE(...) static_cast<void>(0)
// Macros of the core are none of a program's.
#undef ARGUMENT
#undef CHECK
#undef OP
#undef OP_FUNCTION
#undef OP_METHOD
#undef OP_INPLACE
#undef OP_OUT
#undef OP_VIEW
#undef OP_WITH
#undef OP_NUMBERED
#undef OP_FLAGS
