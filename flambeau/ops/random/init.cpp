// Initial values of parameters (nn.init): each op writes into the tensor that it is given and
// records nothing. Layers see the draws and writes that they are made of.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor init_uniform(const Tensor& tensor, double a, double b, Generator* generator) {
  const NoGrad off;
  return tensor_op("uniform_", {tensor, a, b, generator});
}
OP_FUNCTION(init_uniform, "_init_uniform(tensor, a=0.0, b=1.0, generator=None)",
            "Fills from the uniform distribution on [a, b).", composed | no_out)

Tensor init_normal(const Tensor& tensor, double mean, double std, Generator* generator) {
  const NoGrad off;
  return tensor_op("normal_", {tensor, mean, std, generator});
}
OP_FUNCTION(init_normal, "_init_normal(tensor, mean=0.0, std=1.0, generator=None)",
            "Fills from a normal distribution.", composed | no_out)

Tensor init_constant(const Tensor& tensor, const Scalar& val) {
  const NoGrad off;
  return fill_(tensor, val);
}
OP_FUNCTION(init_constant, "_init_constant(tensor, val)", "Fills with one value.",
            composed | no_out)

Tensor init_zeros(const Tensor& tensor) {
  const NoGrad off;
  return zero_(tensor);
}
OP_FUNCTION(init_zeros, "_init_zeros(tensor)", "Fills with zeros.", composed | no_out)

// --- The truncated normal distribution -----------------------------------------------------------

Tensor is_outside(const Tensor& tensor, double a, double b) {
  const Tensor below = tensor < a;
  return below | (tensor > b);
}

// As drawn from the whole distribution, and again where that was outside [a, b].
void draw_until_inside(const Tensor& tensor, double mean, double std, double a, double b,
                       Generator* generator) {
  tensor_op("normal_", {tensor, mean, std, generator});
  if (tensor.device().is_meta()) return;  // nothing was drawn that could lie outside
  Tensor outside = is_outside(tensor, a, b);
  while (is_nonzero(tensor_op("any", {outside}))) {
    // Everything is drawn again and the rest thrown away: the order of draws is PyTorch's.
    const Tensor again = tensor_op("normal_", {empty_like(tensor), mean, std, generator});
    copy_(tensor, where(outside, again, tensor));
    outside = is_outside(tensor, a, b);
  }
}

// From [a, b] uniformly, accepted in proportion to the normal density there: for an interval that
// normal draws seldom hit.
void draw_and_thin(const Tensor& tensor, double mean, double std, double a, double b,
                   Generator* generator) {
  if (tensor.device().is_meta()) return;
  const double peak = (std::min(std::max(mean, a), b) - mean) / std;
  Tensor missing = ones_like(tensor, DType::bool_);
  while (is_nonzero(tensor_op("any", {missing}))) {
    const Tensor drawn = tensor_op("uniform_", {empty_like(tensor), a, b, generator});
    const Tensor chance = tensor_op("uniform_", {empty_like(tensor), 0.0, 1.0, generator});
    const Tensor z = (drawn - mean) / std;
    const Tensor accepted = lt(chance, exp((z * z - peak * peak) * -0.5));
    copy_(tensor, where(missing & accepted, drawn, tensor));
    missing = missing & logical_not(accepted);
  }
}

Tensor init_trunc_normal(const Tensor& tensor, double mean, double std, double a, double b,
                         Generator* generator) {
  if (mean < a - 2 * std || mean > b + 2 * std) {
    warn(
        "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values "
        "may be incorrect.");
  }
  CHECK(std != 0, ZeroDivisionError, "float division by zero");
  const auto cdf = [&](double x) {
    return (1 + std::erf((x - mean) / std / std::numbers::sqrt2)) / 2;
  };
  const NoGrad off;
  const bool is_likely = cdf(b) - cdf(a) > 0.3;
  (is_likely ? draw_until_inside : draw_and_thin)(tensor, mean, std, a, b, generator);
  return tensor;
}
OP_FUNCTION(init_trunc_normal,
            "_init_trunc_normal(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None)",
            "Fills from a normal distribution restricted to [a, b].", composed | no_out)

// --- By the number of inputs and outputs ---------------------------------------------------------

struct Fans {
  int64_t in, out;
};

