// for (const auto i : irange(n)): integers from 0, or from `begin`, up to `end`.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>

namespace flambeau::torch {

template <std::integral T>
class integer_range {
 public:
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = T;
    T value;
    T operator*() const { return value; }
    iterator& operator++() { return ++value, *this; }
    iterator operator++(int) { return {value++}; }
    bool operator==(const iterator&) const = default;
  };
  integer_range(T begin, T end) : begin_{begin}, end_{end < begin ? begin : end} {}
  [[nodiscard]] iterator begin() const { return begin_; }
  [[nodiscard]] iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};

template <std::integral T>
integer_range<T> irange(T end) {
  return {T{}, end};
}
template <std::integral A, std::integral T>
integer_range<T> irange(A begin, T end) {
  return {static_cast<T>(begin), end};
}

}  // namespace flambeau::torch
