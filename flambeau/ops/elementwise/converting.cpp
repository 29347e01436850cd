#include "flambeau/ops/elementwise/converting.h"

#include <algorithm>

#include "flambeau/kernels/elementwise.h"

namespace flambeau {
namespace {

constexpr int64_t fewest = 16384;  // elements for which it is worth it
// Elements of a chunk, or a tile that for_each_block hands out; and of one of so many that the next
// one is asked of memory meanwhile.
constexpr int64_t chunk_elements = 8192, ahead_elements = 4096, many = 1 << 21;
constexpr int64_t max_bytes = 8;  // of an element that is converted
constexpr int max_inputs = 2;

// A part of the elements as an iteration of its own.
TensorIter part_of(const TensorIter& whole, char* const* data, const Block& part) {
  TensorIter iter;
  iter.count = whole.count;
  iter.outputs = whole.outputs;
  iter.ndim = 2;
  iter.numel = part.n * part.m;
  iter.part_of = whole.numel;
  iter.device = whole.device;
  iter.shape[0] = part.n;
  iter.shape[1] = part.m;
  for (int k = 0; k < whole.count; ++k) {
    iter.data[k] = data[k];
    iter.dtypes[k] = whole.dtypes[k];
    iter.is_number[k] = whole.is_number[k];
    iter.strides[k][0] = part.steps[k];
    iter.strides[k][1] = part.row_steps[k];
  }
  return iter;
}

// Both dimensions as one, where every operand steps through them so.
void join_rows(TensorIter& iter) {
  for (int k = 0; k < iter.count; ++k) {
    if (iter.shape[1] > 1 && iter.strides[k][1] != iter.shape[0] * iter.strides[k][0]) return;
  }
  iter.ndim = 1;
  iter.shape[0] = iter.numel;
}

// Operand k of a part in another dtype, in `scratch`. What repeats is converted once.
void convert_operand(TensorIter& part, int k, DType dtype, char* scratch) {
  const auto size = static_cast<int64_t>(item_size(dtype));
  const int64_t n = part.strides[k][0] == 0 ? 1 : part.shape[0];
  const int64_t m = part.strides[k][1] == 0 ? 1 : part.shape[1];
  TensorIter copy;  // filled in place: it holds many dimensions
  copy.count = 2;
  copy.outputs = 1;
  copy.ndim = 2;
  copy.numel = n * m;
  copy.device = part.device;
  copy.shape[0] = n;
  copy.shape[1] = m;
  copy.data[0] = scratch;
  copy.data[1] = part.data[k];
  copy.dtypes[0] = dtype;
  copy.dtypes[1] = part.dtypes[k];
  copy.is_number[0] = copy.is_number[1] = false;
  copy.strides[0][0] = size;
  copy.strides[0][1] = n * size;
  copy.strides[1][0] = part.strides[k][0];
  copy.strides[1][1] = part.strides[k][1];
  join_rows(copy);
  kernels::copy(part.device.type, copy);
  part.data[k] = scratch;
  part.dtypes[k] = dtype;
  part.strides[k][0] = n == 1 ? 0 : size;
  part.strides[k][1] = m == 1 ? 0 : n * size;
}

// Whether the loops of elementwise kernels convert the operands, all of one dtype, on the way.
bool converts_in_loops(const TensorIter& stored, DType dtype) {
  if (dtype != DType::float32) return false;
  std::optional<DType> first;
  for (int k = stored.outputs; k < stored.count; ++k) {
    if (stored.is_number[k]) continue;
    if (!first) first = stored.dtypes[k];
    if (stored.dtypes[k] != *first) return false;
  }
  return first && (dtypes::Signed | DType::uint8).has(*first);
}

void ask_for(const char* place, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(place + i, 0, 2);
}

}  // namespace

bool converts_in_chunks(const Operand& operand, const Operand* other, DType dtype,
                        const Tensor& out) {
  if (!operand.is_tensor()) return false;
  const Tensor& tensor = operand.tensor();
  if (tensor.dtype() == dtype || !tensor.device().is_cpu() || tensor.numel() < fewest) return false;
  if (other && other->is_tensor() && other->tensor().numel() > tensor.numel()) return false;
  constexpr DTypeSet convertible = dtypes::All - dtypes::Complex;
  if (!convertible.has(tensor.dtype()) || !convertible.has(dtype)) return false;
  if (out.defined() && out.storage() == tensor.storage()) return false;
  return is_non_overlapping_and_dense(tensor.sizes(), tensor.strides());
}

void run_converting(const TensorIter& stored, DType dtype,
                    const std::function<void(const TensorIter&)>& kernel) {
  if (!stored.device.is_cpu()) return kernel(stored);  // the meta device, where nothing is computed
  if (converts_in_loops(stored, dtype)) {
    TensorIter iter = stored;
    for (int k = iter.outputs; k < iter.count; ++k) {
      if (iter.is_number[k]) continue;
      iter.stored_dtype = iter.dtypes[k];
      iter.dtypes[k] = dtype;
    }
    return kernel(iter);
  }
  for_each_block(stored, [&](char** data, const Block& block) {
    alignas(64) char scratch[max_inputs][chunk_elements * max_bytes];
    const bool asks_ahead = stored.numel >= many && block.n >= ahead_elements;
    const int64_t width = std::min(block.n, asks_ahead ? ahead_elements : chunk_elements);
    const int64_t height =
        asks_ahead ? 1 : std::min(block.m, std::max<int64_t>(1, chunk_elements / width));
    for (int64_t row = 0; row < block.m; row += height) {
      for (int64_t column = 0; column < block.n; column += width) {
        char* at[TensorIter::max_operands];
        for (int k = 0; k < stored.count; ++k)
          at[k] = data[k] + row * block.row_steps[k] + column * block.steps[k];
        TensorIter part = part_of(stored, at,
                                  {std::min(width, block.n - column),
                                   std::min(height, block.m - row), block.steps, block.row_steps});
        for (int k = 1; k < stored.count; ++k) {
          if (part.dtypes[k] == dtype) continue;
          if (asks_ahead) ask_for(at[k] + width * block.steps[k], width * block.steps[k]);
          convert_operand(part, k, dtype, scratch[k - 1]);
        }
        join_rows(part);
        kernel(part);
      }
    }
  });
}

}  // namespace flambeau
