#include "flambeau/nn/layers/rnn.h"

#include <cmath>

#include "flambeau/base/warn.h"
#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"
#include "flambeau/nn/results.h"

namespace flambeau::torch::nn {
namespace {

using utils::rnn::PackedSequence;

// How many gates the weights of a kind hold below each other, and its name.
template <class Derived>
struct Kind;
#define KIND(Name, n)                          \
  template <>                                  \
  struct Kind<Name##Impl> {                    \
    static constexpr const char* name = #Name; \
    static constexpr int64_t gates = n;        \
  };
KIND(RNN, 1)
KIND(GRU, 3)
KIND(LSTM, 4)
KIND(RNNCell, 1)
KIND(GRUCell, 3)
KIND(LSTMCell, 4)
#undef KIND

template <class Options>
bool is_relu(const Options& options) {
  return std::holds_alternative<enumtype::kReLU>(options.nonlinearity());
}

void draw(const std::vector<Tensor>& weights, int64_t hidden_size) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (const Tensor& weight : weights) init::uniform_(weight, -bound, bound);
}

std::vector<Tensor> map(std::vector<Tensor> tensors, const auto& change) {
  for (Tensor& tensor : tensors) tensor = change(tensor);
  return tensors;
}

std::vector<Tensor> states_of(const Tensor& hx) {
  return hx.defined() ? std::vector<Tensor>{hx} : std::vector<Tensor>{};
}
std::vector<Tensor> states_of(const std::optional<std::tuple<Tensor, Tensor>>& hx) {
  if (!hx) return {};
  return {std::get<0>(*hx), std::get<1>(*hx)};
}

}  // namespace

