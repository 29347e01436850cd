// Products with something added: addmm, addmv, addr, baddbmm, addbmm, linear, bilinear. The addend
// broadcasts to the product; with beta 0 it is not read.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

Tensor maybe_conj(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }

Scalar conj_scalar(const Scalar& x) {
  return x.is_complex() ? Scalar(std::conj(x.to<std::complex<double>>())) : x;
}

// g times a factor of the forward.
Tensor scaled(const Tensor& g, const Scalar& factor) {
  return factor == Scalar(int64_t{1}) ? g : mul(g, conj_scalar(factor));
}

void check_factor(const Scalar& factor, DType dtype) {
  CHECK(!factor.is_complex() || is_complex(dtype), RuntimeError,
        "value cannot be converted to type {} without overflow", cpp_type_name(dtype));
}

void check_expands(const Tensor& input, IntSpan shape) {
  if (can_broadcast_to(input.sizes(), shape)) return;
  const size_t rank = input.dim();
  CHECK(rank <= shape.size(), RuntimeError,
        "expand(torch.{}Tensor{{}}, size={}): the number of sizes provided ({}) must be greater or "
        "equal to the number of dimensions in the tensor ({})",
        dtype_legacy_name(input.dtype()), input.sizes(), shape, shape.size(), rank);
  for (size_t d = shape.size(); d-- > shape.size() - rank;) {
    const int64_t have = input.sizes()[d - (shape.size() - rank)];
    CHECK(have == 1 || have == shape[d], RuntimeError,
          "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton "
          "dimension {}.  Target sizes: {}.  Tensor sizes: {}",
          shape[d], have, d, shape, input.sizes());
  }
}

// Where the result of addmm and relatives goes.
enum class Into : uint8_t { fresh, out, input };

// beta * input + alpha * a @ b for matrices or batches of them, checked but for `input`.
struct AddedProduct {
  const char* op;
  const char* kernel;
  Dims shape;
  Scalar beta, alpha;

  Tensor run(const Tensor& input, const Tensor& a, const Tensor& b, Into into = Into::fresh,
             const Tensor& out = {}) const {
    check_same_device(op, a.device(), b.device());
    check_same_device(op, a.device(), input.device());
    check_factor(alpha, a.dtype());
    check_factor(beta, a.dtype());
    if (into == Into::input) {
      CHECK(input.sizes() == shape, RuntimeError,
            "Bad in-place call: input tensor size {} and output tensor size {} should match",
            input.sizes(), shape);
      check_inplace(op, input);
      check_no_internal_overlap(op, input);
    } else {
      check_expands(input, shape);
    }
    // The result overwrites what is still being read if it lies in the memory of an operand.
    const bool clash =
        (into == Into::out && (shares_memory(out, a, b) || out.storage() == input.storage())) ||
        (into == Into::input && shares_memory(input, a, b));
    Tensor result = into == Into::input ? input : out;
    if (into == Into::fresh || clash) {
      result = make_tensor(shape, a.dtype(), a.device());
    } else if (into == Into::out) {
      prepare_out(op, out, shape, a.dtype());
    }
    const MatrixView target = as_matrix(result);
    multiply(kernel, target, as_matrix(a), as_matrix(b), as_addend(input, target), beta, alpha);
    if (into == Into::fresh) return record(Record{op, result, {input, a, b}}, result, a, b);
    if (into == Into::out) return clash ? write_out(op, out, result) : (out.bump_version(op), out);
    if (clash) {
      const NoGrad off;
      copy_(input, result);
    } else {
      input.bump_version(op);
    }
    return record(Record::in_place(op, input, {a, b}), input, a, b);
  }

 private:
  Tensor record(Record r, const Tensor& result, const Tensor& a, const Tensor& b) const {
    if (!r) return result;
    r.wrt(0, [beta = beta](const Tensor& g) { return scaled(g, beta); });
    r.wrt(2, [a = r.save_for(2, a), alpha = alpha](const Tensor& g) {
      return product("bmm", maybe_conj(a()), true, scaled(g, alpha), false);
    });
    r.wrt(1, [b = r.save_for(1, b), alpha = alpha](const Tensor& g) {
      return product("bmm", scaled(g, alpha), false, maybe_conj(b()), true);
    });
    return result;
  }
};

