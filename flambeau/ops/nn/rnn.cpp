// A recurrent layer as one op. The products with the input are done for all steps at once, those
// with the state step by step; in the backward pass the gradients of all weights again are products
// over all steps at once.
#include "flambeau/ops/nn/rnn.h"

#include <array>
#include <numeric>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/rnn.h"
#include "flambeau/ops/matmul/matmul.h"
#include "flambeau/ops/nn/double_backward.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

Steps Steps::equal(int64_t steps, int64_t batch) {
  Steps result;
  result.counts.assign(steps, batch);
  for (int64_t t = 0; t < steps; ++t) result.starts.push_back(t * batch);
  return result;
}

Steps Steps::packed(const Tensor& batch_sizes) {
  CHECK(batch_sizes.dim() == 1 && batch_sizes.numel() > 0 && batch_sizes.dtype() == DType::int64 &&
            batch_sizes.device_type() == DeviceType::cpu,
        RuntimeError,
        "batch_sizes must be a non-empty 1D CPU int64 tensor, but got shape {} and dtype {}",
        batch_sizes.sizes(), batch_sizes.dtype());
  Steps result;
  const Tensor sizes = contiguous(batch_sizes);
  int64_t start = 0;
  for (int64_t t = 0; t < sizes.numel(); ++t) {
    const int64_t count = sizes.data<int64_t>()[t];
    CHECK(count > 0 && (t == 0 || count <= result.counts.back()), RuntimeError,
          "batch_sizes must be positive and never grow, but step {} has {}", t, count);
    result.counts.push_back(count);
    result.starts.push_back(start);
    CHECK(!__builtin_add_overflow(start, count, &start), RuntimeError,
          "batch_sizes must add up to the number of rows, but the first {} alone are too many",
          t + 1);
  }
  return result;
}

int64_t Steps::total() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

namespace {

struct Recurrence {
  Cell cell;
  bool reverse;
  Steps steps;

