#include "flambeau/io/pickle.h"

#include <cstring>
#include <limits>

#include "flambeau/tensor/sparse.h"

namespace flambeau::io {
namespace {

using Tag = IValue::Tag;
constexpr char tuple_codes[] = {')', '\x85', '\x86', '\x87'};
constexpr size_t batch = 1000;  // items in one instruction, as Python writes them

std::string pointer_key(const void* pointer) {
  std::string key = "p";
  key.append(reinterpret_cast<const char*>(&pointer), sizeof(pointer));
  return key;
}

}  // namespace

std::string layout_name(Layout layout) {
  static constexpr const char* names[] = {"strided",    "sparse_coo", "sparse_csr",
                                          "sparse_csc", "sparse_bsr", "sparse_bsc"};
  return std::string("torch.") + names[static_cast<int>(layout)];
}

std::string format_name(MemoryFormat format) {
  static constexpr const char* names[] = {"contiguous_format", "preserve_format", "channels_last",
                                          "channels_last_3d"};
  return std::string("torch.") + names[static_cast<int>(format)];
}

std::string widened(std::string_view bytes) {
  std::string wide;
  for (const char letter : bytes) {
    const auto byte = static_cast<uint8_t>(letter);
    if (byte >= 0x80) wide += static_cast<char>(0xC0 | byte >> 6);
    wide += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3F) : byte);
  }
  return wide;
}

std::string Pickler::dump(const IValue& value) {
  out_ = "\x80\x02";
  save(value);
  put('.');
  return std::move(out_);
}

// --- Instructions --------------------------------------------------------------------------------

void Pickler::place(char narrow, char wide, uint32_t place) {
  put(place < 256 ? narrow : wide);
  place < 256 ? number(static_cast<uint8_t>(place)) : number(place);
}

bool Pickler::known(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  place('h', 'j', found->second);
  return true;
}

void Pickler::memoize(const std::string& key) {
  memo_.emplace(key, count_);
  place('q', 'r', count_++);
}

void Pickler::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    put('K');
    number(static_cast<uint8_t>(value));
  } else if (value >= 0 && value < 65536) {
    put('M');
    number(static_cast<uint16_t>(value));
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    put('J');
    number(static_cast<int32_t>(value));
  } else {
    int bytes = 8;
    while (bytes > 1 && value >> (8 * bytes - 9) == value >> 63) --bytes;
    put('\x8a');
    number(static_cast<uint8_t>(bytes));
    out_.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
  }
}

void Pickler::string(const std::string& text) {
  const std::string key = "s" + text;
  if (known(key)) return;
  CHECK(text.size() <= std::numeric_limits<uint32_t>::max(), RuntimeError,
        "a string of {} bytes cannot be saved", text.size());
  put('X');
  number(static_cast<uint32_t>(text.size()));
  out_ += text;
  memoize(key);
}

void Pickler::global(const std::string& name) {
  const std::string key = "g" + name;
  if (known(key)) return;
  const size_t dot = name.rfind('.');
  CHECK(dot != std::string::npos, RuntimeError, "the global {} has no module", name);
  std::string module = name.substr(0, dot);
  if (module == "builtins") module = "__builtin__";  // as protocol 2 calls it
  out_ += "c" + module + "\n" + name.substr(dot + 1) + "\n";
  memoize(key);
}

void Pickler::tuple(size_t count) { put(count <= 3 ? tuple_codes[count] : 't'); }

void Pickler::ints(IntSpan values) {
  if (values.size() > 3) put('(');
  for (const int64_t value : values) integer(value);
  tuple(values.size());
}

void Pickler::empty_hooks() {
  global("collections.OrderedDict");
  out_ += ")R";
}

// --- Values --------------------------------------------------------------------------------------

