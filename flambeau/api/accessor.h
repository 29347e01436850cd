// Elements by their indices, without ops: x.accessor<float, 2>()[i][j].
#pragma once

#include "flambeau/api/types.h"

#ifdef __CUDACC__
#define FLAMBEAU_HOST_DEVICE __host__ __device__
#else
#define FLAMBEAU_HOST_DEVICE
#endif

namespace flambeau::torch {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// Looks at the sizes and strides of a tensor, which has to live longer.
template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits,
          class index_t = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;

  FLAMBEAU_HOST_DEVICE TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}

  FLAMBEAU_HOST_DEVICE decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1,
                                                          strides_ + 1);
    }
  }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  [[nodiscard]] ArrayRef<index_t> sizes() const { return {sizes_, N}; }
  [[nodiscard]] ArrayRef<index_t> strides() const { return {strides_, N}; }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

// The same with sizes and strides of its own, as an argument of CUDA kernels.
template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits,
          class index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;

  GenericPackedTensorAccessor(PtrType data, const int64_t* sizes, const int64_t* strides)
      : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<index_t>(sizes[i]);
      strides_[i] = static_cast<index_t>(strides[i]);
    }
  }

  FLAMBEAU_HOST_DEVICE decltype(auto) operator[](index_t i) const {
    return TensorAccessor<T, N, PtrTraits, index_t>(data_, sizes_, strides_)[i];
  }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  [[nodiscard]] FLAMBEAU_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
};
template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

}  // namespace flambeau::torch
