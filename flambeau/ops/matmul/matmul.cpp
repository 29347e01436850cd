// mm, bmm, matmul, mv, dot and relatives: shape rules and derivatives over one slot.
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {

// The name under which messages know the kernel of mm, addmm and linear.
static constexpr const char* mm_kernel = "addmm_impl_cpu_";

std::string_view cpp_type_name(DType dtype) {
  switch (dtype) {
    case DType::uint8: return "unsigned char";
    case DType::int8: return "signed char";
    case DType::int16: return "short int";
    case DType::int32: return "int";
    case DType::int64: return "long int";
    case DType::float16: return "c10::Half";
    case DType::bfloat16: return "c10::BFloat16";
    case DType::float32: return "float";
    case DType::float64: return "double";
    case DType::complex64: return "c10::complex<float>";
    case DType::complex128: return "c10::complex<double>";
    case DType::uint16: return "short unsigned int";
    case DType::uint32: return "unsigned int";
    case DType::uint64: return "long unsigned int";
    case DType::bool_: return "bool";
    default: return dtype_legacy_name(dtype);
  }
}

MatrixView as_matrix(const Tensor& tensor, bool transposed) {
  CHECK(tensor.dim() >= 2, RuntimeError, "expected a matrix, got a tensor of shape {}",
        tensor.sizes());
  const size_t batch = tensor.dim() - 2;
  const IntSpan sizes = tensor.sizes(), strides = tensor.strides();
  if (transposed) {
    return {&tensor,        sizes[batch + 1],   sizes[batch],        strides[batch + 1],
            strides[batch], sizes.first(batch), strides.first(batch)};
  }
  return {&tensor,
          sizes[batch],
          sizes[batch + 1],
          strides[batch],
          strides[batch + 1],
          sizes.first(batch),
          strides.first(batch)};
}

MatrixView as_row(const Tensor& vector) {
  return {&vector, 1, vector.numel(), 0, vector.strides()[0], {}, {}};
}

MatrixView as_column(const Tensor& vector) {
  return {&vector, vector.numel(), 1, vector.strides()[0], 0, {}, {}};
}

namespace {

// The strides of a batch broadcast to the sizes of another.
Dims broadcast_batch(const MatrixView& matrix, IntSpan batch) {
  Dims strides(batch.size(), 0);
  const size_t missing = batch.size() - matrix.batch.size();
  for (size_t d = missing; d < batch.size(); ++d) {
    if (matrix.batch[d - missing] != 1) strides[d] = matrix.batch_strides[d - missing];
  }
  return strides;
}

// Joins neighbouring dimensions of the batch that all matrices step through as through one.
void merge_batch(Gemm& p) {
  Matrix* matrices[] = {&p.a, &p.b, &p.out, &p.addend};
  const int count = p.addend.data ? 4 : 3;
  size_t kept = 0;
  for (size_t d = 0; d < p.batch.size(); ++d) {
    if (p.batch[d] == 1) continue;
    bool joins = kept > 0;
    for (int i = 0; i < count && joins; ++i) {
      const Dims& strides = matrices[i]->batch;
      joins = strides[kept - 1] == strides[d] * p.batch[d];
    }
    const size_t to = joins ? kept - 1 : kept++;
    p.batch[to] = joins ? p.batch[to] * p.batch[d] : p.batch[d];
    for (int i = 0; i < count; ++i) matrices[i]->batch[to] = matrices[i]->batch[d];
  }
  p.batch.resize(kept);
  for (int i = 0; i < count; ++i) matrices[i]->batch.resize(kept);
}

// A batch of row blocks times one matrix is one product with more rows.
void fold_batch(Gemm& p) {
  if (p.batch.size() != 1 || p.b.batch[0] != 0) return;
  const auto continues = [&](const Matrix& x) { return x.batch[0] == x.row * p.m || p.m == 1; };
  if (!continues(p.a) || !continues(p.out) || (p.addend.data && !continues(p.addend))) return;
  if (p.m == 1) {
    p.a.row = p.a.batch[0], p.out.row = p.out.batch[0];
    if (p.addend.data) p.addend.row = p.addend.batch[0];
  }
  p.m *= p.batch[0];
  p.batch.clear();
  for (Matrix* x : {&p.a, &p.b, &p.out, &p.addend}) x->batch.clear();
}

}  // namespace

MatrixView as_addend(const Tensor& tensor, const MatrixView& out) {
  MatrixView view{&tensor, out.rows, out.cols, 0, 0, {}, {}};
  const int64_t rank = tensor.dim();
  const IntSpan sizes = tensor.sizes(), strides = tensor.strides();
  if (rank >= 1 && sizes[rank - 1] != 1) view.col = strides[rank - 1];
  if (rank >= 2 && sizes[rank - 2] != 1) view.row = strides[rank - 2];
  if (rank > 2) {
    view.batch = sizes.first(rank - 2);
    view.batch_strides = strides.first(rank - 2);
  }
  return view;
}

void multiply(const char* op, const MatrixView& out, const MatrixView& a, const MatrixView& b,
              const MatrixView& addend, const Scalar& beta, const Scalar& alpha) {
  const DeviceType device = out.tensor->device_type();
  for (const Tensor* operand : {out.tensor, a.tensor, b.tensor}) {
    if (operand->is_sparse()) [[unlikely]]
      refuse_sparse(op, *operand);
  }
  if (device == DeviceType::meta || out.tensor->numel() == 0) return;
  if (a.cols == 0 && !addend.tensor && out.tensor->dim() > 0) {  // sums over nothing
    zero_(*out.tensor);
    return;
  }
  Gemm p;
  p.op = op;
  p.dtype = out.tensor->dtype();
  p.m = out.rows, p.n = out.cols, p.k = a.cols;
  p.a.data = a.tensor->raw(), p.a.row = a.row, p.a.col = a.col;
  p.b.data = b.tensor->raw(), p.b.row = b.row, p.b.col = b.col;
  p.out.data = out.tensor->raw(), p.out.row = out.row, p.out.col = out.col;
  p.alpha = alpha, p.beta = beta;
  if (addend.tensor) {
    p.addend.data = addend.tensor->raw(), p.addend.row = addend.row, p.addend.col = addend.col;
  }
  if (!out.batch.empty()) {
    p.batch = out.batch.dims();
    p.a.batch = broadcast_batch(a, out.batch);
    p.b.batch = broadcast_batch(b, out.batch);
    p.out.batch = out.batch_strides.dims();
    if (addend.tensor) p.addend.batch = broadcast_batch(addend, out.batch);
    merge_batch(p);
    fold_batch(p);
  }
  kernels::gemm(device, p);
}

void check_same_dtype(const Tensor& a, const Tensor& b) {
  CHECK(a.dtype() == b.dtype(), RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: {} != {}", cpp_type_name(a.dtype()),
        cpp_type_name(b.dtype()));
}

void prepare_out(const char* op, const Tensor& out, IntSpan sizes, DType dtype) {
  CHECK(out.dtype() == dtype, RuntimeError,
        "Expected out tensor to have dtype {}, but got {} instead", cpp_type_name(dtype),
        cpp_type_name(out.dtype()));
  if (!(out.sizes() == sizes)) resize_tensor(out, sizes, contiguous_strides(sizes));
  check_no_internal_overlap(op, out);
}

Tensor as_rows(const Tensor& x) {
  if (x.dim() == 2) return x;
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.dim(); ++d) rows *= x.sizes()[d];
  return reshape(x, {rows, x.sizes().back()});
}

