// Sparse tensors: of which only some elements are stored, by coordinates (COO) or by compressed
// rows or columns (CSR, CSC), of blocks too (BSR, BSC).
//
// Note [Sparse tensors]
// A sparse tensor is a TensorImpl over empty storage that carries its parts, tensors in their own
// right and without history; its own history is that of any tensor. The mark Pending::sparse keeps
// it away from everything that reads memory: the front end gives marked tensors only to ops that
// say they take them, and TensorIter, slots and views refuse them for callers in C++.
//
// Note [Wrapped tensors]
// A tensor whose values are somebody else's, such as an object of a Python class that answers for
// each op by itself, has sizes, strides, a dtype, a device and a history like any other. It carries
// the same mark and no parts. Its class is asked for every op (Note [Dispatched tensors] in
// ops/layers/dispatch.h); what would read its memory refuses it.
#pragma once

#include <string>
#include <string_view>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

struct SparseParts {
  // By coordinates: a column of `indices` for each stored element, [sparse_dim, nnz]. Compressed:
  // where each row (column) starts in `plain`, which holds the column (row) of each element.
  Tensor indices;
  Tensor plain;
  Tensor values;
  bool coalesced = false;  // coordinates are in order, and each stands there once
};

const SparseParts& parts_of(const Tensor& sparse);  // raises RuntimeError for a dense tensor
inline bool is_coo(const Tensor& tensor) { return tensor.layout() == Layout::sparse_coo; }
inline bool is_compressed(const Tensor& tensor) { return tensor.layout() > Layout::sparse_coo; }
inline bool is_blocked(Layout layout) { return layout >= Layout::sparse_bsr; }
// Whether rows, not columns, are compressed.
inline bool by_rows(Layout layout) {
  return layout == Layout::sparse_csr || layout == Layout::sparse_bsr;
}

// From parts that fit together; nothing is checked and nothing recorded.
Tensor make_coo(const Tensor& indices, const Tensor& values, IntSpan size, bool coalesced);
Tensor make_compressed(Layout layout, const Tensor& starts, const Tensor& plain,
                       const Tensor& values, IntSpan size);
// Gives `tensor` the parts, sizes and dtype of `source`, both sparse.
void assign_sparse(const Tensor& tensor, const Tensor& source);
void share_parts(TensorImpl& to, const TensorImpl& from);

// The mark, in TensorImpl::pending, of a tensor whose class answers for ops: see Note [Dispatched
// tensors] in ops/layers/dispatch.h.
struct Dispatched {
  static constexpr uint8_t mark = 32;
};
inline bool is_wrapped(const Tensor& tensor) { return tensor.is_sparse() && !tensor->parts; }
Tensor make_wrapped(IntSpan sizes, IntSpan strides, int64_t offset, DType dtype, Device device);
// A handle on a wrapped tensor without its history. Set by the layer that asks the class.
extern Tensor (*detach_wrapped)(const Tensor& wrapped);

// The number of indexed dimensions, of dimensions of each stored element, of stored elements (or
// blocks). Zero, all and all of a dense tensor.
int64_t sparse_dim(const Tensor& tensor);
int64_t dense_dim(const Tensor& tensor);
int64_t stored_count(const Tensor& sparse);

// Raises RuntimeError in PyTorch's words if there is no memory to point to.
void check_has_storage(const Tensor& tensor);
// The same for what only a compressed tensor lacks: "strides", "is_contiguous".
void check_strided(const char* what, const Tensor& tensor);
const char* layout_word(Layout layout);  // "SparseCsr", as messages have it
std::string sparse_refusal(std::string_view op, const Tensor& tensor);

}  // namespace flambeau
