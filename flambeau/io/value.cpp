#include "flambeau/io/value.h"

#include <cmath>
#include <cstring>

namespace flambeau {

using Tag = IValue::Tag;

IValue::IValue(std::complex<double> value)
    : IValue(Tag::ComplexDouble, make_intrusive<ivalue::Complex>(value)) {}
IValue::IValue(std::string text) : IValue(of(Tag::String, std::move(text))) {}
IValue::IValue(flambeau::Tensor tensor) {
  // As in libtorch, an undefined tensor is a tensor.
  *this = IValue(Tag::Tensor, make_intrusive<ivalue::TensorBox>(std::move(tensor)));
}
IValue::IValue(const Scalar& scalar) {
  if (scalar.is_boolean()) {
    *this = IValue(scalar.to<bool>());
  } else if (scalar.is_floating()) {
    *this = IValue(scalar.to_double());
  } else if (scalar.is_complex()) {
    *this = IValue(scalar.to<std::complex<double>>());
  } else {
    *this = IValue(scalar.to_int());
  }
}
IValue IValue::of(Tag tag, std::string text) {
  return {tag, make_intrusive<ivalue::Text>(std::move(text))};
}
IValue IValue::of(Tag tag, std::vector<IValue> items) {
  return {tag, make_intrusive<ivalue::Items>(std::move(items))};
}
IValue IValue::dict(Tag tag) { return {tag, make_intrusive<ivalue::Pairs>()}; }
IValue IValue::storage(IntrusivePtr<ivalue::Buffer> buffer) {
  return {Tag::Storage, std::move(buffer)};
}
IValue IValue::object(IntrusivePtr<ivalue::Object> object) {
  return {Tag::Object, std::move(object)};
}

std::string IValue::tagKind() const {
  static constexpr const char* names[] = {
#define TAG(name, kind) kind,
      FLAMBEAU_IVALUE_TAGS(TAG)
#undef TAG
  };
  return names[static_cast<int>(tag_)];
}

bool IValue::compound() const {
  return (tag_ >= Tag::GenericList && tag_ <= Tag::OrderedDict) || tag_ == Tag::Object;
}

void IValue::clear() const {
  if (isGenericDict()) {
    pairs().pairs.clear();
    pairs().attributes = IValue();
  } else if (isObject()) {
    auto& object = as<ivalue::Object>();
    object.arguments = object.state = IValue();
    object.appended.clear();
    object.set.clear();
  } else {
    items().clear();
  }
}

// --- What a value is -----------------------------------------------------------------------------

void IValue::expect(bool holds, const char* question, const char* wanted) const {
  CHECK(holds, RuntimeError, "{} INTERNAL ASSERT FAILED: Expected {} but got {}", question, wanted,
        tagKind());
}

const flambeau::Tensor& IValue::tensor() const {
  CHECK(isTensor(), RuntimeError, "Expected Tensor but got {}", tagKind());
  return as<ivalue::TensorBox>().tensor;
}
Scalar IValue::toScalar() const {
  CHECK(isScalar(), RuntimeError, "IValue is not a Scalar");
  if (isBool()) return toBool();
  if (isInt()) return integer_;
  return isDouble() ? Scalar(real_) : Scalar(toComplexDouble());
}

bool IValue::isListOf(Tag tag) const {
  if (!isList()) return false;
  for (const IValue& item : items()) {
    if (!item.is(tag)) return false;
  }
  return true;
}

// Each raises for a value of another kind: the question that libtorch would have asked.
#define TO(Type, name, holds, question, kind, value) \
  Type IValue::name() const {                        \
    expect(holds, question, kind);                   \
    return value;                                    \
  }
#define TO_KIND(Type, name, asks, kind, value) TO(Type, name, asks(), #asks "()", kind, value)
#define TO_CODE(Type, name, tag, kind) \
  TO(Type, name, is(Tag::tag), "is" kind "()", kind, static_cast<Type>(integer_))
#define SHARED(Box) IntrusivePtr<ivalue::Box>(&as<ivalue::Box>())

TO_KIND(bool, toBool, isBool, "Bool", integer_ != 0)
TO_KIND(int64_t, toInt, isInt, "Int", integer_)
TO_KIND(double, toDouble, isDouble, "Double", real_)
TO_KIND(std::complex<double>, toComplexDouble, isComplexDouble, "ComplexDouble",
        as<ivalue::Complex>().value)
TO_KIND(const std::string&, toStringRef, isString, "String", text())
TO_KIND(IntrusivePtr<ivalue::Text>, toString, isString, "String", SHARED(Text))
TO_KIND(flambeau::Device, toDevice, isDevice, "Device", device_)
TO_CODE(flambeau::DType, toScalarType, DType, "ScalarType")
TO_CODE(flambeau::Layout, toLayout, Layout, "Layout")
TO_CODE(flambeau::MemoryFormat, toMemoryFormat, MemoryFormat, "MemoryFormat")
TO_KIND(List<IValue>, toList, isList, "GenericList", List<IValue>(SHARED(Items)))
TO_KIND(const std::vector<IValue>&, toListRef, isList, "GenericList", items())
TO_KIND(List<int64_t>, toIntList, isIntList, "IntList", List<int64_t>(SHARED(Items)))
TO_KIND(List<double>, toDoubleList, isDoubleList, "DoubleList", List<double>(SHARED(Items)))
TO_KIND(std::vector<int64_t>, toIntVector, isIntList, "IntList", to<std::vector<int64_t>>())
TO_KIND(std::vector<double>, toDoubleVector, isDoubleList, "DoubleList", to<std::vector<double>>())
TO_KIND(IntrusivePtr<ivalue::Tuple>, toTuple, isTuple, "Tuple", SHARED(Tuple))
TO_KIND(const ivalue::Tuple&, toTupleRef, isTuple, "Tuple", as<ivalue::Tuple>())
TO_KIND(IntrusivePtr<ivalue::Object>, toObject, isObject, "Object", SHARED(Object))

Dict<IValue, IValue> IValue::toGenericDict() const {
  expect(isGenericDict(), "isGenericDict()", "GenericDict");
  return Dict<IValue, IValue>(SHARED(Pairs));
}

bool IValue::isSameIdentity(const IValue& other) const {
  return box_ ? tag_ == other.tag_ && identity() == other.identity() : *this == other;
}

bool IValue::operator==(const IValue& other) const {
  if (tag_ != other.tag_) return false;
  switch (tag_) {
    case Tag::None: return true;
    case Tag::Double: return real_ == other.real_;
    case Tag::Device: return device_ == other.device_;
    case Tag::ComplexDouble: return toComplexDouble() == other.toComplexDouble();
    case Tag::String:
    case Tag::Bytes:
    case Tag::ByteArray:
    case Tag::BigInt:
    case Tag::Global: return text() == other.text();
    case Tag::GenericList:
    case Tag::Tuple:
    case Tag::Size: return items() == other.items();
    case Tag::Tensor: return tensor().is_same(other.tensor());
    default: return box_ ? identity() == other.identity() : integer_ == other.integer_;
  }
}

namespace ivalue {
namespace {

constexpr size_t longest_key = 4096;

// What a key says, so that equal keys say the same; false for values that are no such keys. As in
// Python, True is 1 and 2.0 is 2.
bool say(const IValue& key, std::string& text) {
  const auto number = [&](char kind, const auto& bits) {
    text += kind;
    text.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    return true;
  };
  if (text.size() > longest_key) return false;
  switch (key.tag()) {
    case Tag::None: text += 'n'; return true;
    case Tag::Bool:
    case Tag::Int: return number('i', key.integer());
    case Tag::Double: {
      const double real = key.real();
      return std::trunc(real) == real && std::fabs(real) < 9e15
                 ? number('i', static_cast<int64_t>(real))
                 : number('d', real);
    }
    case Tag::DType: return number('t', key.integer());
    case Tag::String:
    case Tag::Bytes:
      number(key.isString() ? 's' : 'b', key.text().size());
      text += key.text();
      return true;
    case Tag::Tuple:
      number('(', key.items().size());
      for (const IValue& item : key.items()) {
        if (!say(item, text)) return false;
      }
      return true;
    default: return false;
  }
}

}  // namespace

const IValue* Pairs::find(const IValue& key) const {
  std::string said;
  if (!say(key, said)) return nullptr;
  const auto found = index_of.find(said);
  return found == index_of.end() ? nullptr : &pairs[found->second].second;
}

void Pairs::set(const IValue& key, IValue value) {
  std::string said;
  if (say(key, said)) {
    const auto [found, fresh] = index_of.try_emplace(std::move(said), pairs.size());
    if (!fresh) {
      pairs[found->second].second = std::move(value);
      return;
    }
  }
  pairs.emplace_back(key, std::move(value));
}

bool Pairs::erase(const IValue& key) {
  if (!find(key)) return false;
  std::string said;
  say(key, said);
  const size_t place = index_of.at(said);
  pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(place));
  index_of.clear();
  for (size_t k = 0; k < pairs.size(); ++k) {
    said.clear();
    if (say(pairs[k].first, said)) index_of.emplace(said, k);
  }
  return true;
}

IValue Object::getAttr(const std::string& name) const {
  const IValue* found = state.isGenericDict() ? state.pairs().find(name) : nullptr;
  CHECK(found, RuntimeError, "{} does not have a field with name '{}'", this->name, name);
  return *found;
}

}  // namespace ivalue
}  // namespace flambeau
