// Elementwise loops. A loop over a plain formula is what the compiler turns into vector code; the
// contiguous case and the case of a number on one side get loops of their own, the rest is strided.
#pragma once

#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/tensor/dtype.h"
#include "flambeau/tensor/tensor_iter.h"

#define IVDEP _Pragma("GCC ivdep")

namespace flambeau::cpu::ISA_NAMESPACE {

// A stored element in the type that arithmetic is done in, and back.
template <class T>
inline ComputeType<T> load(const char* at) {
  return static_cast<ComputeType<T>>(*reinterpret_cast<const T*>(at));
}
template <class Out, class V>
inline void put(char* at, V value) {
  *reinterpret_cast<Out*>(at) = static_cast<Out>(value);
}

template <class Out, class In, class F>
void unary_loop(const TensorIter& iter, F f, int cost) {
  for_each_row(
      iter,
      [f](char** data, const int64_t* strides, int64_t n) {
        char* out = data[0];
        const char* in = data[1];
        if (strides[0] == sizeof(Out) && strides[1] == sizeof(In)) {
          Out* o = reinterpret_cast<Out*>(out);
          const In* x = reinterpret_cast<const In*>(in);
          IVDEP for (int64_t i = 0; i < n; ++i) {
            o[i] = static_cast<Out>(f(static_cast<ComputeType<In>>(x[i])));
          }
        } else {
          for (int64_t i = 0; i < n; ++i) {
            put<Out>(out + i * strides[0], f(load<In>(in + i * strides[1])));
          }
        }
      },
      cost);
}

template <class Out, class In, class F>
void binary_loop(const TensorIter& iter, F f, int cost) {
  using C = ComputeType<In>;
  for_each_row(
      iter,
      [f](char** data, const int64_t* strides, int64_t n) {
        Out* o = reinterpret_cast<Out*>(data[0]);
        const In* a = reinterpret_cast<const In*>(data[1]);
        const In* b = reinterpret_cast<const In*>(data[2]);
        const bool out_dense = strides[0] == sizeof(Out);
        const bool a_dense = strides[1] == sizeof(In), b_dense = strides[2] == sizeof(In);
        if (out_dense && a_dense && b_dense) {
          IVDEP for (int64_t i = 0; i < n; ++i) {
            o[i] = static_cast<Out>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
          }
        } else if (out_dense && a_dense && strides[2] == 0) {
          const C number = static_cast<C>(*b);
          IVDEP for (int64_t i = 0; i < n; ++i) {
            o[i] = static_cast<Out>(f(static_cast<C>(a[i]), number));
          }
        } else if (out_dense && b_dense && strides[1] == 0) {
          const C number = static_cast<C>(*a);
          IVDEP for (int64_t i = 0; i < n; ++i) {
            o[i] = static_cast<Out>(f(number, static_cast<C>(b[i])));
          }
        } else {
          for (int64_t i = 0; i < n; ++i) {
            put<Out>(data[0] + i * strides[0],
                     f(load<In>(data[1] + i * strides[1]), load<In>(data[2] + i * strides[2])));
          }
        }
      },
      cost);
}

// Three inputs of one dtype (where a condition differs, see where).
template <class T, class F>
void ternary_loop(const TensorIter& iter, F f, int cost = 1) {
  using C = ComputeType<T>;
  for_each_row(
      iter,
      [f](char** data, const int64_t* strides, int64_t n) {
        const bool dense = strides[0] == sizeof(T) && strides[1] == sizeof(T) &&
                           strides[2] == sizeof(T) && strides[3] == sizeof(T);
        if (dense) {
          T* o = reinterpret_cast<T*>(data[0]);
          const T *a = reinterpret_cast<const T*>(data[1]),
                  *b = reinterpret_cast<const T*>(data[2]),
                  *c = reinterpret_cast<const T*>(data[3]);
          IVDEP for (int64_t i = 0; i < n; ++i) {
            o[i] =
                static_cast<T>(f(static_cast<C>(a[i]), static_cast<C>(b[i]), static_cast<C>(c[i])));
          }
        } else {
          for (int64_t i = 0; i < n; ++i) {
            put<T>(data[0] + i * strides[0],
                   f(load<T>(data[1] + i * strides[1]), load<T>(data[2] + i * strides[2]),
                     load<T>(data[3] + i * strides[3])));
          }
        }
      },
      cost);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