  [[nodiscard]] int64_t step(int64_t i) const { return reverse ? steps.size() - 1 - i : i; }
  // The rows of step t in a tensor of all steps; the first rows of a tensor of all sequences.
  [[nodiscard]] Tensor rows(const Tensor& all, int64_t t) const {
    return narrow(all, 0, steps.starts[t], steps.counts[t]);
  }
  [[nodiscard]] Tensor first(const Tensor& batch, int64_t t) const {
    return narrow(batch, 0, 0, steps.counts[t]);
  }
};

// All that is differentiable about a layer, in the order in which the node has its inputs.
struct Inputs {
  Tensor x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr;
};

// --- As operations that are differentiable any number of times -----------------------------------

// One step of the cell's definition; `gates` come from the input.
CellState composed_step(Cell cell, const Tensor& gates, const CellState& before, const Inputs& in) {
  const Tensor hidden = linear(before.h, in.w_hh, in.b_hh);
  if (cell == Cell::tanh) return {tanh(gates + hidden), {}};
  if (cell == Cell::relu) return {relu(gates + hidden), {}};
  if (cell == Cell::gru) {
    const auto x = chunk(gates, 3, 1), h = chunk(hidden, 3, 1);
    const Tensor reset = sigmoid(x[0] + h[0]), update = sigmoid(x[1] + h[1]);
    const Tensor fresh = tanh(x[2] + reset * h[2]);
    return {fresh + update * (before.h - fresh), {}};
  }
  const auto g = chunk(gates + hidden, 4, 1);
  const Tensor c = sigmoid(g[1]) * before.c + sigmoid(g[0]) * tanh(g[2]);
  const Tensor h = sigmoid(g[3]) * tanh(c);
  return {in.w_hr.defined() ? linear(h, in.w_hr, {}) : h, c};
}

// The state of the first `count` sequences, some of which may not have begun yet.
Tensor resumed(const Tensor& state, const Tensor& start, int64_t count) {
  if (!state.defined()) return state;
  const int64_t running = state.sizes()[0];
  if (running == count) return state;
  if (running > count) return narrow(state, 0, 0, count);
  return cat({state, narrow(start, 0, running, count - running)}, 0);
}

// Puts the rows of sequences that have ended behind those of the ones that still run.
Tensor with_ended(const Tensor& running, const std::vector<Tensor>& ended) {
  std::vector<Tensor> all{running};
  all.insert(all.end(), ended.rbegin(), ended.rend());
  return all.size() == 1 ? running : cat(all, 0);
}

std::tuple<Tensor, CellState> composed(const Recurrence& r, const Inputs& in) {
  const Tensor gates = linear(in.x, in.w_ih, in.b_ih);
  std::vector<Tensor> outputs(r.steps.size()), ended_h, ended_c;
  const int64_t begun = r.steps.counts[r.step(0)];
  CellState state{narrow(in.h, 0, 0, begun), in.c.defined() ? narrow(in.c, 0, 0, begun) : in.c};
  for (int64_t i = 0; i < r.steps.size(); ++i) {
    const int64_t t = r.step(i), count = r.steps.counts[t], running = state.h.sizes()[0];
    if (count < running) {
      ended_h.push_back(narrow(state.h, 0, count, running - count));
      if (state.c.defined()) ended_c.push_back(narrow(state.c, 0, count, running - count));
    }
    const CellState before{resumed(state.h, in.h, count), resumed(state.c, in.c, count)};
    state = composed_step(r.cell, r.rows(gates, t), before, in);
    outputs[t] = state.h;
  }
  return {
      cat(outputs, 0),
      {with_ended(state.h, ended_h), state.c.defined() ? with_ended(state.c, ended_c) : state.c}};
}

// --- In one pass ---------------------------------------------------------------------------------

// What the backward pass needs of the forward pass: one row for every row of the data.
struct Kept {
  Tensor gates;   // activated
  Tensor hidden;  // of a GRU: what the state gave
  Tensor h_before, c_before, c;
  Tensor raw;  // the state before its projection
};

void product_into(const Tensor& out, const Tensor& a, const Tensor& b, bool transpose_b, bool add) {
  if (out.numel() == 0) return;
  multiply("rnn", as_matrix(out), as_matrix(a), as_matrix(b, transpose_b),
           add ? as_addend(out, as_matrix(out)) : MatrixView{}, add ? 1.0 : 0.0);
}

// The state before step t: of the sequences that ran in the step before, and of those that begin.
void enter(const Recurrence& r, const Tensor& kept, const Tensor& state, int64_t t) {
  copy_(r.rows(kept, t), r.first(state, t));
}

Tensor bias_of(Cell cell, const Inputs& in) {
  if (cell == Cell::gru || !in.b_ih.defined()) return in.b_ih;
  return in.b_ih + in.b_hh;
}

std::tuple<Tensor, CellState> forward(const Recurrence& r, const Inputs& in, Kept& kept) {
  const int64_t total = in.x.sizes()[0], width = in.w_hh.sizes()[0], out_width = in.h.sizes()[1];
  const auto all = [&](int64_t columns) {
    return make_tensor({total, columns}, in.x.dtype(), in.x.device());
  };
  kept.gates = linear(in.x, in.w_ih, bias_of(r.cell, in));
  kept.h_before = all(out_width);
  Tensor output = all(out_width);
  CellState state{clone(in.h, MemoryFormat::contiguous), {}};
  if (r.cell == Cell::gru) kept.hidden = all(width);
  if (r.cell == Cell::lstm) {
    state.c = clone(in.c, MemoryFormat::contiguous);
    kept.c_before = all(in.c.sizes()[1]), kept.c = all(in.c.sizes()[1]);
    kept.raw = in.w_hr.defined() ? all(in.c.sizes()[1]) : output;
  }
  const DeviceType device = in.x.device_type();
  for (int64_t i = 0; i < r.steps.size(); ++i) {
    const int64_t t = r.step(i);
    const Tensor gates = r.rows(kept.gates, t), out = r.rows(output, t);
    enter(r, kept.h_before, state.h, t);
    const Tensor before = r.rows(kept.h_before, t);
    if (r.cell == Cell::gru) {
      const Tensor hidden = r.rows(kept.hidden, t);
      if (in.b_hh.defined()) copy_(hidden, expand(in.b_hh, hidden.sizes()));
      product_into(hidden, before, in.w_hh, true, in.b_hh.defined());
      kernels::gru_step(device, gates, hidden, before, out);
    } else {
      product_into(gates, before, in.w_hh, true, true);
      if (r.cell == Cell::lstm) {
        enter(r, kept.c_before, state.c, t);
        const Tensor c = r.rows(kept.c, t), raw = r.rows(kept.raw, t);
        kernels::lstm_step(device, gates, r.rows(kept.c_before, t), c, raw);
        if (in.w_hr.defined()) product_into(out, raw, in.w_hr, true, false);
        copy_(r.first(state.c, t), c);
      } else {
        kernels::rnn_step(device, gates, out, r.cell == Cell::relu);
      }
    }
    copy_(r.first(state.h, t), out);
  }
  return {output, state};
}

Tensor transposed_product(const Tensor& a, const Tensor& b) {
  return product("mm", a, true, b, false);
}

struct Backward {
  const Recurrence& r;
  const Inputs& in;
  const Kept& kept;
  const Tensor& output;

