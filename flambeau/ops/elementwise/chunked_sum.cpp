#include "flambeau/ops/elementwise/chunked_sum.h"

#include <algorithm>
#include <memory>

#include "flambeau/autograd/grad_mode.h"
#include "flambeau/base/parallel.h"
#include "flambeau/kernels/reduce.h"
#include "flambeau/ops/nn/norm.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

constexpr int64_t chunk_elements = 8192;
constexpr int64_t fewest = 65536;  // elements for which it is worth it

void add_up(DType dtype, const char* values, int64_t n, char* total) {
  Reduction r;
  r.in = values;
  r.out = total;
  r.in_dtype = r.out_dtype = dtype;
  r.reduced_dims = 1;
  r.count = r.reduced_sizes[0] = n;
  r.reduced_in[0] = static_cast<int64_t>(item_size(dtype));
  kernels::sum(DeviceType::cpu, r);
}

}  // namespace

TensorIter Chunk::over(std::initializer_list<char*> arrays) const {
  TensorIter iter;
  iter.count = 0;
  iter.outputs = iter.ndim = 1;
  iter.numel = iter.shape[0] = n_;
  for (char* array : arrays) {
    const int k = iter.count++;
    iter.strides[k][0] = static_cast<int64_t>(item_size(dtype_));
    iter.data[k] = array;
    iter.dtypes[k] = dtype_;
    iter.is_number[k] = false;
  }
  return iter;
}

bool sums_in_chunks(const Tensor& a, const Tensor& b) {
  const auto is_plain = [](const Tensor& x) {
    return x.device().is_cpu() && !x.is_sparse() && x.is_contiguous() && x.is_floating() &&
           item_size(x.dtype()) > 1 && !(grad_enabled() && x.requires_grad());
  };
  return a.numel() >= fewest && is_plain(a) && is_plain(b) && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes();
}

Tensor sum_in_chunks(const Tensor& a, const Tensor& b, bool mean, const ChunkFormula& formula) {
  const DType dtype = a.dtype(), wide = stat_dtype(dtype);
  const auto size = static_cast<int64_t>(item_size(dtype)),
             wide_size = static_cast<int64_t>(item_size(wide));
  const int64_t chunks = (a.numel() + chunk_elements - 1) / chunk_elements;
  const Tensor totals = make_tensor({chunks}, wide, a.device());
  char *from_a = static_cast<char*>(a.raw()), *from_b = static_cast<char*>(b.raw());
  char* sums = static_cast<char*>(totals.raw());
  parallel_for(0, chunks, 4, [&](int64_t begin, int64_t end) {
    // Not a multiple of pages apart, or loads would wait for stores to another array.
    const int64_t scratch_bytes = chunk_elements * wide_size + 192;
    const std::unique_ptr<char[]> scratch(new char[3 * scratch_bytes]);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * chunk_elements, n = std::min(chunk_elements, a.numel() - first);
      Chunk chunk(dtype, n);
      chunk.a = from_a + first * size;
      chunk.b = from_b + first * size;
      chunk.out = scratch.get();
      chunk.spare = scratch.get() + scratch_bytes;
      formula(chunk);
      char* values = chunk.out;
      if (wide != dtype) {  // else the kernel would round its sum
        TensorIter widening = chunk.over({values = scratch.get() + 2 * scratch_bytes, chunk.out});
        widening.dtypes[0] = wide;
        widening.strides[0][0] = wide_size;
        kernels::copy(DeviceType::cpu, widening);
      }
      add_up(wide, values, n, sums + i * wide_size);
    }
  });
  const NoGrad off;
  const Tensor total = sum(totals);
  return to(mean ? total / static_cast<double>(a.numel()) : total, dtype);
}

}  // namespace flambeau
