// What changes the meaning of ops: modes of gradients, pending conjugation and negation,
// autocast, vmap, random generators, threads.
#include <atomic>
#include <thread>

#include "flambeau/ops/layers/autocast.h"
#include "flambeau/ops/layers/vmap.h"
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;

TEST(Modes, NoGradRecordsNothing) {
  const Tensor x = wanted({2});
  {
    const torch::NoGradGuard off;
    EXPECT_FALSE((x * 2).requires_grad());
    {
      const torch::AutoGradMode on(true);
      EXPECT_TRUE((x * 2).requires_grad());
    }
    x.add_(1);  // leaves may be written to
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_TRUE(holds(x, {1, 2}));
}

TEST(Modes, NoGradIsOfItsThread) {
  const torch::NoGradGuard off;
  bool recorded = false;
  std::thread([&] { recorded = (wanted({2}) * 2).requires_grad(); }).join();
  EXPECT_TRUE(recorded);
}

TEST(Modes, ViewsMadeWithoutGradAreNotWrittenWithIt) {
  const Tensor base = wanted({2}) * 1;
  Tensor view;
  {
    const torch::NoGradGuard off;
    view = base.slice(0, 0, 1);
  }
  EXPECT_ERROR(view.mul_(wanted({1})), RuntimeError, "no_grad");
}

TEST(Modes, InferenceTensorsAreMarked) {
  Tensor x;
  {
    const torch::InferenceMode mode;
    x = torch::ones({2});
    x.add_(1);
    EXPECT_FALSE((wanted({2}) * 2).requires_grad());
  }
  EXPECT_TRUE(x->inference);
  EXPECT_FALSE(torch::ones({2})->inference);
}

TEST(Modes, InferenceTensorsAreNotWrittenOutside) {
  Tensor x;
  {
    const torch::InferenceMode mode;
    x = torch::ones({2});
  }
  const char* words = "Inplace update to inference tensor outside InferenceMode is not allowed";
  EXPECT_ERROR(x.add_(1), RuntimeError, words);
  EXPECT_ERROR(torch::add_out(x, torch::ones({2}), 1), RuntimeError, words);
  x.clone().add_(1);
}

TEST(Modes, InferenceTensorsAreNotSaved) {
  Tensor x;
  {
    const torch::InferenceMode mode;
    x = torch::ones({2});
  }
  EXPECT_ERROR(wanted({2}) * x, RuntimeError, "Inference tensors cannot be saved for backward");
  EXPECT_TRUE((wanted({2}) + x).requires_grad());
}

Tensor waves() { return torch::complex(count({3}), count({3}) + 1); }

TEST(Pending, ConjugationIsAView) {
  const Tensor x = waves(), conjugated = x.conj();
  EXPECT_TRUE(conjugated.is_conj());
  EXPECT_EQ(conjugated.storage(), x.storage());
  EXPECT_FALSE(conjugated.conj().is_conj());
  EXPECT_FALSE(conjugated.resolve_conj().is_conj());
}

TEST(Pending, ConjugationIsSeenByEveryOp) {
  const Tensor x = waves(), plain = x.conj_physical();
  EXPECT_TRUE((x.conj() * 2).equal(plain * 2));
  EXPECT_TRUE(x.conj().exp().equal(plain.exp()));
  EXPECT_TRUE(torch::cat({x.conj(), x}).equal(torch::cat({plain, x})));
  EXPECT_TRUE(x.conj().sum().equal(plain.sum()));
}

TEST(Pending, NegationOfImaginaryPartsIsAView) {
  const Tensor part = waves().conj().imag();
  EXPECT_TRUE(part.is_neg());
  EXPECT_TRUE(holds(part, {-1, -2, -3}));
  EXPECT_TRUE(holds(part + 1, {0, -1, -2}));
  EXPECT_FALSE(part.resolve_neg().is_neg());
}

TEST(Pending, WritesReachWhatLiesBehind) {
  const Tensor x = waves();
  x.conj().mul_(2);
  EXPECT_TRUE(torch::imag(x).equal((count({3}) + 1) * 2));
  x.conj().imag().fill_(7);
  EXPECT_TRUE(holds(x.imag(), {-7, -7, -7}));
}

TEST(Pending, OutMayBeConjugated) {
  const Tensor x = waves(), out = torch::zeros({3}, DType::complex64);
  torch::add_out(out.conj(), x, 0);
  EXPECT_TRUE(out.equal(x.conj_physical()));
}

TEST(Modes, AutocastComputesProductsInHalfPrecision) {
  const Tensor x = count({2, 2});
  {
    const AutocastGuard region(DeviceType::cpu, DType::bfloat16);
    EXPECT_EQ(torch::mm(x, x).dtype(), DType::bfloat16);
    EXPECT_EQ(torch::linear(x, x).dtype(), DType::bfloat16);
  }
  EXPECT_EQ(torch::mm(x, x).dtype(), DType::float32);
}

TEST(Modes, AutocastLeavesInPlaceAndOutForms) {
  const AutocastGuard region(DeviceType::cpu, DType::bfloat16);
  const Tensor x = count({2, 2}), out = torch::empty({2, 2});
  EXPECT_EQ(x.add_(1).dtype(), DType::float32);
  torch::mm_out(out, x, x);
  EXPECT_EQ(out.dtype(), DType::float32);
}

TEST(Modes, AutocastGivesGradientsOfTheLeafsDtype) {
  const Tensor weight = wanted({2, 2});
  {
    const AutocastGuard region(DeviceType::cpu, DType::bfloat16);
    torch::mm(weight, weight).sum().backward();
  }
  EXPECT_EQ(weight.grad().dtype(), DType::float32);
}

TEST(Vmap, ComputesSamplesAtOnce) {
  const Tensor x = count({4, 3});
  int calls = 0;
  const Tensor y = vmap(
      [&](const Tensor& sample) {
        ++calls;
        EXPECT_EQ(sample.dim(), 1);
        return sample.softmax(0) * 2;
      },
      Randomness::error, x);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(y.allclose(x.softmax(1) * 2));
}

TEST(Vmap, TakesSeveralTensorsAndCaptures) {
  const Tensor a = count({4, 2, 3}), b = count({4, 3}), shared = torch::ones({2});
  const Tensor y = vmap([&](const Tensor& m, const Tensor& v) { return torch::mv(m, v) + shared; },
                        Randomness::error, a, b);
  EXPECT_TRUE(y.allclose(torch::bmm(a, b.unsqueeze(2)).squeeze(2) + 1));
}

TEST(Vmap, Nests) {
  const Tensor x = count({2, 3});
  const Tensor table = vmap(
      [&](const Tensor& row) {
        return vmap([&](const Tensor& other) { return (row * other).sum(); }, Randomness::error, x);
      },
      Randomness::error, x);
  EXPECT_TRUE(table.allclose(torch::mm(x, x.t())));
}

TEST(Vmap, WritesInPlaceToSamples) {
  const Tensor x = count({2, 3});
  const Tensor y =
      vmap([](const Tensor& s) { return s.clone().add_(s).relu_(); }, Randomness::error, x);
  EXPECT_TRUE(y.allclose(x * 2));
}

TEST(Vmap, RejectsWritesOfSamplesToCapturedTensors) {
  const Tensor x = count({2, 3}), captured = torch::zeros({3});
  EXPECT_THROW(static_cast<void>(
                   vmap([&](const Tensor& s) { return captured.add_(s); }, Randomness::error, x)),
               Error);
}

TEST(Vmap, RejectsNumbersOfSamples) {
  const Tensor x = count({2});
  EXPECT_THROW(static_cast<void>(vmap([](const Tensor& s) { return s * s.item().to_double(); },
                                      Randomness::error, x)),
               Error);
}

TEST(Vmap, DrawsAsItIsTold) {
  const Tensor x = count({64});
  const auto draw = [](const Tensor& s) { return s * 0 + torch::rand_like(s); };
  EXPECT_THROW(static_cast<void>(vmap(draw, Randomness::error, x)), Error);
  const Tensor different = vmap(draw, Randomness::different, x);
  EXPECT_GT(different.std(false).item<double>(), 0.0);
}

TEST(Vmap, IsDifferentiated) {
  const Tensor x = wanted({3});
  Tensor(vmap([](const Tensor& s) { return s * s; }, Randomness::error, x)).sum().backward();
  EXPECT_TRUE(holds(x.grad(), {0, 2, 4}));
}

TEST(Random, RepeatsWhatASeedGives) {
  torch::manual_seed(3);
  const Tensor first = torch::randn({5});
  const Tensor second = torch::randn({5});
  torch::manual_seed(3);
  EXPECT_TRUE(torch::randn({5}).equal(first));
  EXPECT_FALSE(first.equal(second));
}

TEST(Random, DrawsThePublishedUniformNumbers) {
  torch::manual_seed(0);
  EXPECT_TRUE(holds(torch::rand({3}), {0.4962566, 0.7682218, 0.0884774}));
}

TEST(Random, GivesEachGeneratorAStreamOfItsOwn) {
  const torch::Generator a = torch::make_generator<torch::CPUGeneratorImpl>(1), b = a.clone();
  const Tensor first = torch::rand({4}, a);
  torch::manual_seed(5);
  EXPECT_TRUE(torch::rand({4}, b).equal(first));
  EXPECT_FALSE(torch::rand({4}, b).equal(first));
}

TEST(Random, DrawsInPlaceAndIntoOut) {
  const torch::Generator a = torch::make_generator<torch::CPUGeneratorImpl>(1), b = a.clone();
  const Tensor x = torch::empty({4}).uniform_(0, 1, a), out = torch::empty({0});
  torch::rand_out(out, {4}, b);
  EXPECT_TRUE(out.equal(x));
}

TEST(Random, PermutesAndChooses) {
  EXPECT_TRUE(std::get<0>(torch::randperm(9).sort()).equal(torch::arange(9)));
  const Tensor chosen = torch::multinomial(torch::ones({5}), 5);
  EXPECT_EQ(chosen.sum().item<int>(), 10);
  EXPECT_ERROR(torch::multinomial(torch::ones({5}), 6), RuntimeError,
               "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
}

TEST(Random, RejectsWhatNoDistributionHas) {
  EXPECT_ERROR(torch::randint(3, 3, {2}), RuntimeError, "expects 'from' to be less than 'to'");
  EXPECT_ERROR(torch::normal(0.0, -1.0, {2}), RuntimeError, "normal expects std >= 0.0");
  EXPECT_ERROR(torch::empty({2}).uniform_(1, 0), RuntimeError,
               "uniform_ expects to return a [from, to) range");
  EXPECT_THROW(torch::bernoulli(torch::ones({2}) * 2), Error);
}

void in_threads(int count, void (*body)(int)) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, CallOpsTheFirstTimeTogether) {
  in_threads(8, [](int i) {
    const Tensor x = count({100}) + i;
    EXPECT_EQ(torch::cumsum(x, 0)[99].item<int>(), 4950 + 100 * i);
    EXPECT_EQ(torch::logcumsumexp(x * 0, 0).numel(), 100);
  });
}

TEST(Threads, DifferentiateGraphsOfTheirOwn) {
  in_threads(8, [](int i) {
    const Tensor x = wanted({10});
    for (int k = 0; k < 50; ++k) (x * (i + 1)).sum().backward();
    EXPECT_EQ(x.grad()[0].item<int>(), 50 * (i + 1));
  });
}

TEST(Threads, AddToTheGradientOfOneLeaf) {
  static const Tensor x = wanted({10});
  in_threads(8, [](int) {
    for (int k = 0; k < 50; ++k) (x * 2).sum().backward();
  });
  EXPECT_TRUE(holds(x.grad().sum(), {10 * 8 * 50 * 2}));
}

TEST(Threads, DrawFromOneGenerator) {
  torch::manual_seed(1);
  static std::atomic<int> drawn{0};
  in_threads(8, [](int) {
    for (int k = 0; k < 50; ++k) drawn += static_cast<int>(torch::rand({16}).numel());
  });
  EXPECT_EQ(drawn, 8 * 50 * 16);
  const Tensor after = torch::rand({4});
  torch::manual_seed(1);
  for (int k = 0; k < 8 * 50; ++k) torch::rand({16});
  EXPECT_TRUE(torch::rand({4}).equal(after));
}

TEST(Threads, KeepTheirErrors) {
  in_threads(8, [](int) {
    for (int k = 0; k < 50; ++k) EXPECT_THROW(torch::mm(count({2, 3}), count({2, 3})), Error);
  });
}

TEST(Threads, HaveVmapLevelsOfTheirOwn) {
  in_threads(4, [](int i) {
    const Tensor x = count({8, 3}) + i;
    for (int k = 0; k < 20; ++k) {
      const Tensor y = vmap([](const Tensor& s) { return s.sum(); }, Randomness::error, x);
      EXPECT_TRUE(y.equal(x.sum(1)));
    }
  });
}

TEST(Autocast, HoldsForPrintedFunctionsAndMethods) {
  const torch::Tensor x = torch::eye(4);
  const torch::AutocastGuard region(DeviceType::cpu);
  EXPECT_EQ(torch::mm(x, x).dtype(), DType::bfloat16);
  EXPECT_EQ(x.matmul(x).dtype(), DType::bfloat16);
  EXPECT_EQ((x + x).dtype(), DType::float32);
  torch::Tensor out = torch::empty({4, 4});
  torch::mm_out(out, x, x);
  EXPECT_EQ(out.dtype(), DType::float32);
}

}  // namespace
}  // namespace flambeau
