// CPU kernels of sorting and selection. An element and its index are packed into one integer whose
// order is the order asked for, ties included; then plain integers are sorted, and any sort is
// stable.
#include <algorithm>
#include <mutex>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/index/sort_packed.h"
#include "flambeau/cpu/kernels/isa.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/tensor/shape.h"

namespace flambeau::cpu::ISA_NAMESPACE {
namespace {

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
  // That of a dimension of size one may be any number, too large to be counted in bytes.
  [[nodiscard]] int64_t stride() const { return size() > 1 ? tensor_->strides[dim_] : 1; }
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

// What is chosen from, and where it goes.
struct Choice {
  Choice(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim)
      : in(input, dim),
        out(values, dim),
        at(indices, dim),
        item(static_cast<int64_t>(item_size(input.dtype()))),
        x(static_cast<const char*>(input.raw())),
        y(static_cast<char*>(values.raw())),
        where(indices.data<int64_t>()) {}
  [[nodiscard]] const char* slice(int64_t number) const { return x + in.offset(number) * item; }
  [[nodiscard]] int64_t stride() const { return in.stride() * item; }
  template <class Key>
  void write(int64_t number, const Packed<Key>* chosen) const {
    write_chosen<Key>(chosen, out.size(), slice(number), stride(), y + out.offset(number) * item,
                      out.stride() * item, item, where + at.offset(number), at.stride());
  }
  const Slices in, out, at;
  const int64_t item;
  const char* const x;
  char* const y;
  int64_t* const where;
};

// One thread's buffers for packed slices.
template <class Key>
struct Buffers {
  Memory<Packed<Key>> packed, scratch;
};

template <class Key, class Choose>
void choose_from_slice(const Choice& choice, int64_t slice, Pack<Key> pack, bool descending,
                       Buffers<Key>& buffers, const Choose& choose) {
  const int64_t n = choice.in.size();
  if (!buffers.packed) buffers.packed = memory_for<Packed<Key>>(n);
  pack(choice.slice(slice), choice.stride(), n, descending, buffers.packed.get());
  const int64_t begin = choose(buffers.packed.get(), n, buffers.scratch);
  choice.write<Key>(slice, buffers.packed.get() + begin);
}

// Whether 64-bit integers are such that their low halves, which come first, say everything.
bool is_small(const char* x, int64_t stride, int64_t n) {
  const auto loop = [=](int64_t step) __attribute__((always_inline)) {
    uint64_t high = 0;  // bits of what is beyond 32 bits
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value = *reinterpret_cast<const int64_t*>(x + i * step);
      high |= static_cast<uint64_t>(value) + 0x80000000u;
    }
    return high >> 32 == 0;
  };
  constexpr auto item = static_cast<int64_t>(sizeof(int64_t));
  return stride == item ? loop(item) : loop(stride);
}

// For every slice: packs it, lets choose(packed, n, scratch) bring what is wanted to the front and
// say at which position that begins, and writes as many elements as the results have.
template <DTypeSet Set, class Choose>
void for_each_packed(const char* name, const Tensor& input, const Tensor& values,
                     const Tensor& indices, int64_t dim, bool descending, const Choose& choose) {
  dispatch<Set>(name, input.dtype(), [](auto) {});
  const int64_t n = input.dim() ? input->sizes[dim] : 1;
  if (values.numel() == 0 || n == 0) return;
  const Choice choice(input, values, indices, dim);
  const bool may_be_narrow = n <= INT64_C(0xffffffff), is_long = input.dtype() == DType::int64;
  const bool is_narrow = may_be_narrow && choice.item <= 4;
  const auto pack_narrow = pack_for<uint32_t>(is_long ? DType::int32 : input.dtype());
  const auto pack_wide = pack_for<uint64_t>(input.dtype());
  const int64_t grain = std::max<int64_t>(1, default_grain / 16 / n);
  parallel_for(0, input.numel() / n, grain, [&](int64_t first, int64_t last) {
    Buffers<uint32_t> narrow;
    Buffers<uint64_t> wide;
    for (int64_t slice = first; slice < last; ++slice) {
      if (is_narrow ||
          (may_be_narrow && is_long && is_small(choice.slice(slice), choice.stride(), n))) {
        choose_from_slice<uint32_t>(choice, slice, pack_narrow, descending, narrow, choose);
      } else {
        choose_from_slice<uint64_t>(choice, slice, pack_wide, descending, wide, choose);
      }
    }
  });
}

template <class P>
using KeyOf = std::conditional_t<sizeof(P) == 8, uint32_t, uint64_t>;

// Of elements in the order of their indices.
template <class P>
void sort_slice(P* packed, int64_t n, Memory<P>& scratch) {
  if (n >= few_words && sort_by_count<KeyOf<P>>(packed, n, scratch)) return;
  sort_packed<KeyOf<P>>(packed, n, scratch);
}

void sort_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                 bool descending) {
  for_each_packed<dtypes::RealBool>("sort", input, values, indices, dim, descending,
                                    []<class P>(P* packed, int64_t n, Memory<P>& scratch) {
                                      sort_slice(packed, n, scratch);
                                      return int64_t{0};
                                    });
}
KERNEL_FOR(sort, sort_kernel)

