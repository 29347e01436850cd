// IValue: any of the values that a file may hold: what a pickle of PyTorch's knows beside code.
// Lists, dicts and objects are shared by the handles that copy them, as in Python; numbers, strings
// and tuples never change. Errors are in libtorch's words, as C++ programs know this class as
// torch::IValue.
#pragma once

#include <complex>
#include <concepts>
#include <iosfwd>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flambeau/tensor/tensor.h"

namespace flambeau {
namespace torch {
class Tensor;  // printed; a handle like flambeau::Tensor
namespace jit {
class Module;  // flambeau/script.h
}
}  // namespace torch

class IValue;
template <class T>
class List;
template <class Key, class T>
class Dict;

// What handles share.
namespace ivalue {

struct Boxed : RefCounted {
  virtual ~Boxed() = default;
};
struct Text : Boxed {  // of a string, of bytes, of an integer beyond 64 bits (as pickles have it)
  explicit Text(std::string text) : text(std::move(text)) {}
  [[nodiscard]] const std::string& string() const { return text; }
  std::string text;
};
struct Complex : Boxed {
  explicit Complex(std::complex<double> value) : value(value) {}
  std::complex<double> value;
};
struct TensorBox : Boxed {
  explicit TensorBox(flambeau::Tensor tensor) : tensor(std::move(tensor)) {}
  flambeau::Tensor tensor;
  bool parameter = false;  // Python makes a Parameter of it
};
struct Items;  // of a list, a tuple, a set
using Tuple = Items;
struct Pairs;   // of a dict
struct Object;  // of a class
struct Buffer;  // a storage

}  // namespace ivalue

// What a value can be, and what libtorch calls it.
// clang-format off
#define FLAMBEAU_IVALUE_TAGS(TAG) \
  TAG(None, "None") TAG(Bool, "Bool") TAG(Int, "Int") TAG(Double, "Double") \
  TAG(ComplexDouble, "ComplexDouble") TAG(String, "String") TAG(Bytes, "Bytes") \
  TAG(ByteArray, "Bytes") TAG(BigInt, "BigInt") TAG(GenericList, "GenericList") \
  TAG(Tuple, "Tuple") TAG(Size, "Tuple") TAG(Set, "GenericSet") TAG(FrozenSet, "GenericSet") \
  TAG(GenericDict, "GenericDict") TAG(OrderedDict, "GenericDict") TAG(Tensor, "Tensor") \
  TAG(DType, "ScalarType") TAG(Layout, "Layout") TAG(MemoryFormat, "MemoryFormat") \
  TAG(Device, "Device") TAG(Storage, "Storage") TAG(Global, "Global") TAG(Object, "Object")
// clang-format on

class IValue {
 public:
  enum class Tag : uint8_t {
#define TAG(name, kind) name,
    FLAMBEAU_IVALUE_TAGS(TAG)
#undef TAG
  };

  IValue() {}                // NOLINT(modernize-use-equals-default): of a union
  IValue(std::nullopt_t) {}  // NOLINT
  template <std::same_as<bool> T>
  IValue(T value) : tag_(Tag::Bool), integer_(value) {}  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) IValue(T value)  // NOLINT
      : tag_(Tag::Int), integer_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  IValue(T value) : tag_(Tag::Double), real_(value) {}                          // NOLINT
  IValue(std::complex<double> value);                                           // NOLINT
  IValue(std::string text);                                                     // NOLINT
  IValue(const char* text) : IValue(std::string(text)) {}                       // NOLINT
  IValue(std::string_view text) : IValue(std::string(text)) {}                  // NOLINT
  IValue(flambeau::Tensor tensor);                                              // NOLINT
  IValue(flambeau::Device device) : tag_(Tag::Device), device_(device) {}       // NOLINT
  IValue(flambeau::DType dtype) : IValue(Tag::DType, dtype) {}                  // NOLINT
  IValue(flambeau::Layout layout) : IValue(Tag::Layout, layout) {}              // NOLINT
  IValue(flambeau::MemoryFormat format) : IValue(Tag::MemoryFormat, format) {}  // NOLINT
  IValue(const Scalar& scalar);                                                 // NOLINT
  IValue(IntrusivePtr<ivalue::Tuple> tuple);                                    // NOLINT
  template <class T>
  IValue(const std::vector<T>& values);  // NOLINT
  template <class T>
  requires requires(const T& span) { span.vec(); }
  IValue(const T& span) : IValue(span.vec()) {}  // NOLINT
  template <class... T>
  IValue(const std::tuple<T...>& values);  // NOLINT
  template <class T>
  IValue(const std::optional<T>& value);  // NOLINT
  template <class T>
  IValue(const List<T>& list);  // NOLINT
  template <class Key, class T>
  IValue(const Dict<Key, T>& dict);  // NOLINT
  template <class T>
  requires std::is_pointer_v<T> IValue(T pointer)
  = delete;  // would be a bool

