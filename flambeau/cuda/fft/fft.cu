// Fourier transforms along one dimension through cuFFT, loaded when the first one is computed.
// Lines are gathered without gaps; plans are kept, without workspaces of their own.
#include "flambeau/kernels/fft.h"

#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/library.h"

namespace flambeau::cuda {
namespace {

constexpr const char* op = "fft";

// --- cuFFT ---------------------------------------------------------------------------------------

using PlanHandle = int;
enum class FftType : int {
  c2c = 0x29,
  r2c = 0x2a,
  c2r = 0x2c,
  z2z = 0x69,
  d2z = 0x6a,
  z2d = 0x6c,
};

struct Cufft {
  int (*create)(PlanHandle*);
  int (*destroy)(PlanHandle);
  int (*allocate_itself)(PlanHandle, int);
  int (*make)(PlanHandle, int rank, long long* n, long long* in_shape, long long in_stride,
              long long in_distance, long long* out_shape, long long out_stride,
              long long out_distance, FftType type, long long batch, size_t* workspace);
  int (*set_workspace)(PlanHandle, void*);
  int (*set_stream)(PlanHandle, cudaStream_t);
  int (*c2c)(PlanHandle, void*, void*, int direction);
  int (*z2z)(PlanHandle, void*, void*, int direction);
  int (*r2c)(PlanHandle, void*, void*);
  int (*d2z)(PlanHandle, void*, void*);
  int (*c2r)(PlanHandle, void*, void*);
  int (*z2d)(PlanHandle, void*, void*);
};

const Cufft& cufft() {
  static const Cufft functions = [] {
    const Library library("cuFFT", "libcufft.so.12", "nvidia-cufft");
    Cufft found{};
    library.take(found.create, "cufftCreate");
    library.take(found.destroy, "cufftDestroy");
    library.take(found.allocate_itself, "cufftSetAutoAllocation");
    library.take(found.make, "cufftMakePlanMany64");
    library.take(found.set_workspace, "cufftSetWorkArea");
    library.take(found.set_stream, "cufftSetStream");
    library.take(found.c2c, "cufftExecC2C");
    library.take(found.z2z, "cufftExecZ2Z");
    library.take(found.r2c, "cufftExecR2C");
    library.take(found.d2z, "cufftExecD2Z");
    library.take(found.c2r, "cufftExecC2R");
    library.take(found.z2d, "cufftExecZ2D");
    return found;
  }();
  return functions;
}

void check_fft(int status, int64_t n) {
  CHECK(status == 0, RuntimeError, "fft: cuFFT error {} for a transform of length {}", status, n);
}

// --- Plans ---------------------------------------------------------------------------------------

struct Plan {
  PlanHandle handle = 0;
  size_t workspace = 0;
};
using PlanKey = std::tuple<FftType, int64_t, int64_t>;  // type, length, lines

// The plans of one device, of which those that were used longest ago are dropped for others.
class Plans {
 public:
  // Calls use(plan) with the plan of a problem. One thread at a time.
  template <class Use>
  void with(const PlanKey& key, const Use& use) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      plans_.splice(plans_.begin(), plans_, found->second);
      use(plans_.front().second);
      return;
    }
    shrink_to(std::max<int64_t>(limit_ - 1, 0));
    plans_.emplace_front(key, make(key));
    entries_.emplace(key, plans_.begin());
    use(plans_.front().second);
    shrink_to(limit_);
  }

  void ask(std::optional<int64_t> limit, int64_t* count, int64_t* most) {
    const std::lock_guard lock(mutex_);
    if (limit) shrink_to(limit_ = *limit);
    *count = static_cast<int64_t>(plans_.size());
    *most = limit_;
  }

  static Plans& of(int64_t device) {
    static auto* all = new std::vector<Plans>(device_count());
    return all->at(device);
  }

 private:
  static Plan make(const PlanKey& key) {
    const auto [type, n, lines] = key;
    const long long half = n / 2 + 1;
    const bool real_in = type == FftType::r2c || type == FftType::d2z;
    const bool real_out = type == FftType::c2r || type == FftType::z2d;
    long long length = n, in = real_out ? half : n, out = real_in ? half : n;
    Plan plan;
    check_fft(cufft().create(&plan.handle), n);
    int status = cufft().allocate_itself(plan.handle, 0);
    if (status == 0) {
      status = cufft().make(plan.handle, 1, &length, &in, 1, in, &out, 1, out, type, lines,
                            &plan.workspace);
    }
    if (status != 0) cufft().destroy(plan.handle);
    check_fft(status, n);
    return plan;
  }
  void shrink_to(int64_t count) {
    while (static_cast<int64_t>(plans_.size()) > count) {
      cufft().destroy(plans_.back().second.handle);
      entries_.erase(plans_.back().first);
      plans_.pop_back();
    }
  }

  std::mutex mutex_;
  std::list<std::pair<PlanKey, Plan>> plans_;  // the one used last first
  std::map<PlanKey, std::list<std::pair<PlanKey, Plan>>::iterator> entries_;
  int64_t limit_ = 4096;
};

void fft_plans_kernel(int64_t device, std::optional<int64_t> limit, int64_t* count, int64_t* most) {
  CHECK(device >= 0 && device < device_count(), RuntimeError,
        "cufft_plan_cache: expected 0 <= device index < {}, but got device with index {}",
        device_count(), device);
  const DeviceGuard guard(static_cast<int>(device));
  Plans::of(device).ask(limit, count, most);
}
KERNEL_FOR(fft_plans, fft_plans_kernel)

