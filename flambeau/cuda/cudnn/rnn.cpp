// Stacks of recurrent layers through cuDNN. What describes a stack is made once and kept; sequences
// are described anew in each call. Dropout between layers is cuDNN's own: its random numbers are
// seeded by a number drawn from the device's generator, and again after that was seeded.
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "flambeau/base/check.h"
#include "flambeau/cuda/cudnn/graph.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/generator.h"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/kernels/math_mode.h"
#include "flambeau/kernels/rnn.h"

namespace flambeau::cuda {
namespace {

constexpr const char* op = "rnn";
constexpr const char* op_backward = "rnn_backward";

// --- Descriptors, each freed with its owner ------------------------------------------------------

class TensorDescriptor {
 public:
  TensorDescriptor() { check_cudnn(cudnn().create_tensor(&raw_), op); }
  // A dense tensor of three dimensions.
  TensorDescriptor(cudnnDataType_t type, IntSpan sizes) : TensorDescriptor() {
    const int dims[] = {static_cast<int>(sizes[0]), static_cast<int>(sizes[1]),
                        static_cast<int>(sizes[2])};
    const int strides[] = {dims[1] * dims[2], dims[2], 1};
    check_cudnn(cudnn().set_tensor(raw_, type, 3, dims, strides), op);
  }
  ~TensorDescriptor() { cudnn().destroy_tensor(raw_); }
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;
  [[nodiscard]] cudnnTensorDescriptor_t get() const { return raw_; }

 private:
  cudnnTensorDescriptor_t raw_ = nullptr;
};

// Sequences of vectors, packed or of equal length.
class Sequences {
 public:
  Sequences(const RnnStack& stack, cudnnDataType_t type, int64_t width) {
    const std::vector<int64_t>& counts = stack.counts;
    const auto steps = static_cast<int>(counts.size()), batch = static_cast<int>(counts[0]);
    std::vector<int> lengths(batch, steps);
    // Sequence i runs as long as more than i rows do.
    for (int t = steps; t-- > 0;) {
      const int64_t behind = t + 1 < steps ? counts[t + 1] : 0;
      for (int64_t i = behind; i < counts[t]; ++i) lengths[i] = t + 1;
    }
    check_cudnn(cudnn().create_rnn_data(&raw_), op);
    double zero = 0;  // of any type
    const cudnnStatus_t status =
        cudnn().set_rnn_data(raw_, type,
                             is_packed(stack) ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
                                              : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                             steps, batch, static_cast<int>(width), lengths.data(), &zero);
    if (status != CUDNN_STATUS_SUCCESS) cudnn().destroy_rnn_data(raw_);
    check_cudnn(status, op);
  }
  ~Sequences() { cudnn().destroy_rnn_data(raw_); }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;
  [[nodiscard]] cudnnRNNDataDescriptor_t get() const { return raw_; }

  static bool is_packed(const RnnStack& stack) {
    return stack.counts.front() != stack.counts.back();
  }

 private:
  cudnnRNNDataDescriptor_t raw_ = nullptr;
};

// --- Dropout -------------------------------------------------------------------------------------

class DropoutDescriptor {
 public:
  DropoutDescriptor() { check_cudnn(cudnn().create_dropout(&raw_), op); }
  ~DropoutDescriptor() { cudnn().destroy_dropout(raw_); }
  DropoutDescriptor(const DropoutDescriptor&) = delete;
  DropoutDescriptor& operator=(const DropoutDescriptor&) = delete;
  [[nodiscard]] cudnnDropoutDescriptor_t get() const { return raw_; }

 private:
  cudnnDropoutDescriptor_t raw_ = nullptr;
};

// The states of the random numbers of a device. They are made once and live as long as the process.
struct DropoutStates {
  void* data = nullptr;
  size_t bytes = 0;
  const PhiloxGenerator* seeded_by = nullptr;
  uint64_t seedings = 0;  // of the generator at that time
};

DropoutStates& dropout_states(const CudnnHandle& handle, int device) {
  static auto* all = new std::vector<DropoutStates>(device_count());
  DropoutStates& states = (*all)[device];
  if (!states.data) {
    check_cudnn(cudnn().dropout_states_size(handle.get(), &states.bytes), op);
    check(cudaMalloc(&states.data, states.bytes), op);
  }
  return states;
}

// Seeds the states where they are new or the generator was seeded since.
void seed_dropout(PhiloxGenerator& generator, const CudnnHandle& handle, int device) {
  DropoutStates& states = dropout_states(handle, device);
  if (states.seeded_by == &generator && states.seedings == generator.seedings()) return;
  const DropoutDescriptor seeding;
  check_cudnn(cudnn().set_dropout(seeding.get(), handle.get(), 0.5F, states.data, states.bytes,
                                  static_cast<uint64_t>(generator.draw_integer())),
              op);
  states.seeded_by = &generator;
  states.seedings = generator.seedings();
}

void copy_states(void* to, const void* from, size_t bytes, int device) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, current_handle(device)), op);
}

