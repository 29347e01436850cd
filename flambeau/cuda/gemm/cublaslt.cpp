// Products through cuBLASLt. What the library's heuristics pick for a problem is kept, so that a
// repeated product costs one call.
#include <cublasLt.h>

#include <complex>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/gemm/gemm.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/kernels/math_mode.h"

namespace flambeau::cuda {
namespace {

constexpr size_t workspace_limit = size_t{32} << 20;  // what NVIDIA advises for Hopper

void check_lt(cublasStatus_t status, const char* op) {
  CHECK(status == CUBLAS_STATUS_SUCCESS, RuntimeError, "{}: cuBLASLt error: {}", op,
        cublasLtGetStatusString(status));
}

cublasLtHandle_t handle_of(int device) {
  static std::mutex making;
  static auto* handles = new std::vector<cublasLtHandle_t>(device_count());
  const std::lock_guard lock(making);
  cublasLtHandle_t& handle = (*handles)[device];
  if (!handle) check_lt(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

// The types of a product. Single precision is computed in TF32 only where that is allowed.
struct Types {
  cudaDataType_t element, scale;
  cublasComputeType_t compute;
};

Types types_of(const char* op, DType dtype) {
  switch (dtype) {
    case DType::float16: return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bfloat16: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::float32:
      return {CUDA_R_32F, CUDA_R_32F,
              math_mode.matmul_tf32.load(std::memory_order_relaxed) ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                    : CUBLAS_COMPUTE_32F};
    case DType::float64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::complex64: return {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F};
    case DType::complex128: return {CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F};
    default:
      fail<NotImplementedError>("\"{}\" not implemented for '{}'", op, dtype_legacy_name(dtype));
  }
}

// A factor in the type that cuBLASLt reads it in.
struct Factor {
  alignas(16) char bytes[16];
  Factor(const Scalar& value, cudaDataType_t type) {
    const auto put = [this](auto number) { std::memcpy(bytes, &number, sizeof number); };
    if (type == CUDA_R_32F) put(value.to<float>());
    if (type == CUDA_R_64F) put(value.to<double>());
    if (type == CUDA_C_32F) put(value.to<std::complex<float>>());
    if (type == CUDA_C_64F) put(value.to<std::complex<double>>());
  }
};

uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  uint32_t alignment = 256;
  while (address % alignment) alignment /= 2;
  return alignment;
}

// What the choice of an algorithm depends on. Compared as bytes: there is no padding.
struct Key {
  int64_t m, n, k, count, ld[4], batch[4];
  uint32_t alignment[4];
  int device, dtype;
  int64_t flags;
  bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof other) == 0; }
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

struct Choice {
  bool found = false;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
};

// What is done to a product before it is written.
cublasLtEpilogue_t epilogue_of(const LtProduct& p) {
  switch (p.activation) {
    case Activation::relu: return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu: return p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// The descriptors of a product. cuBLASLt is column-major: what it computes is the transposed
// product, b first.
class Problem {
 public:
  Problem(const LtProduct& p, int device)
      : p_(p), types_(types_of(p.op, p.dtype)), device_(device) {
    check_lt(cublasLtMatmulDescInit(&product_, types_.compute, types_.scale), p.op);
    const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
      check_lt(cublasLtMatmulDescSetAttribute(&product_, what, &value, sizeof value), p.op);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    const cudaDataType_t result = p.wide_out ? types_.scale : types_.element;
    describe(b_, p.b, p.k, p.n, types_.element);
    describe(a_, p.a, p.m, p.k, types_.element);
    describe(c_, p.c, p.m, p.n, result);
    describe(out_, p.out, p.m, p.n, result);
  }

  bool run() {
    const Choice choice = choose();
    if (!choice.found) return false;
    const Workspace workspace(choice.workspace, device_);
    const Factor alpha(p_.alpha, types_.scale), beta(p_.beta, types_.scale);
    check_lt(cublasLtMatmul(handle_of(device_), &product_, alpha.bytes, p_.b.data, &b_, p_.a.data,
                            &a_, beta.bytes, p_.c.data, &c_, p_.out.data, &out_, &choice.algorithm,
                            workspace.get(), choice.workspace, current_handle(device_)),
             p_.op);
    return true;
  }

 private:
  // A row-major matrix of rows x cols is a column-major one of cols x rows.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, const LtMatrix& matrix, int64_t rows,
                int64_t cols, cudaDataType_t type) {
    if (!matrix.transposed) std::swap(rows, cols);
    check_lt(cublasLtMatrixLayoutInit(&layout, type, rows, cols, matrix.ld), p_.op);
    if (p_.count == 1) return;
    const auto count = static_cast<int32_t>(p_.count);
    check_lt(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count),
             p_.op);
    check_lt(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &matrix.batch, sizeof matrix.batch),
             p_.op);
  }

  Choice choose() {
    Key key;
    std::memset(&key, 0, sizeof key);
    key.m = p_.m, key.n = p_.n, key.k = p_.k, key.count = p_.count;
    const LtMatrix* matrices[] = {&p_.a, &p_.b, &p_.c, &p_.out};
    for (int i = 0; i < 4; ++i) {
      key.ld[i] = matrices[i]->ld;
      key.batch[i] = matrices[i]->batch;
      key.alignment[i] = alignment_of(matrices[i]->data);
    }
    key.device = device_;
    key.dtype = static_cast<int>(p_.dtype);
    key.flags = p_.a.transposed | p_.b.transposed << 1 | (p_.bias != nullptr) << 2 |
                p_.beta.to<bool>() << 3 | (p_.c.data == p_.out.data) << 4 | p_.wide_out << 5 |
                static_cast<int64_t>(p_.activation) << 6 | int64_t{types_.compute} << 8;
    static std::mutex mutex;
    static auto* known = new std::unordered_map<Key, Choice, KeyHash>;
    const std::lock_guard lock(mutex);
    const auto [at, fresh] = known->try_emplace(key);
    if (fresh) at->second = ask(key);
    return at->second;
  }

  Choice ask(const Key& key) {
    cublasLtMatmulPreferenceOpaque_t preference;
    check_lt(cublasLtMatmulPreferenceInit(&preference), p_.op);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check_lt(cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof value),
               p_.op);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment[1]);  // the library's A is our b
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment[3]);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_of(device_), &product_, &b_, &a_, &c_, &out_, &preference, 1, &result, &found);
    Choice choice;
    if (status == CUBLAS_STATUS_SUCCESS && found && result.state == CUBLAS_STATUS_SUCCESS) {
      choice = {true, result.algo, result.workspaceSize};
    }
    return choice;
  }

  const LtProduct& p_;
  Types types_;
  int device_;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t a_, b_, c_, out_;
};

}  // namespace

bool run_lt(const LtProduct& product, int device) { return Problem(product, device).run(); }

}  // namespace flambeau::cuda
