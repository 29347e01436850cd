// Cumulative functions along a dimension, and differences.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

// The input in the dtype that running totals are made in: integers in int64, whatever dtype the
// result shall have.
Tensor summands(const Tensor& input, std::optional<DType> dtype) {
  const Tensor x = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  return is_integral(x.dtype(), true) && x.dtype() != DType::int64 ? to(x, DType::int64) : x;
}
Tensor finish_dtype(Tensor result, std::optional<DType> dtype) {
  return dtype && result.dtype() != *dtype ? to(result, *dtype) : result;
}

Tensor run(const ScanSlot& slot, const Tensor& input, int64_t dim, bool reverse) {
  const DType dtype = is_integral(input.dtype(), true) ? DType::int64 : input.dtype();
  Tensor out = make_tensor(input.sizes(), dtype, input.device());
  slot(input.device_type(), input, out, dim, reverse);
  return out;
}

Tensor running_sum(const Tensor& input, int64_t dim, bool reverse) {
  const Tensor x = contiguous(input);
  Tensor out = run(kernels::cumsum, x, dim, reverse);
  if (Record r{"cumsum", out, {x}}) {
    r.wrt(0, [dim, reverse](const Tensor& g) { return running_sum(g, dim, !reverse); });
  }
  return out;
}

Tensor conj_of(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }

// For an input with zeros, where dividing by it is no way to leave an element out. Of each slice
// the elements before the first zero get what they always do, the first zero the products of all
// others up to the second zero, the rest nothing.
Tensor gradient_past_zeros(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  const Tensor is_zero = x == 0.0;
  const Tensor zeros_so_far = running_sum(to(is_zero, DType::int64), dim, false);
  const Tensor before = zeros_so_far == 0;
  const Tensor zone = zeros_so_far == 1;  // from the first zero to the second
  const Tensor first = is_zero & zone;
  const Tensor past = run(kernels::cumprod, contiguous(masked_fill(x, first, 1.0)), dim, false);
  const Tensor of_first =
      sum(masked_fill(g * conj_of(past), logical_not(zone), 0.0), IntSpan(dim), true);
  const Tensor usual =
      running_sum(g * conj_of(y), dim, true) / conj_of(masked_fill(x, is_zero, 1.0));
  return where(before, usual, where(first, of_first, 0.0));
}

// The same as a sum over products that leave one element out: quadratic, but differentiable.
Tensor gradient_by_products(const Tensor& g, const Tensor& x, int64_t dim);

Tensor running_product(const Tensor& input, int64_t dim) {
  const Tensor x = contiguous(input);
  Tensor out = run(kernels::cumprod, x, dim, false);
  if (Record r{"cumprod", out, {x}}) {
    r.wrt(0, [kept = r.save(x), kept_y = r.save_output(out), dim](const Tensor& g) {
      const Tensor values = kept(), y = kept_y();
      if (values.dim() == 0 || values.sizes()[dim] == 1) return g;
      if (!is_nonzero(sum(values == 0.0))) {
        return running_sum(g * conj_of(y), dim, true) / conj_of(values);
      }
      return grad_enabled() ? gradient_by_products(g, values, dim)
                            : gradient_past_zeros(g, values, y, dim);
    });
  }
  return out;
}

Tensor gradient_by_products(const Tensor& g, const Tensor& x, int64_t dim) {
  const int64_t size = x.size(dim);
  std::vector<Tensor> parts;
  Tensor left = ones_like(narrow(x, dim, 0, 1));  // the product of what stands before k
  for (int64_t k = 0; k < size; ++k) {
    // Products over [0, i] without k, for all i >= k.
    const Tensor right =
        k + 1 < size ? running_product(narrow(x, dim, k + 1, size - k - 1), dim) : Tensor();
    const Tensor omitted = right.defined() ? cat({left, left * right}, dim) : left;
    parts.push_back(sum(narrow(g, dim, k, size - k) * conj_of(omitted), IntSpan(dim), true));
    left = left * narrow(x, dim, k, 1);
  }
  return cat(parts, dim);
}

