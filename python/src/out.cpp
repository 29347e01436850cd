#include "python/src/out.h"

#include <algorithm>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::python {

namespace {

// Elementwise arithmetic, and what PyTorch composes of it, of reductions or of copies.
constexpr std::string_view casting =
    "add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh cat "
    "cholesky_inverse cholesky_solve column_stack concat concatenate diff div divide dstack "
    "fft_fftfreq fft_hfft fft_hfft2 fft_hfftn fft_irfft fft_irfft2 fft_irfftn fft_rfftfreq "
    "floor_divide fmod geqrf ger greater greater_equal hstack kron ldexp lerp less less_equal "
    "linalg_cond linalg_householder_product linalg_lstsq linalg_matrix_power linalg_matrix_rank "
    "linalg_pinv linalg_tensorinv linalg_tensorsolve logical_not logit logsumexp matrix_power "
    "max mean min mul multiply mvlgamma nanmean nansum not_equal orgqr outer polygamma pow "
    "remainder row_stack sinc stack std sub subtract true_divide var vstack ";

// Ops that read elements in another order than they write.
constexpr std::string_view picking =
    "cross gather index_select kthvalue linalg_cross masked_select take ";

// Ops that count through the elements of `out`, whatever its shape, if their number is right.
constexpr std::string_view counting = "arange linspace logspace range ";

bool is_among(std::string_view names, std::string_view name) {
  for (size_t at = names.find(name); at != names.npos; at = names.find(name, at + 1)) {
    if ((at == 0 || names[at - 1] == ' ') && names[at + name.size()] == ' ') return true;
  }
  return false;
}

}  // namespace

bool casts_into_out(std::string_view name) { return is_among(casting, name); }

void warn_if_resized(const Family& family, IntSpan before, IntSpan after) {
  if (before == after || std::ranges::find(before, 0) != before.end()) return;
  const std::vector<Parameter>& parameters = family.overloads.front().parameters;
  const bool makes = std::ranges::any_of(
      parameters, [](const Parameter& parameter) { return parameter.kind == Kind::options; });
  if (makes && family.name != "arange") return;
  const std::string text = format(
      "An output with one or more elements was resized since it had shape {}, which does not match "
      "the required output shape {}. This behavior is deprecated, and in a future PyTorch release "
      "outputs will not be resized unless they have zero elements. An output that is to be reused "
      "can be emptied first with t.resize_(0).",
      before, after);
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
}

void write_out(const Family& family, const Tensor& out, const Tensor& result) {
  const std::string& op = family.name;
  const bool fits = can_cast(result.dtype(), out.dtype());
  CHECK(fits || !op.ends_with("stack"), TypeError,
        "{}(): input types can't be cast to the desired output type {}", op,
        dtype_legacy_name(out.dtype()));
  CHECK(fits, RuntimeError, "{}(): result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(result.dtype()), dtype_legacy_name(out.dtype()));
  CHECK(family.casts_into_out || out.dtype() == result.dtype(), RuntimeError,
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
  if (out.numel() == result.numel() && is_among(counting, op)) {
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

void check_no_overlap(const Family& family, const Call& call, PyObject* out) {
  if (PyTuple_Check(out) || PyList_Check(out)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i)
      check_no_overlap(family, call, PySequence_Fast_GET_ITEM(out, i));
  }
  if (!is_tensor(out)) return;
  const Tensor& written = tensor_of(out);
  const bool picks = is_among(picking, family.name);
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