// Transforms all lines of dense tensors along their last dimension, of which `n` are real or
// complex numbers.
void transform(FftType type, int64_t n, const Tensor& from, const Tensor& to, int direction) {
  const int device = from.device().index;
  const int64_t lines = from.numel() / from.sizes().back();
  Plans::of(device).with({type, n, lines}, [&](const Plan& plan) {
    const Workspace workspace(plan.workspace, device);
    const Cufft& library = cufft();
    check_fft(library.set_stream(plan.handle, current_handle(device)), n);
    check_fft(library.set_workspace(plan.handle, workspace.get()), n);
    int status = 0;
    switch (type) {
      case FftType::c2c: status = library.c2c(plan.handle, from.raw(), to.raw(), direction); break;
      case FftType::z2z: status = library.z2z(plan.handle, from.raw(), to.raw(), direction); break;
      case FftType::r2c: status = library.r2c(plan.handle, from.raw(), to.raw()); break;
      case FftType::d2z: status = library.d2z(plan.handle, from.raw(), to.raw()); break;
      case FftType::c2r: status = library.c2r(plan.handle, from.raw(), to.raw()); break;
      case FftType::z2d: status = library.z2d(plan.handle, from.raw(), to.raw()); break;
    }
    check_fft(status, n);
  });
}

// --- What surrounds a transform ------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size) scale_kernel(T* data, int64_t count, T factor) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < count) data[i] *= factor;
}

// Multiplies all real numbers of a dense tensor.
void scale_all(const Tensor& x, double factor) {
  if (factor == 1) return;
  const int64_t count = x.numel() * (x.is_complex() ? 2 : 1);
  const bool wide = x.dtype() == DType::complex128 || x.dtype() == DType::float64;
  const unsigned blocks = blocks_for(count, block_size);
  if (wide) {
    launch(op, scale_kernel<double>, blocks, block_size, static_cast<double*>(x.raw()), count,
           factor);
  } else {
    launch(op, scale_kernel<float>, blocks, block_size, static_cast<float*>(x.raw()), count,
           static_cast<float>(factor));
  }
}

// The numbers of a half transform that are their own partners are real: their imaginary parts do
// not count, and cuFFT wants them to be zero.
template <class T>
__global__ void __launch_bounds__(block_size)
    drop_imaginary(T* data, int64_t lines, int64_t half, bool even) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (line >= lines) return;
  data[line * half * 2 + 1] = 0;
  if (even) data[(line * half + half - 1) * 2 + 1] = 0;
}

// The lines of a tensor without gaps, from where cuFFT may read pairs of numbers on.
Tensor lines_of(const Tensor& x) {
  if (x.is_contiguous() && reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0) return x;
  Tensor copy = make_tensor(x.sizes(), x.dtype(), x.device());
  copy_into(op, copy, x);
  return copy;
}

bool is_wide(const Tensor& x) {
  return x.dtype() == DType::complex128 || x.dtype() == DType::float64;
}

void complex_kernel(const Tensor& input, const Tensor& out, int64_t dim, bool inverse,
                    double scale) {
  const DeviceGuard guard(input.device().index);
  const Tensor from = lines_of(dim_last(input, dim));
  const DenseResult result(dim_last(out, dim));
  transform(is_wide(input) ? FftType::z2z : FftType::c2c, from.sizes().back(), from, result.work(),
            inverse ? 1 : -1);
  scale_all(result.work(), scale);
  result.finish(op);
}
KERNEL_FOR(fft_complex, complex_kernel)

void real_kernel(const Tensor& input, const Tensor& out, int64_t dim, double scale) {
  const DeviceGuard guard(input.device().index);
  const Tensor from = lines_of(dim_last(input, dim));
  const DenseResult result(dim_last(out, dim));
  transform(is_wide(input) ? FftType::d2z : FftType::r2c, from.sizes().back(), from, result.work(),
            -1);
  scale_all(result.work(), scale);
  result.finish(op);
}
KERNEL_FOR(fft_real, real_kernel)

void to_real_kernel(const Tensor& input, const Tensor& out, int64_t dim, double scale) {
  const DeviceGuard guard(input.device().index);
  const Tensor lines = dim_last(input, dim);
  const int64_t n = out.sizes()[dim], half = n / 2 + 1;
  // A copy: cuFFT overwrites what it transforms. Of the input's dimension only the half counts.
  Dims sizes = lines.sizes().dims();
  sizes.back() = half;
  const Tensor part = make_alias(lines, sizes, lines.strides(), lines.offset());
  const Tensor from = make_tensor(sizes, input.dtype(), input.device());
  copy_into(op, from, part);
  const int64_t count = from.numel() / half;
  const unsigned blocks = blocks_for(count, block_size);
  if (is_wide(input)) {
    launch(op, drop_imaginary<double>, blocks, block_size, static_cast<double*>(from.raw()), count,
           half, n % 2 == 0);
  } else {
    launch(op, drop_imaginary<float>, blocks, block_size, static_cast<float*>(from.raw()), count,
           half, n % 2 == 0);
  }
  const DenseResult result(dim_last(out, dim));
  transform(is_wide(input) ? FftType::z2d : FftType::c2r, n, from, result.work(), 1);
  scale_all(result.work(), scale);
  result.finish(op);
}
KERNEL_FOR(fft_to_real, to_real_kernel)

}  // namespace
}  // namespace flambeau::cuda
