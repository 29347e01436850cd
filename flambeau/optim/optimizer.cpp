#include "flambeau/optim/optimizer.h"

#include <cmath>

namespace flambeau::torch::optim {
namespace {

template <class T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_same_v<T, Pair> ||
    std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<std::string>>;

// Gives `to` the fields that the user has set in `given`: those that differ from a new object's.
void inherit(OptimizerOptions& to, OptimizerOptions& given) {
  const std::unique_ptr<OptimizerOptions> unset = given.unset();
  if (!unset) return;
  const Fields target = to.each(), source = given.each(), plain = unset->each();
  for (size_t i = 0; i < source.size() && i < target.size(); ++i) {
    source[i].second.visit([&](auto* value) {
      using T = std::remove_pointer_t<decltype(value)>;
      if constexpr (is_plain<T>) {
        if (*value != *plain[i].second.as<T>()) *target[i].second.as<T>() = *value;
      }
    });
  }
}

double* rate_of(const OptimizerOptions& options) {
  for (const auto& [name, field] : const_cast<OptimizerOptions&>(options).each())
    if (name == "lr") return field.as<double>();
  return nullptr;
}

}  // namespace

std::unique_ptr<OptimizerParamState> OptimizerParamState::clone() const {
  fail<NotImplementedError>(
      "clone() has not been implemented for torch::optim::OptimizerParamState. Subclass "
      "torch::optim::OptimizerCloneableParamState<YourOptimizerParamState> instead of "
      "torch::optim::OptimizerParamState to inherit the ability to clone.");
}

std::unique_ptr<OptimizerOptions> OptimizerOptions::clone() const {
  fail<NotImplementedError>(
      "clone() has not been implemented for torch::optim::OptimizerOptions. Subclass "
      "torch::optim::OptimizerCloneableOptions<YourOptimizerOptions> instead of "
      "torch::optim::OptimizerOptions to inherit the ability to clone.");
}

double OptimizerOptions::get_lr() const {
  const double* lr = rate_of(*this);
  CHECK(lr, NotImplementedError,
        "double get_lr() has not been overidden and implemented in subclass of "
        "torch::optim::OptimizerOptions, you must override it in your subclass.");
  return *lr;
}
void OptimizerOptions::set_lr(double lr) {
  double* rate = rate_of(*this);
  CHECK(rate, NotImplementedError,
        "double set_lr() has not been overidden and implemented in subclass of "
        "torch::optim::OptimizerOptions, you must override it in your subclass.");
  *rate = lr;
}

OptimizerParamGroup::OptimizerParamGroup(const OptimizerParamGroup& other)
    : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}

OptimizerOptions& OptimizerParamGroup::options() {
  CHECK(has_options(), RuntimeError, "Expected options_ to be initialized, got nullptr");
  return *options_;
}
const OptimizerOptions& OptimizerParamGroup::options() const {
  return const_cast<OptimizerParamGroup&>(*this).options();
}

Optimizer::Optimizer(const std::vector<OptimizerParamGroup>& param_groups,
                     std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& group : param_groups) add_param_group(group);
}
Optimizer::Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(std::vector{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

void Optimizer::add_param_group(const OptimizerParamGroup& param_group) {
  for (const Tensor& param : param_group.params()) {
    CHECK(param.defined(), ValueError, "can't optimize an undefined Tensor");
    CHECK(param.is_leaf(), RuntimeError, "can't optimize a non-leaf Tensor");
    for (const OptimizerParamGroup& group : param_groups_)
      for (const Tensor& other : group.params())
        CHECK(!param.is_same(other), RuntimeError,
              "some parameters appear in more than one parameter group");
  }
  OptimizerParamGroup group(param_group.params(), defaults_->clone());
  if (param_group.has_options()) {
    OptimizerParamGroup given(param_group);
    if (given.options().each().empty() || !given.options().unset()) {
      group.set_options(given.options().clone());
    } else {
      inherit(group.options(), given.options());
    }
  }
  param_groups_.push_back(std::move(group));
}

void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  CHECK(!param_groups_.empty(), RuntimeError, "an optimizer without a group takes no parameters");
  std::vector<Tensor>& own = param_groups_[0].params();
  own.insert(own.end(), parameters.begin(), parameters.end());
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const OptimizerParamGroup& group : param_groups_)
    for (const Tensor& param : group.params()) torch::detail::zero_gradient(param, set_to_none);
}

const std::vector<Tensor>& Optimizer::parameters() const noexcept {
  return param_groups_[0].params();
}
std::vector<Tensor>& Optimizer::parameters() noexcept { return param_groups_[0].params(); }
size_t Optimizer::size() const noexcept {
  size_t count = 0;
  for (const OptimizerParamGroup& group : param_groups_) count += group.params().size();
  return count;
}

}  // namespace flambeau::torch::optim