  static IValue of(Tag tag, std::string text);
  static IValue of(Tag tag, std::vector<IValue> items);
  static IValue dict(Tag tag = Tag::GenericDict);
  static IValue global(std::string name) { return of(Tag::Global, std::move(name)); }
  static IValue storage(IntrusivePtr<ivalue::Buffer> buffer);
  static IValue object(IntrusivePtr<ivalue::Object> object);

  [[nodiscard]] Tag tag() const { return tag_; }
  [[nodiscard]] std::string tagKind() const;
  [[nodiscard]] bool is(Tag tag) const { return tag_ == tag; }
  [[nodiscard]] bool isNone() const { return is(Tag::None); }
  [[nodiscard]] bool isTensor() const { return is(Tag::Tensor); }
  [[nodiscard]] bool isBool() const { return is(Tag::Bool); }
  [[nodiscard]] bool isInt() const { return is(Tag::Int); }
  [[nodiscard]] bool isDouble() const { return is(Tag::Double); }
  [[nodiscard]] bool isComplexDouble() const { return is(Tag::ComplexDouble); }
  [[nodiscard]] bool isScalar() const {
    return isInt() || isDouble() || isBool() || isComplexDouble();
  }
  [[nodiscard]] bool isString() const { return is(Tag::String); }
  [[nodiscard]] bool isDevice() const { return is(Tag::Device); }
  [[nodiscard]] bool isObject() const { return is(Tag::Object); }
  [[nodiscard]] bool isList() const { return is(Tag::GenericList); }
  [[nodiscard]] bool isTuple() const { return is(Tag::Tuple) || is(Tag::Size); }
  [[nodiscard]] bool isGenericDict() const { return is(Tag::GenericDict) || is(Tag::OrderedDict); }
  [[nodiscard]] bool isTensorList() const { return isListOf(Tag::Tensor); }
  [[nodiscard]] bool isIntList() const { return isListOf(Tag::Int); }
  [[nodiscard]] bool isDoubleList() const { return isListOf(Tag::Double); }
  [[nodiscard]] bool isBoolList() const { return isListOf(Tag::Bool); }

