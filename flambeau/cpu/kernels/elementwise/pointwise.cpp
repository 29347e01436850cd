// CPU kernels of elementwise ops that are no rows: copies between dtypes, where, clamp, ...
#include <cstring>
#include <type_traits>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/copy/large_copy.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/cpu/kernels/math/complex_pairs.h"
#include "flambeau/cpu/kernels/math/pow.h"
#include "flambeau/cpu/kernels/simd/every_second.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/gelu.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/nn.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// To what stands for a stored To: a float for the reduced types.
template <class To, class From>
ComputeType<To> convert(From value) {
  if constexpr (std::is_same_v<To, StoredBool>) {
    return value != From(0);
  } else if constexpr (is_complex_type<To>) {
    using R = typename To::value_type;
    if constexpr (is_complex_type<From>) {
      return To(static_cast<R>(value.real()), static_cast<R>(value.imag()));
    } else {
      return To(static_cast<R>(value));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // Out-of-range values are undefined in C++; here they give what x86 gives: the smallest integer
    // of the 32 or 64 bits that the value goes through.
    using Wide =
        std::conditional_t<(sizeof(To) < 4 || std::is_same_v<To, int32_t>), int32_t, int64_t>;
    constexpr From limit = static_cast<From>(std::numeric_limits<Wide>::min());
    const bool fits = value >= limit && value < -limit;
    return static_cast<To>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
  } else {
    return static_cast<ComputeType<To>>(value);
  }
}

template <class T>
void copy_row(char* to, const char* from, const int64_t* steps, int64_t n, bool beyond_cache) {
  if (steps[0] == sizeof(T) && steps[1] == sizeof(T)) {
    const auto copy = beyond_cache ? copy_large : copy_bytes;
    copy(to, from, n * static_cast<int64_t>(sizeof(T)));
  } else if (steps[0] == sizeof(T) && steps[1] == 0) {
    std::fill_n(reinterpret_cast<T*>(to), n, *reinterpret_cast<const T*>(from));
  } else if (steps[0] == sizeof(T) && steps[1] == -static_cast<int64_t>(sizeof(T))) {
    T* out = reinterpret_cast<T*>(to);
    const T* backwards = reinterpret_cast<const T*>(from);
    IVDEP for (int64_t i = 0; i < n; ++i) out[i] = backwards[-i];
  } else if (steps[0] == sizeof(T)) {
    move_together<sizeof(T)>(to, from, steps[1], n);
  } else {
    move_strided<sizeof(T)>(to, steps[0], from, steps[1], n);
  }
}

// Each of m elements a few times, which the compiler turns into SIMD code; false for other numbers.
template <class T, int... counts>
bool repeat_each(T* to, const T* from, int64_t m, int64_t times,
                 std::integer_sequence<int, counts...>) {
  const auto repeat = [=]<int count>(std::integral_constant<int, count>) {
    IVDEP for (int64_t i = 0; i < m; ++i) {
      for (int j = 0; j < count; ++j) to[i * count + j] = from[i];
    }
    return true;
  };
  return ((times == counts && repeat(std::integral_constant<int, counts>())) || ...);
}
// Whether the rows of a block repeat an element each, and follow one another.
template <class T>
bool repeats_each(const Block& block) {
  constexpr int64_t size = sizeof(T);
  return block.steps[0] == size && block.steps[1] == 0 && block.row_steps[1] == size &&
         block.row_steps[0] == block.n * size;
}

// Rows of so few bytes that the compiler writes each by a register or two; false for other numbers.
template <int... counts>
bool copy_short_rows(char* to, const char* from, const Block& block, int64_t bytes,
                     std::integer_sequence<int, counts...>) {
  const auto copy = [&]<int count>(std::integral_constant<int, count>) {
    for (int64_t row = 0; row < block.m; ++row) {
      std::memcpy(to + row * block.row_steps[0], from + row * block.row_steps[1], count);
    }
    return true;
  };
  return ((bytes == counts && copy(std::integral_constant<int, counts>())) || ...);
}

// Rows that do not follow each other in memory, by non-temporal stores. The processor does not
// foresee where the next one begins: it is asked for while one is copied. False for others.
bool copy_rows_apart(char* to, const char* from, const Block& block, int64_t size) {
  constexpr int64_t line = 64, chunk = 8 * line;
  const int64_t bytes = block.n * size, to_step = block.row_steps[0], step = block.row_steps[1];
  const bool whole_lines = (reinterpret_cast<uintptr_t>(to) | to_step | bytes) % line == 0;
  if (block.m == 1 || step == bytes || !whole_lines || block.steps[0] != size ||
      block.steps[1] != size)
    return false;
  for (int64_t row = 0; row < block.m; ++row, to += to_step, from += step) {
    for (int64_t i = 0; i < bytes; i += chunk) {
      const int64_t some = std::min(chunk, bytes - i);
      for (int64_t at = i; at < i + some; at += line) ask_second_level(from + step + at);
      copy_non_temporal(to + i, from + i, some);
    }
  }
  _mm_sfence();
  return true;
}

// Many small matrices, as in transposed ones: an element of all of them at a time, some matrices
// that stay in the first-level cache after the others. False for other copies.
bool copy_small_matrices(const TensorIter& iter, decltype(&move_strided<1>) move) {
  if (iter.ndim != 3 || iter.numel == 0) return false;
  constexpr int64_t cached = 8192, furthest = 512;
  const int64_t n = iter.shape[0], m = iter.shape[1], count = iter.shape[2];
  const int64_t to_step = iter.strides[0][2], from_step = iter.strides[1][2];
  const int64_t step = std::max({std::abs(to_step), std::abs(from_step), int64_t{1}});
  if (step > furthest || !takes_elements_at_a_time(n * m, count, step)) return false;
  parallel_for(0, count, default_grain / (n * m), [&](int64_t begin, int64_t end) {
    for (int64_t first = begin, some; first < end; first += some) {
      some = std::min(cached / step, end - first);
      for (int64_t j = 0; j < m; ++j) {
        for (int64_t i = 0; i < n; ++i) {
          const auto at = [&](int k) {
            return iter.data[k] + i * iter.strides[k][0] + j * iter.strides[k][1] +
                   first * iter.strides[k][2];
          };
          move(at(0), to_step, at(1), from_step, some);
        }
      }
    }
  });
  return true;
}

void copy_same(const TensorIter& iter) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (copy_small_matrices(iter, move_strided<sizeof(T)>)) return;
    const bool beyond_cache = iter.numel * static_cast<int64_t>(sizeof(T)) >= cached_bytes;
    const auto in_elements = [](int64_t step) {
      return step % static_cast<int64_t>(sizeof(T)) == 0;
    };
    for_each_block(iter, [=](char** data, const Block& block) {
      if (block.steps[0] == sizeof(T) && block.row_steps[1] == sizeof(T) && block.m > 1 &&
          block.steps[1] != 0 && in_elements(block.steps[1]) && in_elements(block.row_steps[0]))
        return copy_transposed(
            sizeof(T), {data[0], block.row_steps[0]}, {data[1], block.steps[1]}, block.n, block.m,
            beyond_cache ? TransposedStore::non_temporal : TransposedStore::in_cache);
      if (repeats_each<T>(block) &&
          repeat_each(reinterpret_cast<T*>(data[0]), reinterpret_cast<const T*>(data[1]), block.m,
                      block.n, std::integer_sequence<int, 2, 3, 4>()))
        return;
      if (block.steps[0] == sizeof(T) && block.steps[1] == sizeof(T) &&
          copy_short_rows(data[0], data[1], block, block.n * static_cast<int64_t>(sizeof(T)),
                          std::integer_sequence<int, 4, 8, 12, 16, 24, 32, 64, 128>()))
        return;
      if (beyond_cache && copy_rows_apart(data[0], data[1], block, sizeof(T))) return;
      for (int64_t row = 0; row < block.m; ++row) {
        copy_row<T>(data[0] + row * block.row_steps[0], data[1] + row * block.row_steps[1],
                    block.steps, block.n, beyond_cache);
      }
      if (beyond_cache) _mm_sfence();
    });
  });
}

