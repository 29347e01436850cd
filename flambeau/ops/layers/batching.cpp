#include "flambeau/ops/layers/batching.h"

#include "flambeau/base/check.h"

namespace flambeau {

int Batching::find(std::string_view parameter) const {
  const std::vector<Parameter>& parameters = call_.overload.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == parameter) return static_cast<int>(i);
  }
  return -1;
}

int64_t Batching::integer(std::string_view parameter) const {
  return value(find(parameter)).integer;
}
bool Batching::flag(std::string_view parameter) const {
  const int i = find(parameter);
  return i >= 0 && value(i).given && value(i).flag;
}
std::string_view Batching::text(std::string_view parameter) const {
  const Value& v = value(find(parameter));
  return {static_cast<const char*>(v.span.begin), v.span.size};
}
Dims Batching::ints(std::string_view parameter) const {
  const Value& v = value(find(parameter));
  return IntSpan(static_cast<const int64_t*>(v.span.begin), v.span.size).dims();
}

Tensor Batching::tensor(int i) const {
  if (!given(i)) return {};
  if (kind(i) == Kind::tensor) return *value(i).tensor;
  if (kind(i) == Kind::operand && value(i).operand->is_tensor()) return value(i).operand->tensor();
  return {};
}

bool Batching::is_batched(int i) const { return is_batched(tensor(i)); }

bool Batching::only(int i) const {
  bool others = false;
  for (int k = 0; k < call_.op().arity; ++k) {
    if (k == i) continue;
    others |= is_batched(k);
    if (given(k) && kind(k) == Kind::tensors) {
      for (const Tensor& tensor : *value(k).tensors) others |= is_batched(tensor);
    }
  }
  return !others;
}

Tensor Batching::samples(const Tensor& one) const { return is_batched(one) ? behind(one) : one; }

Tensor Batching::whole(const Tensor& one) const {
  if (!one.defined() || is_batched(one)) return samples(one);
  Dims sizes = one.sizes().dims();
  sizes.insert(sizes.begin(), size_);
  return expand_to(unsqueeze_at(one, 0), sizes);
}

void Batching::use_samples() {
  rewrite_.tensors(
      [&](const Tensor& one, int) { return is_batched(one) ? behind(one) : Tensor(); });
}

void Batching::use_whole() {
  rewrite_.tensors([&](const Tensor& one, int) { return whole(one); });
}

void Batching::run(Result& result) {
  OpCall again = call_;
  again.values = rewrite_.values();
  flambeau::call(again, special_of(again), result);
}

int64_t shifted(int64_t dim, int64_t rank) { return wrap_dim(dim, rank) + 1; }

Dims shifted(IntSpan dims, int64_t rank) {
  Dims moved;
  for (const int64_t dim : dims) moved.push_back(shifted(dim, rank));
  return moved;
}

}  // namespace flambeau