namespace detail {

// --- RNN, LSTM, GRU ------------------------------------------------------------------------------

template <class Derived>
void RNNImplBase<Derived>::reset() {
  const int64_t hidden = options.hidden_size(), projected = options.proj_size();
  CHECK(options.dropout() >= 0 && options.dropout() <= 1, ValueError,
        "dropout should be a number in range [0, 1] representing the probability of an element "
        "being zeroed");
  if (options.dropout() > 0 && options.num_layers() == 1) {
    warn(
        format("dropout option adds dropout after all but last recurrent layer, so non-zero "
               "dropout expects num_layers greater than 1, but got dropout={} and num_layers={}",
               options.dropout(), options.num_layers()));
  }
  CHECK(hidden > 0, ValueError, "hidden_size must be greater than zero");
  CHECK(options.num_layers() > 0, ValueError, "num_layers must be greater than zero");
  CHECK(projected >= 0 && projected < hidden, ValueError,
        "proj_size has to be a positive integer, smaller than hidden_size or zero to disable "
        "projections");
  CHECK(projected == 0 || (std::is_same_v<Derived, LSTMImpl>), ValueError,
        "proj_size argument is only supported for LSTM, not RNN or GRU");
  const int64_t rows = Kind<Derived>::gates * hidden, state = projected > 0 ? projected : hidden;
  weights_.clear();
  for (int64_t layer = 0; layer < options.num_layers(); ++layer) {
    for (int direction = 0; direction < (options.bidirectional() ? 2 : 1); ++direction) {
      const auto add = [&](const char* name, IntSpan sizes) {
        weights_.push_back(this->register_empty(
            format("{}_l{}{}", name, layer, direction ? "_reverse" : ""), sizes));
      };
      const int64_t above = state * (options.bidirectional() ? 2 : 1);
      add("weight_ih", {rows, layer == 0 ? options.input_size() : above});
      add("weight_hh", {rows, state});
      if (options.bias()) add("bias_ih", {rows}), add("bias_hh", {rows});
      if (projected > 0) add("weight_hr", {projected, hidden});
    }
  }
  reset_parameters();
}

template <class Derived>
void RNNImplBase<Derived>::reset_parameters() {
  draw(weights_, options.hidden_size());
}

template <class Derived>
void RNNImplBase<Derived>::pretty_print(std::ostream& stream) const {
  Print(stream, Kind<Derived>::name)("input_size", options.input_size())(
      "hidden_size", options.hidden_size())("num_layers", options.num_layers())(
      "bias", options.bias())("batch_first", options.batch_first())("dropout", options.dropout())(
      "bidirectional", options.bidirectional())
      .unless(int64_t{0}, "proj_size", options.proj_size());
}

template <class Derived>
void RNNImplBase<Derived>::check(const Tensor& input, int64_t batch, const States& states) const {
  CHECK(input.size(-1) == options.input_size(), RuntimeError,
        "input.size(-1) must be equal to input_size. Expected {}, got {}", options.input_size(),
        input.size(-1));
  for (size_t i = 0; i < states.size(); ++i) {
    const bool projects = options.proj_size() > 0 && i == 0;
    const std::vector<int64_t> expected{options.num_layers() * (options.bidirectional() ? 2 : 1),
                                        batch,
                                        projects ? options.proj_size() : options.hidden_size()};
    CHECK(states[i].sizes() == IntSpan(expected), RuntimeError, "Expected hidden{} size {}, got {}",
          states.size() == 1 ? std::string() : format("[{}]", i), to_text(IntSpan(expected)),
          to_text(states[i].sizes()));
  }
}

template <class Derived>
auto RNNImplBase<Derived>::complete(const Tensor& input, int64_t batch, States states) const
    -> States {
  if (!states.empty()) return states;
  const int64_t layers = options.num_layers() * (options.bidirectional() ? 2 : 1);
  const TensorOptions like = TensorOptions(input->dtype).device(input.device());
  const int64_t width = options.proj_size() > 0 ? options.proj_size() : options.hidden_size();
  states.push_back(torch::zeros({layers, batch, width}, like));
  if (std::is_same_v<Derived, LSTMImpl>)
    states.push_back(torch::zeros({layers, batch, options.hidden_size()}, like));
  return states;
}

template <class Derived>
std::vector<Tensor> RNNImplBase<Derived>::call(const Tensor& input, const Tensor& batch_sizes,
                                               const States& states) {
  const auto with = [&](const auto& op, const auto& state) {
    if (batch_sizes.defined()) {
      return list_of(op(input, batch_sizes, state, weights_, options.bias(), options.num_layers(),
                        options.dropout(), this->is_training(), options.bidirectional()));
    }
    return list_of(op(input, state, weights_, options.bias(), options.num_layers(),
                      options.dropout(), this->is_training(), options.bidirectional(),
                      options.batch_first()));
  };
#define CALL(name) [](const auto&... args) { return torch::name(args...); }
  if constexpr (std::is_same_v<Derived, LSTMImpl>) return with(CALL(lstm), states);
  if constexpr (std::is_same_v<Derived, GRUImpl>) return with(CALL(gru), states[0]);
  return is_relu(options) ? with(CALL(rnn_relu), states.front())
                          : with(CALL(rnn_tanh), states.front());
#undef CALL
}

template <class Derived>
auto RNNImplBase<Derived>::run(Tensor input, States states) -> std::pair<Tensor, States> {
  CHECK(input.dim() == 2 || input.dim() == 3, ValueError,
        "{}: Expected input to be 2D or 3D, got {}D instead", Kind<Derived>::name, input.dim());
  const bool is_batch = input.dim() == 3;
  const int64_t batch_dim = options.batch_first() ? 0 : 1;
  for (const Tensor& state : states) {
    CHECK(state.dim() == input.dim(), RuntimeError,
          "For {} input, hx{} should also be {}-D but got {}-D tensor",
          is_batch ? "batched 3-D" : "unbatched 2-D", states.size() == 2 ? " and cx" : "",
          input.dim(), state.dim());
  }
  if (!is_batch) {
    input = input.unsqueeze(batch_dim);
    states = map(states, [](const Tensor& state) { return state.unsqueeze(1); });
  }
  const int64_t batch = input.size(batch_dim);
  states = complete(input, batch, std::move(states));
  check(input, batch, states);
  std::vector<Tensor> results = call(input, {}, states);
  Tensor output = results[0];
  results.erase(results.begin());
  if (is_batch) return {output, results};
  return {output.squeeze(batch_dim),
          map(results, [](const Tensor& state) { return state.squeeze(1); })};
}

template <class Derived>
auto RNNImplBase<Derived>::run(const PackedSequence& packed, States states)
    -> std::pair<PackedSequence, States> {
  const auto reorder = [](States all, const Tensor& order) {
    if (!order.defined()) return all;
    return map(all, [&](const Tensor& state) { return state.index_select(1, order); });
  };
  const int64_t batch = packed.batch_sizes()[0].template item<int64_t>();
  states = complete(packed.data(), batch, reorder(std::move(states), packed.sorted_indices()));
  check(packed.data(), batch, states);
  std::vector<Tensor> results = call(packed.data(), packed.batch_sizes(), states);
  const PackedSequence output(results[0], packed.batch_sizes(), packed.sorted_indices(),
                              packed.unsorted_indices());
  results.erase(results.begin());
  return {output, reorder(std::move(results), packed.unsorted_indices())};
}

template <class Derived>
std::tuple<Tensor, Tensor> SingleStateImpl<Derived>::forward(const Tensor& input, Tensor hx) {
  auto [output, states] = this->run(input, states_of(hx));
  return {output, states[0]};
}
template <class Derived>
std::tuple<PackedSequence, Tensor> SingleStateImpl<Derived>::forward_with_packed_input(
    const PackedSequence& packed_input, Tensor hx) {
  auto [output, states] = this->run(packed_input, states_of(hx));
  return {output, states[0]};
}

template class SingleStateImpl<RNNImpl>;
template class SingleStateImpl<GRUImpl>;
template class RNNImplBase<RNNImpl>;
template class RNNImplBase<GRUImpl>;
template class RNNImplBase<LSTMImpl>;

}  // namespace detail

