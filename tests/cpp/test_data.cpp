// Datasets, samplers, transforms and loaders.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace {

namespace data = torch::data;

// Twenty examples: their number, and its square.
struct Squares : data::Dataset<Squares> {
  data::Example<> get(size_t index) override {
    const auto number = static_cast<double>(index);
    return {torch::full({1}, number), torch::full({}, number * number)};
  }
  [[nodiscard]] std::optional<size_t> size() const override { return 20; }
};

std::vector<double> numbers_of(const torch::Tensor& tensor) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    numbers.push_back(tensor.flatten()[i].item<double>());
  return numbers;
}

TEST(Data, GoesOverADatasetInOrder) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      Squares().map(data::transforms::Stack<>()), data::DataLoaderOptions(8));
  std::vector<int64_t> sizes;
  std::vector<double> seen;
  for (auto& batch : *loader) {
    sizes.push_back(batch.data.size(0));
    for (const double number : numbers_of(batch.target)) seen.push_back(number);
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{8, 8, 4}));
  ASSERT_EQ(seen.size(), 20U);
  EXPECT_EQ(seen[19], 361);
}

TEST(Data, WorkersKeepTheOrder) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      Squares().map(data::transforms::Stack<>()),
      data::DataLoaderOptions().batch_size(3).workers(4).drop_last(true));
  for (int epoch = 0; epoch < 3; ++epoch) {
    double expected = 0;
    for (auto& batch : *loader)
      for (const double number : numbers_of(batch.data)) EXPECT_EQ(number, expected++);
    EXPECT_EQ(expected, 18);
  }
}

TEST(Data, ABatchSizeIsANumberOfAnyType) {
  constexpr int64_t size = 5;
  auto loader = data::make_data_loader(Squares(), size);
  EXPECT_EQ(loader->begin()->size(), 5U);
}

TEST(Data, RandomSamplersSeeEachExampleOnce) {
  auto loader = data::make_data_loader(Squares(), data::DataLoaderOptions(6).workers(2));
  std::set<double> seen;
  for (auto& batch : *loader)
    for (const auto& each : batch) seen.insert(each.data.item<double>());
  EXPECT_EQ(seen.size(), 20U);
}

TEST(Data, NormalizeAndLambdaChangeTheData) {
  auto dataset = Squares()
                     .map(data::transforms::Lambda<data::Example<>>([](data::Example<> each) {
                       return data::Example<>(each.data.view({1, 1, 1}) + 1, each.target);
                     }))
                     .map(data::transforms::Normalize<>(0.5, 2.0))
                     .map(data::transforms::Stack<>());
  const std::vector<size_t> indices{3};
  EXPECT_EQ(dataset.get_batch(indices).data.item<double>(), 1.75);
}

struct Failing : data::Dataset<Failing> {
  data::Example<> get(size_t index) override {
    if (index == 5) throw std::invalid_argument("number five");
    return {torch::zeros({1}), torch::zeros({1})};
  }
  [[nodiscard]] std::optional<size_t> size() const override { return 10; }
};

TEST(Data, AnErrorOfAWorkerReachesTheCaller) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      Failing(), data::DataLoaderOptions(1).workers(2));
  int seen = 0;
  try {
    for ([[maybe_unused]] auto& batch : *loader) ++seen;
    FAIL();
  } catch (const data::WorkerException& error) {
    EXPECT_EQ(seen, 5);
    EXPECT_NE(std::string(error.what()).find("number five"), std::string::npos);
    EXPECT_THROW(std::rethrow_exception(error.original_exception), std::invalid_argument);
  }
}

struct Slow : data::Dataset<Slow> {
  data::Example<> get(size_t) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return {torch::zeros({1}), torch::zeros({1})};
  }
  [[nodiscard]] std::optional<size_t> size() const override { return 1; }
};

TEST(Data, ATimeoutRaises) {
  auto loader = data::make_data_loader(
      Slow(), data::DataLoaderOptions(1).workers(1).timeout(std::chrono::milliseconds(10)));
  EXPECT_THROW(loader->begin(), c10::Error);
}

struct Countdown : data::datasets::StatefulDataset<Countdown, int> {
  std::atomic<int> left{0};
  Countdown() = default;
  Countdown(const Countdown& other) : StatefulDataset(other), left(other.left.load()) {}
  std::optional<int> get_batch(size_t) override {
    const int now = left--;
    return now > 0 ? std::optional(now) : std::nullopt;
  }
  [[nodiscard]] std::optional<size_t> size() const override { return {}; }
  void reset() override { left = 4; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

TEST(Data, StatefulDatasetsSayWhenTheyEnd) {
  for (const size_t workers : {0, 2}) {
    auto loader = data::make_data_loader(Countdown(), data::DataLoaderOptions(1).workers(workers));
    std::set<int> seen;
    for (const int number : *loader) seen.insert(number);
    EXPECT_EQ(seen, (std::set<int>{1, 2, 3, 4})) << workers;
  }
}

TEST(Data, DistributedSamplersShareTheExamples) {
  std::multiset<size_t> seen;
  for (const size_t rank : {0, 1, 2}) {
    data::samplers::DistributedRandomSampler sampler(20, 3, rank, false);
    sampler.set_epoch(1);
    sampler.reset();
    while (auto batch = sampler.next(4)) seen.insert(batch->begin(), batch->end());
  }
  EXPECT_EQ(seen.size(), 18U);
  EXPECT_EQ(std::set<size_t>(seen.begin(), seen.end()).size(), 18U);
}

TEST(Data, ReadsMNISTFiles) {
  const auto root =
      std::filesystem::temp_directory_path() / ("flambeau_mnist_" + std::to_string(getpid()));
  std::filesystem::create_directories(root);
  const auto write = [&](const char* name, const std::vector<unsigned>& header, size_t bytes) {
    std::ofstream file(root / name, std::ios::binary);
    for (const unsigned number : header)
      for (const int shift : {24, 16, 8, 0}) file.put(static_cast<char>(number >> shift));
    for (size_t i = 0; i < bytes; ++i) file.put(static_cast<char>(i % 251));
  };
  write("t10k-images-idx3-ubyte", {2051, 10000, 28, 28}, size_t{10000} * 28 * 28);
  write("t10k-labels-idx1-ubyte", {2049, 10000}, 10000);
  data::datasets::MNIST dataset(root, data::datasets::MNIST::Mode::kTest);
  EXPECT_EQ(dataset.size().value(), 10000U);
  EXPECT_FALSE(dataset.is_train());
  EXPECT_FLOAT_EQ(dataset.get(0).data[0][0][5].item<float>(), 5.F / 255);
  EXPECT_EQ(dataset.targets()[7].item<int64_t>(), 7);
  write("t10k-labels-idx1-ubyte", {2049, 10000}, 10);
  EXPECT_THROW(data::datasets::MNIST(root, data::datasets::MNIST::Mode::kTest), c10::Error);
  EXPECT_THROW(data::datasets::MNIST{"/nowhere"}, c10::Error);
  std::filesystem::remove_all(root);
}

}  // namespace
