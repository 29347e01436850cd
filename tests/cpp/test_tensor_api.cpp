// Tensors as programs written for libtorch use them: options, data, indexing, factories, printing,
// errors. Expected texts and numbers are PyTorch's.
#include <torch/csrc/autograd/profiler.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using namespace torch::indexing;
using torch::Tensor;

std::string shown(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(TensorOptions, SayWhatWasGiven) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
  EXPECT_TRUE(options.has_dtype() && !options.has_device() && options.requires_grad());
  EXPECT_EQ(options.dtype(), torch::kDouble);
  EXPECT_EQ(shown(torch::dtype(torch::kInt).device(torch::kCUDA, 1)),
            "TensorOptions(dtype=int, device=cuda:1, layout=Strided (default), "
            "requires_grad=false (default), pinned_memory=false (default), "
            "memory_format=(nullopt))");
  EXPECT_EQ(torch::zeros({2}, options).dtype(), torch::kDouble);
  EXPECT_EQ(torch::zeros({2}, torch::zeros({1}, torch::kLong).options()).dtype(), torch::kLong);
  EXPECT_TRUE(torch::ones({2}, torch::requires_grad()).requires_grad());
}

TEST(Types, PrintAsInPyTorch) {
  const Tensor x = torch::zeros({2, 3});
  EXPECT_EQ(shown(x.dtype()), "float");
  EXPECT_EQ(shown(torch::zeros({1}, torch::kLong).dtype()), "long int");
  EXPECT_EQ(shown(x.scalar_type()), "Float");
  EXPECT_EQ(shown(x.sizes()), "[2, 3]");
  EXPECT_EQ(shown(x.device()), "cpu");
  EXPECT_EQ(shown(torch::Device("cuda:1")), "cuda:1");
  EXPECT_EQ(shown(torch::kStrided) + shown(torch::MemoryFormat::ChannelsLast),
            "StridedChannelsLast");
  EXPECT_EQ(x.toString(), "CPUFloatType");
  EXPECT_EQ(shown(torch::Scalar(2.5)), "2.5");
  EXPECT_EQ(shown(Slice(1, None, 2)), "1:4611686018427387903:2");
}

TEST(Devices, AreComparedAndParsed) {
  EXPECT_EQ(torch::Device(torch::kCPU), torch::Device("cpu"));
  EXPECT_EQ(torch::Device("cuda:1").index(), 1);
  EXPECT_FALSE(torch::Device(torch::kCUDA).has_index());
  EXPECT_EQ(torch::zeros({1}).device().type(), torch::kCPU);
  EXPECT_ERROR(torch::Device("foo"), c10::Error, "device type at start of device string: foo");
  EXPECT_ERROR(torch::zeros({1}, torch::kMPS), c10::Error, "mps");
}

TEST(Factories, TakeNestedBraces) {
  const Tensor x = torch::tensor({{1, 2}, {3, 4}});
  EXPECT_EQ(x.dtype(), torch::kLong);
  EXPECT_EQ(x.sizes(), torch::IntArrayRef({2, 2}));
  EXPECT_EQ(torch::tensor({1.5, 2.0}).dtype(), torch::kFloat);
  EXPECT_EQ(torch::tensor({true, false}).dtype(), torch::kBool);
  EXPECT_EQ(torch::tensor(3).dim(), 0);
  EXPECT_EQ(torch::tensor({1, 2}, torch::kInt8).dtype(), torch::kChar);
  EXPECT_EQ(torch::tensor(std::vector<double>{1, 2, 3}).dtype(), torch::kFloat);
  EXPECT_EQ(torch::tensor({}).numel(), 0);
  EXPECT_ERROR(torch::tensor({{1, 2}, {3}}), c10::Error,
               "Expected all sub-lists to have sizes: 2 (e.g. {1, 2}), but got sub-list {3} with "
               "sizes: 1");
}

TEST(Factories, StandOverForeignMemory) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  bool freed = false;
  {
    const Tensor x = torch::from_blob(
        data, {2, 3}, [&](void*) { freed = true; }, torch::kFloat);
    x[0][0] = 7;
    EXPECT_EQ(data[0], 7);
    const Tensor t = torch::from_blob(data, {3, 2}, {1, 3});
    EXPECT_TRUE(t.t().equal(x));
    EXPECT_FALSE(freed);
  }
  EXPECT_TRUE(freed);
}

