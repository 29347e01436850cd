// The C++ op API: what PyTorch calls torch.*, as free functions with the same names, argument
// orders and defaults. An op that no C++ code calls needs no line here; its OP registration is
// enough.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "flambeau/ops/op.h"
#include "flambeau/tensor/tensor.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// --- Elementwise rows -------------------------------------------------------------------------
#define UNARY(name, dtypes, value, keeps, gradient, doc, ...) \
  Tensor name(const Tensor& input);                           \
  Tensor name##_(const Tensor& self);
#define PREDICATE(name, dtypes, value, doc, ...) Tensor name(const Tensor& input);
#define UNARY1(name, p, p_default, dtypes, value, keeps, gradient, doc, ...) \
  Tensor name(const Tensor& input, const Scalar& p);                         \
  Tensor name##_(const Tensor& self, const Scalar& p);
#define UNARY2(name, p, p_default, q, q_default, dtypes, value, keeps, gradient, doc, ...) \
  Tensor name(const Tensor& input, const Scalar& p, const Scalar& q);                      \
  Tensor name##_(const Tensor& self, const Scalar& p, const Scalar& q);
#define KERNEL2(name, dtypes, value) \
  Tensor name(const Tensor& input, const Scalar& p, const Scalar& q);
#include "flambeau/kernels/unary.def"
#define BINARY(name, dtypes, value, keeps_a, grad_a, keeps_b, grad_b, doc, ...) \
  Tensor name(const Operand& input, const Operand& other);                      \
  Tensor name##_(const Tensor& self, const Operand& other);
#define KERNEL BINARY
#define COMPARE(name, dtypes, value, doc, ...)             \
  Tensor name(const Operand& input, const Operand& other); \
  Tensor name##_(const Tensor& self, const Operand& other);
#define INTEGERS(name, dtypes, value, doc) COMPARE(name, dtypes, value, doc)
#include "flambeau/kernels/binary.def"
#include "flambeau/kernels/no_rows.h"

inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator+(const Tensor& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Operand& b) { return div(a, b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return ge(a, b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return le(a, b); }
inline Tensor operator==(const Tensor& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Operand& b) { return ne(a, b); }
inline Tensor operator&(const Tensor& a, const Operand& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Operand& b) { return bitwise_or(a, b); }
#define NUMBER_FIRST(op, name)                                                \
  template <class T>                                                          \
  requires std::is_arithmetic_v<T> Tensor operator op(T a, const Tensor& b) { \
    return name(Operand(a), b);                                               \
  }
NUMBER_FIRST(+, add)
NUMBER_FIRST(-, sub)
NUMBER_FIRST(*, mul)
NUMBER_FIRST(/, div)
#undef NUMBER_FIRST

Tensor add_scaled(const Operand& input, const Operand& other,
                  const Scalar& alpha);  // input + alpha * other
Tensor add_scaled_(const Tensor& self, const Operand& other, const Scalar& alpha);
Tensor abs(const Tensor& input);
Tensor sgn(const Tensor& input);
Tensor floor_divide(const Operand& input, const Operand& other);
Tensor remainder_checked(const Operand& input, const Operand& other);  // refuses integers % 0
Tensor pow(const Operand& input, const Operand& exponent);
Tensor where(const Tensor& condition, const Operand& input, const Operand& other);
Tensor clamp(const Tensor& input, const std::optional<Scalar>& min,
             const std::optional<Scalar>& max);
Tensor masked_fill(const Tensor& input, const Tensor& mask, const Operand& value);
Tensor conj(const Tensor& input);  // computed; see views_pending.cpp for the views
Tensor conj_view(const Tensor& input);
Tensor neg_view(const Tensor& input);
Tensor resolve(const Tensor& input);  // nothing is pending any more
void copy_marked(const Tensor& to, const Tensor& from);
Tensor real(const Tensor& input);
Tensor imag(const Tensor& input);

// --- Creation -----------------------------------------------------------------------------------
Tensor empty(IntSpan size, const Options& options = {});
Tensor empty_like(const Tensor& input, std::optional<DType> dtype = {});  // keeps the layout
Tensor zeros(IntSpan size, const Options& options = {});
Tensor ones(IntSpan size, const Options& options = {});
Tensor full(IntSpan size, const Scalar& value, const Options& options = {});
Tensor zeros_like(const Tensor& input, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& input, std::optional<DType> dtype = {});
Tensor full_like(const Tensor& input, const Scalar& value, std::optional<DType> dtype = {});
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
              const Options& options = {});
Tensor scalar_tensor(const Scalar& value, const Options& options = {});
Options options_of(const Tensor& tensor);  // its dtype and device

// --- Copying and converting ----------------------------------------------------------------------
Tensor copy_(const Tensor& self, const Tensor& source, bool non_blocking = false);
Tensor clone(const Tensor& input, MemoryFormat format = MemoryFormat::preserve);
Tensor contiguous(const Tensor& input, MemoryFormat format = MemoryFormat::contiguous);
Tensor to(const Tensor& input, DType dtype);
Tensor to(const Tensor& input, Device device);
Tensor to(const Tensor& input, std::optional<Device> device, std::optional<DType> dtype,
          bool non_blocking, bool copy, std::optional<MemoryFormat> format);
Tensor detach(const Tensor& input);
Tensor fill_(const Tensor& self, const Operand& value);
Tensor zero_(const Tensor& self);
Scalar item(const Tensor& input);
bool has_nan(const Tensor& input);
bool any_zero(const Tensor& input);  // whether some element is zero
bool is_nonzero(const Tensor& input);
bool equal(const Tensor& input, const Tensor& other);

// --- Views and shapes ----------------------------------------------------------------------------
Tensor as_strided(const Tensor& input, IntSpan size, IntSpan stride, std::optional<int64_t> offset);
Tensor view(const Tensor& input, IntSpan size);
Tensor view(const Tensor& input, DType dtype);  // the same bytes
Tensor reshape(const Tensor& input, IntSpan size);
Tensor expand(const Tensor& input, IntSpan size);
Tensor permute(const Tensor& input, IntSpan dims);
Tensor transpose(const Tensor& input, int64_t dim0, int64_t dim1);
Tensor t(const Tensor& input);
Tensor select(const Tensor& input, int64_t dim, int64_t index);
Tensor slice(const Tensor& input, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step);
Tensor narrow(const Tensor& input, int64_t dim, int64_t start, int64_t length);
Tensor squeeze(const Tensor& input);
Tensor squeeze(const Tensor& input, IntSpan dims);
Tensor unsqueeze(const Tensor& input, int64_t dim);
Tensor flatten(const Tensor& input, int64_t start_dim, int64_t end_dim);
Tensor alias(const Tensor& input);
Tensor numpy_T(const Tensor& input);   // x.T: all dimensions reversed
Tensor matrix_H(const Tensor& input);  // x.H
Tensor mT(const Tensor& input);
Tensor mH(const Tensor& input);
Tensor adjoint(const Tensor& input);
Tensor movedim(const Tensor& input, IntSpan source, IntSpan destination);
Tensor diagonal(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2);
Tensor view_as_real(const Tensor& input);
Tensor view_as_complex(const Tensor& input);
Tensor repeat(const Tensor& input, IntSpan repeats);
Tensor flip(const Tensor& input, IntSpan dims);
Tensor tril(const Tensor& input, int64_t diagonal);
Tensor triu(const Tensor& input, int64_t diagonal);
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim);
std::vector<Tensor> chunk(const Tensor& input, int64_t chunks, int64_t dim);
std::vector<Tensor> unbind(const Tensor& input, int64_t dim);
std::vector<Tensor> split(const Tensor& input, int64_t split_size, int64_t dim);
std::vector<Tensor> split(const Tensor& input, IntSpan split_sizes, int64_t dim);