bool shares_memory(const Tensor& out, const Tensor& a, const Tensor& b) {
  return out.storage() == a.storage() || out.storage() == b.storage();
}

Tensor write_out(const char* op, const Tensor& out, const Tensor& result) {
  prepare_out(op, out, result.sizes(), result.dtype());
  return copy_(out, result);
}

namespace {

Tensor maybe_conj(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }

// The shape of op(a) @ op(b) with broadcast batches.
Dims product_shape(const MatrixView& a, const MatrixView& b) {
  Dims shape = a.batch.empty()   ? b.batch.dims()
               : b.batch.empty() ? a.batch.dims()
                                 : broadcast_shapes(a.batch, b.batch);
  shape.push_back(a.rows);
  shape.push_back(b.cols);
  return shape;
}

Tensor gradient_a(const Tensor& g, const Tensor& b, bool transpose_a, bool transpose_b) {
  return transpose_a ? product("bmm", b, transpose_b, g, true)
                     : product("bmm", g, false, b, !transpose_b);
}

Tensor gradient_b(const Tensor& g, const Tensor& a, bool transpose_a, bool transpose_b,
                  int64_t b_dim) {
  // Where only a is batched, the batch is summed over: it joins the contracted dimension.
  if (b_dim == 2 && a.dim() > 2 && !transpose_a) {
    return transpose_b ? product("mm", as_rows(g), true, as_rows(a), false)
                       : product("mm", as_rows(a), true, as_rows(g), false);
  }
  return transpose_b ? product("bmm", g, true, a, transpose_a)
                     : product("bmm", a, !transpose_a, g, false);
}

}  // namespace