  // Each raises what libtorch raises for a value of another kind.
  [[nodiscard]] torch::Tensor toTensor() const;  // in flambeau/api, which knows the class
  [[nodiscard]] const flambeau::Tensor& tensor() const;
  [[nodiscard]] bool toBool() const;
  [[nodiscard]] int64_t toInt() const;
  [[nodiscard]] double toDouble() const;
  [[nodiscard]] std::complex<double> toComplexDouble() const;
  [[nodiscard]] Scalar toScalar() const;
  [[nodiscard]] const std::string& toStringRef() const;
  [[nodiscard]] std::string_view toStringView() const { return toStringRef(); }
  [[nodiscard]] IntrusivePtr<ivalue::Text> toString() const;
  [[nodiscard]] flambeau::Device toDevice() const;
  [[nodiscard]] flambeau::DType toScalarType() const;
  [[nodiscard]] flambeau::Layout toLayout() const;
  [[nodiscard]] flambeau::MemoryFormat toMemoryFormat() const;
  [[nodiscard]] List<IValue> toList() const;
  [[nodiscard]] const std::vector<IValue>& toListRef() const;
  [[nodiscard]] List<torch::Tensor> toTensorList() const;
  [[nodiscard]] List<int64_t> toIntList() const;
  [[nodiscard]] List<double> toDoubleList() const;
  [[nodiscard]] std::vector<torch::Tensor> toTensorVector() const;
  [[nodiscard]] std::vector<int64_t> toIntVector() const;
  [[nodiscard]] std::vector<int64_t> toDimVector() const { return toIntVector(); }
  [[nodiscard]] std::vector<double> toDoubleVector() const;
  [[nodiscard]] IntrusivePtr<ivalue::Tuple> toTuple() const;
  [[nodiscard]] const ivalue::Tuple& toTupleRef() const;
  [[nodiscard]] Dict<IValue, IValue> toGenericDict() const;
  [[nodiscard]] IntrusivePtr<ivalue::Object> toObject() const;
  [[nodiscard]] torch::jit::Module toModule() const;
  template <class T>
  [[nodiscard]] T to() const;
  template <class T>
  [[nodiscard]] std::optional<T> toOptional() const {
    return isNone() ? std::nullopt : std::optional<T>(to<T>());
  }

  // What the reader and the writer ask; the tag says which of them there is.
  [[nodiscard]] bool boxed() const { return static_cast<bool>(box_); }
  [[nodiscard]] const void* identity() const { return box_.get(); }
  [[nodiscard]] bool isSameIdentity(const IValue& other) const;
  template <class Box>
  [[nodiscard]] Box& as() const {
    return static_cast<Box&>(*box_);
  }
  [[nodiscard]] bool compound() const;  // holds other values
  void clear() const;                   // of a compound: it holds none then
  void expect(bool holds, const char* question, const char* wanted) const;
  [[nodiscard]] int64_t integer() const { return integer_; }
  [[nodiscard]] double real() const { return real_; }
  [[nodiscard]] const std::string& text() const { return as<ivalue::Text>().text; }
  [[nodiscard]] std::vector<IValue>& items() const;
  [[nodiscard]] ivalue::Pairs& pairs() const;
  bool operator==(const IValue& other) const;
  friend std::ostream& operator<<(std::ostream& out, const IValue& value);

 private:
  friend class List<IValue>;
  template <class T>
  IValue(Tag tag, T code) requires std::is_enum_v<T> : tag_(tag),
                                                       integer_(static_cast<int>(code)) {}
  template <class T>
  IValue(Tag tag, IntrusivePtr<T> box) : tag_(tag), box_(std::move(box)) {}
  [[nodiscard]] bool isListOf(Tag tag) const;

  Tag tag_ = Tag::None;
  union {
    int64_t integer_ = 0;  // of Bool, Int and enumerators
    double real_;
    flambeau::Device device_;
  };
  IntrusivePtr<ivalue::Boxed> box_;
};

namespace ivalue {

struct Items : Boxed {
  explicit Items(std::vector<IValue> items) : items(std::move(items)) {}
  static IntrusivePtr<Items> create(std::vector<IValue> items);
  template <class... T>
  static IntrusivePtr<Items> create(T&&... values);
  [[nodiscard]] const std::vector<IValue>& elements() const { return items; }
  [[nodiscard]] size_t size() const { return items.size(); }
  std::vector<IValue> items;
};
inline IntrusivePtr<Items> Items::create(std::vector<IValue> items) {
  return make_intrusive<Items>(std::move(items));
}
template <class... T>
IntrusivePtr<Items> Items::create(T&&... values) {
  return create(std::vector<IValue>{IValue(std::forward<T>(values))...});
}

// In the order in which keys came. Keys that are strings, numbers or tuples of them are found by
// what they say, as Python finds them.
struct Pairs : Boxed {
  [[nodiscard]] const IValue* find(const IValue& key) const;
  void set(const IValue& key, IValue value);
  bool erase(const IValue& key);
  std::vector<std::pair<IValue, IValue>> pairs;
  std::unordered_map<std::string, size_t> index_of;
  IValue attributes;  // a dict: what Python keeps in an OrderedDict beside its items
};

// What a global was called with, and what followed: an object of a class that this library does
// not make itself. A reader that knows the class makes it of this.
struct Object : Boxed {
  [[nodiscard]] IValue getAttr(const std::string& name) const;
  std::string name;    // "module.Class"
  IValue arguments;    // a tuple
  bool called = true;  // or made by __new__
  IValue state;
  std::vector<IValue> appended;
  std::vector<std::pair<IValue, IValue>> set;
};

// The bytes of a storage and what the file says of it.
struct Buffer : Boxed {
  StoragePtr storage;
  std::string kind;      // "FloatStorage"
  std::string location;  // "cpu"
  std::optional<flambeau::DType>
      dtype;  // none for bytes, and for what this library has no dtype of
  int64_t count = 0;
};

}  // namespace ivalue

