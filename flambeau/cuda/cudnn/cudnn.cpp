#include "flambeau/cuda/cudnn/cudnn.h"

#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/library.h"
#include "flambeau/cuda/runtime/stream.h"

namespace flambeau::cuda {
namespace {

Cudnn load() {
  const Library library("cuDNN 9", "libcudnn.so.9", "nvidia-cudnn-cu13", RTLD_GLOBAL);
  Cudnn found{};
  const auto take = [&](auto& function, const char* name) { library.take(function, name); };
  take(found.create, "cudnnCreate");
  take(found.set_stream, "cudnnSetStream");
  take(found.version, "cudnnGetVersion");
  take(found.error_string, "cudnnGetErrorString");
  take(found.create_descriptor, "cudnnBackendCreateDescriptor");
  take(found.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  take(found.set_attribute, "cudnnBackendSetAttribute");
  take(found.get_attribute, "cudnnBackendGetAttribute");
  take(found.finalize, "cudnnBackendFinalize");
  take(found.execute, "cudnnBackendExecute");
  take(found.create_tensor, "cudnnCreateTensorDescriptor");
  take(found.destroy_tensor, "cudnnDestroyTensorDescriptor");
  take(found.set_tensor, "cudnnSetTensorNdDescriptor");
  take(found.create_dropout, "cudnnCreateDropoutDescriptor");
  take(found.destroy_dropout, "cudnnDestroyDropoutDescriptor");
  take(found.dropout_states_size, "cudnnDropoutGetStatesSize");
  take(found.set_dropout, "cudnnSetDropoutDescriptor");
  take(found.restore_dropout, "cudnnRestoreDropoutDescriptor");
  take(found.create_rnn, "cudnnCreateRNNDescriptor");
  take(found.destroy_rnn, "cudnnDestroyRNNDescriptor");
  take(found.set_rnn, "cudnnSetRNNDescriptor_v8");
  take(found.create_rnn_data, "cudnnCreateRNNDataDescriptor");
  take(found.destroy_rnn_data, "cudnnDestroyRNNDataDescriptor");
  take(found.set_rnn_data, "cudnnSetRNNDataDescriptor");
  take(found.rnn_spaces, "cudnnGetRNNTempSpaceSizes");
  take(found.rnn_weight_size, "cudnnGetRNNWeightSpaceSize");
  take(found.rnn_weight, "cudnnGetRNNWeightParams");
  take(found.rnn_forward, "cudnnRNNForward");
  take(found.rnn_backward_data, "cudnnRNNBackwardData_v8");
  take(found.rnn_backward_weights, "cudnnRNNBackwardWeights_v8");
  return found;
}

struct DeviceHandle {
  std::recursive_mutex mutex;
  cudnnHandle_t handle = nullptr;
};

DeviceHandle& handle_of(int device) {
  static auto* all = new std::vector<DeviceHandle>(device_count());
  return (*all)[device];
}

}  // namespace

const Cudnn& cudnn() {
  static const Cudnn functions = load();
  return functions;
}

bool has_cudnn() {
  static const bool found = [] {
    try {
      cudnn();
      return true;
    } catch (const RuntimeError&) {
      return false;
    }
  }();
  return found;
}

void check_cudnn(cudnnStatus_t status, const char* op) {
  CHECK(status == CUDNN_STATUS_SUCCESS, RuntimeError, "{}: cuDNN error: {}", op,
        cudnn().error_string(status));
}

CudnnHandle::CudnnHandle(int device) {
  const Cudnn& library = cudnn();
  DeviceHandle& of_device = handle_of(device);
  lock_ = std::unique_lock(of_device.mutex);
  if (!of_device.handle) check_cudnn(library.create(&of_device.handle), "cudnnCreate");
  handle_ = of_device.handle;
  check_cudnn(library.set_stream(handle_, current_handle(device)), "cudnnSetStream");
}

CudnnObject::CudnnObject(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnn().create_descriptor(type, &raw_), "cudnnBackendCreateDescriptor");
}

CudnnObject::~CudnnObject() {
  if (raw_) cudnn().destroy_descriptor(raw_);
}

void CudnnObject::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void* values) {
  check_cudnn(cudnn().set_attribute(raw_, name, type, count, values), "cudnnBackendSetAttribute");
}

void CudnnObject::set(cudnnBackendAttributeName_t name, const CudnnObject& other) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
}

int64_t CudnnObject::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t capacity, void* values) const {
  int64_t count = 0;
  check_cudnn(cudnn().get_attribute(raw_, name, type, capacity, &count, values),
              "cudnnBackendGetAttribute");
  return count;
}

void CudnnObject::finalize(const char* op) { check_cudnn(cudnn().finalize(raw_), op); }

bool CudnnObject::try_finalize() { return cudnn().finalize(raw_) == CUDNN_STATUS_SUCCESS; }

}  // namespace flambeau::cuda