// --- Stacks --------------------------------------------------------------------------------------

struct StackPlan {
  DropoutDescriptor dropout;
  cudnnRNNDescriptor_t rnn = nullptr;
  cudnnDataType_t type{};
  size_t weight_bytes = 0;
  std::vector<int64_t> offsets;  // of the weights, in elements
  StackPlan() = default;
  ~StackPlan() {
    if (rnn) cudnn().destroy_rnn(rnn);
  }
  StackPlan(const StackPlan&) = delete;
  StackPlan& operator=(const StackPlan&) = delete;
};

int gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

cudnnRNNMode_t mode_of(Cell cell) {
  switch (cell) {
    case Cell::lstm: return CUDNN_LSTM;
    case Cell::gru: return CUDNN_GRU;
    case Cell::tanh: return CUDNN_RNN_TANH;
    default: return CUDNN_RNN_RELU;
  }
}

cudnnMathType_t math_of(DType dtype, bool tf32) {
  if (dtype == DType::float16 || dtype == DType::bfloat16) return CUDNN_TENSOR_OP_MATH;
  return dtype == DType::float32 && !tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

void describe_stack(StackPlan& plan, const RnnStack& s, DType dtype, bool tf32,
                    const CudnnHandle& handle, int device) {
  const Cudnn& library = cudnn();
  const bool drops = s.dropout > 0;
  const DropoutStates states = drops ? dropout_states(handle, device) : DropoutStates{};
  check_cudnn((drops ? library.restore_dropout : library.set_dropout)(
                  plan.dropout.get(), handle.get(), static_cast<float>(s.dropout), states.data,
                  states.bytes, 0),
              op);
  plan.type = cudnn_type(op, dtype);
  const cudnnDataType_t compute = dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  check_cudnn(library.create_rnn(&plan.rnn), op);
  check_cudnn(library.set_rnn(plan.rnn, CUDNN_RNN_ALGO_STANDARD, mode_of(s.cell),
                              s.has_biases ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                              s.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                              CUDNN_LINEAR_INPUT, plan.type, compute, math_of(dtype, tf32),
                              static_cast<int32_t>(s.input), static_cast<int32_t>(s.hidden),
                              static_cast<int32_t>(s.projected ? s.projected : s.hidden),
                              static_cast<int32_t>(s.layers), plan.dropout.get(),
                              Sequences::is_packed(s) ? CUDNN_RNN_PADDED_IO_DISABLED
                                                      : CUDNN_RNN_PADDED_IO_ENABLED),
              op);
}

// Where the weights of a stack lie, or no offsets if cuDNN puts a cell's gates apart.
void find_weights(StackPlan& plan, const RnnStack& s, size_t item, const CudnnHandle& handle,
                  int device) {
  const Cudnn& library = cudnn();
  check_cudnn(library.rnn_weight_size(handle.get(), plan.rnn, &plan.weight_bytes), op);
  const TensorDescriptor matrix, vector;
  const Workspace example(plan.weight_bytes, device);
  char* const base = example.get<char>();
  const int gates = gates_of(s.cell);
  struct Place {
    int64_t matrix, vector;
  };
  const auto place = [&](int64_t layer, int id) {
    void *m = nullptr, *b = nullptr;
    check_cudnn(library.rnn_weight(handle.get(), plan.rnn, static_cast<int32_t>(layer),
                                   plan.weight_bytes, base, id, matrix.get(), &m, vector.get(), &b),
                op);
    const auto elements = [&](void* data) {
      return data ? (static_cast<char*>(data) - base) / static_cast<int64_t>(item) : -1;
    };
    return Place{elements(m), elements(b)};
  };
  bool whole = true;
  for (int64_t layer = 0; layer < s.layers * s.directions; ++layer) {
    const int64_t from = layer < s.directions ? s.input : s.directions * s.width();
    Place first[2];
    for (int side = 0; side < 2; ++side) {
      first[side] = place(layer, side * gates);
      const int64_t columns = side == 0 ? from : s.width();
      for (int g = 1; g < gates; ++g) {
        const Place next = place(layer, side * gates + g);
        whole = whole && next.matrix == first[side].matrix + g * s.hidden * columns;
        if (s.has_biases) whole = whole && next.vector == first[side].vector + g * s.hidden;
      }
    }
    for (const Place& side : first) plan.offsets.push_back(side.matrix);
    if (s.has_biases)
      for (const Place& side : first) plan.offsets.push_back(side.vector);
    if (s.projected) plan.offsets.push_back(place(layer, 8).matrix);
  }
  for (const int64_t offset : plan.offsets) whole = whole && offset >= 0;
  if (!whole) plan.offsets.clear();
}

// The plan of a stack. The handle's lock also guards the plans of its device.
StackPlan& stack_plan(const RnnStack& s, const Tensor& x, const CudnnHandle& handle) {
  using Key = std::tuple<int, DType, Cell, int64_t, int64_t, int64_t, int64_t, int64_t, bool,
                         double, bool, bool>;
  static auto* plans = new std::map<Key, std::unique_ptr<StackPlan>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const int device = x.device().index;
  const bool tf32 = math_mode.rnn_tf32.load(std::memory_order_relaxed);
  std::unique_ptr<StackPlan>& known =
      (*plans)[Key(device, x.dtype(), s.cell, s.layers, s.directions, s.input, s.hidden,
                   s.projected, s.has_biases, s.dropout, Sequences::is_packed(s), tf32)];
  if (known) return *known;
  auto plan = std::make_unique<StackPlan>();
  describe_stack(*plan, s, x.dtype(), tf32, handle, device);
  find_weights(*plan, s, x.item_size(), handle, device);
  known = std::move(plan);
  return *known;
}

void layout_kernel(const RnnStack& s, const Tensor& x, std::vector<int64_t>& offsets,
                   int64_t& length) {
  const DType dtype = x.dtype();
  const bool known = dtype == DType::float16 || dtype == DType::bfloat16 ||
                     dtype == DType::float32 || dtype == DType::float64;
  if (!known || !has_cudnn() || s.projected >= s.hidden) return;
  const DeviceGuard guard(x.device().index);
  const CudnnHandle handle(x.device().index);
  const StackPlan& plan = stack_plan(s, x, handle);
  offsets = plan.offsets;
  length = static_cast<int64_t>(plan.weight_bytes / x.item_size());
}

const void* data_of(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

struct Call {
  const RnnStack& s;
  const StackPlan& plan;
  const CudnnHandle& handle;
  int device;
  Sequences in, out;
  TensorDescriptor h, c;

  Call(const RnnStack& stack, const StackPlan& p, const CudnnHandle& own, const Tensor& x,
       const Tensor& h0, const Tensor& c0)
      : s(stack),
        plan(p),
        handle(own),
        device(x.device().index),
        in(stack, p.type, stack.input),
        out(stack, p.type, stack.directions * stack.width()),
        h(p.type, h0.sizes()),
        c(p.type, (c0.defined() ? c0 : h0).sizes()) {}

  [[nodiscard]] cudnnForwardMode_t mode() const {
    return s.keep || s.dropout > 0 ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  }
  struct Spaces {
    size_t work = 0, reserve = 0;
  };
  [[nodiscard]] Spaces spaces() const {
    Spaces sizes;
    check_cudnn(
        cudnn().rnn_spaces(handle.get(), plan.rnn, mode(), in.get(), &sizes.work, &sizes.reserve),
        op);
    return sizes;
  }

  void forward(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weights, void* y,
               void* h_end, void* c_end, const Tensor& reserve) const {
    const Spaces sizes = spaces();
    const Workspace work(sizes.work, device);
    check_cudnn(cudnn().rnn_forward(handle.get(), plan.rnn, mode(), nullptr, in.get(), x.raw(),
                                    out.get(), y, h.get(), h0.raw(), h_end, c.get(), data_of(c0),
                                    c_end, plan.weight_bytes, weights.raw(), sizes.work, work.get(),
                                    sizes.reserve, reserve.defined() ? reserve.raw() : nullptr),
                op);
  }
};

Tensor make_bytes(size_t count, Device device) {
  return make_tensor({static_cast<int64_t>(count)}, DType::uint8, device);
}

void forward_kernel(const RnnStack& s, const Tensor& x, const Tensor& h0, const Tensor& c0,
                    const Tensor& weights, const Tensor& y, const Tensor& h_end,
                    const Tensor& c_end, RnnKept& kept) {
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const CudnnHandle handle(device);
  const StackPlan& plan = stack_plan(s, x, handle);
  if (s.dropout > 0) {
    seed_dropout(static_cast<PhiloxGenerator&>(*s.generator), handle, device);
    const DropoutStates& states = dropout_states(handle, device);
    if (s.keep) {
      kept.random_state = make_bytes(states.bytes, x.device());
      copy_states(kept.random_state.raw(), states.data, states.bytes, device);
    }
  }
  const Call call(s, plan, handle, x, h0, c0);
  const Tensor reserve = make_bytes(call.spaces().reserve, x.device());
  call.forward(x, h0, c0, weights, y.raw(), h_end.raw(), c_end.defined() ? c_end.raw() : nullptr,
               reserve);
  if (s.keep) kept.reserve = reserve;
}

// Makes anew what an earlier backward pass used up, with the random numbers of that time.
void keep_again(const Call& call, const Tensor& x, const Tensor& h0, const Tensor& c0,
                const Tensor& weights, const Tensor& y, const RnnKept& kept) {
  const size_t item = x.item_size();
  const Workspace scratch(y.numel() * item, call.device), h_end(h0.numel() * item, call.device);
  const Workspace c_end(c0.defined() ? c0.numel() * item : 0, call.device);
  const bool random = kept.random_state.defined();
  DropoutStates& states = dropout_states(call.handle, call.device);
  const Workspace now(random ? states.bytes : 0, call.device);
  if (random) {
    copy_states(now.get(), states.data, states.bytes, call.device);
    copy_states(states.data, kept.random_state.raw(), states.bytes, call.device);
  }
  call.forward(x, h0, c0, weights, scratch.get(), h_end.get(), c_end.get(), kept.reserve);
  if (random) copy_states(states.data, now.get(), states.bytes, call.device);
}

void backward_kernel(const RnnStack& s, const Tensor& x, const Tensor& h0, const Tensor& c0,
                     const Tensor& weights, const Tensor& y, const Tensor& grad_y,
                     const Tensor& grad_h_end, const Tensor& grad_c_end, RnnKept& kept,
                     const Tensor& grad_x, const Tensor& grad_h, const Tensor& grad_c,
                     const Tensor& grad_weights) {
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const CudnnHandle handle(device);
  const StackPlan& plan = stack_plan(s, x, handle);
  const Call call(s, plan, handle, x, h0, c0);
  if (kept.spent) keep_again(call, x, h0, c0, weights, y, kept);
  kept.spent = true;
  const Call::Spaces sizes = call.spaces();
  const Workspace work(sizes.work, device);
  check_cudnn(cudnn().rnn_backward_data(
                  handle.get(), plan.rnn, nullptr, call.out.get(), y.raw(), grad_y.raw(),
                  call.in.get(), grad_x.raw(), call.h.get(), h0.raw(), data_of(grad_h_end),
                  grad_h.raw(), call.c.get(), data_of(c0), data_of(grad_c_end),
                  grad_c.defined() ? grad_c.raw() : nullptr, plan.weight_bytes, weights.raw(),
                  sizes.work, work.get(), sizes.reserve, kept.reserve.raw()),
              op_backward);
  if (!grad_weights.defined()) return;
  check(cudaMemsetAsync(grad_weights.raw(), 0, plan.weight_bytes, current_handle(device)),
        op_backward);
  check_cudnn(cudnn().rnn_backward_weights(
                  handle.get(), plan.rnn, CUDNN_WGRAD_MODE_ADD, nullptr, call.in.get(), x.raw(),
                  call.h.get(), h0.raw(), call.out.get(), y.raw(), plan.weight_bytes,
                  grad_weights.raw(), sizes.work, work.get(), sizes.reserve, kept.reserve.raw()),
              op_backward);
}

const bool filled = (kernels::rnn_layout.fill(DeviceType::cuda, layout_kernel),
                     kernels::rnn_stack.fill(DeviceType::cuda, forward_kernel),
                     kernels::rnn_stack_backward.fill(DeviceType::cuda, backward_kernel), true);

}  // namespace
}  // namespace flambeau::cuda
