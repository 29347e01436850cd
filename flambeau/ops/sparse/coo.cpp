// Sparse tensors by coordinates: made of parts and taken apart, coalesced, made dense.
#include "flambeau/autograd/record.h"
#include "flambeau/kernels/scan.h"
#include "flambeau/kernels/sort.h"
#include "flambeau/kernels/sparse.h"
#include "flambeau/kernels/statistics.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/sparse/sparse.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// Equal numbers: the order that sorts them, the positions in that order where a new number begins,
// and for each position how many numbers stand before.
struct Groups {
  Tensor order, first, group;
};

Groups group_equal(const Tensor& numbers) {
  const NoGrad off;
  const Tensor x = contiguous(numbers);
  const int64_t count = x.numel();
  const Tensor sorted = make_tensor({count}, DType::int64, x.device());
  Tensor order = make_tensor({count}, DType::int64, x.device());
  kernels::sort(x.device_type(), x, sorted, order, 0, false);
  const Tensor begins =
      cat({ones({std::min<int64_t>(count, 1)}, {.dtype = DType::bool_, .device = x.device()}),
           narrow(sorted, 0, std::min<int64_t>(count, 1), std::max<int64_t>(count - 1, 0)) !=
               narrow(sorted, 0, 0, std::max<int64_t>(count - 1, 0))},
          0);
  const Tensor running = make_tensor({count}, DType::int64, x.device());
  kernels::cumsum(x.device_type(), to(begins, DType::int64), running, 0, false);
  return {order, squeeze(nonzero(begins), IntSpan{1}), running - 1};
}

// The gradient of an uncoalesced tensor from that of its values: equal coordinates have equal
// gradients, of which one is the tensor's.
Tensor one_of_each(const Tensor& indices, const Tensor& grad, IntSpan size) {
  const Groups groups = group_equal(coordinate_numbers(indices, size));
  const Tensor chosen = index_select(groups.order, 0, groups.first);
  return sparse_coo(index_select(indices, 1, chosen), index_select(grad, 0, chosen), size, true);
}

const Tensor& check_coo(const char* op, const Tensor& input) {
  CHECK(is_coo(input), RuntimeError, "{} expected sparse coordinate tensor layout but got {}", op,
        layout_word(input.layout()));
  return input;
}

void check_parts(const Tensor& indices, const Tensor& values, IntSpan size) {
  CHECK(indices.dim() == 2 && indices.dtype() == DType::int64, RuntimeError,
        "indices must be sparse_dim x nnz of int64, but got: {} of {}", indices.sizes(),
        indices.dtype());
  CHECK(values.dim() >= 1 && values.size(0) == indices.size(1), RuntimeError,
        "indices and values must have same nnz, but got indices {} and values {}", indices.sizes(),
        values.sizes());
  const int64_t indexed = indices.size(0), rank = static_cast<int64_t>(size.size());
  CHECK(rank == indexed + values.dim() - 1 &&
            IntSpan(size.data() + indexed, rank - indexed) ==
                IntSpan(values.sizes().data() + 1, values.dim() - 1),
        RuntimeError, "values of shape {} at {} indexed dimensions do not make a tensor of size {}",
        values.sizes(), indexed, size);
}

}  // namespace

Tensor coordinate_numbers(const Tensor& indices, IntSpan size) {
  const NoGrad off;
  if (indices.size(0) == 0) return zeros({indices.size(1)}, options_of(indices));
  Tensor number = select(indices, 0, 0);
  for (int64_t d = 1; d < indices.size(0); ++d) {
    number = number * size[d] + select(indices, 0, d);
  }
  return number;
}

Tensor sparse_coo(const Tensor& indices, const Tensor& values, IntSpan size, bool coalesced) {
  REDIRECT(_sparse_coo, indices, values, size, coalesced)
  check_parts(indices, values, size);
  Tensor out = make_coo(indices, values, size, coalesced);
  if (Record r{"sparse_coo_tensor_with_dims_and_tensors", out, {values}}) {
    r.wrt(0, [indices](const Tensor& g) { return values_at(g, indices); });
  }
  return out;
}
OP_FUNCTION(sparse_coo, "_sparse_coo(indices, values, size, is_coalesced)",
            "A sparse tensor of indices and values that fit together.", takes_sparse | no_out)

