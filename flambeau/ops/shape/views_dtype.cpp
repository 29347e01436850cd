// Views that read the same bytes as another dtype.
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/misaligned.h"
#include "flambeau/ops/shape/views.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {
namespace {

Tensor as_dtype(const Tensor& input, DType dtype, IntSpan sizes, IntSpan strides, int64_t offset) {
  Tensor out = make_alias(input, sizes, strides, offset);
  out->dtype = dtype;
  return marked_if_misaligned(out);
}

}  // namespace

Tensor view_as_real(const Tensor& input) {
  REDIRECT(view_as_real, input)
  CHECK(input.is_complex(), TypeError, "view_as_real is only supported for complex tensors, got {}",
        input.dtype());
  CHECK(!(input->pending & Pending::conj), RuntimeError,
        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
        "tensor so you can view it as real, use self.resolve_conj(); however, be warned that the "
        "resulting tensor will NOT alias the original.");
  Dims sizes = input->sizes, strides = input->strides;
  for (int64_t& stride : strides) stride = scaled_stride(stride, 2);
  sizes.push_back(2);
  strides.push_back(1);
  CHECK(static_cast<int64_t>(sizes.size()) <= max_dims, RuntimeError,
        "view_as_real: a tensor can have at most {} dimensions", max_dims);
  Tensor out =
      as_dtype(input, to_real(input.dtype()), sizes, strides, scaled_stride(input.offset(), 2));
  mark_view(out, input, ViewOrigin::normal, view_as_real);
  if (Record r{"view_as_real", out, {input}}) {
    r.wrt(0, [](const Tensor& g) { return view_as_complex(contiguous(g)); });
  }
  return out;
}
OP_VIEW(view_as_real, "view_as_real(input)",
        "A complex tensor as a real one whose last dimension holds real and imaginary parts.")

Tensor view_as_complex(const Tensor& input) {
  REDIRECT(view_as_complex, input)
  CHECK(!input.is_complex(), TypeError, "view_as_complex is not supported for complex tensors");
  CHECK(dtypes::Floating.has(input.dtype()) && input.dtype() != DType::bfloat16,
        NotImplementedError,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
        "scalar type: {}",
        dtype_legacy_name(input.dtype()));
  CHECK(input.dim() > 0, RuntimeError,
        "view_as_complex: Input tensor must have one or more dimensions");
  Dims sizes = input->sizes, strides = input->strides;
  CHECK(sizes.back() == 2, RuntimeError,
        "Tensor must have a last dimension of size 2, got shape {}", sizes);
  CHECK(strides.back() == 1, RuntimeError,
        "Tensor must have a last dimension with stride 1, got strides {}", strides);
  sizes.pop_back();
  strides.pop_back();
  for (size_t d = 0; d < strides.size(); ++d) {
    CHECK(strides[d] % 2 == 0 || sizes[d] == 1, RuntimeError,
          "Tensor must have a stride divisible by 2 for all but last dimension, got strides {}",
          input.strides());
    strides[d] /= 2;
  }
  CHECK(input.offset() % 2 == 0, RuntimeError,
        "Tensor must have a storage_offset divisible by 2, got {}", input.offset());
  Tensor out = as_dtype(input, to_complex(input.dtype()), sizes, strides, input.offset() / 2);
  mark_view(out, input, ViewOrigin::normal, view_as_complex);
  if (Record r{"view_as_complex", out, {input}}) {
    r.wrt(0, [](const Tensor& g) { return view_as_real(g); });
  }
  return out;
}
OP_VIEW(view_as_complex, "view_as_complex(input)",
        "A real tensor whose last dimension holds real and imaginary parts as a complex one.",
        cpu_exact)

Tensor real(const Tensor& input) {
  REDIRECT(real, input)
  if (!input.is_complex()) return input;
  const bool conjugated = input->pending & Pending::conj;
  return select(view_as_real(conjugated ? conj_view(input) : input), -1, 0);
}
OP_VIEW(real, "real(input)", "The real parts; a real tensor stays as it is.",
        elementwise | takes_nested | composed)

Tensor imag(const Tensor& input) {
  REDIRECT(imag, input)
  CHECK(input.is_complex(), TypeError,
        "imag is not implemented for tensors with non-complex dtypes. Got {}", input.dtype());
  if (!(input->pending & Pending::conj)) return select(view_as_real(input), -1, 1);
  return select(view_as_real(neg_view(conj_view(input))), -1, 1);
}
OP_VIEW(imag, "imag(input)", "The imaginary parts of a complex tensor.", elementwise | composed)

// Bytes have no derivative: the result belongs to no graph.
Tensor view(const Tensor& input, DType dtype) {
  REDIRECT(view, input, dtype)
  CHECK(!(input->pending & Pending::conj), RuntimeError,
        "torch.Tensor.view is not supported for conjugate view tensors when converting to a "
        "different dtype.");
  CHECK(!(input->pending & Pending::neg), RuntimeError,
        "torch.Tensor.view is not supported for tensors with negative bit set when converting to "
        "a different dtype.");
  const int64_t have = static_cast<int64_t>(input.item_size()),
                want = static_cast<int64_t>(item_size(dtype));
  if (have == want) return as_dtype(input, dtype, input.sizes(), input.strides(), input.offset());
  const auto named = [&](std::string_view sentence) {
    return format("{} to view {} as {} (different element sizes)", sentence,
                  dtype_legacy_name(input.dtype()), dtype_legacy_name(dtype));
  };
  CHECK(input.dim() > 0, RuntimeError, "{}", named("self.dim() cannot be 0"));
  Dims sizes = input->sizes, strides = input->strides;
  if (have < want) {
    const int64_t ratio = want / have;
    CHECK(sizes.back() % ratio == 0, RuntimeError, "{}, but got {}",
          named(format("self.size(-1) must be divisible by {}", ratio)), sizes.back());
    CHECK(strides.back() == 1, RuntimeError, "{}, but got {}", named("self.stride(-1) must be 1"),
          strides.back());
    CHECK(input.offset() % ratio == 0, RuntimeError, "{}, but got {}",
          named(format("self.storage_offset() must be divisible by {}", ratio)), input.offset());
    for (size_t d = 0; d + 1 < strides.size(); ++d) {
      CHECK(strides[d] % ratio == 0, RuntimeError, "{}, but got {}",
            named(format("self.stride({}) must be divisible by {}", d, ratio)), strides[d]);
      strides[d] /= ratio;
    }
    sizes.back() /= ratio;
    return as_dtype(input, dtype, sizes, strides, input.offset() / ratio);
  }
  const int64_t ratio = have / want;
  CHECK(strides.back() == 1, RuntimeError, "{}, but got {}", named("self.stride(-1) must be 1"),
        strides.back());
  for (size_t d = 0; d + 1 < strides.size(); ++d) strides[d] = scaled_stride(strides[d], ratio);
  sizes.back() = checked_multiply(sizes.back(), ratio);
  checked_numel(sizes);
  return as_dtype(input, dtype, sizes, strides, scaled_stride(input.offset(), ratio));
}
namespace {
Tensor view_dtype(const Tensor& self, DType dtype) { return view(self, dtype); }
}  // namespace
OP_METHOD(view_dtype, "view.dtype(self, dtype)", "The bytes of self read as another dtype.",
          makes_view | reshapes)

}  // namespace flambeau
