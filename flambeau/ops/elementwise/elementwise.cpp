#include "flambeau/ops/elementwise/elementwise.h"

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/converting.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/sparse/sparse.h"

namespace flambeau {

DType compute_dtype(const char* op, DTypeSet dtypes, DType dtype) {
  if (dtypes.has(dtype)) return dtype;
  // An op on floating numbers takes integers as such; one on numbers of all kinds refuses bools.
  const bool floating_only = dtypes.has(DType::float32) && !dtypes.has(DType::int64);
  if (is_integral(dtype, true) && floating_only && !dtypes.marked(DTypeSet::refuses_integers)) {
    return default_dtype();
  }
  if (dtype == DType::bool_ && dtypes.marked(DTypeSet::counts_bools)) return DType::int64;
  CHECK(!dtypes.marked(DTypeSet::type_error) || dtypes::Float8.has(dtype), TypeError,
        "{} does not support {} inputs.", op, is_complex(dtype) ? "complex" : dtype_name(dtype));
  fail<NotImplementedError>("\"{}\" not implemented for '{}'", op, dtype_legacy_name(dtype));
}

DType dtype_for_numbers(DType dtype, Device device) {
  return !device.is_cpu() && dtypes::Reduced.has(dtype) ? DType::float32 : dtype;
}

void check_number_fits(const char* op, const Scalar& value, DType dtype) {
  CHECK(value.fits(dtype), RuntimeError,
        "{}: value cannot be converted to type {} without overflow: {}", op, dtype_name(dtype),
        value);
}

void check_result_cast(const char* op, DType from, DType to) {
  CHECK(can_cast(from, to), RuntimeError,
        "{}: result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(from), dtype_legacy_name(to));
}

Device common_device(const char* op, std::initializer_list<Operand> operands) {
  const Tensor* lead = nullptr;
  for (const Operand& operand : operands) {
    if (!operand.is_tensor()) continue;
    const Tensor& tensor = operand.tensor();
    // A zero-dim CPU tensor goes along with any device, as a number would.
    if (!lead || (lead->dim() == 0 && lead->device().is_cpu())) {
      lead = &tensor;
    } else if (tensor.dim() != 0 || !tensor.device().is_cpu()) {
      check_same_device(op, lead->device(), tensor.device());
    }
  }
  return lead->device();
}

Tensor cast_operand(const Operand& operand, DType dtype, Device device) {
  if (!operand.is_tensor()) {
    return filled(make_tensor({}, dtype, device), operand.scalar());
  }
  const Tensor& tensor = operand.tensor();
  Tensor same = tensor.dtype() == dtype ? tensor : to(tensor, dtype);
  return same.device() == device ? same : to(same, device);
}

namespace {

// The tensor to compute into: none for a new one, `out` itself where its dtype fits, or a
// temporary that is copied into it afterwards.
Tensor target(const char* op, const Tensor& out, DType result) {
  if (!out.defined() || out.dtype() == result) return out;
  check_result_cast(op, result, out.dtype());
  return {};
}

// Where a result is computed apart from the tensor it is for, or from copies of the operands, the
// iterator sees no overlap: it is looked for here.
void check_overlaps(const char* op, const Tensor& out, std::initializer_list<Operand> operands) {
  check_no_internal_overlap(op, out);
  for (const Operand& operand : operands) {
    if (operand.is_tensor()) check_no_partial_overlap(op, out, operand.tensor());
  }
}

// Hands a result over to the tensor it is for; `result` then is that tensor.
void deliver(const char* op, Tensor& result, const Tensor& out, bool in_place) {
  if (result.is_same(out)) {
    out.bump_version(op);
    return;
  }
  const NoGrad off;
  if (!in_place && !(out.sizes() == result.sizes())) {
    resize_tensor(out, result.sizes(), result.strides());
  }
  copy_(out, result);
  result = out;
}

// The dtype in which a row computes what it has no kernel of its own for. That a result does not
// fit into `out` is said before that there is no kernel.
DType other_dtype(const char* op, DTypeSet dtypes, OutDType kind, DType dtype, const Tensor& out) {
  if (out.defined() && kind == OutDType::same && !dtypes.marked(DTypeSet::type_error)) {
    check_result_cast(op, dtype, out.dtype());
  }
  return compute_dtype(op, dtypes, dtype);
}

}  // namespace

void check_no_bool_operand(const Operand& a, const Operand& b) {
  const auto is_bool = [](const Operand& x) {
    return x.is_tensor() ? x.tensor().dtype() == DType::bool_ : x.scalar().is_boolean();
  };
  CHECK(!(is_bool(a) && is_bool(b)), NotImplementedError,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
  CHECK(!is_bool(a) && !is_bool(b), NotImplementedError,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
}

namespace {

// A number as a tensor of half precision would hold it; beside other dtypes as it is.
double rounded(const Scalar& number, DType dtype) {
  if (dtype == DType::float16) return static_cast<double>(number.to<Half>());
  return dtype == DType::bfloat16 ? static_cast<double>(number.to<BFloat16>())
                                  : number.to<double>();
}

// A row's numbers as its kernel takes them. They must be able to stand in the dtype that it
// computes in; where integers are among its dtypes, in the stored one.
void set_params(const UnaryRow& row, DType dtype, Device device, const Scalar* params, int n_params,
                Scalar* held) {
  const bool reduced = dtypes::Reduced.has(dtype);
  const DType number_dtype = reduced && !row.dtypes.has(DType::int64) ? DType::float32 : dtype;
  for (int i = 0; i < n_params; ++i) {
    if (row.dtypes.marked(DTypeSet::bounds)) {
      // Bounds of integers lose their fractions.
      const bool cut =
          params[i].is_floating() && is_integral(dtype) && params[i].fits(DType::int64);
      held[i] = clamp_bound(cut ? Scalar(params[i].to_int()) : params[i], dtype, i == 0, device);
    } else {
      check_number_fits(row.name, params[i], number_dtype);
      // What elements are compared with is as coarse as they are, so that a bound is within.
      const bool compares = row.slot == &kernels::hardshrink || row.slot == &kernels::softshrink ||
                            row.slot == &kernels::logit_between;
      held[i] = compares ? Scalar(rounded(params[i], dtype)) : params[i];
    }
  }
}

// Rows that keep the dtype of integers write into an out= of just that dtype, and so do questions
// that only real numbers are asked; the others into any that can hold the result.
void check_out_dtype(const UnaryRow& row, DType result, const Tensor& out) {
  const DTypeSet dtypes = row.dtypes;
  const bool exact = row.out == OutDType::boolean ? !dtypes.has(DType::complex64)
                     : dtypes.has(DType::int64)   ? !dtypes.marked(DTypeSet::counts_bools)
                                                  : dtypes.marked(DTypeSet::refuses_integers);
  CHECK(!exact || out.dtype() == result, RuntimeError, "{}: Found dtype {} but expected {}",
        row.name, dtype_legacy_name(out.dtype()), dtype_legacy_name(result));
}

// Whether the row computes the dtype, which it has no kernel for, in a wider one. complex32 is a
// dtype of CUDA: there every row of complex numbers takes it.
bool widens(DTypeSet dtypes, DType dtype, Device device) {
  if (dtype == DType::complex32) {
    return dtypes.marked(DTypeSet::widens_complex32) ||
           (!device.is_cpu() && dtypes.has(DType::complex64));
  }
  return dtypes.marked(DTypeSet::widens_float8) && dtypes::Float8.has(dtype);
}

// What was computed in a wider dtype, in the dtype of the operands, or in the tensor it is for.
Tensor narrowed(const char* op, OutDType kind, const Tensor& wide, DType dtype, const Tensor& out,
                bool in_place) {
  Tensor result = kind == OutDType::boolean ? wide : to(wide, dtype);
  if (!out.defined()) return result;
  check_result_cast(op, result.dtype(), out.dtype());
  if (in_place) return copy_(out, result);
  deliver(op, result, out, false);
  return result;
}

Tensor unary_widened(const UnaryRow& row, const Tensor& input, const Scalar* params, int n_params,
                     const Tensor& out) {
  const Tensor wide = unary_op(row, to(input, widened(input.dtype())), params, n_params);
  return narrowed(row.name, row.out, wide, input.dtype(), out, out.is_same(input));
}

Tensor binary_widened(const BinaryRow& row, const Operand& a, const Operand& b, DType dtype,
                      const Tensor& out) {
  const auto wide = [&](const Operand& x) {
    return x.is_tensor() ? to(x.tensor(), widened(dtype)) : Tensor();
  };
  const Tensor x = wide(a), y = wide(b);
  const Tensor result = binary_op(row, x.defined() ? Operand(x) : a, y.defined() ? Operand(y) : b);
  const bool in_place = out.defined() && a.is_tensor() && out.is_same(a.tensor());
  return narrowed(row.name, row.out, result, dtype, out, in_place);
}

}  // namespace

// A copy of what is about to be overwritten. It has the history of the original, not a step of its
// own: second derivatives by it then come as early as if nothing were overwritten.
static Tensor copy_to_keep(const Tensor& tensor) {
  const Edge origin = gradient_edge(tensor);
  const NoGrad off;
  Tensor copy = clone(tensor);
  if (origin) set_history(copy, origin.node, origin.input);
  return copy;
}

// Computes a row in dtype; `in_chunks` if operands of others are still to be converted.
static void run_row(const ElementwiseSlot& slot, const TensorIter& iter, DType dtype,
                    bool in_chunks, const Scalar* params) {
  if (!in_chunks) return slot(iter.device.type, iter, params);
  run_converting(iter, dtype,
                 [&](const TensorIter& part) { slot(part.device.type, part, params); });
}

// Whether the result is made like the input, as PyTorch makes it, before anything is computed: it
// shares strides that say nothing, too.
static bool is_made_like_input(const UnaryRow& row) {
  return row.slot == &kernels::deg2rad || row.slot == &kernels::rad2deg ||
         row.slot == &kernels::hardtanh || row.slot == &kernels::relu6;
}

Tensor unary_op(const UnaryRow& row, const Tensor& input, const Scalar* params, int n_params,
                const Tensor& out) {
  if (input.is_sparse()) [[unlikely]]
    return sparse_unary(row, input, params, n_params, out);
  // As in PyTorch, real numbers are their own conjugates, not a copy of them.
  const bool in_place = out.defined() && out.is_same(input);
  if (in_place) check_inplace(row.name, out);
  if (row.slot == &kernels::conj_physical && !input.is_complex() && (in_place || !out.defined())) {
    if (in_place) out.bump_version(row.name);
    return input;
  }
  DType dtype = input.dtype();
  if (!row.dtypes.has(dtype)) {
    if (widens(row.dtypes, dtype, input.device()))
      return unary_widened(row, input, params, n_params, out);
    dtype = other_dtype(row.name, row.dtypes, row.out, dtype, out);
  }
  const DType result_dtype = row.out == OutDType::boolean ? DType::bool_ : dtype;
  if (out.defined() && !in_place) check_out_dtype(row, result_dtype, out);
  Scalar held[2];
  if (n_params > 0) set_params(row, dtype, input.device(), params, n_params, held);
  // What an in-place op keeps of its input must be taken before it is overwritten.
  const bool records = row.gradient && grad_enabled() && input.requires_grad();
  const bool in_chunks = !records && converts_in_chunks(input, nullptr, dtype, out);
  const Tensor x = input.dtype() == dtype || in_chunks ? input : to(input, dtype);
  Tensor result = target(row.name, out, result_dtype);
  if (out.defined() && !result.defined()) check_overlaps(row.name, out, {input});
  if (!out.defined() && is_made_like_input(row)) result = empty_like(x);
  TensorIter iter;
  const Operand inputs[] = {x};
  iter.build({row.name, out.defined() && !in_place}, &result, &result_dtype, 1, inputs, 1, dtype);
  Tensor kept;
  if (records && in_place && row.keeps == Keep::x) kept = copy_to_keep(x);
  run_row(*row.slot, iter, dtype, in_chunks, held);
  if (out.defined()) deliver(row.name, result, out, in_place);
  if (!records) return result;
  const auto rule = [&](Record& r) {
    const Saved saved = row.keeps == Keep::y   ? r.save_output(result)
                        : row.keeps == Keep::x ? r.save(kept.defined() ? kept : x)
                                               : Saved();
    r.wrt(0, [saved, gradient = row.gradient, p0 = held[0], p1 = held[1]](const Tensor& g) {
      const Scalar numbers[] = {p0, p1};
      return gradient(g, saved(), numbers);
    });
  };
  if (in_place) {
    if (Record r = Record::in_place(row.name, result, {})) rule(r);
  } else if (Record r{row.name, result, {input}}) {
    rule(r);
  }
  return result;
}

namespace {

// What a gradient keeps of one operand (`letter`, Keep::a or b); undefined if none needs it. A
// number becomes a zero-dim tensor; what is about to be overwritten is copied first.
Tensor operand_to_keep(const BinaryRow& row, uint8_t letter, const Operand& operand,
                       const Operand& a, const Operand& b, bool overwritten, DType dtype,
                       Device device) {
  const bool needed =
      (a.requires_grad() && row.keeps_a & letter) || (b.requires_grad() && row.keeps_b & letter);
  if (!needed) return {};
  // A number is one also beside tensors that are nowhere.
  if (!operand.is_tensor())
    return cast_operand(operand, dtype, device.is_meta() ? Device() : device);
  const Tensor& tensor = operand.tensor();
  return overwritten ? copy_to_keep(tensor) : tensor;
}

struct BinaryRule {
  Saved a, b, y;
  BinaryRow::Gradient gradient;
  Tensor operator()(const Tensor& g) const { return gradient(g, a(), b(), y()); }
};

void record_binary(Record& r, const BinaryRow& row, const Tensor& a, const Tensor& b,
                   const Tensor& y) {
  const uint8_t wanted = (r.wants(0) ? row.keeps_a : 0) | (r.wants(1) ? row.keeps_b : 0);
  // Each is saved once, whoever needs it, in the order in which PyTorch packs them.
  Saved kept_a, kept_b, kept_y;
  if (wanted & Keep::b) kept_b = r.save(b);
  if (wanted & Keep::a) kept_a = r.save(a);
  if (wanted & Keep::y) kept_y = r.save_output(y);
  const auto rule = [&](uint32_t input, uint8_t keeps, BinaryRow::Gradient gradient) {
    BinaryRule made{{}, {}, {}, gradient};
    if (keeps & Keep::a) made.a = kept_a;
    if (keeps & Keep::b) made.b = kept_b;
    if (keeps & Keep::y) made.y = kept_y;
    r.wrt(input, std::move(made));
  };
  // As in PyTorch, the second operand's gradient is made first: in a graph of gradients, the order
  // of nodes decides which of several contributions comes first, and so the layout of their sum.
  if (r.wants(1)) rule(1, row.keeps_b, row.gradient_b);
  if (r.wants(0)) rule(0, row.keeps_a, row.gradient_a);
}

}  // namespace

// Whatever is wrong with a history, the operand's too, is told before anything is written.
static void check_write(const char* op, const Tensor& self, const Operand& operand) {
  check_inplace(op, self, operand.requires_grad());
  if (!grad_enabled() || !operand.is_tensor() || !operand.tensor()->view_base) return;
  grad_fn(operand.tensor());
}

// An operand in the dtype of the computation, which `cast` holds where it is another tensor.
// History is kept on the original: the engine casts gradients back.
static Operand converted(const Operand& operand, DType dtype, Device device, Tensor& cast) {
  if (!operand.is_tensor()) return operand;
  const Tensor& tensor = operand.tensor();
  if (tensor.device() == device && tensor.dtype() == dtype) return operand;
  if (!(tensor.device() == device)) return Operand(item(tensor));  // zero-dim, on the CPU
  const NoGrad off;
  cast = to(tensor, dtype);
  return Operand(cast);
}

static void check_operand_dtypes(const BinaryRow& row, const Operand& a, const Operand& b,
                                 const Tensor& out) {
  if (row.dtypes.marked(DTypeSet::no_bool_operand)) check_no_bool_operand(a, b);
  if (row.dtypes.marked(DTypeSet::one_dtype)) {
    CHECK(a.tensor().dtype() == b.tensor().dtype(), RuntimeError,
          "{} is not yet implemented for tensors with different dtypes: {} and {}.", row.name,
          a.tensor().dtype(), b.tensor().dtype());
    CHECK(!out.defined() || out.dtype() == a.tensor().dtype(), RuntimeError,
          "{} is not yet implemented for tensors with different dtypes: {} and {}.", row.name,
          a.tensor().dtype(), out.dtype());
  }
}

// A number beside a tensor of this dtype: also one that a tensor of another dtype holds.
static bool is_number(const Operand& operand, DType dtype) {
  if (!operand.is_tensor()) return !operand.scalar().is_complex();
  const Tensor& tensor = operand.tensor();
  return tensor.dim() == 0 && tensor.dtype() != dtype && tensor.device().is_cpu() &&
         !tensor.is_complex() && !operand.requires_grad();
}

// How a tensor of half precision is combined with a number that its dtype cannot hold and that is
// not rounded, so that 0.5 times 65536 is no infinity: multiplied by a factor, or with the factor
// added. The CPU, as PyTorch's, does round what it adds.
struct ExactNumber {
  double factor;
  bool sums, reversed;  // reversed: the number less the tensor
};
static std::optional<ExactNumber> exact_number(const BinaryRow& row, const Operand& a,
                                               const Operand& b, DType dtype, Device device) {
  const bool times = row.slot == &kernels::mul, minus = row.slot == &kernels::sub;
  const bool sums = !device.is_cpu() && (minus || row.slot == &kernels::add);
  if (!times && !sums && row.slot != &kernels::div) return {};
  const bool leads = (times || sums) && !is_number(b, dtype);
  const Operand& number = leads ? a : b;
  if (!is_number(number, dtype)) return {};
  const Scalar scalar = number.is_tensor() ? item(number.tensor()) : number.scalar();
  const auto value = scalar.to<double>();
  if (rounded(scalar, dtype) == value || !std::isfinite(value)) return {};
  const double single = static_cast<float>(value);  // what it is in float32, as in PyTorch
  const double factor = minus ? -single : times || sums ? single : 1 / single;
  if (!std::isfinite(static_cast<float>(factor))) return {};
  return ExactNumber{factor, sums, minus && leads};
}

// Whether a quotient of half precision is rounded to an integer, by a number that its dtype cannot
// hold: it is computed in single precision, where the number is what it is.
static bool rounds_exact_quotient(const BinaryRow& row, const Operand& a, const Operand& b,
                                  DType dtype) {
  if (row.slot != &kernels::div_floor && row.slot != &kernels::div_trunc) return false;
  if (!a.is_tensor() || !is_number(b, dtype)) return false;
  const Scalar scalar = b.is_tensor() ? item(b.tensor()) : b.scalar();
  const auto value = scalar.to<double>();
  return std::isfinite(value) && rounded(scalar, dtype) != value;
}

// base + factor * scaled is the result; a difference the other way round is negated afterwards.
static void set_exact_operands(const ExactNumber& exact, bool number_last, Operand* inputs) {
  const Operand tensor = inputs[number_last ? 0 : 1];
  // Nothing but negative zero leaves every product as it is when they are added.
  inputs[0] = exact.sums ? tensor : Operand(Scalar(-0.0));
  inputs[1] = exact.sums ? Operand(Scalar(1.0)) : tensor;
}
static void run_exact(const char* op, const ExactNumber& exact, const TensorIter& iter,
                      Tensor& result) {
  kernels::add_scaled(iter.device.type, iter, exact.factor);
  if (!exact.reversed) return;
  TensorIter negated;
  const DType dtype = result.dtype();
  const Operand inputs[] = {result};
  negated.build({op}, &result, &dtype, 1, inputs, 1, dtype);
  kernels::neg(negated.device.type, negated, nullptr);
}

static const Tensor& tensor_or_none(const Operand& operand) {
  static const Tensor none;
  return operand.is_tensor() ? operand.tensor() : none;
}

// An op without a derivative leaves the history of what it overwrites alone; what it cannot compute
// is refused as a leaf first.
static void check_writes_self(const BinaryRow& row, const Tensor& self, const Operand& other) {
  if (row.gradient_a) return check_write(row.name, self, other);
  if (!row.dtypes.has(self.dtype())) check_inplace(row.name, self);
}

Tensor binary_op(const BinaryRow& row, const Operand& a, const Operand& b, const Tensor& out) {
  if (!a.is_tensor() && !b.is_tensor()) [[unlikely]] {
    return binary_op(row, cast_operand(a, a.scalar().natural_dtype(), default_device()), b, out);
  }
  if ((a.is_tensor() && a.tensor().is_sparse()) || (b.is_tensor() && b.tensor().is_sparse()))
      [[unlikely]]
    return sparse_binary(row, a, b, out);
  const bool in_place = out.defined() && a.is_tensor() && out.is_same(a.tensor());
  if (in_place) check_writes_self(row, out, b);
  check_operand_dtypes(row, a, b, out);
  const Device device = common_device(row.name, {a, b});
  const DType common = result_type(a, b);
  DType dtype = common;
  if (!row.dtypes.has(common)) {
    if (widens(row.dtypes, common, device)) return binary_widened(row, a, b, common, out);
    if (a.is_tensor() && b.is_tensor()) broadcast_shapes(a.tensor().sizes(), b.tensor().sizes());
    dtype = other_dtype(row.name, row.dtypes, row.out, common, out);
  }
  if (dtypes::Reduced.has(dtype) && rounds_exact_quotient(row, a, b, dtype)) [[unlikely]]
    return narrowed(row.name, row.out, binary_op(row, to(a.tensor(), DType::float32), b), dtype,
                    out, in_place);
  const DType result_dtype = row.out == OutDType::boolean ? DType::bool_ : dtype;
  std::optional<ExactNumber> exact;
  if (dtypes::Reduced.has(dtype)) exact = exact_number(row, a, b, dtype, device);
  const bool a_in_chunks = !exact && converts_in_chunks(a, &b, dtype, out);
  const bool b_in_chunks = !exact && converts_in_chunks(b, &a, dtype, out);
  Tensor cast_a, cast_b;
  Operand inputs[] = {a_in_chunks ? a : converted(a, dtype, device, cast_a),
                      b_in_chunks ? b : converted(b, dtype, device, cast_b)};
  Tensor result = target(row.name, out, result_dtype);
  if (out.defined() && (!result.defined() || cast_a.defined() || cast_b.defined())) {
    check_overlaps(row.name, out, {a, b});
  }
  if (exact) set_exact_operands(*exact, is_number(b, dtype), inputs);
  TensorIter iter;
  iter.build({row.name, out.defined() && !in_place}, &result, &result_dtype, 1, inputs, 2, dtype);
  const bool records = row.gradient_a && grad_enabled() &&
                       (a.requires_grad() || b.requires_grad()) &&
                       (in_place || is_differentiable(result_dtype));
  Tensor kept_a, kept_b;
  if (records) {
    const DType wide = exact ? DType::float32 : dtype;  // of a number, the only thing that is cast
    kept_a = operand_to_keep(row, Keep::a, a, a, b, in_place, wide, device);
    kept_b = operand_to_keep(row, Keep::b, b, a, b, false, wide, device);
  }
  if (exact) run_exact(row.name, *exact, iter, result);
  if (!exact) run_row(*row.slot, iter, dtype, a_in_chunks || b_in_chunks, nullptr);
  const bool fixed = in_place || (b.is_tensor() && out.is_same(b.tensor()));
  if (out.defined()) deliver(row.name, result, out, fixed);
  if (!records) return result;
  const Tensor &input_a = tensor_or_none(a), &input_b = tensor_or_none(b);
  if (in_place) {
    if (Record r = Record::in_place(row.name, result, {input_b})) {
      record_binary(r, row, kept_a, kept_b, result);
    }
  } else if (Record r{row.name, result, {input_a, input_b}}) {
    record_binary(r, row, kept_a, kept_b, result);
  }
  return result;
}

Tensor mul_conj(const Tensor& g, const Tensor& x) {
  return g * (x.is_complex() ? conj_physical(x) : x);
}
Tensor div_conj(const Tensor& g, const Tensor& x) {
  return g / (x.is_complex() ? conj_physical(x) : x);
}
Tensor lying_as(const Tensor& first, const Tensor& second, const Tensor& mask) {
  if (first.is_contiguous() && second.is_contiguous()) return mask;
  const Tensor* const both[] = {&first, &second};
  const Dims strides = common_strides(mask.sizes(), both, 2);
  if (mask.strides() == strides) return mask;
  return copy_(make_strided(mask.sizes(), strides, DType::bool_, mask.device()), mask);
}
Tensor inverse_square_sum(const Tensor& a, const Tensor& b) {
  const Tensor sum = a * a + b * b;
  return masked_fill(reciprocal(sum), sum == 0, 0);
}

}  // namespace flambeau
