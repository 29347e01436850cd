// AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "name", [&] { ... scalar_t ... }): the code once for
// each C++ type, and the run-time choice among them.
#pragma once

#include "flambeau/api/half.h"
#include "flambeau/api/tensor_type.h"

namespace flambeau::torch::detail {
[[noreturn]] void refuse_dtype(const char* name, ScalarType dtype);
}

#define AT_DISPATCH_CASE(dtype, ...)                                                  \
  case dtype: {                                                                       \
    using scalar_t [[maybe_unused]] = ::flambeau::torch::ScalarTypeToCPPTypeT<dtype>; \
    return __VA_ARGS__();                                                             \
  }
#define AT_DISPATCH_SWITCH(type, name, ...)                                            \
  [&] {                                                                                \
    const auto& given_type_ = type;                                                    \
    switch (const auto dtype_ = ::flambeau::torch::detail::scalar_type(given_type_)) { \
      __VA_ARGS__                                                                      \
      default: ::flambeau::torch::detail::refuse_dtype(name, dtype_);                  \
    }                                                                                  \
  }()
#define FLAMBEAU_CASE(name, ...) AT_DISPATCH_CASE(::flambeau::DType::name, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
  FLAMBEAU_CASE(Double, __VA_ARGS__) FLAMBEAU_CASE(Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...) \
  FLAMBEAU_CASE(ComplexDouble, __VA_ARGS__) FLAMBEAU_CASE(ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define FLAMBEAU_CASES_OF_BYTES(...) \
  FLAMBEAU_CASE(Byte, __VA_ARGS__) FLAMBEAU_CASE(Char, __VA_ARGS__)
#define FLAMBEAU_CASES_OF_INTS(...) FLAMBEAU_CASE(Int, __VA_ARGS__) FLAMBEAU_CASE(Long, __VA_ARGS__)
#define FLAMBEAU_CASES_BUT_SHORT(...) \
  FLAMBEAU_CASES_OF_BYTES(__VA_ARGS__) FLAMBEAU_CASES_OF_INTS(__VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) \
  FLAMBEAU_CASES_BUT_SHORT(__VA_ARGS__) FLAMBEAU_CASE(Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) FLAMBEAU_CASE(Half, __VA_ARGS__)

// The same for a family of types, and for up to four types besides: DISPATCH_AND2(cases of the
// family, two types, type, name, body).
#define FLAMBEAU_DISPATCH(CASES, type, name, ...) AT_DISPATCH_SWITCH(type, name, CASES(__VA_ARGS__))
#define FLAMBEAU_DISPATCH_AND(CASES, t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, CASES(__VA_ARGS__) AT_DISPATCH_CASE(t1, __VA_ARGS__))
#define FLAMBEAU_DISPATCH_AND2(CASES, t1, t2, type, name, ...)            \
  AT_DISPATCH_SWITCH(type, name,                                          \
                     CASES(__VA_ARGS__) AT_DISPATCH_CASE(t1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(t2, __VA_ARGS__))
#define FLAMBEAU_DISPATCH_AND3(CASES, t1, t2, t3, type, name, ...)        \
  AT_DISPATCH_SWITCH(type, name,                                          \
                     CASES(__VA_ARGS__) AT_DISPATCH_CASE(t1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(t2, __VA_ARGS__) AT_DISPATCH_CASE(t3, __VA_ARGS__))
#define FLAMBEAU_DISPATCH_AND4(CASES, t1, t2, t3, t4, type, name, ...)                       \
  AT_DISPATCH_SWITCH(type, name,                                                             \
                     CASES(__VA_ARGS__) AT_DISPATCH_CASE(t1, __VA_ARGS__)                    \
                         AT_DISPATCH_CASE(t2, __VA_ARGS__) AT_DISPATCH_CASE(t3, __VA_ARGS__) \
                             AT_DISPATCH_CASE(t4, __VA_ARGS__))

#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(...) FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(...) \
  FLAMBEAU_DISPATCH(AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(...) \
  FLAMBEAU_DISPATCH_AND(AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(...) \
  FLAMBEAU_DISPATCH_AND2(AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(...) \
  FLAMBEAU_DISPATCH_AND3(AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(...) \
  FLAMBEAU_DISPATCH_AND4(AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX, __VA_ARGS__)
#define AT_DISPATCH_INDEX_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                 \
                     FLAMBEAU_INDEX_CASE(Int, __VA_ARGS__) FLAMBEAU_INDEX_CASE(Long, __VA_ARGS__))
#define FLAMBEAU_INDEX_CASE(dtype, ...)                                                \
  case ::flambeau::DType::dtype: {                                                     \
    using index_t = ::flambeau::torch::ScalarTypeToCPPTypeT<::flambeau::DType::dtype>; \
    return __VA_ARGS__();                                                              \
  }
