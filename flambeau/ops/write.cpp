// The forms of an op that write: name_() made from name(), and out=. What may be written to, and
// how a result gets there, is the same for all ops.
#include <algorithm>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/call.h"
#include "flambeau/ops/elementwise/overwrite.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/steps.h"
#include "flambeau/tensor/shape.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {
namespace {

// --- In place
// --------------------------------------------------------------------------------------

Tensor copy_with_history(const Tensor& tensor, const Edge& origin) {
  const NoGrad off;
  Tensor copy = clone(tensor);
  if (origin) set_history(copy, origin.node, origin.input);
  return copy;
}

// Writes the result of an op on self, which had the history `origin`. A result that is one step
// away from there has made its step for the write; of others the copying is another step.
void write_result(const Tensor& self, const Edge& origin, const Tensor& result) {
  const NodePtr step = origin && !result->view_base ? grad_fn(result) : nullptr;
  const bool direct = step && step->inputs.size() == 1 && step->edges.size() > 0 &&
                      step->edges[0].node == origin.node && step->edges[0].input == origin.input &&
                      result.dtype() == self.dtype();
  {
    const GradGuard mode(grad_enabled() && !direct);
    copy_(self, result);
  }
  if (direct) rebase_history(self, step);
}

// Raises unless self can be overwritten by this call. Gives whether something beside self that
// wants a gradient goes into it.
bool check_write_to_self(const OpCall& call, const Tensor& self) {
  bool others_want_gradients = false, first = true;
  each_tensor(call, [&](const Tensor& tensor, bool) {
    if (!std::exchange(first, false)) {
      others_want_gradients |= tensor.requires_grad();
      check_no_partial_overlap(call.name(), self, tensor);
    }
  });
  check_inplace(call.name().c_str(), self, others_want_gradients);
  check_no_internal_overlap(call.name(), self);
  return others_want_gradients;
}

void check_fits(const OpCall& call, const Tensor& self, const Tensor& result) {
  CHECK(can_cast(result.dtype(), self.dtype()), RuntimeError,
        "{}(): result type {} can't be cast to the desired output type {}", call.name(),
        dtype_legacy_name(result.dtype()), dtype_legacy_name(self.dtype()));
  CHECK(result.sizes() == self.sizes(), RuntimeError,
        "{}(): output with shape {} doesn't match the broadcast shape {}", call.name(),
        self.sizes(), result.sizes());
}

// --- What may be given as out=
// ---------------------------------------------------------------------

// Whether out= is left with a history that cannot be gone back: of new numbers, too.
bool fails_after_out(const OpCall& call) {
  const auto takes_options = [](const Parameter& p) { return p.kind == Kind::options; };
  return call.family.has(OpDef::out_fails) ||
         std::ranges::any_of(call.overload.parameters, takes_options);
}

// out= overwrites a tensor behind the graph's back, so nothing that goes in may want a gradient,
// unless the op says what becomes of it. Gives whether something wants one.
bool check_may_write(const OpCall& call) {
  bool wants = false;
  each_tensor(call, [&](const Tensor& tensor, bool) { wants |= tensor.requires_grad(); });
  bool into_leaf = false;
  for (size_t i = 0; i < call.n_outs; ++i) {
    const Tensor& out = call.outs[i];
    if (!out.requires_grad()) continue;
    wants = true;
    into_leaf |= is_leaf(out) || (out->view_base && is_leaf(Tensor(out->view_base)));
  }
  wants &= grad_enabled();
  const bool allowed = call.family.has(OpDef::gives_bool | OpDef::out_drops | OpDef::out_records) ||
                       (fails_after_out(call) && !into_leaf);
  CHECK(!wants || allowed, RuntimeError,
        "{}(): functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.",
        call.name());
  return wants;
}

// The history of an out= that backward cannot go through, for ops that PyTorch does not refuse.
void record_failing(const OpCall& call) {
  std::vector<Tensor> inputs(call.outs, call.outs + call.n_outs);
  each_tensor(call, [&](const Tensor& tensor, bool) { inputs.push_back(tensor); });
  for (size_t i = 0; i < call.n_outs; ++i) {
    if (!is_differentiable(call.outs[i].dtype())) continue;
    const auto version = call.outs[i]->version;  // held: writes to it have been counted
    if (Record r{"not_implemented", call.outs[i], inputs}) {
      r.all([name = &call.name()](Grads&, Grads&) {
        fail<RuntimeError>("derivative for aten::{} with out=... is not implemented", *name);
      });
    }
  }
}

// A dtype that is asked for by name is that of the output, too.
void check_asked_dtype(const OpCall& call, const Tensor& out) {
  for (int i = 0; i < call.op().arity; ++i) {
    if (call.op().kinds[i] != Kind::dtype || !call.values[i].given) continue;
    const auto asked = static_cast<DType>(call.values[i].code);
    const bool real = call.family.has(OpDef::casts_real);
    CHECK((real ? to_real(asked) : asked) == out.dtype(), RuntimeError,
          "{}(): Expected out tensor to have dtype {}, but got {} instead", call.name(),
          dtype_name(asked), dtype_name(out.dtype()));
  }
}

// For ops that write into out= themselves: all tensors of the call are where it is.
void check_device(const OpCall& call, const Tensor& out) {
  each_tensor(call, [&](const Tensor& input, bool) {
    // A zero-dim CPU tensor goes along with any device, as a number would.
    const bool as_number = input.dim() == 0 && input.device().is_cpu();
    CHECK(as_number || input.device() == out.device(), RuntimeError,
          "{}(): Expected out tensor to have device {}, but got {} instead", call.name(),
          input.device(), out.device());
  });
}

// Two results in one place are neither. Windows with gaps are not looked into: they may interleave.
void check_apart(const OpCall& call, const Tensor& a, const Tensor& b) {
  const auto dense = [](const Tensor& x) {
    return is_non_overlapping_and_dense(x.sizes(), x.strides());
  };
  const auto begins_inside = [](const Tensor& x, const Tensor& y) {
    return x.offset() * x.item_size() < (y.offset() + y.numel()) * y.item_size();
  };
  const bool share = a.numel() > 0 && b.numel() > 0 && a.storage() == b.storage() && dense(a) &&
                     dense(b) && begins_inside(a, b) && begins_inside(b, a);
  CHECK(!share && !a.is_same(b), ValueError,
        "{}(): the tensors of out=, of shapes {} and {}, must not overlap", call.name(), a.sizes(),
        b.sizes());
}

// Unless told otherwise, what is written to out= is added up, or multiplied, in its dtype.
void ask_dtype_of_out(const OpCall& call, const Tensor& out) {
  for (int i = 0; i < call.op().arity; ++i) {
    if (call.op().kinds[i] != Kind::dtype || call.values[i].given) continue;
    call.values[i].given = true;
    call.values[i].code = static_cast<uint8_t>(out.dtype());
  }
}

// Raises where out= shares memory with an input in a way that the op does not allow: in part, or,
// for ops that pick elements, at all.
void check_no_overlap(const OpCall& call, const Tensor& out) {
  const bool picks = call.family.has(OpDef::picks);
  if (picks && out.numel() > 0) check_no_internal_overlap(call.name(), out);
  each_tensor(call, [&](const Tensor& read, bool joined) {
    const bool same = out.storage() == read.storage() && out.offset() == read.offset() &&
                      out.sizes() == read.sizes();
    CHECK(!(picks || joined) || read.numel() == 0 || !same, RuntimeError,
          "{}: unsupported operation: some elements of the input tensor and the written-to tensor "
          "refer to a single memory location. Please clone() the tensor before performing the "
          "operation.",
          call.name());
    check_no_partial_overlap(call.name(), out, read);
  });
}

// An elementwise op does not resize what it also reads; it is known by its result, which has the
// common shape of all tensors that went in.
void check_not_read(const OpCall& call, const Tensor& out, const Tensor& result) {
  if (out.sizes() == result.sizes()) return;
  bool is_read = false, fits = true;
  Dims common;
  each_tensor(call, [&](const Tensor& input, bool joined) {
    if (joined || !fits) return;
    is_read |= input.is_same(out);
    fits = can_broadcast_to(input.sizes(), result.sizes());
    if (fits) common = broadcast_shapes(common, input.sizes());
  });
  CHECK(!fits || !is_read || !(result.sizes() == common), RuntimeError,
        "{}(): output with shape {} doesn't match the broadcast shape {}", call.name(), out.sizes(),
        common);
}

// --- Getting a result into out=
// --------------------------------------------------------------------

// Tells that a tensor that was not empty has been given another shape. Ops that make tensors out of
// numbers do so silently, unless they count.
void warn_if_resized(const OpCall& call, IntSpan before, IntSpan after) {
  if (before == after || std::ranges::find(before, 0) != before.end()) return;
  if (call.family.has(OpDef::tells_count)) {
    warn(
        format("The number of elements in the out tensor of shape {} is {} which does not match "
               "the computed number of elements {}. Note that this may occur as a result of "
               "rounding error. The out tensor will be resized to a tensor of shape ({},).",
               before, checked_numel(before), after[0], after[0]));
    return;
  }
  const std::vector<Parameter>& parameters = call.family.overloads.front().parameters;
  if (std::ranges::any_of(parameters, [](const Parameter& p) { return p.kind == Kind::options; }))
    return;
  warn(
      format("An output with one or more elements was resized since it had shape {}, which does "
             "not match the required output shape {}. This behavior is deprecated, and in a future "
             "PyTorch release outputs will not be resized unless they have zero elements. An "
             "output that is to be reused can be emptied first with t.resize_(0).",
             before, after));
}

void check_out_takes(const OpCall& call, const Tensor& out, const Tensor& result, bool is_index) {
  if (!can_cast(result.dtype(), out.dtype())) {
    const bool resized = call.op().has(OpDef::casts_out) && call.op().kind() == OpDef::reduces;
    if (resized) resize_tensor(out, result.sizes(), result.strides());
    CHECK(!call.family.has(OpDef::type_error_out), TypeError,
          "{}(): input types can't be cast to the desired output type {}", call.name(),
          dtype_legacy_name(out.dtype()));
    fail<RuntimeError>("{}(): result type {} can't be cast to the desired output type {}",
                       call.name(), dtype_legacy_name(result.dtype()),
                       dtype_legacy_name(out.dtype()));
  }
  // Indices are int64 even where what stands there may be cast.
  const bool casts =
      call.op().has(OpDef::casts_out) && !(is_index && result.dtype() == DType::int64);
  CHECK(casts || out.dtype() == result.dtype(), RuntimeError,
        "{}(): Expected out tensor to have dtype {}, but got {} instead", call.name(),
        dtype_name(result.dtype()), dtype_name(out.dtype()));
  CHECK(out.device() == result.device(), RuntimeError,
        "{}(): Expected out tensor to have device {}, but got {} instead", call.name(),
        result.device(), out.device());
}

// --- An expanded out=
// --------------------------------------------------------------------

bool is_expanded(const Tensor& out, int64_t dim) {
  return out.sizes()[dim] > 1 && out.strides()[dim] == 0;
}

bool repeats(const OpCall& call, const Tensor& out) {
  if (!call.family.has(OpDef::out_repeats)) return false;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (is_expanded(out, d)) return true;
  }
  return false;
}

