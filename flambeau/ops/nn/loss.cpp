// Losses: nll_loss and cross-entropy with kernels of their own, and those that are an elementwise
// function and a reduction.
#include "flambeau/ops/nn/loss.h"
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/elementwise/chunked_sum.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/layers/dispatch.h"
#include "flambeau/ops/nn/norm.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
Reduction check_reduction(int64_t reduction) {
  CHECK(reduction >= 0 && reduction <= 2, ValueError, "{} is not a valid value for reduction",
        reduction);
  return static_cast<Reduction>(reduction);
}

Tensor reduced(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::mean) return mean(loss, {}, false);
  return reduction == Reduction::sum ? sum(loss) : loss;
}

namespace {

// --- nll_loss ------------------------------------------------------------------------------------

// The arguments of a loss over classes, as (N, C, D), (N, D) and (C).
struct Classes {
  Tensor target, weight;
  Reduction reduction;
  int64_t ignore_index;
};

// The same, kept for backward.
struct SavedClasses {
  Saved target, weight;
  Reduction reduction;
  int64_t ignore_index;

  SavedClasses(const Record& r, const Classes& c)
      : target(r.save(c.target)),
        weight(r.save(c.weight)),
        reduction(c.reduction),
        ignore_index(c.ignore_index) {}
  Classes operator()() const { return {target(), weight(), reduction, ignore_index}; }
};

Tensor nll_backward(const Tensor& grad, const Classes& c, const Tensor& total_weight,
                    IntSpan sizes);

// The gradient of nll_backward in what it was given: the chosen elements, weighted and reduced with
// the total weight of the first pass.
Tensor nll_forward(const Tensor& x, const Classes& c, Tensor& total_weight) {
  const bool whole = c.reduction == Reduction::none;
  Tensor out = make_tensor(whole ? c.target.sizes() : IntSpan(), x.dtype(), x.device());
  if (!total_weight.defined()) total_weight = make_tensor({}, x.dtype(), x.device());
  {
    const NoGrad off;
    kernels::nll_loss(x.device_type(), contiguous(x), c.target, c.weight, c.reduction,
                      c.ignore_index, out, total_weight);
  }
  if (Record r{"nll_loss", out, {x}}) {
    r.wrt(0, [c = SavedClasses(r, c), total_weight, sizes = x.sizes().dims()](const Tensor& g) {
      return nll_backward(g, c(), total_weight, sizes);
    });
  }
  return out;
}

Tensor nll_backward(const Tensor& grad, const Classes& c, const Tensor& total_weight,
                    IntSpan sizes) {
  Tensor out = make_tensor(sizes, grad.dtype(), grad.device());
  {
    const NoGrad off;
    if (out.numel() != 0) {
      kernels::nll_loss_backward(grad.device_type(), contiguous(grad), c.target, c.weight,
                                 c.reduction, c.ignore_index, total_weight, out);
    }
  }
  if (Record r{"nll_loss_backward", out, {grad}}) {
    r.wrt(0, [c = SavedClasses(r, c)](const Tensor& gg) {
      Tensor weight_sum;
      return nll_forward(gg, c(), weight_sum);
    });
  }
  return out;
}

void check_class_weight(const Tensor& weight, int64_t classes) {
  CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == classes), RuntimeError,
        "weight tensor should be defined either for all {} classes or no classes but got weight "
        "tensor of "
        "shape: {}",
        classes, weight.sizes());
}

