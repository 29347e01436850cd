#include <algorithm>
#include <map>

#include "flambeau/io/formats.h"
#include "flambeau/ops/ops.h"

namespace flambeau::io {
namespace {

using Pairs = std::vector<std::pair<IValue, IValue>>;

constexpr uint64_t largest_header = 100'000'000;
constexpr std::pair<std::string_view, DType> dtype_names[] = {
    {"F64", DType::float64},
    {"F32", DType::float32},
    {"F16", DType::float16},
    {"BF16", DType::bfloat16},
    {"I64", DType::int64},
    {"I32", DType::int32},
    {"I16", DType::int16},
    {"I8", DType::int8},
    {"U64", DType::uint64},
    {"U32", DType::uint32},
    {"U16", DType::uint16},
    {"U8", DType::uint8},
    {"BOOL", DType::bool_},
    {"C64", DType::complex64},
    {"F8_E4M3", DType::float8_e4m3fn},
    {"F8_E5M2", DType::float8_e5m2},
    {"F8_E4M3FNUZ", DType::float8_e4m3fnuz},
    {"F8_E5M2FNUZ", DType::float8_e5m2fnuz},
    {"F8_E8M0", DType::float8_e8m0fnu}};

std::string_view name_of(DType dtype) {
  for (const auto& [name, known] : dtype_names) {
    if (known == dtype) return name;
  }
  return {};
}

// --- Writing -------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char letter : text) {
    constexpr std::string_view special = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
    const size_t place = special.find(letter);
    if (place != std::string_view::npos) {
      made += {'\\', names[place]};
    } else if (static_cast<uint8_t>(letter) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      made += {'\\', 'u', '0', '0', digits[letter >> 4], digits[letter & 15]};
    } else {
      made += letter;
    }
  }
  return made + '"';
}

void check_tensors(const Pairs& tensors) {
  std::map<const void*, std::string> owners;
  for (const auto& [name, value] : tensors) {
    CHECK(name.isString() && value.isTensor(), ValueError,
          "Key `{}` is invalid, expected torch.Tensor, got {}", name.isString() ? name.text() : "",
          value.tagKind());
    const Tensor& tensor = value.tensor();
    CHECK(!name_of(tensor.dtype()).empty(), ValueError,
          "Key `{}` is invalid, its dtype {} has no place here", name.text(), tensor.dtype());
    CHECK(!tensor.is_sparse() && tensor.is_contiguous(), ValueError,
          "You are trying to save a non contiguous tensor: `{}` which is not allowed. Call "
          ".contiguous() on it first.",
          name.text());
    if (!tensor.numel()) continue;
    const auto [found, fresh] = owners.try_emplace(tensor.storage()->data(), name.text());
    CHECK(fresh, RuntimeError,
          "Some tensors share memory, this will lead to duplicate memory on disk and potential "
          "differences when loading them again: {}, {}",
          found->second, name.text());
  }
}

}  // namespace

void save_safetensors(const IValue& tensors, const IValue& metadata, Sink& sink) {
  Pairs order = tensors.toGenericDict().shared()->pairs;
  check_tensors(order);
  // Large elements first, so that every tensor begins at a multiple of its element's size.
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const size_t first = a.second.tensor().item_size(), second = b.second.tensor().item_size();
    return first != second ? first > second : a.first.text() < b.first.text();
  });
  std::string text = "{";
  if (metadata.isGenericDict() && !metadata.pairs().pairs.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata.pairs().pairs) {
      text += quoted(key.toStringRef()) + ":" + quoted(value.toStringRef()) + ",";
    }
    text.back() = '}';
    text += ',';
  }
  uint64_t place = 0;
  for (const auto& [name, value] : order) {
    const Tensor& tensor = value.tensor();
    std::string shape;
    for (const int64_t size : tensor.sizes())
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const uint64_t end = place + static_cast<uint64_t>(tensor.numel()) * tensor.item_size();
    text += format("{}:{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]},",
                   quoted(name.text()), name_of(tensor.dtype()), shape, place, end);
    place = end;
  }
  if (text.size() > 1) text.pop_back();
  text += '}';
  text.append(-text.size() % 8, ' ');
  const uint64_t length = text.size();
  sink.write(&length, sizeof(length));
  sink.write(text);
  for (const auto& [name, value] : order) {
    const Tensor host = to(contiguous(value.tensor()), Device());
    if (host.numel()) sink.write(host.raw(), static_cast<size_t>(host.numel()) * host.item_size());
  }
}

void save_safetensors(const IValue& tensors, const std::string& path) {
  ReplacedFile file(path);
  save_safetensors(tensors, {}, file);
  file.commit();
}