Saved save_operand(const Record& r, size_t input, const Tensor& operand) {
  if (!r.wants(input)) return {};
  return r.save(operand.dim() != 2 && operand.requires_grad() ? alias(operand) : operand);
}

Tensor product(const char* op, const Tensor& a, bool transpose_a, const Tensor& b,
               bool transpose_b) {
  if ((layered(a) | layered(b)) || active_layers & Active::dispatch) [[unlikely]] {
    return matmul(transpose_a ? transpose(a, -2, -1) : a, transpose_b ? transpose(b, -2, -1) : b);
  }
  const MatrixView left = as_matrix(a, transpose_a), right = as_matrix(b, transpose_b);
  // An operand that was kept may have been given other data since.
  check_same_dtype(a, b);
  CHECK(left.cols == right.rows, RuntimeError, "{}: shapes cannot be multiplied ({} and {})", op,
        a.sizes(), b.sizes());
  Tensor out = left.batch.empty() && right.batch.empty()
                   ? make_tensor({left.rows, right.cols}, a.dtype(), a.device())
                   : make_tensor(product_shape(left, right), a.dtype(), a.device());
  multiply(left.batch.empty() && right.batch.empty() ? mm_kernel : op, as_matrix(out), left, right);
  if (Record r{op, out, {a, b}}) {
    // PyTorch keeps b first and computes its gradient first.
    Saved kept_b = save_operand(r, 0, b);
    r.wrt(1,
          [a = save_operand(r, 1, a), transpose_a, transpose_b, rank = b.dim()](const Tensor& g) {
            return gradient_b(g, maybe_conj(a()), transpose_a, transpose_b, rank);
          });
    r.wrt(0, [b = std::move(kept_b), transpose_a, transpose_b](const Tensor& g) {
      return gradient_a(g, maybe_conj(b()), transpose_a, transpose_b);
    });
  }
  return out;
}

// --- mm and bmm ----------------------------------------------------------------------------------

namespace {

void check_mm(const char* op, const Tensor& a, const Tensor& b) {
  CHECK(a.dim() == 2, RuntimeError, "{}: self must be a matrix, got {}-D tensor", op, a.dim());
  CHECK(b.dim() == 2, RuntimeError, "{}: mat2 must be a matrix, got {}-D tensor", op, b.dim());
  CHECK(a.sizes()[1] == b.sizes()[0], RuntimeError,
        "{}: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", op, a.sizes()[0],
        a.sizes()[1], b.sizes()[0], b.sizes()[1]);
  check_same_dtype(a, b);
  check_same_device(op, a.device(), b.device());
}

void check_bmm(const char* op, const Tensor& a, const Tensor& b) {
  CHECK(a.dim() == 3, RuntimeError, "batch1 must be a 3D tensor, got {}D ({})", a.dim(), op);
  CHECK(b.dim() == 3, RuntimeError, "batch2 must be a 3D tensor, got {}D ({})", b.dim(), op);
  CHECK(
      a.sizes()[0] == b.sizes()[0] && a.sizes()[2] == b.sizes()[1], RuntimeError,
      "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
      a.sizes()[0], a.sizes()[2], b.sizes()[0], b.sizes()[1]);
  CHECK(a.dtype() == b.dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(a.dtype()), dtype_legacy_name(b.dtype()));
  check_same_device(op, a.device(), b.device());
}

}  // namespace

Tensor mm(const Tensor& input, const Tensor& mat2) {
  REDIRECT(mm, input, mat2)
  check_mm("mm", input, mat2);
  return product("mm", input, false, mat2, false);
}
static Tensor mm_out(const Tensor& input, const Tensor& mat2, const Tensor& out) {
  check_mm("mm", input, mat2);
  if (shares_memory(out, input, mat2))
    return write_out("mm", out, product("mm", input, false, mat2, false));
  prepare_out("mm", out, {input.sizes()[0], mat2.sizes()[1]}, input.dtype());
  multiply(mm_kernel, as_matrix(out), as_matrix(input), as_matrix(mat2));
  out.bump_version("mm");
  return out;
}
OP(mm, "mm(input, mat2)", "The product of two matrices.", autocast_low)
OP_OUT(mm_out, "mm(input, mat2, *, out)")

