#include "flambeau/io/zip.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace flambeau::io {
namespace {

static_assert(std::endian::native == std::endian::little, "zip files are written as memory has it");

constexpr uint64_t large = 0xFFFFFFFF;
constexpr uint32_t local_magic = 0x04034B50, entry_magic = 0x02014B50, end_magic = 0x06054B50;
constexpr uint32_t wide_end_magic = 0x06064B50, locator_magic = 0x07064B50;
constexpr size_t local_bytes = 30, entry_bytes = 46, end_bytes = 22, wide_end_bytes = 56;
constexpr size_t locator_bytes = 20, longest_comment = 0xFFFF;
constexpr uint64_t largest_program = uint64_t{1} << 24;  // bytes of text in one record
constexpr uint16_t date = 0x21;                          // 1980-01-01
constexpr std::string_view comment_words = "flambeau frame ";

// Numbers of the widths that the format has, one behind the other.
template <class... T>
std::string packed_numbers(T... numbers) {
  std::string text;
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return text;
}
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

template <class T>
T number(std::string_view text, size_t place) {
  T value;
  std::memcpy(&value, text.data() + place, sizeof(T));
  return value;
}

// Whether a record is TorchScript, text that is read only on request and may be compressed.
bool is_program(const Record& record) {
  return record.name.starts_with("code/") && record.bytes < largest_program;
}

}  // namespace

// --- Writing -------------------------------------------------------------------------------------

void ArchiveWriter::put(const std::string& text) {
  sink_.write(text);
  frame_ = crc32(text.data(), text.size(), frame_);
  place_ += text.size();
}

void ArchiveWriter::write(std::string_view record, const void* data, size_t bytes) {
  const std::string name = name_ + "/" + std::string(record);
  const uint32_t crc = crc32(data, bytes);
  const uint64_t start = place_, shown = std::min<uint64_t>(bytes, large);
  std::string extra = bytes >= large ? packed_numbers(u16{1}, u16{16}, u64{bytes}, u64{bytes}) : "";
  const size_t unpadded = start + local_bytes + name.size() + extra.size() + 4;
  const size_t padding = -unpadded % record_alignment;
  extra += packed_numbers(u16{0x4246}, u16(padding)) + std::string(padding, 'Z');
  put(packed_numbers(local_magic, u16{45}, u16{0x800}, u16{0}, u16{0}, date, crc, u32(shown),
                     u32(shown), u16(name.size()), u16(extra.size())) +
      name + extra);
  sink_.write(data, bytes);
  place_ += bytes;
  directory_.push_back({name, crc, bytes, start});
}

void ArchiveWriter::close() {
  const uint64_t begin = place_;
  for (const Entry& entry : directory_) {
    std::string extra;
    for (const uint64_t value : {entry.bytes, entry.bytes, entry.place}) {
      if (value >= large) extra += packed_numbers(value);
    }
    if (!extra.empty()) extra = packed_numbers(u16{1}, u16(extra.size())) + extra;
    const u32 shown(std::min(entry.bytes, large)), place(std::min(entry.place, large));
    put(packed_numbers(entry_magic, u16{45}, u16{45}, u16{0x800}, u16{0}, u16{0}, date, entry.crc,
                       shown, shown, u16(entry.name.size()), u16(extra.size()), u16{0}, u16{0},
                       u16{0}, u32{0}, place) +
        entry.name + extra);
  }
  const uint64_t bytes = place_ - begin, count = directory_.size();
  if (begin >= large || count >= 0xFFFF) {
    const uint64_t locator = place_;
    put(packed_numbers(wide_end_magic, u64{44}, u16{45}, u16{45}, u32{0}, u32{0}, count, count,
                       bytes, begin));
    put(packed_numbers(locator_magic, u32{0}, locator, u32{1}));
  }
  const u16 few(std::min<uint64_t>(count, 0xFFFF));
  char comment[32];
  put(packed_numbers(end_magic, u16{0}, u16{0}, few, few, u32(bytes), u32(std::min(begin, large)),
                     u16(comment_words.size() + 8)));
  std::snprintf(comment, sizeof(comment), "%s%08x", comment_words.data(), frame_);
  sink_.write(std::string_view(comment));
}