void Pickler::save(const IValue& value) {
  switch (value.tag()) {
    case Tag::None: put('N'); return;
    case Tag::Bool: put(value.toBool() ? '\x88' : '\x89'); return;
    case Tag::Int: integer(value.toInt()); return;
    case Tag::Double: {
      uint64_t bits;
      const double real = value.real();
      std::memcpy(&bits, &real, sizeof(bits));
      put('G');
      number(__builtin_bswap64(bits));
      return;
    }
    case Tag::BigInt: {
      place('\x8a', '\x8b', static_cast<uint32_t>(value.text().size()));
      out_ += value.text();
      return;
    }
    case Tag::ComplexDouble:
      global("builtins.complex");
      save(value.toComplexDouble().real());
      save(value.toComplexDouble().imag());
      out_ += "\x86R";
      return;
    case Tag::String: string(value.text()); return;
    case Tag::Global: global(value.text()); return;
    case Tag::DType: global("torch." + std::string(dtype_name(value.toScalarType()))); return;
    case Tag::MemoryFormat: global(format_name(value.toMemoryFormat())); return;
    case Tag::Layout:
      global("torch.serialization._get_layout");
      string(layout_name(value.toLayout()));
      out_ += "\x85R";
      return;
    case Tag::Device: {
      const Device device = value.toDevice();
      global("torch.device");
      string(std::string(device_type_name(device.type)));
      if (device.index >= 0) integer(device.index);
      tuple(device.index >= 0 ? 2 : 1);
      put('R');
      return;
    }
    default: save_container(value);
  }
}

// What is shared, and may be met again.
void Pickler::save_container(const IValue& value) {
  // A tensor is one however many values hold it.
  const std::string key = value.isTensor()
                              ? pointer_key(value.tensor().impl()) +
                                    (value.as<ivalue::TensorBox>().parameter ? "p" : "")
                              : pointer_key(value.identity());
  if (known(key)) return;
  CHECK(++depth_ <= deepest, RuntimeError, "save: containers lie too deep in one another");
  switch (value.tag()) {
    case Tag::GenericList:
      put(']');
      memoize(key);
      save_items(value.items(), 'a', 'e');
      break;
    case Tag::GenericDict:
    case Tag::OrderedDict: save_dict(value); break;
    case Tag::Tuple: {
      if (value.items().size() > 3) put('(');
      for (const IValue& item : value.items()) save(item);
      tuple(value.items().size());
      if (!value.items().empty()) memoize(key);
      break;
    }
    case Tag::Size:
      global("torch.Size");
      if (value.items().size() > 3) put('(');
      for (const IValue& item : value.items()) save(item);
      tuple(value.items().size());
      out_ += "\x85R";
      memoize(key);
      break;
    case Tag::Set:
    case Tag::FrozenSet: save_set(value, key); break;
    case Tag::Bytes:
      save_bytes(value.text());
      memoize(key);
      break;
    case Tag::ByteArray:
      global("builtins.bytearray");
      save_bytes(value.text());
      out_ += "\x85R";
      memoize(key);
      break;
    case Tag::Tensor:
      save_tensor(value);
      memoize(key);
      break;
    case Tag::Storage: {
      const auto& buffer = value.as<ivalue::Buffer>();
      save_storage(buffer.storage, buffer.kind, buffer.count);
      break;
    }
    default: save_object(value.as<ivalue::Object>()); memoize(key);
  }
  --depth_;
}

void Pickler::save_set(const IValue& value, const std::string& key) {
  global(value.is(Tag::Set) ? "builtins.set" : "builtins.frozenset");
  put(']');
  save_items(value.items(), 'a', 'e');
  out_ += "\x85R";
  memoize(key);
}

// Bytes as text, a letter each, as protocol 2 has no bytes.
void Pickler::save_bytes(const std::string& bytes) {
  if (bytes.empty()) {
    global("builtins.bytes");
    out_ += ")R";
    return;
  }
  global("_codecs.encode");
  string(widened(bytes));
  string("latin1");
  out_ += "\x86R";
}

void Pickler::save_items(const std::vector<IValue>& items, char one, char many) {
  for (size_t begin = 0; begin < items.size(); begin += batch) {
    const size_t end = std::min(items.size(), begin + batch);
    if (end - begin > 1) put('(');
    for (size_t k = begin; k < end; ++k) save(items[k]);
    put(end - begin > 1 ? many : one);
  }
}

void Pickler::save_pairs(const std::vector<std::pair<IValue, IValue>>& pairs) {
  for (size_t begin = 0; begin < pairs.size(); begin += batch) {
    const size_t end = std::min(pairs.size(), begin + batch);
    if (end - begin > 1) put('(');
    for (size_t k = begin; k < end; ++k) {
      save(pairs[k].first);
      save(pairs[k].second);
    }
    put(end - begin > 1 ? 'u' : 's');
  }
}

