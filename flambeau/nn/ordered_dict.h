// A dictionary that remembers in which order its keys came: names and their parameters, modules.
#pragma once

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flambeau/base/check.h"

namespace flambeau::torch {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    [[nodiscard]] const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    [[nodiscard]] const Value& value() const noexcept { return pair_.second; }
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }
    [[nodiscard]] const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };

  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  // Errors say what a key is: "Parameter 'weight' is not defined".
  explicit OrderedDict(std::string key_description = "Key")
      : key_description_(std::move(key_description)) {}
  OrderedDict(std::initializer_list<Item> items) : OrderedDict("Key") {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  [[nodiscard]] const std::string& key_description() const noexcept { return key_description_; }
  Item& front() { return items_.front(); }
  [[nodiscard]] const Item& front() const { return items_.front(); }
  Item& back() { return items_.back(); }
  [[nodiscard]] const Item& back() const { return items_.back(); }
  Iterator begin() { return items_.begin(); }
  [[nodiscard]] ConstIterator begin() const { return items_.begin(); }
  Iterator end() { return items_.end(); }
  [[nodiscard]] ConstIterator end() const { return items_.end(); }
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  [[nodiscard]] size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return items_.empty(); }

  Value* find(const Key& key) noexcept {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &items_[at->second].value();
  }
  [[nodiscard]] const Value* find(const Key& key) const noexcept {
    return const_cast<OrderedDict*>(this)->find(key);
  }
  [[nodiscard]] bool contains(const Key& key) const noexcept { return find(key) != nullptr; }

  Value& operator[](const Key& key) {
    Value* value = find(key);
    CHECK(value, RuntimeError, "{} '{}' is not defined", key_description_, key);
    return *value;
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Item& operator[](size_t index) {
    CHECK(index < size(), IndexError, "Index {} is out of bounds", index);
    return items_[index];
  }
  const Item& operator[](size_t index) const { return const_cast<OrderedDict&>(*this)[index]; }

  Value& insert(Key key, Value value) {
    CHECK(!contains(key), RuntimeError, "{} '{}' already defined", key_description_, key);
    index_.emplace(key, size());
    return items_.emplace_back(std::move(key), std::move(value)).value();
  }
  void update(const OrderedDict& other) {
    for (const Item& item : other) insert(item.key(), item.value());
  }
  void erase(const Key& key) {
    const auto at = index_.find(key);
    CHECK(at != index_.end(), RuntimeError, "Key '{}' doesn't exist", key);
    const size_t erased = at->second;
    items_.erase(items_.begin() + static_cast<ptrdiff_t>(erased));
    index_.erase(at);
    for (auto& [name, index] : index_) index -= index > erased;
  }
  void clear() {
    items_.clear();
    index_.clear();
  }
  void reserve(size_t size) {
    items_.reserve(size);
    index_.reserve(size);
  }

  [[nodiscard]] std::vector<Key> keys() const {
    return gather<Key>([](const Item& item) { return item.key(); });
  }
  [[nodiscard]] std::vector<Value> values() const {
    return gather<Value>([](const Item& item) { return item.value(); });
  }
  [[nodiscard]] std::vector<std::pair<Key, Value>> pairs() const {
    return gather<std::pair<Key, Value>>([](const Item& item) { return item.pair(); });
  }

 private:
  template <class T, class Take>
  std::vector<T> gather(Take take) const {
    std::vector<T> all;
    all.reserve(size());
    for (const Item& item : items_) all.push_back(take(item));
    return all;
  }

  std::string key_description_;
  std::vector<Item> items_;
  std::unordered_map<Key, size_t> index_;
};

}  // namespace flambeau::torch