// The reduction of this call, of another tensor along another dimension, which stays as one of
// size 1.
Tensor reduce_again(const OpCall& call, const Tensor& input, int64_t dim) {
  std::vector<Value> values(call.values, call.values + call.op().arity);
  const Tensor fresh = make_tensor({0}, input.dtype(), input.device());
  values[0].tensor = &input;
  for (int i = 1; i < call.op().arity; ++i) {
    const std::string& name = call.overload.parameters[i].name;
    if (name == "keepdim") values[i].flag = true;
    if (name == "dim") {
      values[i].given = true;
      values[i].span = {&dim, 1};
      if (call.op().kinds[i] == Kind::integer) values[i].integer = dim;
    }
    if (call.is_out(i)) values[i].tensor = &fresh;
  }
  Result result;
  invoke({call.family, call.overload, values.data()}, result);
  return result.tensor;
}

// Writes a result of the size of `out`, of which several elements share memory: those of a
// reduction are reduced further, as PyTorch does; of others the last one stays.
void write_repeated(const OpCall& call, const Tensor& out, Tensor result) {
  Tensor once = out;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (!is_expanded(out, d)) continue;
    once = narrow(once, d, 0, 1);
    result = call.family.overloads.front().op->kind() == OpDef::reduces
                 ? reduce_again(call, result, d)
                 : narrow(result, d, result.size(d) - 1, 1);
  }
  copy_(once, result);
}

