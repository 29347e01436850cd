#include "flambeau/tensor/tensor_iter.h"

#include <algorithm>
#include <cstring>

#include "flambeau/base/parallel.h"

namespace flambeau {
namespace {

DType promote(std::optional<DType> a, DType b) { return a ? promote_types(*a, b) : b; }

std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? to_complex(*higher) : *higher;
  if (*higher == DType::bool_ || is_floating(*lower) || is_complex(*lower)) {
    return promote_types(*higher, *lower);
  }
  return higher;
}

// The order of dimensions, innermost first, that the operands' strides suggest. Ties keep the
// logical order; a stride of 0 says nothing.
template <class StrideOf>
void order_dims(int64_t* order, int64_t rank, IntSpan shape, int operands, StrideOf stride_of) {
  for (int64_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  const auto compare = [&](int64_t inner, int64_t outer) {
    for (int k = 0; k < operands; ++k) {
      const int64_t a = stride_of(k, inner), b = stride_of(k, outer);
      if (a == 0 || b == 0) continue;
      if (a != b) return a < b ? -1 : 1;
      if (shape[inner] > shape[outer]) return 1;
    }
    return 0;
  };
  for (int64_t i = 1; i < rank; ++i) {
    int64_t at = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      const int verdict = compare(order[j], order[at]);
      if (verdict > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (verdict < 0) {
        break;
      }
    }
  }
}

// The stride that dimension `d` of a tensor broadcast to `shape` has, in elements.
int64_t broadcast_stride(const Tensor& tensor, IntSpan shape, int64_t d) {
  const int64_t own = d - (static_cast<int64_t>(shape.size()) - tensor.dim());
  if (own < 0) return 0;
  if (tensor->sizes[own] == 1 && shape[d] != 1) return 0;
  return tensor->strides[own];
}

}  // namespace

void ResultType::add(const Tensor& tensor) {
  auto& slot = tensor.dim() > 0 ? dimensioned_ : zero_dim_;
  slot = promote(slot, tensor.dtype());
}

void ResultType::add(const Scalar& scalar) { number_ = promote(number_, scalar.natural_dtype()); }

void ResultType::add(const Operand& operand) {
  if (operand.is_tensor()) {
    add(operand.tensor());
  } else {
    add(operand.scalar());
  }
}

DType ResultType::get() const { return *combine(dimensioned_, combine(zero_dim_, number_)); }

DType result_type(const Operand& a, const Operand& b) {
  if (a.is_tensor() && b.is_tensor() && a.tensor().dtype() == b.tensor().dtype()) {
    return a.tensor().dtype();
  }
  ResultType type;
  type.add(a);
  type.add(b);
  return type.get();
}

Dims common_strides(IntSpan shape, const Tensor* const* operands, int count) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  int64_t order[max_dims];
  order_dims(order, rank, shape, count,
             [&](int k, int64_t d) { return broadcast_stride(*operands[k], shape, d); });
  bool in_order = true;
  for (int64_t i = 0; i < rank; ++i) in_order &= order[i] == rank - 1 - i;
  if (in_order) return contiguous_strides(shape);
  Dims strides(rank, 0);
  int64_t step = 1;
  for (int64_t i = 0; i < rank; ++i) {
    strides[order[i]] = step;
    step = shape[order[i]] == 0 ? 0 : next_stride(step, shape[order[i]]);  // as PyTorch has it
  }
  return strides;
}

void check_no_internal_overlap(std::string_view op, const Tensor& tensor) {
  if (tensor.is_contiguous()) return;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    CHECK(tensor->sizes[d] <= 1 || tensor->strides[d] != 0, RuntimeError,
          "{}: unsupported operation: more than one element of the written-to tensor refers to a "
          "single memory location. Please clone() the tensor before performing the operation.",
          op);
  }
}

