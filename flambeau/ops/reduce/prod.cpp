// Products of all elements or along a dimension.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

// For each element the product of those before it along dim.
Tensor products_before(const Tensor& x, int64_t dim) {
  const int64_t size = x.size(dim);
  const Tensor one = ones_like(narrow(x, dim, 0, 1));
  return size == 1 ? one : cat({one, cumprod(narrow(x, dim, 0, size - 1), dim)}, dim);
}
Tensor products_after(const Tensor& x, int64_t dim) {
  return flip(products_before(flip(x, IntSpan(dim)), dim), IntSpan(dim));
}

// g and y have dimension dim of size one.
Tensor prod_gradient(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.numel() == 0) return mul_conj(g, x);  // of no elements, but with a history
  // A zero cannot be divided out: then each element is left out by multiplying the others.
  if (is_nonzero(sum(x == 0.0))) {
    return mul_conj(g, products_before(x, dim) * products_after(x, dim));
  }
  return mul_conj(g, y / x);
}

Tensor prod_over(const char* op, const Tensor& input, std::optional<int64_t> dim, bool keepdim,
                 std::optional<DType> dtype) {
  if (dtype.value_or(input.dtype()) == DType::complex32 && !input.device().is_cpu())
    return to(prod_over(op, input, dim, keepdim, DType::complex64), DType::complex32);
  // As for sums: integers are multiplied in int64 and cut afterwards.
  const Tensor typed = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  const DType result = is_integral(typed.dtype(), true) ? DType::int64 : typed.dtype();
  const Tensor x = typed.dtype() == result ? typed : to(typed, result);
  const DimSet dims = dim ? DimSet::of(*dim, x.dim()) : DimSet::all(x.dim());
  Tensor out = reduce_with(kernels::prod, x, dims, keepdim, result);
  if (Record r{op, out, {x}}) {
    r.wrt(0, [kept = r.save(x), y = r.save_output(out), dim, dims, keepdim](const Tensor& g) {
      const Tensor values = kept();
      const IntSpan sizes = values.sizes();
      if (values.dim() == 0) return g;
      if (dim) {
        return prod_gradient(with_reduced_dims(g, sizes, dims, keepdim), values,
                             with_reduced_dims(y(), sizes, dims, keepdim),
                             wrap_dim(*dim, values.dim()));
      }
      return reshape(prod_gradient(g, reshape(values, {-1}), y(), 0), sizes);
    });
  }
  return dtype && *dtype != result ? to(out, *dtype) : out;
}

Tensor prod_all(const Tensor& input, std::optional<DType> dtype) {
  return prod_over("prod", input, std::nullopt, false, dtype);
}
Tensor prod_along(const Tensor& input, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  return prod_over("prod.1", input, dim, keepdim, dtype);
}
OP(prod_all, "prod(input, *, dtype=None)", "The product of all elements.",
   reduces | autocast_exact | takes_jagged | no_out)
OP(prod_along, "prod.dim_int(input, dim, keepdim=False, *, dtype=None)",
   "The product of the elements along dim.",
   reduces | autocast_exact | takes_jagged | out_repeats | dtype_of_out)

}  // namespace
}  // namespace flambeau
