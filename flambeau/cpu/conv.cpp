// Convolution on the CPU: oneDNN where it has the dtype, otherwise windows unrolled into a matrix
// ("columns") and a matrix product a sample and group.
#include "flambeau/cpu/conv.h"

#include <algorithm>
#include <cstring>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/matmul.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cpu {
namespace {

// Sizes with the spatial dimensions as exactly three, missing ones in front being 1.
struct Window {
  int64_t x[3] = {1, 1, 1}, y[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  int64_t samples, groups, channels, out_channels;  // channels are those of one group

  Window(const Tensor& x_tensor, const Tensor& w, const Tensor& y_tensor, const ConvGeometry& g)
      : samples(x_tensor.sizes()[0]),
        groups(g.groups),
        channels(w.sizes()[1]),
        out_channels(w.sizes()[0] / g.groups) {
    const size_t rank = g.stride.size();
    for (size_t d = 0; d < rank; ++d) {
      const size_t to = 3 - rank + d;
      x[to] = x_tensor.sizes()[d + 2];
      y[to] = y_tensor.sizes()[d + 2];
      kernel[to] = w.sizes()[d + 2];
      stride[to] = g.stride[d];
      padding[to] = g.padding[d];
      dilation[to] = g.dilation[d];
    }
  }
  [[nodiscard]] int64_t x_size() const { return x[0] * x[1] * x[2]; }
  [[nodiscard]] int64_t y_size() const { return y[0] * y[1] * y[2]; }
  [[nodiscard]] int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  [[nodiscard]] int64_t rows() const { return channels * kernel_size(); }  // of the columns
};

// Calls body(x offset or -1 for padding, column index) for each element of one row of the columns.
template <class Body>
void for_row(const Window& w, int64_t row, const Body& body) {
  const int64_t k2 = row % w.kernel[2], k1 = row / w.kernel[2] % w.kernel[1];
  const int64_t k0 = row / (w.kernel[2] * w.kernel[1]) % w.kernel[0];
  const int64_t channel = row / w.kernel_size();
  int64_t column = 0;
  for (int64_t i0 = 0; i0 < w.y[0]; ++i0) {
    const int64_t x0 = i0 * w.stride[0] - w.padding[0] + k0 * w.dilation[0];
    for (int64_t i1 = 0; i1 < w.y[1]; ++i1) {
      const int64_t x1 = i1 * w.stride[1] - w.padding[1] + k1 * w.dilation[1];
      const bool inside = x0 >= 0 && x0 < w.x[0] && x1 >= 0 && x1 < w.x[1];
      const int64_t base = ((channel * w.x[0] + x0) * w.x[1] + x1) * w.x[2];
      for (int64_t i2 = 0; i2 < w.y[2]; ++i2, ++column) {
        const int64_t x2 = i2 * w.stride[2] - w.padding[2] + k2 * w.dilation[2];
        body(inside && x2 >= 0 && x2 < w.x[2] ? base + x2 : -1, column);
      }
    }
  }
}

template <class T>
void gather_columns(const Window& w, const T* x, T* columns) {
  for (int64_t row = 0; row < w.rows(); ++row) {
    T* to = columns + row * w.y_size();
    for_row(w, row, [&](int64_t from, int64_t column) { to[column] = from < 0 ? T() : x[from]; });
  }
}

template <class T>
void scatter_columns(const Window& w, const T* columns, T* x) {
  for (int64_t row = 0; row < w.rows(); ++row) {
    const T* from = columns + row * w.y_size();
    for_row(w, row, [&](int64_t to, int64_t column) {
      if (to >= 0) x[to] = math::plus(x[to], from[column]);
    });
  }
}

// out[m, n] (+)= a @ b, all rows contiguous, either side transposed.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, bool ta, const T* b, bool tb, T* out,
              bool accumulate) {
  Gemm p;
  p.op = "slow_conv2d_cpu";
  p.dtype = dtype_of<T>;
  p.m = m, p.n = n, p.k = k;
  p.a.data = const_cast<T*>(a), p.a.row = ta ? 1 : k, p.a.col = ta ? m : 1;
  p.b.data = const_cast<T*>(b), p.b.row = tb ? 1 : n, p.b.col = tb ? k : 1;
  p.out.data = out, p.out.row = n, p.out.col = 1;
  if (accumulate) p.addend = p.out, p.beta = 1.0;
  kernels::gemm(DeviceType::cpu, p);
}

// A pass over samples and groups, in parallel over samples, with scratch memory for one matrix of
// columns.
template <class T, class Body>
void for_samples(const Window& w, const Body& body) {
  parallel_for(0, w.samples, 1, [&](int64_t first, int64_t last) {
    const Tensor columns = make_tensor({w.rows(), w.y_size()}, dtype_of<T>, Device{});
    for (int64_t n = first; n < last; ++n) {
      for (int64_t g = 0; g < w.groups; ++g) body(n, g, columns.data<T>());
    }
  });
}

template <class T>
void unrolled_conv(const Window& w, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& y) {
  const int64_t x_step = w.channels * w.x_size(), y_step = w.out_channels * w.y_size();
  for_samples<T>(w, [&](int64_t n, int64_t g, T* columns) {
    gather_columns(w, x.data<T>() + (n * w.groups + g) * x_step, columns);
    T* out = y.data<T>() + (n * w.groups + g) * y_step;
    if (bias.defined()) {
      for (int64_t o = 0; o < w.out_channels; ++o) {
        std::fill_n(out + o * w.y_size(), w.y_size(), bias.data<T>()[g * w.out_channels + o]);
      }
    }
    multiply(w.out_channels, w.y_size(), w.rows(), weight.data<T>() + g * w.out_channels * w.rows(),
             false, columns, false, out, bias.defined());
  });
}

template <class T>
void unrolled_conv_input(const Window& w, const Tensor& grad_y, const Tensor& weight,
                         const Tensor& grad_x) {
  const int64_t x_step = w.channels * w.x_size(), y_step = w.out_channels * w.y_size();
  for_samples<T>(w, [&](int64_t n, int64_t g, T* columns) {
    multiply(w.rows(), w.y_size(), w.out_channels, weight.data<T>() + g * w.out_channels * w.rows(),
             true, grad_y.data<T>() + (n * w.groups + g) * y_step, false, columns, false);
    T* out = grad_x.data<T>() + (n * w.groups + g) * x_step;
    std::fill_n(out, x_step, T());
    scatter_columns(w, columns, out);
  });
}

template <class T>
void unrolled_conv_weight(const Window& w, const Tensor& grad_y, const Tensor& x,
                          const Tensor& grad_weight, const Tensor& grad_bias) {
  const int64_t x_step = w.channels * w.x_size(), y_step = w.out_channels * w.y_size();
  const int64_t w_step = w.out_channels * w.rows();
  if (grad_bias.defined()) std::fill_n(grad_bias.data<T>(), grad_bias.numel(), T());
  std::fill_n(grad_weight.data<T>(), grad_weight.numel(), T());
  const Tensor columns = make_tensor({w.rows(), w.y_size()}, dtype_of<T>, Device{});
  for (int64_t n = 0; n < w.samples; ++n) {  // samples add up: threads work inside the product
    for (int64_t g = 0; g < w.groups; ++g) {
      const T* gradient = grad_y.data<T>() + (n * w.groups + g) * y_step;
      gather_columns(w, x.data<T>() + (n * w.groups + g) * x_step, columns.data<T>());
      multiply(w.out_channels, w.rows(), w.y_size(), gradient, false, columns.data<T>(), true,
               grad_weight.data<T>() + g * w_step, true);
      for (int64_t o = 0; o < w.out_channels && grad_bias.defined(); ++o) {
        T& total = grad_bias.data<T>()[g * w.out_channels + o];
        for (int64_t i = 0; i < w.y_size(); ++i) total += gradient[o * w.y_size() + i];
      }
    }
  }
}

// --- Layouts and dtypes that a path does not take ------------------------------------------------

// A copy into another dtype or layout; tensors of one shape.
void copy_into(const Tensor& to, const Tensor& from) {
  TensorIter iter;
  Tensor out = to;
  const DType dtype = to.dtype();
  iter.build({"convolution", false, false}, &out, &dtype, 1,
             std::array{flambeau::Operand(from)}.data(), 1, from.dtype());
  kernels::copy(DeviceType::cpu, iter);
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (!tensor.defined() || (tensor.dtype() == dtype && tensor.is_contiguous())) return tensor;
  Tensor copy = make_tensor(tensor.sizes(), dtype, tensor.device());
  copy_into(copy, tensor);
  return copy;
}

// A result to compute into: the tensor itself or one of the other dtype that is copied back.
struct Target {
  Target(const Tensor& tensor, DType dtype, bool dense) : final(tensor), work(tensor) {
    if (tensor.defined() && (tensor.dtype() != dtype || (dense && !tensor.is_contiguous()))) {
      work = make_tensor(tensor.sizes(), dtype, tensor.device());
    }
  }
  void finish() const {
    if (!work.is_same(final)) copy_into(final, work);
  }
  Tensor final, work;
};

// Where oneDNN's kernels for bfloat16 are right. With longer steps, those for tiles with any, and
// with a kernel that reaches beyond the image while it steps or is dilated, they compute wrong
// results, read what nobody wrote or write beyond the results.
bool is_plain(const Tensor& x, const Tensor& weight, const ConvGeometry& g) {
  const int64_t longest = has_tiles() ? 1 : 2;
  for (size_t d = 0; d < g.stride.size(); ++d) {
    const int64_t reach = g.dilation[d] * (weight.sizes()[d + 2] - 1) + 1;
    const bool inside = reach <= x.sizes()[d + 2] || (g.stride[d] == 1 && g.dilation[d] == 1);
    if (g.stride[d] > longest || !inside) return false;
  }
  return true;
}

// The dtype to compute in: reduced ones that oneDNN lacks are widened.
DType working_dtype(const Tensor& x, const Tensor& weight, const ConvGeometry& geometry) {
  const DType dtype = x.dtype();
  if (!dtypes::Reduced.has(dtype)) return dtype;
  const bool narrow = onednn_can_convolve(dtype) && is_plain(x, weight, geometry);
  return narrow ? dtype : DType::float32;
}

constexpr DTypeSet unrolled_dtypes =
    DTypeSet(DType::float64) | dtypes::Complex | dtypes::Signed | DType::uint8;

void conv_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 const ConvGeometry& geometry) {
  const DType dtype = working_dtype(x, weight, geometry);
  const bool library = onednn_can_convolve(dtype);
  if (library && dtype == x.dtype()) return onednn_conv(x, weight, bias, y, geometry);
  const Target out(y, dtype, true);
  const Tensor in = converted(x, dtype), w = converted(weight, dtype), b = converted(bias, dtype);
  if (library) {
    onednn_conv(in, w, b, out.work, geometry);
  } else {
    dispatch<unrolled_dtypes>("slow_conv2d_cpu", dtype, [&](auto tag) {
      unrolled_conv<typename decltype(tag)::type>(Window(in, w, y, geometry), in, w, b, out.work);
    });
  }
  out.finish();
}

