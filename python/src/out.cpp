#include "python/src/out.h"

#include <algorithm>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::python {

void check_out_dtype(const Family& family, const Overload& overload, const Frame& frame,
                     PyObject* out) {
  if (!is_tensor(out)) return;
  for (size_t i = 0; i < overload.parameters.size(); ++i) {
    if (overload.parameters[i].kind != Kind::dtype || !frame.values[i].given) continue;
    const DType wanted = static_cast<DType>(frame.values[i].code);
    // Norms of complex numbers are real.
    const bool is_norm = family.name.find("norm") != std::string::npos;
    const bool fits = (is_norm ? to_real(wanted) : wanted) == tensor_of(out).dtype();
    CHECK(fits, RuntimeError, "{}(): Expected out tensor to have dtype {}, but got {} instead",
          family.name, dtype_name(wanted), dtype_name(tensor_of(out).dtype()));
  }
}

void warn_if_resized(const Family& family, IntSpan before, IntSpan after) {
  if (before == after || std::ranges::find(before, 0) != before.end()) return;
  const std::vector<Parameter>& parameters = family.overloads.front().parameters;
  const bool makes = std::ranges::any_of(
      parameters, [](const Parameter& parameter) { return parameter.kind == Kind::options; });
  if (makes && (!family.has(OpDef::counts) || family.name == "range")) return;
  const char* words =
      "An output with one or more elements was resized since it had shape {}, which does not match "
      "the required output shape {}. This behavior is deprecated, and in a future PyTorch release "
      "outputs will not be resized unless they have zero elements. An output that is to be reused "
      "can be emptied first with t.resize_(0).";
  const char* words_of_ranges =
      "The number of elements in the out tensor of shape {} is {} which does not match the "
      "computed number of elements {}. Note that this may occur as a result of rounding error. The "
      "out tensor will be resized to a tensor of shape ({},).";
  const std::string text =
      makes ? flambeau::format(words_of_ranges, before, checked_numel(before), after[0], after[0])
            : flambeau::format(words, before, after);
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

void write_out(const Family& family, const Tensor& out, const Tensor& result, bool is_place) {
  const std::string& op = family.name;
  const bool fits = can_cast(result.dtype(), out.dtype());
  CHECK(fits || !op.ends_with("stack"), TypeError,
        "{}(): input types can't be cast to the desired output type {}", op,
        dtype_legacy_name(out.dtype()));
  CHECK(fits, RuntimeError, "{}(): result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(result.dtype()), dtype_legacy_name(out.dtype()));
  // Places are int64 even where what stands there may be cast.
  const bool casts = family.has(OpDef::casts_out) && !(is_place && result.dtype() == DType::int64);
  CHECK(casts || out.dtype() == result.dtype(), RuntimeError,
        "{}(): Expected out tensor to have dtype {}, but got {} instead", op,
        dtype_name(result.dtype()), dtype_name(out.dtype()));
  CHECK(out.device() == result.device(), RuntimeError,
        "{}(): Expected out tensor to have device {}, but got {} instead", op, result.device(),
        out.device());
  CHECK(!(grad_enabled() && out.requires_grad()), RuntimeError,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.",
        op);
  const NoGrad off;
  if (out.numel() == result.numel() && family.has(OpDef::counts)) {
    copy_(out, view(result, out.sizes()));
    return;
  }
  if (!(out.sizes() == result.sizes())) {
    warn_if_resized(family, out.sizes(), result.sizes());
    const bool dense = is_non_overlapping_and_dense(result.sizes(), result.strides());
    resize_tensor(out, result.sizes(),
                  dense ? result.strides() : IntSpan(contiguous_strides(result.sizes())));
  }
  copy_(out, result);
}

namespace {

// Two results in one place are neither. Windows with gaps are not looked into: they may interleave.
void check_apart(const Family& family, PyObject* one, PyObject* other) {
  if (!is_tensor(one) || !is_tensor(other)) return;
  const Tensor &a = tensor_of(one), &b = tensor_of(other);
  const auto dense = [](const Tensor& x) {
    return is_non_overlapping_and_dense(x.sizes(), x.strides());
  };
  const auto begins_inside = [](const Tensor& x, const Tensor& y) {
    return x.offset() * x.item_size() < (y.offset() + y.numel()) * y.item_size();
  };
  const bool share = a.numel() > 0 && b.numel() > 0 && a.storage() == b.storage() && dense(a) &&
                     dense(b) && begins_inside(a, b) && begins_inside(b, a);
  CHECK(!share && !a.is_same(b), ValueError,
        "{}(): the tensors of out=, of shapes {} and {}, must not overlap", family.name, a.sizes(),
        b.sizes());
}

}  // namespace

void check_no_overlap(const Family& family, const Call& call, PyObject* out) {
  if (PyTuple_Check(out) || PyList_Check(out)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) {
      check_no_overlap(family, call, PySequence_Fast_GET_ITEM(out, i));
      for (Py_ssize_t k = 0; k < i; ++k) {
        check_apart(family, PySequence_Fast_GET_ITEM(out, k), PySequence_Fast_GET_ITEM(out, i));
      }
    }
  }
  if (!is_tensor(out)) return;
  const Tensor& written = tensor_of(out);
  const bool picks = family.has(OpDef::picks);
  if (picks && written.numel() > 0) check_no_internal_overlap(family.name, written);
  const auto check_against = [&](const Tensor& read, bool whole) {
    const bool same = written.storage() == read.storage() && written.offset() == read.offset() &&
                      written.sizes() == read.sizes();
    CHECK(!whole || read.numel() == 0 || !same, RuntimeError,
          "{}: unsupported operation: some elements of the input tensor and the written-to tensor "
          "refer to a single memory location. Please clone() the tensor before performing the "
          "operation.",
          family.name);
    check_no_partial_overlap(family.name, written, read);
  };
  for (Py_ssize_t i = 0; i < call.nargs; ++i) {
    PyObject* object = call.args[i];
    if (is_tensor(object)) {
      check_against(tensor_of(object), picks);
    } else if (PyTuple_Check(object) || PyList_Check(object)) {  // what is joined
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(object, k);
        if (is_tensor(item)) check_against(tensor_of(item), true);
      }
    }
  }
}

void check_out_device(const Family& family, const Call& call, const Tensor& out) {
  for (Py_ssize_t i = 0; i < call.nargs + call.keywords(); ++i) {
    if (!is_tensor(call.args[i])) continue;
    const Tensor& input = tensor_of(call.args[i]);
    // A zero-dim CPU tensor goes along with any device, as a number would.
    const bool as_number = input.dim() == 0 && input.device().is_cpu();
    CHECK(as_number || input.device() == out.device(), RuntimeError,
          "{}(): Expected out tensor to have device {}, but got {} instead", family.name,
          input.device(), out.device());
  }
}

}  // namespace flambeau::python