void check_no_partial_overlap(std::string_view op, const Tensor& out, const Tensor& input) {
  if (out.storage() != input.storage() || out.is_same(input)) return;
  if (out.numel() == 0 || input.numel() == 0) return;
  if (out.offset() == input.offset() && out.strides() == input.strides() &&
      out.numel() == input.numel() && out.item_size() == input.item_size()) {
    return;
  }
  // Where both are dense, comparing the windows is exact; elsewhere it would be a guess.
  if (!is_non_overlapping_and_dense(out.sizes(), out.strides()) ||
      !is_non_overlapping_and_dense(input.sizes(), input.strides())) {
    return;
  }
  const auto begin_out = static_cast<const char*>(out.raw());
  const auto begin_in = static_cast<const char*>(input.raw());
  const char* end_out = begin_out + out.numel() * out.item_size();
  const char* end_in = begin_in + input.numel() * input.item_size();
  CHECK(end_out <= begin_in || end_in <= begin_out, RuntimeError,
        "{}: unsupported operation: some elements of the input tensor and the written-to tensor "
        "refer to a single memory location. Please clone() the tensor before performing the "
        "operation.",
        op);
}

namespace {
// See Note [Sparse tensors].
void refuse_if_sparse(std::string_view op, const Tensor& tensor) {
  if (tensor.defined() && tensor->pending & Pending::valueless) [[unlikely]]
    refuse_sparse(op, tensor);
}

// A tensor of no dimensions on the CPU goes along with those of any device, as a number does.
bool is_host_number(const Tensor& tensor) { return tensor.dim() == 0 && tensor.device().is_cpu(); }

// Finds the one device of inputs that lie on several, and makes numbers of those as good as such.
[[gnu::cold, gnu::noinline]] void settle_device(TensorIter& iter, std::string_view op,
                                                const Operand* inputs) {
  const auto input = [&](int k) -> const Tensor& { return inputs[k - iter.outputs].tensor(); };
  const Tensor* home = nullptr;
  for (int k = iter.outputs; k < iter.count; ++k) {
    if (!iter.is_number[k] && (!home || is_host_number(*home))) home = &input(k);
  }
  iter.device = home->device();
  for (int k = iter.outputs; k < iter.count; ++k) {
    if (iter.is_number[k] || input(k).device() == iter.device) continue;
    if (!is_host_number(input(k))) refuse_devices(op, iter.device, input(k).device());
    iter.is_number[k] = true;
    std::memcpy(iter.numbers[k], input(k).raw(), input(k).item_size());
    iter.data[k] = iter.numbers[k];
  }
}
}  // namespace

void TensorIter::build(const Config& config, Tensor* outs, const DType* out_dtypes, int n_outs,
                       const Operand* inputs, int n_inputs, DType number_dtype) {
  count = n_outs + n_inputs;
  outputs = n_outs;
  for (int k = 0; k < n_inputs; ++k) {
    const int at = n_outs + k;
    is_number[at] = !inputs[k].is_tensor();
    if (is_number[at]) {
      dtypes[at] = number_dtype;
      dispatch<dtypes::AllStored>(config.op, number_dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T value = inputs[k].scalar().to<T>();
        std::memcpy(numbers[at], &value, sizeof value);
      });
      data[at] = numbers[at];
    } else {
      refuse_if_sparse(config.op, inputs[k].tensor());
      dtypes[at] = inputs[k].tensor().dtype();
    }
  }
  for (int k = 0; k < n_outs; ++k) refuse_if_sparse(config.op, outs[k]);
  // The common shape, and whether everybody is simply contiguous in it.
  const Tensor* lead = nullptr;
  bool simple = true, on_one_device = true;
  Dims common;
  for (int k = 0; k < n_inputs; ++k) {
    if (is_number[n_outs + k]) continue;
    const Tensor& tensor = inputs[k].tensor();
    simple &= tensor.is_contiguous();
    on_one_device &= !lead || tensor.device() == lead->device();
    if (!lead) {
      lead = &tensor;
      common = tensor->sizes;
    } else if (!(common == tensor->sizes)) {
      simple = false;
      common = broadcast_shapes(common, tensor.sizes());
    }
  }
  if (!lead && n_outs > 0 && outs[0].defined()) common = outs[0]->sizes;
  device = lead ? lead->device() : outs[0].device();
  if (!on_one_device) settle_device(*this, config.op, inputs);
  set_dims(config, outs, out_dtypes, inputs, n_inputs, common);
  for (int k = 0; k < n_outs; ++k) simple &= outs[k].is_contiguous();
  for (int k = 0; k < count; ++k) {
    if (!is_number[k])
      data[k] = static_cast<char*>(k < n_outs ? outs[k].raw() : inputs[k - n_outs].tensor().raw());
  }
  numel = n_outs > 0 ? outs[0].numel() : checked_numel(common);
  if (simple) {
    ndim = 1;
    shape[0] = numel;
    for (int k = 0; k < count; ++k) {
      strides[k][0] = is_number[k] ? 0 : static_cast<int64_t>(item_size(dtypes[k]));
    }
    return;
  }
  set_strides(common, outs, inputs);
  merge_dims();
}