Fans fans_of(const Tensor& tensor) {
  CHECK(tensor.dim() >= 2, ValueError,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  int64_t receptive_field = 1;
  for (int64_t d = 2; d < tensor.dim(); ++d) receptive_field *= tensor.size(d);
  return {tensor.size(1) * receptive_field, tensor.size(0) * receptive_field};
}

int64_t init_fan(const Tensor& tensor, std::string_view mode) {
  std::string lower(mode);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  CHECK(lower == "fan_in" || lower == "fan_out", ValueError,
        "Mode {} not supported, please use one of ['fan_in', 'fan_out']", lower);
  const Fans fans = fans_of(tensor);
  return lower == "fan_in" ? fans.in : fans.out;
}
OP_FUNCTION(init_fan, "_init_fan(tensor, mode)",
            "How many inputs an output of a weight depends on (fan_in), or how many outputs an "
            "input reaches (fan_out).",
            metadata)

// By pow(), as Python has it: not always x * x.
[[gnu::noipa]] double power(double x, double exponent) { return std::pow(x, exponent); }

Scalar init_calculate_gain(std::string_view nonlinearity, std::optional<double> param) {
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::numbers::sqrt2;
  if (nonlinearity == "selu") return 3.0 / 4;
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + power(param.value_or(0.01), 2)));
  for (const std::string_view linear :
       {"linear", "sigmoid", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d"}) {
    if (nonlinearity == linear) return int64_t{1};
  }
  fail<ValueError>("Unsupported nonlinearity {}", nonlinearity);
}
OP_FUNCTION(init_calculate_gain, "_init_calculate_gain(nonlinearity, param=None)",
            "By how much to scale weights that are followed by a nonlinearity.", metadata)

double xavier_std(const Tensor& tensor, double gain) {
  const Fans fans = fans_of(tensor);
  CHECK(fans.in + fans.out > 0, ZeroDivisionError, "float division by zero");
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}
Tensor init_xavier_uniform(const Tensor& tensor, double gain, Generator* generator) {
  const double bound = std::numbers::sqrt3 * xavier_std(tensor, gain);
  return init_uniform(tensor, -bound, bound, generator);
}
OP_FUNCTION(init_xavier_uniform, "_init_xavier_uniform(tensor, gain=1.0, generator=None)",
            "Uniform with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010).",
            composed | no_out)
Tensor init_xavier_normal(const Tensor& tensor, double gain, Generator* generator) {
  return init_normal(tensor, 0, xavier_std(tensor, gain), generator);
}
OP_FUNCTION(init_xavier_normal, "_init_xavier_normal(tensor, gain=1.0, generator=None)",
            "Normal with variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio, 2010).",
            composed | no_out)

double kaiming_std(const Tensor& tensor, std::optional<double> a, std::string_view mode,
                   std::string_view nonlinearity) {
  const double fan = static_cast<double>(init_fan(tensor, mode));
  return init_calculate_gain(nonlinearity, a).to_double() / std::sqrt(fan);
}
Tensor init_kaiming_uniform(const Tensor& tensor, std::optional<double> a, std::string_view mode,
                            std::string_view nonlinearity, Generator* generator) {
  if (tensor.numel() == 0) return tensor;
  const double bound = std::numbers::sqrt3 * kaiming_std(tensor, a, mode, nonlinearity);
  return init_uniform(tensor, -bound, bound, generator);
}
OP_FUNCTION(init_kaiming_uniform,
            "_init_kaiming_uniform(tensor, a=0.0, mode='fan_in', nonlinearity='leaky_relu', "
            "generator=None)",
            "Uniform with variance gain^2 / fan (He et al., 2015).", composed | no_out)
Tensor init_kaiming_normal(const Tensor& tensor, std::optional<double> a, std::string_view mode,
                           std::string_view nonlinearity, Generator* generator) {
  if (tensor.numel() == 0) return tensor;
  return init_normal(tensor, 0, kaiming_std(tensor, a, mode, nonlinearity), generator);
}
OP_FUNCTION(init_kaiming_normal,
            "_init_kaiming_normal(tensor, a=0.0, mode='fan_in', nonlinearity='leaky_relu', "
            "generator=None)",
            "Normal with variance gain^2 / fan (He et al., 2015).", composed | no_out)

// --- Matrices and kernels of a form --------------------------------------------------------------

void check_matrix(const Tensor& tensor) {
  CHECK(tensor.dim() == 2, ValueError, "Only tensors with 2 dimensions are supported");
}