// Brings the least k elements to the front, in order; the others are lost. Few elements are below
// the last of those that were the least so far: each is put in its place among them.
constexpr int64_t short_walk = 64;  // a place is looked for by halves where it is longer
template <class P>
void bring_least_to_front(P* data, int64_t n, int64_t k) {
  sort_short(data, k);
  P last = data[k - 1];
  constexpr int64_t together = 32;
  for (int64_t begin = k; begin < n; begin += together) {
    const int64_t end = std::min(begin + together, n);
    if (end == begin + together) {
      int below = 0;
      for (int64_t i = 0; i < together; ++i) below |= data[begin + i] < last;
      if (!below) continue;
    }
    for (int64_t i = begin; i < end; ++i) {
      const P element = data[i];
      if (element >= last) continue;
      int64_t place = k - 1;
      if (k > short_walk) {
        place = std::upper_bound(data, data + k, element) - data;
        std::move_backward(data + place, data + k - 1, data + k);
      } else {
        for (; place > 0 && data[place - 1] > element; --place) data[place] = data[place - 1];
      }
      data[place] = element;
      last = data[k - 1];
    }
  }
}
// For more elements a heap is better; and where few others stand behind those in front, of which
// many are moved by one partition.
constexpr int64_t few_chosen = 128;
bool come_by_partition(int64_t n, int64_t k) {
  return k * 8 < n && (k <= 16 || (k <= few_chosen && k * 48 < n));
}

// The same of wide keys: only those that may be among the least k are packed.
using ReadKeys = void (*)(const char* x, int64_t stride, int64_t n, uint64_t flip, uint64_t* keys);
template <class T>
void read_keys(const char* x, int64_t stride, int64_t n, uint64_t flip, uint64_t* keys) {
  const auto loop = [=](int64_t step) __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) {
      keys[i] = order_key(*reinterpret_cast<const T*>(x + i * step)) ^ flip;
    }
  };
  stride == sizeof(T) ? loop(sizeof(T)) : loop(stride);
}
// A key that at least k of n, a multiple of eight, do not exceed: k of the least of eight lanes do
// not.
uint64_t bound_of_least(const uint64_t* keys, int64_t n, int64_t k) {
  constexpr int64_t lanes = 8;
  if (k > lanes) return ~uint64_t{0};
  uint64_t least[lanes];
  std::copy_n(keys, lanes, least);
  for (int64_t i = lanes; i < n; i += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane)
      least[lane] = std::min(least[lane], keys[i + lane]);
  }
  int64_t smaller[lanes] = {};
  for (const uint64_t other : least) {
    for (int64_t lane = 0; lane < lanes; ++lane) smaller[lane] += other < least[lane];
  }
  uint64_t bound = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    if (smaller[lane] < k) bound = std::max(bound, least[lane]);
  }
  return bound;
}

void find_least(ReadKeys read, const Choice& choice, int64_t slice, int64_t k, uint64_t flip,
                Packed<uint64_t>* least) {
  constexpr int64_t together = 64;
  using P = Packed<uint64_t>;
  uint64_t keys[together];
  const int64_t n = choice.in.size(), stride = choice.stride();
  int64_t found = 0;
  uint64_t limit = ~uint64_t{0};  // a greater key is not among them
  for (int64_t begin = 0, count; begin < n; begin += count) {
    count = std::min(together, n - begin);
    read(choice.slice(slice) + begin * stride, stride, count, flip, keys);
    if (count == together) {
      if (begin == 0) limit = bound_of_least(keys, together, k);
      uint64_t within = 0;
      for (int64_t i = 0; i < together; ++i) within |= keys[i] <= limit;
      if (!within) continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (keys[i] > limit) continue;
      found = std::min(found + 1, k);
      int64_t place = found - 1;
      for (; place > 0 && key_of<uint64_t>(least[place - 1]) > keys[i]; --place) {
        least[place] = least[place - 1];
      }
      least[place] = P{keys[i]} << key_shift<uint64_t> | static_cast<P>(begin + i);
      if (found < k) continue;
      const auto last = key_of<uint64_t>(least[k - 1]);
      if (last == 0) return;  // none is less
      limit = last - 1;
    }
  }
}

