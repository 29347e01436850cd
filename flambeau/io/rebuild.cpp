// What the functions that PyTorch's pickles name make of their arguments: tensors over storages,
// and the few types that pickles have no instruction for.
#include <algorithm>
#include <array>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/autograd/meta.h"
#include "flambeau/io/pickle.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau::io {
namespace {

using Tag = IValue::Tag;
using Arguments = std::vector<IValue>;

// --- Arguments -----------------------------------------------------------------------------------

const IValue& argument(const Arguments& given, size_t place) {
  CHECK(place < given.size(), RuntimeError, "it was given {} arguments", given.size());
  return given[place];
}

Dims ints(const IValue& value) {
  CHECK(value.isTuple() || value.isList(), RuntimeError, "sizes were expected, not {}",
        value.tagKind());
  CHECK(value.items().size() <= 64, RuntimeError, "a tensor of {} dimensions",
        value.items().size());
  Dims result;
  for (const IValue& item : value.items()) result.push_back(item.toInt());
  return result;
}

bool flag(const IValue& value) { return value.isInt() ? value.toInt() != 0 : value.toBool(); }

const ivalue::Buffer& buffer(const IValue& value) {
  CHECK(value.is(Tag::Storage), RuntimeError, "a storage was expected, not {}", value.tagKind());
  return value.as<ivalue::Buffer>();
}

const std::string& text(const IValue& value) {
  CHECK(value.isString() || value.is(Tag::Bytes), RuntimeError, "text was expected, not {}",
        value.tagKind());
  return value.text();
}

// --- Tensors -------------------------------------------------------------------------------------

IValue tensor_over(const ivalue::Buffer& from, DType dtype, const Arguments& given) {
  const Dims sizes = ints(argument(given, 2)), strides = ints(argument(given, 3));
  return IValue(make_over(from.storage, sizes, strides, argument(given, 1).toInt(), dtype));
}

DType dtype_of_buffer(const ivalue::Buffer& from) {
  CHECK(from.dtype, RuntimeError, "a storage of type {} has no dtype", from.kind);
  return *from.dtype;
}

// What tensors are views of is in the storage; that they are stands in the metadata.
void set_marks(const Tensor& tensor, const IValue& metadata) {
  if (!metadata.isGenericDict()) return;
  const auto says = [&](const char* name) {
    const IValue* found = metadata.pairs().find(name);
    return found && flag(*found);
  };
  if (says("conj")) {
    CHECK(tensor.is_complex(), RuntimeError, "a conjugate view of {}", tensor.dtype());
    tensor->pending |= Pending::conj;
  }
  if (says("neg")) tensor->pending |= Pending::neg;
}

IValue plain_tensor(const Arguments& given) {
  const auto& from = buffer(argument(given, 0));
  return tensor_over(from, dtype_of_buffer(from), given);
}

IValue tensor_with(IValue made, const Arguments& given, size_t metadata) {
  if (given.size() > metadata) set_marks(made.tensor(), given[metadata]);
  if (flag(argument(given, 4))) set_requires_grad(made.tensor(), true);
  return made;
}

IValue tensor_v2(const Arguments& given) { return tensor_with(plain_tensor(given), given, 6); }

IValue tensor_v3(const Arguments& given) {
  const DType dtype = argument(given, 6).toScalarType();
  return tensor_with(tensor_over(buffer(argument(given, 0)), dtype, given), given, 7);
}

IValue meta_tensor(const Arguments& given) {
  const Dims sizes = ints(argument(given, 1)), strides = ints(argument(given, 2));
  const Device meta(DeviceType::meta);
  const Tensor made = make_strided(sizes, strides, argument(given, 0).toScalarType(), meta);
  if (flag(argument(given, 3))) set_requires_grad(made, true);
  return made;
}

IValue parameter(const Arguments& given) {
  const Tensor& data = argument(given, 0).tensor();
  IValue made(detach_alias(data));
  set_requires_grad(made.tensor(), flag(argument(given, 1)));
  made.as<ivalue::TensorBox>().parameter = true;
  return made;
}

// --- Sparse tensors ------------------------------------------------------------------------------

// The elements of an index, which lies on the CPU, as int64.
std::vector<int64_t> numbers(const Tensor& index) {
  CHECK((index.dtype() == DType::int64 || index.dtype() == DType::int32) &&
            index.device().is_cpu() && index.is_contiguous() && !index.is_sparse(),
        RuntimeError, "indices of {} are no contiguous integers on the CPU", index.dtype());
  const auto count = static_cast<size_t>(index.numel());
  if (index.dtype() == DType::int64) {
    const auto* first = index.data<int64_t>();
    return {first, first + count};
  }
  const auto* first = index.data<int32_t>();
  return {first, first + count};
}

void check_within(const std::vector<int64_t>& index, int64_t length) {
  for (const int64_t value : index) {
    CHECK(value >= 0 && value < length, RuntimeError,
          "size is inconsistent with indices: size is {} but found index {}", length, value);
  }
}

IValue coo(const Arguments& data) {
  const Tensor &index = argument(data, 0).tensor(), &values = argument(data, 1).tensor();
  const Dims size = ints(argument(data, 2));
  const bool coalesced = data.size() > 3 && data[3].isBool() && data[3].toBool();
  CHECK(index.dim() == 2 && index.dtype() == DType::int64 && values.dim() >= 1 &&
            index.size(1) == values.size(0) &&
            index.size(0) + values.dim() - 1 == static_cast<int64_t>(size.size()),
        RuntimeError, "indices {} and values {} do not make a tensor of {}", index.sizes(),
        values.sizes(), size);
  const std::vector<int64_t> all = numbers(index);
  const int64_t dims = index.size(0), count = index.size(1);
  for (int64_t d = 0; d < dims; ++d) {
    check_within({all.begin() + d * count, all.begin() + (d + 1) * count}, size[d]);
  }
  for (int64_t d = 1; d < values.dim(); ++d) {
    CHECK(values.size(d) == size[dims + d - 1], RuntimeError, "values have sizes {} of {}",
          values.sizes(), size);
  }
  return make_coo(index, values, size, coalesced);
}

IValue compressed(Layout layout, const Arguments& data) {
  const Tensor &starts = argument(data, 0).tensor(), &plain = argument(data, 1).tensor();
  const Tensor& values = argument(data, 2).tensor();
  const Dims size = ints(argument(data, 3));
  const int64_t inner = is_blocked(layout) ? 3 : 1;
  CHECK(starts.dim() == 1 && plain.dim() == 1 && values.dim() == inner && size.size() == 2 &&
            values.size(0) == plain.size(0),
        RuntimeError, "indices {} and {} and values {} do not make a tensor of {}", starts.sizes(),
        plain.sizes(), values.sizes(), size);
  const auto block = [&](int64_t d) {
    return inner == 3 ? std::max<int64_t>(values.size(1 + d), 1) : 1;
  };
  const bool rows = by_rows(layout);
  const int64_t count = rows ? size[0] / block(0) : size[1] / block(1);
  const int64_t length = rows ? size[1] / block(1) : size[0] / block(0);
  const std::vector<int64_t> begins = numbers(starts);
  CHECK(static_cast<int64_t>(begins.size()) == count + 1 && begins.front() == 0 &&
            begins.back() == plain.numel() && std::is_sorted(begins.begin(), begins.end()),
        RuntimeError, "the compressed indices do not fit to {} stored elements", plain.numel());
  check_within(numbers(plain), length);
  return make_compressed(layout, starts, plain, values, size);
}

IValue sparse_tensor(const Arguments& given) {
  const Layout layout = argument(given, 0).toLayout();
  const IValue& data = argument(given, 1);
  CHECK(data.isTuple() && layout != Layout::strided, RuntimeError, "no parts of a sparse tensor");
  return layout == Layout::sparse_coo ? coo(data.items()) : compressed(layout, data.items());
}

// --- Other types ---------------------------------------------------------------------------------

IValue ordered_dict(const Arguments& given) {
  IValue made = IValue::dict(Tag::OrderedDict);
  if (given.empty()) return made;
  for (const IValue& pair : given[0].toListRef()) {
    const bool two = (pair.isTuple() || pair.isList()) && pair.items().size() == 2;
    CHECK(two, RuntimeError, "an OrderedDict is made of pairs");
    made.pairs().set(pair.items()[0], pair.items()[1]);
  }
  return made;
}

// The items of any container.
std::vector<IValue> items_of(const Arguments& given) {
  if (given.empty()) return {};
  const bool known = given[0].compound() && !given[0].isGenericDict() && !given[0].isObject();
  CHECK(known, RuntimeError, "items were expected, not {}", given[0].tagKind());
  return given[0].items();
}

IValue complex_number(const Arguments& given) {
  const auto part = [&](size_t place) {
    if (place >= given.size()) return 0.0;
    return given[place].isInt() ? static_cast<double>(given[place].toInt())
                                : given[place].toDouble();
  };
  return std::complex<double>(part(0), part(1));
}

// The bytes that pickles of protocol 2 have as text, each a letter.
std::string encoded(const Arguments& given) {
  const std::string &wide = argument(given, 0).toStringRef(),
                    &name = given.size() > 1 ? text(given[1]) : wide;
  if (given.size() < 2 || name == "utf-8" || name == "ascii") return wide;
  CHECK(name == "latin1" || name == "latin-1", RuntimeError, "encoding {}", name);
  std::string bytes;
  for (size_t k = 0; k < wide.size(); ++k) {
    const auto first = static_cast<uint8_t>(wide[k]);
    if (first < 0x80) {
      bytes += wide[k];
      continue;
    }
    const bool two = (first == 0xC2 || first == 0xC3) && k + 1 < wide.size();
    CHECK(two, RuntimeError, "the text has letters that latin1 has not");
    bytes += static_cast<char>((first & 3) << 6 | (static_cast<uint8_t>(wide[++k]) & 0x3F));
  }
  return bytes;
}

IValue bytes_of(Tag tag, const Arguments& given) {
  if (given.empty()) return IValue::of(tag, std::string());
  // Not of a number, which would be a length.
  if (given[0].is(Tag::Bytes) || given[0].is(Tag::ByteArray))
    return IValue::of(tag, given[0].text());
  if (given[0].isList() && given[0].items().empty()) return IValue::of(tag, std::string());
  return IValue::of(tag, encoded(given));
}

IValue device(const Arguments& given) {
  std::string name = text(argument(given, 0));
  if (given.size() > 1) name += ":" + std::to_string(given[1].toInt());
  return Device::parse(name);
}

IValue layout(const Arguments& given) {
  for (int k = 0; k <= static_cast<int>(Layout::sparse_bsc); ++k) {
    if (text(argument(given, 0)) == layout_name(static_cast<Layout>(k)))
      return static_cast<Layout>(k);
  }
  fail<RuntimeError>("there is no layout {}", text(given[0]));
}

struct Maker {
  std::string_view name;
  IValue (*make)(const Arguments&);
};

template <Tag tag>
IValue container(const Arguments& given) {
  return IValue::of(tag, items_of(given));
}

constexpr Maker makers[] = {
    {"torch._utils._rebuild_tensor", plain_tensor},
    {"torch._utils._rebuild_tensor_v2", tensor_v2},
    {"torch._utils._rebuild_tensor_v3", tensor_v3},
    {"torch._utils._rebuild_meta_tensor_no_storage", meta_tensor},
    {"torch._utils._rebuild_parameter", parameter},
    {"torch._utils._rebuild_sparse_tensor", sparse_tensor},
    {"torch.serialization._get_layout", layout},
    {"torch.device", device},
    {"torch.Size", container<Tag::Size>},
    {"collections.OrderedDict", ordered_dict},
    {"_codecs.encode", [](const Arguments& a) { return IValue::of(Tag::Bytes, encoded(a)); }},
    {"builtins.bytes", [](const Arguments& a) { return bytes_of(Tag::Bytes, a); }},
    {"builtins.bytearray", [](const Arguments& a) { return bytes_of(Tag::ByteArray, a); }},
    {"builtins.set", container<Tag::Set>},
    {"builtins.frozenset", container<Tag::FrozenSet>},
    {"builtins.list", container<Tag::GenericList>},
    {"builtins.tuple", container<Tag::Tuple>},
    {"builtins.complex", complex_number},
};

const Maker* maker(std::string_view name) {
  const auto* found = std::find_if(std::begin(makers), std::end(makers),
                                   [&](const Maker& maker) { return maker.name == name; });
  return found == std::end(makers) ? nullptr : found;
}

}  // namespace