inline std::vector<IValue>& IValue::items() const { return as<ivalue::Items>().items; }
inline ivalue::Pairs& IValue::pairs() const { return as<ivalue::Pairs>(); }
inline IValue::IValue(IntrusivePtr<ivalue::Tuple> tuple) : IValue(Tag::Tuple, std::move(tuple)) {}

// --- Lists and dicts of one type -----------------------------------------------------------------

template <class T>
class List {
 public:
  List() : items_(make_intrusive<ivalue::Items>(std::vector<IValue>())) {}
  List(std::initializer_list<T> values) : List() {
    for (const T& value : values) push_back(value);
  }
  explicit List(IntrusivePtr<ivalue::Items> items) : items_(std::move(items)) {}
  [[nodiscard]] size_t size() const { return items_->items.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] T get(size_t place) const { return items_->items.at(place).template to<T>(); }
  [[nodiscard]] T operator[](size_t place) const { return get(place); }
  void set(size_t place, T value) const { items_->items.at(place) = IValue(std::move(value)); }
  void push_back(T value) const { items_->items.emplace_back(std::move(value)); }
  void emplace_back(T value) const { push_back(std::move(value)); }
  void reserve(size_t count) const { items_->items.reserve(count); }
  void clear() const { items_->items.clear(); }
  [[nodiscard]] std::vector<T> vec() const {
    std::vector<T> values;
    for (const IValue& item : items_->items) values.push_back(item.template to<T>());
    return values;
  }
  struct iterator {
    const List* list;
    size_t place;
    T operator*() const { return list->get(place); }
    iterator& operator++() { return ++place, *this; }
    bool operator==(const iterator& other) const { return place == other.place; }
  };
  [[nodiscard]] iterator begin() const { return {this, 0}; }
  [[nodiscard]] iterator end() const { return {this, size()}; }
  [[nodiscard]] const IntrusivePtr<ivalue::Items>& shared() const { return items_; }

 private:
  IntrusivePtr<ivalue::Items> items_;
};

template <class Key, class T>
class Dict {
 public:
  Dict() : pairs_(make_intrusive<ivalue::Pairs>()) {}
  explicit Dict(IntrusivePtr<ivalue::Pairs> pairs) : pairs_(std::move(pairs)) {}
  [[nodiscard]] size_t size() const { return pairs_->pairs.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] bool contains(const Key& key) const { return pairs_->find(IValue(key)); }
  [[nodiscard]] size_t count(const Key& key) const { return contains(key); }
  [[nodiscard]] T at(const Key& key) const {
    const IValue* found = pairs_->find(IValue(key));
    if (!found) throw std::out_of_range("Argument passed to at() was not in the map.");
    return found->template to<T>();
  }
  void insert(const Key& key, T value) const {
    if (!contains(key)) pairs_->set(IValue(key), IValue(std::move(value)));
  }
  void insert_or_assign(const Key& key, T value) const {
    pairs_->set(IValue(key), IValue(std::move(value)));
  }
  size_t erase(const Key& key) const { return pairs_->erase(IValue(key)); }
  void clear() const {
    pairs_->pairs.clear();
    pairs_->index_of.clear();
  }
  class Entry {
   public:
    explicit Entry(const std::pair<IValue, IValue>* pair) : pair_(pair) {}
    [[nodiscard]] Key key() const { return pair_->first.template to<Key>(); }
    [[nodiscard]] T value() const { return pair_->second.template to<T>(); }