TEST(Factories, DrawFromAGenerator) {
  torch::Generator one = at::detail::createCPUGenerator(3);
  torch::Generator other = torch::make_generator<at::CPUGeneratorImpl>(3);
  EXPECT_TRUE(torch::rand({4}, one).equal(torch::rand({4}, other, torch::kFloat)));
  const Tensor state = one.get_state();
  const Tensor drawn = torch::randn({3}, one);
  one.set_state(state);
  EXPECT_TRUE(drawn.equal(torch::randn({3}, one)));
  torch::manual_seed(5);
  EXPECT_EQ(torch::randint(10, {2}).dtype(), torch::kLong);
}

TEST(Data, IsReadByItsDtypeOnly) {
  const Tensor x = count({2, 3});
  EXPECT_EQ(x.data_ptr<float>()[4], 4);
  EXPECT_ERROR(x.data_ptr<double>(), c10::Error, "expected scalar type Double but found Float");
  const auto rows = x.accessor<float, 2>();
  EXPECT_EQ(rows[1][2], 5);
  EXPECT_ERROR((x.accessor<float, 1>()), c10::Error,
               "TensorAccessor expected 1 dims but tensor has 2");
  const auto packed = x.t().packed_accessor32<float, 2>();
  EXPECT_EQ(packed[2][1], 5);
}

TEST(Data, IsCheckedWhereItBecomesANumber) {
  EXPECT_EQ(torch::tensor(2.75).item<int>(), 2);
  EXPECT_THROW(static_cast<void>(torch::tensor(300).item<uint8_t>()), std::runtime_error);
  EXPECT_ERROR(count({2}).item(), c10::Error,
               "a Tensor with 2 elements cannot be converted to Scalar");
  EXPECT_EQ(torch::tensor(true).item().toInt(), 1);
}

TEST(Indexing, ReadsWhatPythonReads) {
  const Tensor x = count({2, 3});
  EXPECT_TRUE(x.index({0, Slice(1, None)}).equal(torch::tensor({1., 2.})));
  EXPECT_TRUE(x.index({"...", -1}).equal(torch::tensor({2., 5.})));
  EXPECT_TRUE(
      x.index({Ellipsis, Slice(None, None, 2)}).equal(x.index_select(1, torch::tensor({0, 2}))));
  EXPECT_TRUE(x.index({x > 3}).equal(torch::tensor({4., 5.})));
  EXPECT_TRUE(x.index({torch::tensor({1, 0}), 2}).equal(torch::tensor({5., 2.})));
  EXPECT_EQ(x.index({None, 1}).sizes(), torch::IntArrayRef({1, 3}));
  EXPECT_EQ(x.index({true}).sizes(), torch::IntArrayRef({1, 2, 3}));
  EXPECT_ERROR(x.index({5}), c10::IndexError,
               "index 5 is out of bounds for dimension 0 with size 2");
  EXPECT_ERROR(x.index({0, 0, 0}), c10::IndexError, "too many indices for tensor of dimension 2");
  EXPECT_ERROR(x.index({".."}), c10::ValueError, "to represent an ellipsis index, but got \"..\"");
  EXPECT_ERROR(Slice(0, 2, 0), c10::ValueError, "slice step cannot be zero");
  EXPECT_ERROR(x[torch::tensor(1.5)], c10::IndexError,
               "Can only index tensors with integral scalars");
}

TEST(Indexing, WritesWherePythonWrites) {
  Tensor x = torch::zeros({2, 3});
  x.index_put_({0, Slice(0, 2)}, 7);
  x.index_put_({x > 5}, 0.5);
  x.index_put_({1}, torch::tensor({1., 2., 3.}));
  x[1][0] = 9;
  x[0][2] += 3;
  x.index({Slice(), 1}) = torch::tensor({4., 4.});
  EXPECT_TRUE(holds(x, {0.5, 4, 3, 9, 4, 3}));
  Tensor y = x[0];
  y = torch::ones({1});  // another handle, not another value
  EXPECT_TRUE(holds(x[0], {0.5, 4, 3}));
}

