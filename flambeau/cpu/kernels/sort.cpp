// CPU kernels of sorting and selection. An element and its index are packed into one integer whose
// order is the order asked for, ties included; then plain integers are sorted, and any sort is
// stable.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

// Unsigned integers that are ordered as the values are. NaN is the largest; both zeros are equal.
template <class T>
std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t> order_key(T value) {
  if constexpr (is_reduced_type<T>) {
    return order_key(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr U sign = U(1) << (sizeof(T) * 8 - 1);
    if (value != value) return static_cast<U>(~U(0));
    const U bits = std::bit_cast<U>(value == T(0) ? T(0) : value);
    return static_cast<U>(bits & sign ? ~bits : bits | sign);
  } else if constexpr (sizeof(T) <= 4) {
    return static_cast<uint32_t>(static_cast<int64_t>(value) -
                                 static_cast<int64_t>(std::numeric_limits<T>::min()));
  } else {
    constexpr uint64_t sign = std::is_signed_v<T> ? uint64_t(1) << 63 : 0;
    return static_cast<uint64_t>(value) ^ sign;
  }
}

// Key above, index below. Indices of 32-bit keys have 32 bits.
template <class Key>
using Packed = std::conditional_t<sizeof(Key) == 4, uint64_t, unsigned __int128>;
template <class Key>
constexpr int key_shift = sizeof(Key) * 8;

template <class Key>
int64_t index_of(Packed<Key> packed) {
  return static_cast<int64_t>(static_cast<Key>(packed));
}
template <class Key>
Key key_of(Packed<Key> packed) {
  return static_cast<Key>(packed >> key_shift<Key>);
}

// Of n elements, `stride` bytes apart.
template <class Key>
using Pack = void (*)(const char* x, int64_t stride, int64_t n, bool descending, Packed<Key>* out);
template <class Key, class T>
void pack(const char* x, int64_t stride, int64_t n, bool descending, Packed<Key>* out) {
  const Key flip = descending ? ~Key(0) : Key(0);
  for (int64_t i = 0; i < n; ++i) {
    const auto narrow = order_key(*reinterpret_cast<const T*>(x + i * stride));
    Key key = static_cast<Key>(narrow);
    // A narrow key stands in both halves of a wide one, so that NaN keeps all its bits set.
    if constexpr (sizeof narrow < sizeof(Key)) key |= key << 32;
    key ^= flip;
    out[i] = static_cast<Packed<Key>>(key) << key_shift<Key> | static_cast<Packed<Key>>(i);
  }
}

template <class Key>
Pack<Key> pack_for(DType dtype) {
  Pack<Key> found = nullptr;
  dispatch<dtypes::RealBool>("sort", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(order_key(T())) <= sizeof(Key)) found = pack<Key, T>;
  });
  return found;
}

// Long runs are sorted by the bytes of the key, from the lowest; the order of indices, in which
// elements start, survives every pass. Bytes that all share are passed over.
template <class Key>
void sort_packed(Packed<Key>* data, int64_t n, std::unique_ptr<Packed<Key>[]>& scratch) {
  using P = Packed<Key>;
  if (n < 512) {
    std::sort(data, data + n);
    return;
  }
  if (!scratch) scratch.reset(new P[n]);
  std::array<std::array<int64_t, 256>, sizeof(Key)> counts{};
  for (int64_t i = 0; i < n; ++i) {
    const Key key = key_of<Key>(data[i]);
    for (size_t b = 0; b < sizeof(Key); ++b) ++counts[b][key >> (8 * b) & 255];
  }
  P *from = data, *to = scratch.get();
  for (size_t b = 0; b < sizeof(Key); ++b) {
    auto& count = counts[b];
    if (count[key_of<Key>(from[0]) >> (8 * b) & 255] == n) continue;
    int64_t start = 0;
    for (int64_t& c : count) start += std::exchange(c, start);
    for (int64_t i = 0; i < n; ++i) to[count[key_of<Key>(from[i]) >> (8 * b) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != data) std::copy_n(from, n, data);
}

// The slices of a tensor along a dimension, by number.
class Slices {
 public:
  Slices(const Tensor& tensor, int64_t dim) : tensor_(tensor), dim_(dim) {}
  [[nodiscard]] int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int64_t d = tensor_.dim() - 1; d >= 0; --d) {
      if (d == dim_) continue;
      at += index % tensor_->sizes[d] * tensor_->strides[d];
      index /= tensor_->sizes[d];
    }
    return at;
  }
  [[nodiscard]] int64_t stride() const { return tensor_.dim() ? tensor_->strides[dim_] : 1; }
  [[nodiscard]] int64_t size() const { return tensor_.dim() ? tensor_->sizes[dim_] : 1; }

 private:
  const Tensor& tensor_;
  int64_t dim_;
};

// Elements are moved by their size alone.
template <class Key>
void write_chosen(const Packed<Key>* chosen, int64_t n, const char* from, int64_t from_stride,
                  char* to, int64_t to_stride, size_t item, int64_t* indices,
                  int64_t index_stride) {
  const auto write = [&]<class Item>(Item) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = index_of<Key>(chosen[i]);
      *reinterpret_cast<Item*>(to + i * to_stride) =
          *reinterpret_cast<const Item*>(from + index * from_stride);
      indices[i * index_stride] = index;
    }
  };
  switch (item) {
    case 1: return write(uint8_t{});
    case 2: return write(uint16_t{});
    case 4: return write(uint32_t{});
    default: return write(uint64_t{});
  }
}

