// PyTorch's files as archives: zip files whose records are stored as they are, each beginning at a
// multiple of 64 bytes so that it can be mapped.
//
// The zip format checks the bytes of records. What lies between them (headers, padding, the
// directory) is checked by a number of ours in the archive's comment, so that no flipped bit goes
// unnoticed; PyTorch's own files have none and are read all the same.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flambeau/io/stream.h"

namespace flambeau::io {

constexpr size_t record_alignment = 64;

// Writes records, one after the other; files of the same content have the same bytes.
class ArchiveWriter {
 public:
  ArchiveWriter(Sink& sink, std::string name) : sink_(sink), name_(std::move(name)) {}
  void write(std::string_view record, const void* data, size_t bytes);
  void write(std::string_view record, std::string_view text) {
    write(record, text.data(), text.size());
  }
  void close();  // writes the directory and the end

 private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t bytes, place;
  };
  void put(const std::string& text);  // of the frame: all that is not content
  Sink& sink_;
  std::string name_;
  uint64_t place_ = 0;
  uint32_t frame_ = 0;
  std::vector<Entry> directory_;
};

struct Record {
  std::string name;  // without the folder in which all records of an archive lie
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t bytes = 0, packed = 0, header = 0, begin = 0;
};

// Reads records of an archive that begins at `start` and checks all of it that it reads. Every
// error is a RuntimeError that names the file and, where there is one, the record.
class ArchiveReader {
 public:
  explicit ArchiveReader(Source& source, uint64_t start = 0);
  [[nodiscard]] Source& source() const { return source_; }
  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  [[nodiscard]] const std::string& root() const { return root_; }  // the folder of all records
  [[nodiscard]] bool has(std::string_view name) const { return names_.contains(name); }
  [[nodiscard]] const Record& record(std::string_view name) const;
  [[nodiscard]] std::string read(std::string_view name) const;
  // Into memory of the record's size.
  void read(const Record& record, void* to) const;
  // The bytes of a record that is compressed, unchecked.
  [[nodiscard]] std::string packed(const Record& record) const;

 private:
  uint64_t find_directory(uint64_t start);  // the number of its records
  void read_directory(uint64_t count);
  void check_places();
  void check_frame(std::string_view comment) const;
  [[noreturn]] void refuse(std::string_view record, const std::string& reason) const;

  Source& source_;
  std::string root_;
  std::vector<Record> records_;
  std::map<std::string, size_t, std::less<>> names_;
  uint64_t start_ = 0, end_ = 0, directory_ = 0, directory_bytes_ = 0;
};

}  // namespace flambeau::io