// Of so few it is PyTorch's choice which of several equal elements are taken, and in what order.
constexpr int64_t few_to_choose_from = 16;
template <class P>
void choose_by_key(P* packed, int64_t n, int64_t k) {
  const auto less = [](const P& a, const P& b) {
    return key_of<KeyOf<P>>(a) < key_of<KeyOf<P>>(b);
  };
  if (k == 0) return;
  std::nth_element(packed, packed + k - 1, packed + n, less);
  std::sort(packed, packed + k - 1, less);
}

bool topk_of_wide(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                  int64_t dim, bool largest) {
  const Choice choice(input, values, indices, dim);
  const int64_t n = choice.in.size();
  if (choice.item != 8 || k > short_walk || !come_by_partition(n, k) || n <= few_to_choose_from ||
      values.numel() == 0)
    return false;
  const ReadKeys read = input.dtype() == DType::float64 ? read_keys<double>
                        : input.dtype() == DType::int64 ? read_keys<int64_t>
                                                        : read_keys<uint64_t>;
  const int64_t grain = std::max<int64_t>(1, default_grain / 16 / n);
  parallel_for(0, input.numel() / n, grain, [&](int64_t first, int64_t last) {
    Packed<uint64_t> least[short_walk];
    for (int64_t slice = first; slice < last; ++slice) {
      find_least(read, choice, slice, k, largest ? ~uint64_t{0} : 0, least);
      choice.write<uint64_t>(slice, least);
    }
  });
  return true;
}

