// Interpolation along one dimension, and windows to columns and back, on the CPU.
#include <algorithm>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/vision.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr DTypeSet Wide = DType::float32 | DType::float64;

// Calls body(o) for each of the outer slices, in parallel.
template <class Body>
void for_outer(int64_t outer, int64_t work, const Body& body) {
  parallel_for(0, outer, default_grain / std::max<int64_t>(work, 1) + 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t o = first; o < last; ++o) body(o);
               });
}

template <class T>
void copy_slices(const Tensor& x, const Tensor& out, const ResampleTable& t) {
  const int64_t inner = x.sizes()[2];
  for_outer(x.sizes()[0], t.out * inner, [&](int64_t o) {
    const T* from = x.data<T>() + o * t.in * inner;
    T* to = out.data<T>() + o * t.out * inner;
    for (int64_t i = 0; i < t.out; ++i) {
      const T* row = from + t.index[i] * inner;
      for (int64_t j = 0; j < inner; ++j) to[i * inner + j] = row[j];
    }
  });
}

// Along the last dimension, where most elements have as many taps as any.
template <int Taps, class T>
void resample_row(const T* from, T* to, const ResampleTable& t, const T* weights) {
  const int32_t *index = t.index.data(), *count = t.count.data();
  for (int64_t i = 0; i < t.out; ++i, index += t.taps, weights += t.taps) {
    T sum = 0;
    if (Taps > 0 && count[i] == Taps) {
      for (int k = 0; k < Taps; ++k) sum += weights[k] * from[index[k]];
    } else {
      for (int32_t k = 0; k < count[i]; ++k) sum += weights[k] * from[index[k]];
    }
    to[i] = sum;
  }
}

template <class T>
void resample_slice(const T* from, T* to, int64_t inner, const ResampleTable& t, const T* weights) {
  if (inner == 1 && t.taps == 2) return resample_row<2>(from, to, t, weights);
  if (inner == 1 && t.taps == 4) return resample_row<4>(from, to, t, weights);
  if (inner == 1) return resample_row<0>(from, to, t, weights);
  for (int64_t i = 0; i < t.out; ++i) {
    const int32_t* index = t.index.data() + i * t.taps;
    const T* w = weights + i * t.taps;
    T* row = to + i * inner;
    for (int32_t k = 0; k < t.count[i]; ++k) {
      const T* source = from + index[k] * inner;
      const T factor = w[k];
      if (k == 0) {
        IVDEP for (int64_t j = 0; j < inner; ++j) row[j] = factor * source[j];
      } else {
        IVDEP for (int64_t j = 0; j < inner; ++j) row[j] += factor * source[j];
      }
    }
  }
}

void resample_kernel(const Tensor& x, const Tensor& out, const ResampleTable& t) {
  if (t.copies) {
    return dispatch_size(x.item_size(),
                         [&](auto tag) { copy_slices<typename decltype(tag)::type>(x, out, t); });
  }
  const int64_t inner = x.sizes()[2];
  dispatch<Wide>("upsample", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> weights(t.weight.begin(), t.weight.end());
    for_outer(x.sizes()[0], t.out * t.taps * inner, [&](int64_t o) {
      resample_slice(x.data<T>() + o * t.in * inner, out.data<T>() + o * t.out * inner, inner, t,
                     weights.data());
    });
  });
}
KERNEL_FOR(resample, resample_kernel)

void resample_backward_kernel(const Tensor& grad, const Tensor& grad_x, const ResampleTable& t) {
  const int64_t inner = grad.sizes()[2];
  dispatch<Wide>("upsample_backward", grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> weights(t.weight.begin(), t.weight.end());
    for_outer(grad.sizes()[0], t.out * t.taps * inner, [&](int64_t o) {
      const T* from = grad.data<T>() + o * t.out * inner;
      T* to = grad_x.data<T>() + o * t.in * inner;
      std::fill_n(to, t.in * inner, T(0));
      for (int64_t i = 0; i < t.out; ++i) {
        for (int32_t k = 0; k < t.count[i]; ++k) {
          const T factor = weights[i * t.taps + k];
          T* row = to + t.index[i * t.taps + k] * inner;
          IVDEP for (int64_t j = 0; j < inner; ++j) row[j] += factor * from[i * inner + j];
        }
      }
    });
  });
}
KERNEL_FOR(resample_backward, resample_backward_kernel)

// --- Windows and columns -------------------------------------------------------------------------

// Calls body(row of the columns, row of the image, offset of its first element) for each place in
// the window of one channel; a row of the image is what one row of windows sees of it.
template <class Body>
void for_window_rows(const WindowShape& s, const Body& body) {
  for (int64_t k = 0; k < s.kernel[0] * s.kernel[1]; ++k) {
    const int64_t dy = k / s.kernel[1] * s.dilation[0] - s.padding[0];
    const int64_t dx = k % s.kernel[1] * s.dilation[1] - s.padding[1];
    for (int64_t i = 0; i < s.out[0]; ++i) {
      body((k * s.out[0] + i) * s.out[1], i * s.stride[0] + dy, dx);
    }
  }
}

void im2col_kernel(const Tensor& x, const Tensor& columns, const WindowShape& s) {
  const int64_t plane = s.in[0] * s.in[1];
  const int64_t block = s.kernel[0] * s.kernel[1] * s.out[0] * s.out[1];
  dispatch_size(x.item_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_outer(x.sizes()[0] * x.sizes()[1], block, [&](int64_t c) {
      const T* from = x.data<T>() + c * plane;
      T* to = columns.data<T>() + c * block;
      for_window_rows(s, [&](int64_t at, int64_t y, int64_t dx) {
        for (int64_t j = 0; j < s.out[1]; ++j) {
          const int64_t col = j * s.stride[1] + dx;
          const bool inside = y >= 0 && y < s.in[0] && col >= 0 && col < s.in[1];
          to[at + j] = inside ? from[y * s.in[1] + col] : T();
        }
      });
    });
  });
}
KERNEL_FOR(im2col, im2col_kernel)

void col2im_kernel(const Tensor& columns, const Tensor& x, const WindowShape& s) {
  const int64_t plane = s.in[0] * s.in[1];
  const int64_t block = s.kernel[0] * s.kernel[1] * s.out[0] * s.out[1];
  dispatch<dtypes::FloatingComplex | DType::bool_>("col2im", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_same_v<T, StoredBool>, int, ComputeType<T>>;
    for_outer(x.sizes()[0] * x.sizes()[1], block, [&](int64_t c) {
      const T* from = columns.data<T>() + c * block;
      std::vector<C> sums(plane);
      for_window_rows(s, [&](int64_t at, int64_t y, int64_t dx) {
        if (y < 0 || y >= s.in[0]) return;
        for (int64_t j = 0; j < s.out[1]; ++j) {
          const int64_t col = j * s.stride[1] + dx;
          if (col >= 0 && col < s.in[1]) sums[y * s.in[1] + col] += static_cast<C>(from[at + j]);
        }
      });
      T* to = x.data<T>() + c * plane;
      for (int64_t i = 0; i < plane; ++i) to[i] = static_cast<T>(sums[i]);
    });
  });
}
KERNEL_FOR(col2im, col2im_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
