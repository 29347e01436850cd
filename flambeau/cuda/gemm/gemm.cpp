// Matrix products on the device: brings a Gemm of any strides into the form that cuBLASLt takes,
// by copies where there is no other way.
#include "flambeau/cuda/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/kernels/elementwise.h"
#include "flambeau/kernels/matmul.h"

namespace flambeau::cuda {
namespace {

// --- Elementwise work on matrices ----------------------------------------------------------------

// An iteration over (batch, rows, cols) with the given matrices as operands, the output first.
TensorIter over(const Gemm& p, int64_t rows, int64_t cols,
                std::initializer_list<const Matrix*> operands, int device) {
  TensorIter iter;
  iter.count = static_cast<int>(operands.size());
  iter.outputs = 1;
  iter.device = Device(DeviceType::cuda, device);
  iter.ndim = static_cast<int>(p.batch.size()) + 2;
  iter.numel = rows * cols * p.batch_count();
  iter.shape[0] = cols;
  iter.shape[1] = rows;
  for (size_t d = 0; d < p.batch.size(); ++d) iter.shape[2 + d] = p.batch[p.batch.size() - 1 - d];
  const auto item = static_cast<int64_t>(item_size(p.dtype));
  int k = 0;
  for (const Matrix* matrix : operands) {
    iter.dtypes[k] = p.dtype;
    iter.is_number[k] = false;
    iter.data[k] = static_cast<char*>(matrix->data);
    iter.strides[k][0] = matrix->col * item;
    iter.strides[k][1] = matrix->row * item;
    for (size_t d = 0; d < p.batch.size(); ++d) {
      iter.strides[k][2 + d] = matrix->batch[p.batch.size() - 1 - d] * item;
    }
    ++k;
  }
  return iter;
}

void add_number(TensorIter& iter, const Scalar& value) {
  const int k = iter.count++;
  iter.dtypes[k] = iter.dtypes[0];
  iter.is_number[k] = true;
  iter.data[k] = iter.numbers[k];
  for (int d = 0; d < iter.ndim; ++d) iter.strides[k][d] = 0;
  dispatch<dtypes::All>("mm", iter.dtypes[0], [&](auto tag) {
    const auto number = value.to<typename decltype(tag)::type>();
    std::memcpy(iter.numbers[k], &number, sizeof number);
  });
}

// out = beta * addend, or zero: what a product over no elements gives, or one times zero.
void write_empty_product(const Gemm& p, bool adds, int device) {
  if (adds) {
    TensorIter iter = over(p, p.m, p.n, {&p.out, &p.addend}, device);
    add_number(iter, p.beta);
    kernels::mul(DeviceType::cuda, iter, nullptr);
  } else {
    TensorIter iter = over(p, p.m, p.n, {&p.out}, device);
    add_number(iter, 0);
    kernels::copy(DeviceType::cuda, iter);
  }
}

// --- Operands ------------------------------------------------------------------------------------

// The matrix as the library takes it, if its strides allow.
std::optional<LtMatrix> as_lt(const Matrix& x, int64_t rows, int64_t cols) {
  if ((x.col == 1 || cols == 1) && (rows == 1 || x.row >= cols)) {
    return LtMatrix{x.data, false, rows == 1 ? cols : x.row, 0};
  }
  if ((x.row == 1 || rows == 1) && (cols == 1 || x.col >= rows)) {
    return LtMatrix{x.data, true, cols == 1 ? rows : x.col, 0};
  }
  return {};
}

// A matrix with contiguous rows in memory of its own; what was broadcast over the batch stays so.
class DenseCopy {
 public:
  DenseCopy(const Gemm& p, const Matrix& like, int64_t rows, int64_t cols, int device)
      : workspace_(bytes(p, like, rows, cols), device) {
    matrix.data = workspace_.get();
    matrix.row = cols;
    matrix.col = 1;
    matrix.batch = like.batch;
    int64_t step = rows * cols;
    for (size_t d = p.batch.size(); d-- > 0;) {
      if (like.batch[d] == 0) continue;
      matrix.batch[d] = step;
      step *= p.batch[d];
    }
  }
  Matrix matrix;

