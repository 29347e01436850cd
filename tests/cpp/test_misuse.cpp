// What C++ programs do wrong with tensors: each raises the class of error that libtorch raises, and
// the message holds its first sentence.
#include <torch/torch.h>

#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using namespace torch::indexing;
using torch::Tensor;

struct Misuse {
  const char* code;
  std::function<void()> run;
  bool (*is)(const std::exception&);
  const char* words;
};
template <class T>
bool is(const std::exception& error) {
  return typeid(error) == typeid(T);
}
#define MISUSE(type, words, ...)                                            \
  Misuse {                                                                  \
#__VA_ARGS__, [] { static_cast<void>(__VA_ARGS__); }, is < type>, words \
  }

const Tensor x = torch::ones({2, 3}), integers = torch::arange(6), number = torch::ones({});
Tensor wanted_ones() { return torch::ones({2}, torch::requires_grad()); }
void backward_twice() {
  const Tensor w = wanted_ones(), y = (w * w).sum();
  y.backward();
  y.backward();
}

const Misuse misuses[] = {
    MISUSE(c10::Error, "expected scalar type Double but found Float", x.data_ptr<double>()),
    MISUSE(c10::Error, "expected scalar type Int but found Float", x.data_ptr<int>()),
    MISUSE(c10::Error, "TensorAccessor expected 1 dims but tensor has 2", x.accessor<float, 1>()),
    MISUSE(c10::Error, "a Tensor with 6 elements cannot be converted to Scalar", x.item<int>()),
    MISUSE(std::runtime_error, "value cannot be converted to type uint8_t without overflow",
           (number * 300).item<uint8_t>()),
    MISUSE(std::runtime_error, "value cannot be converted to type int without overflow",
           torch::full({}, 1e20, torch::kDouble).item<int>()),
    MISUSE(c10::Error, "shape '[5]' is invalid for input of size 6", x.view({5})),
    MISUSE(c10::Error, "shape '[4, 2]' is invalid for input of size 6", x.reshape({4, 2})),
    MISUSE(c10::Error, "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", x.mm(x)),
    MISUSE(c10::Error, "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
           torch::matmul(x, x)),
    MISUSE(c10::Error,
           "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
           "dimension 1",
           x + torch::ones({4})),
    MISUSE(c10::IndexError,
           "Dimension out of range (expected to be in range of [-2, 1], but got 5)", x.sum(5)),
    MISUSE(c10::IndexError,
           "Dimension out of range (expected to be in range of [-2, 1], but got 7)", x.size(7)),
    MISUSE(c10::IndexError,
           "select(): index 5 out of range for tensor of size [2, 3] at dimension 0", x[5]),
    MISUSE(c10::IndexError, "select() cannot be applied to a 0-dim tensor.", number[0]),
    MISUSE(c10::IndexError, "Can only index with tensors that are scalars (zero-dim)",
           x[torch::ones({2}, torch::kLong)]),
    MISUSE(c10::IndexError, "Can only index tensors with integral scalars", x[torch::tensor(1.5)]),
    MISUSE(c10::IndexError, "Can only index with tensors that are defined", x[Tensor()]),
    MISUSE(c10::IndexError, "too many indices for tensor of dimension 2", x.index({0, 0, 0})),
    MISUSE(c10::IndexError, "index 5 is out of bounds for dimension 0 with size 2", x.index({5})),
    MISUSE(c10::ValueError, "slice step cannot be zero", x.index({Slice(0, 2, 0)})),
    MISUSE(c10::ValueError, "step must be greater than zero", x.index({Slice(0, 2, -1)})),
    MISUSE(c10::ValueError, "Expected \"...\" to represent an ellipsis index, but got \"..\"",
           x.index({".."})),
    MISUSE(c10::IndexError, "index 7 is out of bounds for dimension 0 with size 2",
           x.index({torch::tensor({7})})),
    MISUSE(c10::IndexError, "tensors used as indices must be long, int, byte or bool tensors",
           x.index({torch::tensor({1.5})})),
    MISUSE(c10::IndexError,
           "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor "
           "[2, 3] at index 0",
           x.index({torch::tensor({true, false, true})})),
    MISUSE(c10::IndexError,
           "Dimension out of range (expected to be in range of [-2, 1], but got 3)",
           x.select(3, 0)),
    MISUSE(c10::Error, "start (1) + length (5) exceeds dimension size (2).", x.narrow(0, 1, 5)),
    MISUSE(c10::Error, "Tensors must have same number of dimensions: got 2 and 1",
           torch::cat({x, torch::ones({2})})),
    MISUSE(
        c10::Error,
        "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [] at entry 1",
        torch::stack({x, number})),
    MISUSE(c10::Error, "element 0 of tensors does not require grad and does not have a grad_fn",
           x.backward()),
    MISUSE(c10::Error, "grad can be implicitly created only for scalar outputs",
           (wanted_ones() * 2).backward()),
    MISUSE(c10::Error,
           "Trying to backward through the graph a second time (or directly access saved tensors "
           "after they have already been freed).",
           backward_twice()),
    MISUSE(c10::Error, "Only Tensors of floating point and complex dtype can require gradients",
           integers.requires_grad_()),
    MISUSE(c10::Error, "Only Tensors of floating point and complex dtype can require gradients",
           torch::ones({2}, torch::dtype(torch::kInt).requires_grad(true))),
    MISUSE(c10::Error, "a leaf Variable that requires grad is being used in an in-place operation.",
           wanted_ones().add_(1)),
    MISUSE(c10::Error, "negative dimension", torch::zeros({-1})),
    MISUSE(c10::Error, "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip,",
           torch::Device("foo")),
    MISUSE(c10::Error, "Invalid device string: 'cuda:x'", torch::Device("cuda:x")),
    MISUSE(c10::Error, "Device string must not be empty", torch::Device("")),
    MISUSE(c10::Error, "upper bound and lower bound inconsistent with step sign",
           torch::arange(0, 5, -1)),
    MISUSE(c10::Error, "step must be nonzero", torch::arange(0, 5, 0)),
    MISUSE(c10::Error, "random_ expects 'from' to be less than 'to', but got from=5 >= to=1",
           torch::randint(5, 1, {2})),
    MISUSE(c10::Error,
           "Expected all sub-lists to have sizes: 2 (e.g. {1, 2}), but got sub-list {3} with "
           "sizes: 1",
           torch::tensor({{1, 2}, {3}})),
    MISUSE(c10::Error,
           "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices",
           torch::linalg_inv(x)),
    MISUSE(c10::LinAlgError, "linalg.inv: The diagonal element 1 is zero, the inversion could not",
           torch::linalg_inv(torch::zeros({2, 2}))),
    MISUSE(c10::LinAlgError,
           "linalg.cholesky: The factorization could not be completed because the input is not "
           "positive-definite",
           torch::linalg_cholesky(-torch::eye(2))),
    MISUSE(c10::Error,
           "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 3]",
           torch::conv2d(x, x)),
    MISUSE(c10::IndexError, "Target 9 is out of bounds.",
           torch::nll_loss(x, torch::tensor({1, 9}))),
    MISUSE(c10::IndexError, "index out of range in self", torch::embedding(x, torch::tensor({9}))),
    MISUSE(c10::IndexError,
           "Dimension out of range (expected to be in range of [-2, 1], but got 5)", x.squeeze(5)),
    MISUSE(c10::Error,
           "The expanded size of the tensor (5) must match the existing size (3) at non-singleton "
           "dimension 1.",
           x.expand({5, 5})),
    MISUSE(c10::Error, "Index tensor must have the same number of dimensions as input tensor",
           torch::gather(x, 0, integers)),
    MISUSE(c10::Error, "cannot resize variables that require grad", wanted_ones().resize_({9})),
    MISUSE(c10::Error, "invalid multinomial distribution (sum of probabilities <= 0)",
           torch::multinomial(torch::zeros({2}), 1)),
    MISUSE(c10::Error, "normal expects std >= 0.0, but found std -1", torch::normal(0., -1., {2})),
    MISUSE(c10::Error, "result type Float can't be cast to the desired output type Long",
           integers.div_(2)),
    MISUSE(c10::Error, "t() expects a tensor with <= 2 dimensions, but self is 3D",
           torch::ones({2, 2, 2}).t()),
    MISUSE(c10::Error,
           "to(options) doesn't support converting to a different layout, but got self.layout "
           "being Strided and options.layout set as Sparse",
           x.to(torch::kSparse)),
    MISUSE(c10::Error, "Class values must be non-negative.", torch::one_hot(torch::tensor({-1}))),
};

TEST(Misuse, RaisesWhatLibtorchRaises) {
  for (const Misuse& misuse : misuses) {
    try {
      misuse.run();
      ADD_FAILURE() << misuse.code << ": no error";
    } catch (const std::exception& error) {
      EXPECT_TRUE(misuse.is(error)) << misuse.code << ": another class, " << error.what();
      EXPECT_NE(std::string_view(error.what()).find(misuse.words), std::string_view::npos)
          << misuse.code << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace flambeau