// --- addmm ---------------------------------------------------------------------------------------

AddedProduct addmm_of(const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                      const Scalar& beta, const Scalar& alpha) {
  CHECK(mat1.dim() == 2, RuntimeError, "addmm: self must be a matrix, got {}-D tensor", mat1.dim());
  CHECK(mat2.dim() == 2, RuntimeError, "addmm: mat2 must be a matrix, got {}-D tensor", mat2.dim());
  CHECK(mat1.sizes()[1] == mat2.sizes()[0], RuntimeError,
        "addmm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", mat1.sizes()[0],
        mat1.sizes()[1], mat2.sizes()[0], mat2.sizes()[1]);
  CHECK(input.dtype() == mat2.dtype(), RuntimeError,
        "self and mat2 must have the same dtype, but got {} and {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(mat2.dtype()));
  check_same_dtype(mat1, mat2);
  return {"addmm", "addmm_impl_cpu_", {mat1.sizes()[0], mat2.sizes()[1]}, beta, alpha};
}

Tensor addmm(const Tensor& input, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha) {
  return addmm_of(input, mat1, mat2, beta, alpha).run(input, mat1, mat2);
}
Tensor addmm_(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
              const Scalar& alpha) {
  return addmm_of(self, mat1, mat2, beta, alpha).run(self, mat1, mat2, Into::input);
}
Tensor addmm_out(const Tensor& input, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                 const Scalar& alpha, const Tensor& out) {
  return addmm_of(input, mat1, mat2, beta, alpha).run(input, mat1, mat2, Into::out, out);
}
OP(addmm, "addmm(input, mat1, mat2, *, beta=1, alpha=1)",
   "beta * input + alpha * (mat1 @ mat2). With beta 0, input is ignored.",
   numbers_first | autocast_low)
OP_METHOD(addmm_, "addmm_(self, mat1, mat2, *, beta=1, alpha=1)", "addmm into self.", numbers_first)
OP_OUT(addmm_out, "addmm(input, mat1, mat2, *, beta=1, alpha=1, out)")

// Whether the device's kernel can add the input and activate on the way.
bool activates_in_kernel(const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                         const Scalar& beta) {
  const bool records =
      grad_enabled() && (input.requires_grad() || mat1.requires_grad() || mat2.requires_grad());
  constexpr DTypeSet known = dtypes::Reduced | DType::float32;
  constexpr int64_t at_once = 8;  // columns that kernels write together in half precision
  return kernels::gemm_activation.filled(mat1.device_type()) && !records &&
         known.has(mat1.dtype()) && input.dim() == 1 && input.is_contiguous() &&
         beta == Scalar(1) && mat1.numel() > 0 && mat2.numel() > 0 && mat2.size(1) % at_once == 0 &&
         input.size(0) == mat2.size(1) && input.device() == mat1.device() &&
         input.dtype() == mat1.dtype();
}

Tensor addmm_activation(const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                        const Scalar& beta, const Scalar& alpha, bool use_gelu) {
  addmm_of(input, mat1, mat2, beta, alpha);  // checks
  if (activates_in_kernel(input, mat1, mat2, beta)) {
    Tensor out = make_tensor({mat1.size(0), mat2.size(1)}, mat1.dtype(), mat1.device());
    bool done = false;
    kernels::gemm_activation(mat1.device_type(), out, input, mat1, mat2, alpha, use_gelu, done);
    if (done) return out;
  }
  const Tensor sum = addmm(input, mat1, mat2, beta, alpha);
  if (!use_gelu) return tensor_op("relu", {sum});
  return tensor_op("_nn_gelu", {sum, mat1.device().is_cuda() ? "tanh" : "none"});
}
OP_FUNCTION(
    addmm_activation, "_addmm_activation(input, mat1, mat2, *, beta=1, alpha=1, use_gelu=False)",
    "relu, or gelu, of addmm, in one kernel where there is one. On CUDA gelu is in its form "
    "with tanh, as PyTorch has it there.",
    composed)

// --- baddbmm and addbmm --------------------------------------------------------------------------

void check_batches(const Tensor& batch1, const Tensor& batch2) {
  for (const Tensor* batch : {&batch1, &batch2}) wrap_dim(2, std::min<int64_t>(batch->dim(), 3));
  CHECK(batch1.dim() == 3, RuntimeError, "batch1 must be a 3D tensor, got {}D", batch1.dim());
  CHECK(batch2.dim() == 3, RuntimeError, "batch2 must be a 3D tensor, got {}D", batch2.dim());
}

AddedProduct baddbmm_of(const Tensor& input, const Tensor& batch1, const Tensor& batch2,
                        const Scalar& beta, const Scalar& alpha) {
  check_batches(batch1, batch2);
  const IntSpan one = batch1.sizes(), two = batch2.sizes();
  CHECK(
      one[0] == two[0] && one[2] == two[1], RuntimeError,
      "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
      one[0], one[2], two[0], two[1]);
  CHECK(input.dtype() == batch1.dtype() && batch1.dtype() == batch2.dtype(), RuntimeError,
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        cpp_type_name(input.dtype()), cpp_type_name(batch1.dtype()), cpp_type_name(batch2.dtype()));
  return {"baddbmm", "baddbmm", {one[0], one[1], two[2]}, beta, alpha};
}

Tensor baddbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha) {
  return baddbmm_of(input, batch1, batch2, beta, alpha).run(input, batch1, batch2);
}
Tensor baddbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                const Scalar& alpha) {
  return baddbmm_of(self, batch1, batch2, beta, alpha).run(self, batch1, batch2, Into::input);
}
Tensor baddbmm_out(const Tensor& input, const Tensor& batch1, const Tensor& batch2,
                   const Scalar& beta, const Scalar& alpha, const Tensor& out) {
  return baddbmm_of(input, batch1, batch2, beta, alpha).run(input, batch1, batch2, Into::out, out);
}
OP(baddbmm, "baddbmm(input, batch1, batch2, *, beta=1, alpha=1)",
   "beta * input + alpha * bmm(batch1, batch2). With beta 0, input is ignored.",
   numbers_first | autocast_low)
