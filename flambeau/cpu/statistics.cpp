// CPU kernels of counting and ordering. They are bound by memory and branches, which wider
// instructions do not help, so they are compiled once.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

constexpr DTypeSet wide = DTypeSet(DType::int64) | DType::float32 | DType::float64;

// Where `some` values stand among `count` boundaries. All take the same steps, without a branch
// that the next one would have to wait for. Comparisons are written so that NaN counts as larger
// than all numbers.
constexpr int64_t at_once = 8;
template <bool right, class T, class At>
void find_positions(const T* values, int64_t some, int64_t count, const At& at,
                    int64_t* positions) {
  T value[at_once] = {};
  int64_t first[at_once] = {};
  std::copy_n(values, some, value);
  for (int64_t left = count, step = 0; left > 0; left -= step) {
    step = (left + 1) / 2;
#pragma GCC unroll 8
    for (int64_t j = 0; j < at_once; ++j) {
      const T here = at(first[j] + step - 1);
      const bool before = right ? !(here > value[j]) : !(here >= value[j]);
      first[j] += before ? step : 0;
    }
  }
  std::copy_n(first, some, positions);
}

void searchsorted_kernel(const Tensor& boundaries, const Tensor& values, const Tensor& sorter,
                         const Tensor& out, bool right) {
  const int64_t count = boundaries.dim() > 0 ? boundaries.sizes().back() : 0;
  const bool one_row = boundaries.dim() == 1;
  const int64_t row = one_row || values.dim() == 0 ? values.numel() : values.sizes().back();
  if (values.numel() == 0) return;
  dispatch<wide>("searchsorted_out_cpu", values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* all = boundaries.data<T>();
    const T* x = values.data<T>();
    const int64_t* order = sorter.defined() ? sorter.data<int64_t>() : nullptr;
    int64_t* y = out.data<int64_t>();
    parallel_for(0, values.numel(), default_grain / 32, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin, some = 0; i < end; i += some) {
        const int64_t start = one_row ? 0 : i / row * count;
        some = std::min({at_once, end - i, row - i % row});
        const T* b = all + start;
        const auto find = [&](const auto& at) {
          if (right) return find_positions<true>(x + i, some, count, at, y + i);
          find_positions<false>(x + i, some, count, at, y + i);
        };
        if (order) {
          const int64_t* at = order + start;
          find([=](int64_t k) { return b[at[k]]; });
        } else {
          find([=](int64_t k) { return b[k]; });
        }
      }
    });
  });
}

// Neighbours are often equal, and then wait for one another's count: four tables take turns, of
// small numbers, so that more of them are in the cache.
void count_positions(const int64_t* at, int64_t n, int64_t* count, int64_t bins) {
  constexpr int64_t tables = 4, most = int64_t{1} << 31;
  if (bins * tables > n) {
    for (int64_t i = 0; i < n; ++i) ++count[at[i]];
    return;
  }
  std::vector<uint32_t> table(bins * tables);
  uint32_t *a = table.data(), *b = a + bins, *c = b + bins, *d = c + bins;
  for (int64_t begin = 0; begin < n; begin += most) {
    const int64_t end = std::min(begin + most, n);
    int64_t i = begin;
    for (; i + tables <= end; i += tables)
      ++a[at[i]], ++b[at[i + 1]], ++c[at[i + 2]], ++d[at[i + 3]];
    for (; i < end; ++i) ++a[at[i]];
    for (int64_t p = 0; p < bins; ++p) {
      count[p] += int64_t{a[p]} + b[p] + c[p] + d[p];
      a[p] = b[p] = c[p] = d[p] = 0;
    }
  }
}

// Calls count(begin, end, counts) for parts of n elements: each thread counts on its own, unless
// there are so many bins that one counts for all.
template <class Count>
void count_in_parallel(int64_t n, const Tensor& counts, const Count& count) {
  constexpr int64_t few = 1 << 14;
  const int64_t bins = counts.numel();
  int64_t* all = counts.data<int64_t>();
  if (bins > few) return count(0, n, all);
  std::mutex mutex;
  parallel_for(0, n, std::max<int64_t>(1 << 15, 4 * bins), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> own(bins);
    count(begin, end, own.data());
    const std::lock_guard lock(mutex);
    for (int64_t k = 0; k < bins; ++k) all[k] += own[k];
  });
}

