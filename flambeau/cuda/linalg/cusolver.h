// cuSOLVER, loaded when it is first needed, with its functions by element type; and what the
// kernels on top of it share: batches of column-major matrices and work space. The functions are
// described here, so that building needs no header of it.
#pragma once

#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <cublas_v2.h>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/library.h"
#include "flambeau/kernels/linalg.h"

namespace flambeau::cuda {

inline constexpr DTypeSet solver_dtypes = dtypes::Complex | DType::float32 | DType::float64;

using SolverHandle = void*;
using SolverParams = void*;

template <class T>
struct RealTypeOf {
  using type = T;
};
template <class T>
struct RealTypeOf<DeviceComplex<T>> {
  using type = T;
};
template <class T>
using RealType = typename RealTypeOf<T>::type;

template <class T>
constexpr cudaDataType_t solver_type = std::is_same_v<T, float>                  ? CUDA_R_32F
                                       : std::is_same_v<T, double>               ? CUDA_R_64F
                                       : std::is_same_v<T, DeviceComplex<float>> ? CUDA_C_32F
                                                                                 : CUDA_C_64F;

// The functions for matrices of T, by LAPACK's names for complex ones.
template <class T>
struct Solver {
  using R = RealType<T>;
  int (*getrf_size)(SolverHandle, int m, int n, T* a, int lda, int* length);
  int (*getrf)(SolverHandle, int m, int n, T* a, int lda, T* work, int* pivots, int* info);
  int (*getrs)(SolverHandle, int how, int n, int columns, const T* a, int lda, const int* pivots,
               T* b, int ldb, int* info);
  int (*potrf_size)(SolverHandle, int part, int n, T* a, int lda, int* length);
  int (*potrf)(SolverHandle, int part, int n, T* a, int lda, T* work, int length, int* info);
  int (*potrf_batched)(SolverHandle, int part, int n, T** a, int lda, int* info, int count);
  int (*sytrf_size)(SolverHandle, int n, T* a, int lda, int* length);
  int (*sytrf)(SolverHandle, int part, int n, T* a, int lda, int* pivots, T* work, int length,
               int* info);
  int (*geqrf_size)(SolverHandle, int m, int n, T* a, int lda, int* length);
  int (*geqrf)(SolverHandle, int m, int n, T* a, int lda, T* tau, T* work, int length, int* info);
  int (*ungqr_size)(SolverHandle, int m, int n, int k, const T* a, int lda, const T* tau,
                    int* length);
  int (*ungqr)(SolverHandle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int length,
               int* info);
  int (*unmqr_size)(SolverHandle, int side, int how, int m, int n, int k, const T* a, int lda,
                    const T* tau, const T* c, int ldc, int* length);
  int (*unmqr)(SolverHandle, int side, int how, int m, int n, int k, const T* a, int lda,
               const T* tau, T* c, int ldc, T* work, int length, int* info);
  int (*gesvd_size)(SolverHandle, int m, int n, int* length);
  int (*gesvd)(SolverHandle, signed char job_u, signed char job_v, int m, int n, T* a, int lda,
               R* s, T* u, int ldu, T* vh, int ldvh, T* work, int length, R* real_work, int* info);
  int (*heevd_size)(SolverHandle, int job, int part, int n, const T* a, int lda, const R* w,
                    int* length);
  int (*heevd)(SolverHandle, int job, int part, int n, T* a, int lda, R* w, T* work, int length,
               int* info);
};

// The functions for matrices of any type.
struct GenericSolver {
  int (*create)(SolverHandle*);
  int (*set_stream)(SolverHandle, cudaStream_t);
  int (*create_params)(SolverParams*);
  int (*syev_batched_size)(SolverHandle, SolverParams, int job, int part, int64_t n, cudaDataType_t,
                           const void* a, int64_t lda, cudaDataType_t, const void* w,
                           cudaDataType_t compute, size_t* on_device, size_t* on_host,
                           int64_t count);
  int (*syev_batched)(SolverHandle, SolverParams, int job, int part, int64_t n, cudaDataType_t,
                      void* a, int64_t lda, cudaDataType_t, void* w, cudaDataType_t compute,
                      void* device_work, size_t device_bytes, void* host_work, size_t host_bytes,
                      int* info, int64_t count);
  int (*geev_size)(SolverHandle, SolverParams, int job_left, int job_right, int64_t n,
                   cudaDataType_t, const void* a, int64_t lda, cudaDataType_t, const void* w,
                   cudaDataType_t, const void* left, int64_t, cudaDataType_t, const void* right,
                   int64_t, cudaDataType_t compute, size_t* on_device, size_t* on_host);
  int (*geev)(SolverHandle, SolverParams, int job_left, int job_right, int64_t n, cudaDataType_t,
              void* a, int64_t lda, cudaDataType_t, void* w, cudaDataType_t, void* left, int64_t,
              cudaDataType_t, void* right, int64_t, cudaDataType_t compute, void* device_work,
              size_t device_bytes, void* host_work, size_t host_bytes, int* info);
};

const Library& solver_library();
const GenericSolver& generic_solver();

inline void check_solver(int status, const char* op) {
  CHECK(status == 0, RuntimeError, "{}: cuSOLVER error {}", op, status);
}
inline void check_blas(cublasStatus_t status, const char* op) {
  CHECK(status == CUBLAS_STATUS_SUCCESS, RuntimeError, "{}: cuBLAS error: {}", op,
        cublasGetStatusString(status));
}

// A device's handles, set to the current stream, for the time this lives. One thread at a time.
class SolverGuard {
 public:
  explicit SolverGuard(int device);
  [[nodiscard]] SolverHandle solver() const { return solver_; }
  [[nodiscard]] SolverParams params() const { return params_; }
  [[nodiscard]] cublasHandle_t blas() const { return blas_; }