// Puts a fresh result into a tensor given by out=. One behind the first may hold indices.
void write_out(const OpCall& call, const Tensor& out, const Tensor& result, bool is_index) {
  check_out_takes(call, out, result, is_index);
  if (out.numel() == result.numel() && call.family.has(OpDef::counts)) {
    copy_(out, view(result, out.sizes()));
    return;
  }
  if (repeats(call, out) && out.sizes() == result.sizes()) return write_repeated(call, out, result);
  if (!(out.sizes() == result.sizes())) {
    warn_if_resized(call, out.sizes(), result.sizes());
    const bool dense = is_non_overlapping_and_dense(result.sizes(), result.strides());
    resize_tensor(out, result.sizes(),
                  dense ? result.strides() : IntSpan(contiguous_strides(result.sizes())));
  }
  copy_(out, result);
}

void write_outs(const OpCall& call, Result& result) {
  if (!call.out_is_tuple) {
    CHECK(result.form == Result::Form::tensor, TypeError,
          "{}(): argument 'out' must be tuple of Tensors, not Tensor", call.name());
    CHECK(result.tensor.defined(), NotImplementedError, "{}(): there is no result to write to out",
          call.name());
    check_not_read(call, call.outs[0], result.tensor);
    write_out(call, call.outs[0], result.tensor, false);
    result.tensor = call.outs[0];
    return;
  }
  CHECK(result.form != Result::Form::tensor, TypeError,
        "{}(): argument 'out' must be Tensor, not tuple of Tensors", call.name());
  const bool fits = call.n_outs == result.tensors.size();
  CHECK(fits || result.form == Result::Form::tuple, RuntimeError,
        "{}(): expected {} tensors in argument 'out', got {}", call.name(), result.tensors.size(),
        call.n_outs);
  CHECK(fits, TypeError, "{}(): argument 'out' must be tuple of {} Tensors, not of {}", call.name(),
        result.tensors.size(), call.n_outs);
  for (size_t i = 0; i < call.n_outs; ++i) {
    write_out(call, call.outs[i], result.tensors[i], i > 0);
    result.tensors[i] = call.outs[i];
  }
  if (result.form == Result::Form::list) result = {};  // none, as PyTorch does for split_copy
}

