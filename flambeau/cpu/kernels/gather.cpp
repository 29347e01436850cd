// CPU kernels of gather and scatter, which look up an index at every element.
#include "flambeau/cpu/kernels/indexing.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// The byte offset of a checked index.
inline int64_t offset_of(const char* index_at, const IndexedDim& at) {
  int64_t index = *reinterpret_cast<const int64_t*>(index_at);
  if (at.from_end && index < 0) index += at.size;
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(at.size)) [[unlikely]] {
    fail_index(*reinterpret_cast<const int64_t*>(index_at), at);
  }
  return index * at.stride;
}

void gather_kernel(const TensorIter& iter, const IndexedDim& at) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(
        iter,
        [&at](char** data, const int64_t* strides, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            const int64_t offset = offset_of(data[2] + i * strides[2], at);
            *reinterpret_cast<T*>(data[0] + i * strides[0]) =
                *reinterpret_cast<const T*>(data[1] + i * strides[1] + offset);
          }
        },
        2);
  });
}
KERNEL_FOR(gather, gather_kernel)

template <WriteMode mode, class T>
void scatter_rows(const TensorIter& iter, const IndexedDim& at) {
  for_each_row_by_lane(iter, [&at](char** data, const int64_t* strides, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t offset = offset_of(data[2] + i * strides[2], at);
      write_to<mode>(data[0] + i * strides[0] + offset,
                     *reinterpret_cast<const T*>(data[1] + i * strides[1]));
    }
  });
}

void scatter_kernel(const TensorIter& iter, const IndexedDim& at, WriteMode mode) {
  if (mode == WriteMode::assign) {
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      scatter_rows<WriteMode::assign, typename decltype(tag)::type>(iter, at);
    });
  }
  dispatch_mode(mode, [&](auto constant) {
    dispatch<dtypes::All>("scatter", iter.dtypes[0], [&](auto tag) {
      scatter_rows<decltype(constant)::value, typename decltype(tag)::type>(iter, at);
    });
  });
}
KERNEL_FOR(scatter, scatter_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
