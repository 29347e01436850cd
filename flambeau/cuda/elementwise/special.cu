// CUDA kernels of special functions. They are long and full of branches: one function holds them
// all and a kernel asks it for one by number, so that each is compiled once and not for every dtype
// and layout.
#include "flambeau/kernels/special.h"

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cuda {
namespace {

enum class One {
#define METHOD(name, function, keeps, gradient, doc, ...) name,
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) name,
#define POLYNOMIAL(name, value, doc)
#include "flambeau/kernels/special.def"
};

__device__ __noinline__ double special_of_one(One which, double x) {
  // clang-format off
  switch (which) {
#define METHOD(name, function, keeps, gradient, doc, ...) case One::name: return math::function(x);
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) case One::name: return math::function(x);
#define POLYNOMIAL(name, value, doc)
#include "flambeau/kernels/special.def"
  }
  // clang-format on
  return x;
}

enum class Two {
#define METHOD(name, function, keeps, gradient, doc, ...)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc)
#define POLYNOMIAL(name, value, doc) name,
#include "flambeau/kernels/special.def"
  polygamma,
  special_zeta,
  special_xlog1py,
  igamma,
  igammac
};

__device__ __noinline__ double special_of_two(Two which, double a, double b) {
  using namespace math;
  // clang-format off
  switch (which) {
#define METHOD(name, function, keeps, gradient, doc, ...)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc)
#define POLYNOMIAL(name, value, doc) case Two::name: return value;
#include "flambeau/kernels/special.def"
    case Two::polygamma: return polygamma_of(a, b);
    case Two::special_zeta: return zeta_of(a, b);
    case Two::special_xlog1py: return b != b ? b : a == 0 ? 0 : a * ::log1p(b);
    case Two::igamma: return gammainc_of(a, b, false);
    case Two::igammac: return gammainc_of(a, b, true);
  }
  // clang-format on
  return a;
}

template <class C>
struct OneBody {
  One which;
  __device__ C operator()(C x) const {
    return static_cast<C>(special_of_one(which, static_cast<double>(x)));
  }
};
template <class C>
struct TwoBody {
  Two which;
  __device__ C operator()(C a, C b) const {
    return static_cast<C>(special_of_two(which, static_cast<double>(a), static_cast<double>(b)));
  }
};
template <class C>
struct PolygammaBody {
  double order;
  __device__ C operator()(C x) const {
    return static_cast<C>(special_of_two(Two::polygamma, order, static_cast<double>(x)));
  }
};

void run(const char* name, const TensorIter& iter, One which) {
  dispatch<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T>(name, iter, OneBody<ComputeType<T>>{which});
  });
}
void run(const char* name, const TensorIter& iter, Two which) {
  dispatch<dtypes::Floating>(name, iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T, T>(name, iter, TwoBody<ComputeType<T>>{which});
  });
}

void polygamma_kernel(const TensorIter& iter, const Scalar* params) {
  const double order = params[0].to_double();
  dispatch<dtypes::Floating>("polygamma", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<T, T>("polygamma", iter, PolygammaBody<ComputeType<T>>{order});
  });
}
KERNEL_FOR(polygamma, polygamma_kernel)

#define ROW(Kind, name) \
  KERNEL_FOR(name, [](const TensorIter& iter, const Scalar*) { run(#name, iter, Kind::name); })
#define METHOD(name, function, keeps, gradient, doc, ...) ROW(One, name)
#define SPECIAL METHOD
#define UNSLOPED(name, function, doc) ROW(One, name)
#define POLYNOMIAL(name, value, doc) ROW(Two, name)
#include "flambeau/kernels/special.def"
ROW(Two, special_zeta)
ROW(Two, special_xlog1py)
ROW(Two, igamma)
ROW(Two, igammac)

}  // namespace
}  // namespace flambeau::cuda
