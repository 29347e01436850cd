// Copies: between layouts, dtypes and devices, and what is made of them.
#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/creation/pinned.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/index/indexing.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/sparse/sparse.h"
#include "flambeau/tensor/accelerator.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// `from` stretched to a shape it broadcasts to, without history.
Tensor broadcast_alias(const Tensor& from, IntSpan sizes) {
  Dims strides(sizes.size(), 0);
  const size_t extra = sizes.size() - from.dim();
  for (size_t d = extra; d < sizes.size(); ++d) {
    if (from->sizes[d - extra] != 1) strides[d] = from->strides[d - extra];
  }
  return make_alias(from, sizes, strides, from.offset());
}

// Note [Stored dtypes]
// float8 and complex32 hold numbers for which there is no arithmetic: kernels either move elements
// without regard to what they mean (dispatch_size), and so move these, or range over a set of
// dtypes that has them not, and refuse them in PyTorch's words. One kernel converts them: float8
// from and to floating types up to float32, complex32 from and to complex64; all other copies go
// by way of these. The few rows that PyTorch computes for them say so (DTypeSet::widens_*) and are
// computed in the wider type.

// Whether one conversion leads from one dtype to the other.
bool converts_at_once(DType to, DType from) {
  if (to == from || (!is_stored(to) && !is_stored(from))) return true;
  const DType stored = is_stored(to) ? to : from, other = is_stored(to) ? from : to;
  return other == widened(stored) || (dtypes::Float8.has(stored) && dtypes::Reduced.has(other));
}

// A gradient on its way back. What stood for a tensor without values was nowhere, and whoever put
// it there brings its gradient home.
Tensor sent(const Tensor& grad, Device home) { return home.is_meta() ? grad : to(grad, home); }

// The copy itself, on the devices of both: within one device a kernel; across devices the bytes of
// a dense tensor of the right dtype and layout.
void copy_values(const Tensor& to, const Tensor& from, bool non_blocking = false) {
  CHECK(!from.device().is_meta() || to.device().is_meta(), NotImplementedError,
        "Cannot copy out of meta tensor; no data!");
  if (to.numel() == 0 || to.device().is_meta()) return;
  if (to->pending || from->pending) [[unlikely]]
    return copy_marked(to, from);
  if (to.device() == from.device()) {
    if (!(from.sizes() == to.sizes())) {
      const NoGrad off;
      return copy_values(to, expand(from, to.sizes()), non_blocking);
    }
    if (!converts_at_once(to.dtype(), from.dtype())) [[unlikely]] {
      const DType stage = is_stored(from.dtype()) ? widened(from.dtype()) : widened(to.dtype());
      const Tensor staged = make_tensor(from.sizes(), stage, from.device());
      copy_values(staged, from);
      return copy_values(to, staged);
    }
    TensorIter iter;
    Tensor out = to;
    const DType dtype = to.dtype();
    const Tensor source = from.sizes() == to.sizes() ? from : broadcast_alias(from, to.sizes());
    const Operand inputs[] = {source};
    iter.build({"copy_", false, false}, &out, &dtype, 1, inputs, 1, dtype);
    const bool converts = from.dtype() != dtype && (is_stored(dtype) || is_stored(from.dtype()));
    (converts ? kernels::convert_stored : kernels::copy)(iter.device.type, iter);
    return;
  }
  const NoGrad off;
  Tensor source = from.sizes() == to.sizes() ? from : broadcast_alias(from, to.sizes());
  const bool same_layout =
      source.strides() == to.strides() && is_non_overlapping_and_dense(to.sizes(), to.strides());
  if (source.dtype() == to.dtype() &&
      (same_layout || (source.is_contiguous() && to.is_contiguous()))) {
    const size_t bytes = to.numel() * to.item_size();
    // Results for the host are waited for unless their place is page-locked: others may be freed.
    if (non_blocking && (to.device().is_cpu() || source.device().is_cpu()) &&
        (to.device().is_cuda() || is_pinned(to))) {
      const Device device = to.device().is_cuda() ? to.device() : source.device();
      accelerator(device.type).copy_async(to.raw(), source.raw(), bytes, device.index);
    } else {
      copy_bytes(to.raw(), to.device(), source.raw(), source.device(), bytes);
    }
    return;
  }
  // Convert on the source's side, move, then lay out on the target's side.
  source = contiguous(flambeau::to(source, to.dtype()));
  if (to.is_contiguous()) return copy_values(to, source, non_blocking);
  const Tensor moved = make_tensor(to.sizes(), to.dtype(), to.device());
  copy_values(moved, source);
  copy_values(to, moved);
}

