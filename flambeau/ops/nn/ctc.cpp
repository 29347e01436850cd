// ctc_loss: minus the logarithm of the probability of all alignments of a target with an input.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/sequences.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

constexpr const char* checking = "(while checking arguments for ctc_loss_allocate_outputs)";

// Checks everything, and finds where each sample's labels start.
CtcTargets check_lengths(const Tensor& x, const Tensor& targets, IntSpan inputs, IntSpan wanted,
                         int64_t blank) {
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1], classes = x.sizes()[2];
  CHECK(blank >= 0 && blank < classes, RuntimeError, "blank must be in label range");
  CHECK(static_cast<int64_t>(inputs.size()) == batch, RuntimeError,
        "input_lengths must be of size batch_size");
  CHECK(static_cast<int64_t>(wanted.size()) == batch, RuntimeError,
        "target_lengths must be of size batch_size");
  CtcTargets result{{}, {}, wanted.vec(), inputs.vec(), blank};
  int64_t start = 0, longest = 0;
  for (int64_t n = 0; n < batch; ++n) {
    CHECK(inputs[n] >= 0 && inputs[n] <= steps, RuntimeError,
          "Expected input_lengths to have value at {}, but got value {} {}",
          inputs[n] < 0 ? "least 0" : "most " + std::to_string(steps), inputs[n], checking);
    CHECK(wanted[n] >= 0, RuntimeError,
          "Expected target_lengths to have value at least 0, but got value {} {}", wanted[n],
          checking);
    result.starts.push_back(targets.dim() == 1 ? start : n * targets.sizes()[1]);
    if (__builtin_add_overflow(start, wanted[n], &start)) start = INT64_MAX;  // more than there are
    longest = std::max(longest, wanted[n]);
  }
  CHECK(targets.dim() == 1 || targets.dim() == 2, RuntimeError,
        "ctc_loss: expected targets of 1 or 2 dimensions, got shape {}", targets.sizes());
  if (targets.dim() == 1) {
    CHECK(targets.numel() == start, RuntimeError,
          "Expected tensor to have size {} at dimension 0, but got size {} for argument #2 "
          "'targets' {}",
          start, targets.numel(), checking);
  } else {
    CHECK(targets.sizes()[0] == batch && targets.sizes()[1] >= longest, RuntimeError,
          "Expected tensor to have size at least {} at dimension 1, but got size {} for argument "
          "#2 'targets' {}",
          longest, targets.sizes()[1], checking);
  }
  return result;
}

void check_labels(const CtcTargets& targets, int64_t classes) {
  for (size_t n = 0; n < targets.lengths.size(); ++n) {
    const int64_t* labels = targets.labels.data() + targets.starts[n];
    for (int64_t s = 0; s < targets.lengths[n]; ++s) {
      CHECK(labels[s] >= 0 && labels[s] < classes, RuntimeError,
            "ctc_loss: target label {} of sample {} is not in the valid range [0, {})", labels[s],
            n, classes);
    }
  }
}

