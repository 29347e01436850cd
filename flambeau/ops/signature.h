// Signatures, read once: what each overload of an op takes, and which overloads a name has. Every
// front end matches its arguments to these.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/ops/op.h"

namespace flambeau {

struct Parameter {
  std::string name;
  Kind kind;
  bool nullable = false;
  bool required = false;
  bool keyword_only = false;
  bool takes_rest = false;  // *size
  bool single_int = false;  // an int does for a list of ints
  bool is_dim = false;      // counts dimensions: dim, dims, dim0, start_dim, dimension, axis
  bool is_size = false;     // of the result: size, shape
  Value fallback;           // its default; refers to the storage below
  Scalar scalar;
  std::unique_ptr<Operand> operand;
  Dims ints;
  std::string string;
};

struct Overload {
  const OpDef* op;
  std::vector<Parameter> parameters;
  int positional = 0;                // how many may come by position
  std::vector<std::string> results;  // their names, where they have any
  std::string text;                  // "(Tensor input, int dim, *, torch.dtype dtype = None)"
  // PyTorch's names for it, where operands are all tensors, a later one is a number, the first is.
  std::vector<std::string> overloads;
};

// All overloads of one name, as a function or as a method.
struct Family {
  std::string name;
  std::vector<Overload> overloads;
  std::vector<Overload> out_forms;  // those that write into out= themselves
  uint64_t flags = 0;               // those of any overload
  uint8_t takes = 0;                // bits of TensorImpl::pending that its functions understand
  bool takes_out = false;
  bool is_method = false;
  bool inplace_by_copy = false;  // name_() made from name()
  bool writes_self = false;      // name_() with a function of its own
  std::string doc;

  [[nodiscard]] bool has(uint64_t any_of) const { return flags & any_of; }
};

const std::vector<std::unique_ptr<Family>>& all_families();
// The family of this name; a method's is looked for first if `method`. Null if there is none.
const Family* find_family(std::string_view name, bool method = false);

// "relu" of "relu(input)", "add" of "add.Tensor(input, other)".
std::string_view op_name_of(const OpDef& op);

}  // namespace flambeau
