#include "flambeau/ops/layers/vmap.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "flambeau/base/check.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/layers/batching.h"

namespace flambeau {
namespace {

// --- Levels
// ----------------------------------------------------------------------------------------

struct Levels {
  std::vector<VmapLevel> all;
  int current = 0;

  void set_current(int level) {
    current = level;
    active_layers =
        static_cast<uint8_t>(level ? active_layers | Active::vmap : active_layers & ~Active::vmap);
  }
};
thread_local Levels levels;

}  // namespace

int enter_vmap(int64_t size, Randomness randomness) {
  CHECK(levels.all.size() < 255, RuntimeError, "vmap: more than 255 are nested");
  levels.all.push_back({size, randomness, levels.current});
  levels.set_current(static_cast<int>(levels.all.size()));
  return levels.current;
}

void leave_vmap() {
  CHECK(!levels.all.empty(), RuntimeError, "vmap: no level is open in this thread");
  const int outer = levels.all.back().outer;
  levels.all.pop_back();
  levels.set_current(outer);
}

int current_vmap_level() { return levels.current; }

const VmapLevel& vmap_level(int level) {
  CHECK(level >= 1 && level <= static_cast<int>(levels.all.size()), RuntimeError,
        "vmap: a tensor of a sample was kept and used outside of vmap");
  return levels.all[level - 1];
}

int set_vmap_level(int level) {
  CHECK(level >= 0 && level <= static_cast<int>(levels.all.size()), RuntimeError,
        "vmap: level {} is not open in this thread", level);
  const int before = levels.current;
  levels.set_current(level);
  return before;
}

Tensor add_batch_dim(const Tensor& tensor, int64_t dim, int level) {
  const AtVmapLevel outside(vmap_level(level).outer);
  return make_batched(dim == 0 ? tensor : move_dim(tensor, dim, 0), level);
}

Tensor remove_batch_dim(const Tensor& tensor, int level, int64_t size, int64_t dim) {
  const AtVmapLevel outside(vmap_level(level).outer);
  if (is_batched_at(tensor, level)) {
    const Tensor samples = behind(tensor);
    return dim == 0 ? samples : move_dim(samples, 0, dim);
  }
  dim = wrap_dim("vmap", dim, tensor.dim() + 1);
  Dims sizes = tensor.sizes().dims();
  sizes.insert(sizes.begin() + dim, size);
  return expand_to(unsqueeze_at(tensor, dim), sizes);
}

Tensor whole_batch(const Tensor& tensor) {
  Tensor whole = tensor;
  for (int level = current_vmap_level(); level > 0; level = vmap_level(level).outer) {
    whole = remove_batch_dim(whole, level, vmap_level(level).size, 0);
  }
  return whole;
}

Tensor as_samples(const Tensor& whole) {
  std::vector<int> open;
  for (int level = current_vmap_level(); level > 0; level = vmap_level(level).outer)
    open.push_back(level);
  Tensor one = whole;
  for (; !open.empty(); open.pop_back()) one = make_batched(one, open.back());
  return one;
}

// --- Sample by sample
// ------------------------------------------------------------------------------

namespace {

std::mutex fallbacks_mutex;
std::map<std::string, int64_t>& fallbacks() {
  static std::map<std::string, int64_t> counted;
  return counted;
}
std::atomic<bool> warns_of_fallbacks{true};

void count_fallback(const std::string& op) {
  {
    const std::lock_guard lock(fallbacks_mutex);
    ++fallbacks()[op];
  }
  if (!warns_of_fallbacks) return;
  warn(
      "There is a performance drop because we have not yet implemented the batching rule for "
      "aten::" +
      op + ". It is called for each sample of the batch.");
}

// One sample of a value, through views that can be written to.
Tensor sample_of(const Tensor& samples, int64_t i) { return tensor_op("select", {samples, 0, i}); }

Tensor stacked(const std::string& op, const std::vector<Tensor>& parts) {
  for (const Tensor& part : parts) {
    CHECK(part.sizes() == parts[0].sizes(), RuntimeError,
          "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
          "vmap over aten::{}: samples have results of shapes {} and {}",
          op, parts[0].sizes(), part.sizes());
  }
  return tensor_op("stack", {parts});
}

void stack_results(const std::string& op, std::vector<Result>& parts, Result& result) {
  result.form = parts[0].form;
  if (result.form == Result::Form::none) return;
  if (result.form == Result::Form::tensor) {
    std::vector<Tensor> tensors;
    for (Result& part : parts) tensors.push_back(std::move(part.tensor));
    result.tensor = stacked(op, tensors);
    return;
  }
  for (size_t k = 0; k < parts[0].tensors.size(); ++k) {
    std::vector<Tensor> tensors;
    for (Result& part : parts) {
      CHECK(part.tensors.size() == parts[0].tensors.size(), RuntimeError,
            "vmap: {}: samples have {} and {} results", op, parts[0].tensors.size(),
            part.tensors.size());
      tensors.push_back(part.tensors[k]);
    }
    result.tensors.push_back(stacked(op, tensors));
  }
}

void call_each_sample(const OpCall& call, int level, Result& result) {
  const std::string op(op_name_of(call.op()));
  const int64_t size = vmap_level(level).size;
  CHECK(size > 0, RuntimeError,
        "vmap: Encountered vmap fallback with batch size 0, for aten::{}: there is no sample to "
        "tell the shape of its result",
        op);
  count_fallback(op);
  std::vector<Result> parts(size);
  for (int64_t i = 0; i < size; ++i) {
    Rewrite rewrite(call);
    rewrite.tensors([&](const Tensor& tensor, int) {
      return is_batched_at(tensor, level) ? sample_of(behind(tensor), i) : Tensor();
    });
    OpCall again = call;
    again.values = rewrite.values();
    flambeau::call(again, special_of(again), parts[i]);
  }
  if (!call.in_place()) stack_results(op, parts, result);
}

// --- The rules
// -------------------------------------------------------------------------------------

std::map<std::string, BatchRule, std::less<>>& batch_rules() {
  static std::map<std::string, BatchRule, std::less<>> rules;
  return rules;
}

bool by_rule(Batching& batch, Result& result) {
  const auto found = batch_rules().find(op_name_of(batch.call().op()));
  if (found != batch_rules().end()) return found->second(batch, result);
  if (batch.call().op().kind() == OpDef::draws) return batch_draws(batch, result);
  return batch_by_kind(batch, result);
}

// The function itself on samples, which the ops that it is made of then see. One that reads values
// past these ops ends with an error, and has done nothing.
bool call_composed(const OpCall& call, Result& result) {
  try {
    call_from(Layer::pending, call, Pending::nothing, result);
    return true;
  } catch (const SampleError&) {
    result = {};
    return false;
  }
}

void wrap_results(Result& result, int level) {
  if (result.tensor.defined()) result.tensor = make_batched(result.tensor, level);
  for (Tensor& tensor : result.tensors) {
    if (tensor.defined()) tensor = make_batched(tensor, level);
  }
}

void check_may_write(const OpCall& call, int level) {
  CHECK(is_batched_at(*call.values[0].tensor, level), SampleError,
        "vmap: {}(self, *extra_args) is not possible because there exists a Tensor `other` in "
        "extra_args that has more elements than `self`. This happened due to `other` being vmapped "
        "over but `self`, of shape {}, not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of {}.",
        call.name(), call.values[0].tensor->sizes(), call.name());
}

// The function that is called in place of a write. If it is made of that very write, only each
// sample is left to call.
thread_local constinit const Overload* replacing = nullptr;

class Replacing {
 public:
  explicit Replacing(const Overload* functional) : before_(std::exchange(replacing, functional)) {}
  ~Replacing() { replacing = before_; }
  Replacing(const Replacing&) = delete;
  Replacing& operator=(const Replacing&) = delete;

