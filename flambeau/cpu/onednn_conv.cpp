// Convolution through oneDNN. It computes in layouts of its own choice; tensors in another one are
// reordered on the way in and out. A plan (primitives and layouts) is made once for each problem.
#include <omp.h>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/conv.h"
#include "flambeau/cpu/gemm.h"
#include "flambeau/cpu/onednn.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cpu {
namespace {

using dnnl::memory;

enum class Pass : uint8_t { forward, input, weight };

// One operand: how the tensor lies in memory and how the primitive wants it.
struct Operand {
  memory::desc given, wanted;
  dnnl::reorder reorder;  // from given to wanted, or back for a result
  [[nodiscard]] bool moves() const { return given != wanted; }
};

struct Plan {
  dnnl::primitive primitive;
  Operand x, w, y;
  memory::desc bias;
  size_t scratchpad_bytes = 0;
  memory::desc scratchpad;
};

struct Problem {
  Pass pass;
  const Tensor &x, &w, &y, &bias;  // as in the forward convolution; gradients stand in for them
  const ConvGeometry& geometry;
};

bool is_channels_last(const Tensor& tensor) {
  return !tensor.is_contiguous() && tensor.strides()[1] == 1;
}

// The strides of a dense tensor. Those of dimensions of size 1 may be anything, which oneDNN would
// take for another layout: they get the value that the layout gives them.
Dims layout_strides(const Tensor& tensor) {
  if (!is_channels_last(tensor)) return contiguous_strides(tensor.sizes());
  Dims strides(tensor.dim(), 1);
  int64_t step = tensor.sizes()[1];
  for (int64_t d = tensor.dim() - 1; d >= 2; --d) {
    strides[d] = step;
    step *= tensor.sizes()[d];
  }
  strides[0] = step;
  return strides;
}

memory::desc describe(const Tensor& tensor) {
  return {tensor.sizes().vec(), data_type(tensor.dtype()), IntSpan(layout_strides(tensor)).vec()};
}

// A weight with its groups as a dimension of their own, as oneDNN has them.
memory::desc describe_weight(const Tensor& w, int64_t groups) {
  if (groups == 1) return describe(w);
  memory::dims sizes = w.sizes().vec(), strides = IntSpan(layout_strides(w)).vec();
  sizes[0] /= groups;
  sizes.insert(sizes.begin(), groups);
  strides.insert(strides.begin(), strides[0] * sizes[1]);
  return {sizes, data_type(w.dtype()), strides};
}

memory::desc any_layout(const memory::desc& given) {
  return {given.get_dims(), given.get_data_type(), memory::format_tag::any};
}

// Padding behind each dimension, so that the sizes agree.
memory::dims padding_behind(const Problem& p) {
  memory::dims behind;
  for (size_t d = 0; d < p.geometry.stride.size(); ++d) {
    const int64_t reach = p.geometry.dilation[d] * (p.w.sizes()[d + 2] - 1) + 1;
    behind.push_back((p.y.sizes()[d + 2] - 1) * p.geometry.stride[d] + reach - p.x.sizes()[d + 2] -
                     p.geometry.padding[d]);
  }
  return behind;
}

template <class Description>
void complete(Plan& plan, const Description& description, const memory::desc& x,
              const memory::desc& w, const memory::desc& y) {
  plan.primitive = dnnl::primitive(description.get());
  plan.x.wanted = x;
  plan.w.wanted = w;
  plan.y.wanted = y;
  plan.scratchpad = description.scratchpad_desc();
  plan.scratchpad_bytes = plan.scratchpad.get_size();
}

void make_primitive(const Problem& p, Plan& plan) {
  // Channels-last tensors are used as they lie; others in whatever layout is fastest.
  const bool channels_last = is_channels_last(p.x) || is_channels_last(p.y);
  const memory::desc x = channels_last ? plan.x.given : any_layout(plan.x.given);
  const memory::desc y = channels_last ? plan.y.given : any_layout(plan.y.given);
  const memory::desc w = any_layout(plan.w.given);
  const memory::dims stride = IntSpan(p.geometry.stride).vec();
  const memory::dims before = IntSpan(p.geometry.padding).vec();
  memory::dims dilation = IntSpan(p.geometry.dilation).vec();
  for (auto& step : dilation) --step;  // oneDNN counts the gaps
  const memory::dims behind = padding_behind(p);
  if (p.bias.defined()) {
    plan.bias = {{p.bias.numel()}, data_type(p.bias.dtype()), memory::format_tag::x};
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      engine(), dnnl::prop_kind::forward_training, direct, x, w,
      p.pass == Pass::forward ? plan.bias : memory::desc(), y, stride, dilation, before, behind,
      attributes);
  if (p.pass == Pass::forward) {
    complete(plan, forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc());
  } else if (p.pass == Pass::input) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        engine(), direct, x, w, y, stride, dilation, before, behind, forward, attributes);
    complete(plan, backward, backward.diff_src_desc(), backward.weights_desc(),
             backward.diff_dst_desc());
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        engine(), direct, x, w, plan.bias, y, stride, dilation, before, behind, forward,
        attributes);
    complete(plan, backward, backward.src_desc(), backward.diff_weights_desc(),
             backward.diff_dst_desc());
  }
}