// What is copied as: an integer has the same bits with a sign as without, a bool is the byte that
// it is, or one where it is another than zero.
template <class To>
using CopiedTo = typename std::conditional_t<std::is_integral_v<To>, std::make_signed<To>,
                                             std::type_identity<To>>::type;
template <class From>
using CopiedFrom = std::conditional_t<std::is_same_v<From, StoredBool>, uint8_t, From>;

// Between float16 and float32, without a buffer of floats in between.
constexpr ElementwiseLoop to_half{1, {2, 4}, [](const void*, char* const* data, int64_t n, bool) {
                                    convert_row_back(DType::float16, data[1], data[0], n);
                                  }};
constexpr ElementwiseLoop from_half{1, {4, 2}, [](const void*, char* const* data, int64_t n, bool) {
                                      convert_row(DType::float16, data[1], data[0], n);
                                    }};

void copy_kernel(const TensorIter& iter) {
  const DType to_dtype = iter.dtypes[0], from_dtype = iter.dtypes[1];
  if (to_dtype == from_dtype) return copy_same(iter);
  if (to_dtype == DType::float16 && from_dtype == DType::float32)
    return run_elementwise(iter, to_half, nullptr, 1);
  if (to_dtype == DType::float32 && from_dtype == DType::float16)
    return run_elementwise(iter, from_half, nullptr, 1);
  if (is_complex(from_dtype) && !is_complex(to_dtype) && to_dtype != DType::bool_) {
    TensorIter real_parts = iter;
    real_parts.dtypes[1] = to_real(from_dtype);
    return copy_kernel(real_parts);
  }
  dispatch_loop<dtypes::All>("copy_", from_dtype, [&](auto from) {
    constexpr bool from_bool = std::is_same_v<typename decltype(from)::type, StoredBool>;
    using From = CopiedFrom<typename decltype(from)::type>;
    constexpr DTypeSet targets =
        is_complex_type<From> ? dtypes::Complex | dtypes::Bool : dtypes::All;
    dispatch_loop<targets>("copy_", to_dtype, [&](auto to) {
      using To = CopiedTo<typename decltype(to)::type>;
      const auto formula = [](ComputeType<From> x) {
        if constexpr (from_bool) x = std::min<From>(x, 1);  // which is vector code
        return convert<To>(x);
      };
      elementwise_loop<To, From>(iter, formula, 1);
    });
  });
}
KERNEL_FOR(copy, copy_kernel)