OP_METHOD(baddbmm_, "baddbmm_(self, batch1, batch2, *, beta=1, alpha=1)", "baddbmm into self.",
          numbers_first)
OP_OUT(baddbmm_out, "baddbmm(input, batch1, batch2, *, beta=1, alpha=1, out)")

// The sum over the batch is a product in which the batch is contracted too.
std::pair<Tensor, Tensor> contract_batch(const Tensor& batch1, const Tensor& batch2) {
  check_batches(batch1, batch2);
  const IntSpan one = batch1.sizes(), two = batch2.sizes();
  CHECK(one[0] == two[0], RuntimeError,
        "batch1 and batch2 must have same number of batches, got {} and {}", one[0], two[0]);
  CHECK(one[2] == two[1], RuntimeError, "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
        one[1], one[2], two[1], two[2]);
  const int64_t contracted = checked_multiply(one[0], one[2]);
  return {reshape(permute(batch1, {1, 0, 2}), {one[1], contracted}),
          reshape(batch2, {contracted, two[2]})};
}

Tensor addbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
              const Scalar& alpha) {
  const auto [a, b] = contract_batch(batch1, batch2);
  return addmm(input, a, b, beta, alpha);
}
Tensor addbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha) {
  const auto [a, b] = contract_batch(batch1, batch2);
  return addmm_(self, a, b, beta, alpha);
}
OP((one_step<addbmm, "addbmm">), "addbmm(input, batch1, batch2, *, beta=1, alpha=1)",
   "beta * input + alpha * the sum of the products of a batch.", numbers_first | autocast_low)
OP_METHOD(addbmm_, "addbmm_(self, batch1, batch2, *, beta=1, alpha=1)", "addbmm into self.",
          numbers_first)

// --- addmv and addr ------------------------------------------------------------------------------