  // Gradients of all steps: of the gates, of what the state gave, of the projected state.
  Tensor gates, hidden, projected;

  void step(int64_t t, const Tensor& grad_out, const Tensor& grad_h, const Tensor& grad_c) const {
    const DeviceType device = output.device_type();
    const Tensor gh = r.first(grad_h, t), to_gates = r.rows(gates, t);
    if (grad_out.defined()) add_(gh, r.rows(grad_out, t));
    const Tensor activated = r.rows(kept.gates, t);
    if (r.cell == Cell::gru) {
      const Tensor to_hidden = r.rows(hidden, t);
      kernels::gru_step_backward(device, activated, r.rows(kept.hidden, t),
                                 r.rows(kept.h_before, t), gh, to_gates, to_hidden);
      product_into(gh, to_hidden, in.w_hh, false, true);
      return;
    }
    if (r.cell == Cell::lstm) {
      Tensor raw = gh;
      if (in.w_hr.defined()) {
        copy_(r.rows(projected, t), gh);
        raw = product("mm", gh, false, in.w_hr, false);
      }
      kernels::lstm_step_backward(device, activated, r.rows(kept.c_before, t), r.rows(kept.c, t),
                                  raw, r.first(grad_c, t), to_gates);
    } else {
      kernels::rnn_step_backward(device, r.rows(output, t), gh, to_gates, r.cell == Cell::relu);
    }
    product_into(gh, to_gates, in.w_hh, false, false);
  }