// A new tensor that goes into out= is of out's dtype and device unless others were asked for.
void make_like_out(const OpCall& call, Options& options, const Tensor& out) {
  CHECK(!options.dtype || *options.dtype == out.dtype(), RuntimeError,
        "{}(): dtype {} does not match dtype of out parameter ({})", call.name(),
        dtype_legacy_name(*options.dtype), dtype_legacy_name(out.dtype()));
  options.dtype = out.dtype();
  if (!options.device) options.device = out.device();
}

// By a function that writes into out= itself.
void call_direct(const OpCall& call, Result& result) {
  const Tensor& out = call.outs[0];
  check_device(call, out);
  check_asked_dtype(call, out);
  const Dims before = out->sizes;
  const NoGrad off;
  const Tensor apart = repeats(call, out) ? empty_like(out) : Tensor();
  for (int i = 0; apart.defined() && i < call.op().arity; ++i) {
    if (call.is_out(i)) call.values[i].tensor = &apart;
  }
  invoke(call, result);
  if (apart.defined()) write_out(call, out, apart, false);
  warn_if_resized(call, before, out.sizes());
  result.form = Result::Form::tensor;
  result.tensor = out;
}

}  // namespace

void call_in_place(const OpCall& call, Result& result) {
  const Tensor self = *call.values[0].tensor;
  const char* name = call.family.name.c_str();
  const bool others_want_gradients = check_write_to_self(call, self);
  // What the op keeps of self for backward must not be what it overwrites.
  const bool recorded = grad_enabled() && (self.requires_grad() || others_want_gradients);
  const Edge origin = recorded ? gradient_edge(self) : Edge();
  const Tensor kept = recorded ? copy_with_history(self, origin) : self;
  call.values[0].tensor = &kept;
  {
    const MayOverwrite target(recorded ? nullptr : &self);
    invoke(call, result);
  }
  if (result.tensor.is_same(self)) {
    self.bump_version(name);
    return;
  }
  check_fits(call, self, result.tensor);
  write_result(self, origin, result.tensor);
  result.tensor = self;
}

