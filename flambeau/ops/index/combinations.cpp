// Combinations of the elements of a vector.
#include <algorithm>

#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

// How many ways there are to choose r of n; raises where they cannot be counted.
int64_t count_choices(int64_t n, int64_t r) {
  if (r > n) return 0;
  int64_t count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    const __int128 next = static_cast<__int128>(count) * (n - i + 1) / i;
    CHECK(next <= INT64_MAX, RuntimeError, "combinations: too many of {} out of {}", r, n);
    count = static_cast<int64_t>(next);
  }
  return count;
}

Tensor combinations(const Tensor& input, int64_t r, bool with_replacement) {
  CHECK(input.dim() == 1, RuntimeError, "Expect a 1D vector, but got shape {}", input.sizes());
  CHECK(r >= 0, RuntimeError, "Expect a non-negative number, but got {}", r);
  if (r == 0) return empty({0}, {.dtype = input.dtype(), .device = input.device()});
  const int64_t n = input.size(0);
  CHECK(r <= INT32_MAX, RuntimeError, "combinations: r is too large, got {}", r);
  const int64_t rows = n == 0 ? 0 : count_choices(with_replacement ? n + r - 1 : n, r);
  if (rows == 0) return reshape(clone(narrow(input, 0, 0, 0)), {0, r});
  // Raises if the result is too large, before anything else is made.
  make_tensor({rows, r}, input.dtype(), input.device());
  std::vector<Tensor> columns;
  Tensor last = arange(0, n, 1, {.dtype = DType::int64, .device = input.device()});
  columns.push_back(last);
  for (int64_t k = 1; k < r; ++k) {
    // Each row is continued by every index that is larger than its last one (or equal to it).
    const Tensor next = arange(0, n, 1, {.dtype = DType::int64, .device = input.device()});
    const Tensor rows = unsqueeze(last, 1);
    const Tensor allowed = with_replacement ? le(rows, next) : lt(rows, next);
    const std::vector<Tensor> found = unbind(nonzero(allowed), 1);
    for (Tensor& column : columns) column = index_select(column, 0, found[0]);
    last = found[1];
    columns.push_back(last);
  }
  for (Tensor& column : columns) column = index_select(input, 0, column);
  return stack(columns, 1);
}
OP_FUNCTION(combinations, "combinations(input, r=2, with_replacement=False)",
            "All combinations of r elements of a vector, a row each.", no_out | composed)

}  // namespace
}  // namespace flambeau