 private:
  DeviceGuard device_;
  std::unique_lock<std::mutex> lock_;
  SolverHandle solver_;
  SolverParams params_;
  cublasHandle_t blas_;
};

template <class T>
const Solver<T>& solver() {
  static const Solver<T> functions = [] {
    constexpr bool is_complex = is_complex_type<T>;
    constexpr char letter = is_complex ? (sizeof(T) == 8 ? 'C' : 'Z') : sizeof(T) == 4 ? 'S' : 'D';
    Solver<T> found{};
    const auto take = [&](auto& function, const std::string& name) {
      solver_library().take(function, ("cusolverDn" + std::string(1, letter) + name).c_str());
    };
    const std::string un = is_complex ? "un" : "or", heevd = is_complex ? "heevd" : "syevd";
    take(found.getrf_size, "getrf_bufferSize"), take(found.getrf, "getrf");
    take(found.getrs, "getrs");
    take(found.potrf_size, "potrf_bufferSize"), take(found.potrf, "potrf");
    take(found.potrf_batched, "potrfBatched");
    take(found.sytrf_size, "sytrf_bufferSize"), take(found.sytrf, "sytrf");
    take(found.geqrf_size, "geqrf_bufferSize"), take(found.geqrf, "geqrf");
    take(found.ungqr_size, un + "gqr_bufferSize"), take(found.ungqr, un + "gqr");
    take(found.unmqr_size, un + "mqr_bufferSize"), take(found.unmqr, un + "mqr");
    take(found.gesvd_size, "gesvd_bufferSize"), take(found.gesvd, "gesvd");
    take(found.heevd_size, heevd + "_bufferSize"), take(found.heevd, heevd);
    return found;
  }();
  return functions;
}

// Calls body(tag of the device's element type).
template <class Body>
void for_matrix_type(const char* op, DType dtype, const Body& body) {
  dispatch<solver_dtypes>(op, dtype,
                          [&](auto tag) { body(TypeTag<Stored<typename decltype(tag)::type>>()); });
}

// A batch of column-major matrices without gaps.
template <class T>
struct MatrixBatch {
  T* data;
  int64_t step, count;
  int rows, cols, ld;
  explicit MatrixBatch(const Tensor& x)
      : MatrixBatch(static_cast<T*>(x.raw()), narrow(x, -2), narrow(x, -1), 1) {
    for (const int64_t size : x.sizes().first(x.dim() - 2)) count *= size;
  }
  MatrixBatch(T* memory, int m, int n, int64_t number)
      : data(memory), step(int64_t{m} * n), count(number), rows(m), cols(n), ld(std::max(m, 1)) {}
  T* operator[](int64_t i) const { return data + i * step; }