void topk_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                 int64_t dim, bool largest) {
  if (topk_of_wide(input, values, indices, k, dim, largest)) return;
  for_each_packed<dtypes::Real>("topk", input, values, indices, dim, largest,
                                [k]<class P>(P* packed, int64_t n, Memory<P>& scratch) {
                                  if (n <= few_to_choose_from) {
                                    choose_by_key(packed, n, k);
                                  } else if (come_by_partition(n, k)) {
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

// Of a long slice one element is found by counting how many have which first bits, then which next
// ones among those; nothing is moved. The same for all dtypes but for how keys are read.
constexpr int digit_bits = 16;
constexpr int64_t long_slice = int64_t{1} << 15, digits = int64_t{1} << digit_bits;
struct KeyReader {
  // Counts the digits `shift` bits up in the keys whose bits above are `known`.
  void (*count)(const char* x, int64_t stride, int64_t n, uint64_t known, int shift,
                uint32_t* counts);
  // The place of the element before which `rank` others have the same key.
  int64_t (*find)(const char* x, int64_t stride, int64_t n, uint64_t key, int64_t rank);
  int bits;
};

template <class T>
void count_digits(const char* x, int64_t stride, int64_t n, uint64_t known, int shift,
                  uint32_t* counts) {
  const auto key_at = [&](int64_t i) {
    return order_key(*reinterpret_cast<const T*>(x + i * stride));
  };
  if (shift + digit_bits == static_cast<int>(sizeof(key_at(0)) * 8)) {
    for (int64_t i = 0; i < n; ++i) ++counts[key_at(i) >> shift];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto key = key_at(i);
    if (key >> shift >> digit_bits == known) ++counts[key >> shift & (digits - 1)];
  }
}

template <class T>
int64_t find_key(const char* x, int64_t stride, int64_t n, uint64_t key, int64_t rank) {
  const auto is_it = [&](int64_t i) {
    return order_key(*reinterpret_cast<const T*>(x + i * stride)) == key;
  };
  constexpr int64_t together = 4096;
  int64_t i = 0;
  for (; i + together <= n; i += together) {
    int here = 0;
    for (int64_t j = 0; j < together; ++j) here += is_it(i + j);
    if (here > rank) break;
    rank -= here;
  }
  for (;; ++i) {
    if (is_it(i) && rank-- == 0) return i;
  }
}

KeyReader reader_for(const char* name, DType dtype) {
  KeyReader found{};
  dispatch<dtypes::Real>(name, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    found = {count_digits<T>, find_key<T>, static_cast<int>(sizeof(order_key(T())) * 8)};
  });
  return found;
}

// The place of the element of the rank that rank_of tells from the number of keys whose first digit
// is the last: those are the NaNs, where there are any.
template <class Rank>
int64_t find_ranked(const KeyReader& reader, const char* x, int64_t stride, int64_t n,
                    const Rank& rank_of) {
  uint64_t known = 0;
  int64_t rank = 0;
  std::mutex adding;
  for (int shift = reader.bits - digit_bits; shift >= 0; shift -= digit_bits) {
    std::vector<uint32_t> counts(digits);
    parallel_for(0, n, default_grain, [&](int64_t first, int64_t last) {
      std::vector<uint32_t> mine(digits);
      reader.count(x + first * stride, stride, last - first, known, shift, mine.data());
      const std::lock_guard lock(adding);
      for (int64_t digit = 0; digit < digits; ++digit) counts[digit] += mine[digit];
    });
    if (shift + digit_bits == reader.bits) rank = rank_of(int64_t{counts[digits - 1]});
    int64_t digit = 0;
    for (; rank >= counts[digit]; ++digit) rank -= counts[digit];
    known = known << digit_bits | static_cast<uint64_t>(digit);
  }
  return reader.find(x, stride, n, known, rank);
}

// One element of every slice, if slices are long; false if they are not.
template <class Rank>
bool choose_from_long(const char* name, const Tensor& input, const Tensor& values,
                      const Tensor& indices, int64_t dim, const Rank& rank_of) {
  const Choice choice(input, values, indices, dim);
  const int64_t n = choice.in.size();
  if (n < long_slice || n > INT64_C(0xffffffff) || values.numel() == 0) return false;
  const KeyReader reader = reader_for(name, input.dtype());
  const int64_t slices = input.numel() / n;
  // Few slices are not spread over threads, but each of them is.
  const int64_t grain = slices < get_num_threads() ? slices : 1;
  parallel_for(0, slices, grain, [&](int64_t first, int64_t last) {
    for (int64_t slice = first; slice < last; ++slice) {
      const uint64_t place = find_ranked(reader, choice.slice(slice), choice.stride(), n, rank_of);
      choice.write<uint32_t>(slice, &place);
    }
  });
  return true;
}

// Hoare's selection around a median of three, by keys alone: which of several equal elements comes
// to stand at rank k is PyTorch's choice.
template <class P>
void select_rank(P* packed, int64_t n, int64_t k) {
  const auto exceeds = [&](int64_t i, int64_t j) {
    return key_of<KeyOf<P>>(packed[i]) > key_of<KeyOf<P>>(packed[j]);
  };
  const auto order = [&](int64_t i, int64_t j) {
    if (exceeds(i, j)) std::swap(packed[i], packed[j]);
  };
  int64_t first = 0, last = n - 1;
  while (last > first + 1) {
    std::swap(packed[(first + last) / 2], packed[first + 1]);
    order(first + 1, last);
    order(first, last);
    order(first + 1, first);  // the pivot lies first, no larger an element behind it
    int64_t i = first + 1, j = last;
    while (true) {
      do ++i;
      while (exceeds(first, i));
      do --j;
      while (exceeds(j, first));
      if (j < i) break;
      std::swap(packed[i], packed[j]);
    }
    std::swap(packed[first], packed[j]);
    if (j <= k) first = i;
    if (j >= k) last = j - 1;
  }
  if (last == first + 1) order(first, last);
}

void kthvalue_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                     int64_t dim) {
  if (choose_from_long("kthvalue_cpu", input, values, indices, dim, [k](int64_t) { return k - 1; }))
    return;
  for_each_packed<dtypes::Real>("kthvalue_cpu", input, values, indices, dim, false,
                                [k]<class P>(P* packed, int64_t n, Memory<P>&) {
                                  select_rank(packed, n, k - 1);
                                  return k - 1;
                                });
}
KERNEL_FOR(kthvalue, kthvalue_kernel)

void median_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                   bool ignore_nan) {
  const bool may_have_nan = input.is_floating();
  const auto rank_of = [=, n = input.dim() ? input->sizes[dim] : 1](int64_t last) {
    const int64_t nans = may_have_nan ? last : 0;
    if (nans > 0 && !ignore_nan) return n - nans;
    return std::max<int64_t>(n - nans - 1, 0) / 2;
  };
  if (choose_from_long("median_cpu", input, values, indices, dim, rank_of)) return;
  for_each_packed<dtypes::Real>("median_cpu", input, values, indices, dim, false,
                                [=]<class P>(P* packed, int64_t n, Memory<P>&) {
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

// Where the first of the longest runs of equal keys ends, in sorted elements.
template <class P>
int64_t end_of_longest_run(const P* sorted, int64_t n, bool may_have_nan) {
  using Key = KeyOf<P>;
  int64_t begin = 0, longest = 0, end = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Key key = key_of<Key>(sorted[i]);
    if (may_have_nan && key == ~Key(0))  // equals nothing, and comes before others only if first
      return longest > 1 || (longest == 1 && index_of<Key>(sorted[i]) > 0) ? end : i;
    if (key != key_of<Key>(sorted[begin])) begin = i;
    if (i - begin + 1 > longest) {
      longest = i - begin + 1;
      end = i;
    }
  }
  return end;
}

void mode_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  for_each_packed<dtypes::RealBool>(
      "mode_cpu", input, values, indices, dim, false,
      [has_nan = input.is_floating()]<class P>(P* packed, int64_t n, Memory<P>& scratch) {
        sort_packed<KeyOf<P>>(packed, n, scratch);
        return end_of_longest_run(packed, n, has_nan);
      });
}
KERNEL_FOR(mode, mode_kernel)

}  // namespace
}  // namespace flambeau::cpu::ISA_NAMESPACE