void conv_input_kernel(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x,
                       const ConvGeometry& geometry) {
  const DType dtype = working_dtype(grad_x, weight, geometry);
  const bool library = onednn_can_convolve(dtype);
  if (library && dtype == grad_y.dtype())
    return onednn_conv_input(grad_y, weight, grad_x, geometry);
  const Target out(grad_x, dtype, true);
  const Tensor g = converted(grad_y, dtype), w = converted(weight, dtype);
  if (library) {
    onednn_conv_input(g, w, out.work, geometry);
  } else {
    dispatch<unrolled_dtypes>("slow_conv_transpose2d_cpu", dtype, [&](auto tag) {
      unrolled_conv_input<typename decltype(tag)::type>(Window(grad_x, w, g, geometry), g, w,
                                                        out.work);
    });
  }
  out.finish();
}

void conv_weight_kernel(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight,
                        const Tensor& grad_bias, const ConvGeometry& geometry) {
  const DType dtype = working_dtype(x, grad_weight, geometry);
  const bool library = onednn_can_convolve(dtype);
  if (library && dtype == grad_y.dtype()) {
    return onednn_conv_weight(grad_y, x, grad_weight, grad_bias, geometry);
  }
  const Target out(grad_weight, dtype, true), bias(grad_bias, dtype, true);
  const Tensor g = converted(grad_y, dtype), in = converted(x, dtype);
  if (library) {
    onednn_conv_weight(g, in, out.work, bias.work, geometry);
  } else {
    dispatch<unrolled_dtypes>("slow_conv2d_cpu", dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      unrolled_conv_weight<T>(Window(in, grad_weight, g, geometry), g, in, out.work, bias.work);
    });
  }
  out.finish();
  bias.finish();
}

const bool filled = (kernels::conv.fill(DeviceType::cpu, conv_kernel),
                     kernels::conv_input.fill(DeviceType::cpu, conv_input_kernel),
                     kernels::conv_weight.fill(DeviceType::cpu, conv_weight_kernel), true);

}  // namespace
}  // namespace flambeau::cpu
