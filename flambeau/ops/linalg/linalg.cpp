#include "flambeau/ops/linalg/linalg.h"

#include <cmath>
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/base/current_op.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

void check_matrix(std::string_view op, const Tensor& a, std::string_view name) {
  CHECK(a.dim() >= 2, RuntimeError, "{}: The input tensor {} must have at least 2 dimensions.", op,
        name);
}

void check_square(std::string_view op, const Tensor& a, std::string_view name) {
  check_matrix(op, a, name);
  CHECK(a.size(-2) == a.size(-1), RuntimeError,
        "{}: {} must be batches of square matrices, but they are {} by {} matrices", op, name,
        a.size(-2), a.size(-1));
}

void check_float(std::string_view op, const Tensor& a, bool low_precision) {
  CHECK(is_differentiable(a.dtype()), NotImplementedError,
        "{}: Expected a floating point or complex tensor as input. Got {}", op,
        dtype_legacy_name(a.dtype()));
  CHECK(low_precision || !dtypes::Reduced.has(a.dtype()), NotImplementedError,
        "{}: Low precision dtypes not supported. Got {}", op, dtype_legacy_name(a.dtype()));
}

void check_alike(std::string_view op, const Tensor& a, const Tensor& b, std::string_view name_a,
                 std::string_view name_b) {
  CHECK(a.dtype() == b.dtype(), RuntimeError,
        "{}: Expected {} and {} to have the same dtype, but found {} of type {} and {} of type {} "
        "instead",
        op, name_a, name_b, name_a, dtype_legacy_name(a.dtype()), name_b,
        dtype_legacy_name(b.dtype()));
  check_same_device(op, a.device(), b.device());
}

void check_system(std::string_view op, const Tensor& a, const Tensor& b, bool left) {
  CHECK(left ? a.size(-2) == b.size(-2) : a.size(-1) == b.size(-1), RuntimeError,
        "{}: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})", op,
        left ? "AX = B" : "XA = B", a.size(-2), a.size(-1), b.size(-2), b.size(-1));
}

void check_info(std::string_view op, const Tensor& info, std::string (*sentence)(int code),
                bool as_runtime_error) {
  if (info.device().is_meta()) return;
  const Tensor host = info.device_type() == DeviceType::cpu ? info : to(info, Device());
  const int* codes = host.data<int>();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (codes[i] == 0) continue;
    const std::string where = info.dim() > 0 ? format("(Batch element {}): ", i) : "";
    const std::string message = format("{}: {}{}", op, where, sentence(codes[i]));
    if (as_runtime_error) throw RuntimeError(message);
    throw LinAlgError(message);
  }
}

Dims with_matrix(IntSpan batch, int64_t rows, int64_t columns) {
  Dims sizes = batch.dims();
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}

static Dims column_strides(IntSpan sizes) {
  Dims transposed = sizes.dims();
  const size_t rank = transposed.size();
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  Dims strides = contiguous_strides(transposed);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return strides;
}

Tensor make_columns(IntSpan sizes, DType dtype, Device device) {
  return make_strided(sizes, column_strides(sizes), dtype, device);
}

static Dims broadcast_sizes(const Tensor& x, std::optional<IntSpan> batch) {
  return with_matrix(batch ? *batch : batch_of(x), x.size(-2), x.size(-1));
}

void check_lapack(const Tensor& x) {
  CHECK(is_differentiable(x.dtype()) && !dtypes::Reduced.has(x.dtype()), NotImplementedError,
        "\"{}\" not implemented for '{}'", op_name(current_op), dtype_legacy_name(x.dtype()));
}
Tensor copy_columns(const Tensor& x, std::optional<IntSpan> batch) {
  const NoGrad off;
  Tensor copy = make_columns(broadcast_sizes(x, batch), x.dtype(), x.device());
  copy_(copy, detach(x));
  return copy;
}

Tensor as_columns(const Tensor& x, std::optional<IntSpan> batch) {
  const Dims sizes = broadcast_sizes(x, batch);
  const bool fits = IntSpan(sizes) == x.sizes() && IntSpan(column_strides(sizes)) == x.strides();
  return fits ? detach(x) : copy_columns(x, batch);
}

Tensor make_info(IntSpan batch, Device device) {
  return zeros(batch, {.dtype = DType::int32, .device = device});
}

Tensor expand_batch(const Tensor& x, IntSpan batch) {
  if (batch_of(x) == batch) return x;
  return expand(x, with_matrix(batch, x.size(-2), x.size(-1)));
}

Tensor identity_like(const Tensor& x, int64_t n) {
  const NoGrad off;
  Tensor one = zeros({n, n}, options_of(x));
  fill_(diagonal(one, 0, 0, 1), 1.0);
  return one;
}

Tensor scale_columns(const Tensor& x, const Tensor& by) { return x * unsqueeze(by, -2); }
Tensor scale_rows(const Tensor& x, const Tensor& by) { return x * unsqueeze(by, -1); }
Tensor add_to_diagonal(const Tensor& x, const Tensor& d) {
  return x + identity_like(d, d.size(-1)) * unsqueeze(d, -1);
}
Tensor diagonal_of(const Tensor& x) { return diagonal(x, 0, -2, -1); }
Tensor zero_diagonal(const Tensor& x) {
  return masked_fill(x, to(identity_like(x, x.size(-1)), DType::bool_), 0.0);
}

Tensor in_columns(const Tensor& x) { return mT(contiguous(mT(x))); }

void record_constant(const char* op, const Tensor& out, const Tensor& a, const Tensor& b) {
  if (Record r{op, out, {a, b}}) {
    r.all([kept_a = r.save(a), kept_b = b.defined() ? r.save(b) : Saved()](Grads&, Grads& to) {
      to[0] = zeros_like(kept_a());
      if (kept_b.defined()) to[1] = zeros_like(kept_b());
    });
  }
}

bool has_phase(const Tensor& diagonal) {
  if (!diagonal.is_complex() || diagonal.device().is_meta() || diagonal.numel() == 0) return false;
  const NoGrad off;
  const Tensor d = detach(diagonal);
  const double largest_imaginary = item(amax(abs(imag(d)), std::nullopt, false)).to_double();
  const double tolerance = d.dtype() == DType::complex64 ? 1e-2 : 1e-5;
  return largest_imaginary > tolerance;
}

}  // namespace flambeau
