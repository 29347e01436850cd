// What the printed calls of all ops in all forms are written with (tools/header/tests.cpp).
#pragma once

#include <tuple>
#include <vector>

#include "flambeau/torch.h"
#include "tools/header/samples.h"

namespace flambeau::forms {

using namespace print;
using namespace torch;
using torch::Device, torch::Generator, torch::Scalar, torch::Storage, torch::Tensor;

struct Call {
  const char* name;
  void (*run)();
};
extern const std::vector<Call> function_calls, method_calls, in_place_calls, in_place_method_calls,
    out_calls;
extern const std::vector<const char*> not_called;

// What an op gave, whatever it was.
class Results {
 public:
  Results(const Tensor& tensor) : tensors_{tensor} {}                 // NOLINT
  Results(const std::vector<Tensor>& tensors) : tensors_(tensors) {}  // NOLINT
  template <class... T>
  Results(const std::tuple<T...>& tuple) {  // NOLINT
    std::apply([&](const auto&... item) { (tensors_.push_back(item), ...); }, tuple);
  }
  Results(const Scalar& number) : number_(number) {}              // NOLINT
  Results(bool flag) : number_(flag) {}                           // NOLINT
  Results(int64_t number) : number_(number) {}                    // NOLINT
  Results(double number) : number_(number) {}                     // NOLINT
  Results(DType dtype) : number_(static_cast<int64_t>(dtype)) {}  // NOLINT
  Results(const std::string& text) : text_(text) {}               // NOLINT

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const Scalar& number() const { return number_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  // Empty tensors that may be given as out= for these.
  [[nodiscard]] Tensor out(size_t i) const {
    return make_tensor({0}, tensors_.at(i).dtype(), flambeau::Device());
  }
  [[nodiscard]] std::vector<Tensor> outs() const {
    std::vector<Tensor> made;
    for (size_t i = 0; i < tensors_.size(); ++i) made.push_back(out(i));
    return made;
  }

 private:
  std::vector<Tensor> tensors_;
  Scalar number_;
  std::string text_;
};

void seed();  // so that the next op draws the same numbers
// `values` is false where an op gives memory that nobody wrote to.
void check_equal(const Results& expected, const Results& result, bool values);
void check_in_place(const Tensor& before, const Results& expected, const Tensor& self,
                    const Tensor& back, bool values);
void check_out(const Results& expected, const std::vector<Tensor>& outs, const Tensor* back,
               bool values);

}  // namespace flambeau::forms
