// How a layer prints itself: Print(stream, "Linear")("in_features", 3)("out_features", 4) writes
// torch::nn::Linear(in_features=3, out_features=4). A stream that has printed a bool as a word goes
// on to do so, as libtorch leaves it.
#pragma once

#include <ostream>

namespace flambeau::torch::nn {

class Print {
 public:
  Print(std::ostream& stream, std::string_view name) : stream_(stream) {
    stream << "torch::nn::" << name << '(';
  }
  ~Print() { stream_ << ')'; }
  Print(const Print&) = delete;
  Print& operator=(const Print&) = delete;

  template <class T>
  Print& operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool>) stream_ << std::boolalpha;
    stream_ << comma_ << value;
    comma_ = ", ";
    return *this;
  }
  template <class T>
  Print& operator()(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, bool>) stream_ << std::boolalpha;
    stream_ << comma_ << name << '=' << value;
    comma_ = ", ";
    return *this;
  }
  template <class T>
  Print& unless(const T& usual, const char* name, const T& value) {
    return value == usual ? *this : (*this)(name, value);
  }

 private:
  std::ostream& stream_;
  const char* comma_ = "";
};

}  // namespace flambeau::torch::nn

// What a layer prints: SHOW(Linear, OPTION(in_features) OPTION(bias)).
#define SHOW(Name, ...) \
  void Name##Impl::pretty_print(std::ostream& stream) const { Print(stream, #Name) __VA_ARGS__; }
#define OPTION(name) (#name, options.name())
#define INPLACE .unless(false, "inplace", options.inplace())
// A layer whose function takes its options.
#define LAYER(Name, function, ...)                                                                 \
  Tensor Name##Impl::forward(const Tensor& input) { return functional::function(input, options); } \
  SHOW(Name, __VA_ARGS__)
#define PAIR_LAYER(Name, function, ...)                          \
  Tensor Name##Impl::forward(const Tensor& a, const Tensor& b) { \
    return functional::function(a, b, options);                  \
  }                                                              \
  SHOW(Name, __VA_ARGS__)