// For every slice: packs it, lets choose(packed, n, scratch) bring what is wanted to the front and
// say at which position that begins, and writes as many elements as the results have.
template <class Key, class Choose>
void for_each_slice_packed(const Tensor& input, const Tensor& values, const Tensor& indices,
                           int64_t dim, bool descending, DType read_as, const Choose& choose) {
  const Slices in(input, dim), out(values, dim), at(indices, dim);
  const int64_t n = in.size(), item = static_cast<int64_t>(item_size(input.dtype()));
  const auto* x = static_cast<const char*>(input.raw());
  auto* y = static_cast<char*>(values.raw());
  int64_t* where = indices.data<int64_t>();
  const Pack<Key> pack = pack_for<Key>(read_as);
  const int64_t grain = std::max<int64_t>(1, default_grain / 16 / n);
  parallel_for(0, input.numel() / n, grain, [&](int64_t first, int64_t last) {
    const std::unique_ptr<Packed<Key>[]> packed(new Packed<Key>[n]);
    std::unique_ptr<Packed<Key>[]> scratch;
    for (int64_t slice = first; slice < last; ++slice) {
      const char* from = x + in.offset(slice) * item;
      pack(from, in.stride() * item, n, descending, packed.get());
      const int64_t begin = choose(packed.get(), n, scratch);
      write_chosen<Key>(packed.get() + begin, out.size(), from, in.stride() * item,
                        y + out.offset(slice) * item, out.stride() * item, item,
                        where + at.offset(slice), at.stride());
    }
  });
}

// Whether 64-bit integers are such that their low halves, which come first, say everything.
bool is_small(const Tensor& input) {
  if (input.dtype() != DType::int64 || !input.is_contiguous()) return false;
  const int64_t* x = input.data<int64_t>();
  const int64_t n = input.numel();
  int64_t least = 0, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  return least >= std::numeric_limits<int32_t>::min() &&
         most <= std::numeric_limits<int32_t>::max();
}

template <DTypeSet Set, class Choose>
void for_each_packed(const char* name, const Tensor& input, const Tensor& values,
                     const Tensor& indices, int64_t dim, bool descending, const Choose& choose) {
  dispatch<Set>(name, input.dtype(), [](auto) {});
  const int64_t n = input.dim() ? input->sizes[dim] : 1;
  if (values.numel() == 0 || n == 0) return;
  const DType read_as = is_small(input) ? DType::int32 : input.dtype();
  if (n <= INT64_C(0xffffffff) && item_size(read_as) <= 4) {
    for_each_slice_packed<uint32_t>(input, values, indices, dim, descending, read_as, choose);
  } else {
    for_each_slice_packed<uint64_t>(input, values, indices, dim, descending, read_as, choose);
  }
}

template <class P>
using KeyOf = std::conditional_t<sizeof(P) == 8, uint32_t, uint64_t>;

void sort_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                 bool descending) {
  for_each_packed<dtypes::RealBool>(
      "sort", input, values, indices, dim, descending,
      []<class P>(P* packed, int64_t n, std::unique_ptr<P[]>& scratch) {
        sort_packed<KeyOf<P>>(packed, n, scratch);
        return int64_t{0};
      });
}
KERNEL_FOR(sort, sort_kernel)

// Brings the least k elements to the front, in order; the others are lost. Few elements are below
// the last of those that were the least so far: each is put in its place among them.
template <class P>
void bring_least_to_front(P* data, int64_t n, int64_t k) {
  std::sort(data, data + k);
  P last = data[k - 1];
  for (int64_t i = k; i < n; ++i) {
    const P element = data[i];
    if (element >= last) continue;
    P* place = std::upper_bound(data, data + k, element);
    std::move_backward(place, data + k - 1, data + k);
    *place = element;
    last = data[k - 1];
  }
}
constexpr int64_t few_chosen = 128;  // for more elements a heap is better

void topk_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                 int64_t dim, bool largest) {
  for_each_packed<dtypes::Real>("topk", input, values, indices, dim, largest,
                                [k]<class P>(P* packed, int64_t n, std::unique_ptr<P[]>& scratch) {
                                  if (k <= few_chosen && k * 8 < n) {
                                    bring_least_to_front(packed, n, k);
                                  } else if (k * 16 < n) {
                                    std::partial_sort(packed, packed + k, packed + n);
                                  } else {
                                    if (k < n) std::nth_element(packed, packed + k - 1, packed + n);
                                    sort_packed<KeyOf<P>>(packed, k, scratch);
                                  }
                                  return int64_t{0};
                                });
}
KERNEL_FOR(topk, topk_kernel)

void kthvalue_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                     int64_t dim) {
  for_each_packed<dtypes::Real>("kthvalue_cpu", input, values, indices, dim, false,
                                [k]<class P>(P* packed, int64_t n, std::unique_ptr<P[]>&) {
                                  std::nth_element(packed, packed + k - 1, packed + n);
                                  return k - 1;
                                });
}
KERNEL_FOR(kthvalue, kthvalue_kernel)

void median_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                   bool ignore_nan) {
  const bool may_have_nan = input.is_floating();
  for_each_packed<dtypes::Real>("median_cpu", input, values, indices, dim, false,
                                [=]<class P>(P* packed, int64_t n, std::unique_ptr<P[]>&) {
                                  using Key = KeyOf<P>;
                                  const auto is_nan = [](P p) { return key_of<Key>(p) == ~Key(0); };
                                  int64_t numbers = n;
                                  if (may_have_nan) {
                                    const auto first_nan = std::find_if(packed, packed + n, is_nan);
                                    if (first_nan != packed + n) {
                                      if (!ignore_nan) return first_nan - packed;
                                      numbers = n - std::count_if(packed, packed + n, is_nan);
                                    }
                                  }
                                  const int64_t middle = numbers > 0 ? (numbers - 1) / 2 : 0;
                                  std::nth_element(packed, packed + middle, packed + n);
                                  return middle;
                                });
}
KERNEL_FOR(median, median_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