  void run(Grads& grads, Grads& out, const std::vector<bool>& wanted) {
    const auto start = [](const Tensor& grad, const Tensor& like) {
      return grad.defined() ? clone(grad, MemoryFormat::contiguous)
                            : zeros(like.sizes(), options_of(like));
    };
    const Tensor grad_h = start(grads[1], in.h);
    const Tensor grad_c = r.cell == Cell::lstm ? start(grads[2], in.c) : Tensor();
    gates = empty_like(kept.gates);
    if (r.cell == Cell::gru) hidden = empty_like(kept.gates);
    if (in.w_hr.defined()) projected = empty_like(output);
    const Tensor grad_out = grads[0].defined() ? contiguous(grads[0]) : grads[0];
    for (int64_t i = r.steps.size(); i-- > 0;) step(r.step(i), grad_out, grad_h, grad_c);
    const Tensor& to_state = r.cell == Cell::gru ? hidden : gates;
    if (wanted[0]) out[0] = product("mm", gates, false, in.w_ih, false);
    out[1] = grad_h;
    if (r.cell == Cell::lstm) out[2] = grad_c;
    if (wanted[3]) out[3] = transposed_product(gates, in.x);
    if (wanted[4]) out[4] = transposed_product(to_state, kept.h_before);
    if (wanted[5]) out[5] = sum(gates, IntSpan{0}, false);
    if (wanted[6])
      out[6] = r.cell == Cell::gru ? sum(hidden, IntSpan{0}, false)
               : wanted[5]         ? out[5]
                                   : sum(gates, IntSpan{0}, false);
    if (wanted[7]) out[7] = transposed_product(projected, kept.raw);
  }
};

// The same gradients as functions of the inputs that can be differentiated again.
void composed_backward(const Recurrence& r, const Inputs& in, const Grads& grads, Grads& out) {
  double_backward_gradients({in.x, in.h, in.c, in.w_ih, in.w_hh, in.b_ih, in.b_hh, in.w_hr}, grads,
                            out, [&](const std::vector<Tensor>& x) {
                              const Inputs again{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
                              const auto [output, state] = composed(r, again);
                              return std::vector<Tensor>{output, state.h, state.c};
                            });
}

// The kernels trust that every tensor has the dtype of the data and the size that follows from
// those of the data, the first state and w_hh.
void check_inputs(const char* op, const Recurrence& r, const Inputs& in) {
  const int64_t gates = r.cell == Cell::lstm ? 4 : r.cell == Cell::gru ? 3 : 1;
  CHECK(in.x.dim() == 2 && in.h.dim() == 2 && in.w_hh.dim() == 2, RuntimeError,
        "{}: expected matrices, but got input {}, hx {}, w_hh {}", op, in.x.sizes(), in.h.sizes(),
        in.w_hh.sizes());
  const int64_t rows = in.w_hh.sizes()[0], hidden = rows / gates, width = in.h.sizes()[1];
  const int64_t batch = *std::max_element(r.steps.counts.begin(), r.steps.counts.end());
  CHECK(rows % gates == 0 && (in.w_hr.defined() || hidden == width), RuntimeError,
        "{}: a state of {} columns does not fit w_hh {} of {} gates", op, width, in.w_hh.sizes(),
        gates);
  const auto check = [&](const char* name, const Tensor& tensor, const Dims& sizes) {
    if (!tensor.defined()) return;
    check_same_device(op, in.x.device(), tensor.device());
    CHECK(tensor.dtype() == in.x.dtype(), RuntimeError,
          "{}: expected input and {} to have the same dtype, but got {} and {}", op, name,
          in.x.dtype(), tensor.dtype());
    CHECK(tensor.sizes() == IntSpan(sizes), RuntimeError, "{}: expected {} of shape {}, but got {}",
          op, name, sizes, tensor.sizes());
  };
  check("hx", in.h, {batch, width});
  check("cx", in.c, {batch, hidden});
  check("w_ih", in.w_ih, {rows, in.x.sizes()[1]});
  check("w_hh", in.w_hh, {rows, width});
  check("b_ih", in.b_ih, {rows});
  check("b_hh", in.b_hh, {rows});
  check("w_hr", in.w_hr, {width, hidden});
}

bool has_kernels(Cell cell, DeviceType device) {
  if (device == DeviceType::meta) return true;
  if (cell == Cell::lstm) return kernels::lstm_step.filled(device);
  return cell == Cell::gru ? kernels::gru_step.filled(device) : kernels::rnn_step.filled(device);
}

}  // namespace

std::tuple<Tensor, CellState> run_recurrence(Cell cell, const Tensor& x, const CellState& start,
                                             const CellWeights& weights, const Steps& steps,
                                             bool reverse) {
  const Recurrence r{cell, reverse, steps};
  const Inputs in{
      x, start.h, start.c, weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh, weights.w_hr};
  CHECK(x.sizes()[0] == steps.total(), RuntimeError,
        "rnn: the data has {} rows, but the steps add up to {}", x.sizes()[0], steps.total());
  const char* op = std::array{"lstm", "gru", "rnn_tanh", "rnn_relu"}[static_cast<size_t>(cell)];
  check_inputs(op, r, in);
  // Where the cell has no kernel of its own there are still the operations it is made of.
  if (x.is_complex() || !has_kernels(cell, x.device_type())) return composed(r, in);
  Kept kept;
  Tensor output;
  CellState state;
  {
    const NoGrad off;
    std::tie(output, state) = forward(r, in, kept);
  }
  if (!in.w_hr.defined()) kept.raw.reset();  // it is the output, which must not own its history
  std::vector<Tensor> results{output, state.h};
  if (cell == Cell::lstm) results.push_back(state.c);
  if (Record record{op, results, {in.x, in.h, in.c, in.w_ih, in.w_hh, in.b_ih, in.b_hh, in.w_hr}}) {
    std::vector<bool> wanted;
    for (size_t i = 0; i < 8; ++i) wanted.push_back(record.wants(i));
    const auto save = [&](const Tensor& t) { return t.defined() ? record.save(t) : Saved(); };
    record.all([r, kept, wanted, x = save(in.x), h = save(in.h), c = save(in.c),
                w_ih = save(in.w_ih), w_hh = save(in.w_hh), b_ih = save(in.b_ih),
                b_hh = save(in.b_hh), w_hr = save(in.w_hr),
                out = record.save_output(output)](Grads& grads, Grads& to) {
      const auto get = [](const Saved& s) { return s.defined() ? s() : Tensor(); };
      const Inputs again{get(x),    get(h),    get(c),    get(w_ih),
                         get(w_hh), get(b_ih), get(b_hh), get(w_hr)};
      if (grad_enabled()) return composed_backward(r, again, grads, to);
      Backward{r, again, kept, out(), {}, {}, {}}.run(grads, to, wanted);
    });
  }
  return {output, state};
}

}  // namespace flambeau
