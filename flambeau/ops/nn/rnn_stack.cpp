// lstm, gru, rnn_tanh and rnn_relu: layers and directions stacked over batches of equal sequences
// or packed ones; and the cells, which are one step of them.
#include <algorithm>

#include "flambeau/ops/nn/dropout.h"
#include "flambeau/ops/nn/rnn.h"
#include "flambeau/ops/ops.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

using TensorList = std::vector<Tensor>;

struct Stack {
  Cell cell;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional;

  [[nodiscard]] int64_t directions() const { return bidirectional ? 2 : 1; }
};

// The weights of all layers and directions, out of the flat list of them.
std::vector<CellWeights> sort_weights(const Stack& stack, const TensorList& params) {
  const auto count = static_cast<int64_t>(params.size());
  const int64_t layers = std::clamp<int64_t>(stack.num_layers, 0, count);
  const int64_t cells = layers * stack.directions();
  const int64_t plain = stack.has_biases ? 4 : 2;
  CHECK(layers == stack.num_layers && cells > 0 && count % cells == 0, RuntimeError,
        "got an incorrect number of RNN parameters: {} for {} layers of {} directions",
        params.size(), stack.num_layers, stack.directions());
  const int64_t each = count / cells;
  CHECK(each == plain || (each == plain + 1 && stack.cell == Cell::lstm), RuntimeError,
        "got an incorrect number of RNN parameters: {} for each layer and direction", each);
  std::vector<CellWeights> sorted;
  for (int64_t i = 0; i < cells; ++i) {
    const Tensor* own = params.data() + i * each;
    CellWeights weights{own[0], own[1], {}, {}, {}};
    if (stack.has_biases) weights.b_ih = own[2], weights.b_hh = own[3];
    if (each > plain) weights.w_hr = own[each - 1];
    sorted.push_back(weights);
  }
  return sorted;
}

using Results = StackResults;

// rows: (total, I), the data of all steps below each other.
Results run_layers(const Stack& stack, Tensor rows, const Steps& steps, const Tensor& h0,
                   const Tensor& c0, const std::vector<CellWeights>& weights) {
  TensorList h_all, c_all;
  for (int64_t layer = 0; layer < stack.num_layers; ++layer) {
    TensorList outputs;
    for (int64_t d = 0; d < stack.directions(); ++d) {
      const int64_t i = layer * stack.directions() + d;
      const CellState start{select(h0, 0, i), c0.defined() ? select(c0, 0, i) : c0};
      const auto [output, state] =
          run_recurrence(stack.cell, rows, start, weights[i], steps, d == 1);
      outputs.push_back(output);
      h_all.push_back(state.h);
      if (state.c.defined()) c_all.push_back(state.c);
    }
    rows = outputs.size() == 1 ? outputs[0] : cat(outputs, 1);
    if (stack.dropout > 0 && stack.train && layer + 1 < stack.num_layers)
      rows = dropout(rows, stack.dropout, true);
  }
  return {rows, flambeau::stack(h_all, 0), c_all.empty() ? Tensor() : flambeau::stack(c_all, 0)};
}

// The stack as a device's kernel for all of it would have it, or nothing if the sizes do not fit:
// then the operations of single layers say what is wrong.
std::optional<RnnStack> describe(const Stack& stack, const Tensor& rows, const Steps& steps,
                                 const Tensor& h0, const Tensor& c0,
                                 const std::vector<CellWeights>& weights) {
  RnnStack whole;
  whole.cell = stack.cell;
  whole.layers = stack.num_layers, whole.directions = stack.directions();
  whole.has_biases = stack.has_biases;
  whole.dropout = stack.train && stack.num_layers > 1 ? stack.dropout : 0;
  whole.counts = steps.counts;
  if (rows.dim() != 2 || weights[0].w_hh.dim() != 2) return {};
  const int64_t gates = stack.cell == Cell::lstm ? 4 : stack.cell == Cell::gru ? 3 : 1;
  whole.input = rows.sizes()[1];
  whole.hidden = weights[0].w_hh.sizes()[0] / gates;
  if (weights[0].w_hr.defined()) whole.projected = weights[0].w_hr.sizes()[0];
  const int64_t cells = whole.layers * whole.directions, width = whole.width();
  const auto is = [](const Tensor& t, std::initializer_list<int64_t> shape) {
    return t.defined() && t.sizes() == IntSpan(shape);
  };
  for (int64_t i = 0; i < cells; ++i) {
    const CellWeights& w = weights[i];
    const int64_t from = i < whole.directions ? whole.input : whole.directions * width;
    bool fits =
        is(w.w_ih, {gates * whole.hidden, from}) && is(w.w_hh, {gates * whole.hidden, width});
    if (whole.has_biases)
      fits = fits && is(w.b_ih, {gates * whole.hidden}) && is(w.b_hh, {gates * whole.hidden});
    if (whole.projected) fits = fits && is(w.w_hr, {whole.projected, whole.hidden});
    if (!fits) return {};
  }
  const bool states = is(h0, {cells, steps.counts[0], width}) &&
                      (stack.cell != Cell::lstm || is(c0, {cells, steps.counts[0], whole.hidden}));
  return states && steps.total() == rows.sizes()[0] ? std::optional(whole) : std::nullopt;
}

