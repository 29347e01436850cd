// Finds arguments that an op takes, by trying: what to try comes from the kinds of its parameters
// alone, so an op needs no line anywhere to be called by the printed tests.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "tools/header/cpp_forms.h"

namespace flambeau::print {

// An argument, as C++ text and as a value.
struct Sample {
  std::string text;
  bool is_tensor = false;  // the text makes a tensor, which forms may share
  bool given = true;
  Tensor tensor;
  std::vector<Tensor> list;
  Scalar scalar;
  std::optional<Operand> operand;
  Dims ints;
  std::vector<double> reals;
  std::string word;
  Options options;
  Device device;
  int64_t integer = 0;
  double real = 0;
  uint8_t code = 0;

  [[nodiscard]] Value as(Kind kind);
};
using Samples = std::vector<std::unique_ptr<Sample>>;  // that of a method's tensor first

struct Found {
  Samples samples;
  bool has_values = true;  // false where the result depends on what lay in its memory before
};

class Sampler {
 public:
  explicit Sampler(const std::vector<CppForm>& forms);

  // The function that computes the same: of the same name without _ or _out; null if there is none.
  [[nodiscard]] const CppForm* base_of(const CppForm& form) const;
  // Nothing if no arguments were found.
  [[nodiscard]] std::optional<Found> find(const CppForm& form);

 private:
  struct Trial;
  [[nodiscard]] bool works(const CppForm& form, const CppForm* base, Found& found) const;

  std::multimap<std::string, const CppForm*> functions_;
  std::vector<std::string> words_;  // defaults of strings anywhere in the registry
};

}  // namespace flambeau::print
