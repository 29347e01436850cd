#include "flambeau/ops/op.h"

namespace flambeau {
namespace {

// Static initialisers of many files append here; the tail keeps each file's own order.
constinit OpDef* first = nullptr;
constinit OpDef* last = nullptr;

}  // namespace

void register_op(OpDef* op) {
  (last ? last->next : first) = op;
  last = op;
}

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> list = [] {
    std::vector<const OpDef*> ops;
    for (const OpDef* op = first; op; op = op->next) ops.push_back(op);
    return ops;
  }();
  return list;
}

}  // namespace flambeau
