// Sums, means and maxima of bags of embeddings on the CPU, a bag at a time.
#include <algorithm>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/kernels/sequences.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// The elements of a bag that count: where they stand in the input and which rows they name. They
// are read and checked once, for somebody else may write there.
struct Bag {
  int64_t begin = 0, end = 0;
  std::vector<int64_t> positions, rows;
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(rows.size()); }
};

template <class T>
struct Bags {
  const T *table, *factors;
  const int64_t *indices, *bounds;
  int64_t rows, width, padding, total;
  BagMode mode;

  void take(int64_t number, Bag& bag) const {
    bag.begin = std::clamp<int64_t>(bounds[number], 0, total);
    bag.end = std::clamp<int64_t>(bounds[number + 1], bag.begin, total);
    bag.positions.clear(), bag.rows.clear();
    for (int64_t i = bag.begin; i < bag.end; ++i) {
      const int64_t index = indices[i];
      CHECK(index >= 0 && index < rows, RuntimeError,
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}: "
            "Index {} of input takes value {} which is not in the valid range [0, {})",
            index, i, index, rows);
      if (index != padding) bag.positions.push_back(i), bag.rows.push_back(index);
    }
  }
  [[nodiscard]] const T* row(const Bag& bag, int64_t k) const {
    return table + bag.rows[k] * width;
  }

  // Sums of some columns that stay in registers.
  template <int Count>
  void add_registers(const Bag& bag, int64_t column, float* sums) const {
    Floats total[Count] = {};
    for (int64_t i = 0; i < bag.count(); ++i) {
      const float* from = row(bag, i) + column;
      const float factor = factors ? factors[bag.positions[i]] : 1.0f;
#pragma GCC unroll 4
      for (int k = 0; k < Count; ++k) total[k] += load_floats(from + k * float_lanes) * factor;
    }
    for (int k = 0; k < Count; ++k) store_floats(total[k], sums + k * float_lanes);
  }

  void add(const Bag& bag, ComputeType<T>* sums) const {
    using C = ComputeType<T>;
    int64_t first = 0;
    if constexpr (std::is_same_v<T, float>) {
      for (; first + 4 * float_lanes <= width; first += 4 * float_lanes) {
        add_registers<4>(bag, first, sums + first);
      }
      for (; first + float_lanes <= width; first += float_lanes) {
        add_registers<1>(bag, first, sums + first);
      }
    }
    std::fill(sums + first, sums + width, C(0));
    for (int64_t i = 0; first < width && i < bag.count(); ++i) {
      const T* from = row(bag, i);
      const C factor = factors ? static_cast<C>(factors[bag.positions[i]]) : C(1);
      IVDEP for (int64_t j = first; j < width; ++j) sums[j] += static_cast<C>(from[j]) * factor;
    }
    if (mode == BagMode::mean && bag.count() > 0) {
      for (int64_t j = 0; j < width; ++j) sums[j] /= static_cast<C>(bag.count());
    }
  }

  void choose(const Bag& bag, ComputeType<T>* best, int64_t* chosen) const {
    using C = ComputeType<T>;
    std::fill_n(best, width, C(0));
    std::fill_n(chosen, width, int64_t{-1});
    for (int64_t i = 0; i < bag.count(); ++i) {
      const T* from = row(bag, i);
      for (int64_t j = 0; j < width; ++j) {
        const C value = static_cast<C>(from[j]);
        if (i == 0 || value > best[j]) best[j] = value, chosen[j] = bag.rows[i];
      }
    }
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
                      indices.numel(),
                      mode};
    const int64_t per_bag = (indices.numel() / std::max<int64_t>(bags, 1) + 1) * width + 1;
    T* results = out.data<T>();
    int64_t *bag_at = bag_of.data<int64_t>(), *sizes = bag_size.data<int64_t>();
    parallel_for(0, bags, default_grain / per_bag + 1, [&](int64_t first, int64_t last) {
      std::vector<ComputeType<T>> row(width);
      Bag bag;
      for (int64_t b = first; b < last; ++b) {
        all.take(b, bag);
        if (mode == BagMode::max) {
          all.choose(bag, row.data(), chosen.data<int64_t>() + b * width);
        } else {
          all.add(bag, row.data());
        }
        sizes[b] = bag.count();
        store_row(row.data(), results + b * width, width);
        std::fill(bag_at + bag.begin, bag_at + bag.end, b);
      }
    });
  });
}
KERNEL_FOR(embedding_bag, embedding_bag_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
