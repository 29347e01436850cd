#include "flambeau/ops/layers/layers.h"

#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

// The shapes of arguments, as the profiler wants them.
void note_shapes(const OpCall& call, ProfiledSpan& span) {
  for (int i = 0; i < call.op().arity; ++i) {
    std::vector<int64_t>& shape = span.shapes.emplace_back();
    const Value& value = call.values[i];
    const Kind kind = call.op().kinds[i];
    const Tensor* tensor = nullptr;
    if (value.given && kind == Kind::tensor) tensor = value.tensor;
    if (value.given && kind == Kind::operand && value.operand->is_tensor()) {
      tensor = &value.operand->tensor();
    }
    if (tensor) shape.assign(tensor->sizes().begin(), tensor->sizes().end());
  }
}

// While a function is about to be entered; it may raise first.
struct Arriving {
  explicit Arriving(const char* signature) { arriving = signature; }
  ~Arriving() { arriving = nullptr; }
};

}  // namespace

bool arrives(std::string_view op) {
  if (!arriving) return false;
  const std::string_view name = op_name(arriving);
  if (name != op && (name.front() != '_' || name.substr(1) != op)) return false;
  arriving = nullptr;
  return true;
}

void call_from(Layer layer, const OpCall& call, uint8_t special, Result& result) {
  switch (layer) {
    case Layer::profiler:
      if (profiling()) {
        const Span span(SpanKind::op, call.name());
        if (span.record()) note_shapes(call, *span.record());
        return call_from(Layer::autocast, call, special, result);
      }
      [[fallthrough]];
    case Layer::autocast:
      if (active_layers & Active::autocast && call_autocast(call, special, result)) return;
      [[fallthrough]];
    case Layer::vmap:
      if ((special & Pending::batched || active_layers & Active::vmap) &&
          call_vmap(call, special, result))
        return;
      [[fallthrough]];
    case Layer::dispatch:
      if ((special & Dispatched::mark || active_layers & Active::dispatch) &&
          call_dispatch(call, special, result))
        return;
      [[fallthrough]];
    case Layer::pending: {
      // Ops that know better than to be given a copy of a sparse tensor have told so by now.
      if (special & Pending::resolvable & ~call.family.takes) return call_resolved(call, result);
      const Arriving function(call.op().signature);
      call_function(call, result);
    }
  }
}

void call_layers(const OpCall& call, uint8_t special, Result& result) {
  call_from(Layer::profiler, call, special, result);
}

}  // namespace flambeau
