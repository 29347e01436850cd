// A stack of recurrent layers as one op, on devices with a kernel for it. The weights are joined in
// the order in which the kernel wants them; the joining is differentiable, so this op has but one
// tensor of weights. It is not kept for the backward pass, which joins them again: a copy of all
// weights is large, and quickly made.
#include <algorithm>
#include <memory>
#include <numeric>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/nn/double_backward.h"
#include "flambeau/ops/nn/rnn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/random/random.h"

namespace flambeau {
namespace {

struct WeightLayout {
  std::vector<int64_t> offsets;
  std::vector<Dims> shapes;
  int64_t length = 0;
};

bool all_alike(const Tensor& x, const std::vector<Tensor>& others) {
  return std::all_of(others.begin(), others.end(), [&](const Tensor& t) {
    return t.defined() && t.dtype() == x.dtype() && t.device() == x.device();
  });
}

// All weights one behind the other.
Tensor join(const std::vector<Tensor>& params, const WeightLayout& layout) {
  std::vector<size_t> order(params.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return layout.offsets[a] < layout.offsets[b]; });
  std::vector<Tensor> parts;
  int64_t end = 0;
  const auto fill_up_to = [&](int64_t place) {
    if (place > end) parts.push_back(zeros({place - end}, options_of(params[0])));
  };
  for (const size_t i : order) {
    fill_up_to(layout.offsets[i]);
    parts.push_back(flatten(params[i], 0, -1));
    end = layout.offsets[i] + params[i].numel();
  }
  fill_up_to(layout.length);
  return cat(parts, 0);
}

std::vector<Tensor> take_apart(const Tensor& weights, const WeightLayout& layout) {
  std::vector<Tensor> params;
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    const auto& shape = layout.shapes[i];
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    params.push_back(view(narrow(weights, 0, layout.offsets[i], count), shape));
  }
  return params;
}

struct FusedBackward {
  RnnStack stack;
  std::shared_ptr<RnnKept> kept;
  Saved x, h, c, y;
  std::vector<Saved> params;
  WeightLayout layout;
  RunAgain again;
  bool wants_weights;

  void operator()(Grads& in, Grads& to) const {
    const Tensor x0 = x(), h0 = h(), c0 = c.defined() ? c() : Tensor(), w = weights();
    if (grad_enabled()) return twice(x0, h0, c0, w, in, to);
    const Tensor output = y();
    const auto dense = [](const Tensor& g) { return g.defined() ? contiguous(g) : g; };
    const Tensor grad_y =
        in[0].defined() ? contiguous(in[0]) : zeros(output.sizes(), options_of(output));
    to[0] = empty_like(x0, x0.dtype());
    to[1] = empty_like(h0, h0.dtype());
    if (c0.defined()) to[2] = empty_like(c0, c0.dtype());
    if (wants_weights) to[3] = make_tensor(w.sizes(), w.dtype(), w.device());
    kernels::rnn_stack_backward(x0.device_type(), stack, x0, h0, c0, w, output, grad_y,
                                dense(in[1]), c0.defined() ? dense(in[2]) : Tensor(), *kept, to[0],
                                to[1], to[2], to[3]);
  }

  [[nodiscard]] Tensor weights() const {
    std::vector<Tensor> parts;
    for (const Saved& saved : params) parts.push_back(saved());
    return join(parts, layout);
  }

  void twice(const Tensor& x0, const Tensor& h0, const Tensor& c0, const Tensor& w, const Grads& in,
             Grads& to) const {
    CHECK(stack.dropout == 0, RuntimeError,
          "Double backwards is not supported for recurrent layers with dropout between them on "
          "CUDA. Use layers of one each, with nn.Dropout between them.");
    double_backward_gradients({x0, h0, c0, w}, in, to, [&](const std::vector<Tensor>& inputs) {
      StackResults r = again(inputs[0], inputs[1], inputs[2], take_apart(inputs[3], layout));
      return std::vector<Tensor>{r.output, r.h, r.c};
    });
  }
};

}  // namespace

std::optional<StackResults> run_fused_stack(RnnStack stack, const Tensor& x, const Tensor& h,
                                            const Tensor& c, const std::vector<Tensor>& params,
                                            const RunAgain& again) {
  const DeviceType device = x.device_type();
  if (device == DeviceType::meta || !kernels::rnn_layout.filled(device) || x.numel() == 0)
    return {};
  std::vector<Tensor> all = params;
  all.push_back(h);
  if (c.defined()) all.push_back(c);
  if (!all_alike(x, all)) return {};
  WeightLayout layout;
  kernels::rnn_layout(device, stack, x, layout.offsets, layout.length);
  if (layout.offsets.size() != params.size()) return {};
  for (const Tensor& p : params) layout.shapes.push_back(p.sizes().dims());

  const Tensor weights = join(params, layout), rows = contiguous(x), h0 = contiguous(h);
  const Tensor c0 = c.defined() ? contiguous(c) : c;
  stack.keep = grad_enabled() && (rows.requires_grad() || h0.requires_grad() ||
                                  (c0.defined() && c0.requires_grad()) || weights.requires_grad());
  StackResults r;
  r.output =
      make_tensor({rows.sizes()[0], stack.directions * stack.width()}, x.dtype(), x.device());
  r.h = make_tensor(h0.sizes(), x.dtype(), x.device());
  if (c0.defined()) r.c = make_tensor(c0.sizes(), x.dtype(), x.device());
  auto kept = std::make_shared<RnnKept>();
  const auto run = [&] {
    kernels::rnn_stack(device, stack, rows, h0, c0, weights, r.output, r.h, r.c, *kept);
  };
  if (stack.dropout > 0) {
    with_generator(r.output, nullptr, [&](Generator& generator) {
      stack.generator = &generator;
      run();
    });
    stack.generator = nullptr;
  } else {
    run();
  }
  std::vector<Tensor> results{r.output, r.h};
  if (r.c.defined()) results.push_back(r.c);
  if (Record record{"rnn", results, {rows, h0, c0, weights}}) {
    std::vector<Saved> saved;
    for (const Tensor& p : params) saved.push_back(record.save(p));
    const bool wants_weights = record.wants(3);
    record.all(FusedBackward{stack, kept, record.save(rows), record.save(h0),
                             c0.defined() ? record.save(c0) : Saved(), record.save_output(r.output),
                             std::move(saved), layout, again, wants_weights});
  }
  return r;
}

}  // namespace flambeau
