#include "flambeau/io/file.h"

#include <algorithm>
#include <cstring>

namespace flambeau::io {
namespace {

using Tag = IValue::Tag;

constexpr std::string_view magic_number("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t legacy_protocol = 1001;

std::string where(const Source& source, std::string_view record) {
  return "File " + source.name() + ", record " + printable(record);
}

// A name, which is bytes where Python 2 wrote it and `encoding` says bytes.
bool is_text(const IValue& value) { return value.isString() || value.is(Tag::Bytes); }

// Reverses the bytes of each number.
void swap_bytes(const Storage& storage, DType dtype) {
  const size_t size = item_size(dtype) / (is_complex(dtype) ? 2 : 1);
  char* data = static_cast<char*>(storage.data());
  for (size_t k = 0; k + size <= storage.bytes(); k += size)
    std::reverse(data + k, data + k + size);
}

StoragePtr placed(const StoragePtr& storage, const std::string& location,
                  const LoadOptions& options, const std::string& where) {
  if (options.place) return options.place(storage, location);
  try {
    const Device device = options.device ? *options.device : Device::parse(location);
    if (device.is_cpu()) return storage;
    StoragePtr moved = make_storage(storage->bytes(), device);
    if (!device.is_meta() && storage->bytes()) {
      copy_bytes(moved->data(), device, storage->data(), Device(), storage->bytes());
    }
    return moved;
  } catch (const Error& error) {
    fail<RuntimeError>("{}: a storage cannot be where the file says ({}): {}", where,
                       printable(location), error.what());
  }
}

// What a persistent id says of a storage.
struct StorageId {
  std::string kind, key, location;
  int64_t count = 0;
  const IValue* view = nullptr;

  StorageId(const IValue& id, size_t parts, const std::string& where) {
    const bool fits = id.is(Tag::Tuple) && id.items().size() == parts && is_text(id.items()[0]) &&
                      id.items()[0].text() == "storage" && id.items()[1].is(Tag::Global) &&
                      is_storage_class(id.items()[1].text()) && is_text(id.items()[2]) &&
                      is_text(id.items()[3]) && id.items()[4].isInt() && id.items()[4].toInt() >= 0;
    CHECK(fits, RuntimeError, "{}: Unknown typename for persistent_load", where);
    const std::string& name = id.items()[1].text();
    kind = name.substr(name.rfind('.') + 1);
    key = id.items()[2].text();
    location = id.items()[3].text();
    count = id.items()[4].toInt();
    if (parts > 5) view = &id.items()[5];
  }
};

IValue buffer_of(StoragePtr storage, const StorageId& id) {
  auto buffer = make_intrusive<ivalue::Buffer>();
  buffer->storage = std::move(storage);
  buffer->kind = id.kind;
  buffer->location = id.location;
  buffer->dtype = dtype_of_storage(id.kind);
  buffer->count = id.count;
  return IValue::storage(std::move(buffer));
}

// The same memory as another type reads it.
IValue retyped(const IValue& loaded, const StorageId& id) {
  const auto& buffer = loaded.as<ivalue::Buffer>();
  return buffer.kind == id.kind ? loaded : buffer_of(buffer.storage, id);
}

}  // namespace

// --- Archives ------------------------------------------------------------------------------------

bool is_archive(Source& source, uint64_t start) {
  return source.size() >= start + 4 && source.read(start, 4) == "PK\x03\x04";
}

Storages::Storages(const ArchiveReader& reader, const LoadOptions& options)
    : reader_(reader), options_(options), swaps_(options.assume_big_endian) {
  if (reader.has("byteorder")) swaps_ = reader.read("byteorder") == "big";
}

StoragePtr read_storage(const ArchiveReader& reader, const std::string& record,
                        const LoadOptions& options) {
  const Record& found = reader.record(record);
  CHECK(found.method == 0, RuntimeError, "{}: the record is compressed",
        where(reader.source(), record));
  if (options.mapping && found.bytes) return options.mapping->part(found.begin, found.bytes);
  StoragePtr storage = make_storage(found.bytes, Device());
  if (!options.skips_data) reader.read(found, storage->data());
  return storage;
}

IValue Storages::find(const IValue& id) {
  const StorageId wanted(id, 5, where(reader_.source(), "data.pkl"));
  const auto found = loaded_.find(wanted.key);
  if (found != loaded_.end()) return retyped(found->second, wanted);
  const std::string said = where(reader_.source(), "data/" + wanted.key);
  const StoragePtr storage = read_storage(reader_, "data/" + wanted.key, options_);
  const auto dtype = dtype_of_storage(wanted.kind);
  if (swaps_ && dtype) swap_bytes(*storage, *dtype);
  IValue buffer = buffer_of(placed(storage, wanted.location, options_, said), wanted);
  return loaded_.emplace(wanted.key, std::move(buffer)).first->second;
}

namespace {

UnpickleOptions unpickle_options(const LoadOptions& options, std::string where) {
  UnpickleOptions result;
  result.where = std::move(where);
  result.known = options.known;
  result.encoding = options.encoding;
  result.scripts = options.scripts;
  return result;
}

using Use = std::function<void(Unpickler& unpickler, const IValue& value)>;

void load_archive(Source& source, const LoadOptions& options, const Use& use) {
  const ArchiveReader reader(source, options.start);
  CHECK(!options.known || options.scripts || !reader.has("constants.pkl"), RuntimeError,
        "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. Read "
        "its parameters by torch.jit.load(f).state_dict().");
  Storages storages(reader, options);
  const std::string pickle = reader.read("data.pkl");
  UnpickleOptions how = unpickle_options(options, where(source, "data.pkl"));
  // Files that C++ programs wrote name the types of lists, and modules.
  how.scripts = options.scripts || !options.known;
  how.persistent = [&](const IValue& id) { return storages.find(id); };
  Unpickler unpickler(pickle, std::move(how));
  use(unpickler, unpickler.load());
}

// --- The format before 1.6 -----------------------------------------------------------------------
//
// The pickles are a magic number, the version of the protocol, a few facts about the machine, the
// object with an id in the place of each storage, and the list of their keys. For each key follow
// the count of its elements as eight bytes, and the elements. The object is read twice: what comes
// behind it says where it ends, and what its storages hold.
class LegacyFile {
 public:
  LegacyFile(Source& source, const LoadOptions& options, std::string_view bytes)
      : source_(source), options_(options), bytes_(bytes) {}