TEST(Operators, TakeNumbersOnBothSides) {
  const Tensor x = count({3});
  EXPECT_TRUE(holds(2 - x * 3 / 2, {2, 0.5, -1}));
  EXPECT_TRUE(holds(1 < x, {0, 0, 1}));
  EXPECT_TRUE(holds((x == 1) | (2 == x), {0, 1, 1}));
  EXPECT_TRUE(holds(-x % 2, {0, 1, 0}));
  EXPECT_TRUE(holds(x == x, {1, 1, 1}));
}

TEST(Gradients, AreWatchedAndReplaced) {
  Tensor w = torch::ones({2}, torch::requires_grad());
  int calls = 0;
  w.register_hook([&](const Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  w.register_hook([&](Tensor) { ++calls; });
  (w * 3).sum().backward();
  EXPECT_TRUE(holds(w.grad(), {6, 6}));
  EXPECT_EQ(calls, 2);
  w.mutable_grad() = Tensor();
  EXPECT_FALSE(w.grad().defined());
  const Tensor y = w * 2;
  y.retain_grad();
  EXPECT_TRUE(!y.is_leaf() && y.retains_grad());
  EXPECT_EQ(y.grad_fn()->name(), "MulBackward1");
  y.sum().backward({}, false, false, std::vector<Tensor>{w});
  EXPECT_TRUE(holds(w.grad(), {4, 4}));
  torch::NoGradGuard off;
  EXPECT_FALSE(torch::GradMode::is_enabled());
  w -= 1;
  EXPECT_FALSE(w.detach().requires_grad());
}

TEST(Undefined, AnswersOrRaises) {
  const Tensor u;
  EXPECT_EQ(shown(u), "[ Tensor (undefined) ]");
  EXPECT_EQ(u.sizes(), torch::IntArrayRef({0}));
  EXPECT_EQ(u.numel() + u.is_cuda() + u.requires_grad(), 0);
  EXPECT_ERROR(u.strides(), c10::Error, "strides() called on an undefined Tensor");
  EXPECT_ERROR(u.device(), c10::Error, "tensor does not have a device");
  EXPECT_ERROR(u.item(), c10::Error, "a Tensor with 0 elements cannot be converted to Scalar");
  EXPECT_ERROR(u.grad(), c10::Error, "cannot call get_autograd_meta() on undefined tensor");
  EXPECT_ERROR(u.backward(), c10::Error, "cannot call get_autograd_meta() on undefined tensor");
  EXPECT_ERROR(u + 1, c10::Error,
               "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument "
               "#0 'self'");
  EXPECT_ERROR(torch::ones({1}) + u, c10::Error, "for argument #1 'other'");
  EXPECT_ERROR(torch::stack({u}), c10::Error, "tensor does not have a device");
  EXPECT_EQ(torch::cat({u, torch::ones({2})}).size(0), 2);  // as programs grow a tensor
  EXPECT_ERROR(u.to(torch::kCPU), c10::Error, "tensor does not have a device");
  EXPECT_ERROR(u.storage(), c10::NotImplementedError,
               "Cannot access storage of UndefinedTensorImpl");
}

TEST(Printing, WritesMatricesAsPyTorchDoes) {
  EXPECT_EQ(shown(torch::tensor({{1., 2.}, {3., 4.}})), " 1  2\n 3  4\n[ CPUFloatType{2,2} ]");
  EXPECT_EQ(shown(torch::tensor({0.5, 1000.25})), "    0.5000\n 1000.2500\n[ CPUFloatType{2} ]");
  EXPECT_EQ(shown(torch::tensor({123456.5})), "100000 *\n 1.2346\n[ CPUFloatType{1} ]");
  EXPECT_EQ(shown(torch::tensor(3)), "3\n[ CPULongType{} ]");
  EXPECT_EQ(shown(torch::zeros({0})), "[ CPUFloatType{0} ]");
  EXPECT_EQ(shown(torch::arange(4).view({2, 1, 2})),
            "(1,.,.) = \n 0  1\n\n(2,.,.) = \n 2  3\n[ CPULongType{2,1,2} ]");
}

TEST(Checks, SayWhatFailed) {
  EXPECT_ERROR([] { TORCH_CHECK(false, "hello ", 3); }(), c10::Error, "hello 3");
  EXPECT_ERROR([] { TORCH_CHECK(1 == 2); }(), c10::Error,
               "Expected 1 == 2 to be true, but got false.");
  EXPECT_THROW([] { TORCH_CHECK_INDEX(false, "a"); }(), c10::IndexError);
  EXPECT_THROW([] { AT_ERROR("a"); }(), c10::Error);
  EXPECT_EQ(torch::str("a", 1, 2.5, torch::zeros({2}).sizes()), "a12.5[2]");
}

TEST(Script, SaysThatThereIsNoInterpreter) {
  EXPECT_ERROR(torch::jit::load("model.pt"), c10::NotImplementedError,
               "torch::jit::load: there is no interpreter of TorchScript here");
  torch::jit::script::Module module;
  const std::vector<torch::jit::IValue> inputs = {torch::ones({1})};
  EXPECT_THROW(module.forward(inputs), c10::NotImplementedError);
}

TEST(Dispatch, ChoosesTheTypeOfTheElements) {
  const auto size = [](const Tensor& x) {
    return AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "size",
                                               [&] { return sizeof(scalar_t); });
  };
  EXPECT_EQ(size(torch::zeros({1}, torch::kHalf)), 2u);
  EXPECT_EQ(size(torch::zeros({1}, torch::kDouble)), 8u);
  EXPECT_ERROR(size(torch::zeros({1}, torch::kInt)), c10::NotImplementedError,
               "\"size\" not implemented for 'Int'");
}

TEST(Context, TellsWhatThereIs) {
  EXPECT_FALSE(torch::mps::is_available());
  EXPECT_EQ(torch::cuda::is_available(), torch::cuda::device_count() > 0);
  at::globalContext().setDeterministicCuDNN(false);
  int64_t sum = 0;
  for (const auto i : c10::irange(4)) sum += i;
  EXPECT_EQ(sum, 6);
}

TEST(OlderNames, ComputeWhatTheirSuccessorsDo) {
  const Tensor x = torch::tensor({3, 1, 2}), rows = count({2, 3});
  EXPECT_TRUE(std::get<0>(torch::sort(x, true, 0, true)).equal(torch::tensor({3, 2, 1})));
  EXPECT_TRUE(rows.numpy_T().equal(rows.t()));
  EXPECT_TRUE(x.__and__(1).equal(torch::tensor({1, 1, 0})));
  EXPECT_TRUE(x.toBackend(c10::Backend::CPU).equal(x));
  EXPECT_TRUE(torch::special::expit(rows).equal(torch::sigmoid(rows)));
  EXPECT_TRUE(torch::special::erf(rows).equal(torch::erf(rows)));
  EXPECT_TRUE(x.index({std::optional<Tensor>(torch::tensor({0}))}).equal(torch::tensor({3})));
  EXPECT_EQ(torch::ones({1}, dtype(torch::kDouble)).scalar_type(), torch::kDouble);
  EXPECT_TRUE(x.storage().data_ptr() == x.storage().data_ptr());
}

TEST(OlderNames, ContainersAreWrittenToStreams) {
  std::ostringstream out;
  out << std::map<std::string, int>{{"a", 1}, {"b", 2}} << " " << std::set<int>{1, 2};
  EXPECT_EQ(out.str(), "(a, 1) (b, 2) 1 2");
}

TEST(Checks, NeedNoSemicolon) {
  TORCH_CHECK(true, "never")
  EXPECT_ERROR([] { TORCH_CHECK(false, "always") }(), c10::Error, "always");
}

TEST(Profiler, WritesWhatRan) {
  using namespace torch::autograd::profiler;
  enableProfiler(ProfilerConfig(ProfilerState::KINETO), {ActivityType::CPU});
  {
    RECORD_FUNCTION("mine", std::vector<c10::IValue>());
    static_cast<void>(torch::ones({2}) + 1);
  }
  const auto result = disableProfiler();
  const auto path = std::filesystem::temp_directory_path() / "flambeau_profile.json";
  result->save(path.string());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_NE(text.str().find("\"mine\""), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("add"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace flambeau
