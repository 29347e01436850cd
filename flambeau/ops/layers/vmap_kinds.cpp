// How the kinds of ops (OpDef::Flags) are computed for all samples of a batch at once.
#include <algorithm>

#include "flambeau/base/check.h"
#include "flambeau/ops/layers/batching.h"

namespace flambeau {

// --- Element by element
// ----------------------------------------------------------------------------

Tensor aligned(const Batching& batch, const Tensor& one, int64_t rank) {
  Tensor samples = batch.samples(one);
  if (!batch.is_batched(one) || one.dim() == rank) return samples;
  Dims size = {samples.size(0)};
  for (int64_t d = one.dim(); d < rank; ++d) size.push_back(1);
  for (const int64_t n : one.sizes()) size.push_back(n);
  return reshape_to(samples, size);
}

namespace {

int arity(const Batching& batch) { return batch.call().op().arity; }

// What samples of no dimensions promote to: a batch of them would count as more.
std::optional<DType> promoted(const Batching& batch) {
  ResultType type;
  bool differ = false, zero_dim = false;
  std::optional<DType> first;
  for (int i = 0; i < arity(batch); ++i) {
    const Tensor one = batch.tensor(i);
    if (!one.defined() || one.dtype() == DType::bool_) continue;
    type.add(one);
    differ |= first && *first != one.dtype();
    first = one.dtype();
    zero_dim |= batch.is_batched(one) && one.dim() == 0;
  }
  return differ && zero_dim ? std::optional(type.get()) : std::nullopt;
}

// Two operands of different ranks, or a number and a tensor of none, promote as single samples do:
// PyTorch asks the first of them, which must be there.
void check_has_first(const Batching& batch) {
  const Tensor a = batch.tensor(0), b = arity(batch) > 1 ? batch.tensor(1) : Tensor();
  const bool has_number = (!a.defined() || !b.defined()) && arity(batch) > 1;
  if (batch.call().in_place() || (has_number && !batch.call().family.has(OpDef::wraps_numbers)))
    return;
  const auto asks = [&](const Tensor& one, const Tensor& other) {
    return batch.is_batched(one) && one.dim() == 0 && !batch.is_batched(other);
  };
  const bool ranks_differ =
      a.defined() && b.defined() && a.dim() != b.dim() &&
      ((batch.is_batched(a) && a.dim() == 0) || (batch.is_batched(b) && b.dim() == 0));
  CHECK(!(arity(batch) > 1 && (ranks_differ || asks(a, b) || asks(b, a))), IndexError,
        "{}: index 0 out of range for a batch of no samples", batch.name());
}

}  // namespace

bool batch_elementwise(Batching& batch, Result& result) {
  if (batch.size() == 0) check_has_first(batch);
  int64_t rank = 0;
  for (int i = 0; i < arity(batch); ++i) {
    if (const Tensor one = batch.tensor(i); one.defined()) rank = std::max(rank, one.dim());
  }
  const std::optional<DType> dtype = promoted(batch);
  const Tensor self = batch.call().in_place() ? batch.tensor(0) : Tensor();
  CHECK(
      !self.defined() || self.dim() == rank, RuntimeError,
      "{}(): output with shape {} doesn't match the broadcast shape of its operands, which have up "
      "to {} dimensions",
      batch.name(), self.sizes(), rank);
  batch.rewrite().tensors([&](const Tensor& one, int) {
    if (!batch.is_batched(one)) return Tensor();
    Tensor samples = aligned(batch, one, rank);
    const bool casts = dtype && one.dim() == 0 && one.dtype() != DType::bool_ && !one.is_same(self);
    return casts ? tensor_op("to", {samples, *dtype}) : samples;
  });
  batch.run(result);
  return true;
}

namespace {

// --- Along dimensions
// ------------------------------------------------------------------------------

int dim_parameter(const Batching& batch) {
  const std::vector<Parameter>& parameters = batch.call().overload.parameters;
  const auto found = std::ranges::find_if(parameters, &Parameter::is_dim);
  return found == parameters.end() ? -1 : static_cast<int>(found - parameters.begin());
}

Dims all_dims(int64_t rank) {
  Dims dims;
  for (int64_t d = 1; d <= rank; ++d) dims.push_back(d);
  return dims;
}

Dims dims_at(const Batching& batch, int i) {
  if (batch.kind(i) == Kind::integer) return {batch.value(i).integer};
  return batch.ints(batch.call().overload.parameters[i].name);
}

void set_dims(Batching& batch, int i, const Dims& dims) {
  if (batch.kind(i) == Kind::integer) {
    batch.rewrite().set_integer(i, dims[0]);
  } else {
    batch.rewrite().set(i, dims);
  }
}

void squeeze_results(Result& result, int64_t dim) {
  if (result.tensor.defined()) result.tensor = squeeze_at(result.tensor, dim);
  for (Tensor& tensor : result.tensors) tensor = squeeze_at(tensor, dim);
}

bool takes_all(const Overload& overload, const Batching& batch) {
  for (int i = 1; i < arity(batch); ++i) {
    const Parameter& mine = batch.call().overload.parameters[i];
    const bool there = std::ranges::any_of(overload.parameters, [&](const Parameter& other) {
      return other.name == mine.name && other.kind == mine.kind;
    });
    if (batch.given(i) && !there) return false;
  }
  return true;
}

// The overload of the same name that reduces along one dimension, called along the second with what
// else was given.
bool reduce_all(Batching& batch, Result& result) {
  const Family* family = find_family(op_name_of(batch.call().op()));
  if (!family || batch.kind(0) != Kind::tensor) return false;
  const Tensor flat = reshape_to(batch.samples(0), {batch.size(), batch.tensor(0).numel()});
  const Dims second = {1};
  for (const Overload& overload : family->overloads) {
    const std::vector<Parameter>& p = overload.parameters;
    if (p.size() < 2 || p[1].name != "dim" || !takes_all(overload, batch)) continue;
    Value values[max_arguments];
    for (size_t i = 0; i < p.size(); ++i) {
      const int given = batch.find(p[i].name);
      values[i] = given >= 0 && batch.kind(given) == p[i].kind ? batch.value(given) : p[i].fallback;
    }
    values[0].given = values[1].given = true;
    values[0].tensor = &flat;
    if (p[1].kind == Kind::integer) {
      values[1].integer = 1;
    } else {
      values[1].span = {second.data(), second.size()};
    }
    const OpCall along_second{*family, overload, values};
    flambeau::call(along_second, special_of(along_second), result);
    if (batch.call().op().returns == Result::Form::tensor &&
        result.form == Result::Form::tuple) {  // values and indices
      result.tensor = result.tensors[0];
      result.tensors.clear();
      result.form = Result::Form::tensor;
    }
    return true;
  }
  return false;
}

bool reduces(Batching& batch, Result& result) {
  if (!batch.only(0)) return false;
  const int at = dim_parameter(batch);
  if (at < 0) return reduce_all(batch, result);
  const int64_t rank = batch.rank(0);
  Tensor samples = rank == 0 ? unsqueeze_at(batch.samples(0), 1) : batch.samples(0);
  const bool all = !batch.given(at) || dims_at(batch, at).empty();
  const bool keepdim = batch.flag("keepdim");
  if (all && batch.kind(at) == Kind::integer) {
    Dims kept = {batch.size()};
    for (int64_t d = 0; d < rank; ++d) kept.push_back(1);
    batch.rewrite().set(0, reshape_to(samples, {batch.size(), batch.tensor(0).numel()}));
    batch.rewrite().set_integer(at, 1);
    batch.run(result);
    if (keepdim && result.tensor.defined()) result.tensor = reshape_to(result.tensor, kept);
    return true;
  }
  batch.rewrite().set(0, samples);
  set_dims(batch, at,
           all ? all_dims(std::max<int64_t>(rank, 1)) : shifted(dims_at(batch, at), rank));
  batch.run(result);
  if (rank == 0 && keepdim) squeeze_results(result, 1);
  return true;
}

// Every tensor has lines along the dimension; those of samples without dimensions are of one
// element.
bool along(Batching& batch, Result& result) {
  const int at = dim_parameter(batch);
  if (at < 0) return false;
  const int64_t rank = batch.rank(0);
  const bool all = !batch.given(at);
  if (all && batch.kind(at) == Kind::integer) return false;
  // Lengths without dimensions are those of the last ones.
  const int lengths = batch.find("s");
  if (all && lengths >= 0 && batch.given(lengths)) return false;
  batch.rewrite().tensors([&](const Tensor& one, int) {
    const Tensor samples = batch.whole(one);
    return one.dim() == 0 && rank == 0 ? unsqueeze_at(samples, 1) : samples;
  });
  set_dims(batch, at,
           all ? all_dims(std::max<int64_t>(rank, 1)) : shifted(dims_at(batch, at), rank));
  batch.run(result);
  if (rank == 0) squeeze_results(result, 1);
  return true;
}

// --- Shapes
// ----------------------------------------------------------------------------------------

// Dimensions are one further back, or an order of all of them; sizes get the batch in front.
bool reshapes(Batching& batch, Result& result) {
  if (!batch.only(0)) return false;
  const int64_t rank = batch.rank(0);
  batch.use_samples();
  for (int i = 1; i < arity(batch); ++i) {
    const Parameter& parameter = batch.call().overload.parameters[i];
    if (!batch.given(i)) continue;
    if (parameter.name == "dims") {
      Dims order = shifted(dims_at(batch, i), rank);
      order.insert(order.begin(), 0);
      batch.rewrite().set(i, order);
    } else if (parameter.is_dim) {
      if (rank == 0) return false;
      set_dims(batch, i, shifted(dims_at(batch, i), rank));
    } else if (parameter.is_size) {
      Dims size = batch.ints(parameter.name);
      size.insert(size.begin(), batch.size());
      batch.rewrite().set(i, size);
    }
  }
  batch.run(result);
  return true;
}

bool joins(Batching& batch, Result& result) {
  const int at = batch.find("dim");
  if (at < 0 || batch.kind(0) != Kind::tensors) return false;
  const std::vector<Tensor>& tensors = *batch.value(0).tensors;
  int64_t rank = 0;
  for (const Tensor& tensor : tensors) rank = std::max(rank, tensor.dim());
  const bool legacy = std::ranges::any_of(
      tensors, [&](const Tensor& one) { return one.dim() != rank || one.dim() == 0; });
  const bool stacks = op_name_of(batch.call().op()) == "stack";
  if (legacy && !stacks) return false;  // empty vectors are joined to anything
  std::vector<Tensor> whole;
  for (const Tensor& tensor : tensors) whole.push_back(batch.whole(tensor));
  batch.rewrite().set(0, std::move(whole));
  batch.rewrite().set_integer(at, shifted(batch.value(at).integer, rank + (stacks ? 1 : 0)));
  batch.run(result);
  return true;
}

// --- Matrices
// --------------------------------------------------------------------------------------

// Leading dimensions are batches already, which broadcast.
bool batches(Batching& batch, Result& result) {
  int64_t lead = 0;
  for (int i = 0; i < arity(batch); ++i) {
    if (const Tensor one = batch.tensor(i); one.defined())
      lead = std::max(lead, one.dim() - batch.call().op().event_dims(i));
  }
  batch.rewrite().tensors([&](const Tensor& one, int i) {
    return aligned(batch, one, lead + batch.call().op().event_dims(i));
  });
  batch.run(result);
  return true;
}

// --- New tensors
// -----------------------------------------------------------------------------------

bool creates(Batching& batch, Result& result) {
  if (!batch.only(0)) return false;
  batch.use_samples();
  const int at = batch.find("size");
  if (at >= 0 && batch.kind(at) == Kind::ints) {
    Dims size = batch.ints("size");
    size.insert(size.begin(), batch.size());
    batch.rewrite().set(at, size);
  }
  batch.run(result);
  return true;
}

}  // namespace

bool batch_by_kind(Batching& batch, Result& result) {
  switch (batch.call().op().kind()) {
    case OpDef::elementwise: return batch_elementwise(batch, result);
    case OpDef::reduces: return reduces(batch, result);
    case OpDef::along: return along(batch, result);
    case OpDef::batches: return batches(batch, result);
    case OpDef::reshapes: return reshapes(batch, result);
    case OpDef::joins: return joins(batch, result);
    case OpDef::creates: return creates(batch, result);
    default: return false;
  }
}

}  // namespace flambeau