Tensor addmv(const Tensor& input, const Tensor& mat, const Tensor& vec, const Scalar& beta,
             const Scalar& alpha) {
  CHECK(mat.dim() == 2 && vec.dim() == 1 && input.dim() <= 1, RuntimeError,
        "vector + matrix @ vector expected, got {}, {}, {}", input.dim(), mat.dim(), vec.dim());
  const int64_t rows = mat.sizes()[0];
  CHECK(mat.sizes()[1] == vec.numel() && (input.numel() == rows || input.numel() == 1),
        RuntimeError, "size mismatch, got input ({}), mat ({}x{}), vec ({})", input.numel(), rows,
        mat.sizes()[1], vec.numel());
  CHECK(mat.dtype() == vec.dtype() && input.dtype() == vec.dtype(), RuntimeError,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(mat.dtype()),
        dtype_legacy_name(vec.dtype()));
  const Tensor column = input.dim() == 0 ? input : unsqueeze(input, 1);
  return squeeze(addmm(column, mat, unsqueeze(vec, 1), beta, alpha), 1);
}
OP_INPLACE((one_step<addmv, "addmv">), "addmv(input, mat, vec, *, beta=1, alpha=1)",
           "beta * input + alpha * (mat @ vec). With beta 0, input is ignored.",
           numbers_first | cuda_low)

void check_factor(const char* op, const char* name, DType dtype, const Scalar& factor) {
  CHECK(!factor.is_boolean() || dtype == DType::bool_, RuntimeError,
        "{}: Boolean {} only supported for Boolean results.", op, name);
  CHECK(is_differentiable(dtype) || factor.is_integral(true), RuntimeError,
        "{}: For integral input tensors, argument {} must not be a floating point number.", op,
        name);
  CHECK(is_complex(dtype) || !factor.is_complex(), RuntimeError,
        "{}: For non-complex input tensors, argument {} must not be a complex number.", op, name);
}

Tensor addr(const Tensor& input, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
            const Scalar& alpha) {
  CHECK(vec1.dim() == 1, RuntimeError, "addr: Expected 1-D argument vec1, but got {}-D",
        vec1.dim());
  CHECK(vec2.dim() == 1, RuntimeError, "addr: Expected 1-D argument vec2, but got {}-D",
        vec2.dim());
  const DType dtype = promote_types(input.dtype(), promote_types(vec1.dtype(), vec2.dtype()));
  check_factor("addr", "beta", dtype, beta);
  check_factor("addr", "alpha", dtype, alpha);
  const bool same = input.dtype() == vec1.dtype() && input.dtype() == vec2.dtype();
  if (same && (dtype == DType::float32 || dtype == DType::float64) && beta == Scalar(int64_t{1})) {
    check_expands(input, {vec1.size(0), vec2.size(0)});
    return addcmul(input, unsqueeze(vec1, 1), vec2, alpha);  // which reads and writes once
  }
  const Tensor outer = scaled(mul(unsqueeze(vec1, 1), vec2), conj_scalar(alpha));
  check_expands(input, outer.sizes());
  if (beta == Scalar(int64_t{0})) return to(outer, promote_types(input.dtype(), outer.dtype()));
  const Tensor result = add(scaled(input, conj_scalar(beta)), outer);
  const bool logical =
      input.dtype() == DType::bool_ && vec1.dtype() == DType::bool_ && vec2.dtype() == DType::bool_;
  return logical ? to(result, DType::bool_) : result;
}
OP_INPLACE((one_step<addr, "addr">), "addr(input, vec1, vec2, *, beta=1, alpha=1)",
           "beta * input + alpha * outer(vec1, vec2). With beta 0, input is ignored.",
           casts_out | numbers_first | cuda_low)

}  // namespace

// --- linear --------------------------------------------------------------------------------------