void where_kernel(const TensorIter& iter) {
  dispatch_size(item_size(iter.dtypes[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // By bits, which becomes vector code where a choice does not.
    elementwise_loop<T, uint8_t, T, T>(
        iter,
        [](uint8_t condition, T a, T b) {
          if constexpr (std::is_integral_v<T>) {
            const T taken = static_cast<T>(-static_cast<T>(condition != 0));
            return static_cast<T>(b ^ ((a ^ b) & taken));
          } else {
            return condition ? a : b;
          }
        },
        1);
  });
}
KERNEL_FOR(where, where_kernel)

// Whether operand k is a single value.
bool repeats(const TensorIter& iter, int k) {
  return std::all_of(iter.strides[k], iter.strides[k] + iter.ndim,
                     [](int64_t stride) { return stride == 0; });
}

void clamp_kernel(const TensorIter& iter) {
  if (iter.numel == 0) return;  // nor is there a first bound
  dispatch_loop<dtypes::Real>("clamp", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    // One pair of bounds for all elements, no NaN: the loop over one array.
    if (repeats(iter, 2) && repeats(iter, 3)) {
      const C low = first_element<T>(iter, 2), high = first_element<T>(iter, 3);
      if (low == low && high == high) {
        TensorIter alone = iter;
        alone.count = 2;
        return elementwise_loop<T, T>(
            alone, [=](C x) { return math::min(math::max(x, low), high); }, 1);
      }
    }
    elementwise_loop<T, T, T, T>(
        iter, [](C x, C low, C high) { return math::minimum(math::maximum(x, low), high); });
  });
}
KERNEL_FOR(clamp, clamp_kernel)

void abs_kernel(const TensorIter& iter) {
  if (dtypes::Reduced.has(iter.dtypes[1])) {  // without its sign, which is a bit
    return elementwise_loop<uint16_t, uint16_t>(
        iter, [](uint16_t bits) { return static_cast<uint16_t>(bits & 0x7fff); }, 1);
  }
  dispatch_loop<dtypes::All - dtypes::Reduced>("abs", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, StoredBool>) {
      elementwise_loop<T, T>(
          iter, [](bool x) { return x; }, 1);
    } else if constexpr (is_complex_type<T>) {
      elementwise_loop<typename T::value_type, T>(
          iter, [](T x) { return math::abs(x); }, 2);
    } else {
      elementwise_loop<T, T>(
          iter, [](T x) { return math::abs(x); }, 1);
    }
  });
}
KERNEL_FOR(abs, abs_kernel)

void bitwise_not_kernel(const TensorIter& iter) {
  if (iter.dtypes[1] == DType::bool_) {  // as a byte: GCC makes no vector code of bools
    return elementwise_loop<uint8_t, uint8_t>(
        iter, [](uint8_t x) { return static_cast<uint8_t>(x == 0); }, 1);
  }
  dispatch_loop<dtypes::Integral, false>("bitwise_not", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise_loop<T, T>(
        iter, [](T x) { return static_cast<T>(~x); }, 1);
  });
}
KERNEL_FOR(bitwise_not, bitwise_not_kernel)

