// Where files come from and go to: anything with bytes at offsets, and anything that takes bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "flambeau/base/check.h"
#include "flambeau/tensor/storage.h"

namespace flambeau::io {

// What weights_only refuses in a pickle: Python's pickle.UnpicklingError.
struct UnpicklingError : Error {
  using Error::Error;
};

// A name out of a file, for messages: bytes that are no plain letters as \xNN.
std::string printable(std::string_view name);

// zlib's checksum of some bytes, continued.
uint32_t crc32(const void* data, size_t bytes, uint32_t before = 0);

class Source {
 public:
  explicit Source(std::string name) : name_(std::move(name)) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  [[nodiscard]] const std::string& name() const { return name_; }  // for messages
  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fills all of `to`; raises RuntimeError where there are fewer bytes.
  virtual void read(uint64_t place, void* to, size_t bytes) = 0;
  [[nodiscard]] std::string read(uint64_t place, size_t bytes);

 private:
  std::string name_;
};

// A file. Raises libtorch's sentence where there is none.
std::unique_ptr<Source> open_file(const std::string& path);
// Bytes that somebody keeps.
std::unique_ptr<Source> open_memory(std::string_view bytes, std::string name = "of a buffer");

// A file mapped into memory, as long as somebody has a part of it.
class Mapping {
 public:
  Mapping(const std::string& path, bool shared);
  // A storage over a part, which must lie within the file.
  [[nodiscard]] StoragePtr part(uint64_t place, size_t bytes) const;

 private:
  std::shared_ptr<char> memory_;
  uint64_t bytes_ = 0;
};

class Sink {
 public:
  Sink() = default;
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual void write(const void* data, size_t bytes) = 0;
  void write(std::string_view text) { write(text.data(), text.size()); }
};

class StringSink : public Sink {
 public:
  using Sink::write;
  void write(const void* data, size_t bytes) override {
    text.append(static_cast<const char*>(data), bytes);
  }
  std::string text;
};

class FunctionSink : public Sink {
 public:
  using Function = std::function<size_t(const void*, size_t)>;  // says how many it took
  using Sink::write;
  explicit FunctionSink(Function function) : function_(std::move(function)) {}
  void write(const void* data, size_t bytes) override;

 private:
  Function function_;
};

// A file to write in the place of another, which stays until commit() has all safe on disk:
// whatever happens on the way, under the name is the whole old file or the whole new one.
class ReplacedFile : public Sink {
 public:
  using Sink::write;
  explicit ReplacedFile(const std::string& path);
  ~ReplacedFile() override;  // without commit(), the old file stays
  void write(const void* data, size_t bytes) override;
  void commit();

 private:
  [[noreturn]] void fail_to(const char* what) const;
  void put(const char* data, size_t bytes);
  std::string path_, target_, temporary_;
  std::string pending_;  // small writes, together
  int file_ = -1;
};

// The bytes of a storage that lies on any device, in memory.
class HostBytes {
 public:
  explicit HostBytes(const Storage& storage);
  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  StoragePtr copy_;
  const char* data_;
  size_t size_;
};

}  // namespace flambeau::io