// A stride in bytes. It may wrap where a dimension has one element, along which nobody steps.
static int64_t in_bytes(int64_t stride, DType dtype) {
  return static_cast<int64_t>(static_cast<uint64_t>(stride) * item_size(dtype));
}

// Shape and strides of all operands, in the order of dimensions that suits them best.
void TensorIter::set_strides(IntSpan common, const Tensor* outs, const Operand* inputs) {
  const int64_t rank = static_cast<int64_t>(common.size());
  const auto tensor_of = [&](int k) -> const Tensor& {
    return k < outputs ? outs[k] : inputs[k - outputs].tensor();
  };
  int64_t order[max_dims];
  order_dims(order, rank, common, count, [&](int k, int64_t d) {
    return is_number[k] ? 0 : in_bytes(broadcast_stride(tensor_of(k), common, d), dtypes[k]);
  });
  ndim = static_cast<int>(rank);
  for (int64_t i = 0; i < rank; ++i) {
    shape[i] = common[order[i]];
    for (int k = 0; k < count; ++k) {
      strides[k][i] =
          is_number[k] ? 0 : in_bytes(broadcast_stride(tensor_of(k), common, order[i]), dtypes[k]);
    }
  }
}

// Whether the strides are those of a new tensor, along dimensions of size 1 too.
static bool has_plain_strides(const Tensor& tensor) {
  int64_t expected = 1;
  for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
    if (tensor->strides[d] != expected) return false;
    expected = next_stride(expected, tensor->sizes[d]);
  }
  return true;
}

// Whether all inputs lie in the common shape in order. Where one is spread over it, a number too,
// even the strides of dimensions of size 1 have a say.
static bool all_contiguous(IntSpan common, const Operand* inputs, int n_inputs) {
  bool spread = false, plain = true;
  for (int j = 0; j < n_inputs; ++j) {
    if (!inputs[j].is_tensor()) {
      spread = true;
      continue;
    }
    const Tensor& tensor = inputs[j].tensor();
    if (tensor.dim() == 0) {
      spread = true;
      continue;
    }
    if (!tensor.is_contiguous() || !(tensor.sizes() == common)) return false;
    plain &= tensor.numel() > 0 && has_plain_strides(tensor);
  }
  return plain || !spread;
}

// Whether all inputs are images of the common shape with the channels last.
static bool all_channels_last(IntSpan common, const Operand* inputs, int n_inputs) {
  return common.size() == 4 && std::all_of(inputs, inputs + n_inputs, [&](const Operand& input) {
           return input.is_tensor() && input.tensor().sizes() == common &&
                  input.tensor().is_contiguous(MemoryFormat::channels_last);
         });
}

// The strides of a new output. What lies in one of the two orders, or densely as all the inputs do,
// has its strides also along dimensions of size 1, which a later op may take the order from.
static Dims new_strides(IntSpan common, const Operand* inputs, int n_inputs) {
  if (all_contiguous(common, inputs, n_inputs)) return contiguous_strides(common);
  if (all_channels_last(common, inputs, n_inputs)) {
    return format_strides(common, MemoryFormat::channels_last);
  }
  const Tensor* tensors[TensorIter::max_operands];
  int n = 0;
  for (int j = 0; j < n_inputs; ++j) {
    if (inputs[j].is_tensor()) tensors[n++] = &inputs[j].tensor();
  }
  const auto lies_as_first = [&](const Tensor* tensor) {
    return tensor->sizes() == common && tensor->strides() == tensors[0]->strides();
  };
  if (n == n_inputs && std::all_of(tensors, tensors + n, lies_as_first) &&
      is_non_overlapping_and_dense(common, tensors[0]->strides())) {
    return tensors[0]->strides().dims();
  }
  return common_strides(common, tensors, n);
}

