// CPU kernels of the random slots that are bound by arithmetic. Everything is drawn on the calling
// thread, in the order of memory: an element's value depends on how many were drawn before it.
#include "flambeau/kernels/random.h"
#include "flambeau/cpu/kernels/random/normal.h"
#include "flambeau/cpu/kernels/simd/blocks.h"
#include "flambeau/cpu/ordered_rows.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

constexpr DTypeSet integers = dtypes::Signed | DType::uint8;
constexpr DTypeSet drawable = integers | dtypes::Floating | DType::bool_;

CpuGenerator& cpu(Generator& generator) { return static_cast<CpuGenerator&>(generator); }

// Calls fill(body, first element, bytes from element to element, how many) for all of `out` in the
// order of memory.
using FillRun = void(const void* body, char* data, int64_t step, int64_t count);
void for_each_run(const char* op, const Tensor& out, const void* body, FillRun* fill) {
  if (out.is_contiguous()) {
    return fill(body, static_cast<char*>(out.raw()), static_cast<int64_t>(item_size(out.dtype())),
                out.numel());
  }
  Tensor target = out;
  const DType dtype = out.dtype();
  TensorIter iter;
  iter.build({op}, &target, &dtype, 1, nullptr, 0, dtype);
  const int64_t step = iter.strides[0][0];
  for_each_row_in_order(iter,
                        [&](char** data, int64_t count) { fill(body, data[0], step, count); });
}
template <class T, class Body>
void for_each_run(const char* op, const Tensor& out, const Body& body) {
  for_each_run(op, out, &body, [](const void* body, char* data, int64_t step, int64_t count) {
    const int64_t stride = step / static_cast<int64_t>(sizeof(T));
    (*static_cast<const Body*>(body))(Run<T>{reinterpret_cast<T*>(data), stride, count});
  });
}

// Fills `out` with draws from make(TypeTag<T>{}), for each T of the set. Integers have the same
// bits with a sign as without.
template <DTypeSet Set, class Make>
void fill_with(const char* op, const Tensor& out, Generator& generator, const Make& make) {
  constexpr bool both = Set.has(DType::int64) && Set.has(DType::uint64);
  constexpr DTypeSet filled = both ? Set - dtypes::Signed : Set;
  dispatch<filled>(op, both ? without_sign(out.dtype()) : out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto distribution = make(tag);
    for_each_run<T>(op, out, [&](Run<T> run) { fill(cpu(generator), run, distribution); });
  });
}

template <class Tag>
using TypeOf = typename Tag::type;

void uniform_kernel(const Tensor& out, double from, double to, Generator& generator) {
  fill_with<dtypes::Floating>("uniform_", out, generator,
                              [&](auto tag) { return Uniform<TypeOf<decltype(tag)>>(from, to); });
}
KERNEL_FOR(uniform, uniform_kernel)

void exponential_kernel(const Tensor& out, double rate, Generator& generator) {
  fill_with<dtypes::Floating>("exponential_", out, generator,
                              [&](auto tag) { return Exponential<TypeOf<decltype(tag)>>(rate); });
}
KERNEL_FOR(exponential, exponential_kernel)

void cauchy_kernel(const Tensor& out, double median, double sigma, Generator& generator) {
  fill_with<dtypes::Floating>("cauchy_", out, generator, [&](auto tag) {
    return Cauchy<TypeOf<decltype(tag)>>{median, sigma};
  });
}
KERNEL_FOR(cauchy, cauchy_kernel)

void geometric_kernel(const Tensor& out, double p, Generator& generator) {
  fill_with<integers | dtypes::Floating>("geometric_cpu", out, generator, [&](auto tag) {
    return Geometric<TypeOf<decltype(tag)>>(p);
  });
}
KERNEL_FOR(geometric, geometric_kernel)

void bernoulli_kernel(const Tensor& out, double p, double hit, Generator& generator) {
  fill_with<drawable>("bernoulli_scalar_cpu_", out, generator,
                      [&](auto tag) { return Bernoulli<TypeOf<decltype(tag)>>(p, hit); });
}
KERNEL_FOR(bernoulli, bernoulli_kernel)

void random_integers_kernel(const Tensor& out, IntegerRange integers, Generator& generator) {
  constexpr DTypeSet set = drawable | dtypes::Unsigned;
  if (integers.range == 0) {
    fill_with<set>("random_", out, generator,
                   [](auto tag) { return AnyInteger<TypeOf<decltype(tag)>>{}; });
  } else if (integers.wide) {
    fill_with<set>("random_", out, generator, [&](auto tag) {
      return Integer<TypeOf<decltype(tag)>, uint64_t>{integers.range, integers.base};
    });
  } else {
    fill_with<set>("random_", out, generator, [&](auto tag) {
      return Integer<TypeOf<decltype(tag)>, uint32_t>{static_cast<uint32_t>(integers.range),
                                                      integers.base};
    });
  }
}
KERNEL_FOR(random_integers, random_integers_kernel)

void normal_kernel(const Tensor& out, double mean, double std, Generator& generator) {
  dispatch<dtypes::Floating>("normal_kernel_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.is_contiguous() && out.numel() >= normal_block_size) {
      fill_normal_blocks(cpu(generator), out.data<T>(), out.numel(), mean, std);
      return;
    }
    for_each_run<T>("normal_", out,
                    [&](Run<T> run) { fill_normal_serially(cpu(generator), run, mean, std); });
  });
}
KERNEL_FOR(normal, normal_kernel)

void log_normal_kernel(const Tensor& out, double mean, double std, Generator& generator) {
  dispatch<dtypes::Floating>("log_normal_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_run<T>("log_normal_", out,
                    [&](Run<T> run) { fill_log_normal(cpu(generator), run, mean, std); });
  });
}
KERNEL_FOR(log_normal, log_normal_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