Results run_stack(const Stack& stack, const Tensor& rows, const Steps& steps, const Tensor& h0,
                  const Tensor& c0, const TensorList& params) {
  const std::vector<CellWeights> weights = sort_weights(stack, params);
  CHECK(h0.dim() == 3 && h0.sizes()[0] == static_cast<int64_t>(weights.size()), RuntimeError,
        "Expected hidden size ({}, {}, {}), got {}", weights.size(), steps.counts[0],
        weights[0].w_hh.sizes()[1], h0.sizes());
  if (const auto whole = describe(stack, rows, steps, h0, c0, weights)) {
    const auto again = [stack, steps](const Tensor& x, const Tensor& h, const Tensor& c,
                                      const TensorList& list) {
      return run_layers(stack, x, steps, h, c, sort_weights(stack, list));
    };
    if (auto result = run_fused_stack(*whole, rows, h0, c0, params, again)) return *result;
  }
  return run_layers(stack, rows, steps, h0, c0, weights);
}

Results run_dense(const Stack& stack, const Tensor& input, const Tensor& h0, const Tensor& c0,
                  const TensorList& params, bool batch_first) {
  CHECK(input.dim() == 3, RuntimeError, "RNN: Expected input to be 3-D, got {}", input.sizes());
  const Tensor x = batch_first ? transpose(input, 0, 1) : input;
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1];
  CHECK(steps > 0, RuntimeError, "Expected sequence length to be larger than 0 in RNN");
  Results r = run_stack(stack, reshape(x, {steps * batch, x.sizes()[2]}),
                        Steps::equal(steps, batch), h0, c0, params);
  r.output = reshape(r.output, {steps, batch, r.output.sizes()[1]});
  if (batch_first) r.output = transpose(r.output, 0, 1);
  return r;
}

Results run_packed(const Stack& stack, const Tensor& data, const Tensor& batch_sizes,
                   const Tensor& h0, const Tensor& c0, const TensorList& params) {
  CHECK(data.dim() == 2, RuntimeError, "RNN: Expected packed data to be 2-D, got {}", data.sizes());
  return run_stack(stack, data, Steps::packed(batch_sizes), h0, c0, params);
}

// --- The ops -------------------------------------------------------------------------------------

void check_two_states(const TensorList& hx) {
  CHECK(hx.size() == 2, RuntimeError, "lstm expects two hidden states");
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const TensorList& hx,
                                        const TensorList& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first) {
  check_two_states(hx);
  const Stack stack{Cell::lstm, has_biases, num_layers, dropout, train, bidirectional};
  Results r = run_dense(stack, input, hx[0], hx[1], params, batch_first);
  return {r.output, r.h, r.c};
}
OP_FUNCTION(lstm,
            "lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, "
            "batch_first)",
            "A stack of LSTM layers over a batch of equally long sequences: the outputs of all "
            "steps, and both states after the last.",
            autocast_low | no_out)

std::tuple<Tensor, Tensor, Tensor> lstm_packed(const Tensor& data, const Tensor& batch_sizes,
                                               const TensorList& hx, const TensorList& params,
                                               bool has_biases, int64_t num_layers, double dropout,
                                               bool train, bool bidirectional) {
  check_two_states(hx);
  const Stack stack{Cell::lstm, has_biases, num_layers, dropout, train, bidirectional};
  Results r = run_packed(stack, data, batch_sizes, hx[0], hx[1], params);
  return {r.output, r.h, r.c};
}
OP_FUNCTION(lstm_packed,
            "lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, "
            "bidirectional)",
            "The same over packed sequences.", autocast_low | no_out)