auto LSTMImpl::forward(const Tensor& input, std::optional<States2> hx_opt)
    -> std::tuple<Tensor, States2> {
  auto [output, states] = run(input, states_of(hx_opt));
  return {output, {states[0], states[1]}};
}
auto LSTMImpl::forward_with_packed_input(const PackedSequence& packed_input,
                                         std::optional<States2> hx_opt)
    -> std::tuple<PackedSequence, States2> {
  auto [output, states] = run(packed_input, states_of(hx_opt));
  return {output, {states[0], states[1]}};
}

// --- Cells ---------------------------------------------------------------------------------------

namespace detail {

template <class Derived>
void RNNCellImplBase<Derived>::reset() {
  const int64_t rows = Kind<Derived>::gates * options.hidden_size();
  weight_ih = this->register_empty("weight_ih", {rows, options.input_size()});
  weight_hh = this->register_empty("weight_hh", {rows, options.hidden_size()});
  bias_ih = this->register_empty("bias_ih", {rows}, options.bias());
  bias_hh = this->register_empty("bias_hh", {rows}, options.bias());
  reset_parameters();
}

template <class Derived>
void RNNCellImplBase<Derived>::reset_parameters() {
  draw(this->parameters(), options.hidden_size());
}

template <class Derived>
void RNNCellImplBase<Derived>::pretty_print(std::ostream& stream) const {
  Print print(stream, Kind<Derived>::name);
  print(options.input_size())(options.hidden_size()).unless(true, "bias", options.bias());
  if (is_relu(options)) print("nonlinearity", "kReLU");
}

template <class Derived>
std::vector<Tensor> RNNCellImplBase<Derived>::step(Tensor input, std::vector<Tensor> states) {
  CHECK(input.dim() == 1 || input.dim() == 2, ValueError,
        "{}: Expected input to be 1D or 2D, got {}D instead", Kind<Derived>::name, input.dim());
  const bool is_batch = input.dim() == 2;
  if (!is_batch) input = input.unsqueeze(0);
  CHECK(input.size(1) == options.input_size(), RuntimeError,
        "input has inconsistent input_size: got {} expected {}", input.size(1),
        options.input_size());
  constexpr bool has_cell = std::is_same_v<Derived, LSTMCellImpl>;
  if (states.empty()) {
    states.assign(has_cell ? 2 : 1,
                  torch::zeros({input.size(0), options.hidden_size()},
                               TensorOptions(input->dtype).device(input.device())));
  } else if (!is_batch) {
    states = map(states, [](const Tensor& state) { return state.unsqueeze(0); });
  }
  for (size_t i = 0; i < states.size(); ++i) {
    CHECK(states[i].size(0) == input.size(0), RuntimeError,
          "Input batch size {} doesn't match hidden{} batch size {}", input.size(0), i,
          states[i].size(0));
    CHECK(states[i].size(1) == options.hidden_size(), RuntimeError,
          "hidden{} has inconsistent hidden_size: got {}, expected {}", i, states[i].size(1),
          options.hidden_size());
  }
  std::vector<Tensor> results;
  if constexpr (has_cell) {
    results = list_of(torch::lstm_cell(input, states, weight_ih, weight_hh, bias_ih, bias_hh));
  } else if constexpr (std::is_same_v<Derived, GRUCellImpl>) {
    results = {torch::gru_cell(input, states[0], weight_ih, weight_hh, bias_ih, bias_hh)};
  } else {
    results = {
        is_relu(options)
            ? torch::rnn_relu_cell(input, states[0], weight_ih, weight_hh, bias_ih, bias_hh)
            : torch::rnn_tanh_cell(input, states[0], weight_ih, weight_hh, bias_ih, bias_hh)};
  }
  if (is_batch) return results;
  return map(results, [](const Tensor& state) { return state.squeeze(0); });
}

template class RNNCellImplBase<RNNCellImpl>;
template class RNNCellImplBase<GRUCellImpl>;
template class RNNCellImplBase<LSTMCellImpl>;

}  // namespace detail

Tensor RNNCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return step(input, states_of(hx))[0];
}
Tensor GRUCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return step(input, states_of(hx))[0];
}
std::tuple<Tensor, Tensor> LSTMCellImpl::forward(const Tensor& input,
                                                 std::optional<std::tuple<Tensor, Tensor>> hx_opt) {
  const std::vector<Tensor> states = step(input, states_of(hx_opt));
  return {states[0], states[1]};
}

}  // namespace flambeau::torch::nn