// Allocates, resizes or checks the outputs for the common shape.
void TensorIter::set_dims(const Config& config, Tensor* outs, const DType* out_dtypes,
                          const Operand* inputs, int n_inputs, IntSpan common) {
  for (int k = 0; k < outputs; ++k) {
    is_number[k] = false;
    Tensor& out = outs[k];
    CHECK(!out.defined() || out.device() == device, RuntimeError,
          "{}: Expected out tensor to have device {}, but got {} instead", config.op, device,
          out.device());
    bool resized = false;
    if (out.defined() && config.check_overlap) check_no_internal_overlap(config.op, out);
    if (out.defined() && !(out.sizes() == common)) {
      bool resizes = config.resize_outputs;
      for (int j = 0; j < n_inputs; ++j) {
        if (!inputs[j].is_tensor()) continue;
        resizes &= !inputs[j].tensor().is_same(out);
        if (config.check_overlap) check_no_partial_overlap(config.op, out, inputs[j].tensor());
      }
      CHECK(resizes, RuntimeError, "{}: output with shape {} doesn't match the broadcast shape {}",
            config.op, out.sizes(), common);
      resize_tensor(out, common, new_strides(common, inputs, n_inputs));
      resized = true;
    }
    if (!out.defined()) {
      if (all_contiguous(common, inputs, n_inputs)) {
        out = make_tensor(common, out_dtypes[k], device);
      } else {
        out = make_strided(common, new_strides(common, inputs, n_inputs), out_dtypes[k], device);
      }
    } else if (config.check_overlap && !resized) {
      for (int j = 0; j < n_inputs; ++j) {
        if (inputs[j].is_tensor()) check_no_partial_overlap(config.op, out, inputs[j].tensor());
      }
    }
    dtypes[k] = out.dtype();
  }
}

// Joins neighbouring dimensions that every operand steps through as one.
void TensorIter::merge_dims() {
  int last = 0;
  for (int d = 1; d < ndim; ++d) {
    bool joins = true;
    for (int k = 0; k < count && joins; ++k) {
      joins = shape[last] == 1 || shape[d] == 1 || strides[k][d] == shape[last] * strides[k][last];
    }
    if (joins) {
      if (shape[last] == 1) {
        for (int k = 0; k < count; ++k) strides[k][last] = strides[k][d];
      }
      shape[last] *= shape[d];
    } else {
      ++last;
      shape[last] = shape[d];
      for (int k = 0; k < count; ++k) strides[k][last] = strides[k][d];
    }
  }
  if (ndim > 0) {
    ndim = last + 1;
  } else {
    ndim = 1;
    shape[0] = 1;
    for (int k = 0; k < count; ++k)
      strides[k][0] = is_number[k] ? 0 : static_cast<int64_t>(item_size(dtypes[k]));
  }
}

bool TensorIter::is_contiguous() const {
  if (ndim != 1) return false;
  for (int k = 0; k < count; ++k) {
    if (strides[k][0] != static_cast<int64_t>(item_size(dtypes[k]))) return false;
  }
  return true;
}

bool TensorIter::can_use_32bit() const {
  for (int k = 0; k < count; ++k) {
    int64_t reach = 1;
    for (int d = 0; d < ndim; ++d) reach += (shape[d] - 1) * strides[k][d];
    if (reach > INT32_MAX) return false;
  }
  return numel <= INT32_MAX;
}

