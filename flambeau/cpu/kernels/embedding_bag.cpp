// Sums, means and maxima of bags of embeddings on the CPU, a bag at a time.
#include <algorithm>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/loops.h"
#include "flambeau/kernels/sequences.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

template <class T>
struct Bags {
  const T *table, *factors;
  const int64_t *indices, *bounds;
  int64_t rows, width, padding;
  BagMode mode;

  [[nodiscard]] bool skips(int64_t i) const { return indices[i] == padding; }
  [[nodiscard]] const T* row(int64_t i) const { return table + indices[i] * width; }
  void check(int64_t i) const {
    const int64_t index = indices[i];
    CHECK(index >= 0 && index < rows, RuntimeError,
          "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}: Index "
          "{} of input takes value {} which is not in the valid range [0, {})",
          index, i, index, rows);
  }

  // Sums of some columns that stay in registers; the indices have been checked.
  template <int Count>
  void add_registers(int64_t bag, int64_t column, float* sums) const {
    Floats total[Count] = {};
    for (int64_t i = bounds[bag]; i < bounds[bag + 1]; ++i) {
      if (skips(i)) continue;
      const float* from = row(i) + column;
      const float factor = factors ? factors[i] : 1.0f;
#pragma GCC unroll 4
      for (int k = 0; k < Count; ++k) total[k] += load_floats(from + k * float_lanes) * factor;
    }
    for (int k = 0; k < Count; ++k) store_floats(total[k], sums + k * float_lanes);
  }

  int64_t add(int64_t bag, ComputeType<T>* sums) const {
    using C = ComputeType<T>;
    int64_t count = 0, first = 0;
    for (int64_t i = bounds[bag]; i < bounds[bag + 1]; ++i) {
      check(i);
      count += !skips(i);
    }
    if constexpr (std::is_same_v<T, float>) {
      for (; first + 4 * float_lanes <= width; first += 4 * float_lanes) {
        add_registers<4>(bag, first, sums + first);
      }
      for (; first + float_lanes <= width; first += float_lanes) {
        add_registers<1>(bag, first, sums + first);
      }
    }
    std::fill(sums + first, sums + width, C(0));
    for (int64_t i = bounds[bag]; first < width && i < bounds[bag + 1]; ++i) {
      if (skips(i)) continue;
      const T* from = row(i);
      const C factor = factors ? static_cast<C>(factors[i]) : C(1);
      IVDEP for (int64_t j = first; j < width; ++j) sums[j] += static_cast<C>(from[j]) * factor;
    }
    if (mode == BagMode::mean && count > 0) {
      for (int64_t j = 0; j < width; ++j) sums[j] /= static_cast<C>(count);
    }
    return count;
  }

  int64_t choose(int64_t bag, ComputeType<T>* best, int64_t* chosen) const {
    using C = ComputeType<T>;
    int64_t count = 0;
    std::fill_n(best, width, C(0));
    std::fill_n(chosen, width, int64_t{-1});
    for (int64_t i = bounds[bag]; i < bounds[bag + 1]; ++i) {
      check(i);
      if (skips(i)) continue;
      const T* from = row(i);
      for (int64_t j = 0; j < width; ++j) {
        const C value = static_cast<C>(from[j]);
        if (count == 0 || value > best[j]) best[j] = value, chosen[j] = indices[i];
      }
      ++count;
    }
    return count;
  }
};

void embedding_bag_kernel(const Tensor& weight, const Tensor& indices, const Tensor& bounds,
                          const Tensor& sample_weights, BagMode mode, int64_t padding_idx,
                          const Tensor& out, const Tensor& bag_of, const Tensor& bag_size,
                          const Tensor& chosen) {
  const int64_t width = weight.sizes()[1], bags = bounds.numel() - 1;
  dispatch<dtypes::Floating>("embedding_bag", weight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Bags<T> all{weight.data<T>(),
                      sample_weights.defined() ? sample_weights.data<T>() : nullptr,
                      indices.data<int64_t>(),
                      bounds.data<int64_t>(),
                      weight.sizes()[0],
                      width,
                      padding_idx,
                      mode};
    const int64_t per_bag = (indices.numel() / std::max<int64_t>(bags, 1) + 1) * width + 1;
    T* results = out.data<T>();
    int64_t *bag_at = bag_of.data<int64_t>(), *sizes = bag_size.data<int64_t>();
    parallel_for(0, bags, default_grain / per_bag + 1, [&](int64_t first, int64_t last) {
      std::vector<ComputeType<T>> row(width);
      for (int64_t b = first; b < last; ++b) {
        sizes[b] = mode == BagMode::max
                       ? all.choose(b, row.data(), chosen.data<int64_t>() + b * width)
                       : all.add(b, row.data());
        store_row(row.data(), results + b * width, width);
        std::fill(bag_at + all.bounds[b], bag_at + all.bounds[b + 1], b);
      }
    });
  });
}
KERNEL_FOR(embedding_bag, embedding_bag_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
