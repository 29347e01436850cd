// Calls of ops by name from C++, through the entry: what batching rules are written in, since what
// they compute with may be batched in turn, and how functions that C++ calls reach the layers
// (ops/redirect.h).
#pragma once

#include "flambeau/ops/call.h"

namespace flambeau {

// A value for any kind of parameter. Borrows what it is made of.
class Given {
 public:
  Given(std::nullopt_t) {}  // NOLINT
  Given(const Tensor& tensor)
      : type_(Type::tensor), tensor_(&tensor), operand_(tensor) {}  // NOLINT
  Given(const Operand& operand)                                     // NOLINT
      : type_(operand.is_tensor() ? Type::tensor : Type::number),
        tensor_(operand.is_tensor() ? &operand.tensor() : nullptr),
        scalar_(operand.scalar()),
        operand_(operand) {}
  Given(const std::vector<Tensor>& tensors) : type_(Type::tensors), tensors_(&tensors) {}  // NOLINT
  Given(const Scalar& number) : type_(Type::number), scalar_(number), operand_(number) {}  // NOLINT
  Given(bool flag) : Given(Scalar(flag)) { type_ = Type::flag; }                           // NOLINT
  Given(int64_t number) : Given(Scalar(number)) { type_ = Type::integer; }                 // NOLINT
  Given(int number) : Given(static_cast<int64_t>(number)) {}                               // NOLINT
  Given(double number) : Given(Scalar(number)) {}                                          // NOLINT
  Given(IntSpan ints) : type_(Type::ints), ints_(ints) {}                                  // NOLINT
  Given(const Dims& ints) : Given(IntSpan(ints)) {}                                        // NOLINT
  Given(const std::vector<double>& reals) : type_(Type::reals), reals_(&reals) {}          // NOLINT
  Given(DType dtype) : type_(Type::dtype), code_(static_cast<uint8_t>(dtype)) {}           // NOLINT
  Given(Layout layout) : type_(Type::layout), code_(static_cast<uint8_t>(layout)) {}       // NOLINT
  Given(MemoryFormat format)                                                               // NOLINT
      : type_(Type::memory_format), code_(static_cast<uint8_t>(format)) {}
  Given(Device device) : type_(Type::device), device_(device) {}                  // NOLINT
  Given(Generator* generator) : type_(Type::generator), generator_(generator) {}  // NOLINT
  Given(const Options& options) : type_(Type::options), options_(&options) {}     // NOLINT
  Given(std::string_view text) : type_(Type::text), text_(text) {}                // NOLINT
  Given(const char* text) : Given(std::string_view(text)) {}                      // NOLINT
  template <class T>
  Given(const std::optional<T>& value)
      : Given(value ? Given(*value) : Given(std::nullopt)) {}  // NOLINT

  // False if no parameter of this kind takes it.
  bool fill(const Parameter& parameter, Value& value) const;

 private:
  enum class Type : uint8_t {
    nothing,
    tensor,
    tensors,
    number,
    flag,
    integer,
    ints,
    reals,
    dtype,
    layout,
    memory_format,
    device,
    generator,
    options,
    text
  };
  bool fill_number(const Parameter& parameter, Value& value) const;

  Type type_ = Type::nothing;
  uint8_t code_ = 0;
  Device device_;
  const Tensor* tensor_ = nullptr;
  const std::vector<Tensor>* tensors_ = nullptr;
  const std::vector<double>* reals_ = nullptr;
  const Options* options_ = nullptr;
  Generator* generator_ = nullptr;
  Scalar scalar_;
  Operand operand_ = Operand(Scalar());
  IntSpan ints_;
  std::string_view text_;
};

// The first overload that takes these arguments, in order; the rest have their defaults.
Result call_op(std::string_view name, std::initializer_list<Given> given);
inline Tensor tensor_op(std::string_view name, std::initializer_list<Given> given) {
  return std::move(call_op(name, given).tensor);
}

}  // namespace flambeau