void check_target(const Tensor& input, const Tensor& target) {
  CHECK(input.dim() >= 1, ValueError, "Expected 1 or more dimensions (got {})", input.dim());
  const auto check_count = [&] {
    CHECK(target.dim() >= 1 && input.sizes()[0] == target.sizes()[0], ValueError,
          "Expected input batch_size ({}) to match target batch_size ({}).", input.sizes()[0],
          target.dim() == 0 ? 1 : target.sizes()[0]);
  };
  if (input.dim() <= 2) {
    if (input.dim() == 2 && target.dim() > 0) check_count();
    CHECK(target.dim() <= 1, RuntimeError,
          "0D or 1D target tensor expected, multi-target not supported");
    CHECK(input.dim() == 1 ? target.dim() == 0 || target.numel() == 1
                           : target.dim() == 1 && input.sizes()[0] == target.sizes()[0],
          ValueError, "Expected input batch_size ({}) to match target batch_size ({}).",
          input.dim() == 1 ? 1 : input.sizes()[0], target.dim() == 0 ? 1 : target.sizes()[0]);
  } else {
    Dims expected{input.sizes()[0]};
    for (int64_t d = 2; d < input.dim(); ++d) expected.push_back(input.sizes()[d]);
    check_count();
    CHECK(target.sizes() == IntSpan(expected), RuntimeError, "Expected target size {}, got {}",
          expected, target.sizes());
  }
  CHECK(target.dtype() == DType::int64 || target.dtype() == DType::uint8, RuntimeError,
        "expected target dtype to be Long or Byte, but got {}", dtype_legacy_name(target.dtype()));
}

}  // namespace

static Tensor nll_loss_nd(const Tensor& input, const Tensor& target, const Tensor& weight,
                          int64_t reduction, int64_t ignore_index) {
  common_device("nll_loss", {input, target});
  check_target(input, target);
  const int64_t classes = input.sizes()[input.dim() == 1 ? 0 : 1];
  check_class_weight(weight, classes);
  CHECK(!weight.defined() || weight.dtype() == input.dtype(), RuntimeError,
        "expected scalar type {} but found {}, in the weights of nll_loss",
        dtype_legacy_name(input.dtype()), dtype_legacy_name(weight.dtype()));
  const int64_t samples = input.dim() == 1 ? 1 : input.sizes()[0];
  const int64_t inner = classes == 0 || samples == 0
                            ? target.numel() / std::max<int64_t>(samples, 1)
                            : input.numel() / (samples * classes);
  const Classes c{contiguous(reshape(target, {samples, inner})),
                  weight.defined() ? contiguous(detach(weight)) : weight,
                  check_reduction(reduction), ignore_index};
  Tensor total_weight;
  const Tensor out = nll_forward(reshape(input, {samples, classes, inner}), c, total_weight);
  Tensor loss = c.reduction == Reduction::none ? reshape(out, target.sizes()) : out;
  const Tensor* const inputs[] = {&input};
  show_as_step(input.dim() > 2 ? "nll_loss2d" : "nll_loss", loss, inputs, 1);
  return loss;
}
OP_FUNCTION(
    nll_loss_nd, "nll_loss_nd(input, target, weight=None, reduction=1, ignore_index=-100)",
    "Minus the elements of input, log-probabilities, that target names, weighted and reduced.",
    autocast_exact | no_out | composed)
OP_FUNCTION(nll_loss_nd, "nll_loss(input, target, weight=None, reduction=1, ignore_index=-100)",
            "The same as nll_loss_nd.", autocast_exact)

// What PyTorch makes of it.
OP_FUNCTION(nll_loss_nd,
            "_nll_loss_forward.nll_loss_forward.default(input, target, weight, reduction, "
            "ignore_index)",
            "nll_loss, which PyTorch gives together with the weight of what counts.",
            autocast_exact)
static Tensor nll_loss_steps(const Tensor& input, const Tensor& target, const Tensor& weight,
                             int64_t reduction, int64_t ignore_index) {
  if (input.dim() > 2) return {};
  return tensor_op("_nll_loss_forward", {input, target, weight, reduction, ignore_index});
}
STEPS(nll_loss_nd, nll_loss_steps)
STEPS(nll_loss, nll_loss_steps)

// --- Cross-entropy -------------------------------------------------------------------------------

namespace {

// Logits (N, C) against classes (N), unweighted: one pass each way.
struct FusedRule {
  Saved x, target;
  Tensor log_sums, count;  // count: of rows that are not ignored; defined for the mean
  int64_t ignore_index;
  double smoothing;
  bool wide;