void add_scaled_kernel(const TensorIter& iter, const Scalar& alpha) {
  if (iter.dtypes[0] == DType::complex64) {
    return pairs_loop<2>(iter, [factor = all_pairs(alpha.to<std::complex<float>>())](
                                   Floats a, Floats b) { return a + product_of_pairs(factor, b); });
  }
  dispatch_loop<dtypes::All, false>("add", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C factor = alpha.to<C>();
    elementwise_loop<T, T, T>(
        iter, [factor](C a, C b) { return math::plus(a, math::times(factor, b)); }, 1);
  });
}
KERNEL_FOR(add_scaled, add_scaled_kernel)

template <class C>
struct Power {
  C operator()(C a, C b) const { return math::pow(a, b); }
};
template <>
struct Power<float> {
  Floats operator()(Floats a, Floats b) const { return pow_simd(a, b); }
};

// By the size of the base: the vector library computes powers of negative numbers one by one.
Doubles power_of_doubles(Doubles a, Doubles b) {
  const Doubles size = magnitude(a), y = pow_of_lanes(size, b), half = b * 0.5;
  const Longs is_below = std::bit_cast<Longs>(a) < 0;
  if (!anywhere(is_below)) return y;
  const Longs is_whole = trunc_of_lanes(b) == b;
  const Longs is_odd = is_whole & (trunc_of_lanes(half) != half);
  const Longs has_none = (a < 0.0) & (size < std::numeric_limits<double>::infinity()) & ~is_whole;
  const Doubles signed_power = is_below & is_odd ? -y : y;
  return has_none ? doubles(std::numeric_limits<double>::quiet_NaN()) : signed_power;
}
struct CoarsePower {
  Floats operator()(Floats a, Floats b) const { return coarse_pow_simd(a, b); }
};

void pow_kernel(const TensorIter& iter) {
  if (iter.dtypes[0] == DType::float64) {  // whose elements are as large as pairs of floats
    return pairs_loop<2>(
        iter,
        [](Floats a, Floats b) {
          return std::bit_cast<Floats>(
              power_of_doubles(std::bit_cast<Doubles>(a), std::bit_cast<Doubles>(b)));
        },
        16);
  }
  dispatch_loop<dtypes::Numeric>("pow", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using F = std::conditional_t<std::is_same_v<T, BFloat16>, CoarsePower, Power<C>>;
    elementwise_loop<T, T, T>(iter, F(), 16);
  });
}
KERNEL_FOR(pow, pow_kernel)

void addcmul_kernel(const TensorIter& iter, const Scalar& value) {
  if (iter.dtypes[0] == DType::complex64) {
    return pairs_loop<3>(
        iter, [v = all_pairs(value.to<std::complex<float>>())](Floats x, Floats a, Floats b) {
          return x + product_of_pairs(v, product_of_pairs(a, b));
        });
  }
  dispatch_loop<dtypes::Numeric, false>("addcmul", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C v = value.to<C>();
    elementwise_loop<T, T, T, T>(
        iter, [v](C x, C a, C b) { return math::plus(x, math::times(v, math::times(a, b))); });
  });
}
KERNEL_FOR(addcmul, addcmul_kernel)

void addcdiv_kernel(const TensorIter& iter, const Scalar& value) {
  if (iter.dtypes[0] == DType::complex64) {
    return pairs_loop<3>(
        iter, [v = all_pairs(value.to<std::complex<float>>())](Floats x, Floats a, Floats b) {
          return x + quotient_of_pairs(product_of_pairs(v, a), b);
        });
  }
  dispatch_loop<dtypes::FloatingComplex>("addcdiv", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C v = value.to<C>();
    elementwise_loop<T, T, T, T>(iter, [v](C x, C a, C b) { return x + v * a / b; });
  });
}
KERNEL_FOR(addcdiv, addcdiv_kernel)

void lerp_kernel(const TensorIter& iter, const Scalar* number) {
  if (iter.dtypes[0] == DType::complex64 && !number) {
    return pairs_loop<3>(iter, [](Floats a, Floats b, Floats w) {
      const Floats way = b - a, rest = all_pairs(1) - w;
      const Floats from_end = b - product_of_pairs(way, rest);
      return squares_of_pairs(w) < 0.25f ? a + product_of_pairs(w, way) : from_end;
    });
  }
  dispatch_loop<dtypes::FloatingComplex>("lerp", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    // From the nearer end, so that weights 0 and 1 give the ends exactly.
    const auto between = [](C a, C b, C w) {
      return math::abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (C(1) - w);
    };
    if (number || repeats(iter, 3)) {
      TensorIter ends = iter;
      ends.count = 3;
      const C weight = number ? number->to<C>() : first_element<T>(iter, 3);
      return elementwise_loop<T, T, T>(
          ends, [=](C a, C b) { return between(a, b, weight); }, 1);
    }
    elementwise_loop<T, T, T, T>(iter, between);
  });
}
KERNEL_FOR(lerp, lerp_kernel)

