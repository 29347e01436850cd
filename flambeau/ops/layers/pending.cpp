// Tensors on which something is pending (Note [Pending conjugation]): an op gets copies in which
// nothing is, and what it wrote to a copy goes back to its tensor, which is the result then.
#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/ops/layers/layers.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

struct Resolved {
  Tensor given, copy;
  uint32_t version;  // of the copy, until somebody writes to it
  bool written;
};

Tensor resolved(const Tensor& tensor, bool written, std::vector<Resolved>& copies) {
  if (!(tensor->pending & Pending::resolvable)) return {};
  Tensor copy = resolve(tensor);
  copies.push_back({tensor, copy, copy.version(), written});
  return copy;
}

void write_back(const Resolved& one) {
  // A step of an optimizer writes leaves, and records nothing.
  const bool is_leaf = one.given.requires_grad() && !grad_fn(one.given);
  const GradGuard mode(grad_enabled() && (one.written || !is_leaf));
  copy_(one.given, one.copy);
}

}  // namespace

void call_resolved(const OpCall& call, Result& result) {
  std::vector<Resolved> copies;
  std::vector<Tensor> outs(call.outs, call.outs + call.n_outs);
  for (Tensor& out : outs) {
    if (Tensor copy = resolved(out, true, copies); copy.defined()) out = copy;
  }
  Rewrite rewrite(call);
  rewrite.tensors([&](const Tensor& tensor, int i) {
    if (call.is_out(i)) return outs[0];
    return resolved(tensor, call.in_place() && i == 0, copies);
  });
  OpCall again = call;
  again.values = rewrite.values();
  again.outs = outs.data();
  call_function(again, result);
  for (const Resolved& one : copies) {
    if (!one.written && one.copy.version() == one.version) continue;
    write_back(one);
    if (result.tensor.is_same(one.copy)) result.tensor = one.given;
    for (Tensor& tensor : result.tensors) {
      if (tensor.is_same(one.copy)) tensor = one.given;
    }
  }
}

}  // namespace flambeau
