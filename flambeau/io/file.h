// PyTorch's files: values with tensors in them. A file is an archive of records: `data.pkl` is a
// pickle in which every storage is a persistent id, `data/<key>` holds the bytes of a storage.
// Files of PyTorch before 1.6, one pickle after another, are read as well.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "flambeau/io/pickle.h"
#include "flambeau/io/stream.h"
#include "flambeau/io/value.h"
#include "flambeau/io/zip.h"

namespace flambeau::io {

struct LoadOptions {
  std::optional<Device> device;  // where all storages go; by default where they were
  // Puts a storage, read to the CPU, where it belongs; by default as `device` says.
  std::function<StoragePtr(const StoragePtr& storage, const std::string& location)> place;
  std::function<bool(const std::string& name)> known;  // see UnpickleOptions
  Encoding encoding = Encoding::utf8;
  bool scripts = false;
  const Mapping* mapping = nullptr;  // of the file: storages are parts of it, and not checked
  bool skips_data = false;           // contents of storages are left as they come
  bool assume_big_endian = false;    // of files that do not say
  uint64_t start = 0;                // where the file begins in its source
  uint64_t* end = nullptr;           // told where a file of the old format ends
};

bool is_archive(Source& source, uint64_t start = 0);

// The storages of an archive by their ids.
class Storages {
 public:
  Storages(const ArchiveReader& reader, const LoadOptions& options);
  IValue find(const IValue& id);

 private:
  const ArchiveReader& reader_;
  const LoadOptions& options_;
  bool swaps_;
  std::unordered_map<std::string, IValue> loaded_;
};

// The bytes of a record in a storage.
StoragePtr read_storage(const ArchiveReader& reader, const std::string& record,
                        const LoadOptions& options);

// Reads a file, whatever its format. What `use` is given dies when it returns, and may hold itself.
void load(Source& source, const LoadOptions& options,
          const std::function<void(const IValue& value)>& use);
// The value of a file, to keep.
IValue load(Source& source, const LoadOptions& options = {});
IValue load_file(const std::string& path, const LoadOptions& options = {});

// Writes an archive whose records lie in a folder of that name.
void save(const IValue& value, Sink& sink, const std::string& name = "archive");
// In the place of an old file at once: a crash leaves the old one or the new one.
void save_file(const IValue& value, const std::string& path);
// What the records of an archive at a path are called after.
std::string archive_name(const std::string& path);

}  // namespace flambeau::io