// --- Reading -------------------------------------------------------------------------------------

void ArchiveReader::refuse(std::string_view record, const std::string& reason) const {
  fail<RuntimeError>(
      "PytorchStreamReader failed reading zip archive: {}. File {}, record {}: the file is "
      "truncated, damaged, or no archive of PyTorch's kind.",
      reason, source_.name(), printable(record));
}

ArchiveReader::ArchiveReader(Source& source, uint64_t start) : source_(source), start_(start) {
  const uint64_t count = find_directory(start);
  read_directory(count);
  if (records_.empty()) refuse("(directory)", "the archive is empty");
  check_places();
  for (const Record& record : records_) {
    // Storages are checked when they are read; these are small, and some are never read.
    if (record.name.starts_with("data/") || is_program(record)) continue;
    (void)read(record.name);
  }
  const size_t comment_size = source_.size() - end_ - end_bytes;
  if (comment_size) check_frame(source_.read(end_ + end_bytes, comment_size));
}

uint64_t ArchiveReader::find_directory(uint64_t start) {
  const uint64_t size = source_.size();
  if (size < start + end_bytes) refuse("(directory)", "not a ZIP archive");
  const uint64_t tail = std::min<uint64_t>(size - start, end_bytes + longest_comment);
  const std::string text = source_.read(size - tail, tail);
  size_t at = text.size() - end_bytes;
  for (;; --at) {
    if (number<u32>(text, at) == end_magic &&
        number<u16>(text, at + 20) == text.size() - at - end_bytes) {
      break;
    }
    if (at == 0) refuse("(directory)", "failed finding central directory");
  }
  end_ = size - tail + at;
  uint64_t count = number<u16>(text, at + 10), stop = end_;
  directory_bytes_ = number<u32>(text, at + 12);
  directory_ = number<u32>(text, at + 16);
  if (end_ >= start + locator_bytes + wide_end_bytes) {
    const std::string wide =
        source_.read(end_ - locator_bytes - wide_end_bytes, locator_bytes + wide_end_bytes);
    if (number<u32>(wide, wide_end_bytes) == locator_magic &&
        number<u32>(wide, 0) == wide_end_magic) {
      count = number<u64>(wide, 32);
      directory_bytes_ = number<u64>(wide, 40);
      directory_ = number<u64>(wide, 48);
      stop = end_ - locator_bytes - wide_end_bytes;
    }
  }
  if (stop < directory_bytes_ || stop - directory_bytes_ < directory_) {
    refuse("(directory)", "its central directory does not lie within the file");
  }
  const uint64_t begins = stop - directory_bytes_ - directory_;
  if (begins != start)
    refuse("(directory)", "another one stands behind the archive that begins here");
  directory_ += start;
  return count;
}

void ArchiveReader::read_directory(uint64_t count) {
  // What it takes is bounded by what the file has.
  const std::string text = source_.read(directory_, directory_bytes_);
  size_t at = 0;
  for (uint64_t k = 0; k < count; ++k) {
    if (text.size() - at < entry_bytes || number<u32>(text, at) != entry_magic) {
      refuse("(directory)", "its central directory is damaged");
    }
    const std::string_view entry = std::string_view(text).substr(at);
    const size_t name = number<u16>(entry, 28), extra = number<u16>(entry, 30);
    const size_t whole = entry_bytes + name + extra + number<u16>(entry, 32);
    if (whole > entry.size()) refuse("(directory)", "its central directory is damaged");
    Record record;
    record.name = entry.substr(entry_bytes, name);
    record.method = number<u16>(entry, 10);
    record.crc = number<u32>(entry, 16);
    record.packed = number<u32>(entry, 20);
    record.bytes = number<u32>(entry, 24);
    record.header = number<u32>(entry, 42);
    if (number<u16>(entry, 8) & 1) refuse(record.name, "the record is compressed or encrypted");
    std::string_view rest = entry.substr(entry_bytes + name, extra);
    while (rest.size() >= 4) {
      const size_t length = number<u16>(rest, 2);
      if (length > rest.size() - 4) refuse(record.name, "the record has a damaged header");
      std::string_view field = rest.substr(4, length);
      if (number<u16>(rest, 0) == 1) {
        for (uint64_t* value : {&record.bytes, &record.packed, &record.header}) {
          if (*value != large) continue;
          if (field.size() < 8) refuse(record.name, "the record has a damaged header");
          *value = number<u64>(field, 0);
          field.remove_prefix(8);
        }
      }
      rest.remove_prefix(4 + length);
    }
    records_.push_back(std::move(record));
    at += whole;
  }
  if (at != text.size()) refuse("(directory)", "its central directory is damaged");
}