namespace {

// Where a number would stand in [from, n) of ascending ones: near `from`, in most cases.
int64_t next_place(const int64_t* numbers, int64_t from, int64_t n, int64_t wanted) {
  int64_t step = 1;
  for (; step < n - from && numbers[from + step - 1] < wanted; step *= 2) from += step;
  return std::lower_bound(numbers + from, numbers + std::min(from + step, n), wanted) - numbers;
}

// Numbers that ascend, as those of coalesced tensors do, are found in one walk over both lists.
FoundNumbers walk(const Tensor& have, const Tensor& wanted) {
  const int64_t n = have.numel(), count = wanted.numel();
  const int64_t *numbers = have.data<int64_t>(), *next = wanted.data<int64_t>();
  FoundNumbers found{make_tensor({count}, DType::int64, wanted.device()), true, n == count};
  int64_t* at = found.at.data<int64_t>();
  int64_t place = 0, last = INT64_MIN;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = next[i];
    place = next_place(numbers, number < last ? 0 : place, n, number);
    last = number;
    const bool is_there = place < n && numbers[place] == number;
    at[i] = is_there ? place : -1;
    found.all &= is_there;
    found.same &= at[i] == i;
  }
  return found;
}

}  // namespace

FoundNumbers find_numbers(const Tensor& ascending, const Tensor& wanted) {
  const NoGrad off;
  const Tensor have = contiguous(ascending), numbers = contiguous(wanted);
  if (have.device().is_cpu()) return walk(have, numbers);
  Tensor at = make_tensor(numbers.sizes(), DType::int64, numbers.device());
  if (have.numel() == 0) return {fill_(at, -1)};
  kernels::searchsorted(numbers.device_type(), have, numbers, Tensor(), at, false);
  at = clamp(at, {}, Scalar(have.numel() - 1));
  return {where(index_select(have, 0, at) == numbers, at, Scalar(-1))};
}

Tensor values_at(const Tensor& tensor, const Tensor& indices) {
  REDIRECT(_sparse_values_at, tensor, indices)
  CHECK(indices.device() == tensor.device(), RuntimeError,
        "_sparse_values_at: input is on {} and indices on {}", tensor.device(), indices.device());
  if (!tensor.is_sparse()) {
    if (indices.size(0) == 0) {
      Dims shape = {indices.size(1)};
      for (const int64_t size : tensor.sizes()) shape.push_back(size);
      return expand(tensor, shape);
    }
    return index(tensor, unbind(indices, 0));
  }
  const Tensor together = coalesce(to_coo(tensor));
  Tensor values = sparse_values(together);
  const Tensor& stored = parts_of(together).indices;
  if (stored.size(0) != indices.size(0)) return values_at(to_dense(together), indices);
  if (stored.is_same(indices)) return values;
  if (stored.size(1) == 0) {
    Dims shape = values.sizes().dims();
    shape[0] = indices.size(1);
    return zeros(shape, options_of(values));
  }
  const FoundNumbers found = find_numbers(coordinate_numbers(stored, tensor.sizes()),
                                          coordinate_numbers(indices, tensor.sizes()));
  if (found.same) return values;
  if (found.all) return index_select(values, 0, found.at);
  Dims shape(values.dim(), 1);
  shape[0] = found.at.numel();
  const Tensor missing = reshape(found.at < 0, shape);
  return masked_fill(index_select(values, 0, clamp(found.at, Scalar(0), {})), missing, 0);
}

OP_FUNCTION(values_at, "_sparse_values_at(input, indices)",
            "The elements of a tensor at the columns of indices.", takes_sparse)

Tensor table_of_rows(const Tensor& indices, const Tensor& values, int64_t rows, int64_t padding) {
  const int64_t width = values.sizes().back();
  Tensor chosen = reshape(to(indices, DType::int64), {1, -1});
  Tensor given = reshape(values, {chosen.size(1), width});
  if (padding >= 0) {
    const Tensor kept = squeeze(nonzero(select(chosen, 0, 0) != padding), IntSpan{1});
    chosen = index_select(chosen, 1, kept), given = index_select(given, 0, kept);
  }
  return sparse_coo(chosen, given, {rows, width}, false);
}

Tensor sparse_values(const Tensor& sparse) {
  REDIRECT(_sparse_values, sparse)
  Tensor out = make_alias(parts_of(sparse).values);
  if (Record r{"values", out, {sparse}}) {
    // Only what says where the values belong is kept.
    const Tensor pattern = make_alias(sparse);
    r.wrt(0, [pattern](const Tensor& g) { return with_values(pattern, g); });
  }
  return out;
}
OP_FUNCTION(sparse_values, "_sparse_values(input)", "The stored elements, with history.",
            takes_sparse)

