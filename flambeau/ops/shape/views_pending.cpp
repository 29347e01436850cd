// Conjugation and negation as views: the result shares memory with its input and a mark says what
// its values are made of.
//
// Note [Pending conjugation]
// Kernels and derivatives never see a marked tensor. Views keep the mark, copies honour it on
// both sides, and the front end gives every other op a copy in which nothing is pending (and
// copies back what an in-place op made of it).
#include "flambeau/kernels/elementwise.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/misaligned.h"
#include "flambeau/ops/shape/views.h"
#include "flambeau/tensor/strides.h"

namespace flambeau {
namespace {

// The same memory without its marks.
Tensor unmarked(const Tensor& tensor) {
  Tensor plain = make_alias(tensor);
  plain->pending = Pending::nothing;
  return plain;
}

// The bytes of each element, as a last dimension.
Tensor bytes_of(const Tensor& plain) {
  const auto item = static_cast<int64_t>(plain.item_size());
  Dims sizes = plain->sizes, strides = plain->strides;
  CHECK(static_cast<int64_t>(sizes.size()) < max_dims, RuntimeError,
        "a tensor whose elements are not aligned in memory can have at most {} dimensions",
        max_dims - 1);
  for (int64_t& stride : strides) stride = scaled_stride(stride, item);
  sizes.push_back(item);
  strides.push_back(1);
  Tensor bytes = make_alias(plain, sizes, strides, scaled_stride(plain.offset(), item));
  bytes->dtype = DType::uint8;
  return bytes;
}

// A copy whose elements lie as they should (Note [Misaligned elements]).
Tensor straightened(const Tensor& plain) {
  Tensor out = make_tensor(plain.sizes(), plain.dtype(), plain.device());
  copy_(bytes_of(out), bytes_of(plain));
  return out;
}

Tensor marked(const char* op, const Tensor& input, uint8_t mark, Tensor (*again)(const Tensor&),
              Tensor (*gradient)(const Tensor&)) {
  Tensor out = make_alias(input);
  out->pending ^= mark;
  mark_view(out, input, ViewOrigin::normal, again);
  if (Record r{op, out, {input}}) r.wrt(0, gradient);
  return out;
}

// Without a copy in between.
void conjugate_into(const Tensor& to, const Tensor& from) {
  TensorIter iter;
  Tensor out = to;
  const DType dtype = to.dtype();
  const Tensor source = expand(from, to.sizes());
  const Operand inputs[] = {source};
  iter.build({"conj_physical", false, false}, &out, &dtype, 1, inputs, 1, dtype);
  kernels::conj_physical(iter.device.type, iter, nullptr);
}

}  // namespace

void copy_marked(const Tensor& to, const Tensor& from) {
  const NoGrad off;
  const uint8_t change = to->pending ^ from->pending;
  Tensor values = unmarked(from);
  const bool lie_apart = to.device() == from.device() && !(to.storage() == from.storage()) &&
                         !(from->pending & misaligned);
  if (change == Pending::conj && dtypes::Complex.has(to.dtype()) && to.dtype() == from.dtype() &&
      lie_apart)
    return conjugate_into(unmarked(to), values);
  if (from->pending & misaligned) values = straightened(values);
  if ((change & Pending::conj) && values.is_complex()) values = conj_physical(values);
  if (change & Pending::neg) values = neg(flambeau::to(values, to.dtype()));
  if (!(to->pending & misaligned)) {
    const Tensor window = unmarked(to);
    window->version = nullptr;  // the caller counts the write
    return void(copy_(window, values));
  }
  const Tensor laid_out = make_tensor(to.sizes(), to.dtype(), to.device());
  copy_(laid_out, values);
  copy_(bytes_of(unmarked(to)), bytes_of(laid_out));
}

Tensor resolve(const Tensor& input) {
  return input->pending & (Pending::conj | Pending::neg | misaligned) ? clone(input) : input;
}
static Tensor resolve_conj(const Tensor& input) {
  return input->pending & Pending::conj ? clone(input) : input;
}
static Tensor resolve_neg(const Tensor& input) {
  return input->pending & Pending::neg ? clone(input) : input;
}
OP_VIEW(resolve_conj, "resolve_conj(input)", "input, copied if its conjugation is pending.",
        takes_sparse | elementwise | takes_nested | composed)
OP_VIEW(resolve_neg, "resolve_neg(input)", "input, copied if its negation is pending.",
        takes_sparse | elementwise | takes_nested | composed)

Tensor conj_view(const Tensor& input) {
  REDIRECT(conj, input)
  if (!input.is_complex()) return input;
  if (input.is_sparse()) return conj_physical(input);
  return marked("conj", input, Pending::conj, conj_view, conj);
}
OP_VIEW(conj_view, "conj(input)",
        "The complex conjugate of each element, as a view; input itself if it is real.",
        takes_sparse | elementwise | takes_nested | composed)

Tensor neg_view(const Tensor& input) {
  REDIRECT(_neg_view, input)
  return marked("neg_view", input, Pending::neg, neg_view, neg);
}
OP_VIEW(neg_view, "_neg_view(input)", "The negative of each element, as a view.", elementwise)

namespace {
bool is_conj(const Tensor& input) { return input->pending & Pending::conj; }
bool is_neg(const Tensor& input) { return input->pending & Pending::neg; }
}  // namespace
OP_VIEW(is_conj, "is_conj(input)", "Whether the conjugation of input is pending.",
        takes_sparse | metadata)
OP_VIEW(is_neg, "is_neg(input)", "Whether the negation of input is pending.",
        takes_sparse | metadata)

}  // namespace flambeau