 private:
  static size_t bytes(const Gemm& p, const Matrix& like, int64_t rows, int64_t cols) {
    int64_t count = rows * cols;
    for (size_t d = 0; d < p.batch.size(); ++d) count *= like.batch[d] ? p.batch[d] : 1;
    return static_cast<size_t>(count) * item_size(p.dtype);
  }
  Workspace workspace_;
};

// A matrix product, out row-major, of one batch dimension or none at a time.
class Product {
 public:
  Product(const Gemm& p, int device)
      : p_(p), device_(device), adds_(p.addend.data && p.beta.to<bool>()) {}

  void run() {
    const LtMatrix a = ready(p_.a, p_.m, p_.k, a_copy_), b = ready(p_.b, p_.k, p_.n, b_copy_);
    const auto target = as_lt(p_.out, p_.m, p_.n);
    const bool direct = target && !target->transposed;
    if (!direct) out_copy_.emplace(p_, p_.out, p_.m, p_.n, device_);
    const Matrix& out = direct ? p_.out : out_copy_->matrix;
    LtProduct product{p_.op,
                      p_.dtype,
                      p_.m,
                      p_.n,
                      p_.k,
                      1,
                      a,
                      b,
                      {},
                      *as_lt(out, p_.m, p_.n),
                      nullptr,
                      p_.alpha,
                      adds_ ? p_.beta : Scalar(0)};
    product.c = product.out;
    const Matrix* c = &out;
    if (adds_) c = place_addend(product, out);
    multiply_batches(product, out, *c);
    if (!direct) copy(p_.out, out, p_.m, p_.n);
  }

 private:
  void copy(const Matrix& to, const Matrix& from, int64_t rows, int64_t cols) {
    kernels::copy(DeviceType::cuda, over(p_, rows, cols, {&to, &from}, device_));
  }

  LtMatrix ready(Matrix& x, int64_t rows, int64_t cols, std::optional<DenseCopy>& scratch) {
    if (const auto usable = as_lt(x, rows, cols)) return *usable;
    scratch.emplace(p_, x, rows, cols, device_);
    copy(scratch->matrix, x, rows, cols);
    x = scratch->matrix;
    return *as_lt(x, rows, cols);
  }

  // Says where the addend is read: as a bias, where it lies, or from the output after a copy.
  const Matrix* place_addend(LtProduct& product, const Matrix& out) {
    const Matrix& addend = p_.addend;
    const bool one_for_all =
        std::all_of(addend.batch.begin(), addend.batch.end(), [](int64_t s) { return s == 0; });
    const bool can_bias =
        p_.dtype == DType::float32 || p_.dtype == DType::float16 || p_.dtype == DType::bfloat16;
    const bool aligned = reinterpret_cast<uintptr_t>(addend.data) % 16 == 0;
    if (can_bias && aligned && addend.row == 0 && addend.col == 1 && one_for_all &&
        p_.beta == Scalar(1) && p_.m > 1 && p_.n > 1) {
      product.bias = addend.data;
      product.beta = 0;
      return &out;
    }
    const auto usable = as_lt(addend, p_.m, p_.n);
    if (usable && !usable->transposed) {
      product.c = *usable;
      return &addend;
    }
    copy(out, addend, p_.m, p_.n);
    return &out;
  }