// The losses of the samples of a batch: (N).
Tensor sample_losses(const Tensor& x, const Tensor& labels, const CtcTargets& targets,
                     bool zero_infinity) {
  int64_t longest = 0;
  for (const int64_t length : targets.lengths) longest = std::max(longest, length);
  const Tensor dense = contiguous(detach(x));
  Tensor losses = make_tensor(IntSpan{x.sizes()[1]}, x.dtype(), x.device());
  const Tensor log_alpha =
      make_tensor({x.sizes()[1], x.sizes()[0], 2 * longest + 1}, x.dtype(), x.device());
  if (losses.numel() != 0) kernels::ctc_loss(x.device_type(), dense, targets, losses, log_alpha);
  const Tensor raw = losses;
  if (zero_infinity) {
    const NoGrad off;
    losses = masked_fill(raw, raw == std::numeric_limits<double>::infinity(), 0.0);
  } else {
    losses = clone(raw);
  }
  if (Record r{"ctc_loss", losses, {x}}) {
    r.wrt(0, [x = r.save(x), labels = r.save(labels), targets, raw, log_alpha,
              zero_infinity](const Tensor& g) {
      static_cast<void>(labels());  // which must not have been written to
      CHECK(!grad_enabled(), RuntimeError,
            "the derivative for '_ctc_loss_backward' is not implemented.");
      const Tensor again = contiguous(x());
      Tensor grad_x = zeros(again.sizes(), options_of(again));
      if (grad_x.numel() != 0) {
        kernels::ctc_loss_backward(again.device_type(), contiguous(g), again, targets, raw,
                                   log_alpha, grad_x, zero_infinity);
      }
      return grad_x;
    });
  }
  return losses;
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, IntSpan input_lengths,
                IntSpan target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  CHECK(log_probs.dim() == 2 || log_probs.dim() == 3, RuntimeError,
        "ctc_loss: expected log_probs of 2 or 3 dimensions, got shape {}", log_probs.sizes());
  CHECK(reduction >= 0 && reduction <= 2, ValueError, "{} is not a valid value for reduction",
        reduction);
  CHECK(log_probs.dtype() == DType::float32 || log_probs.dtype() == DType::float64,
        NotImplementedError, "\"ctc_loss_cpu\" not implemented for '{}'",
        dtype_legacy_name(log_probs.dtype()));
  const bool batched = log_probs.dim() == 3;
  const Tensor x = batched ? log_probs : unsqueeze(log_probs, 1);
  const Tensor labels = contiguous(to(to(detach(targets), DType::int64), Device()));
  CtcTargets wanted = check_lengths(x, labels, input_lengths, target_lengths, blank);
  if (x.device_type() != DeviceType::meta) {
    wanted.labels.assign(labels.data<int64_t>(), labels.data<int64_t>() + labels.numel());
    check_labels(wanted, x.sizes()[2]);
  }
  const Tensor losses = sample_losses(x, labels, wanted, zero_infinity);
  if (reduction == 2) return sum(losses);
  if (reduction == 0) return batched ? losses : squeeze(losses, int64_t{0});
  Tensor counts = make_tensor(IntSpan{losses.numel()}, DType::int64, Device());
  for (int64_t n = 0; n < counts.numel(); ++n)
    counts.data<int64_t>()[n] = std::max<int64_t>(wanted.lengths[n], 1);
  return mean(losses / to(to(counts, losses.dtype()), losses.device()), {}, false);
}
#define CTC_ARGUMENTS ", blank=0, reduction=0, zero_infinity=False)"
OP_FUNCTION(ctc_loss, "ctc_loss(log_probs, targets, input_lengths, target_lengths" CTC_ARGUMENTS,
            "Minus the logarithm of the probability of all alignments of targets with log_probs, "
            "(T, N, C), as connectionist temporal classification has it.",
            autocast_exact | no_out)

Tensor ctc_loss_of_tensors(const Tensor& log_probs, const Tensor& targets,
                           const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank,
                           int64_t reduction, bool zero_infinity) {
  const auto values = [](const Tensor& lengths) {
    CHECK(is_integral(lengths.dtype()), RuntimeError, "input_lengths must be integral");
    const Tensor flat = contiguous(to(to(lengths, DType::int64), Device()));
    return std::vector<int64_t>(flat.data<int64_t>(), flat.data<int64_t>() + flat.numel());
  };
  return ctc_loss(log_probs, targets, values(input_lengths), values(target_lengths), blank,
                  reduction, zero_infinity);
}
OP_FUNCTION(ctc_loss_of_tensors,
            "ctc_loss(log_probs, targets, input_lengths, target_lengths" CTC_ARGUMENTS,
            "The same, with lengths in tensors.", autocast_exact | no_out)
#undef CTC_ARGUMENTS

}  // namespace
}  // namespace flambeau