Tensor coalesce(const Tensor& input) {
  REDIRECT(coalesce, input)
  check_coo("coalesce", input);
  const SparseParts& parts = parts_of(input);
  if (parts.coalesced) return input;
  Tensor out;
  {
    const NoGrad off;
    if (stored_count(input) < 2) {
      out = make_coo(clone(parts.indices), clone(parts.values), input.sizes(), true);
    } else {
      const Groups groups = group_equal(coordinate_numbers(parts.indices, input.sizes()));
      Dims shape = parts.values.sizes().dims();
      shape[0] = groups.first.numel();
      const Tensor ordered = index_select(parts.values, 0, groups.order);
      Tensor sums = zeros(shape, options_of(parts.values));
      // Of bools the sum is whether any is true.
      sums =
          parts.values.dtype() == DType::bool_
              ? to(index_add(to(sums, DType::int64), 0, groups.group, to(ordered, DType::int64), 1),
                   DType::bool_)
              : index_add(sums, 0, groups.group, ordered, 1);
      const Tensor chosen = index_select(groups.order, 0, groups.first);
      out = make_coo(index_select(parts.indices, 1, chosen), sums, input.sizes(), true);
    }
  }
  if (Record r{"coalesce", out, {input}}) r.wrt(0, [](const Tensor& g) { return g; });
  return out;
}

namespace {

// The coordinates of the stored elements of a compressed tensor, those of blocks one by one.
struct Unpacked {
  std::vector<Tensor> coordinates;  // of batches, then the row and the column
  int64_t count = 0;

  explicit Unpacked(const Tensor& input) {
    const SparseParts& parts = parts_of(input);
    const int64_t batch_dims = parts.indices.dim() - 1, each = parts.plain.size(-1);
    const Tensor starts = reshape(to(parts.indices, DType::int64), {-1, parts.indices.size(-1)});
    std::vector<Tensor> outers = {make_tensor({0}, DType::int64, starts.device())};
    for (int64_t k = 0; k < starts.size(0); ++k) {
      outers.push_back(make_tensor({each}, DType::int64, starts.device()));
      kernels::csr_rows(starts.device_type(), contiguous(select(starts, 0, k)), outers.back());
    }
    const Dims batch = parts.plain.sizes().dims();
    for (int64_t d = 0; d < batch_dims; ++d) {
      Dims shape(batch_dims + 1, 1);
      shape[d] = batch[d];
      const Tensor numbers = arange(0, batch[d], 1, options_of(starts));
      coordinates.push_back(reshape(expand(reshape(numbers, shape), batch), {-1}));
    }
    Tensor outer = cat(outers, 0), inner = reshape(to(parts.plain, DType::int64), {-1});
    if (!by_rows(input.layout())) std::swap(outer, inner);  // rows come first
    coordinates.push_back(outer), coordinates.push_back(inner);
    count = outer.numel();
    if (is_blocked(input.layout())) unpack_blocks(parts.values.sizes().from(batch_dims + 1));
  }

 private:
  void unpack_blocks(IntSpan block) {
    const Dims all = {count, block[0], block[1]};
    const size_t rank = coordinates.size();
    for (size_t d = 0; d < rank; ++d) {
      Tensor first = reshape(coordinates[d], {-1, 1, 1});
      if (d + 2 >= rank) {  // the row or the column
        const bool row = d + 2 == rank;
        const int64_t size = block[row ? 0 : 1];
        const Tensor inside = arange(0, size, 1, options_of(first));
        first = first * size + reshape(inside, row ? Dims{1, -1, 1} : Dims{1, 1, -1});
      }
      coordinates[d] = reshape(expand(first, all), {-1});
    }
    count = checked_multiply(count, checked_multiply(block[0], block[1]));
  }
};

// Whether coordinates ascend.
bool ascends(const Tensor& indices, IntSpan size) {
  const int64_t count = indices.size(1);
  if (count < 2) return true;
  if (indices.device().is_cpu() && indices.size(0) == 2) {
    bool ascending = false;
    kernels::matrix_ascends(DeviceType::cpu, indices, ascending);
    return ascending;
  }
  const Tensor numbers = coordinate_numbers(indices, size);
  return item(sum(narrow(numbers, 0, 1, count - 1) <= narrow(numbers, 0, 0, count - 1))) ==
         Scalar(0);
}

}  // namespace

Tensor stored_coordinates(const Tensor& sparse) {
  if (is_coo(sparse)) return parts_of(sparse).indices;
  const NoGrad off;
  const SparseParts& parts = parts_of(sparse);
  if (sparse.layout() == Layout::sparse_csr && parts.indices.dim() == 1) {
    const Tensor starts = contiguous(to(parts.indices, DType::int64));
    Tensor indices = make_tensor({2, parts.plain.numel()}, DType::int64, starts.device());
    kernels::csr_rows(starts.device_type(), starts, select(indices, 0, 0));
    copy_(select(indices, 0, 1), parts.plain);
    return indices;
  }
  return stack(Unpacked(sparse).coordinates, 0);
}

