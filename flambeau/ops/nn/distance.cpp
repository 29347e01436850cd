// Distances between points: of all pairs from two sets, and of all pairs within one.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// From so many points on, a matrix product is faster than the differences it stands for. The
// price is digits where points almost coincide, as in PyTorch.
constexpr int64_t points_worth_a_product = 25;
enum class Method : int64_t { chosen_by_size = 0, product = 1, differences = 2 };

Tensor square_sums(const Tensor& x) { return sum(x * x, IntSpan{-1}, true); }

// |a - b|^2 = |a|^2 + |b|^2 - 2 ab, as one product of widened matrices.
Tensor distances_by_product(const Tensor& x1, const Tensor& x2) {
  const Tensor one = square_sums(x1), two = square_sums(x2);
  const Tensor left = cat({x1 * -2, one, ones_like(one)}, -1);
  const Tensor right = cat({x2, ones_like(two), two}, -1);
  return sqrt(clamp(matmul(left, mT(right)), Scalar(0.0), std::nullopt));
}

// The gradient of the distances for the first set, from differences [..., i, j, :].
Tensor first_gradient(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& d,
                      double p) {
  if (p == 2 && !grad_enabled() && x1.numel() > 0 && x2.numel() > 0 &&
      kernels::cdist_backward.filled(x1.device_type())) {
    // Nobody asks for second derivatives: the differences need not be kept.
    Tensor out = make_tensor(x1.sizes(), x1.dtype(), x1.device());
    kernels::cdist_backward(x1.device_type(), contiguous(g), contiguous(x1), contiguous(x2),
                            contiguous(d), out);
    return out;
  }
  const Tensor difference = unsqueeze(x1, -2) - unsqueeze(x2, -3);
  const Tensor weight = unsqueeze(g, -1), distance = unsqueeze(d, -1);
  if (p == 0) return zeros_like(x1);
  if (p == 1) return sum(weight * sign(difference), IntSpan{-2}, false);
  if (std::isinf(p)) {
    const Tensor farthest = eq(abs(difference), distance);
    return sum(weight * sign(difference) * farthest, IntSpan{-2}, false);
  }
  const Tensor apart = ne(distance, 0.0);
  const Tensor divisor = where(apart, distance, 1.0);
  Tensor direction;
  if (p == 2) {
    direction = difference / divisor;
  } else {
    const Tensor size = abs(difference);
    // Below two the power has no derivative at zero; what stands there counts for nothing.
    const Tensor safe = where(ne(size, 0.0), size, 1.0);
    direction = sign(difference) * pow(safe / divisor, p - 1);
  }
  return sum(where(apart, weight * direction, 0.0), IntSpan{-2}, false);
}

Tensor distances_by_differences(const Tensor& x1, const Tensor& x2, double p) {
  Dims shape = x1->sizes;
  shape.back() = x2.size(-2);
  Tensor out = make_tensor(shape, x1.dtype(), x1.device());
  if (x1.size(-1) == 0) {
    fill_(out, 0.0);
  } else if (out.numel() != 0) {
    kernels::cdist(x1.device_type(), contiguous(detach(x1)), contiguous(mT(detach(x2))), out, p);
  }
  if (Record r{"cdist", out, {x1, x2}}) {
    r.wrt(0, [a = r.save_for(0, x1), b = r.save_for(0, x2), d = r.save_output(out),
              p](const Tensor& g) { return first_gradient(g, a(), b(), d(), p); });
    r.wrt(1, [a = r.save_for(1, x1), b = r.save_for(1, x2), d = r.save_output(out),
              p](const Tensor& g) { return first_gradient(mT(g), b(), a(), mT(d()), p); });
  }
  return out;
}

void check_points(const char* name, const Tensor& x) {
  CHECK(x.is_floating(), RuntimeError, "cdist only supports floating-point dtypes, {} got: {}",
        name, dtype_legacy_name(x.dtype()));
  CHECK(x.dim() >= 2, RuntimeError, "cdist only supports at least 2D tensors, {} got: {}D", name,
        x.dim());
}

Dims batch_of(const Tensor& x) { return Dims(x.sizes().begin(), x.sizes().end() - 2); }