Tensor bmm(const Tensor& input, const Tensor& mat2) {
  REDIRECT(bmm, input, mat2)
  check_bmm("bmm", input, mat2);
  return product("bmm", input, false, mat2, false);
}
static Tensor bmm_out(const Tensor& input, const Tensor& mat2, const Tensor& out) {
  check_bmm("bmm", input, mat2);
  if (shares_memory(out, input, mat2))
    return write_out("bmm", out, product("bmm", input, false, mat2, false));
  const Dims shape{input.sizes()[0], input.sizes()[1], mat2.sizes()[2]};
  prepare_out("bmm", out, shape, input.dtype());
  multiply("bmm", as_matrix(out), as_matrix(input), as_matrix(mat2));
  out.bump_version("bmm");
  return out;
}
OP(bmm, "bmm(input, mat2)", "The products of the matrices of two batches.",
   event(3) | autocast_low | takes_nested)
OP_OUT(bmm_out, "bmm(input, mat2, *, out)")

// --- Vectors -------------------------------------------------------------------------------------

namespace {

void check_dot(const char* op, const Tensor& a, const Tensor& b) {
  CHECK(a.dim() == 1 && b.dim() == 1, RuntimeError,
        "1D tensors expected, but got {}D and {}D tensors ({})", a.dim(), b.dim(), op);
  CHECK(a.dtype() == b.dtype(), RuntimeError,
        "dot : expected both vectors to have same dtype, but found {} and {}",
        dtype_legacy_name(a.dtype()), dtype_legacy_name(b.dtype()));
  CHECK(a.numel() == b.numel(), RuntimeError,
        "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of "
        "elements, but got {} and {} elements respectively",
        a.numel(), b.numel(), a.numel(), b.numel());
  check_same_device(op, a.device(), b.device());
}

void check_mv(const Tensor& mat, const Tensor& vec, int64_t input) {
  CHECK(mat.dim() > 0, IndexError, "Dimension specified as 0 but tensor has no dimensions");
  CHECK(mat.dim() == 2 && vec.dim() == 1, RuntimeError,
        "vector + matrix @ vector expected, got 1, {}, {}", mat.dim(), vec.dim());
  CHECK(mat.sizes()[1] == vec.numel() && (input == mat.sizes()[0] || input == 1), RuntimeError,
        "size mismatch, got input ({}), mat ({}x{}), vec ({})", input, mat.sizes()[0],
        mat.sizes()[1], vec.numel());
  check_same_device("mv", mat.device(), vec.device());
}

void check_mv_dtypes(const Tensor& input, const Tensor& mat, const Tensor& vec) {
  CHECK(mat.dtype() == vec.dtype() && input.dtype() == vec.dtype(), RuntimeError,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(mat.dtype()),
        dtype_legacy_name(vec.dtype()));
}

}  // namespace

Tensor dot(const Tensor& input, const Tensor& tensor) {
  REDIRECT(dot, input, tensor)
  check_dot("dot", input, tensor);
  Tensor out = make_tensor({}, input.dtype(), input.device());
  const MatrixView scalar{&out, 1, 1, 0, 0, {}, {}};
  multiply("dot", scalar, as_row(input), as_column(tensor));
  if (Record r{"dot", out, {input, tensor}}) {
    r.wrt(1, [a = r.save_for(1, input)](const Tensor& g) { return mul_conj(g, a()); });
    r.wrt(0, [b = r.save_for(0, tensor)](const Tensor& g) { return mul_conj(g, b()); });
  }
  return out;
}
OP(dot, "dot(input, tensor)", "The sum of the products of the elements of two vectors.",
   cuda_widest)

static Tensor vdot(const Tensor& input, const Tensor& other) {
  check_dot("vdot", input, other);
  return dot(maybe_conj(input), other);
}
OP((one_step<vdot, "vdot">), "vdot(input, other)",
   "The dot product of the conjugate of input with other.", cuda_widest)

static Tensor outer(const Tensor& input, const Tensor& vec2) {
  CHECK(input.dim() == 1, RuntimeError, "outer: Expected 1-D argument self, but got {}-D",
        input.dim());
  CHECK(vec2.dim() == 1, RuntimeError, "outer: Expected 1-D argument vec2, but got {}-D",
        vec2.dim());
  return mul(unsqueeze(input, 1), vec2);
}
OP(outer, "outer(input, vec2)", "The matrix of all products of elements of two vectors.",
   casts_out | composed)
OP(outer, "ger(input, vec2)", "The same as outer.", casts_out | composed)