  Tensor operator()(const Tensor& g) const {
    const Tensor logits = grad_enabled() && wide ? to(x(), log_sums.dtype()) : x(),
                 classes = target();
    Tensor scale = to(g, log_sums.dtype());
    if (grad_enabled()) {  // in operations that can be differentiated again
      if (count.defined()) scale = scale / count;
      const Tensor used = classes != ignore_index;
      const Tensor index = unsqueeze(masked_fill(classes, classes == ignore_index, int64_t{0}), 1);
      const double each = smoothing / static_cast<double>(logits.sizes()[1]);
      const Tensor wanted = scatter(full_like(detach(logits), each), 1, to(index, DType::int64),
                                    1.0 - smoothing + each);
      const Tensor row = unsqueeze(used * scale, 1);
      return (softmax(logits, 1) - wanted) * row;
    }
    const Tensor dense = contiguous(logits);
    Tensor out = empty_like(dense);
    kernels::cross_entropy_backward(dense.device_type(), contiguous(scale), count, dense, log_sums,
                                    classes, ignore_index, smoothing, out);
    return out;
  }
};

// wide: the result is of the dtype that it is computed in.
Tensor fused_cross_entropy(const Tensor& input, const Tensor& target, Reduction reduction,
                           int64_t ignore_index, double smoothing, bool wide) {
  const DType dtype = stat_dtype(input.dtype());
  const int64_t rows = input.sizes()[0];
  Tensor log_sums = make_tensor({rows, 2}, dtype, input.device()), count, out;
  const Tensor classes = contiguous(target);
  {
    const NoGrad off;
    Tensor losses = make_tensor({rows}, dtype, input.device());
    if (input.numel() != 0) {
      kernels::cross_entropy(input.device_type(), contiguous(input), classes, ignore_index,
                             smoothing, losses, log_sums);
    }
    if (reduction == Reduction::mean) {
      out = make_tensor(Dims{}, dtype, input.device());
      count = empty_like(out);
      kernels::mean_of_losses(input.device_type(), losses, classes, ignore_index, out, count);
    } else {
      out = reduction == Reduction::sum ? sum(losses) : losses;
    }
    if (out.dtype() != input.dtype() && !wide) out = to(out, input.dtype());
  }
  if (Record r{"nll_loss", out, {input}}) {
    r.wrt(0, FusedRule{r.save(input), r.save(classes), log_sums, count, ignore_index, smoothing,
                       wide});
  }
  return out;
}

Tensor smoothed_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                              Reduction reduction, int64_t ignore_index, double label_smoothing) {
  const int64_t dim = input.dim() == 1 ? 0 : 1, classes = input.sizes()[dim];
  check_target(input, target);
  check_class_weight(weight, classes);
  const Tensor log_probabilities = log_softmax(input, dim);
  const Tensor hard = tensor_op("nll_loss_nd", {log_probabilities, target, weight,
                                                static_cast<int64_t>(reduction), ignore_index});
  Tensor weighted = log_probabilities;
  if (weight.defined()) {
    Dims shape(input.dim(), 1);
    shape[dim] = classes;
    weighted = log_probabilities * reshape(weight, shape);
  }
  const Tensor ignored = target == ignore_index;
  const Tensor each = masked_fill(-sum(weighted, IntSpan(dim), false), ignored, 0.0);
  Tensor smooth = each;
  if (reduction == Reduction::sum) smooth = sum(each);
  if (reduction == Reduction::mean) {
    Tensor total = sum(logical_not(ignored), input.dtype());
    if (weight.defined()) {
      const Tensor index = reshape(masked_fill(target, ignored, int64_t{0}), {-1});
      const Tensor used = reshape(index_select(weight, 0, to(index, DType::int64)), target.sizes());
      total = sum(masked_fill(used, ignored, 0.0));
    }
    smooth = sum(each) / total;
  }
  return hard * (1 - label_smoothing) + smooth * (label_smoothing / static_cast<double>(classes));
}