Plan make_plan(const Problem& p) {
  Plan plan;
  plan.x.given = describe(p.x);
  plan.w.given = describe_weight(p.w, p.geometry.groups);
  plan.y.given = describe(p.y);
  make_primitive(p, plan);
  const auto add_reorder = [](Operand& operand, bool is_result) {
    if (!operand.moves()) return;
    const memory::desc& from = is_result ? operand.wanted : operand.given;
    const memory::desc& to = is_result ? operand.given : operand.wanted;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
    operand.reorder =
        dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes));
  };
  add_reorder(plan.x, p.pass == Pass::input);
  add_reorder(plan.w, p.pass == Pass::weight);
  add_reorder(plan.y, p.pass == Pass::forward);
  return plan;
}

// --- The cache of plans --------------------------------------------------------------------------

PlanKey key_of(const Problem& p) {
  PlanKey key{static_cast<int64_t>(p.pass), static_cast<int64_t>(p.x.dtype()), get_num_threads(),
              p.geometry.groups, p.bias.defined()};
  const auto append = [&](IntSpan values) { key.insert(key.end(), values.begin(), values.end()); };
  for (const Tensor* tensor : {&p.x, &p.w, &p.y}) {
    append(tensor->sizes());
    key.push_back(is_channels_last(*tensor));
  }
  append(p.geometry.stride);
  append(p.geometry.padding);
  append(p.geometry.dilation);
  return key;
}

std::shared_ptr<const Plan> plan_for(const Problem& p) {
  static PlanCache<Plan> plans;
  return plans.find_or_make(key_of(p), [&] {
    try {
      return make_plan(p);
    } catch (const dnnl::error& error) {
      fail<RuntimeError>("convolution: oneDNN cannot do input {}, weight {}: {}", p.x.sizes(),
                         p.w.sizes(), error.what());
    }
  });
}

// --- Running one ---------------------------------------------------------------------------------

// The memory that the primitive works on: the tensor's own, or a buffer in the wanted layout.
class Bound {
 public:
  Bound(const Operand& operand, void* data, bool is_result)
      : operand_(operand),
        buffer_(operand.moves() ? operand.wanted.get_size() : 0),
        outside_(operand.given, engine(), data),
        inside_(operand.wanted, engine(), operand.moves() ? buffer_.data() : data) {
    if (operand.moves() && !is_result) operand.reorder.execute(stream(), outside_, inside_);
  }
  [[nodiscard]] dnnl_memory_t get() const { return inside_.get(); }
  void finish() {
    if (operand_.moves()) operand_.reorder.execute(stream(), inside_, outside_);
  }

 private:
  const Operand& operand_;
  Bytes buffer_;
  memory outside_, inside_;
};

// A tensor of rows as one of images that are a row high.
Tensor one_row_high(const Tensor& rows) {
  Dims sizes = rows->sizes, strides = rows->strides;
  sizes.insert(sizes.begin() + 2, 1);
  strides.insert(strides.begin() + 2, sizes[3] * strides[2]);
  return make_alias(rows, sizes, strides, rows.offset());
}

void run(const Problem& p) {
  // For groups oneDNN has quick code for images alone.
  if (p.x.dim() == 3 && p.geometry.groups > 1) {
    ConvGeometry geometry = p.geometry;
    geometry.stride.insert(geometry.stride.begin(), 1);
    geometry.padding.insert(geometry.padding.begin(), 0);
    geometry.dilation.insert(geometry.dilation.begin(), 1);
    return run({p.pass, one_row_high(p.x), one_row_high(p.w), one_row_high(p.y), p.bias, geometry});
  }
  omp_set_num_threads(get_num_threads());
  const std::shared_ptr<const Plan> plan = plan_for(p);
  Bound x(plan->x, p.x.raw(), p.pass == Pass::input);
  Bound w(plan->w, p.w.raw(), p.pass == Pass::weight);
  Bound y(plan->y, p.y.raw(), p.pass == Pass::forward);
  const Bytes scratch(plan->scratchpad_bytes);
  const memory scratchpad(plan->scratchpad, engine(), scratch.data());
  const int x_name = p.pass == Pass::input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  const int w_name = p.pass == Pass::weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  const int y_name = p.pass == Pass::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
  dnnl_exec_arg_t arguments[5] = {{x_name, x.get()},
                                  {w_name, w.get()},
                                  {y_name, y.get()},
                                  {DNNL_ARG_SCRATCHPAD, scratchpad.get()}};
  int count = 4;
  memory bias;
  if (p.bias.defined()) {
    bias = memory(plan->bias, engine(), p.bias.raw());
    arguments[count++] = {p.pass == Pass::weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, bias.get()};
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(plan->primitive.get(), stream().get(), count, arguments);
  CHECK(status == dnnl_success, RuntimeError, "convolution: oneDNN failed with status {}",
        static_cast<int>(status));
  if (p.pass == Pass::forward) y.finish();
  if (p.pass == Pass::input) x.finish();
  if (p.pass == Pass::weight) w.finish();
}

}  // namespace

bool onednn_can_convolve(DType dtype) {
  return dtype == DType::float32 || (dtype == DType::bfloat16 && has_bgemm());
}

void onednn_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 const ConvGeometry& geometry) {
  run({Pass::forward, x, weight, y, bias, geometry});
}

void onednn_conv_input(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x,
                       const ConvGeometry& geometry) {
  run({Pass::input, grad_x, weight, grad_y, Tensor(), geometry});
}

void onednn_conv_weight(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight,
                        const Tensor& grad_bias, const ConvGeometry& geometry) {
  run({Pass::weight, x, grad_weight, grad_y, grad_bias, geometry});
}

}  // namespace flambeau::cpu
