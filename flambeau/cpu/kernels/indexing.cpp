// CPU kernels that read and write at offsets made of index tensors, and the search for nonzeros.
#include "flambeau/cpu/kernels/indexing.h"

#include <cstring>
#include <vector>

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

void index_offsets_kernel(const TensorIter& iter, const IndexedDim& at, bool add) {
  const int64_t least = at.from_end ? -at.size : 0;
  for_each_row(iter, [&](char** data, const int64_t* strides, int64_t n) {
    bool bad = false;
    const auto run = [&](auto step_out, auto step_in) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t index = *reinterpret_cast<const int64_t*>(data[1] + i * step_in);
        bad |= index < least || index >= at.size;
        const int64_t place = index < 0 ? index + at.size : index;
        // Wraps instead of overflowing: a bad index is reported before anybody uses the offset.
        const uint64_t offset = static_cast<uint64_t>(place) * static_cast<uint64_t>(at.stride);
        uint64_t& out = *reinterpret_cast<uint64_t*>(data[0] + i * step_out);
        out = add ? out + offset : offset;
      }
    };
    constexpr std::integral_constant<int64_t, 8> dense;
    if (strides[0] == 8 && strides[1] == 8) {
      run(dense, dense);
    } else {
      run(strides[0], strides[1]);
    }
    if (!bad) return;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = *reinterpret_cast<const int64_t*>(data[1] + i * strides[1]);
      if (index < least || index >= at.size) fail_index(index, at);
    }
  });
}
KERNEL_FOR(index_offsets, index_offsets_kernel)

template <class T>
void read_row(char** data, const int64_t* strides, int64_t n) {
  char* out = data[0];
  if (strides[2] == 0) {
    const char* from = data[1] + *reinterpret_cast<const int64_t*>(data[2]);
    if (strides[0] == sizeof(T) && strides[1] == sizeof(T)) {
      std::memcpy(out, from, n * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      *reinterpret_cast<T*>(out + i * strides[0]) =
          *reinterpret_cast<const T*>(from + i * strides[1]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t offset = *reinterpret_cast<const int64_t*>(data[2] + i * strides[2]);
    *reinterpret_cast<T*>(out + i * strides[0]) =
        *reinterpret_cast<const T*>(data[1] + i * strides[1] + offset);
  }
}

void index_read_kernel(const TensorIter& iter) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    for_each_row(
        iter,
        [](char** data, const int64_t* strides, int64_t n) {
          read_row<typename decltype(tag)::type>(data, strides, n);
        },
        2);
  });
}
KERNEL_FOR(index_read, index_read_kernel)

template <WriteMode mode, class T>
void write_row(char** data, const int64_t* strides, int64_t n) {
  if (strides[2] == 0) {
    char* to = data[0] + *reinterpret_cast<const int64_t*>(data[2]);
    if (strides[0] == sizeof(T) && strides[1] == sizeof(T)) {
      if constexpr (mode == WriteMode::assign) {
        std::memcpy(to, data[1], n * sizeof(T));
      } else {
        IVDEP for (int64_t i = 0; i < n; ++i) {
          write_to<mode>(to + i * sizeof(T), *reinterpret_cast<const T*>(data[1] + i * sizeof(T)));
        }
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      write_to<mode>(to + i * strides[0], *reinterpret_cast<const T*>(data[1] + i * strides[1]));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t offset = *reinterpret_cast<const int64_t*>(data[2] + i * strides[2]);
    write_to<mode>(data[0] + i * strides[0] + offset,
                   *reinterpret_cast<const T*>(data[1] + i * strides[1]));
  }
}

void index_write_kernel(const TensorIter& iter, WriteMode mode) {
  if (mode == WriteMode::assign) {
    return dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each_row(
          iter,
          [](char** data, const int64_t* strides, int64_t n) {
            write_row<WriteMode::assign, T>(data, strides, n);
          },
          2);
    });
  }
  dispatch_mode(mode, [&](auto constant) {
    dispatch<dtypes::All>("index_put", iter.dtypes[0], [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each_row_by_lane(iter, write_row<decltype(constant)::value, T>);
    });
  });
}
KERNEL_FOR(index_write, index_write_kernel)

// Each thread counts in its blocks; then every block knows where to write.
template <class T>
void find_nonzero(const Tensor& input, bool flat, Tensor& out) {
  constexpr int64_t block = 16384;
  const T* values = input.data<T>();
  const int64_t numel = input.numel(), blocks = (numel + block - 1) / block;
  const int64_t rank = input.dim();
  std::vector<int64_t> starts(blocks + 1, 0);
  parallel_for(0, blocks, 4, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      int64_t count = 0;
      const int64_t end = std::min((b + 1) * block, numel);
      for (int64_t i = b * block; i < end; ++i) count += values[i] != T(0);
      starts[b + 1] = count;
    }
  });
  for (int64_t b = 0; b < blocks; ++b) starts[b + 1] += starts[b];
  const int64_t total = starts[blocks];
  out = flat ? make_tensor(total, DType::int64, input.device())
             : make_tensor({rank, total}, DType::int64, input.device());
  int64_t* places = out.data<int64_t>();
  parallel_for(0, blocks, 4, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      int64_t at = starts[b];
      const int64_t end = std::min((b + 1) * block, numel);
      for (int64_t i = b * block; i < end && at < starts[b + 1]; ++i) {
        if (!(values[i] != T(0))) continue;
        if (flat) {
          places[at] = i;
        } else {
          int64_t rest = i;
          for (int64_t d = rank; d-- > 0;) {
            places[d * total + at] = rest % input->sizes[d];
            rest /= input->sizes[d];
          }
        }
        ++at;
      }
    }
  });
}

void nonzero_kernel(const Tensor& input, bool flat, Tensor& out) {
  dispatch<dtypes::All>("nonzero", input.dtype(), [&](auto tag) {
    find_nonzero<typename decltype(tag)::type>(input, flat, out);
  });
}
KERNEL_FOR(nonzero, nonzero_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
