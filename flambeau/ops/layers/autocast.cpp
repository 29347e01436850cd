#include "flambeau/ops/layers/autocast.h"

#include <unordered_map>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/base/check.h"
#include "flambeau/ops/layers/layers.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

enum class Policy : uint8_t { none, low, exact, widest, narrowest, refused };

constexpr int kinds_of_device = 2;

// A leaf that was cast, as it was then.
struct Cast {
  Tensor leaf, cast;
  const Storage* storage;
  uint32_t version;
  bool recorded, inference;

  // What was cast where nothing is recorded has no history, and is of no use where it is.
  [[nodiscard]] bool is_of(const Tensor& tensor, DType dtype) const {
    return cast.dtype() == dtype && storage == tensor.storage().get() &&
           version == tensor.version() && recorded >= grad_enabled() &&
           inference == inference_mode();
  }
};

struct State {
  bool enabled[kinds_of_device] = {};
  DType dtypes[kinds_of_device] = {DType::bfloat16, DType::float16};
  bool cache_enabled = true;
  int nesting = 0;
  // Made when needed: a thread that ends within a region may no longer free tensors.
  std::unordered_map<const TensorImpl*, Cast>* casts = nullptr;
};
thread_local constinit State state;

// Casts are not made of ops that are cast, and nor is what an op does inside.
class Off {
 public:
  Off() : before_(active_layers & Active::autocast) { active_layers &= ~Active::autocast; }
  ~Off() { active_layers = static_cast<uint8_t>((active_layers & ~Active::autocast) | before_); }
  Off(const Off&) = delete;
  Off& operator=(const Off&) = delete;

 private:
  uint8_t before_;
};

int index_of(DeviceType type) {
  CHECK(has_autocast(type), RuntimeError, "autocast: there is none for device type '{}'", type);
  return static_cast<int>(type);
}

// Ops with tensors of both kinds are CUDA's.
int device_of(const OpCall& call) {
  int found = -1;
  each_tensor(call, [&](const Tensor& tensor, bool) {
    if (!tensor.defined() || !has_autocast(tensor.device_type())) return;
    const int kind = static_cast<int>(tensor.device_type());
    if (state.enabled[kind]) found = std::max(found, kind);
  });
  return found;
}

Policy policy_of(const OpCall& call, int device) {
  // What is written to has its dtype.
  if (device < 0 || call.has_out || call.in_place()) return Policy::none;
  static_assert(OpDef::cpu_low == 1ull << 52 && OpDef::cuda_low == 1ull << 55);
  return static_cast<Policy>(call.op().flags >> (52 + 3 * device) & 7);
}

bool eligible(const Tensor& tensor, int device) {
  return tensor.defined() && tensor.is_floating() && tensor.dtype() != DType::float64 &&
         static_cast<int>(tensor.device_type()) == device;
}

bool is_kept(const Tensor& tensor, DType dtype) {
  return state.cache_enabled && dtypes::Reduced.has(dtype) && tensor.dtype() == DType::float32 &&
         tensor->requires_grad && !tensor->view_base && is_leaf(tensor);
}

Tensor cast(const Tensor& tensor, DType dtype) {
  if (!is_kept(tensor, dtype)) return to(tensor, dtype);
  if (state.casts) {
    const auto found = state.casts->find(tensor.impl());
    if (found != state.casts->end() && found->second.is_of(tensor, dtype))
      return found->second.cast;
  }
  const Cast made{tensor,           to(tensor, dtype), tensor.storage().get(),
                  tensor.version(), grad_enabled(),    inference_mode()};
  // Made now: a class that answers for the cast may have cleared them.
  if (!state.casts) state.casts = new std::unordered_map<const TensorImpl*, Cast>;
  state.casts->insert_or_assign(tensor.impl(), made);
  return made.cast;
}

// The dtype for an op whose inputs are to have one, which they have in part.
DType common_dtype(const OpCall& call, int device, bool widest) {
  const DType low = state.dtypes[device];
  bool has_low = false, has_single = false;
  each_tensor(call, [&](const Tensor& tensor, bool) {
    if (!eligible(tensor, device)) return;
    has_low |= tensor.dtype() == low;
    has_single |= tensor.dtype() == DType::float32;
    CHECK(tensor.dtype() == low || tensor.dtype() == DType::float32, RuntimeError,
          "Unexpected floating ScalarType in at::autocast::prioritize: {}() under autocast to {} "
          "was given a tensor of dtype {}",
          call.name(), low, tensor.dtype());
  });
  return widest ? has_single ? DType::float32 : low : has_low ? low : DType::float32;
}

