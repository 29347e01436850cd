#include "flambeau/io/stream.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "flambeau/tensor/tensor.h"

namespace flambeau::io {

std::string printable(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    const auto byte = static_cast<uint8_t>(letter);
    constexpr std::string_view digits = "0123456789abcdef";
    if (byte < 0x20 || byte > 0x7E) {
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      text += letter;
    }
  }
  return text;
}

std::string Source::read(uint64_t place, size_t bytes) {
  CHECK(place <= size() && bytes <= size() - place, RuntimeError, "{}: the file ends early",
        name());
  std::string text(bytes, '\0');
  read(place, text.data(), bytes);
  return text;
}

namespace {

constexpr size_t largest_call = size_t{1} << 30;  // what the system moves in one call

class File : public Source {
 public:
  explicit File(const std::string& path)
      : Source(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    const int error = errno;
    CHECK(file_ >= 0, RuntimeError,
          "open file failed because of errno {} on fopen: {}, file path: {}", error,
          std::strerror(error), path);
    struct stat status {};
    const bool plain = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
    if (!plain) ::close(file_);
    CHECK(plain, RuntimeError, "open file failed: it is no regular file, file path: {}", path);
    size_ = static_cast<uint64_t>(status.st_size);
  }
  ~File() override { ::close(file_); }
  [[nodiscard]] uint64_t size() const override { return size_; }
  using Source::read;
  void read(uint64_t place, void* to, size_t bytes) override {
    char* target = static_cast<char*>(to);
    while (bytes) {
      const ssize_t count =
          ::pread(file_, target, std::min(bytes, largest_call), static_cast<off_t>(place));
      if (count < 0 && errno == EINTR) continue;
      CHECK(count >= 0, RuntimeError, "{}: cannot be read: {}", name(), std::strerror(errno));
      CHECK(count > 0, RuntimeError, "{}: the file ends early", name());
      target += count;
      place += static_cast<uint64_t>(count);
      bytes -= static_cast<size_t>(count);
    }
  }

 private:
  int file_;
  uint64_t size_ = 0;
};

class Memory : public Source {
 public:
  Memory(std::string_view bytes, std::string name) : Source(std::move(name)), bytes_(bytes) {}
  [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
  using Source::read;
  void read(uint64_t place, void* to, size_t bytes) override {
    CHECK(place <= bytes_.size() && bytes <= bytes_.size() - place, RuntimeError,
          "{}: the file ends early", name());
    if (bytes) std::memcpy(to, bytes_.data() + place, bytes);
  }

 private:
  std::string_view bytes_;
};

}  // namespace

std::unique_ptr<Source> open_file(const std::string& path) { return std::make_unique<File>(path); }
std::unique_ptr<Source> open_memory(std::string_view bytes, std::string name) {
  return std::make_unique<Memory>(bytes, std::move(name));
}

Mapping::Mapping(const std::string& path, bool shared) {
  const int file = ::open(path.c_str(), (shared ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  CHECK(file >= 0, RuntimeError, "open file failed because of errno {} on fopen: {}, file path: {}",
        errno, std::strerror(errno), path);
  struct stat status {};
  void* memory = MAP_FAILED;
  if (::fstat(file, &status) == 0 && status.st_size > 0) {
    // Private pages, unless asked otherwise: tensors may be written into, the file stays.
    memory = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                    shared ? MAP_SHARED : MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  ::close(file);
  CHECK(memory != MAP_FAILED, RuntimeError, "{}: cannot be mapped: {}", path, std::strerror(error));
  bytes_ = static_cast<uint64_t>(status.st_size);
  memory_ = {static_cast<char*>(memory), [bytes = bytes_](char* data) { ::munmap(data, bytes); }};
}

StoragePtr Mapping::part(uint64_t place, size_t bytes) const {
  CHECK(place <= bytes_ && bytes <= bytes_ - place, RuntimeError, "the mapped file ends early");
  return make_intrusive<Storage>(memory_.get() + place, bytes, Device(),
                                 [keep = memory_]() mutable { keep.reset(); });
}

// --- Writing -------------------------------------------------------------------------------------

void FunctionSink::write(const void* data, size_t bytes) {
  CHECK(function_(data, bytes) == bytes, RuntimeError, "the writer did not take all bytes");
}

ReplacedFile::ReplacedFile(const std::string& path) : path_(path), target_(path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  struct stat status {};
  CHECK(folder.empty() || (::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)),
        RuntimeError, "Parent directory {} does not exist.",
        folder.size() > 1 ? folder.substr(0, folder.size() - 1) : folder);
  // A link stays, and what it points to is replaced.
  if (char* real = ::realpath(path.c_str(), nullptr)) {
    target_ = real;
    std::free(real);
  }
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  if (exists && !S_ISREG(status.st_mode)) {  // a pipe, a device: written as it is
    file_ = ::open(target_.c_str(), flags & ~O_CREAT);
  } else {
    static std::atomic<int> count = 0;  // threads may write files of one name
    temporary_ = format("{}.{}.{}.tmp", target_, ::getpid(), ++count);
    file_ = ::open(temporary_.c_str(), flags, 0666);
  }
  if (file_ < 0) fail_to("opened");
  if (exists && !temporary_.empty()) (void)!::fchmod(file_, status.st_mode & 07777);
}

ReplacedFile::~ReplacedFile() {
  if (file_ < 0) return;
  ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void ReplacedFile::fail_to(const char* what) const {
  fail<RuntimeError>("{}: the file cannot be {}: {}", path_, what, std::strerror(errno));
}

void ReplacedFile::write(const void* data, size_t bytes) {
  constexpr size_t together = size_t{1} << 16;
  if (pending_.size() + bytes >= together) {
    put(pending_.data(), pending_.size());
    pending_.clear();
  }
  if (bytes >= together) return put(static_cast<const char*>(data), bytes);
  pending_.append(static_cast<const char*>(data), bytes);
}

void ReplacedFile::put(const char* data, size_t bytes) {
  while (bytes) {
    const ssize_t count = ::write(file_, data, std::min(bytes, largest_call));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("written");
    data += count;
    bytes -= static_cast<size_t>(count);
  }
}

void ReplacedFile::commit() {
  put(pending_.data(), pending_.size());
  pending_.clear();
  if (!temporary_.empty() && ::fsync(file_) != 0) fail_to("written");
  const int closed = ::close(std::exchange(file_, -1));
  if (temporary_.empty()) {
    if (closed != 0) fail_to("written");
    return;
  }
  if (closed != 0 || std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail_to("written");
  }
  const size_t slash = target_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
  const int directory = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory < 0) return;  // a folder that may not be read: the file is there all the same
  ::fsync(directory);
  ::close(directory);
}

HostBytes::HostBytes(const Storage& storage)
    : data_(static_cast<const char*>(storage.data())), size_(storage.bytes()) {
  if (storage.device().is_cpu() || !size_) return;
  copy_ = make_storage(size_, Device());
  copy_bytes(copy_->data(), Device(), storage.data(), storage.device(), size_);
  data_ = static_cast<const char*>(copy_->data());
}

}  // namespace flambeau::io