// With the difference d and what the limit leaves of it, c, that is c (d - c / 2).
void huber_kernel(const TensorIter& iter, double limit) {
  dispatch_loop<dtypes::OnlyFloating>("huber", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C most = static_cast<C>(limit);
    const auto formula = [most](C a, C b) {
      const C d = a - b, c = math::min(math::max(d, -most), most);
      return c * (d - C(0.5) * c);
    };
    elementwise_loop<T, T, T>(iter, formula, 1);
  });
}
KERNEL_FOR(huber, huber_kernel)

void round_kernel(const TensorIter& iter, int64_t decimals) {
  dispatch_loop<dtypes::Real>("round", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if (decimals == 0) {
      elementwise_loop<T, T>(
          iter, [](C x) { return math::rint(x); }, 1);
    } else if constexpr (std::is_floating_point_v<C>) {
      const C scale = static_cast<C>(std::pow(10.0, std::abs(static_cast<double>(decimals))));
      const bool up = decimals > 0;
      elementwise_loop<T, T>(
          iter,
          [=](C x) { return up ? math::rint(x * scale) / scale : math::rint(x / scale) * scale; },
          1);
    } else {
      elementwise_loop<T, T>(
          iter, [](C x) { return x; }, 1);
    }
  });
}
KERNEL_FOR(round, round_kernel)

void nan_to_num_kernel(const TensorIter& iter, double nan, double posinf, double neginf) {
  dispatch_loop<dtypes::Floating>("nan_to_num", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C n = static_cast<C>(nan), up = static_cast<C>(posinf), down = static_cast<C>(neginf);
    constexpr C infinity = std::numeric_limits<C>::infinity();
    const auto formula = [=](C x) {  // choices one after the other, which are vector code
      C y = x == infinity ? up : x;
      y = x == -infinity ? down : y;
      return x == x ? y : n;
    };
    elementwise_loop<T, T>(iter, formula, 1);
  });
}
KERNEL_FOR(nan_to_num, nan_to_num_kernel)

template <bool Tanh, class C>
struct Gelu {
  C operator()(C x) const { return Tanh ? math::gelu_tanh(x) : math::gelu(x); }
};
template <bool Tanh, class C>
struct GeluGradient {
  C operator()(C g, C x) const {
    return g * (Tanh ? math::gelu_tanh_slope(x) : math::gelu_slope(x));
  }
};
#if FLAMBEAU_ISA_RANK >= 4
// In single precision in SIMD registers and by a table, found from the formulas in double
// precision.
template <bool Tanh>
struct Gelu<Tanh, float> {
  static const FallingShare& table() {
    static const FallingShare share([](double t) { return 1 - Gelu<Tanh, double>()(t) / t; });
    return share;
  }
  Floats operator()(Floats x) const { return x * share.rest(x); }
  FallingShare share = table();
};
template <bool Tanh>
struct GeluGradient<Tanh, float> {
  static const FallingShare& table() {
    static const FallingShare share([](double t) { return GeluGradient<Tanh, double>()(1, -t); });
    return share;
  }
  // Infinity times a density of zero is not a number, in the formulas and so here.
  Floats operator()(Floats g, Floats x) const { return g * (share.rest(x) + x * 0.0f); }
  FallingShare share = table();
};
#endif

void gelu_kernel(const TensorIter& iter, bool tanh_form) {
  dispatch_loop<dtypes::Floating>("gelu", iter.dtypes[1], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    tanh_form ? elementwise_loop<T, T>(iter, Gelu<true, C>(), 8)
              : elementwise_loop<T, T>(iter, Gelu<false, C>(), 8);
  });
}
KERNEL_FOR(gelu, gelu_kernel)

void gelu_backward_kernel(const TensorIter& iter, bool tanh_form) {
  dispatch_loop<dtypes::Floating>("gelu_backward", iter.dtypes[0], [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    tanh_form ? elementwise_loop<T, T, T>(iter, GeluGradient<true, C>(), 12)
              : elementwise_loop<T, T, T>(iter, GeluGradient<false, C>(), 12);
  });
}
KERNEL_FOR(gelu_backward, gelu_backward_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