Tensor cross_entropy_of_probabilities(const Tensor& input, const Tensor& target,
                                      const Tensor& weight, Reduction reduction,
                                      double label_smoothing) {
  const int64_t dim = input.dim() == 1 ? 0 : 1, classes = input.sizes()[dim];
  check_class_weight(weight, classes);
  Tensor wanted = target;
  if (label_smoothing > 0) {
    wanted = target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
  }
  Tensor product = log_softmax(input, dim) * wanted;
  if (weight.defined()) {
    Dims shape(input.dim(), 1);
    shape[dim] = classes;
    product = product * reshape(weight, shape);
  }
  if (reduction == Reduction::none) return -sum(product, IntSpan(dim), false);
  Tensor total = -sum(product);
  if (reduction == Reduction::sum) return total;
  return total / (static_cast<double>(input.numel()) / static_cast<double>(classes));
}

}  // namespace

static Tensor cross_entropy_loss(const Tensor& logits, const Tensor& target, const Tensor& weight,
                                 int64_t reduction, int64_t ignore_index, double label_smoothing,
                                 bool wide) {
  const Reduction how = check_reduction(reduction);
  // Of no classes there is nothing for the kernel, but targets to refuse.
  const bool fused = logits.dim() == 2 && logits.sizes()[1] > 0 && !weight.defined() &&
                     logits.sizes() != target.sizes();
  // The kernel of the fused form computes in single precision in any case.
  const Tensor input =
      wide && !fused && dtypes::Reduced.has(logits.dtype()) ? to(logits, DType::float32) : logits;
  CHECK(label_smoothing >= 0 && label_smoothing <= 1, RuntimeError,
        "label_smoothing must be between 0.0 and 1.0. Got: {}", label_smoothing);
  if (input.sizes() == target.sizes()) {
    CHECK(target.is_floating(), RuntimeError,
          "Expected floating point type for target with class probabilities, got {}",
          dtype_legacy_name(target.dtype()));
    CHECK(ignore_index < 0, RuntimeError,
          "ignore_index is not supported for floating point target");
    CHECK(input.dim() > 0, ValueError, "Expected 1 or more dimensions (got 0)");
    return cross_entropy_of_probabilities(input, target, weight, how, label_smoothing);
  }
  wrap_dim(input.dim() == 1 ? 0 : 1, input.dim());
  // A softmax of nothing has any dtype, but complex ones have no derivative.
  const bool any_dtype = input.numel() == 0 && !(input.is_complex() && input.requires_grad());
  if (any_dtype) check_target(input, target);
  CHECK(input.is_floating(), NotImplementedError,
        "\"log_softmax_lastdim_kernel_impl\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  if (fused) {
    check_target(input, target);
    common_device("cross_entropy_loss", {input, target});
    return fused_cross_entropy(input, target, how, ignore_index, label_smoothing, wide);
  }
  if (label_smoothing > 0) {
    return smoothed_cross_entropy(input, target, weight, how, ignore_index, label_smoothing);
  }
  const Tensor log_probabilities = log_softmax(input, input.dim() == 1 ? 0 : 1);
  return nll_loss_nd(log_probabilities, target, weight, reduction, ignore_index);
}
OP_FUNCTION(cross_entropy_loss,
            "cross_entropy_loss(input, target, weight=None, reduction=1, ignore_index=-100, "
            "label_smoothing=0.0, *, wide=False)",
            "The cross-entropy of logits against class indices or class probabilities; wide: in "
            "single precision for logits of half precision, as after a cast.",
            autocast_exact | no_out | composed)

// What PyTorch makes of it.
static Tensor cross_entropy_steps(const Tensor& logits, const Tensor& target, const Tensor& weight,
                                  int64_t reduction, int64_t ignore_index, double label_smoothing,
                                  bool /*wide*/) {
  if (is_differentiable(target.dtype())) return {};
  if (label_smoothing > 0) {
    return smoothed_cross_entropy(logits, target, weight, check_reduction(reduction), ignore_index,
                                  label_smoothing);
  }
  const Tensor scores = log_softmax(logits, logits.dim() == 1 ? 0 : 1, {});
  return tensor_op("nll_loss_nd", {scores, target, weight, reduction, ignore_index});
}
STEPS(cross_entropy_loss, cross_entropy_steps)