 private:
  const Overload* before_;
};

void call_in_place_batched(const OpCall& call, int level, Result& result) {
  check_may_write(call, level);
  const Tensor self = *call.values[0].tensor;
  const OpDef::Flags kind = call.op().kind();
  Batching batch(call, level);
  {
    const AtVmapLevel outside(vmap_level(level).outer);
    const bool has_rule = batch_rules().contains(op_name_of(call.op()));
    const bool direct =
        has_rule ? call.family.writes_self
                 : kind == OpDef::elementwise || kind == OpDef::reshapes || kind == OpDef::draws;
    if (!direct || !by_rule(batch, result)) {
      const Family* family = nullptr;
      const Overload* functional = functional_form(call, family);
      if (functional && functional != replacing) {
        const Replacing once(functional);
        const AtVmapLevel inside(level);
        OpCall again{*family, *functional, call.values};
        flambeau::call(again, special_of(again), result);
        tensor_op("copy_", {self, result.tensor});
      } else {
        call_each_sample(call, level, result);
      }
    }
  }
  refresh_batched(self);
  result = {};
  result.form = Result::Form::tensor;
  result.tensor = self;
}

int level_of(const OpCall& call) {
  int level = 0;
  const auto look = [&](const Tensor& tensor) {
    if (is_batched(tensor)) level = std::max<int>(level, tensor->level);
  };
  each_tensor(call, [&](const Tensor& tensor, bool) { look(tensor); });
  for (size_t i = 0; i < call.n_outs; ++i) look(call.outs[i]);
  return level;
}

// A number or a bool that would be another for each sample.
[[noreturn]] void refuse_value(const OpCall& call) {
  if (call.op().returns == Result::Form::scalar) {
    fail<SampleError>(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
        "calling "
        ".item() on a Tensor, please try to rewrite what you're doing with other operations.");
  }
  fail<SampleError>(
      "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow: "
      "{}() has another answer for each sample of the batch. We don't support that yet; "
      "torch.where() chooses between values for each sample.",
      call.name());
}

bool gives_tensors(const OpCall& call) {
  const Result::Form form = call.op().returns;
  return form == Result::Form::tensor || form == Result::Form::tuple ||
         form == Result::Form::list || form == Result::Form::none;
}

}  // namespace

const Overload* functional_form(const OpCall& call, const Family*& family) {
  family = find_family(std::string_view(call.name()).substr(0, call.name().size() - 1), true);
  if (!family) return nullptr;
  for (const Overload& overload : family->overloads) {
    if (overload.op->arity != call.op().arity) continue;
    if (std::equal(overload.op->kinds, overload.op->kinds + call.op().arity, call.op().kinds))
      return &overload;
  }
  return nullptr;
}

BatchRegistration::BatchRegistration(std::string_view op, BatchRule rule) {
  batch_rules().emplace(op, rule);
}

std::vector<std::pair<std::string, int64_t>> vmap_fallbacks() {
  const std::lock_guard lock(fallbacks_mutex);
  return {fallbacks().begin(), fallbacks().end()};
}

bool set_vmap_fallback_warning(bool enabled) { return warns_of_fallbacks.exchange(enabled); }

bool call_vmap(const OpCall& call, uint8_t special, Result& result) {
  const int level = special & Pending::batched ? level_of(call) : 0;
  if (level == 0) {
    // Draws are those of the innermost level, whatever they are given.
    if (current_vmap_level() == 0 || call.op().kind() != OpDef::draws || call.has_out) return false;
    const int here = current_vmap_level();
    Batching batch(call, here);
    const AtVmapLevel outside(vmap_level(here).outer);
    if (draws_nothing(batch)) return false;
    batch_draws(batch, result);
    if (batch.randomness() == Randomness::different) wrap_results(result, here);
    return true;
  }
  vmap_level(level);  // raises where it is closed
  if (call.op().has(OpDef::metadata)) return false;
  if (!gives_tensors(call)) refuse_value(call);
  const bool gives_one = call.op().returns == Result::Form::tensor;
  CHECK(!call.has_out || gives_one == !call.out_is_tuple, TypeError,
        "{}(): argument 'out' must be {}", call.name(), gives_one ? "Tensor" : "tuple of Tensors");
  CHECK(!call.has_out, SampleError,
        "Batching rule not implemented for aten::{}.out; the fallback path doesn't work on out= or "
        "view ops.",
        op_name_of(call.op()));
  if (call.in_place()) {
    call_in_place_batched(call, level, result);
    return true;
  }
  {
    const AtVmapLevel outside(vmap_level(level).outer);
    Batching batch(call, level);
    if (by_rule(batch, result)) {
      wrap_results(result, level);
      return true;
    }
  }
  result = {};
  CHECK(!call.op().has(OpDef::dynamic_shape), SampleError,
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
        "vmap over aten::{}, whose result has a shape that depends on values.",
        op_name_of(call.op()));
  if (call_composed(call, result)) return true;
  const AtVmapLevel outside(vmap_level(level).outer);
  call_each_sample(call, level, result);
  wrap_results(result, level);
  return true;
}

}  // namespace flambeau
