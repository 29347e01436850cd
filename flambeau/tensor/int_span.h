// Shapes and strides: Dims owns a few integers in place, IntSpan looks at some of somebody's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "flambeau/base/inline_vector.h"

namespace flambeau {

using Dims = InlineVector<int64_t, 5>;

class IntSpan {
 public:
  IntSpan() = default;
  IntSpan(const int64_t* data, size_t size) : data_(data), size_(size) {}
  IntSpan(const Dims& dims) : IntSpan(dims.data(), dims.size()) {}             // NOLINT
  IntSpan(const std::vector<int64_t>& v) : IntSpan(v.data(), v.size()) {}      // NOLINT
  IntSpan(std::initializer_list<int64_t> l) : IntSpan(l.begin(), l.size()) {}  // NOLINT
  IntSpan(const int64_t& one) : IntSpan(&one, 1) {}                            // NOLINT
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const int64_t* data() const { return data_; }
  [[nodiscard]] const int64_t* begin() const { return data_; }
  [[nodiscard]] const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] int64_t back() const { return data_[size_ - 1]; }
  [[nodiscard]] IntSpan first(size_t n) const { return {data_, n}; }
  [[nodiscard]] IntSpan from(size_t n) const { return {data_ + n, size_ - n}; }
  [[nodiscard]] Dims dims() const { return Dims(begin(), end()); }
  [[nodiscard]] std::vector<int64_t> vec() const { return {begin(), end()}; }
  bool operator==(IntSpan other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  const int64_t* data_ = nullptr;
  size_t size_ = 0;
};

std::string to_text(IntSpan values);  // [2, 3]
inline std::string to_text(const Dims& values) { return to_text(IntSpan(values)); }

}  // namespace flambeau