// --- Reading -------------------------------------------------------------------------------------

namespace {

// The header, which describes all bytes of the data and no other.
class Header {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Dims sizes;
    uint64_t begin, end;
  };
  std::vector<Entry> entries;
  IValue metadata = IValue::dict();
  uint64_t data = 0;  // where it begins

  explicit Header(Source& source) : source_(source) {
    uint64_t length = 0;
    if (source.size() < 8) refuse("(header)", "the file is too short for a header");
    source.read(0, &length, 8);
    if (length > largest_header || length > source.size() - 8) {
      refuse("(header)", format("a header of {} bytes does not fit", length));
    }
    data = 8 + length;
    IValue header;
    try {
      header = parse_literal(source.read(8, length));
    } catch (const ValueError& error) {
      refuse("(header)", std::string("the header is no JSON: ") + error.what());
    }
    if (!header.isGenericDict()) refuse("(header)", "the header is no dictionary");
    for (const auto& [name, value] : header.pairs().pairs) {
      if (name.text() == "__metadata__") {
        take_metadata(value);
      } else {
        take_entry(name.text(), value);
      }
    }
    check_order();
  }

 private:
  [[noreturn]] void refuse(const std::string& record, const std::string& reason) const {
    fail<RuntimeError>("safetensors: {}. File {}, record {}", printable(reason), source_.name(),
                       printable(record));
  }

  void take_metadata(const IValue& value) {
    bool fits = value.isGenericDict();
    if (fits) {
      for (const auto& [key, text] : value.pairs().pairs) fits = fits && text.isString();
    }
    if (!fits) refuse("__metadata__", "metadata must be strings by name");
    metadata = value;
  }

  static bool is_size(const IValue& value) {
    return value.isInt() && value.toInt() >= 0 && value.toInt() < int64_t{1} << 62;
  }

  void take_entry(const std::string& name, const IValue& value) {
    const auto part = [&](const char* key) {
      const IValue* found = value.isGenericDict() ? value.pairs().find(key) : nullptr;
      if (!found || value.pairs().pairs.size() != 3) {
        refuse(name, "the tensor is not described completely");
      }
      return *found;
    };
    const IValue dtype = part("dtype"), shape = part("shape"), offsets = part("data_offsets");
    Entry entry{name, DType::uint8, {}, 0, 0};
    const auto known = std::find_if(std::begin(dtype_names), std::end(dtype_names), [&](auto& row) {
      return dtype.isString() && row.first == dtype.text();
    });
    if (known == std::end(dtype_names)) refuse(name, "the tensor has an unknown dtype");
    entry.dtype = known->second;
    if (!shape.isList() || shape.items().size() > 64 ||
        !std::all_of(shape.items().begin(), shape.items().end(), is_size)) {
      refuse(name, "the tensor has an invalid shape");
    }
    if (!offsets.isList() || offsets.items().size() != 2 || !is_size(offsets.items()[0]) ||
        !is_size(offsets.items()[1])) {
      refuse(name, "the tensor has invalid offsets");
    }
    uint64_t bytes = item_size(entry.dtype);
    bool fits = true;
    for (const IValue& size : shape.items()) {
      entry.sizes.push_back(size.toInt());
      fits = !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size.toInt()), &bytes) && fits;
    }
    entry.begin = static_cast<uint64_t>(offsets.items()[0].toInt());
    entry.end = static_cast<uint64_t>(offsets.items()[1].toInt());
    if (!fits || entry.end < entry.begin || entry.end - entry.begin != bytes) {
      refuse(name, "the size of the tensor is not that of its shape");
    }
    entries.push_back(std::move(entry));
  }

  void check_order() const {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    uint64_t place = 0;
    for (const Entry* entry : order) {
      if (entry->begin != place) refuse(entry->name, "invalid offset of the tensor");
      place = entry->end;
    }
    if (place != source_.size() - data) {
      refuse("(header)", format("the header describes {} bytes, the file has {}", place,
                                source_.size() - data));
    }
  }

  Source& source_;
};

}  // namespace

IValue load_safetensors(Source& source, IValue* metadata) {
  const Header header(source);
  IValue result = IValue::dict();
  for (const Header::Entry& entry : header.entries) {
    const Tensor tensor = make_tensor(entry.sizes, entry.dtype, Device());
    if (tensor.numel())
      source.read(header.data + entry.begin, tensor.raw(), entry.end - entry.begin);
    result.pairs().set(entry.name, tensor);
  }
  if (metadata) *metadata = header.metadata;
  return result;
}

IValue safetensors_metadata(Source& source) { return Header(source).metadata; }

}  // namespace flambeau::io