  void load(const Use& use) {
    size_t at = 0;
    const auto next = [&](const char* record, const auto& body) {
      UnpickleOptions how = unpickle_options(options_, where(source_, record));
      how.names_only = true;
      how.known = [](const std::string&) { return true; };
      how.persistent = [&](const IValue& id) { return note(id); };
      Unpickler unpickler(bytes_.substr(at), std::move(how));
      body(unpickler.load());
      at += unpickler.used();
    };
    next("(magic number)", [&](const IValue& value) {
      CHECK(value.is(Tag::BigInt) && value.text() == magic_number, RuntimeError,
            "{}: Invalid magic number; corrupt file?", where(source_, "(magic number)"));
    });
    next("(protocol)", [&](const IValue& value) {
      CHECK(value.isInt() && value.toInt() == legacy_protocol, RuntimeError,
            "{}: Invalid protocol version", where(source_, "(protocol)"));
    });
    next("(system)", [&](const IValue& value) {
      const IValue* little =
          value.isGenericDict() ? value.pairs().find(IValue("little_endian")) : nullptr;
      if (little && little->isBool()) swaps_ = !little->toBool();
    });
    const size_t begin = at;
    next("(object)", [](const IValue&) {});
    next("(keys)", [&](const IValue& keys) {
      CHECK(keys.isList(), RuntimeError, "{}: the keys are no list", where(source_, "(keys)"));
      for (const IValue& key : keys.items()) {
        CHECK(is_text(key), RuntimeError, "{}: a key is no text", where(source_, "(keys)"));
        order_.push_back(key.text());
      }
    });
    read_storages(at);
    UnpickleOptions how = unpickle_options(options_, where(source_, "(object)"));
    how.persistent = [&](const IValue& id) { return find(id); };
    Unpickler unpickler(bytes_.substr(begin), std::move(how));
    use(unpickler, unpickler.load());
  }

 private:
  IValue note(const IValue& id) {
    if (id.is(Tag::Tuple) && id.items().size() == 6 && id.items()[1].is(Tag::Global)) {
      const StorageId said(id, 6, where(source_, "(object)"));
      said_.try_emplace(said.key, said);
    }
    return {};
  }

  void read_storages(uint64_t at) {
    at += options_.start;
    for (const std::string& key : order_) {
      const std::string record = where(source_, "(storage " + key + ")");
      const auto found = said_.find(key);
      CHECK(found != said_.end(), RuntimeError, "{}: no tensor names it", record);
      const StorageId& id = found->second;
      const auto dtype = dtype_of_storage(id.kind);
      uint64_t count = 0;
      CHECK(source_.size() - at >= 8, RuntimeError,
            "{}: the file ends before its data: it is truncated", record);
      source_.read(at, &count, 8);
      at += 8;
      if (swaps_) count = __builtin_bswap64(count);
      CHECK(count == static_cast<uint64_t>(id.count), RuntimeError,
            "{}: it has another size than its tensors say", record);
      const uint64_t item = dtype ? item_size(*dtype) : id.kind == "QInt32Storage" ? 4 : 1;
      // Memory is taken only for bytes that the file has.
      CHECK(count <= (source_.size() - at) / item, RuntimeError,
            "{}: the file ends before its data: it is truncated", record);
      StoragePtr storage = make_storage(count * item, Device());
      source_.read(at, storage->data(), count * item);
      at += count * item;
      if (swaps_ && dtype) swap_bytes(*storage, *dtype);
      loaded_.emplace(key, buffer_of(placed(storage, id.location, options_, record), id));
    }
    if (options_.end) *options_.end = at;
  }

