// Optimizer: groups of parameters with their options, and what it remembers of each parameter.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flambeau/io/archive.h"
#include "flambeau/nn/option.h"
#include "flambeau/optim/fields.h"

// The class lists its fields in its source: Fields Class::each() { return {{"lr", &lr_}, ...}; }
#define FLAMBEAU_FIELDS \
 public:                \
  Fields each() override

namespace flambeau::torch::optim {

class OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState&) = default;
  OptimizerParamState& operator=(const OptimizerParamState&) = default;
  OptimizerParamState(OptimizerParamState&&) noexcept = default;
  OptimizerParamState& operator=(OptimizerParamState&&) noexcept = default;
  virtual ~OptimizerParamState() = default;
  [[nodiscard]] virtual std::unique_ptr<OptimizerParamState> clone() const;
  virtual Fields each() { return {}; }
};

template <class Derived>
class OptimizerCloneableParamState : public OptimizerParamState {
 public:
  [[nodiscard]] std::unique_ptr<OptimizerParamState> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

class OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  OptimizerOptions(OptimizerOptions&&) noexcept = default;
  OptimizerOptions& operator=(OptimizerOptions&&) noexcept = default;
  virtual ~OptimizerOptions() = default;
  [[nodiscard]] virtual std::unique_ptr<OptimizerOptions> clone() const;
  // Options as they are if nothing is said; null if the class does not tell.
  [[nodiscard]] virtual std::unique_ptr<OptimizerOptions> unset() const { return nullptr; }
  virtual Fields each() { return {}; }
  [[nodiscard]] virtual double get_lr() const;
  virtual void set_lr(double lr);
};

template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  [[nodiscard]] std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  [[nodiscard]] std::unique_ptr<OptimizerOptions> unset() const override {
    if constexpr (std::is_default_constructible_v<Derived>) {
      return std::make_unique<Derived>();
    } else if constexpr (std::is_constructible_v<Derived, double>) {  // a rate has to be said
      return std::make_unique<Derived>(std::numeric_limits<double>::quiet_NaN());
    } else {
      return nullptr;
    }
  }
};

class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}  // NOLINT
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other);
  OptimizerParamGroup& operator=(const OptimizerParamGroup&) = delete;
  OptimizerParamGroup(OptimizerParamGroup&&) noexcept = default;
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) noexcept = default;
  ~OptimizerParamGroup() = default;

  [[nodiscard]] bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options();
  [[nodiscard]] const OptimizerOptions& options() const;
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  [[nodiscard]] const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  using State = std::unordered_map<void*, std::unique_ptr<OptimizerParamState>>;

  explicit Optimizer(const std::vector<OptimizerParamGroup>& param_groups,
                     std::unique_ptr<OptimizerOptions> defaults);
  explicit Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  virtual ~Optimizer();

  virtual Tensor step(LossClosure closure = nullptr) = 0;
  void zero_grad(bool set_to_none = true);

  // Options that a group leaves unset are the optimizer's.
  void add_param_group(const OptimizerParamGroup& param_group);
  void add_parameters(const std::vector<Tensor>& parameters);
  // Those of the first group.
  [[nodiscard]] const std::vector<Tensor>& parameters() const noexcept;
  std::vector<Tensor>& parameters() noexcept;
  [[nodiscard]] size_t size() const noexcept;
  OptimizerOptions& defaults() noexcept { return *defaults_; }
  [[nodiscard]] const OptimizerOptions& defaults() const noexcept { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return param_groups_; }
  [[nodiscard]] const std::vector<OptimizerParamGroup>& param_groups() const noexcept {
    return param_groups_;
  }
  // As Python's state_dict, which goes from one language to the other.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  State& state() noexcept { return state_; }
  [[nodiscard]] const State& state() const noexcept { return state_; }

 protected:
  [[nodiscard]] virtual std::unique_ptr<OptimizerParamState> make_state() const;
  // The state of a parameter, made by start() before its first step.
  template <class ParamState, class Start>
  ParamState& state_of(const Tensor& param, const Start& start) {
    std::unique_ptr<OptimizerParamState>& state = state_[param.impl()];
    if (!state) state = std::make_unique<ParamState>(start());
    return static_cast<ParamState&>(*state);
  }

  std::vector<OptimizerParamGroup> param_groups_;
  State state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer);

}  // namespace flambeau::torch::optim