Tensor cumsum(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  CHECK(dtype != DType::bool_ || input.dim() == 0 || input.numel() == 0, NotImplementedError,
        "\"cumsum\" not implemented for 'Bool'");
  dim = wrap_dim(dim, input.dim());
  const bool taken_as_is = input.device().is_cpu() && kernels::summed_integers.has(input.dtype()) &&
                           dtype.value_or(DType::int64) == DType::int64;
  const Tensor x = taken_as_is ? input : summands(input, dtype);
  return finish_dtype(running_sum(x, dim, false), dtype);
}
OP(cumsum, "cumsum(input, dim, *, dtype=None)", "The sums of the elements up to each along dim.",
   along | cuda_exact | dtype_of_out)

}  // namespace

Tensor cumprod(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  REDIRECT(cumprod, input, dim, dtype)
  dim = wrap_dim(dim, input.dim());
  return finish_dtype(running_product(summands(input, dtype), dim), dtype);
}
OP(cumprod, "cumprod(input, dim, *, dtype=None)",
   "The products of the elements up to each along dim.", along | cuda_exact | dtype_of_out)

// Where nothing is left to multiply, of whatever dtype.
static bool is_done(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  return self.dtype() == DType::bool_ && (self.dim() == 0 || self.numel() == 0);
}
// The gradient needs the input, which is about to be overwritten: it gets a copy.
static Tensor cumprod_(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  check_inplace("cumprod_", self);
  if (!dtype && is_done(self, dim)) return self.bump_version("cumprod_"), self;
  CHECK(dtype.value_or(self.dtype()) == self.dtype(), RuntimeError,
        "Bad in-place call: input tensor dtype {} and output tensor dtype {} should match",
        self.dtype(), *dtype);
  CHECK(self.dtype() != DType::bool_, NotImplementedError,
        "\"cumprod\" not implemented for 'Bool'");
  return copy_(self, cumprod(clone(self), dim, self.dtype()));
}
static Tensor cumsum_(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  check_inplace("cumsum_", self);
  if (!dtype && is_done(self, dim)) return self.bump_version("cumsum_"), self;
  CHECK(dtype.value_or(self.dtype()) == self.dtype(), RuntimeError,
        "Bad in-place call: input tensor dtype {} and output tensor dtype {} should match",
        self.dtype(), *dtype);
  check_no_internal_overlap("cumsum_", self);
  return copy_(self, cumsum(clone(self), dim, self.dtype()));
}
OP_METHOD(cumsum_, "cumsum_(self, dim, *, dtype=None)",
          "Replaces each element by the sum of those up to it along dim.", along)
OP_METHOD(cumprod_, "cumprod_(self, dim, *, dtype=None)",
          "Replaces each element by the product of those up to it along dim.", along)

namespace {

Tensor logcumsumexp_gradient(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0) return g;
  if (!grad_enabled() && !x.is_complex()) {
    const Tensor grad = contiguous(g);
    Tensor out = make_tensor(x.sizes(), x.dtype(), x.device());
    kernels::logcumsumexp_backward(x.device_type(), grad, contiguous(x), contiguous(y), out, dim);
    return out;
  }
  // With history, and for complex numbers: the sum over i >= k of g_i exp(x_k - y_i), as a table of
  // i by k.
  const int64_t size = x.size(dim);
  const auto last = [&](const Tensor& t) { return transpose(t, dim, -1); };
  const Options whole{.dtype = DType::int64, .device = x.device()};
  const Tensor i = unsqueeze(arange(int64_t{0}, size, int64_t{1}, whole), -1);
  const Tensor k = unsqueeze(arange(int64_t{0}, size, int64_t{1}, whole), 0);
  const Tensor exponent = unsqueeze(last(x), -2) - unsqueeze(last(y), -1);
  const Tensor table = exp(masked_fill(exponent, i < k, -HUGE_VAL));
  return contiguous(last(sum(unsqueeze(last(g), -1) * conj_of(table), IntSpan({-2}), false)));
}