#define RECURRENT(name, cell, what, policy)                                                        \
  std::tuple<Tensor, Tensor> name(const Tensor& input, const Tensor& hx, const TensorList& params, \
                                  bool has_biases, int64_t num_layers, double dropout, bool train, \
                                  bool bidirectional, bool batch_first) {                          \
    const Stack stack{cell, has_biases, num_layers, dropout, train, bidirectional};                \
    Results r = run_dense(stack, input, hx, {}, params, batch_first);                              \
    return {r.output, r.h};                                                                        \
  }                                                                                                \
  std::tuple<Tensor, Tensor> name##_packed(                                                        \
      const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, const TensorList& params,   \
      bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional) {       \
    const Stack stack{cell, has_biases, num_layers, dropout, train, bidirectional};                \
    Results r = run_packed(stack, data, batch_sizes, hx, {}, params);                              \
    return {r.output, r.h};                                                                        \
  }                                                                                                \
  OP_FUNCTION(name,                                                                                \
              #name                                                                                \
              "(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, "        \
              "batch_first)",                                                                      \
              "A stack of " what                                                                   \
              " layers over a batch of equally long sequences: the outputs of all steps, and the " \
              "state after the last.",                                                             \
              policy | no_out)                                                                     \
  OP_FUNCTION(name##_packed,                                                                       \
              #name                                                                                \
              "(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, "           \
              "bidirectional)",                                                                    \
              "The same over packed sequences.", policy | no_out)
RECURRENT(gru, Cell::gru, "GRU", cpu_narrowest | cuda_low)
RECURRENT(rnn_tanh, Cell::tanh, "Elman", autocast_low)
RECURRENT(rnn_relu, Cell::relu, "Elman", autocast_low)
#undef RECURRENT

// --- Cells ---------------------------------------------------------------------------------------

void check_cell(const char* op, int64_t gates, const Tensor& input, const Tensor& hx,
                const CellWeights& w) {
  CHECK(input.dim() == 2 && hx.dim() == 2 && w.w_ih.dim() == 2 && w.w_hh.dim() == 2, RuntimeError,
        "{}: expected matrices, but got input {}, hx {}, w_ih {}, w_hh {}", op, input.sizes(),
        hx.sizes(), w.w_ih.sizes(), w.w_hh.sizes());
  CHECK(input.sizes()[1] == w.w_ih.sizes()[1], RuntimeError,
        "input has inconsistent input_size: got {} expected {}", input.sizes()[1],
        w.w_ih.sizes()[1]);
  CHECK(input.sizes()[0] == hx.sizes()[0], RuntimeError,
        "Input batch size {} doesn't match hidden hx batch size {}", input.sizes()[0],
        hx.sizes()[0]);
  CHECK(hx.sizes()[1] == w.w_hh.sizes()[1] && w.w_hh.sizes()[0] == gates * hx.sizes()[1],
        RuntimeError, "hidden has inconsistent hidden_size: got {}, expected {}", hx.sizes()[1],
        w.w_hh.sizes()[1]);
  CHECK(w.b_ih.defined() == w.b_hh.defined(), RuntimeError, "{}: give both biases or none", op);
}

CellState run_cell(const char* op, Cell cell, int64_t gates, const Tensor& input,
                   const CellState& start, const CellWeights& weights) {
  check_cell(op, gates, input, start.h, weights);
  const Steps one = Steps::equal(1, input.sizes()[0]);
  return std::get<1>(run_recurrence(cell, input, start, weights, one, false));
}

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const TensorList& hx, const Tensor& w_ih,
                                     const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  CHECK(hx.size() == 2, RuntimeError, "lstm_cell expects two hidden states");
  const CellState state =
      run_cell("lstm_cell", Cell::lstm, 4, input, {hx[0], hx[1]}, {w_ih, w_hh, b_ih, b_hh, {}});
  return {state.h, state.c};
}
OP_FUNCTION(lstm_cell, "lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)",
            "One step of an LSTM: the next hidden state and the next cell state.",
            cpu_narrowest | cuda_low | no_out)

#define CELL(name, cell, gates, doc, policy)                                                 \
  Tensor name(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, \
              const Tensor& b_ih, const Tensor& b_hh) {                                      \
    return run_cell(#name, cell, gates, input, {hx, {}}, {w_ih, w_hh, b_ih, b_hh, {}}).h;    \
  }                                                                                          \
  OP_FUNCTION(name, #name "(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)", doc, policy | no_out)
CELL(gru_cell, Cell::gru, 3, "One step of a GRU: the next state.", cpu_narrowest | cuda_low)
CELL(rnn_tanh_cell, Cell::tanh, 1, "One step of an Elman network with tanh: the next state.",
     autocast_low)
CELL(rnn_relu_cell, Cell::relu, 1, "One step of an Elman network with relu: the next state.",
     autocast_low)
#undef CELL

}  // namespace
}  // namespace flambeau