// The parameter that says what the op computes in, if it has one: then nothing needs to be cast.
int dtype_parameter(const OpCall& call) {
  for (int i = 0; i < call.op().arity; ++i) {
    if (call.op().kinds[i] == Kind::dtype) return i;
    if (call.op().kinds[i] == Kind::boolean && call.overload.parameters[i].name == "wide") return i;
  }
  return -1;
}

// In single precision, as the op can be told itself.
void ask_for_single(const OpCall& call, int device, int at, Rewrite& rewrite) {
  Value& value = rewrite.values()[at];
  if (call.op().kinds[at] == Kind::boolean) {
    value.given = value.flag = true;
  } else if (!value.given && eligible(*call.values[0].tensor, device)) {
    value.given = true;
    value.code = static_cast<uint8_t>(DType::float32);
  }
}

[[noreturn]] void refuse(const OpCall& call) {
  fail<RuntimeError>(
      "torch.nn.functional.{} and torch.nn.BCELoss are unsafe to autocast: they take logarithms of "
      "probabilities that were rounded to half precision. Use binary_cross_entropy_with_logits or "
      "BCEWithLogitsLoss, without the sigmoid.",
      call.name());
}

void call_cast(const OpCall& call, int device, Policy policy, Result& result) {
  DType dtype = policy == Policy::low ? state.dtypes[device] : DType::float32;
  if (policy == Policy::widest || policy == Policy::narrowest) {
    dtype = common_dtype(call, device, policy == Policy::widest);
  }
  Rewrite rewrite(call);
  const int at = policy == Policy::exact ? dtype_parameter(call) : -1;
  if (at >= 0) ask_for_single(call, device, at, rewrite);
  if (at < 0 || call.op().kinds[at] == Kind::boolean) {
    rewrite.tensors([&](const Tensor& tensor, int i) {
      const bool reads_low = at >= 0 && i == 0;
      if (reads_low || !eligible(tensor, device) || tensor.dtype() == dtype) return Tensor();
      return cast(tensor, dtype);
    });
  }
  OpCall again = call;
  again.values = rewrite.values();
  call_from(Layer::vmap, again, special_of(again), result);
}

}  // namespace

bool has_autocast(DeviceType type) { return static_cast<int>(type) < kinds_of_device; }
bool autocast_enabled(DeviceType type) { return state.enabled[index_of(type)]; }
bool any_autocast_enabled() { return state.enabled[0] || state.enabled[1]; }
void set_autocast_enabled(DeviceType type, bool enabled) {
  state.enabled[index_of(type)] = enabled;
  active_layers &= ~Active::autocast;
  if (any_autocast_enabled()) active_layers |= Active::autocast;
}
DType autocast_dtype(DeviceType type) { return state.dtypes[index_of(type)]; }
void set_autocast_dtype(DeviceType type, DType dtype) { state.dtypes[index_of(type)] = dtype; }

bool autocast_cache_enabled() { return state.cache_enabled; }
void set_autocast_cache_enabled(bool enabled) { state.cache_enabled = enabled; }
void clear_autocast_cache() { delete std::exchange(state.casts, nullptr); }
int increment_autocast_nesting() { return ++state.nesting; }
int decrement_autocast_nesting() { return --state.nesting; }

AutocastGuard::AutocastGuard(DeviceType type, DType dtype, bool enabled, bool cache_enabled)
    : type_(type),
      enabled_before_(autocast_enabled(type)),
      cache_before_(autocast_cache_enabled()),
      dtype_before_(autocast_dtype(type)) {
  increment_autocast_nesting();
  set_autocast_dtype(type, dtype);
  set_autocast_enabled(type, enabled);
  set_autocast_cache_enabled(cache_enabled);
}

AutocastGuard::~AutocastGuard() {
  set_autocast_enabled(type_, enabled_before_);
  set_autocast_dtype(type_, dtype_before_);
  set_autocast_cache_enabled(cache_before_);
  if (decrement_autocast_nesting() == 0) clear_autocast_cache();
}

// An op without a policy computes in the dtypes of its inputs, and so does what it is made of,
// unless that are ops that autocast sees, too.
bool call_autocast(const OpCall& call, uint8_t special, Result& result) {
  const int device = device_of(call);
  const Policy policy = policy_of(call, device);
  if (policy == Policy::refused) refuse(call);
  if (policy == Policy::none && call.op().has(OpDef::composed)) return false;
  const Off inside;
  if (policy == Policy::none) {
    call_from(Layer::vmap, call, special, result);
  } else {
    call_cast(call, device, policy, result);
  }
  return true;
}

}  // namespace flambeau
