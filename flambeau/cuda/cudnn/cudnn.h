// cuDNN, loaded when it is first needed: a machine without it has everything but convolutions,
// and attention and recurrent layers in more and slower steps.
#pragma once

#include <cudnn.h>

#include <mutex>
#include <utility>

namespace flambeau::cuda {

// The functions of the library that are used here.
struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
  // Recurrent layers.
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensorNdDescriptor) set_tensor;
  decltype(&cudnnCreateDropoutDescriptor) create_dropout;
  decltype(&cudnnDestroyDropoutDescriptor) destroy_dropout;
  decltype(&cudnnDropoutGetStatesSize) dropout_states_size;
  decltype(&cudnnSetDropoutDescriptor) set_dropout;
  decltype(&cudnnRestoreDropoutDescriptor) restore_dropout;
  decltype(&cudnnCreateRNNDescriptor) create_rnn;
  decltype(&cudnnDestroyRNNDescriptor) destroy_rnn;
  decltype(&cudnnSetRNNDescriptor_v8) set_rnn;
  decltype(&cudnnCreateRNNDataDescriptor) create_rnn_data;
  decltype(&cudnnDestroyRNNDataDescriptor) destroy_rnn_data;
  decltype(&cudnnSetRNNDataDescriptor) set_rnn_data;
  decltype(&cudnnGetRNNTempSpaceSizes) rnn_spaces;
  decltype(&cudnnGetRNNWeightSpaceSize) rnn_weight_size;
  decltype(&cudnnGetRNNWeightParams) rnn_weight;
  decltype(&cudnnRNNForward) rnn_forward;
  decltype(&cudnnRNNBackwardData_v8) rnn_backward_data;
  decltype(&cudnnRNNBackwardWeights_v8) rnn_backward_weights;
};

const Cudnn& cudnn();  // raises RuntimeError where there is none
bool has_cudnn();
void check_cudnn(cudnnStatus_t status, const char* op);

// The device's handle, set to the current stream, for the time this lives. One thread at a time.
class CudnnHandle {
 public:
  explicit CudnnHandle(int device);
  [[nodiscard]] cudnnHandle_t get() const { return handle_; }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  cudnnHandle_t handle_;
};

// An object of cuDNN's graph interface.
class CudnnObject {
 public:
  explicit CudnnObject(cudnnBackendDescriptorType_t type);
  CudnnObject(CudnnObject&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnObject& operator=(CudnnObject&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~CudnnObject();

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const CudnnObject& other);
  // The number of values that were there; at most `capacity` are written.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t capacity,
              void* values) const;
  void finalize(const char* op);
  [[nodiscard]] bool try_finalize();  // false where cuDNN cannot do what it describes
  [[nodiscard]] cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace flambeau::cuda
