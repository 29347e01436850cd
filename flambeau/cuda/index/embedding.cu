// Rows of a table by index, and their gradient. For the gradient the indices are sorted, so that
// the rows that belong to one row of the table stand together and are added in the order of their
// positions: results do not change from run to run, and there are no atomic operations.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/index/radix_sort.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/nn.h"

namespace flambeau::cuda {
namespace {

// Indices of either dtype.
struct Indices {
  const int64_t* wide;
  const int32_t* narrow;
  explicit Indices(const Tensor& indices)
      : wide(indices.dtype() == DType::int64 ? indices.data<int64_t>() : nullptr),
        narrow(wide ? nullptr : indices.data<int32_t>()) {}
  __device__ int64_t operator[](int64_t i) const { return wide ? wide[i] : narrow[i]; }
};

// Rows are moved in units of W, `width` of them each.
template <class W>
__global__ void __launch_bounds__(block_size)
    rows_kernel(const W* weight, Indices indices, W* out, int64_t count, int64_t width,
                int64_t rows, FaultPlace fault) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  const int64_t place = i / width, column = i - place * width, row = indices[place];
  const bool inside = row >= 0 && row < rows;
  if (!inside) report(fault, FaultKind::index, row, 0, rows);
  out[i] = inside ? weight[row * width + column] : W();
}

void embedding_kernel(const Tensor& weight, const Tensor& indices, const Tensor& out) {
  const int device = weight.device().index;
  const DeviceGuard guard(device);
  const int64_t rows = weight.sizes()[0];
  const int64_t bytes = weight.sizes()[1] * static_cast<int64_t>(weight.item_size());
  if (bytes == 0 || indices.numel() == 0) return;
  int64_t unit = 16;
  while (bytes % unit || reinterpret_cast<uintptr_t>(weight.raw()) % unit ||
         reinterpret_cast<uintptr_t>(out.raw()) % unit)
    unit /= 2;
  const auto run = [&]<class W>(W) {
    const int64_t width = bytes / static_cast<int64_t>(sizeof(W)), count = indices.numel() * width;
    launch("embedding", rows_kernel<W>, blocks_for(count, block_size), block_size,
           static_cast<const W*>(weight.raw()), Indices(indices), static_cast<W*>(out.raw()), count,
           width, rows, fault_of(device));
  };
  if (unit == 16) return run(uint4{});
  if (unit == 8) return run(uint2{});
  if (unit == 4) return run(uint32_t{});
  if (unit == 2) return run(uint16_t{});
  run(uint8_t{});
}
KERNEL_FOR(embedding, embedding_kernel)

// --- The gradient --------------------------------------------------------------------------------

// The key of each position: its row of the table, or `rows` where nothing is to be added.
__global__ void __launch_bounds__(block_size)
    keys_kernel(Indices indices, uint32_t* keys, uint32_t* positions, int64_t count, int64_t rows,
                int64_t padding_idx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  const int64_t row = indices[i];
  keys[i] = static_cast<uint32_t>(row < 0 || row >= rows || row == padding_idx ? rows : row);
  positions[i] = static_cast<uint32_t>(i);
}

constexpr int64_t chunk = 64;  // sorted positions that a thread adds up

// The first place in sorted keys whose key is at least `key`.
__device__ int64_t first_at_least(const uint32_t* keys, int64_t count, uint32_t key) {
  int64_t low = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    if (keys[low + half] < key) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

template <class T>
struct RowSums {
  using C = ComputeType<T>;
  const T* grad;
  const uint32_t *keys, *positions;
  T* grad_weight;
  C *heads, *tails;  // of each chunk: the sums of a run that began earlier, or that goes on
  int64_t count, width, rows;
  bool scale_by_frequency;

  __device__ void write(uint32_t row, int64_t column, C sum) const {
    if (scale_by_frequency) {
      const int64_t uses = first_at_least(keys, count, row + 1) - first_at_least(keys, count, row);
      sum = sum / C(static_cast<float>(uses));
    }
    grad_weight[row * width + column] = static_cast<T>(sum);
  }
};

// A thread has a column of a chunk. Runs of one key that lie within the chunk are complete.
template <class T>
__global__ void __launch_bounds__(block_size) chunk_sums(RowSums<T> s) {
  using C = ComputeType<T>;
  const int64_t q = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  const int64_t begin = q * chunk, end = min(begin + chunk, s.count);
  if (begin >= s.count || column >= s.width) return;
  bool is_head = begin > 0 && s.keys[begin - 1] == s.keys[begin];
  C sum = C(0);
#pragma unroll 4
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t key = s.keys[i];
    if (key == s.rows) return;  // these come last
    sum += static_cast<C>(s.grad[s.positions[i] * s.width + column]);
    const bool run_ends = i + 1 == s.count || s.keys[i + 1] != key;
    if (!run_ends && i + 1 < end) continue;
    if (is_head) {
      s.heads[q * s.width + column] = sum;
    } else if (!run_ends) {
      s.tails[q * s.width + column] = sum;
    } else {
      s.write(key, column, sum);
    }
    is_head = false;
    sum = C(0);
  }
}

// Puts together the runs that go over chunks: the chunk in which one begins has it.
template <class T>
__global__ void __launch_bounds__(block_size) join_sums(RowSums<T> s) {
  const int64_t q = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  const int64_t begin = q * chunk, end = begin + chunk;
  if (end >= s.count || column >= s.width) return;
  const uint32_t key = s.keys[end - 1];
  if (key == s.rows || s.keys[end] != key) return;
  if (begin > 0 && s.keys[begin] == key && s.keys[begin - 1] == key) return;  // began earlier
  ComputeType<T> sum = s.tails[q * s.width + column];
  for (int64_t next = q + 1; next * chunk < s.count && s.keys[next * chunk] == key; ++next) {
    sum += s.heads[next * s.width + column];
  }
  s.write(key, column, sum);
}

template <class T>
void add_rows(const Tensor& grad, const Tensor& grad_weight, const uint32_t* keys,
              const uint32_t* positions, int64_t count, bool scale_by_frequency) {
  using C = ComputeType<T>;
  const int device = grad.device().index;
  const int64_t rows = grad_weight.sizes()[0], width = grad_weight.sizes()[1];
  const int64_t chunks = (count + chunk - 1) / chunk;
  const Workspace heads(chunks * width * sizeof(C), device);
  const Workspace tails(chunks * width * sizeof(C), device);
  const RowSums<T> sums{
      grad.data<T>(), keys,  positions, grad_weight.data<T>(), heads.get<C>(), tails.get<C>(),
      count,          width, rows,      scale_by_frequency};
  unsigned columns = 1;
  while (columns < block_size && columns < width) columns *= 2;
  const dim3 block(columns, block_size / columns);
  const dim3 grid(blocks_for(chunks, block.y), blocks_for(width, columns));
  launch("embedding_backward", chunk_sums<T>, grid, block, sums);
  if (chunks > 1) launch("embedding_backward", join_sums<T>, grid, block, sums);
}

void embedding_backward_kernel(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                               bool scale_by_frequency, const Tensor& grad_weight) {
  const char* op = "embedding_backward";
  const int device = grad.device().index;
  const DeviceGuard guard(device);
  const int64_t rows = grad_weight.sizes()[0], count = indices.numel();
  CHECK(rows < UINT32_MAX && count < UINT32_MAX, RuntimeError,
        "{}: a table of {} rows and {} indices are too many for CUDA", op, rows, count);
  check(cudaMemsetAsync(grad_weight.raw(), 0, grad_weight.numel() * grad_weight.item_size(),
                        current_handle(device)),
        op);
  if (count == 0 || grad_weight.numel() == 0) return;
  const size_t bytes = count * sizeof(uint32_t);
  const Workspace keys(bytes, device), positions(bytes, device);
  const Workspace sorted_keys(bytes, device), sorted_positions(bytes, device);
  launch(op, keys_kernel, blocks_for(count, block_size), block_size, Indices(indices),
         keys.get<uint32_t>(), positions.get<uint32_t>(), count, rows, padding_idx);
  int bits = 1;
  while (bits < 32 && rows >> bits) ++bits;
  sort_pairs(op, device, keys.get<const uint32_t>(), sorted_keys.get<uint32_t>(),
             positions.get<const uint32_t>(), sorted_positions.get<uint32_t>(), 1, count, bits);
  dispatch<dtypes::FloatingComplex>(op, grad.dtype(), [&](auto tag) {
    add_rows<Stored<typename decltype(tag)::type>>(
        grad, grad_weight, sorted_keys.get<const uint32_t>(),
        sorted_positions.get<const uint32_t>(), count, scale_by_frequency);
  });
}
KERNEL_FOR(embedding_backward, embedding_backward_kernel)

}  // namespace
}  // namespace flambeau::cuda