Tensor init_eye(const Tensor& tensor) {
  check_matrix(tensor);
  const NoGrad off;
  zero_(tensor);
  fill_(diagonal(tensor, 0, 0, 1), 1);
  return tensor;
}
OP_FUNCTION(init_eye, "_init_eye(tensor)", "Makes a matrix the identity, as far as its shape goes.",
            composed | no_out)

Tensor init_dirac(const Tensor& tensor, int64_t groups) {
  CHECK(tensor.dim() >= 3 && tensor.dim() <= 5, ValueError,
        "Only tensors with 3, 4, or 5 dimensions are supported");
  CHECK(groups != 0, ZeroDivisionError, "integer modulo by zero");
  CHECK(tensor.size(0) % groups == 0, ValueError, "dim 0 must be divisible by groups");
  const NoGrad off;
  zero_(tensor);
  Tensor center = tensor;  // of each kernel: outputs by inputs
  while (center.dim() > 2) center = select(center, -1, center.size(-1) / 2);
  const int64_t outputs = tensor.size(0) / groups;
  for (int64_t group = 0; group < groups; ++group)
    fill_(diagonal(narrow(center, 0, group * outputs, outputs), 0, 0, 1), 1);
  return tensor;
}
OP_FUNCTION(init_dirac, "_init_dirac(tensor, groups=1)",
            "Makes a convolution's weight pass on as many input channels as it can.",
            composed | no_out)

// Makes vectors orthogonal to orthonormal directions, twice: that is as good as exactly.
void remove_components(const Tensor& vectors, const Tensor& directions) {
  if (directions.size(1) == 0) return;
  for (int i = 0; i < 2; ++i) sub_(vectors, matmul(directions, matmul(mH(directions), vectors)));
}

// The factor Q of matrix = Q R with a positive diagonal of R, which makes it unique: block
// Gram-Schmidt, in double precision.
Tensor orthonormal_columns(const Tensor& matrix) {
  const DType wide = matrix.is_complex() ? DType::complex128 : DType::float64;
  const Tensor q = to(matrix, {}, wide, false, true, {});
  constexpr int64_t block = 64;
  for (int64_t start = 0; start < q.size(1); start += block) {
    const Tensor panel = narrow(q, 1, start, std::min(block, q.size(1) - start));
    remove_components(panel, narrow(q, 1, 0, start));
    for (int64_t j = 0; j < panel.size(1); ++j) {
      const Tensor column = narrow(panel, 1, j, 1);
      remove_components(column, narrow(panel, 1, 0, j));
      div_(column, linalg_vector_norm(column, 2.0, {}, false));
    }
  }
  return to(q, matrix.dtype());
}

Tensor init_orthogonal(const Tensor& tensor, double gain, Generator* generator) {
  CHECK(tensor.dim() >= 2, ValueError, "Only tensors with 2 or more dimensions are supported");
  if (tensor.numel() == 0) return tensor;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const NoGrad off;
  const Tensor blank = tensor_op("new_empty", {tensor, Dims{rows, columns}});
  const Tensor drawn = tensor_op("normal_", {blank, 0.0, 1.0, generator});
  const Tensor q = rows < columns ? t(orthonormal_columns(t(drawn))) : orthonormal_columns(drawn);
  copy_(view(tensor, q.sizes()), q);
  return mul_(tensor, gain);
}
OP_FUNCTION(init_orthogonal, "_init_orthogonal(tensor, gain=1.0, generator=None)",
            "Makes the rows (or columns, if there are fewer) orthonormal (Saxe et al., 2013).",
            composed | no_out)

Tensor init_sparse(const Tensor& tensor, double sparsity, double std, Generator* generator) {
  check_matrix(tensor);
  const int64_t rows = tensor.size(0);
  const auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  const NoGrad off;
  tensor_op("normal_", {tensor, 0.0, std, generator});
  for (int64_t column = 0; column < tensor.size(1); ++column) {
    const Tensor chosen = slice(tensor_op("randperm", {rows}), 0, {}, zeros, 1);
    const Tensor index = to(chosen, tensor.device());
    tensor_op("index_fill_", {select(tensor, 1, column), 0, index, 0.0});
  }
  return tensor;
}
OP_FUNCTION(init_sparse, "_init_sparse(tensor, sparsity, std=0.01, generator=None)",
            "Normal, with a given fraction of zeros in each column (Martens, 2010).",
            composed | no_out)

}  // namespace
}  // namespace flambeau