void warn_if_imaginary_is_lost(DType from, DType to) {
  static std::atomic<bool> told{false};
  if (!is_complex(from) || is_complex(to) || to == DType::bool_) return;
  warn_once(told, "Casting complex values to real discards the imaginary part");
}

}  // namespace

Tensor copy_(const Tensor& self, const Tensor& source, bool non_blocking) {
  REDIRECT(copy_, self, source, non_blocking)
  if (self.is_sparse() || source.is_sparse()) [[unlikely]]
    return copy_sparse_(self, source);
  // A copy into integers is not recorded, whatever is copied.
  const bool records = is_differentiable(self.dtype());
  check_inplace("copy_", self, records && source.requires_grad());
  if (grad_enabled() && source->view_base) grad_fn(source);  // which may refuse
  CHECK(can_broadcast_to(source.sizes(), self.sizes()), RuntimeError,
        "copy_: output with shape {} doesn't match the broadcast shape {}", self.sizes(),
        broadcast_shapes(self.sizes(), source.sizes()));
  const bool same_memory = self.storage() == source.storage() && self.offset() == source.offset() &&
                           self.sizes() == source.sizes() && self.strides() == source.strides() &&
                           self.dtype() == source.dtype() && self->pending == source->pending;
  if (!same_memory) {
    check_no_internal_overlap("copy_", self);
    check_no_partial_overlap("copy_", self, source);
    warn_if_imaginary_is_lost(source.dtype(), self.dtype());
    copy_values(self, source, non_blocking);
  }
  // What lies in the memory that was written had its history before the write.
  const bool within = source->version && source->version == self->version;
  if (!within) self.bump_version("copy_");
  bool recorded = false;
  if (records) {
    if (Record r = Record::in_place("copy_backwards", self, {source})) {
      r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
      r.wrt(1, [device = source.device()](const Tensor& g) { return sent(g, device); });
      recorded = true;
    }
  }
  if (within) {
    self.bump_version("copy_");
    if (recorded && self->view_base) self->view_version = self.version();
  }
  return self;
}
static Tensor copy_op(const Tensor& self, const Operand& src, bool non_blocking) {
  if (src.is_tensor()) return copy_(self, src.tensor(), non_blocking);
  const Scalar& number = src.scalar();  // with all the digits that Python has
  const DType dtype = number.is_complex()    ? DType::complex128
                      : number.is_floating() ? DType::float64
                                             : number.natural_dtype();
  return copy_(self, cast_operand(number, dtype, Device()), non_blocking);
}
OP_METHOD(copy_op, "copy_.default(self, src, non_blocking=False)",
          "Copies the elements of src into self, converting and broadcasting them.",
          takes_sparse | takes_pending | elementwise | takes_nested)

Tensor clone(const Tensor& input, MemoryFormat format) {
  REDIRECT(clone, input, format)
  if (input.is_sparse()) [[unlikely]] {
    CHECK(format == MemoryFormat::preserve, RuntimeError,
          "unsupported memory format option {}: sparse tensors have none",
          format == MemoryFormat::contiguous ? "Contiguous" : "ChannelsLast");
    return clone_sparse(input);
  }
  const Dims strides = format == MemoryFormat::preserve ? preserved_strides(input)
                                                        : format_strides(input.sizes(), format);
  Tensor out = make_strided(input.sizes(), strides, input.dtype(), input.device());
  copy_values(out, input);
  if (Record r{"clone", out, {input}}) r.wrt(0, [](const Tensor& g) { return g; });
  return out;
}
namespace {
Tensor clone_op(const Tensor& input, std::optional<MemoryFormat> memory_format) {
  return clone(input, memory_format.value_or(MemoryFormat::preserve));
}
}  // namespace
OP(clone_op, "clone(input, *, memory_format=None)",
   "A copy of input in memory of its own. Gradients flow through it.",
   takes_sparse | takes_pending | elementwise | takes_nested | moves | takes_quantized | no_out)

