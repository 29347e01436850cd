// A vector that keeps up to N elements in place. Shapes, strides and edges are nearly always
// short; the heap is for the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace flambeau {

template <class T, uint32_t N>
class InlineVector {
  static constexpr bool trivial = std::is_trivially_copyable_v<T>;

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() {}  // NOLINT(modernize-use-equals-default): the union has no default
  explicit InlineVector(size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> items) { append(items.begin(), items.end()); }
  template <std::input_iterator It>
  InlineVector(It first, It last) {
    append(first, last);
  }
  InlineVector(const InlineVector& other) { append(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  ~InlineVector() { destroy(); }

  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      clear();
      append(other.begin(), other.end());
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      destroy();
      take(other);
    }
    return *this;
  }

  [[nodiscard]] T* data() { return on_heap() ? heap_ : inline_; }
  [[nodiscard]] const T* data() const { return on_heap() ? heap_ : inline_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  T& front() { return data()[0]; }
  [[nodiscard]] const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  [[nodiscard]] const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) grow(size_ + 1);
    T* slot = new (data() + size_) T(std::forward<Args>(args)...);
    ++size_;
    return *slot;
  }
  void pop_back() {
    --size_;
    std::destroy_at(data() + size_);
  }
  template <class It>
  void append(It first, It last) {
    if constexpr (std::forward_iterator<It>) {
      reserve(size_ + std::distance(first, last));
      T* at = end();
      for (; first != last; ++first, ++at, ++size_) new (at) T(*first);
    } else {
      for (; first != last; ++first) emplace_back(*first);
    }
  }
  void resize(size_t count, const T& value = T()) {
    reserve(count);
    while (size_ > count) pop_back();
    if (size_ < count) std::uninitialized_fill(end(), data() + count, value);
    size_ = count;
  }
  void assign(size_t count, const T& value) {
    clear();
    resize(count, value);
  }
  void clear() {
    if constexpr (!trivial) std::destroy(begin(), end());
    size_ = 0;
  }
  T* insert(const T* position, T value) {
    const size_t at = position - data();
    push_back(std::move(value));
    std::rotate(begin() + at, end() - 1, end());
    return begin() + at;
  }
  T* erase(const T* position) {
    T* at = begin() + (position - data());
    std::move(at + 1, end(), at);
    pop_back();
    return at;
  }
  bool operator==(const InlineVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  [[nodiscard]] bool on_heap() const { return capacity_ > N; }

  // Out of line: what fits in place is what nearly all vectors hold.
  [[gnu::noinline]] void grow(size_t at_least) {
    const uint32_t capacity = std::max<size_t>(at_least, size_t{capacity_} * 2);
    T* fresh = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), fresh);
    const uint32_t size = size_;
    destroy();
    heap_ = fresh;
    size_ = size;
    capacity_ = capacity;
  }

  void destroy() {
    clear();
    if (on_heap()) std::allocator<T>().deallocate(heap_, capacity_);
    capacity_ = N;
  }

  void take(InlineVector& other) {  // *this is empty and inline
    if (other.on_heap()) {
      heap_ = other.heap_;
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    } else {
      std::uninitialized_move(other.begin(), other.end(), data());
      size_ = other.size_;
      other.clear();
    }
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  union {
    T* heap_;
    T inline_[N];
  };
};

}  // namespace flambeau