Tensor to_coo(const Tensor& input) {
  REDIRECT(_sparse_to_coo, input)
  if (is_coo(input)) return input;
  const Tensor values = sparse_values(input);
  Tensor indices;
  Dims shape;
  bool ordered = false;
  {
    const NoGrad off;
    indices = stored_coordinates(input);
    shape = {indices.size(1)};
    const int64_t dense = dense_dim(input);
    for (int64_t d = values.dim() - dense; d < values.dim(); ++d) shape.push_back(values.size(d));
    // The columns of a row may stand in any order, and twice.
    ordered = ascends(indices, input.sizes());
  }
  return coalesce(sparse_coo(indices, reshape(values, shape), input.sizes(), ordered));
}
OP_FUNCTION(to_coo, "_sparse_to_coo(input)", "A sparse tensor by coordinates.",
            takes_sparse | no_out)

Tensor with_values(const Tensor& sparse, const Tensor& values) {
  const SparseParts& parts = parts_of(sparse);
  if (is_coo(sparse)) {
    if (!parts.coalesced) return one_of_each(parts.indices, values, sparse.sizes());
    return sparse_coo(parts.indices, values, sparse.sizes(), true);
  }
  Tensor out = make_compressed(sparse.layout(), parts.indices, parts.plain, values, sparse.sizes());
  if (Record r{"sparse_compressed_tensor", out, {values}}) {
    r.wrt(0, [out = make_alias(out)](const Tensor& g) {
      const SparseParts& mine = parts_of(out);
      if (g.layout() == out.layout() && parts_of(g).indices.is_same(mine.indices) &&
          parts_of(g).plain.is_same(mine.plain)) {
        return sparse_values(g);
      }
      return reshape(values_at(g, stored_coordinates(out)), mine.values.sizes());
    });
  }
  return out;
}

Tensor to_dense(const Tensor& input, bool masked_grad) {
  if (!input.is_sparse()) return input;
  if (!is_coo(input)) return to_dense(to_coo(input), masked_grad);
  const SparseParts& parts = parts_of(input);
  Tensor out;
  {
    const NoGrad off;
    const int64_t indexed = parts.indices.size(0);
    Dims shape = parts.values.sizes().dims();
    shape[0] = 1;
    for (int64_t d = 0; d < indexed; ++d) shape[0] = checked_multiply(shape[0], input.size(d));
    const Tensor place = coordinate_numbers(parts.indices, input.sizes());
    const bool is_bool = parts.values.dtype() == DType::bool_;
    const Tensor values = is_bool ? to(parts.values, DType::int64) : parts.values;
    out = index_add_(zeros(shape, options_of(values)), 0, place, values, 1);
    out = reshape(is_bool ? to(out, DType::bool_) : out, input.sizes());
    out = detach(out);  // not a view of something hidden
  }
  if (Record r{"to_dense", out, {input}}) {
    const Tensor pattern = make_alias(input);
    r.wrt(0, [pattern, masked_grad](const Tensor& g) {
      if (!masked_grad) {
        const Tensor all = t(nonzero(ones_like(detach(g))));
        return sparse_coo(contiguous(all), values_at(g, all), g.sizes(), false);
      }
      const Tensor indices = parts_of(coalesce(pattern)).indices;
      return sparse_coo(indices, values_at(g, indices), pattern.sizes(), false);
    });
  }
  return out;
}