 private:
  static int narrow(const Tensor& x, int64_t dim) {
    CHECK(x.size(dim) <= INT32_MAX, RuntimeError,
          "linalg: a matrix of shape {} is too large for cuSOLVER", x.sizes());
    return static_cast<int>(x.size(dim));
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    list_matrices(T** list, T* data, int64_t step, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < count) list[i] = data + i * step;
}

// The addresses of a batch's matrices, in device memory.
template <class T>
class MatrixList {
 public:
  MatrixList(const char* op, const MatrixBatch<T>& m, int device)
      : memory_(m.count * sizeof(T*), device) {
    launch(op, list_matrices<T>, blocks_for(m.count, block_size), block_size, get(), m.data, m.step,
           m.count);
  }
  [[nodiscard]] T** get() const { return memory_.template get<T*>(); }

 private:
  Workspace memory_;
};

// Many small matrices are worked on together.
template <class T>
bool is_many(const MatrixBatch<T>& m) {
  return m.count > 1 && m.rows == m.cols && m.rows <= 256;
}

// to = the conjugate transpose of each matrix of `from`.
template <class T>
__global__ void __launch_bounds__(block_size)
    turn_matrices(const T* from, T* to, int64_t numel, int64_t rows, int64_t cols) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (e >= numel) return;
  // Element (i, j) of `from`, column by column.
  const int64_t step = rows * cols, matrix = e / step, i = e % step % rows, j = e % step / rows;
  T value = from[e];
  if constexpr (is_complex_type<T>) value = T(value.real(), -value.imag());
  to[matrix * step + i * cols + j] = value;
}
template <class T>
void conjugate_transpose(const char* op, const MatrixBatch<T>& from, T* to) {
  const int64_t numel = from.step * from.count;
  if (numel == 0) return;
  launch(op, turn_matrices<T>, blocks_for(numel, block_size), block_size, from.data, to, numel,
         int64_t{from.rows}, int64_t{from.cols});
}

// The types that cuBLAS has for the same memory.
template <class T>
struct BlasTypeOf {
  using type = T;
};
template <>
struct BlasTypeOf<DeviceComplex<float>> {
  using type = cuComplex;
};
template <>
struct BlasTypeOf<DeviceComplex<double>> {
  using type = cuDoubleComplex;
};
template <class T>
auto* as_blas(T* data) {
  return reinterpret_cast<typename BlasTypeOf<T>::type*>(data);
}
template <class T>
auto* as_blas(const T* data) {
  return reinterpret_cast<const typename BlasTypeOf<T>::type*>(data);
}
template <class T>
auto* as_blas(T** list) {
  return reinterpret_cast<typename BlasTypeOf<T>::type**>(list);
}

#define BLAS_FUNCTION(name, Function)                               \
  template <class T, class... Args>                                 \
  cublasStatus_t name(Args... args) {                               \
    if constexpr (std::is_same_v<T, float>) {                       \
      return cublasS##Function(args...);                            \
    } else if constexpr (std::is_same_v<T, double>) {               \
      return cublasD##Function(args...);                            \
    } else if constexpr (std::is_same_v<T, DeviceComplex<float>>) { \
      return cublasC##Function(args...);                            \
    } else {                                                        \
      return cublasZ##Function(args...);                            \
    }                                                               \
  }
BLAS_FUNCTION(blas_trsm, trsm)
BLAS_FUNCTION(blas_trsm_batched, trsmBatched)
BLAS_FUNCTION(blas_getrf_batched, getrfBatched)
BLAS_FUNCTION(blas_getrs_batched, getrsBatched)
#undef BLAS_FUNCTION

// b becomes the solution of op(a) x = b (left) or x op(a) = b, for triangles a.
template <class T>
void solve_triangles(const char* op, const SolverGuard& guard, const MatrixBatch<T>& a,
                     const MatrixBatch<T>& b, cublasSideMode_t side, cublasFillMode_t part,
                     cublasOperation_t how, cublasDiagType_t diagonal, int device) {
  const T one(1);
  if (b.count > 1 && a.rows <= 256) {
    const MatrixList<T> of_a(op, a, device), of_b(op, b, device);
    check_blas(blas_trsm_batched<T>(guard.blas(), side, part, how, diagonal, b.rows, b.cols,
                                    as_blas(&one), as_blas(of_a.get()), a.ld, as_blas(of_b.get()),
                                    b.ld, static_cast<int>(b.count)),
               op);
    return;
  }
  for (int64_t i = 0; i < b.count; ++i) {
    check_blas(blas_trsm<T>(guard.blas(), side, part, how, diagonal, b.rows, b.cols, as_blas(&one),
                            as_blas(a[i]), a.ld, as_blas(b[i]), b.ld),
               op);
  }
}

}  // namespace flambeau::cuda
