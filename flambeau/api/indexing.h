// x.index({0, "...", Slice(1, None), mask}) and x.index_put_({...}, values).
#pragma once

#include "flambeau/api/tensor_base.h"

namespace flambeau::torch {
namespace indexing {

enum class TensorIndexType { None, Ellipsis, SymInt, Boolean, Slice, Tensor };

constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis;

class Slice {
 public:
  Slice(std::optional<int64_t> start = {}, std::optional<int64_t> stop = {},
        std::optional<int64_t> step = {});  // NOLINT
  [[nodiscard]] int64_t start() const { return start_; }
  [[nodiscard]] int64_t stop() const { return stop_; }
  [[nodiscard]] int64_t step() const { return step_; }

 private:
  int64_t start_, stop_, step_;
};

using torch::TensorIndex;

}  // namespace indexing

struct TensorIndex {
  using Type = indexing::TensorIndexType;
  using Slice = indexing::Slice;

  TensorIndex(std::nullopt_t) : type_(Type::None) {}                   // NOLINT
  TensorIndex(indexing::EllipsisIndexType) : type_(Type::Ellipsis) {}  // NOLINT
  TensorIndex(const char* text);                                       // NOLINT: "..."
  template <std::integral T>
  TensorIndex(T integer)  // NOLINT
      : integer_(static_cast<int64_t>(integer)),
        type_(std::is_same_v<T, bool> ? Type::Boolean : Type::SymInt) {}
  TensorIndex(Slice slice) : slice_(slice), type_(Type::Slice) {}  // NOLINT
  TensorIndex(flambeau::Tensor tensor)
      : type_(Type::Tensor), tensor_(std::move(tensor)) {}  // NOLINT

  template <std::derived_from<flambeau::Tensor> T>
  TensorIndex(const std::optional<T>& tensor)  // NOLINT
      : TensorIndex(tensor ? TensorIndex(*tensor) : TensorIndex(std::nullopt)) {}

  [[nodiscard]] bool is_none() const { return type_ == Type::None; }
  [[nodiscard]] bool is_ellipsis() const { return type_ == Type::Ellipsis; }
  [[nodiscard]] bool is_integer() const { return type_ == Type::SymInt; }
  [[nodiscard]] bool is_boolean() const { return type_ == Type::Boolean; }
  [[nodiscard]] bool is_slice() const { return type_ == Type::Slice; }
  [[nodiscard]] bool is_tensor() const { return type_ == Type::Tensor; }
  [[nodiscard]] int64_t integer() const { return integer_; }
  [[nodiscard]] bool boolean() const { return integer_ != 0; }
  [[nodiscard]] const Slice& slice() const { return slice_; }
  [[nodiscard]] const TensorBase& tensor() const { return tensor_; }
  [[nodiscard]] Type type() const { return type_; }

 private:
  int64_t integer_ = 0;
  Slice slice_;
  Type type_;
  TensorBase tensor_;
};

namespace indexing {
std::ostream& operator<<(std::ostream& out, const Slice& slice);
}
std::ostream& operator<<(std::ostream& out, const TensorIndex& index);
std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices);

}  // namespace flambeau::torch