void ArchiveReader::check_places() {
  const size_t slash = records_.front().name.find('/');
  root_ = records_.front().name.substr(0, slash);
  uint64_t first = directory_;
  for (Record& record : records_) {
    const std::string full = record.name;
    if (full.starts_with(root_ + "/")) record.name = full.substr(root_.size() + 1);
    if (record.header > directory_ - start_)
      refuse(full, "the record does not lie within the file");
    record.header += start_;
    first = std::min(first, record.header);
    if (directory_ - record.header < local_bytes) refuse(full, "the record has no header");
    const std::string header = source_.read(record.header, local_bytes);
    if (number<u32>(header, 0) != local_magic) refuse(full, "the record has no header");
    record.begin = record.header + local_bytes + number<u16>(header, 26) + number<u16>(header, 28);
    if (record.method != 0 && !is_program(record)) {
      refuse(full, "the record is compressed or encrypted");
    }
    if ((record.method == 0 && record.bytes != record.packed) || record.begin > directory_ ||
        record.packed > directory_ - record.begin) {
      refuse(full, "the record does not lie within the file");
    }
    if (!names_.emplace(record.name, static_cast<size_t>(&record - records_.data())).second) {
      refuse(full, "two records have one name");
    }
  }
  if (first != start_) {
    refuse(records_.front().name, "another one stands behind the archive that begins here");
  }
}

void ArchiveReader::check_frame(std::string_view comment) const {
  char wanted[32];
  std::vector<const Record*> order;
  for (const Record& record : records_) order.push_back(&record);
  std::sort(order.begin(), order.end(),
            [](const Record* a, const Record* b) { return a->begin < b->begin; });
  uint32_t crc = 0;
  uint64_t place = start_;
  const auto take = [&](uint64_t stop, std::string_view record) {
    if (stop < place) refuse(record, "records overlap");
    constexpr uint64_t chunk = uint64_t{1} << 20;
    for (; place < stop; place += std::min(chunk, stop - place)) {
      const std::string text = source_.read(place, std::min(chunk, stop - place));
      crc = crc32(text.data(), text.size(), crc);
    }
  };
  for (const Record* record : order) {
    take(record->begin, record->name);
    place = record->begin + record->packed;
  }
  take(end_ + end_bytes, "(directory)");
  std::snprintf(wanted, sizeof(wanted), "%s%08x", comment_words.data(), crc);
  if (comment != wanted) {
    refuse("(headers)", "its headers do not have the checksum they were written with");
  }
}

const Record& ArchiveReader::record(std::string_view name) const {
  const auto found = names_.find(name);
  CHECK(found != names_.end(), RuntimeError,
        "PytorchStreamReader failed locating file {}: file not found. File {}, record {}",
        printable(name), source_.name(), printable(name));
  return records_[found->second];
}

std::string ArchiveReader::read(std::string_view name) const {
  const Record& found = record(name);
  if (found.method != 0) refuse(found.name, "the record is compressed or encrypted");
  std::string text(found.bytes, '\0');
  read(found, text.data());
  return text;
}

void ArchiveReader::read(const Record& record, void* to) const {
  source_.read(record.begin, to, record.bytes);
  if (crc32(to, record.bytes) != record.crc) {
    refuse(record.name, "Bad CRC-32 for file '" + root_ + "/" + record.name + "'");
  }
}

std::string ArchiveReader::packed(const Record& record) const {
  return source_.read(record.begin, record.packed);
}

}  // namespace flambeau::io