void call_into(const OpCall& call, Result& result) {
  const bool fails = check_may_write(call) && fails_after_out(call);
  if (call.op().has(OpDef::out_form)) {
    call_direct(call, result);
    if (fails) record_failing(call);
    return;
  }
  for (size_t i = 0; i < call.n_outs; ++i) {
    check_no_overlap(call, call.outs[i]);
    for (size_t k = 0; k < i; ++k) check_apart(call, call.outs[k], call.outs[i]);
  }
  Options options;
  if (!call.out_is_tuple) {
    check_asked_dtype(call, call.outs[0]);
    if (call.op().has(OpDef::dtype_of_out)) ask_dtype_of_out(call, call.outs[0]);
    for (int i = 0; i < call.op().arity; ++i) {
      if (call.op().kinds[i] != Kind::options) continue;
      options = *call.values[i].options;
      make_like_out(call, options, call.outs[0]);
      call.values[i].options = &options;
    }
  }
  {
    const GradGuard mode(grad_enabled() && call.family.has(OpDef::out_records));
    invoke(call, result);
    write_outs(call, result);
  }
  if (fails) record_failing(call);
  if (options.requires_grad) set_requires_grad(call.outs[0], true);
}

void call_function(const OpCall& call, Result& result) {
  if (call.has_out) return call_into(call, result);
  if (call.family.inplace_by_copy) return call_in_place(call, result);
  invoke(call, result);
  if (may_have_writes(result)) forget_writes(call, result);
}

// Of a result that is a view of what nobody else holds no write elsewhere needs to know.
static void forget_base(const Tensor& tensor) {
  TensorImpl& impl = *tensor.impl();
  if (impl.use_count() > 1 || !impl.view_base) return;
  if (impl.view_base->use_count() > 1 || impl.view_base->python) return;
  const AutogradMeta* meta = maybe_meta(tensor);
  if (impl.view_base->requires_grad && !(meta && meta->grad_fn)) return;
  if (meta && (meta->replay || impl.view_version != tensor.version())) return;
  impl.view_base = nullptr;
  impl.view_origin = ViewOrigin::normal;
}

void forget_writes(const OpCall& call, Result& result) {
  if (call.family.writes_self) return;
  const bool views = call.family.has(OpDef::makes_view);
  const auto forget = [views](const Tensor& tensor) {
    if (!views && tensor.defined()) forget_base(tensor);
    // Held by nobody else: neither an argument, nor a view, nor saved for backward.
    if (!tensor.defined() || tensor.impl()->use_count() > 1 || !tensor->version) return;
    const bool counts = tensor->version->writer.load() == step_in_place;
    if (tensor->version->use_count() == 1 && !counts) tensor->version = nullptr;
  };
  forget(result.tensor);
  for (const Tensor& tensor : result.tensors) forget(tensor);
}

}  // namespace flambeau
