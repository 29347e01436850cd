// The search for elements that are not zero: blocks count, the host adds the counts up (it has to
// know the total to allocate the result), and blocks write at their own offsets.

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/memory/pinned.h"
#include "flambeau/cuda/runtime/driver_tools.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/indexing.h"

namespace flambeau::cuda {
namespace {

constexpr int per_thread = 16;
constexpr int64_t per_block = int64_t{block_size} * per_thread;

// The bit of each of this thread's elements that is not zero. Elements of a thread are neighbours.
template <class T>
__device__ unsigned found(const T* x, int64_t first, int64_t n) {
  unsigned bits = 0;
  for (int j = 0; j < per_thread; ++j) {
    if (first + j < n)
      bits |= static_cast<unsigned>(math::to_bool(static_cast<ComputeType<T>>(x[first + j]))) << j;
  }
  return bits;
}

template <class T>
__global__ void __launch_bounds__(block_size) count_kernel(const T* x, int64_t n, int* counts) {
  const int64_t first = blockIdx.x * per_block + threadIdx.x * per_thread;
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const int mine = __popc(found(x, first, n));
  if (mine) atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

struct Sizes {
  int64_t rank;
  int64_t sizes[max_dims];
};

template <class T>
__global__ void __launch_bounds__(block_size)
    place_kernel(const T* x, int64_t n, const int64_t* starts, int64_t* out, int64_t total,
                 bool flat, const __grid_constant__ Sizes shape) {
  const int64_t first = blockIdx.x * per_block + threadIdx.x * per_thread;
  unsigned bits = found(x, first, n);
  __shared__ int before[block_size];
  before[threadIdx.x] = __popc(bits);
  for (int step = 1; step < block_size; step *= 2) {  // running sums
    __syncthreads();
    const int left = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
    __syncthreads();
    before[threadIdx.x] += left;
  }
  int64_t at = starts[blockIdx.x] + before[threadIdx.x] - __popc(bits);
  for (; bits; bits &= bits - 1, ++at) {
    int64_t place = first + __ffs(static_cast<int>(bits)) - 1;
    if (flat) {
      out[at] = place;
      continue;
    }
    for (int64_t d = shape.rank; d-- > 0;) {
      out[d * total + at] = place % shape.sizes[d];
      place /= shape.sizes[d];
    }
  }
}

// Numbers in page-locked memory, so that copies of them need not be waited for. The memory goes
// back when they are done.
template <class T>
class HostNumbers {
 public:
  explicit HostNumbers(size_t count)
      : bytes_(std::max<size_t>(count * sizeof(T), 1)),
        data_(static_cast<T*>(pinned_memory().allocate(bytes_, Device()))) {}
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;
  ~HostNumbers() { pinned_memory().free(data_, bytes_, Device()); }
  T& operator[](size_t i) const { return data_[i]; }
  void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "nonzero");
    pinned_memory().record_use(data_, stream);
  }
  [[nodiscard]] T* get() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

template <class T>
void find_nonzero(const Tensor& input, bool flat, Tensor& out) {
  const int64_t n = input.numel();
  const int device = input.device().index;
  const unsigned blocks = blocks_for(n, per_block);
  const cudaStream_t stream = current_handle(device);
  const T* x = static_cast<const T*>(input.raw());
  const Workspace counts(blocks * sizeof(int), device), starts(blocks * sizeof(int64_t), device);
  const HostNumbers<int> counted(blocks);
  const HostNumbers<int64_t> first(blocks + 1);
  if (blocks) {
    launch("nonzero", count_kernel<T>, blocks, block_size, x, n, counts.get<int>());
    counted.copy(counted.get(), counts.get(), blocks * sizeof(int), stream);
    about_to_wait();
    check(cudaStreamSynchronize(stream), "nonzero");
    raise_fault(device);
  }
  first[0] = 0;
  for (unsigned b = 0; b < blocks; ++b) first[b + 1] = first[b] + counted[b];
  const int64_t total = first[blocks];
  Sizes shape{input.dim(), {}};
  std::copy_n(input.sizes().begin(), input.dim(), shape.sizes);
  out = flat ? make_tensor(total, DType::int64, input.device())
             : make_tensor({shape.rank, total}, DType::int64, input.device());
  if (total == 0) return;
  first.copy(starts.get(), first.get(), blocks * sizeof(int64_t), stream);
  launch("nonzero", place_kernel<T>, blocks, block_size, x, n, starts.get<const int64_t>(),
         out.data<int64_t>(), total, flat, shape);
}

void nonzero_kernel(const Tensor& input, bool flat, Tensor& out) {
  const DeviceGuard guard(input.device().index);
  dispatch<dtypes::All>("nonzero", input.dtype(), [&](auto tag) {
    find_nonzero<Stored<typename decltype(tag)::type>>(input, flat, out);
  });
}
KERNEL_FOR(nonzero, nonzero_kernel)

}  // namespace
}  // namespace flambeau::cuda