   private:
    friend class Dict;
    const std::pair<IValue, IValue>* pair_;
  };
  struct iterator {
    Entry entry;
    const Entry& operator*() const { return entry; }
    const Entry* operator->() const { return &entry; }
    iterator& operator++() { return *this = iterator{Entry(entry.pair_ + 1)}; }
    iterator operator++(int) {
      const iterator before = *this;
      return ++*this, before;
    }
    bool operator==(const iterator& other) const { return entry.pair_ == other.entry.pair_; }
  };
  [[nodiscard]] iterator begin() const { return {Entry(pairs_->pairs.data())}; }
  [[nodiscard]] iterator end() const { return {Entry(pairs_->pairs.data() + size())}; }
  [[nodiscard]] iterator find(const Key& key) const {
    for (iterator it = begin(); it != end(); ++it) {
      if (it.entry.pair_->first == IValue(key)) return it;
    }
    return end();
  }
  [[nodiscard]] const IntrusivePtr<ivalue::Pairs>& shared() const { return pairs_; }

 private:
  IntrusivePtr<ivalue::Pairs> pairs_;
};

// --- Templates of IValue -------------------------------------------------------------------------

template <class T>
IValue::IValue(const std::vector<T>& values)
    : IValue(of(Tag::GenericList, std::vector<IValue>(values.begin(), values.end()))) {}
template <class... T>
IValue::IValue(const std::tuple<T...>& values)
    : IValue(std::apply([](const T&... each) { return ivalue::Tuple::create(IValue(each)...); },
                        values)) {}
template <class T>
IValue::IValue(const std::optional<T>& value) : IValue(value ? IValue(*value) : IValue()) {}
template <class T>
IValue::IValue(const List<T>& list) : IValue(Tag::GenericList, list.shared()) {}
template <class Key, class T>
IValue::IValue(const Dict<Key, T>& dict) : IValue(Tag::GenericDict, dict.shared()) {}

namespace detail {
template <class T>
struct FromIValue;
template <class T>
struct FromIValue<std::vector<T>> {
  static std::vector<T> of(const IValue& value) {
    std::vector<T> result;
    for (const IValue& item : value.toListRef()) result.push_back(item.to<T>());
    return result;
  }
};
template <class T>
struct FromIValue<std::optional<T>> {
  static std::optional<T> of(const IValue& value) { return value.toOptional<T>(); }
};
template <class T>
struct FromIValue<List<T>> {
  static List<T> of(const IValue& value) { return List<T>(value.toList().shared()); }
};
template <class Key, class T>
struct FromIValue<Dict<Key, T>> {
  static Dict<Key, T> of(const IValue& value) {
    return Dict<Key, T>(value.toGenericDict().shared());
  }
};
template <class... T>
struct FromIValue<std::tuple<T...>> {
  static std::tuple<T...> of(const IValue& value) {
    const auto& items = value.toTupleRef().elements();
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>(items.at(I).template to<T>()...);
    }
    (std::index_sequence_for<T...>());
  }
};
}  // namespace detail

template <class T>
T IValue::to() const {
  if constexpr (std::is_same_v<T, IValue>) {
    return *this;
  } else if constexpr (std::is_base_of_v<flambeau::Tensor, T>) {
    return T(tensor());
  } else if constexpr (std::is_same_v<T, bool>) {
    return toBool();
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(toInt());
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(toDouble());
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return toComplexDouble();
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return toScalar();
  } else if constexpr (std::is_convertible_v<const std::string&, T>) {
    return toStringRef();
  } else if constexpr (std::is_same_v<T, flambeau::Device>) {
    return toDevice();
  } else if constexpr (std::is_same_v<T, flambeau::DType>) {
    return toScalarType();
  } else {
    return detail::FromIValue<T>::of(*this);
  }
}

}  // namespace flambeau
