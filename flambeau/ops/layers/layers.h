// What stands over the entry of ops (Note [Layers] in ops/call.h), from the outside in. A layer
// that answers gives true; one that has nothing to do with a call gives false.
#pragma once

#include "flambeau/ops/call.h"

namespace flambeau {

enum class Layer : uint8_t { profiler, autocast, vmap, dispatch, pending };

// The call, as the layers from this one on see it.
void call_from(Layer layer, const OpCall& call, uint8_t special, Result& result);

bool call_autocast(const OpCall& call, uint8_t special, Result& result);
bool call_vmap(const OpCall& call, uint8_t special, Result& result);
// The op that gives what an op in place writes, if it takes the same values; else null.
const Overload* functional_form(const OpCall& call, const Family*& family);
bool call_dispatch(const OpCall& call, uint8_t special, Result& result);
// With copies in place of tensors on which something is pending.
void call_resolved(const OpCall& call, Result& result);

// The values of a call, to be changed. Lists and operands are copied when they are.
class Rewrite {
 public:
  explicit Rewrite(const OpCall& call) : op_(call.op()) {
    std::copy_n(call.values, call.op().arity, values_);
  }
  Rewrite(const Rewrite&) = delete;
  Rewrite& operator=(const Rewrite&) = delete;

  [[nodiscard]] Value* values() { return values_; }
  // Replaces each tensor by map(tensor); one that map leaves undefined stays.
  template <class Map>
  void tensors(Map&& map) {
    for (int i = 0; i < op_.arity; ++i) {
      Value& value = values_[i];
      if (!value.given) continue;
      if (op_.kinds[i] == Kind::tensor) {
        if (Tensor mapped = map(*value.tensor, i); mapped.defined()) set(i, std::move(mapped));
      } else if (op_.kinds[i] == Kind::operand && value.operand->is_tensor()) {
        if (Tensor mapped = map(value.operand->tensor(), i); mapped.defined()) {
          set(i, std::move(mapped));
        }
      } else if (op_.kinds[i] == Kind::tensors) {
        map_list(i, map);
      }
    }
  }
  // Of kind tensor or operand.
  void set(int i, Tensor tensor) {
    kept_.push_back(std::make_unique<Kept>());
    Kept& kept = *kept_.back();
    kept.tensor = std::move(tensor);
    if (op_.kinds[i] == Kind::tensor) {
      values_[i].tensor = &kept.tensor;
    } else {
      kept.operand.emplace(kept.tensor);
      values_[i].operand = &*kept.operand;
    }
  }
  void set(int i, std::vector<Tensor> list) {
    kept_.push_back(std::make_unique<Kept>());
    kept_.back()->list = std::move(list);
    values_[i].tensors = &kept_.back()->list;
  }
  void set_integer(int i, int64_t integer) {
    values_[i].given = true;
    values_[i].integer = integer;
  }
  void set(int i, const Dims& ints) {
    kept_.push_back(std::make_unique<Kept>());
    kept_.back()->ints = ints;
    values_[i].given = true;
    values_[i].span = {kept_.back()->ints.data(), kept_.back()->ints.size()};
  }

 private:
  struct Kept {
    Tensor tensor;
    std::optional<Operand> operand;
    std::vector<Tensor> list;
    Dims ints;
  };
  template <class Map>
  void map_list(int i, Map& map) {
    std::vector<Tensor> list = *values_[i].tensors;
    bool changed = false;
    for (Tensor& tensor : list) {
      if (!tensor.defined()) continue;
      Tensor mapped = map(tensor, i);
      if (!mapped.defined()) continue;
      tensor = std::move(mapped);
      changed = true;
    }
    if (changed) set(i, std::move(list));
  }

  const OpDef& op_;
  Value values_[max_arguments];
  std::vector<std::unique_ptr<Kept>> kept_;
};

}  // namespace flambeau
