// An autograd function of one's own: a rounding that lets gradients through (the straight-through
// estimator), used to train weights that are whole numbers.
#include <torch/torch.h>

#include <cstdio>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Round : torch::autograd::Function<Round> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, double limit) {
    context->save_for_backward({x});
    context->saved_data["limit"] = limit;
    return x.round().clamp(-limit, limit);
  }
  // Nothing beyond the limit, everything else as if nobody had rounded.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor x = context->get_saved_variables()[0];
    const double limit = context->saved_data["limit"].toDouble();
    return {gradients[0] * (x.abs() <= limit), torch::Tensor()};
  }
};

}  // namespace

int main() {
  torch::manual_seed(0);
  const torch::Tensor truth = torch::randint(-3, 4, {8, 1}).to(torch::kFloat32);
  torch::Tensor weight = torch::zeros({8, 1}).requires_grad_();
  torch::optim::Adam optimizer({weight}, 0.05);
  for (int step = 0; step < 500; ++step) {
    const torch::Tensor x = torch::randn({64, 8});
    optimizer.zero_grad();
    torch::mse_loss(x.mm(Round::apply(weight, 4.0)), x.mm(truth)).backward();
    optimizer.step();
  }
  const torch::Tensor found = Round::apply(weight.detach(), 4.0);
  std::printf("%s\n", found.equal(truth) ? "found all weights" : "some weights differ");
}