Tensor contiguous(const Tensor& input, MemoryFormat format) {
  REDIRECT(contiguous, input, format)
  CHECK(format != MemoryFormat::preserve, RuntimeError,
        "contiguous: preserve memory format is unsupported by the contiguous operator");
  return input.is_contiguous(format) ? input : clone(input, format);
}
OP_METHOD(contiguous, "contiguous(self, memory_format=torch.contiguous_format)",
          "self if its elements lie in order in memory already, else a copy in which they do.",
          takes_pending | moves | takes_quantized | composed)

// The copy that is made of a tensor on another device, of another dtype or in another layout.
static Tensor to_copy(const Tensor& input, DType type, Device target, bool non_blocking,
                      MemoryFormat layout) {
  const bool keeps = layout == MemoryFormat::preserve;
  REDIRECT(
      _to_copy, input, type == input.dtype() ? std::optional<DType>() : std::optional<DType>(type),
      target == input.device() ? std::optional<Device>() : std::optional<Device>(target),
      non_blocking, keeps ? std::optional<MemoryFormat>() : std::optional<MemoryFormat>(layout))
  if (input.is_sparse()) [[unlikely]]
    return sparse_to(input, target, type);
  warn_if_imaginary_is_lost(input.dtype(), type);
  const Dims strides = keeps ? preserved_strides(input) : format_strides(input.sizes(), layout);
  Tensor out = make_strided(input.sizes(), strides, type, target);
  copy_values(out, input, non_blocking);
  if (is_differentiable(type)) {
    // The engine casts the gradient back; it only has to come home.
    if (Record r{"to_copy", out, {input}}) {
      r.wrt(0, [home = input.device()](const Tensor& g) { return sent(g, home); });
    }
  }
  return out;
}
static Tensor to_copy_op(const Tensor& input, std::optional<DType> dtype,
                         std::optional<Device> device, bool non_blocking,
                         std::optional<MemoryFormat> memory_format) {
  return to_copy(input, dtype.value_or(input.dtype()), device.value_or(input.device()),
                 non_blocking, memory_format.value_or(MemoryFormat::preserve));
}
OP_FUNCTION(to_copy_op,
            "_to_copy(input, *, dtype=None, device=None, non_blocking=False, memory_format=None)",
            "A copy of input, of another dtype or on another device.", takes_sparse | elementwise)

Tensor to(const Tensor& input, std::optional<Device> device, std::optional<DType> dtype,
          bool non_blocking, bool copy, std::optional<MemoryFormat> format) {
  REDIRECT(to, input, device, dtype, non_blocking, copy, format)
  Device target = device.value_or(input.device());
  if (target.is_cuda() && target.index < 0) {
    target.index = static_cast<int8_t>(device_runtime(target.type).current_device());
  }
  if (target.is_cpu()) target.index = -1;
  const DType type = dtype.value_or(input.dtype());
  const MemoryFormat layout = format.value_or(MemoryFormat::preserve);
  const bool layout_fits = layout == MemoryFormat::preserve || suggest_format(input) == layout;
  if (!copy && target == input.device() && type == input.dtype() && layout_fits) return input;
  return to_copy(input, type, target, non_blocking, layout);
}

Tensor to(const Tensor& input, DType dtype) {
  return input.dtype() == dtype ? input : to(input, {}, dtype, false, false, {});
}
Tensor to(const Tensor& input, Device device) {
  return input.device() == device ? input : to(input, device, {}, false, false, {});
}