  void multiply_batches(LtProduct& product, const Matrix& out, const Matrix& c) {
    const size_t rank = p_.batch.size();
    int64_t outer = 1;
    if (rank > 0) {
      product.count = p_.batch[rank - 1];
      product.a.batch = p_.a.batch[rank - 1];
      product.b.batch = p_.b.batch[rank - 1];
      product.c.batch = c.batch[rank - 1];
      product.out.batch = out.batch[rank - 1];
      for (size_t d = 0; d + 1 < rank; ++d) outer *= p_.batch[d];
    }
    for (int64_t index = 0; index < outer; ++index) {
      LtProduct one = product;
      one.a.data = at(p_.a, index);
      one.b.data = at(p_.b, index);
      one.c.data = at(c, index);
      one.out.data = at(out, index);
      if (run_lt(one, device_)) continue;
      CHECK(one.bias, RuntimeError,
            "{}: cuBLASLt has no algorithm for {} of shapes [{}, {}] and [{}, {}]", p_.op, p_.dtype,
            p_.m, p_.k, p_.k, p_.n);
      // A bias that cannot be added on the way: lay it into the output and add to that.
      if (index == 0) copy(out, p_.addend, p_.m, p_.n);
      product.bias = one.bias = nullptr;
      product.beta = one.beta = 1;
      CHECK(run_lt(one, device_), RuntimeError, "{}: cuBLASLt has no algorithm for {}", p_.op,
            p_.dtype);
    }
  }

  // The matrix of one index of the outer dimensions of the batch.
  char* at(const Matrix& x, int64_t index) const {
    int64_t offset = 0;
    for (size_t d = p_.batch.size(); d-- > 1;) {
      offset += index % p_.batch[d - 1] * x.batch[d - 1];
      index /= p_.batch[d - 1];
    }
    return static_cast<char*>(x.data) + offset * static_cast<int64_t>(item_size(p_.dtype));
  }

  Gemm p_;
  int device_;
  bool adds_;
  std::optional<DenseCopy> a_copy_, b_copy_, out_copy_;
};

Gemm transposed(const Gemm& p) {
  Gemm t = p;
  std::swap(t.m, t.n);
  std::swap(t.a, t.b);
  for (Matrix* x : {&t.a, &t.b, &t.out, &t.addend}) std::swap(x->row, x->col);
  return t;
}

void gemm_kernel(const Gemm& p) {
  if (p.m == 0 || p.n == 0 || p.batch_count() == 0) return;
  CHECK(dtypes::FloatingComplex.has(p.dtype), NotImplementedError,
        "\"addmm_cuda\" not implemented for '{}'", dtype_legacy_name(p.dtype));
  const int device = device_of(p.out.data);
  const DeviceGuard guard(device);
  if (p.k == 0 || !p.alpha.to<bool>())
    return write_empty_product(p, p.addend.data && p.beta.to<bool>(), device);
  // Out with contiguous columns is the transposed product with contiguous rows.
  const auto out = as_lt(p.out, p.m, p.n);
  Product(out && out->transposed ? transposed(p) : p, device).run();
}

std::optional<LtMatrix> as_lt(const Tensor& x) {
  Matrix matrix;
  matrix.data = x.raw(), matrix.row = x.stride(0), matrix.col = x.stride(1);
  return as_lt(matrix, x.size(0), x.size(1));
}

void gemm_activation_kernel(const Tensor& out, const Tensor& bias, const Tensor& a, const Tensor& b,
                            const Scalar& alpha, bool gelu, bool& done) {
  const auto left = as_lt(a), right = as_lt(b), target = as_lt(out);
  done = left && right && reinterpret_cast<uintptr_t>(bias.raw()) % 16 == 0;
  if (!done) return;
  const int device = out.device().index;
  const DeviceGuard guard(device);
  LtProduct product{"_addmm_activation",
                    out.dtype(),
                    out.size(0),
                    out.size(1),
                    a.size(1),
                    1,
                    *left,
                    *right,
                    *target,
                    *target,
                    bias.raw(),
                    alpha,
                    Scalar(0)};
  product.activation = gelu ? Activation::gelu : Activation::relu;
  done = run_lt(product, device);
}

const bool filled = (kernels::gemm.fill(DeviceType::cuda, gemm_kernel),
                     kernels::gemm_activation.fill(DeviceType::cuda, gemm_activation_kernel), true);

}  // namespace
}  // namespace flambeau::cuda