// --- Indexing ------------------------------------------------------------------------------------
// An undefined index stands for a whole dimension, as `:` does. Indices are integers or masks.
Tensor index(const Tensor& input, const std::vector<Tensor>& indices);
Tensor index_put(const Tensor& input, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate);
Tensor index_put_(const Tensor& self, const std::vector<Tensor>& indices, const Tensor& values,
                  bool accumulate);
Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha);
Tensor index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha);
Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Operand& value);
Tensor gather(const Tensor& input, int64_t dim, const Tensor& index);
Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Operand& src);
Tensor scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src);
Tensor scatter_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter_reduce(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self);
Tensor masked_fill_(const Tensor& self, const Tensor& mask, const Operand& value);
Tensor masked_select(const Tensor& input, const Tensor& mask);
Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source);
Tensor nonzero(const Tensor& input);

// --- Reductions ----------------------------------------------------------------------------------
Tensor sum(const Tensor& input, std::optional<DType> dtype = {});
Tensor sum(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
           std::optional<DType> dtype = {});
Tensor mean(const Tensor& input, std::optional<IntSpan> dim, bool keepdim,
            std::optional<DType> dtype = {});
Tensor sum_to_size(const Tensor& input, IntSpan size);
Tensor amax(const Tensor& input, std::optional<IntSpan> dim, bool keepdim);
Tensor amin(const Tensor& input, std::optional<IntSpan> dim, bool keepdim);
Tensor argmax(const Tensor& input, std::optional<int64_t> dim, bool keepdim);
Tensor argmin(const Tensor& input, std::optional<int64_t> dim, bool keepdim);
Tensor cumprod(const Tensor& input, int64_t dim, std::optional<DType> dtype = {});
Tensor linalg_vector_norm(const Tensor& input, const Scalar& ord, std::optional<IntSpan> dim,
                          bool keepdim, std::optional<DType> dtype = {});
Tensor softmax(const Tensor& input, int64_t dim, std::optional<DType> dtype = {});
Tensor log_softmax(const Tensor& input, int64_t dim, std::optional<DType> dtype = {});

// --- Matrices ------------------------------------------------------------------------------------
Tensor mm(const Tensor& input, const Tensor& mat2);
Tensor bmm(const Tensor& input, const Tensor& mat2);
Tensor matmul(const Tensor& input, const Tensor& other);
Tensor constant_pad_nd(const Tensor& input, IntSpan pad, const Scalar& value);
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx = -1,
                 bool scale_grad_by_freq = false, bool sparse = false);

}  // namespace flambeau