void even_histogram_kernel(const Tensor& values, const Tensor& edges, const Tensor& weights,
                           const Tensor& counts) {
  constexpr DTypeSet set = DType::float32 | DType::float64;
  dispatch<set>("histogramdd", values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = values.data<T>(), *edge = edges.data<T>();
    const T* weight = weights.defined() ? weights.data<T>() : nullptr;
    double* count = counts.data<double>();
    const int64_t bins = counts.numel();
    const T low = edge[0], high = edge[bins], scale = static_cast<T>(bins) / (high - low);
    for (int64_t i = 0; i < values.numel(); ++i) {
      if (!(x[i] >= low && x[i] <= high)) continue;
      // The place by proportion is at most rounding away from the one that the edges tell.
      auto k = std::min(static_cast<int64_t>((x[i] - low) * scale), bins - 1);
      while (k > 0 && x[i] < edge[k]) --k;
      while (k + 1 < bins && x[i] >= edge[k + 1]) ++k;
      count[k] += weight ? static_cast<double>(weight[i]) : 1.0;
    }
  });
}

// By blocks, for which the parts are computed by vector code.
void count_parts_kernel(const Tensor& values, double low, double high, const Tensor& counts) {
  constexpr int64_t block = 2048;
  const int64_t bins = counts.numel() - 1;
  dispatch<DType::float32 | DType::float64>("histogram_cpu", values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T least = static_cast<T>(low), most = static_cast<T>(high);
    const T scale = static_cast<T>(static_cast<double>(bins) / (high - low));
    count_in_parallel(values.numel(), counts, [&](int64_t begin, int64_t end, int64_t* to) {
      int64_t at[block];
      for (int64_t first = begin; first < end; first += block) {
        const int64_t some = std::min(block, end - first);
        const T* x = values.data<T>() + first;
        for (int64_t i = 0; i < some; ++i) {
          const bool inside = x[i] >= least && x[i] <= most;
          const auto part = static_cast<int64_t>(inside ? (x[i] - least) * scale : T(0));
          at[i] = inside ? std::min(part, bins - 1) : bins;
        }
        count_positions(at, some, to, bins + 1);
      }
    });
  });
}

void bincount_kernel(const Tensor& positions, const Tensor& weights, const Tensor& counts) {
  const int64_t* at = positions.data<int64_t>();
  const int64_t n = positions.numel();
  if (!weights.defined()) {
    return count_in_parallel(n, counts, [&](int64_t begin, int64_t end, int64_t* to) {
      count_positions(at + begin, end - begin, to, counts.numel());
    });
  }
  dispatch<wide>("bincount_cpu", counts.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* count = counts.data<T>();
    const T* weight = weights.data<T>();
    for (int64_t i = 0; i < n; ++i) count[at[i]] += weight[i];
  });
}

void row_order_kernel(const Tensor& rows, const Tensor& order) {
  const int64_t n = rows.size(0), width = rows.size(1);
  int64_t* at = order.data<int64_t>();
  std::iota(at, at + n, int64_t{0});
  constexpr DTypeSet stored = DTypeSet(DType::int64) | DType::float64;
  dispatch<stored>("unique_dim", rows.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = rows.data<T>();
    std::stable_sort(at, at + n, [x, width](int64_t a, int64_t b) {
      const T *one = x + a * width, *two = x + b * width;
      for (int64_t k = 0; k < width; ++k) {
        if (one[k] < two[k]) return true;
        if (one[k] > two[k]) return false;
        // A NaN stands behind every number, so that this is an order.
        if (one[k] == one[k] && two[k] != two[k]) return true;
        if (one[k] != one[k] && two[k] == two[k]) return false;
      }
      return false;
    });
  });
}

void frexp_kernel(const TensorIter& iter) {
  dispatch<dtypes::Floating>("frexp", iter.dtypes[2], [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(
        iter,
        [](char** data, const int64_t* strides, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            const auto x =
                static_cast<ComputeType<T>>(*reinterpret_cast<const T*>(data[2] + i * strides[2]));
            int exponent = 0;
            const auto fraction = std::frexp(x, &exponent);
            *reinterpret_cast<T*>(data[0] + i * strides[0]) = static_cast<T>(fraction);
            const bool finite = std::isfinite(x);
            *reinterpret_cast<int32_t*>(data[1] + i * strides[1]) = finite ? exponent : 0;
          }
        },
        8);
  });
}

const bool filled = [] {
  kernels::searchsorted.fill(DeviceType::cpu, searchsorted_kernel);
  kernels::bincount.fill(DeviceType::cpu, bincount_kernel);
  kernels::even_histogram.fill(DeviceType::cpu, even_histogram_kernel);
  kernels::count_parts.fill(DeviceType::cpu, count_parts_kernel);
  kernels::row_order.fill(DeviceType::cpu, row_order_kernel);
  kernels::frexp.fill(DeviceType::cpu, frexp_kernel);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