namespace {

Tensor to_dtype(const Tensor& self, DType dtype, bool non_blocking, bool copy,
                std::optional<MemoryFormat> memory_format) {
  return to(self, {}, dtype, non_blocking, copy, memory_format);
}
Tensor to_device(const Tensor& self, std::optional<Device> device, std::optional<DType> dtype,
                 bool non_blocking, bool copy, std::optional<MemoryFormat> memory_format) {
  return to(self, device, dtype, non_blocking, copy, memory_format);
}
Tensor to_other(const Tensor& self, const Tensor& other, bool non_blocking, bool copy,
                std::optional<MemoryFormat> memory_format) {
  return to(self, other.device(), other.dtype(), non_blocking, copy, memory_format);
}

}  // namespace
OP_METHOD(
    to_dtype, "to(self, dtype, non_blocking=False, copy=False, *, memory_format=None)",
    "self converted to a dtype, a device, or those of another tensor; self if nothing changes.",
    takes_sparse | takes_pending | elementwise | takes_nested | converts | composed | cpp_by_hand)
OP_METHOD(
    to_device,
    "to(self, device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None)",
    "self converted to a dtype, a device, or those of another tensor; self if nothing changes.",
    takes_sparse | takes_pending | elementwise | takes_nested | converts | composed | cpp_by_hand)
OP_METHOD(
    to_other, "to(self, other, non_blocking=False, copy=False, *, memory_format=None)",
    "self converted to a dtype, a device, or those of another tensor; self if nothing changes.",
    takes_sparse | takes_pending | elementwise | takes_nested | converts | composed | cpp_by_hand)

// A value of each sample is one to copy.
static bool batch_fill(Batching& batch, Result& result) {
  if (!batch.is_batched(1)) return batch_elementwise(batch, result);
  const Tensor self = batch.whole(0);
  Dims ones = {batch.size()};
  for (int64_t d = 0; d < batch.rank(0); ++d) ones.push_back(1);
  const Tensor target = batch.call().in_place() ? self : tensor_op("empty_like", {self});
  result = call_op("copy_", {target, reshape_to(batch.samples(1), ones)});
  return true;
}
BATCH(copy_, batch_elementwise)
BATCH(fill_, batch_fill)
BATCH(fill, batch_fill)
BATCH(zero_, batch_elementwise)
BATCH(to, batch_first)
BATCH(type_as, batch_first)

#define CONVERSION(method, dtype_)                                                           \
  static Tensor to_##method(const Tensor& self, std::optional<MemoryFormat> memory_format) { \
    return to(self, {}, DType::dtype_, false, false, memory_format);                         \
  }                                                                                          \
  OP_METHOD(to_##method, #method "(self, memory_format=None)",                               \
            "self converted to torch." #dtype_ ".",                                          \
            takes_sparse | takes_nested | converts | elementwise | composed)
CONVERSION(float, float32)
CONVERSION(double, float64)
CONVERSION(half, float16)
CONVERSION(bfloat16, bfloat16)
CONVERSION(long, int64)
CONVERSION(int, int32)
CONVERSION(short, int16)
CONVERSION(char, int8)
CONVERSION(byte, uint8)
CONVERSION(bool, bool_)
CONVERSION(chalf, complex32)
CONVERSION(cfloat, complex64)
CONVERSION(cdouble, complex128)
#undef CONVERSION

namespace {
Tensor type_as(const Tensor& self, const Tensor& other) {
  return to(self, other.device(), other.dtype(), false, false, {});
}
Tensor cpu(const Tensor& self, std::optional<MemoryFormat> memory_format) {
  return to(self, Device(DeviceType::cpu), {}, false, false, memory_format);
}
Tensor cuda(const Tensor& self, std::optional<Device> device, bool non_blocking,
            std::optional<MemoryFormat> memory_format) {
  return to(self, device.value_or(Device(DeviceType::cuda)), {}, non_blocking, false,
            memory_format);
}
}  // namespace
OP_METHOD(type_as, "type_as(self, other)", "self converted to the dtype and device of other.",
          takes_sparse | elementwise | takes_nested | converts | composed)
