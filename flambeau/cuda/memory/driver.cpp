// The CUDA driver as the caching allocator sees it. Virtual memory has no functions in the runtime
// library; the driver's own are asked for by name, so that nothing has to be linked to the driver.
#include <cuda.h>

#include <string>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/driver_function.h"

namespace flambeau::cuda {
namespace {

// The driver's functions for virtual memory; all null where it has none.
struct VirtualMemory {
  CUresult (*reserve)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long) = nullptr;
  CUresult (*unreserve)(CUdeviceptr, size_t) = nullptr;
  CUresult (*create)(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*,
                     unsigned long long) = nullptr;
  CUresult (*release)(CUmemGenericAllocationHandle) = nullptr;
  CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                  unsigned long long) = nullptr;
  CUresult (*unmap)(CUdeviceptr, size_t) = nullptr;
  CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) = nullptr;
  CUresult (*granularity)(size_t*, const CUmemAllocationProp*,
                          CUmemAllocationGranularity_flags) = nullptr;
  CUresult (*attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  bool complete = false;

  VirtualMemory() {
    complete = find("cuMemAddressReserve", reserve) && find("cuMemAddressFree", unreserve) &&
               find("cuMemCreate", create) && find("cuMemRelease", release) &&
               find("cuMemMap", map) && find("cuMemUnmap", unmap) &&
               find("cuMemSetAccess", set_access) &&
               find("cuMemGetAllocationGranularity", granularity) &&
               find("cuDeviceGetAttribute", attribute);
  }

 private:
  template <class F>
  static bool find(const char* name, F& function) {
    find_driver_function(name, 10020, function);
    return function;
  }
};

const VirtualMemory& functions() {
  static const VirtualMemory found;
  return found;
}

void check_driver(CUresult result, const char* call) {
  CHECK(result == CUDA_SUCCESS, RuntimeError, "allocate: {} failed with error {} of the driver",
        call, static_cast<int>(result));
}

class CudaMemoryDriver final : public MemoryDriver {
 public:
  explicit CudaMemoryDriver(int device) : device_(device) {
    // Makes the device's context, which the driver's own functions want to find.
    check(cudaSetDevice(device), "allocate");
    size_t free = 0;
    const DeviceGuard guard(device);
    check(cudaMemGetInfo(&free, &capacity_), "allocate");
    kind_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind_.location.id = device;
    for (int other = 0; other < device_count(); ++other) {
      int reaches = other == device;
      if (!reaches) cudaDeviceCanAccessPeer(&reaches, other, device);
      if (!reaches) continue;
      CUmemAccessDesc access{};
      access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access.location.id = other;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      readers_.push_back(access);
    }
  }

  size_t capacity() override { return capacity_; }

  char* take(size_t bytes) override {
    const DeviceGuard guard(device_);
    const OutsideCapture outside;
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(error, "allocate");
    return static_cast<char*>(data);
  }
  void give_back(char* data, size_t) override {
    const DeviceGuard guard(device_);
    cudaFree(data);
  }

  bool has_virtual_memory() override {
    const VirtualMemory& driver = functions();
    if (!driver.complete) return false;
    int supported = 0;
    size_t unit = 0;
    constexpr auto asked = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return driver.attribute(&supported, asked, device_) == CUDA_SUCCESS && supported &&
           driver.granularity(&unit, &kind_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           (size_t{2} << 20) % unit == 0;
  }
  char* reserve(size_t bytes) override {
    use_context();
    CUdeviceptr at = 0;
    if (functions().reserve(&at, bytes, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
    return reinterpret_cast<char*>(at);
  }
  void unreserve(char* at, size_t bytes) override {
    use_context();
    functions().unreserve(reinterpret_cast<CUdeviceptr>(at), bytes);
  }

  bool map(char* at, size_t bytes, size_t chunk) override {
    use_context();
    const OutsideCapture outside;
    const auto begin = reinterpret_cast<CUdeviceptr>(at);
    size_t done = 0;
    for (; done < bytes; done += chunk) {
      CUmemGenericAllocationHandle memory = 0;
      const CUresult made = functions().create(&memory, chunk, &kind_, 0);
      if (made == CUDA_ERROR_OUT_OF_MEMORY) break;
      check_driver(made, "cuMemCreate");
      const CUresult mapped = functions().map(begin + done, chunk, 0, memory, 0);
      functions().release(memory);  // lives on as long as it is mapped
      check_driver(mapped, "cuMemMap");
    }
    if (done < bytes) {
      if (done) unmap(at, done, chunk);
      return false;
    }
    check_driver(functions().set_access(begin, bytes, readers_.data(), readers_.size()),
                 "cuMemSetAccess");
    return true;
  }
  void unmap(char* at, size_t bytes, size_t) override {
    use_context();
    functions().unmap(reinterpret_cast<CUdeviceptr>(at), bytes);
  }

  Mark set_mark(StreamHandle stream) override {
    const DeviceGuard guard(device_);
    cudaEvent_t event = nullptr;
    // A destructor is above us: where no mark can be set, waiting for all is as good.
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(event, static_cast<cudaStream_t>(stream)) != cudaSuccess) {
      cudaGetLastError();
      if (event) cudaEventDestroy(event);
      cudaDeviceSynchronize();
      return nullptr;
    }
    return event;
  }
  bool passed(Mark mark) override {
    if (cudaEventQuery(static_cast<cudaEvent_t>(mark)) != cudaErrorNotReady) return true;
    cudaGetLastError();
    return false;
  }
  void wait_for(Mark mark) override { cudaEventSynchronize(static_cast<cudaEvent_t>(mark)); }
  void drop(Mark mark) override { cudaEventDestroy(static_cast<cudaEvent_t>(mark)); }

  void synchronize() override {
    const DeviceGuard guard(device_);
    cudaDeviceSynchronize();
  }
  void memory_info(size_t& free, size_t& total) override {
    const DeviceGuard guard(device_);
    cudaMemGetInfo(&free, &total);
  }

 private:
  // A thread that has not called the runtime library yet has no context.
  void use_context() const {
    const int before = current_device();
    cudaSetDevice(device_);
    if (before != device_) cudaSetDevice(before);
  }

  int device_;
  size_t capacity_ = 0;
  CUmemAllocationProp kind_{};
  std::vector<CUmemAccessDesc> readers_;  // the devices that may use the memory
};

}  // namespace

std::unique_ptr<MemoryDriver> cuda_memory_driver(int device) {
  return std::make_unique<CudaMemoryDriver>(device);
}

}  // namespace flambeau::cuda