// --- Elementwise losses --------------------------------------------------------------------------

namespace {

// The sum or mean of a loss without a tensor of its elements, where that can be had.
Tensor reduced_in_chunks(const Tensor& input, const Tensor& target, int64_t reduction,
                         const ChunkFormula& formula) {
  const bool mean = reduction == static_cast<int64_t>(Reduction::mean);
  if (!mean && reduction != static_cast<int64_t>(Reduction::sum)) return {};
  return sums_in_chunks(input, target) ? sum_in_chunks(input, target, mean, formula) : Tensor();
}

Tensor mse_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  if (reduction != static_cast<int64_t>(Reduction::none) && sums_in_chunks(input, target)) {
    check_reduction(reduction);
    constexpr int64_t chunk = 8192;
    const int64_t n = input.numel();
    const Tensor totals =
        make_tensor({(n + chunk - 1) / chunk}, stat_dtype(input.dtype()), input.device());
    kernels::squared_distances(DeviceType::cpu, input, target, chunk, totals);
    const NoGrad off;
    const Tensor total = sum(totals);
    const bool mean = reduction == static_cast<int64_t>(Reduction::mean);
    return to(mean ? total / static_cast<double>(n) : total, input.dtype());
  }
  const DType dtype = result_type(input, target);
  CHECK(is_differentiable(dtype), NotImplementedError, "\"mse_cpu\" not implemented for '{}'",
        dtype_legacy_name(dtype));
  const auto number = [dtype](const Tensor& x) {
    return x.dtype() == DType::bool_ ? to(x, dtype) : x;
  };
  return reduced(squared_difference(number(input), number(target)), check_reduction(reduction));
}
OP_FUNCTION((one_step<mse_loss, "mse_loss">), "mse_loss(input, target, reduction=1)",
            "The squared difference.", autocast_exact)

Tensor l1_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  Tensor total = reduced_in_chunks(input, target, reduction, [](const Chunk& p) {
    p.run(kernels::sub, {p.out, p.a, p.b});
    kernels::abs(DeviceType::cpu, p.over({p.out, p.out}));
  });
  if (total.defined()) return total;
  return reduced(abs(input - target), check_reduction(reduction));
}
OP_FUNCTION(l1_loss, "l1_loss(input, target, reduction=1)", "The absolute difference.",
            autocast_exact | no_out | composed)

// Half the squared difference up to a limit, and from there on linear in it: with the difference d
// and what the limit leaves of it, c, that is c (d - c / 2).
Tensor huber(const char* op, const Tensor& input, const Tensor& target, double limit) {
  const DType dtype = result_type(input, target);
  compute_dtype(op, dtypes::OnlyFloating, dtype);
  const auto number = [dtype](const Tensor& x) {
    return x.dtype() == DType::bool_ ? to(x, dtype) : x;
  };
  const auto held = [limit](const Tensor& difference) {
    return clamp(difference, Scalar(-limit), Scalar(limit));
  };
  Tensor loss;
  {
    const NoGrad off;
    const Device device = common_device(op, {input, target});
    if (kernels::huber.filled(device.type)) {
      const Tensor x = to(input, dtype), y = to(target, dtype);
      const Operand sides[] = {x, y};
      TensorIter iter;
      iter.build({op}, &loss, &dtype, 1, sides, 2, dtype);
      kernels::huber(device.type, iter, limit);
    } else {
      loss = number(input) - number(target);
      const Tensor factor = held(loss);
      add_scaled_(loss, factor, -0.5);
      mul_(loss, factor);
    }
  }
  if (Record r{op, loss, {input, target}}) {
    const auto slope = [x = r.save(input), y = r.save(target), number, held](const Tensor& g) {
      return g * held(number(x()) - number(y()));
    };
    r.wrt(0, slope);
    r.wrt(1, [slope](const Tensor& g) { return -slope(g); });
  }
  return loss;
}