namespace {

// --- Methods ----------------------------------------------------------------------------------

Tensor to_dense_op(const Tensor& self, std::optional<DType> dtype,
                   std::optional<bool> masked_grad) {
  const Tensor dense = to_dense(self, masked_grad.value_or(true));
  return dtype ? to(dense, *dtype) : dense;
}

const SparseParts& coalesced_parts(const char* what, const Tensor& input) {
  check_coo(what, input);
  CHECK(parts_of(input).coalesced, RuntimeError,
        "Cannot get {} on an uncoalesced tensor, please call .coalesce() first", what);
  return parts_of(input);
}

Tensor indices_op(const Tensor& self) {
  return make_alias(coalesced_parts("indices", self).indices);
}
Tensor values_op(const Tensor& self) {
  CHECK(self.is_sparse(), RuntimeError, "values expected sparse tensor layout but got Strided");
  if (is_coo(self)) coalesced_parts("values", self);
  return sparse_values(self);
}

void check_any_sparse(const char* op, const Tensor& self) {
  CHECK(self.is_sparse(), NotImplementedError,
        "Could not run 'aten::{}' with arguments from the 'CPU' backend: the tensor is dense", op);
}
Tensor raw_indices(const Tensor& self) {
  check_any_sparse("_indices", self);
  return make_alias(check_coo("_indices", self)->parts->indices);
}
Tensor raw_values(const Tensor& self) {
  check_any_sparse("_values", self);
  return make_alias(parts_of(self).values);
}
int64_t count_stored(const Tensor& self) {
  check_any_sparse("_nnz", self);
  return stored_count(self);
}
bool is_coalesced(const Tensor& self) {
  return parts_of(check_coo("is_coalesced", self)).coalesced;
}
Tensor set_coalesced(const Tensor& self, bool coalesced) {
  check_any_sparse("_coalesced_", self);
  check_coo("_coalesced_", self)->parts->coalesced = coalesced;
  return self;
}

template <bool Rows, bool Starts>
Tensor compressed_part(const Tensor& self) {
  constexpr const char* names[] = {"row_indices", "ccol_indices", "col_indices", "crow_indices"};
  CHECK(is_compressed(self) && by_rows(self.layout()) == Rows, RuntimeError,
        "{} expected sparse {} compressed tensor layout but got {}", names[2 * Rows + Starts],
        Rows ? "row" : "column", layout_word(self.layout()));
  return make_alias(Starts ? parts_of(self).indices : parts_of(self).plain);
}

OP_METHOD(to_dense_op, "to_dense(self, dtype=None, *, masked_grad=None)",
          "All elements, those that are not stored being zero; a dense tensor itself.",
          takes_sparse | moves | takes_quantized)
OP_METHOD(coalesce, "coalesce(self)", "The same with ordered coordinates, each at most once.",
          takes_sparse)
OP_METHOD(is_coalesced, "is_coalesced(self)",
          "Whether coordinates are known to be ordered, each at most once.", takes_sparse)
OP_METHOD(set_coalesced, "_coalesced_(self, coalesced)",
          "Says whether coordinates are ordered, each at most once.", takes_sparse)
OP_METHOD(indices_op, "indices(self)", "The coordinates of a coalesced tensor, a column each.",
          takes_sparse)
OP_METHOD(values_op, "values(self)", "The stored elements.", takes_sparse)
OP_METHOD(raw_indices, "_indices(self)", "The coordinates, coalesced or not.", takes_sparse)
OP_METHOD(raw_values, "_values(self)", "The stored elements, without history.", takes_sparse)
OP_METHOD(count_stored, "_nnz(self)", "The number of stored elements.", takes_sparse)
OP_METHOD(sparse_dim, "sparse_dim(self)", "The number of indexed dimensions.", takes_sparse)
OP_METHOD(dense_dim, "dense_dim(self)", "The dimensions of each stored element.", takes_sparse)
OP_METHOD((compressed_part<true, true>), "crow_indices(self)", "Where each row starts.",
          takes_sparse)
OP_METHOD((compressed_part<true, false>), "col_indices(self)", "The column of each element.",
          takes_sparse)
OP_METHOD((compressed_part<false, true>), "ccol_indices(self)", "Where each column starts.",
          takes_sparse)
OP_METHOD((compressed_part<false, false>), "row_indices(self)", "The row of each element.",
          takes_sparse)

// A compressed tensor of parts that fit together; `kind` is the code of its layout.
Tensor sparse_compressed(const Tensor& starts, const Tensor& plain, const Tensor& values,
                         IntSpan size, Layout layout) {
  CHECK(layout > Layout::sparse_coo, RuntimeError,
        "sparse_compressed_tensor: expected a compressed layout, got {}", layout_word(layout));
  return with_values(make_compressed(layout, starts, plain, detach(values), size), values);
}
OP_FUNCTION(sparse_compressed, "_sparse_compressed(starts, plain, values, size, layout)",
            "A compressed sparse tensor of parts that fit together.", takes_sparse | no_out)

Tensor with_indices_of(const Tensor& input, const Tensor& values) {
  const SparseParts& parts = parts_of(input);
  if (!is_coo(input)) return with_values(input, values);
  Dims size;
  const int64_t indexed = parts.indices.size(0);
  for (int64_t d = 0; d < indexed; ++d) size.push_back(input.size(d));
  for (int64_t d = 1; d < values.dim(); ++d) size.push_back(values.size(d));
  return sparse_coo(parts.indices, values, size, parts.coalesced);
}
OP_FUNCTION(with_indices_of, "_sparse_with_values(input, values)",
            "A sparse tensor with the same indices and other values.", takes_sparse | no_out)

}  // namespace
}  // namespace flambeau
