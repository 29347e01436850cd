// Convolutions of complex numbers as four of real ones: (a + ib)(c + id) = ac - bd + i(ad + bc).
#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/nn/conv.h"

namespace flambeau::cuda {
namespace {

constexpr const char* op = "convolution";
constexpr DTypeSet complex_dtypes = dtypes::Complex;

template <class T>
__global__ void __launch_bounds__(block_size)
    split_kernel(const DeviceComplex<T>* x, T* real, T* imag, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  real[i] = x[i].real();
  imag[i] = x[i].imag();
}

// bias, if there is one, is of `channels` channels, each `plane` elements long.
template <class T>
__global__ void __launch_bounds__(block_size)
    join_kernel(const T* ac, const T* bd, const T* ad, const T* bc, const DeviceComplex<T>* bias,
                DeviceComplex<T>* out, int64_t count, int64_t channels, int64_t plane) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  DeviceComplex<T> value(ac[i] - bd[i], ad[i] + bc[i]);
  if (bias) value += bias[i / plane % channels];
  out[i] = value;
}

// The parts of a complex tensor, without gaps.
struct Parts {
  Tensor real, imag;
  explicit Parts(const Tensor& given) {
    const Tensor x = dense(op, given);
    dispatch<complex_dtypes>(op, x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type::value_type;
      real = make_tensor(x.sizes(), dtype_of<T>, x.device());
      imag = make_tensor(x.sizes(), dtype_of<T>, x.device());
      if (x.numel() == 0) return;
      launch(op, split_kernel<T>, blocks_for(x.numel(), block_size), block_size,
             static_cast<const DeviceComplex<T>*>(x.raw()), real.data<T>(), imag.data<T>(),
             x.numel());
    });
  }
};

}  // namespace

void convolve_complex(
    const Tensor& first, const Tensor& second, const Tensor& bias, const Tensor& out,
    const std::function<void(const Tensor&, const Tensor&, const Tensor&)>& convolve) {
  const DeviceGuard guard(out.device().index);
  const Parts a(first), b(second);
  const auto product = [&](const Tensor& x, const Tensor& y) {
    Tensor result = make_tensor(out.sizes(), x.dtype(), out.device());
    convolve(x, y, result);
    return result;
  };
  const Tensor ac = product(a.real, b.real), bd = product(a.imag, b.imag);
  const Tensor ad = product(a.real, b.imag), bc = product(a.imag, b.real);
  const DenseResult result(out);
  int64_t plane = 1;
  for (int64_t d = 2; d < out.dim(); ++d) plane *= out.sizes()[d];
  dispatch<complex_dtypes>(op, out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type::value_type;
    using C = DeviceComplex<T>;
    if (out.numel() == 0) return;
    launch(op, join_kernel<T>, blocks_for(out.numel(), block_size), block_size, ac.data<T>(),
           bd.data<T>(), ad.data<T>(), bc.data<T>(),
           bias.defined() ? static_cast<const C*>(bias.raw()) : nullptr,
           static_cast<C*>(result.work().raw()), out.numel(), out.sizes()[1], plane);
  });
  result.finish(op);
}

}  // namespace flambeau::cuda
