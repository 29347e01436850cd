// An overload of an op, as the functions of the printed header (flambeau/torch.h) call it: looked
// up once, then called through the entry of ops (flambeau/ops/call.h), in any form.
#pragma once

#include <string>
#include <vector>

#include "flambeau/api/arguments.h"

namespace flambeau {
struct Family;
struct Overload;
}  // namespace flambeau

namespace flambeau::torch {

class Op {
 public:
  // Overload number `index` of a function or a method; those that write into out= themselves come
  // last. Raises where the library at hand has another one there than the header tells.
  Op(const char* name, int index, const char* signature, bool method = false);

  // What parameter number i is where nothing is given for it.
  [[nodiscard]] Value unset(int i) const;

  // In any form, whatever the result is; the others say what they expect.
  [[nodiscard]] Result call(Value* values, const flambeau::Tensor* outs = nullptr,
                            size_t n_outs = 0, bool out_is_tuple = false) const;
  void operator()(Value* values) const;
  [[nodiscard]] flambeau::Tensor tensor(Value* values) const;
  [[nodiscard]] std::vector<flambeau::Tensor> tensors(Value* values) const;
  [[nodiscard]] torch::Scalar scalar(Value* values) const;
  [[nodiscard]] std::string text(Value* values) const;
  [[nodiscard]] ScalarType dtype(Value* values) const;

  // out=
  void into(Value* values, const flambeau::Tensor& out) const;
  void into(Value* values, const ITensorListRef& outs) const;

 private:
  void count_number(const Value* values, const flambeau::Tensor& result) const;

  const Family* family_;
  const Overload* overload_;
  const char* with_number_ = nullptr;  // what libtorch names the node where `other` is a number
};

}  // namespace flambeau::torch
