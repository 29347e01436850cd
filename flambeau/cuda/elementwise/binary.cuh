// The rows of binary.def for one group of dtypes: a unit defines ROW_GROUP and includes this.
#include "flambeau/cuda/elementwise/rows.cuh"

namespace flambeau::cuda {
namespace {

template <class Formula, class C>
struct BinaryBody {
  __device__ auto operator()(C a, C b) const { return Formula::at(a, b); }
};

template <class Formula, DTypeSet Set, bool Compares>
void binary_kernel(const TensorIter& iter, const Scalar*) {
  dispatch<Set>(Formula::name, iter.dtypes[1], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using Out = std::conditional_t<Compares, bool, T>;
    elementwise<Out, T, T>(Formula::name, iter, BinaryBody<Formula, ComputeType<T>>{});
  });
}

}  // namespace

#define FORMULA(name_, value, set, compares)                                                \
  struct name_##_formula {                                                                  \
    static constexpr const char* name = #name_;                                             \
    template <class C>                                                                      \
    static __device__ auto at(C a, C b) {                                                   \
      using namespace math;                                                                 \
      return value;                                                                         \
    }                                                                                       \
  };                                                                                        \
  static const bool name_##_entered = [] {                                                  \
    constexpr DTypeSet here = both(dtypes::set, group_dtypes[static_cast<int>(ROW_GROUP)]); \
    if constexpr (here.bits == 0) {                                                         \
      return false;                                                                         \
    } else {                                                                                \
      return enter_row<name_##_formula>(kernels::name_, ROW_GROUP,                          \
                                        binary_kernel<name_##_formula, here, compares>);    \
    }                                                                                       \
  }();
#define BINARY(name, set, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) \
  FORMULA(name, value, set, false)
#define KERNEL BINARY
#define COMPARE(name, set, value, doc, ...) FORMULA(name, value, set, true)
#define INTEGERS(name, set, value, doc) FORMULA(name, value, set, false)
#include "flambeau/kernels/binary.def"

}  // namespace flambeau::cuda
