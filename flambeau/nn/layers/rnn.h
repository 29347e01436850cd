// Recurrent layers: RNN, LSTM and GRU over sequences, and their cells for one step.
#pragma once

#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "flambeau/nn/layer.h"
#include "flambeau/nn/utils/rnn.h"

namespace flambeau::torch::nn {

// Of all three; nonlinearity is only RNN's, and proj_size only LSTM's.
struct RNNOptions {
  using nonlinearity_t = std::variant<enumtype::kTanh, enumtype::kReLU>;
  RNNOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  FLAMBEAU_OPTION(int64_t, input_size);
  FLAMBEAU_OPTION(int64_t, hidden_size);
  FLAMBEAU_OPTION(int64_t, num_layers) = 1;
  FLAMBEAU_OPTION(nonlinearity_t, nonlinearity) = kTanh;
  FLAMBEAU_OPTION(bool, bias) = true;
  FLAMBEAU_OPTION(bool, batch_first) = false;
  FLAMBEAU_OPTION(double, dropout) = 0.0;
  FLAMBEAU_OPTION(bool, bidirectional) = false;
  FLAMBEAU_OPTION(int64_t, proj_size) = 0;
};
using LSTMOptions = RNNOptions;
using GRUOptions = RNNOptions;

struct RNNCellOptions {
  using nonlinearity_t = RNNOptions::nonlinearity_t;
  RNNCellOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  FLAMBEAU_OPTION(int64_t, input_size);
  FLAMBEAU_OPTION(int64_t, hidden_size);
  FLAMBEAU_OPTION(bool, bias) = true;
  FLAMBEAU_OPTION(nonlinearity_t, nonlinearity) = kTanh;
};
using LSTMCellOptions = RNNCellOptions;
using GRUCellOptions = RNNCellOptions;

namespace detail {

// Weights, states and the checks of both. A state is one tensor, or two of an LSTM.
template <class Derived>
class RNNImplBase : public Cloneable<Derived> {
 public:
  FLAMBEAU_FROM_OPTIONS(RNNImplBase, RNNOptions);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  // Does nothing: the op takes weights wherever they lie in memory.
  void flatten_parameters() {}
  [[nodiscard]] std::vector<Tensor> all_weights() const { return weights_; }

 protected:
  using States = std::vector<Tensor>;  // none: zeros
  std::pair<Tensor, States> run(Tensor input, States states);
  std::pair<utils::rnn::PackedSequence, States> run(const utils::rnn::PackedSequence& packed,
                                                    States states);

 private:
  std::vector<Tensor> call(const Tensor& input, const Tensor& batch_sizes, const States& states);
  void check(const Tensor& input, int64_t batch, const States& states) const;
  States complete(const Tensor& input, int64_t batch, States states) const;

  std::vector<Tensor> weights_;  // in the order in which the op takes them
};

// Those with one tensor for a state.
template <class Derived>
class SingleStateImpl : public RNNImplBase<Derived> {
 public:
  using RNNImplBase<Derived>::RNNImplBase;
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, Tensor hx = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})
};

}  // namespace detail

class RNNImpl : public detail::SingleStateImpl<RNNImpl> {
 public:
  using SingleStateImpl::SingleStateImpl;
};
TORCH_MODULE(RNN);

class GRUImpl : public detail::SingleStateImpl<GRUImpl> {
 public:
  using SingleStateImpl::SingleStateImpl;
};
TORCH_MODULE(GRU);

class LSTMImpl : public detail::RNNImplBase<LSTMImpl> {
 public:
  using States2 = std::tuple<Tensor, Tensor>;  // hidden and cell
  using RNNImplBase::RNNImplBase;
  std::tuple<Tensor, States2> forward(const Tensor& input, std::optional<States2> hx_opt = {});
  std::tuple<utils::rnn::PackedSequence, States2> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, std::optional<States2> hx_opt = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<States2>())})
};
TORCH_MODULE(LSTM);

namespace detail {

template <class Derived>
class RNNCellImplBase : public Cloneable<Derived> {
 public:
  FLAMBEAU_FROM_OPTIONS(RNNCellImplBase, RNNCellOptions);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  // One step, for a batch or one sample.
  std::vector<Tensor> step(Tensor input, std::vector<Tensor> states);
};

}  // namespace detail

#define FLAMBEAU_CELL(Name)                                       \
  class Name##Impl : public detail::RNNCellImplBase<Name##Impl> { \
   public:                                                        \
    using RNNCellImplBase::RNNCellImplBase;                       \
    Tensor forward(const Tensor& input, const Tensor& hx = {});   \
                                                                  \
   protected:                                                     \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})             \
  };                                                              \
  TORCH_MODULE(Name)
FLAMBEAU_CELL(RNNCell);
FLAMBEAU_CELL(GRUCell);
#undef FLAMBEAU_CELL

class LSTMCellImpl : public detail::RNNCellImplBase<LSTMCellImpl> {
 public:
  using RNNCellImplBase::RNNCellImplBase;
  std::tuple<Tensor, Tensor> forward(const Tensor& input,
                                     std::optional<std::tuple<Tensor, Tensor>> hx_opt = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<std::tuple<Tensor, Tensor>>())})
};
TORCH_MODULE(LSTMCell);

}  // namespace flambeau::torch::nn