Tensor with_batch(const Tensor& x, Dims batch) {
  batch.push_back(x.size(-2));
  batch.push_back(x.size(-1));
  return expand(x, batch);
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  check_points("X1", x1);
  check_points("X2", x2);
  CHECK(x1.dtype() == x2.dtype(), RuntimeError, "expected scalar type {} but found {}",
        dtype_legacy_name(x1.dtype()), dtype_legacy_name(x2.dtype()));
  CHECK(x1.device() == x2.device(), RuntimeError,
        "cdist: X1 and X2 must be on one device, got {} and {}", x1.device(), x2.device());
  CHECK(x1.size(-1) == x2.size(-1), RuntimeError,
        "X1 and X2 must have the same number of columns. X1: {} X2: {}", x1.size(-1), x2.size(-1));
  CHECK(p >= 0, RuntimeError, "cdist only supports non-negative p values");
  const Dims batch = broadcast_shapes(batch_of(x1), batch_of(x2));
  const Tensor a = with_batch(x1, batch), b = with_batch(x2, batch);
  const auto method = static_cast<Method>(compute_mode.value_or(0));
  const bool many = x1.size(-2) > points_worth_a_product || x2.size(-2) > points_worth_a_product;
  const bool by_product = method == Method::product || (method == Method::chosen_by_size && many);
  if (p == 2 && by_product && x1.size(-1) > 0) return distances_by_product(a, b);
  const bool empty = x1.numel() == 0 || x2.numel() == 0;
  CHECK(empty || !dtypes::Reduced.has(x1.dtype()), NotImplementedError,
        "\"cdist\" not implemented for '{}'", dtype_legacy_name(x1.dtype()));
  return distances_by_differences(a, b, p);
}
OP_FUNCTION(cdist, "_cdist._cdist_forward.default(x1, x2, p=2.0, compute_mode=None)",
            "The p-distance of each point, a row, of x1 to each of x2.", autocast_exact | event(2))

// Where the pairs of n points stand among all n * n.
Tensor indices_of_pairs(int64_t n, Device device) {
  Tensor above = make_tensor(IntSpan{n * (n - 1) / 2}, DType::int64, Device());
  int64_t* place = above.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) *place++ = i * n + j;
  }
  return sent_to(above, device);
}

// What is known of pairs as a symmetric matrix with zeros for the points themselves.
Tensor square_of_pairs(const Tensor& pairs, const Tensor& indices, int64_t n) {
  const Tensor flat = scatter_add(zeros({n * n}, options_of(pairs)), 0, indices, pairs);
  const Tensor half = reshape(flat, {n, n});
  return half + mT(half);
}

Tensor pdist_by_kernel(const Tensor& input, double p) {
  const int64_t n = input.size(0);
  Tensor out = make_tensor(IntSpan{n * (n - 1) / 2}, input.dtype(), input.device());
  kernels::pdist(input.device_type(), contiguous(t(detach(input))), out, p);
  if (Record r{"pdist_forward", out, {input}}) {
    r.wrt(0, [x = r.save(input), d = r.save_output(out), n, p](const Tensor& g) {
      const Tensor points = x(), indices = indices_of_pairs(n, g.device());
      const Tensor weights = square_of_pairs(g, indices, n);
      return first_gradient(weights, points, points, square_of_pairs(d(), indices, n), p);
    });
  }
  return out;
}

Tensor pdist(const Tensor& input, double p) {
  CHECK(input.dim() == 2, RuntimeError, "pdist only supports 2D tensors, got: {}D", input.dim());
  CHECK(input.is_floating(), RuntimeError, "pdist only supports floating-point dtypes");
  CHECK(p >= 0, RuntimeError, "pdist only supports non-negative p values");
  CHECK(!dtypes::Reduced.has(input.dtype()) || input.size(0) <= 1, NotImplementedError,
        "\"pdist\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const int64_t n = input.size(0);
  if (n > 1 && input.size(1) > 0 && kernels::pdist.filled(input.device_type())) {
    return pdist_by_kernel(input, p);
  }
  const Tensor all = distances_by_differences(input, input, p);
  return index_select(reshape(all, {-1}), 0, indices_of_pairs(n, input.device()));
}
OP_FUNCTION((one_step<pdist, "pdist">), "pdist._pdist_forward.default(input, p=2.0)",
            "The p-distances of all pairs of rows of a matrix.", cuda_exact | no_out)

}  // namespace
}  // namespace flambeau
