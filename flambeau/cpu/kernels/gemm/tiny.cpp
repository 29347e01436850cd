// Batches of products of matrices of 2 x 2 or 4 x 4 elements: a row is a register, and the next
// product begins before this one has ended, which calls of general loops for each would prevent.
#include <complex>
#include <cstring>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/kernels/gemm/small.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// What a row of Side elements consists of, and how one is added to another, times a number.
template <class T, int Side>
struct Row {
  using Part = T;
  typedef T type __attribute__((vector_size(Side * sizeof(T))));
  static void add(type& sum, T left, type right) { sum += left * right; }
};
template <class R, int Side>
struct Row<std::complex<R>, Side> {
  using Part = R;
  typedef R type __attribute__((vector_size(2 * Side * sizeof(R))));
  static void add(type& sum, std::complex<R> left, type right) {
    // The row times i, but for signs, which the number takes over.
    type swapped, signs;
    for (int l = 0; l < 2 * Side; ++l) swapped[l] = right[l ^ 1], signs[l] = l % 2 ? R(1) : R(-1);
    sum += left.real() * right;
    sum += (left.imag() * signs) * swapped;
  }
};

template <class T, int Side>
[[gnu::always_inline]] inline void multiply(const T* a, int64_t a_row, int64_t a_col, const T* b,
                                            int64_t b_row, int64_t b_col, T* out) {
  using V = typename Row<T, Side>::type;
  V right[Side];
  if (b_col == 1) {
    for (int x = 0; x < Side; ++x) std::memcpy(&right[x], b + x * b_row, sizeof(V));
  } else {
    T copy[Side][Side];
    for (int x = 0; x < Side; ++x) {
      for (int j = 0; j < Side; ++j) copy[x][j] = b[x * b_row + j * b_col];
    }
    std::memcpy(right, copy, sizeof right);
  }
  V sums[Side] = {};
#pragma GCC unroll 4
  for (int i = 0; i < Side; ++i) {
#pragma GCC unroll 4
    for (int x = 0; x < Side; ++x) Row<T, Side>::add(sums[i], a[i * a_row + x * a_col], right[x]);
  }
  std::memcpy(static_cast<void*>(out), sums, sizeof sums);
}

template <class T, int Side>
void run(const Gemm& p) {
  const T *a = static_cast<const T*>(p.a.data), *b = static_cast<const T*>(p.b.data);
  T* out = static_cast<T*>(p.out.data);
  constexpr int64_t grain = 65536 / (Side * Side * Side);
  const int64_t a_step = p.a.batch[0], b_step = p.b.batch[0], out_step = p.out.batch[0];
  parallel_for(0, p.batch[0], grain, [&](int64_t first, int64_t last) {
    const auto loop = [=](int64_t a_row, int64_t a_col, int64_t b_row, int64_t b_col)
        __attribute__((always_inline)) {
      for (int64_t i = first; i < last; ++i) {
        multiply<T, Side>(a + i * a_step, a_row, a_col, b + i * b_step, b_row, b_col,
                          out + i * out_step);
      }
    };
    const bool a_dense = p.a.row == Side && p.a.col == 1;
    if (a_dense && p.b.row == Side && p.b.col == 1) return loop(Side, 1, Side, 1);
    if (a_dense && p.b.row == 1 && p.b.col == Side) return loop(Side, 1, 1, Side);
    loop(p.a.row, p.a.col, p.b.row, p.b.col);
  });
}

template <class T>
bool run(const Gemm& p) {
  p.m == 2 ? run<T, 2>(p) : run<T, 4>(p);
  return true;
}

}  // namespace

bool tiny_batch(const Gemm& p) {
  const int64_t side = p.m;
  if ((side != 2 && side != 4) || p.n != side || p.k != side || p.batch.size() != 1) return false;
  if (p.addend.data || p.out.col != 1 || p.out.row != side) return false;
  switch (p.dtype) {
    case DType::float32: return p.alpha == Scalar(1.0) && run<float>(p);
    case DType::float64: return p.alpha == Scalar(1.0) && run<double>(p);
    // Sums wrap, which the language allows without a sign.
    case DType::int64: return p.alpha == Scalar(1) && run<uint64_t>(p);
    case DType::complex64: return p.alpha == Scalar(1.0) && run<std::complex<float>>(p);
    default: return false;
  }
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
