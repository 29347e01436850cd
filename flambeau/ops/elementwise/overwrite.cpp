#include "flambeau/ops/elementwise/overwrite.h"

#include <utility>

namespace flambeau {
namespace {

thread_local const Tensor* overwritten = nullptr;

}  // namespace

MayOverwrite::MayOverwrite(const Tensor* target) : before_(std::exchange(overwritten, target)) {}
MayOverwrite::~MayOverwrite() { overwritten = before_; }

Tensor place_of_result(const Tensor& first, std::initializer_list<const Tensor*> others,
                       DType dtype) {
  if (!overwritten || !overwritten->is_same(first) || first.dtype() != dtype) return {};
  for (const Tensor* other : others) {
    const bool fits = !other->defined() || other->dim() == 0 || other->sizes() == first.sizes();
    if (!fits || (other->defined() && other->device() != first.device())) return {};
  }
  return first;
}

}  // namespace flambeau