namespace {

// A tile's lines stay in the caches next to the processor for every operand. Of what is too large
// for them all, tiles are larger, for it is read the faster the longer it lies along one: up to a
// page, as long as there are several for each thread.
struct Tile {
  int64_t width = 128, height = 64;
};
Tile tile_for(int64_t numel) {
  constexpr int64_t many = int64_t{1} << 22, longest = 1024;
  const int64_t largest = numel / (8 * get_num_threads());
  Tile tile;
  while (numel >= many && tile.height < longest && 2 * tile.width * tile.height <= largest) {
    (tile.height <= tile.width ? tile.height : tile.width) *= 2;
  }
  return tile;
}

// The dimension along which some operand's neighbours in memory lie where that is not the innermost
// one, which they are for others; 0 if there is none.
int dimension_across(const TensorIter& iter) {
  if (iter.shape[0] < 8) return 0;
  for (int k = 0; k < iter.count; ++k) {
    int nearest = 0;
    for (int d = 1; d < iter.ndim; ++d) {
      const int64_t stride = std::abs(iter.strides[k][d]);
      if (stride != 0 && stride < std::abs(iter.strides[k][nearest])) nearest = d;
    }
    if (nearest != 0 && iter.shape[nearest] >= 8) return nearest;
  }
  return 0;
}

// The same elements, two dimensions of which are swapped.
TensorIter with_swapped(TensorIter iter, int a, int b) {
  std::swap(iter.shape[a], iter.shape[b]);
  for (int k = 0; k < iter.count; ++k) std::swap(iter.strides[k][a], iter.strides[k][b]);
  return iter;
}

// An odometer over blocks of the two inner dimensions and single steps of the others.
class BlockIndex {
 public:
  BlockIndex(const TensorIter& iter, int64_t width, int64_t height) : iter_(iter) {
    size_[0] = width;
    size_[1] = height;
    for (int d = 0; d < iter.ndim; ++d) {
      if (d > 1) size_[d] = 1;
      count_[d] = (iter.shape[d] + size_[d] - 1) / size_[d];
    }
  }
  [[nodiscard]] int64_t blocks() const {
    int64_t total = 1;
    for (int d = 0; d < iter_.ndim; ++d) total *= count_[d];
    return total;
  }
  void move_to(int64_t block) {
    for (int d = 0; d < iter_.ndim; ++d) {
      index_[d] = block % count_[d];
      block /= count_[d];
    }
  }
  void next() {
    for (int d = 0; d < iter_.ndim; ++d) {
      if (++index_[d] < count_[d]) return;
      index_[d] = 0;
    }
  }
  [[nodiscard]] char* at(int operand) const {
    char* data = iter_.data[operand];
    for (int d = 0; d < iter_.ndim; ++d) data += index_[d] * size_[d] * iter_.strides[operand][d];
    return data;
  }
  // How far the current block reaches along dimension d.
  [[nodiscard]] int64_t extent(int d) const {
    return std::min(size_[d], iter_.shape[d] - index_[d] * size_[d]);
  }

 private:
  const TensorIter& iter_;
  int64_t size_[max_dims], count_[max_dims], index_[max_dims];
};

// Blocks of the two inner dimensions, which are tiles where operands lie in different orders.
void run_blocks(const TensorIter& iter, void* context, BlockLoop loop, int64_t grain, bool tiled) {
  int64_t steps[TensorIter::max_operands], row_steps[TensorIter::max_operands];
  for (int k = 0; k < iter.count; ++k) {
    steps[k] = iter.strides[k][0];
    row_steps[k] = iter.strides[k][1];
  }
  const Tile tile = tiled ? tile_for(iter.numel) : Tile();
  const int64_t width = std::min(iter.shape[0], tiled ? tile.width : grain);
  const int64_t height = std::min(iter.shape[1], tiled ? tile.height : (grain + width - 1) / width);
  const BlockIndex first(iter, width, height);
  parallel_for(0, first.blocks(), (grain + width * height - 1) / (width * height),
               [&](int64_t begin, int64_t end) {
                 BlockIndex index = first;
                 index.move_to(begin);
                 for (int64_t block = begin; block < end; ++block, index.next()) {
                   char* part[TensorIter::max_operands];
                   for (int k = 0; k < iter.count; ++k) part[k] = index.at(k);
                   loop(context, part, {index.extent(0), index.extent(1), steps, row_steps});
                 }
               });
}

}  // namespace

void for_each_block(const TensorIter& iter, void* context, BlockLoop loop, int cost) {
  if (iter.numel == 0) return;
  const int64_t grain = std::max<int64_t>(1, default_grain / cost);
  int64_t steps[TensorIter::max_operands], row_steps[TensorIter::max_operands] = {};
  char* data[TensorIter::max_operands];
  for (int k = 0; k < iter.count; ++k) {
    steps[k] = iter.strides[k][0];
    data[k] = iter.data[k];
  }
  if (iter.ndim == 1) {
    if (iter.numel <= grain) return loop(context, data, {iter.numel, 1, steps, row_steps});
    return parallel_for(0, iter.numel, grain, [&](int64_t begin, int64_t end) {
      char* part[TensorIter::max_operands];
      for (int k = 0; k < iter.count; ++k) part[k] = iter.data[k] + begin * steps[k];
      loop(context, part, {end - begin, 1, steps, row_steps});
    });
  }
  const int across = dimension_across(iter);
  if (across > 1) return run_blocks(with_swapped(iter, 1, across), context, loop, grain, true);
  run_blocks(iter, context, loop, grain, across == 1);
}

}  // namespace flambeau
