// Looks at some elements of somebody's, as C++ programs for PyTorch take and give them: sizes,
// lists of tensors. Borrows: a braced list lives as long as the call it stands in.
#pragma once

#include <array>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <optional>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/tensor/int_span.h"

namespace flambeau::torch {

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using size_type = size_t;
  using iterator = const T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}  // NOLINT
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end)
      : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  constexpr ArrayRef(const std::initializer_list<T>& list)  // NOLINT
      : ArrayRef(list.begin(), list.size()) {}
  template <size_t N>
  constexpr ArrayRef(const T (&array)[N]) : data_(array), size_(N) {}  // NOLINT
  // A vector, an array, ... of just these.
  template <class C>
  requires(requires(const C& c) {
    { c.data() } -> std::convertible_to<const T*>;
    c.size();
  } && !std::is_base_of_v<ArrayRef, C>) constexpr ArrayRef(const C& values)
      : data_(values.data()), size_(values.size()) {}         // NOLINT
  ArrayRef(IntSpan span) requires std::is_same_v<T, int64_t>  // NOLINT
      : ArrayRef(span.data(), span.size()) {}
  operator IntSpan() const requires std::is_same_v<T, int64_t> {  // NOLINT
    return {data_, size_};
  }

  [[nodiscard]] constexpr iterator begin() const { return data_; }
  [[nodiscard]] constexpr iterator end() const { return data_ + size_; }
  [[nodiscard]] constexpr const_iterator cbegin() const { return data_; }
  [[nodiscard]] constexpr const_iterator cend() const { return data_ + size_; }
  [[nodiscard]] constexpr reverse_iterator rbegin() const { return reverse_iterator(end()); }
  [[nodiscard]] constexpr reverse_iterator rend() const { return reverse_iterator(begin()); }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr const T* data() const { return data_; }
  [[nodiscard]] constexpr size_t size() const { return size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] const T& at(size_t i) const {
    CHECK(i < size_, RuntimeError, "ArrayRef: invalid index Index = {}; Length = {}", i, size_);
    return data_[i];
  }
  [[nodiscard]] const T& front() const {
    CHECK(size_ > 0, RuntimeError, "ArrayRef: attempted to access front() of empty list");
    return data_[0];
  }
  [[nodiscard]] const T& back() const {
    CHECK(size_ > 0, RuntimeError, "ArrayRef: attempted to access back() of empty list");
    return data_[size_ - 1];
  }
  [[nodiscard]] ArrayRef slice(size_t from, size_t count) const {
    CHECK(from + count <= size_, RuntimeError, "ArrayRef: invalid slice, N = {}; M = {}; size = {}",
          from, count, size_);
    return {data_ + from, count};
  }
  [[nodiscard]] ArrayRef slice(size_t from) const {
    CHECK(from <= size_, RuntimeError, "ArrayRef: invalid slice, N = {}; size = {}", from, size_);
    return {data_ + from, size_ - from};
  }
  [[nodiscard]] ArrayRef drop_front(size_t count = 1) const { return slice(count); }
  [[nodiscard]] bool equals(ArrayRef other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  template <class F>
  [[nodiscard]] bool allMatch(const F& is) const {
    return std::all_of(begin(), end(), is);
  }
  [[nodiscard]] std::vector<T> vec() const { return {begin(), end()}; }

  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend bool operator==(ArrayRef a, IntSpan b) requires std::is_same_v<T, int64_t> {
    return a.equals(b);
  }
  friend bool operator==(const std::vector<T>& a, ArrayRef b) { return ArrayRef(a).equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(b); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <class Stream, class T>
requires std::is_base_of_v<std::ios_base, Stream> Stream& operator<<(Stream& out,
                                                                     ArrayRef<T> list) {
  out << '[';
  for (size_t i = 0; i < list.size(); ++i) (i ? out << ", " : out) << list[i];
  out << ']';
  return out;
}

using IntArrayRef = ArrayRef<int64_t>;
inline std::string to_text(IntArrayRef ints) { return flambeau::to_text(IntSpan(ints)); }

// The same, or nothing.
template <class T>
class OptionalArrayRef {
 public:
  OptionalArrayRef() = default;
  OptionalArrayRef(std::nullopt_t) {}                         // NOLINT
  OptionalArrayRef(ArrayRef<T> list) : list_(list) {}         // NOLINT
  OptionalArrayRef(const T& one) : list_(one) {}              // NOLINT
  OptionalArrayRef(std::initializer_list<T> l) : list_(l) {}  // NOLINT
  template <class C>
  requires(std::is_constructible_v<ArrayRef<T>, const C&> && !std::is_convertible_v<const C&, T>)
      OptionalArrayRef(const C& values)
      : list_(ArrayRef<T>(values)) {}  // NOLINT
  template <class C>
  requires std::is_constructible_v < ArrayRef<T>,
  const C& > OptionalArrayRef(const std::optional<C>& values) {  // NOLINT
    if (values) list_ = ArrayRef<T>(*values);
  }

  [[nodiscard]] bool has_value() const { return list_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const ArrayRef<T>& value() const { return list_.value(); }
  const ArrayRef<T>& operator*() const { return *list_; }
  const ArrayRef<T>* operator->() const { return &*list_; }
  [[nodiscard]] const std::optional<ArrayRef<T>>& get() const { return list_; }

 private:
  std::optional<ArrayRef<T>> list_;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

}  // namespace flambeau::torch