Tensor logcumsumexp(const Tensor& input, int64_t dim) {
  dim = wrap_dim(dim, input.dim());
  CHECK(is_differentiable(input.dtype()), NotImplementedError,
        "\"logcumsumexp_out_cpu\" not implemented for '{}'", dtype_legacy_name(input.dtype()));
  const Tensor x = contiguous(input);
  Tensor out = run(kernels::logcumsumexp, x, dim, false);
  if (Record r{"logcumsumexp", out, {x}}) {
    r.wrt(0, [kept = r.save(x), y = r.save_output(out), dim](const Tensor& g) {
      return logcumsumexp_gradient(g, kept(), y(), dim);
    });
  }
  return out;
}
OP(logcumsumexp, "logcumsumexp(input, dim)",
   "The logarithms of the cumulative sums of exponentials along dim.", along)

Pair running_extreme(const char* op, const ScanIndexSlot& slot, const Tensor& input, int64_t dim) {
  dim = wrap_dim(dim, input.dim());
  const Tensor x = contiguous(input);
  Tensor values = make_tensor(x.sizes(), x.dtype(), x.device());
  Tensor indices = make_tensor(x.sizes(), DType::int64, x.device());
  if (x.dim() == 0 || x.numel() == 0) {  // one or none, of any dtype
    const NoGrad off;
    copy_(values, x);
    zero_(indices);
  } else if (x.numel() > 0) {
    slot(x.device_type(), x, values, indices, dim);
  }
  if (Record r{op, {values, indices}, {x}}) {
    r.wrt(0, [sizes = x->sizes, at = r.save(indices), dim](const Tensor& g) {
      return scatter_add(zeros(sizes, options_of(g)), dim, at(), g);
    });
  }
  return {values, indices};
}
Pair cummax(const Tensor& input, int64_t dim) {
  return running_extreme("cummax", kernels::cummax, input, dim);
}
Pair cummin(const Tensor& input, int64_t dim) {
  return running_extreme("cummin", kernels::cummin, input, dim);
}
OP(cummax, "cummax(input, dim) -> (values, indices)",
   "The largest element up to each along dim, and its index.", along | out_repeats)
OP(cummin, "cummin(input, dim) -> (values, indices)",
   "The smallest element up to each along dim, and its index.", along | out_repeats)

// --- Differences ---------------------------------------------------------------------------------

Tensor diff(const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  CHECK(input.dim() > 0, RuntimeError, "diff expects input to be at least one-dimensional");
  CHECK(n >= 0, RuntimeError, "order must be non-negative but got {}", n);
  dim = wrap_dim("diff", dim, input.dim());
  Tensor x = input;
  if (n > 0 && (prepend.defined() || append.defined())) {
    for (const Tensor& part : {prepend, append}) {
      CHECK(!part.defined() || part.dim() == input.dim(), RuntimeError,
            "diff expects prepend or append to be the same dimension as input, got shapes {} and "
            "{}",
            part.sizes(), input.sizes());
      for (int64_t d = 0; part.defined() && d < input.dim(); ++d) {
        CHECK(d == dim || part.size(d) == input.size(d), RuntimeError,
              "diff expects the shape of tensor to prepend or append to match that of input except "
              "along the differencing dimension; input.size({}) = {}, but got tensor.size({}) = {}",
              d, input.size(d), d, part.size(d));
      }
    }
    std::vector<Tensor> parts;
    if (prepend.defined()) parts.push_back(prepend);
    parts.push_back(x);
    if (append.defined()) parts.push_back(append);
    x = cat(parts, dim);
  }
  for (; n > 0 && x.size(dim) > 0; --n) {
    const int64_t length = x.size(dim) - 1;
    const Tensor later = narrow(x, dim, 1, length), earlier = narrow(x, dim, 0, length);
    x = x.dtype() == DType::bool_ ? logical_xor(later, earlier) : later - earlier;
  }
  return x;
}
OP(diff, "diff(input, n=1, dim=-1, prepend=None, append=None)",
   "The n-th differences of neighbours along dim.",
   casts_out | along | takes_jagged | composed | out_records)

}  // namespace
}  // namespace flambeau
