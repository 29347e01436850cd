// Random draws into an existing tensor: uniform_, normal_, random_, bernoulli_ and the like. What
// was there before no longer matters to the result, so every gradient is zero.
#include "flambeau/ops/random/random.h"

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/random.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

Tensor no_gradient(const Tensor& g) { return zeros_like(g); }

// `op` is the name without the underscore, as graph nodes are called.
template <class Draw>
Tensor overwrite(const char* op, const Tensor& self, Draw&& draw) {
  check_inplace(op, self);
  draw();
  self.bump_version(op);
  if (Record r = Record::in_place(op, self, {})) r.wrt(0, &no_gradient);
  return self;
}

Tensor uniform_(const Tensor& self, double from, double to, Generator* generator) {
  return overwrite("uniform", self, [&] { draw_uniform(self, from, to, generator); });
}
OP_METHOD(uniform_, "uniform_(input, from=0, to=1, *, generator=None)",
          "Fills the tensor with numbers drawn uniformly from [from, to).", draws)

Tensor normal_(const Tensor& self, double mean, double std, Generator* generator) {
  return overwrite("normal", self, [&] { draw_normal(self, mean, std, generator); });
}
OP_METHOD(normal_, "normal_(input, mean=0, std=1, *, generator=None)",
          "Fills the tensor with samples of the normal distribution.", draws | takes_nested)

Tensor log_normal_(const Tensor& self, double mean, double std, Generator* generator) {
  return overwrite("log_normal", self, [&] {
    CHECK(std > 0, RuntimeError, "log_normal_ expects std > 0.0, but found std={}", std);
    check_no_internal_overlap("log_normal_", self);
    with_generator(self, generator, [&](Generator& g) {
      kernels::log_normal(self.device_type(), self, mean, std, g);
    });
  });
}
OP_METHOD(log_normal_, "log_normal_(input, mean=1, std=2, *, generator=None)",
          "Fills the tensor with numbers whose logarithms are normally distributed.", draws)

Tensor exponential_(const Tensor& self, double lambd, Generator* generator) {
  return overwrite("exponential", self, [&] { draw_exponential(self, lambd, generator); });
}
OP_METHOD(exponential_, "exponential_(input, lambd=1, *, generator=None)",
          "Fills the tensor with samples of the exponential distribution of the given rate.", draws)

Tensor cauchy_(const Tensor& self, double median, double sigma, Generator* generator) {
  return overwrite("cauchy", self, [&] {
    CHECK(sigma > 0, RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma={}", sigma);
    CHECK(self.is_floating(), RuntimeError,
          "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
          "point but you specified {}",
          cpp_name(self.dtype()));
    if (nothing_to_draw(self)) return;
    check_no_internal_overlap("cauchy_", self);
    with_generator(self, generator, [&](Generator& g) {
      kernels::cauchy(self.device_type(), self, median, sigma, g);
    });
  });
}
OP_METHOD(cauchy_, "cauchy_(input, median=0, sigma=1, *, generator=None)",
          "Fills the tensor with samples of the Cauchy distribution.", draws)

Tensor geometric_(const Tensor& self, double p, Generator* generator) {
  return overwrite("geometric", self, [&] {
    CHECK(p > 0 && p < 1, RuntimeError, "geometric_ expects p to be in (0, 1), but got p={}", p);
    check_no_internal_overlap("geometric_", self);
    with_generator(self, generator,
                   [&](Generator& g) { kernels::geometric(self.device_type(), self, p, g); });
  });
}
OP_METHOD(geometric_, "geometric_(input, p, *, generator=None)",
          "Fills the tensor with the numbers of trials up to the first success of probability p.",
          draws)

Tensor random_any_(const Tensor& self, Generator* generator) {
  return overwrite("random", self, [&] { draw_integers(self, generator); });
}
OP_METHOD(random_any_, "random_(input, *, generator=None)",
          "Fills the tensor with integers drawn uniformly from 0 to the largest that its dtype "
          "holds exactly.",
          draws)

Tensor random_below_(const Tensor& self, int64_t to, Generator* generator) {
  return overwrite("random", self, [&] { draw_integers(self, 0, to, generator); });
}
OP_METHOD(random_below_, "random_(input, to, *, generator=None)",
          "Fills the tensor with integers drawn uniformly from [0, to).", draws)

Tensor random_between_(const Tensor& self, int64_t from, std::optional<int64_t> to,
                       Generator* generator) {
  return overwrite("random", self, [&] { draw_integers(self, from, to, generator); });
}
OP_METHOD(random_between_, "random_(input, from, to, *, generator=None)",
          "Fills the tensor with integers drawn uniformly from [from, to).", draws)

Tensor bernoulli_each_(const Tensor& self, const Tensor& p, Generator* generator) {
  check_inplace("bernoulli", self);
  draw_bernoulli(self, p, generator);
  self.bump_version("bernoulli");
  if (Record r = Record::in_place("bernoulli", self, {p})) {
    r.wrt(0, &no_gradient);
    r.wrt(1, [sizes = p.sizes().dims(), options = options_of(p)](const Tensor&) {
      return zeros(sizes, options);
    });
  }
  return self;
}
OP_METHOD(bernoulli_each_, "bernoulli_.Tensor(input, p, *, generator=None)",
          "Fills the tensor with ones and zeros; element i is one with probability p[i].", draws)

Tensor bernoulli_(const Tensor& self, double p, Generator* generator) {
  return overwrite("bernoulli", self, [&] { draw_bernoulli(self, p, generator); });
}
OP_METHOD(bernoulli_, "bernoulli_.float(input, p=0.5, *, generator=None)",
          "Fills the tensor with ones and zeros; each is one with probability p.", draws)

}  // namespace
}  // namespace flambeau
