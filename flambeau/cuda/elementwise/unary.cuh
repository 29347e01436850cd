// The rows of unary.def for one group of dtypes: a unit defines ROW_GROUP and includes this.
#include "flambeau/cuda/elementwise/rows.cuh"

namespace flambeau::cuda {
namespace {

template <class Formula, class C>
struct UnaryBody {
  C p, q;
  __device__ auto operator()(C x) const { return Formula::at(x, p, q); }
};

template <class Formula, DTypeSet Set, bool Predicate>
void unary_kernel(const TensorIter& iter, const Scalar* params) {
  dispatch<Set>(Formula::name, iter.dtypes[1], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    using Out = std::conditional_t<Predicate, bool, T>;
    const C p = params ? number_as<C>(params[0]) : C(0);
    const C q = Formula::two && params ? number_as<C>(params[1]) : C(0);
    elementwise<Out, T>(Formula::name, iter, UnaryBody<Formula, C>{p, q});
  });
}

}  // namespace

#define FORMULA(name_, value, two_, set, predicate)                                         \
  struct name_##_formula {                                                                  \
    static constexpr const char* name = #name_;                                             \
    static constexpr bool two = two_;                                                       \
    template <class C>                                                                      \
    static __device__ auto at(C x, [[maybe_unused]] C p, [[maybe_unused]] C q) {            \
      using namespace math;                                                                 \
      return static_cast<std::common_type_t<decltype(value)>>(value);                       \
    }                                                                                       \
  };                                                                                        \
  static const bool name_##_entered = [] {                                                  \
    constexpr DTypeSet here = both(dtypes::set, group_dtypes[static_cast<int>(ROW_GROUP)]); \
    if constexpr (here.bits == 0) {                                                         \
      return false;                                                                         \
    } else {                                                                                \
      return enter_row<name_##_formula>(kernels::name_, ROW_GROUP,                          \
                                        unary_kernel<name_##_formula, here, predicate>);    \
    }                                                                                       \
  }();
#define UNARY(name, set, value, keeps, gradient, doc, ...) FORMULA(name, value, false, set, false)
#define PREDICATE(name, set, value, doc, ...) FORMULA(name, value, false, set, true)
#define UNARY1(name, p, p_default, set, value, keeps, gradient, doc, ...) \
  FORMULA(name, value, false, set, false)
#define UNARY2(name, p_name, p_default, q_name, q_default, set, value, keeps, gradient, doc, ...) \
  FORMULA(name, value, true, set, false)
#define KERNEL2(name, set, value) FORMULA(name, value, true, set, false)
#include "flambeau/kernels/unary.def"

}  // namespace flambeau::cuda