static Tensor mv(const Tensor& input, const Tensor& vec) {
  check_mv(input, vec, input.dim() == 2 ? input.sizes()[0] : 1);
  check_mv_dtypes(vec, input, vec);
  Tensor out = make_tensor({input.sizes()[0]}, input.dtype(), input.device());
  multiply("mv", as_column(out), as_matrix(input), as_column(vec));
  if (Record r{"mv", out, {input, vec}}) {
    r.wrt(1, [a = r.save_for(1, input)](const Tensor& g) {
      return mv(transpose(maybe_conj(a()), 0, 1), g);
    });
    r.wrt(0, [v = r.save_for(0, vec)](const Tensor& g) { return outer(g, maybe_conj(v())); });
  }
  return out;
}
OP(mv, "mv(input, vec)", "The product of a matrix and a vector.", cuda_low)

// --- matmul --------------------------------------------------------------------------------------

namespace {

// Raises what PyTorch raises for the product it would make of these batches.
void check_matmul(const Tensor& a, const Tensor& b) {
  const int64_t k = a.size(-1), rows = b.size(-2);
  if (k != rows) {
    if (b.dim() == 2) {
      fail<RuntimeError>("mm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
                         a.numel() / std::max<int64_t>(k, 1), k, rows, b.size(-1));
    }
    const Dims batch = broadcast_shapes(a.sizes().first(a.dim() - 2), b.sizes().first(b.dim() - 2));
    const int64_t count = checked_numel(batch);
    fail<RuntimeError>(
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, "
        "{}].",
        count, k, count, rows);
  }
  if (a.dtype() != b.dtype()) {
    if (b.dim() == 2) check_same_dtype(a, b);
    fail<RuntimeError>("expected scalar type {} but found {}", dtype_legacy_name(a.dtype()),
                       dtype_legacy_name(b.dtype()));
  }
  check_same_device("matmul", a.device(), b.device());
}

// A product without the dimension that a vector had not: nobody else has it, so it is no view.
Tensor without(const Tensor& product, int64_t dim) {
  Tensor out = squeeze(product, dim);
  out->view_base = nullptr;
  return out;
}

Tensor matmul_with_vector(const Tensor& a, const Tensor& b) {
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (b.dim() == 1 && a.dim() == 2) return mv(a, b);
  if (a.dim() == 1) {
    const Tensor row = unsqueeze(a, 0);
    check_matmul(row, b);
    return without(product(b.dim() == 2 ? "mm" : "bmm", row, false, b, false), -2);
  }
  const int64_t rows = a.numel() / std::max<int64_t>(a.size(-1), 1);
  CHECK(a.size(-1) == b.numel(), RuntimeError,
        "size mismatch, got input ({}), mat ({}x{}), vec ({})", rows, rows, a.size(-1), b.numel());
  check_mv_dtypes(b, a, b);
  check_same_device("matmul", a.device(), b.device());
  return without(product("mv", a, false, unsqueeze(b, 1), false), -1);
}

}  // namespace

Tensor matmul(const Tensor& input, const Tensor& other) {
  REDIRECT(matmul, input, other)
  const int64_t left = input.dim(), right = other.dim();
  if (left == 2 && right == 2) return mm(input, other);
  CHECK(left > 0 && right > 0, RuntimeError,
        "both arguments to matmul need to be at least 1D, but they are {}D and {}D", left, right);
  if (left == 1 || right == 1) return matmul_with_vector(input, other);
  check_matmul(input, other);
  return product("bmm", input, false, other, false);
}
OP(matmul, "matmul(input, other)",
   "The product of two tensors as matrices: the last two dimensions are multiplied, those before "
   "are broadcast, and vectors are taken as rows on the left and as columns on the right.",
   autocast_low | takes_nested | composed)

static Tensor matmul_out(const Tensor& input, const Tensor& other, const Tensor& out) {
  if (input.dim() == 2 && other.dim() == 2) return mm_out(input, other, out);
  if (input.dim() < 2 || other.dim() < 2 || shares_memory(out, input, other)) {
    return write_out("matmul", out, matmul(input, other));
  }
  check_matmul(input, other);
  const MatrixView left = as_matrix(input), right = as_matrix(other);
  prepare_out("matmul", out, product_shape(left, right), input.dtype());
  multiply("bmm", as_matrix(out), left, right);
  out.bump_version("matmul");
  return out;
}
OP_OUT(matmul_out, "matmul(input, other, *, out)")

// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {

// As rows or columns where samples are vectors, then with the batch in front of all leading
// dimensions.
bool batch_matmul(Batching& batch, Result& result) {
  const Tensor a = batch.tensor(0), b = batch.tensor(1);
  if (a.dim() == 0 || b.dim() == 0) return false;
  const bool row = a.dim() == 1, column = b.dim() == 1;
  const int64_t rank = std::max({a.dim() + row, b.dim() + column});
  const auto aligned = [&](const Tensor& one, bool vector, int64_t at) {
    Tensor x = batch.samples(one);
    if (vector) x = unsqueeze_at(x, at);
    if (!batch.is_batched(one)) return x;
    for (int64_t d = one.dim() + vector; d < rank; ++d) x = unsqueeze_at(x, 1);
    return x;
  };
  result.form = Result::Form::tensor;
  result.tensor = tensor_op("matmul", {aligned(a, row, -2), aligned(b, column, -1)});
  if (column) result.tensor = squeeze_at(result.tensor, -1);
  if (row) result.tensor = squeeze_at(result.tensor, column ? -1 : -2);
  return true;
}
// By matmul, where the factors have as many dimensions as the op asks for.
bool batch_product(Batching& batch, Result& result, int64_t left, int64_t right) {
  return batch.rank(0) == left && batch.rank(1) == right && batch_matmul(batch, result);
}

}  // namespace
BATCH(matmul, batch_matmul)
BATCH(linalg_matmul, batch_matmul)
BATCH(mm, [](Batching& batch, Result& result) { return batch_product(batch, result, 2, 2); })
BATCH(bmm, [](Batching& batch, Result& result) {
  return batch.rank(0) == 3 && batch.rank(1) == 3 &&
         batch.tensor(0).size(0) == batch.tensor(1).size(0) && batch_matmul(batch, result);
})
BATCH(mv, [](Batching& batch, Result& result) { return batch_product(batch, result, 2, 1); })
BATCH(dot, [](Batching& batch, Result& result) { return batch_product(batch, result, 1, 1); })

// What PyTorch makes of them.
static Tensor outer_steps(const Tensor& input, const Tensor& vec2) {
  return mul(view(input, {input.size(0), 1}), vec2);
}
STEPS(outer, outer_steps)
STEPS(ger, outer_steps)

static Tensor unsafe_view(const Tensor& input, IntSpan size) { return view(input, size); }
OP_FUNCTION(unsafe_view, "_unsafe_view(input, size)", "A view of what nobody else holds.", reshapes)

static Dims batched_as(IntSpan batch, int64_t rows, int64_t columns) {
  Dims sizes = batch.dims();
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}
static Tensor matmul_steps(const Tensor& input, const Tensor& other) {
  const int64_t left = input.dim(), right = other.dim();
  if (left == 0 || right == 0) return {};
  if (left == 1 && right == 1) return dot(input, other);
  if (left == 2 && right == 1) return tensor_op("mv", {input, other});
  if (left == 2 && right == 2) return mm(input, other);
  if (left == 1 && right == 2) return squeeze(mm(unsqueeze(input, 0), other), int64_t{0});
  if (left == 1) return matmul_steps(transpose(other, -2, -1), input);
  if (right == 1) {
    const Tensor product = tensor_op("mv", {reshape(input, {-1, input.size(-1)}), other});
    return tensor_op("_unsafe_view", {product, input.sizes().first(left - 1)});
  }
  if (left == 2 && input.requires_grad()) {  // a sum over the batch less in backward
    const Tensor product = matmul_steps(transpose(other, -2, -1), transpose(input, 0, 1));
    return transpose(product, -2, -1);
  }
  const int64_t rows = input.size(-2), shared = input.size(-1), columns = other.size(-1);
  if (right == 2) {
    const Tensor product = mm(reshape(input, {-1, shared}), other);
    const Dims sizes = batched_as(input.sizes().first(left - 2), rows, columns);
    return tensor_op("_unsafe_view", {product, sizes});
  }
  const Dims batch =
      broadcast_shapes(input.sizes().first(left - 2), other.sizes().first(right - 2));
  const int64_t count = checked_numel(batch);
  const Tensor a = reshape(expand(input, batched_as(batch, rows, shared)), {count, rows, shared});
  const Tensor b =
      reshape(expand(other, batched_as(batch, shared, columns)), {count, shared, columns});
  return tensor_op("_unsafe_view", {bmm(a, b), batched_as(batch, rows, columns)});
}
STEPS(matmul, matmul_steps)

}  // namespace flambeau