void Pickler::save_dict(const IValue& value) {
  if (value.is(Tag::OrderedDict)) {
    empty_hooks();
  } else {
    put('}');
  }
  memoize(pointer_key(value.identity()));
  save_pairs(value.pairs().pairs);
  if (value.pairs().attributes.isNone()) return;
  save(value.pairs().attributes);
  put('b');
}

void Pickler::save_object(const ivalue::Object& object) {
  global(object.name);
  save(object.arguments);
  put(object.called ? 'R' : '\x81');
  save_items(object.appended, 'a', 'e');
  save_pairs(object.set);
  if (object.state.isNone()) return;
  save(object.state);
  put('b');
}

// --- Tensors -------------------------------------------------------------------------------------

void Pickler::save_storage(const StoragePtr& storage, const std::string& kind, int64_t count) {
  // Storages that are views of one memory are one.
  const void* identity = storage->bytes() ? storage->data() : storage.get();
  const auto [found, fresh] =
      keys_.try_emplace(pointer_key(identity) + std::to_string(storage->bytes()), storages_.size());
  if (fresh) {
    storages_.push_back(storage);
    kinds_.push_back(kind);
  }
  // PyTorch reads a storage once, as the first type that names it.
  CHECK(kinds_[found->second] == kind, RuntimeError,
        "Cannot save multiple tensors or storages that view the same data as different types");
  put('(');
  string("storage");
  global(kind == "UntypedStorage" ? "torch.storage.UntypedStorage" : "torch." + kind);
  string(std::to_string(found->second));
  string(to_text(storage->device()));
  integer(count);
  out_ += "tQ";
}

void Pickler::save_tensor(const IValue& value) {
  const Tensor& tensor = value.tensor();
  CHECK(tensor.defined(), RuntimeError, "save: an undefined tensor cannot be saved");
  if (!value.as<ivalue::TensorBox>().parameter) return save_rebuilt(tensor);
  global("torch._utils._rebuild_parameter");
  save_rebuilt(tensor);
  put(tensor.requires_grad() ? '\x88' : '\x89');
  empty_hooks();
  out_ += "\x87R";
}

void Pickler::save_rebuilt(const Tensor& tensor) {
  CHECK(!is_wrapped(tensor) && !(tensor->pending & Pending::batched), RuntimeError,
        "save: a tensor without values of its own cannot be saved");
  if (tensor.is_sparse()) return save_sparse(tensor);
  const char wants = tensor.requires_grad() ? '\x88' : '\x89';
  if (tensor.device().is_meta()) {
    global("torch._utils._rebuild_meta_tensor_no_storage");
    put('(');
    global("torch." + std::string(dtype_name(tensor.dtype())));
    ints(tensor.sizes());
    ints(tensor.strides());
    put(wants);
    out_ += "tR";
    return;
  }
  const std::string kind = storage_class_of(tensor.dtype());
  const size_t item = kind.empty() ? 1 : tensor.item_size();
  global(kind.empty() ? "torch._utils._rebuild_tensor_v3" : "torch._utils._rebuild_tensor_v2");
  put('(');
  save_storage(tensor.storage(), kind.empty() ? "UntypedStorage" : kind,
               static_cast<int64_t>(tensor.storage()->bytes() / item));
  integer(tensor.offset());
  ints(tensor.sizes());
  ints(tensor.strides());
  put(wants);
  empty_hooks();
  if (kind.empty()) global("torch." + std::string(dtype_name(tensor.dtype())));
  if (tensor->pending & (Pending::conj | Pending::neg)) {
    put('}');
    for (const auto& [bit, name] :
         {std::pair(Pending::conj, "conj"), std::pair(Pending::neg, "neg")}) {
      if (!(tensor->pending & bit)) continue;
      string(name);
      out_ += "\x88s";
    }
  }
  out_ += "tR";
}

void Pickler::save_sparse(const Tensor& tensor) {
  const SparseParts& parts = parts_of(tensor);
  global("torch._utils._rebuild_sparse_tensor");
  save(tensor.layout());
  put('(');
  save_rebuilt(parts.indices);
  if (!is_coo(tensor)) save_rebuilt(parts.plain);
  save_rebuilt(parts.values);
  global("torch.Size");
  ints(tensor.sizes());
  out_ += "\x85R";
  if (is_coo(tensor)) put(parts.coalesced ? '\x88' : '\x89');
  out_ += "t\x86R";
}

}  // namespace flambeau::io