namespace {

void check_linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  CHECK(input.dim() > 0 && weight.dim() > 0, RuntimeError,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D", input.dim(),
        weight.dim());
  CHECK(weight.dim() <= 2, RuntimeError,
        "t() expects a tensor with <= 2 dimensions, but self is {}D", weight.dim());
  const int64_t k = input.sizes().back();
  CHECK(k == weight.sizes()[1], RuntimeError,
        "{}: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        bias.defined() ? "addmm" : "mm", input.numel() / std::max<int64_t>(k, 1), k,
        weight.sizes()[1], weight.sizes()[0]);
  check_same_dtype(input, weight);
  check_same_device("linear", input.device(), weight.device());
  if (bias.defined()) {
    CHECK(bias.dtype() == weight.dtype(), RuntimeError,
          "self and mat2 must have the same dtype, but got {} and {}",
          dtype_legacy_name(bias.dtype()), dtype_legacy_name(weight.dtype()));
    check_same_device("linear", weight.device(), bias.device());
  }
}

}  // namespace

// The input of a linear layer, copied where groups of few rows follow each other at changing
// distances, as in a sequence of batches that was a batch of sequences: a product a group would
// read the weights each time.
static Tensor rows_in_order(const Tensor& x, int64_t columns) {
  constexpr int64_t few_rows = 64, few_columns = 16;
  const IntSpan sizes = x.sizes(), strides = x.strides();
  const int64_t last = x.dim() - 2;
  if (last < 1 || sizes[last] >= few_rows || columns < few_columns || x.is_contiguous()) return x;
  int64_t step = strides[last];
  for (int64_t d = last; d > 0; --d) {
    step *= sizes[d];
    if (strides[d - 1] != step && sizes[d - 1] != 1) return contiguous(detach(x));
  }
  return x;
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  REDIRECT(linear, input, weight, bias)
  if (weight.dim() == 1 && input.dim() > 0) {
    const Tensor result = matmul(input, weight);
    return bias.defined() ? add(result, bias) : result;
  }
  check_linear(input, weight, bias);
  Dims shape = input.sizes().dims();
  shape.back() = weight.sizes()[0];
  if (bias.defined()) check_expands(bias, shape);
  Tensor out = make_tensor(shape, input.dtype(), input.device());
  const bool vector = input.dim() == 1;
  const MatrixView target = vector ? as_row(out) : as_matrix(out);
  const Tensor rows = rows_in_order(input, shape.back());
  multiply("addmm_impl_cpu_", target, vector ? as_row(rows) : as_matrix(rows),
           as_matrix(weight, true), bias.defined() ? as_addend(bias, target) : MatrixView{}, 1.0);
  if (Record r{bias.defined() ? "addmm" : "mm", out, {input, weight, bias}}) {
    r.wrt(1, [x = save_operand(r, 1, input)](const Tensor& g) {
      return product("mm", as_rows(g), true, as_rows(maybe_conj(x())), false);
    });
    r.wrt(0, [w = r.save_for(0, weight), sizes = input.sizes().dims()](const Tensor& g) {
      const Tensor rows = product("mm", as_rows(g), false, maybe_conj(w()), false);
      return sizes.size() == 2 ? rows : reshape(rows, sizes);
    });
    r.wrt(2, [](const Tensor& g) { return g; });
  }
  return out;
}
OP_FUNCTION(linear, "linear(input, weight, bias=None)", "input @ weight.T + bias.",
            autocast_low | takes_nested | composed)

// What PyTorch makes of it.
static Tensor linear_steps(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() != 2 || input.dim() == 0) return {};
  if (!bias.defined()) return matmul(input, t(weight));
  if (input.dim() == 2) return tensor_op("addmm", {bias, input, t(weight)});
  Dims sizes = input.sizes().dims();
  const Tensor product = linear_steps(reshape(input, {-1, sizes.back()}), weight, bias);
  sizes.back() = weight.size(0);
  return tensor_op("_unsafe_view", {product, sizes});
}
STEPS(linear, linear_steps)

namespace {
// Weights that all samples share multiply all rows at once.
bool batch_linear(Batching& batch, Result& result) {
  const Tensor x = batch.tensor(0), w = batch.tensor(1), b = batch.tensor(2);
  if (w.dim() != 2 || x.dim() == 0 || (b.defined() && b.dim() != 1)) return false;
  if (batch.only(0)) {
    batch.use_samples();
    batch.run(result);
    return true;
  }
  const AtVmapLevel inside(batch.level());
  result.form = Result::Form::tensor;
  result.tensor = tensor_op("matmul", {x, tensor_op("transpose", {w, 0, 1})});
  if (b.defined()) result.tensor = tensor_op("add", {result.tensor, b});
  result.tensor = batch.samples(result.tensor);
  return true;
}
}  // namespace
BATCH(linear, batch_linear)

static Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                       const Tensor& bias) {
  CHECK(weight.dim() == 3, RuntimeError, "bilinear(): weight must have 3 dimensions, got shape {}",
        weight.sizes());
  CHECK(input1.dim() > 0 && input1.dim() == input2.dim(), RuntimeError,
        "bilinear(): input dimensions do not match: got {} and {}", input1.dim(), input2.dim());
  const size_t batch = input1.dim() - 1;
  for (size_t d = 0; d < batch; ++d) {
    CHECK(input1.sizes()[d] == input2.sizes()[d], RuntimeError,
          "bilinear(): input batch dimensions do not match at dim {}: got {} and {}", d,
          input1.sizes()[d], input2.sizes()[d]);
  }
  CHECK(input1.size(-1) == weight.sizes()[1], RuntimeError,
        "bilinear(): input1 size does not match weight size: got {} but expected {}",
        input1.size(-1), weight.sizes()[1]);
  CHECK(input2.size(-1) == weight.sizes()[2], RuntimeError,
        "bilinear(): input2 size does not match weight size: got {} but expected {}",
        input2.size(-1), weight.sizes()[2]);
  CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == weight.sizes()[0]), RuntimeError,
        "bilinear(): bias size does not match weight size: got {} but expected {}", bias.sizes(),
        weight.sizes()[0]);
  check_same_dtype(input1, weight);
  check_same_dtype(input2, weight);
  // One product an output feature, then the row-wise dot product with input2.
  const Tensor left = matmul(as_rows(input1), weight);
  const Tensor sums = sum(mul(left, as_rows(input2)), IntSpan{-1}, false, weight.dtype());
  Dims shape = input1.sizes().dims();
  shape.back() = weight.sizes()[0];
  const Tensor result = reshape(contiguous(transpose(sums, 0, 1)), shape);
  return bias.defined() ? add(result, bias) : result;
}
OP_FUNCTION(bilinear, "bilinear(input1, input2, weight, bias=None)",
            "input1 @ weight[o] @ input2 + bias[o] for every output feature o.",
            cuda_widest | no_out | composed)

namespace {
// beta * input + alpha * the product by another op, summed over its first dimension if asked; all
// these have rules.
bool batch_add_product(Batching& batch, Result& result, std::string_view product,
                       bool summed = false) {
  const Tensor input = batch.tensor(0);
  const Scalar beta = *batch.value(batch.find("beta")).scalar;
  const Scalar alpha = *batch.value(batch.find("alpha")).scalar;
  const AtVmapLevel inside(batch.level());
  Tensor sum = tensor_op(product, {batch.tensor(1), batch.tensor(2)});
  if (summed) sum = tensor_op("sum", {sum, Dims{0}});
  if (alpha.to_double() != 1) sum = tensor_op("mul", {sum, alpha});
  if (beta.to_double() != 0) {
    sum = tensor_op("add", {sum, beta.to_double() == 1 ? input : tensor_op("mul", {input, beta})});
  }
  result.form = Result::Form::tensor;
  result.tensor = batch.whole(sum);
  return true;
}
}  // namespace
BATCH(addmm, [](Batching& batch, Result& result) { return batch_add_product(batch, result, "mm"); })
BATCH(addmv, [](Batching& batch, Result& result) { return batch_add_product(batch, result, "mv"); })
BATCH(addr,
      [](Batching& batch, Result& result) { return batch_add_product(batch, result, "outer"); })
BATCH(addbmm,
      [](Batching& batch, Result& result) { return batch_add_product(batch, result, "bmm", true); })
BATCH(baddbmm,
      [](Batching& batch, Result& result) { return batch_add_product(batch, result, "bmm"); })

}  // namespace flambeau