OP_METHOD(cpu, "cpu(self, memory_format=None)", "self on the CPU.",
          takes_sparse | elementwise | takes_nested | converts | composed)
OP_METHOD(cuda, "cuda(self, device=None, non_blocking=False, memory_format=None)",
          "self on a CUDA device.", takes_sparse | elementwise | takes_nested | converts | composed)

namespace {

Tensor fill_with(const Tensor& self, const Tensor& value) {
  check_inplace("fill_", self, value.requires_grad());
  check_no_internal_overlap("fill_", self);
  copy_values(self, apart_from(self, value));
  self.bump_version("fill_");
  if (Record r = Record::in_place("fill.3", self, {value})) {
    r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
    r.wrt(1, [device = value.device()](const Tensor& g) { return sent(sum(g), device); });
  }
  return self;
}

Tensor fill_with_number(const char* step, const Tensor& self, const Operand& value) {
  check_inplace("fill_", self);
  // As in PyTorch, a single number of half precision may become infinite.
  const bool overflows = self.numel() == 1 && dtypes::Reduced.has(self.dtype()) &&
                         self.device().is_cpu() && !value.scalar().is_complex();
  if (!overflows) check_number_fits("fill_", value.scalar(), self.dtype());
  TensorIter iter;
  Tensor out = self;
  const DType dtype = self.dtype();
  iter.build({"fill_", false, false}, &out, &dtype, 1, &value, 1, dtype);
  kernels::copy(iter.device.type, iter);
  self.bump_version("fill_");
  if (Record r = Record::in_place(step, self, {})) {
    r.wrt(0, [](const Tensor& g) { return zeros_like(g); });
  }
  return self;
}

}  // namespace

Tensor fill_(const Tensor& self, const Operand& value) {
  REDIRECT(fill_, self, value)
  if (!value.is_tensor()) return fill_with_number("fill.2", self, value);
  CHECK(value.tensor().dim() == 0, RuntimeError,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.tensor().dim());
  return fill_with(self, value.tensor());
}
OP_METHOD(fill_, "fill_(self, value)", "Sets every element of self to value.", takes_nested)

Tensor zero_(const Tensor& self) {
  REDIRECT(zero_, self)
  return self.is_sparse() ? zero_sparse_(self) : fill_with_number("zero", self, 0);
}
OP_METHOD(zero_, "zero_(self)", "Sets every element of self to zero.",
          takes_sparse | elementwise | takes_nested | foreach)

Scalar item(const Tensor& input) {
  REDIRECT(item, input)
  CHECK(input.numel() == 1, RuntimeError, "a Tensor with {} elements cannot be converted to Scalar",
        input.numel());
  CHECK(!input.device().is_meta(), RuntimeError, "Tensor.item() cannot be called on meta tensors");
  if (input->pending) [[unlikely]]
    return item(input.is_sparse() ? to_dense(input) : resolve(input));
  alignas(16) char buffer[16];
  const void* at = input.raw();
  if (!input.device().is_cpu()) {
    copy_bytes(buffer, Device(), input.raw(), input.device(), input.item_size());
    at = buffer;
  }
  Scalar value;
  dispatch<dtypes::AllStored>("item", input.dtype(), [&](auto tag) {
    value = Scalar(*static_cast<const typename decltype(tag)::type*>(at));
  });
  return value;
}
OP_METHOD(item, "item._local_scalar_dense.default(self)",
          "The value of a tensor with one element, as a Python number.",
          takes_sparse | takes_pending | cpp_by_hand)

bool is_nonzero(const Tensor& input) {
  REDIRECT(is_nonzero, input)
  CHECK(input.numel() != 0, RuntimeError, "Boolean value of Tensor with no values is ambiguous");
  CHECK(input.numel() == 1, RuntimeError,
        "Boolean value of Tensor with more than one value is ambiguous");
  return item(input).to<bool>();
}
OP(is_nonzero, "is_nonzero(input)", "Whether the one element of input is not zero.",
   takes_sparse | composed)

}  // namespace flambeau