  IValue find(const IValue& id) {
    const bool module = id.is(Tag::Tuple) && id.items().size() > 1 && is_text(id.items()[0]) &&
                        id.items()[0].text() == "module";
    if (module) return id.items()[1];
    const StorageId wanted(id, 6, where(source_, "(object)"));
    const auto found = loaded_.find(wanted.key);
    CHECK(found != loaded_.end(), RuntimeError, "{}: the file has no storage {}",
          where(source_, "(object)"), printable(wanted.key));
    if (wanted.view->isNone()) return retyped(found->second, wanted);
    return window(found->second.as<ivalue::Buffer>(), wanted);
  }

  // A part of another storage, which old files know.
  IValue window(const ivalue::Buffer& whole, const StorageId& id) {
    const IValue& view = *id.view;
    const bool fits = view.is(Tag::Tuple) && view.items().size() == 3 && view.items()[1].isInt() &&
                      view.items()[2].isInt() && whole.dtype;
    const int64_t offset = fits ? view.items()[1].toInt() : -1;
    const int64_t length = fits ? view.items()[2].toInt() : -1;
    CHECK(offset >= 0 && length >= 0 && offset <= whole.count && length <= whole.count - offset,
          RuntimeError, "{}: a part of storage {} lies outside of it", where(source_, "(object)"),
          printable(id.key));
    IValue& made = windows_[id.key + "," + std::to_string(offset) + "," + std::to_string(length)];
    if (!made.isNone()) return made;
    const size_t item = item_size(*whole.dtype);
    char* data = static_cast<char*>(whole.storage->data()) + static_cast<size_t>(offset) * item;
    StorageId part = id;
    part.count = length;
    return made = buffer_of(make_intrusive<Storage>(
                                data, static_cast<size_t>(length) * item, whole.storage->device(),
                                [keep = whole.storage]() mutable { keep = nullptr; }),
                            part);
  }

  Source& source_;
  const LoadOptions& options_;
  std::string_view bytes_;
  bool swaps_ = false;
  std::vector<std::string> order_;
  std::unordered_map<std::string, StorageId> said_;
  std::unordered_map<std::string, IValue> loaded_, windows_;
};

// The pickles stand at the beginning; how long they are, nothing says.
void load_legacy(Source& source, const LoadOptions& options, const Use& use) {
  const uint64_t whole = source.size() - options.start;
  for (uint64_t bytes = std::min<uint64_t>(whole, uint64_t{1} << 16);;
       bytes = std::min(whole, bytes * 8)) {
    const std::string text = source.read(options.start, bytes);
    try {
      return LegacyFile(source, options, text).load(use);
    } catch (const TruncatedPickle&) {
      if (bytes == whole) throw;
    }
  }
}

void load_any(Source& source, const LoadOptions& options, const Use& use) {
  if (is_archive(source, options.start)) return load_archive(source, options, use);
  CHECK(!options.mapping, RuntimeError,
        "mmap can only be used with files saved with "
        "`torch.save(_use_new_zipfile_serialization=True)`.");
  const bool begins_as_pickle =
      source.size() > options.start && source.read(options.start, 1) == "\x80";
  // To C++ programs, what is neither is no archive.
  if (!options.known && !begins_as_pickle) (void)ArchiveReader(source, options.start);
  load_legacy(source, options, use);
}

}  // namespace

// --- Loading and saving --------------------------------------------------------------------------

void load(Source& source, const LoadOptions& options,
          const std::function<void(const IValue& value)>& use) {
  load_any(source, options, [&](Unpickler&, const IValue& value) { use(value); });
}

IValue load(Source& source, const LoadOptions& options) {
  IValue result;
  load_any(source, options,
           [&](Unpickler& unpickler, const IValue& value) { result = unpickler.release(value); });
  return result;
}

IValue load_file(const std::string& path, const LoadOptions& options) {
  const std::unique_ptr<Source> source = open_file(path);
  return load(*source, options);
}

std::string archive_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name.empty() ? "archive" : name;
}

void save(const IValue& value, Sink& sink, const std::string& name) {
  Pickler pickler;
  const std::string pickle = pickler.dump(value);
  ArchiveWriter writer(sink, name);
  writer.write("data.pkl", pickle);
  writer.write(".format_version", "1");
  writer.write(".storage_alignment", std::to_string(record_alignment));
  writer.write("byteorder", "little");
  for (size_t key = 0; key < pickler.storages().size(); ++key) {
    const HostBytes bytes(*pickler.storages()[key]);
    writer.write("data/" + std::to_string(key), bytes.data(), bytes.size());
  }
  writer.write("version", "3\n");
  writer.close();
}

void save_file(const IValue& value, const std::string& path) {
  ReplacedFile file(path);
  save(value, file, archive_name(path));
  file.commit();
}

}  // namespace flambeau::io