bool rebuilds(const std::string& name) { return maker(name); }

bool rebuild(const std::string& name, const std::vector<IValue>& arguments, IValue& result) {
  const Maker* found = maker(name);
  if (!found) return false;
  result = found->make(arguments);
  return true;
}

std::optional<DType> dtype_of_storage(std::string_view kind) {
  constexpr std::string_view ending = "Storage";
  if (!kind.ends_with(ending)) return std::nullopt;
  kind.remove_suffix(ending.size());
  for (int k = 0; k < dtype_count; ++k) {
    const auto dtype = static_cast<DType>(k);
    if (dtype_legacy_name(dtype) == kind && !storage_class_of(dtype).empty()) return dtype;
  }
  return std::nullopt;
}

std::string storage_class_of(DType dtype) {
  constexpr DTypeSet without = dtypes::Unsigned | dtypes::Stored;
  return without.has(dtype) ? "" : std::string(dtype_legacy_name(dtype)) + "Storage";
}

bool is_storage_class(std::string_view name) {
  if (name == "torch.storage.UntypedStorage" || name == "torch.storage.TypedStorage") return true;
  if (!name.starts_with("torch.")) return false;
  name.remove_prefix(6);
  constexpr std::string_view quantized[] = {"QInt8Storage", "QUInt8Storage", "QInt32Storage",
                                            "QUInt4x2Storage", "QUInt2x4Storage"};
  return dtype_of_storage(name) ||
         std::find(std::begin(quantized), std::end(quantized), name) != std::end(quantized);
}

}  // namespace flambeau::io
