#include "flambeau/data/mnist.h"

#include <fstream>

namespace flambeau::torch::data::datasets {
namespace {

constexpr int64_t train_size = 60000, test_size = 10000, side = 28;
constexpr uint32_t images_magic = 2051, targets_magic = 2049;

uint32_t read_number(std::istream& file, const std::string& path) {
  unsigned char bytes[4];
  CHECK(file.read(reinterpret_cast<char*>(bytes), 4), RuntimeError, "{} ends too early", path);
  return static_cast<uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}
void expect_number(std::istream& file, const std::string& path, uint32_t expected) {
  const uint32_t number = read_number(file, path);
  CHECK(number == expected, RuntimeError, "Expected to read number {} but found {} instead in {}",
        expected, number, path);
}

Tensor read(const std::string& root, bool train, const char* kind, uint32_t magic, IntSpan sizes) {
  const std::string path =
      root + (root.ends_with('/') ? "" : "/") + (train ? "train-" : "t10k-") + kind;
  std::ifstream file(path, std::ios::binary);
  CHECK(file, RuntimeError, "Error opening {} file at {}",
        magic == images_magic ? "images" : "targets", path);
  expect_number(file, path, magic);
  for (const int64_t size : sizes)
    if (size != 1) expect_number(file, path, static_cast<uint32_t>(size));
  Tensor bytes = torch::empty(sizes, DType::uint8);
  CHECK(file.read(static_cast<char*>(bytes.raw()), bytes.numel()), RuntimeError,
        "{} ends too early", path);
  return bytes;
}

}  // namespace

MNIST::MNIST(const std::string& root, Mode mode) {
  const bool train = mode == Mode::kTrain;
  const int64_t count = train ? train_size : test_size;
  images_ = read(root, train, "images-idx3-ubyte", images_magic, {count, 1, side, side})
                .to(DType::float32)
                .div_(255);
  targets_ = read(root, train, "labels-idx1-ubyte", targets_magic, {count}).to(DType::int64);
}

Example<> MNIST::get(size_t index) {
  return {images_[static_cast<int64_t>(index)], targets_[static_cast<int64_t>(index)]};
}
std::optional<size_t> MNIST::size() const { return static_cast<size_t>(images_.size(0)); }
bool MNIST::is_train() const noexcept { return images_.size(0) == train_size; }

}  // namespace flambeau::torch::data::datasets