Tensor huber_in_chunks(const Tensor& input, const Tensor& target, int64_t reduction, double limit) {
  return reduced_in_chunks(input, target, reduction, [limit](const Chunk& p) {
    kernels::huber(DeviceType::cpu, p.over({p.out, p.a, p.b}), limit);
  });
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, int64_t reduction, double beta) {
  CHECK(beta >= 0, RuntimeError, "smooth_l1_loss does not support negative values for beta. Got {}",
        beta);
  if (beta == 0) return l1_loss(input, target, reduction);
  if (beta == 1) {
    Tensor total = huber_in_chunks(input, target, reduction, beta);
    if (total.defined()) return total;
  }
  const Tensor loss = huber("smooth_l1_loss", input, target, beta);
  return reduced(beta == 1 ? loss : loss / beta, check_reduction(reduction));
}
OP_FUNCTION((one_step<smooth_l1_loss, "smooth_l1_loss">),
            "smooth_l1_loss(input, target, reduction=1, beta=1.0)",
            "Half the squared difference over beta where it is below beta, else the absolute one.",
            autocast_exact)

// A loss in the dtype of the argument that decides on it, as some losses have it.
Tensor in_dtype_of(const char* op, const Tensor& loss, const Tensor& argument) {
  CHECK(argument.is_floating(), RuntimeError,
        "{}: result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(loss.dtype()), dtype_legacy_name(argument.dtype()));
  return to(loss, argument.dtype());
}

Tensor huber_loss(const Tensor& input, const Tensor& target, int64_t reduction, double delta) {
  CHECK(delta > 0, RuntimeError,
        "huber_loss does not support non-positive values for delta. Got {}", delta);
  Tensor total = huber_in_chunks(input, target, reduction, delta);
  if (total.defined()) return total;
  const Tensor loss = huber("huber_loss", input, target, delta);
  return reduced(in_dtype_of("huber_loss", loss, input), check_reduction(reduction));
}
OP_FUNCTION((one_step<huber_loss, "huber_loss">),
            "huber_loss(input, target, reduction=1, delta=1.0)",
            "Half the squared difference where it is below delta, else linear in it.",
            autocast_exact)

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            int64_t reduction) {
  CHECK(input.is_floating(), NotImplementedError,
        "\"binary_cross_entropy\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  CHECK(input.sizes() == target.sizes(), ValueError,
        "binary_cross_entropy: target size {} differs from input size {}", target.sizes(),
        input.sizes());
  CHECK(input.dtype() == target.dtype(), RuntimeError,
        "binary_cross_entropy: Found dtype {} but expected {}", dtype_legacy_name(target.dtype()),
        dtype_legacy_name(input.dtype()));
  if (input.numel() != 0 && kernels::check_probabilities.filled(input.device_type())) {
    kernels::check_probabilities(input.device_type(), contiguous(detach(input)));
  } else if (input.numel() != 0 && input.device_type() != DeviceType::meta) {
    const NoGrad off;
    // Not a number counts as outside.
    const Tensor inside = (input >= 0.0) & (input <= 1.0);
    CHECK(is_nonzero(amin(to(inside, DType::uint8), {}, false)), RuntimeError,
          "all elements of input should be between 0 and 1");
  }
  if (!weight.defined()) {
    Tensor total = reduced_in_chunks(input, target, reduction, [](const Chunk& p) {
      p.run(kernels::bce, {p.out, p.a, p.b});
    });
    if (total.defined()) return total;
  }
  Tensor loss = bce(input, target);
  if (weight.defined()) loss = to(loss * weight, input.dtype());
  return reduced(loss, check_reduction(reduction));
}
OP_FUNCTION((one_step<binary_cross_entropy, "binary_cross_entropy">),
            "binary_cross_entropy(input, target, weight=None, reduction=1)",
            "The cross-entropy of probabilities against targets in [0, 1].",
            cpu_exact | cuda_refused)

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, const Tensor& pos_weight,
                                        int64_t reduction) {
  CHECK(input.is_floating(), NotImplementedError, "\"log_sigmoid_cpu\" not implemented for '{}'",
        dtype_legacy_name(input.dtype()));
  CHECK(target.dtype() != DType::bool_, NotImplementedError,
        "binary_cross_entropy_with_logits: Subtraction, the `-` operator, with two bool tensors is "
        "not supported; the target is one: target.to(input.dtype) is what the loss needs");
  if (!pos_weight.defined() && !weight.defined()) {
    Tensor total = reduced_in_chunks(input, target, reduction, [](const Chunk& p) {
      p.run(kernels::bce_logits, {p.out, p.a, p.b});
    });
    if (total.defined()) return total;
  }
  Tensor loss;
  if (pos_weight.defined()) {
    // (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x)), with the logarithm written without overflow.
    const Tensor factor = (pos_weight - 1) * target + 1;
    loss = (1 - target) * input - factor * log_sigmoid(input);
  } else {
    loss = bce_logits(input, target);
  }
  if (weight.defined()) loss = loss * weight;
  return reduced(in_dtype_of("binary_cross_entropy_with_logits", loss, target),
                 check_reduction(reduction));
}
OP_FUNCTION(
    (one_step<binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits">),
    "binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1)",
    "The cross-entropy of logits against targets in [0, 1].", autocast_exact | no_out)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
// The samples' items are items of one batch; what is left out of a mean is weighed with zero.
bool batch_nll(Batching& batch, Result& result) {
  const Tensor input = batch.tensor(0), target = batch.tensor(1), weight = batch.tensor(2);
  if (input.dim() == 0 || batch.is_batched(weight)) return false;
  const int64_t reduction = batch.integer("reduction"), ignored = batch.integer("ignore_index");
  const bool single = input.dim() == 1;
  const Tensor inputs = single ? batch.whole(0) : fold_batch(batch.whole(0));
  const Tensor targets = single ? batch.whole(1) : fold_batch(batch.whole(1));
  result.form = Result::Form::tensor;
  const Tensor each = tensor_op("nll_loss_nd", {inputs, targets, weight, 0, ignored});
  Dims size = target.sizes().dims();
  size.insert(size.begin(), batch.size());
  result.tensor = reshape_to(each, size);
  if (reduction == 0) return true;
  result.tensor = sum_samples(result.tensor);
  if (reduction == 2) return true;
  const Tensor counts = tensor_op("ne", {targets, ignored});
  Tensor weights = tensor_op("to", {counts, inputs.dtype()});
  if (weight.defined()) {
    const Tensor named = tensor_op("mul", {targets, counts});
    weights = tensor_op("mul", {weights, tensor_op("take", {weight, named})});
  }
  result.tensor = tensor_op("div", {result.tensor, sum_samples(reshape_to(weights, size))});
  return true;
}
// Of indices of classes; log_softmax and nll_loss have rules.
bool batch_cross_entropy(Batching& batch, Result& result) {
  const Tensor input = batch.tensor(0), target = batch.tensor(1);
  const int at = batch.find("label_smoothing");
  if (input.dim() == 0 || input.sizes() == target.sizes() || batch.value(at).real != 0 ||
      batch.flag("wide"))
    return false;
  const AtVmapLevel inside(batch.level());
  const Tensor logs = tensor_op("log_softmax", {input, input.dim() == 1 ? 0 : 1});
  result.form = Result::Form::tensor;
  result.tensor = batch.whole(tensor_op(
      "nll_loss_nd",
      {logs, target, batch.tensor(2), batch.integer("reduction"), batch.integer("ignore_index")}));
  return true;
}
}  // namespace
BATCH(nll_loss_nd, batch_nll)
BATCH(nll_loss, batch_nll)
BATCH(cross_entropy_loss, batch_cross_entropy)
BATCH(mse_loss, batch_loss)
BATCH(l1_loss, batch_loss)
BATCH(smooth_l1_loss, batch_loss)
BATCH(huber_loss, batch_loss)
BATCH(binary_cross_entropy, batch_loss)
BATCH(binary_cross_entropy_with_logits, batch_loss)

}  // namespace flambeau
