// Arithmetic of sparse tensors: functions that keep zero, sums, products with numbers and with
// other tensors, copies. An in-place form computes a new tensor and gives its parts to the old one.
#include <algorithm>
#include <array>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/sparse/sparse.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

// `result` becomes `out`, if that is given: its parts, and its history.
Tensor delivered(const char* op, const Tensor& result, const Tensor& out) {
  if (!out.defined()) return result;
  CHECK(can_cast(result.dtype(), out.dtype()), RuntimeError,
        "{}: result type {} can't be cast to the desired output type {}", op,
        dtype_legacy_name(result.dtype()), dtype_legacy_name(out.dtype()));
  if (!out.is_sparse()) return copy_(out, to_dense(result));
  const Tensor cast = to(result, out.dtype());
  assign_sparse(out, detach(cast));
  out.bump_version(op);
  if (cast.requires_grad()) set_history(out, grad_fn(cast), maybe_meta(cast)->output);
  return out;
}

Tensor with_indices_of(const Tensor& sparse, const Tensor& values) {
  const SparseParts& parts = parts_of(sparse);
  if (!is_coo(sparse)) return with_values(sparse, values);
  return sparse_coo(parts.indices, values, sparse.sizes(), parts.coalesced);
}

bool is_number(const Operand& x) {
  return !x.is_tensor() || (x.tensor().dim() == 0 && !x.tensor().is_sparse());
}

bool is_sparse_operand(const Operand& x) { return x.is_tensor() && x.tensor().is_sparse(); }

// --- Sums -------------------------------------------------------------------------------------

// Where the elements of two lists of coordinates stand in the list that takes the smaller first
// element of both again and again; equal ones share a place.
struct Merged {
  std::vector<int64_t> of_a, of_b;
  int64_t count = 0;
};

Merged merge(const Tensor& a, const Tensor& b) {
  const Tensor left = contiguous(a), right = contiguous(b);
  const int64_t *x = left.data<int64_t>(), *y = right.data<int64_t>();
  const int64_t n = left.numel(), m = right.numel();
  Merged merged;
  merged.of_a.reserve(n), merged.of_b.reserve(m);
  int64_t i = 0, j = 0;
  for (; i < n || j < m; ++merged.count) {
    const bool from_a = i < n && (j == m || x[i] <= y[j]);
    const bool from_b = j < m && (i == n || y[j] <= x[i]);
    if (from_a) merged.of_a.push_back(merged.count), ++i;
    if (from_b) merged.of_b.push_back(merged.count), ++j;
  }
  return merged;
}

Tensor on_cpu(const std::vector<int64_t>& numbers) {
  Tensor tensor = make_tensor({static_cast<int64_t>(numbers.size())}, DType::int64, Device());
  std::copy(numbers.begin(), numbers.end(), tensor.data<int64_t>());
  return tensor;
}

Tensor merged_sum(const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& y) {
  const Tensor &left = parts_of(a).indices, &right = parts_of(b).indices;
  const Merged merged =
      merge(coordinate_numbers(left, a.sizes()), coordinate_numbers(right, a.sizes()));
  const Tensor of_a = on_cpu(merged.of_a), of_b = on_cpu(merged.of_b);
  Dims shape = x.sizes().dims();
  shape[0] = merged.count;
  Tensor values = index_add_(zeros(shape, options_of(x)), 0, of_a, x, 1);
  values = index_add_(values, 0, of_b, y, 1);
  const Tensor indices = zeros({left.size(0), merged.count}, options_of(left));
  index_put_(indices, {Tensor(), of_a}, left, false);
  index_put_(indices, {Tensor(), of_b}, right, false);
  return make_coo(indices, values, a.sizes(), parts_of(a).coalesced && parts_of(b).coalesced);
}

Tensor sum_of_coo(const Tensor& a, const Tensor& b, const Scalar& alpha, DType dtype) {
  const SparseParts &one = parts_of(a), &two = parts_of(b);
  const Tensor x = to(one.values, dtype);
  Tensor y = to(two.values, dtype);
  if (!(alpha.is_integral() && alpha.to_int() == 1)) y = y * alpha;
  if (one.indices.size(0) != two.indices.size(0)) {
    // What stores nothing has no dimensions that could disagree.
    if (stored_count(a) == 0) return make_coo(two.indices, y, b.sizes(), two.coalesced);
    if (stored_count(b) == 0) return make_coo(one.indices, x, a.sizes(), one.coalesced);
  }
  CHECK(one.indices.size(0) == two.indices.size(0), RuntimeError,
        "add: expected 'self' and 'other' to have same number of sparse dimensions, but got {} and "
        "{}",
        one.indices.size(0), two.indices.size(0));
  const bool coalesced = one.coalesced && two.coalesced;
  if (a.device().is_cpu() && dtype != DType::bool_ && x.is_contiguous() && y.is_contiguous()) {
    return merged_sum(a, b, x, y);
  }
  Tensor out = make_coo(cat({one.indices, two.indices}, 1), cat({x, y}, 0), a.sizes(), false);
  return coalesced ? coalesce(out) : out;
}

// dense + alpha * sparse
Tensor sum_with_dense(const Tensor& dense, const Tensor& sparse, const Scalar& alpha, DType dtype,
                      bool in_place) {
  const Tensor coo = detach(to_coo(sparse));
  const SparseParts& parts = parts_of(coo);
  Tensor out = in_place ? detach(dense) : to(detach(dense), dtype);
  if (!in_place && out.storage() == dense.storage()) out = clone(out);
  if (parts.indices.size(0) == 0) return add_scaled_(out, to_dense(coo), alpha);
  if (out.dtype() == DType::bool_) return copy_(out, out | to_dense(coo));
  const Tensor values = to(parts.values, out.dtype());
  if (out.is_contiguous()) {
    // One index an element: multiplied and added in one rounding.
    Dims rows = values.sizes().dims();
    rows[0] = -1;
    const Tensor place = coordinate_numbers(parts.indices, coo.sizes());
    if (out.numel() > 0) index_add_(view(out, rows), 0, place, values, alpha);
    return out;
  }
  index_put_(out, unbind(parts.indices, 0), values * alpha, true);
  return out;
}

// A matrix of blocks as one of their indices, where what is stored are the blocks.
Tensor pattern_of_blocks(const Tensor& x) {
  const SparseParts& parts = parts_of(x);
  CHECK(x.dim() == 2, NotImplementedError, "add: batches of matrices of blocks cannot be added");
  const int64_t height = parts.values.size(1), width = parts.values.size(2);
  const Layout outer = by_rows(x.layout()) ? Layout::sparse_csr : Layout::sparse_csc;
  return make_compressed(outer, parts.indices, parts.plain, parts.values,
                         Dims{x.size(0) / height, x.size(1) / width, height, width});
}

// Of compressed matrices of one layout: by rows or columns as the first.
Tensor sum_of_compressed(const Tensor& x, const Tensor& y, const Scalar& alpha, DType dtype) {
  if (!is_blocked(x.layout()) || x.layout() != y.layout()) {
    const Tensor sum = sum_of_coo(to_coo(x), to_coo(y), alpha, dtype);
    return is_coo(x) ? sum : recompressed(sum, x.layout(), index_dtype(x));
  }
  const Tensor a = pattern_of_blocks(x), b = pattern_of_blocks(y);
  CHECK(a.sizes() == b.sizes(), RuntimeError,
        "add: expected blocks of the same size, but got those of {} and {} blocks", a.sizes(),
        b.sizes());
  const Tensor sum = sum_of_compressed(a, b, alpha, dtype);
  const SparseParts& parts = parts_of(sum);
  return make_compressed(x.layout(), parts.indices, parts.plain, parts.values, x.sizes());
}

void check_unwrapped(const char* op, const Operand& a, const Operand& b) {
  for (const Operand& operand : {a, b}) {
    if (operand.is_tensor() && is_wrapped(operand.tensor())) refuse_sparse(op, operand.tensor());
  }
}

}  // namespace

Tensor sparse_sum(const char* op, const Operand& a, const Operand& b, const Scalar& alpha,
                  const Tensor& out) {
  check_unwrapped(op, a, b);
  // Compressed matrices commute with dense ones; tensors by coordinates do not, as in PyTorch.
  const bool swaps = is_sparse_operand(a) && b.is_tensor() && !b.tensor().is_sparse() &&
                     !is_coo(a.tensor()) && !out.defined();
  if (swaps) return add(mul(b.tensor(), alpha), a.tensor());
  CHECK(a.is_tensor() && (!is_sparse_operand(a) || is_sparse_operand(b)), RuntimeError,
        "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const Tensor &x = a.tensor(), &y = b.tensor();
  CHECK(x.is_sparse() || x.sizes() == y.sizes(), RuntimeError,
        "{}: expected 'self' and 'other' to have same size, but self has size {} while other has "
        "size {}: there is no broadcasting of dense with sparse tensors in sums",
        op, x.sizes(), y.sizes());
  CHECK(is_coo(x) || x.sizes() == y.sizes(), RuntimeError,
        "torch.{}: Expected input tensors to have the same shape, but got tensor `self` with shape "
        "{} and tensor `other` with shape {}",
        op, x.sizes(), y.sizes());
  CHECK(x.sizes() == y.sizes(), RuntimeError,
        "{}: expected sizes of 'self' and 'other' to match, but {} != {}", op, x.sizes(),
        y.sizes());
  common_device(op, {a, b});
  const DType dtype = result_type(a, b);
  if (out.defined()) {
    check_inplace(op, out, y.requires_grad());
    check_result_cast(op, dtype, out.dtype());
  }
  Tensor result;
  {
    const NoGrad off;
    if (!x.is_sparse()) {
      result = sum_with_dense(x, y, alpha, dtype, out.defined());
    } else if (is_coo(x) && is_coo(y)) {
      result = sum_of_coo(x, y, alpha, dtype);
    } else {
      CHECK(x.layout() == y.layout() || is_coo(x) || is_coo(y), RuntimeError,
            "{}: cannot add tensors of layouts {} and {}", op, layout_word(x.layout()),
            layout_word(y.layout()));
      result = sum_of_compressed(x, y, alpha, dtype);
    }
  }
  const auto rules = [&](Record& r) {
    r.wrt(0, [](const Tensor& g) { return g; });
    r.wrt(1, [alpha](const Tensor& g) {
      return alpha.is_complex() ? mul_conj(g, scalar_tensor(alpha, options_of(g))) : g * alpha;
    });
  };
  if (out.defined() && !x.is_sparse()) {
    if (Record r = Record::in_place(op, out, {y})) rules(r);
    return out;
  }
  if (Record r{op, result, {x, y}}) rules(r);
  return delivered(op, result, out);
}

namespace {

// --- Products ---------------------------------------------------------------------------------

// At the indices that both store; what they store there may be broadcast.
Tensor product_of_coo(const Tensor& a, const Tensor& b) {
  const int64_t indexed = sparse_dim(a);
  CHECK(a.dim() == b.dim() && indexed == sparse_dim(b) &&
            a.sizes().first(indexed) == b.sizes().first(indexed),
        RuntimeError,
        "mul: expects sparse inputs with equal dimensionality, number of sparse dimensions, and "
        "shape of sparse dimensions, but got sizes {} and {}",
        a.sizes(), b.sizes());
  const Tensor x = coalesce(a), y = coalesce(b);
  Tensor indices = parts_of(x).indices, mine = parts_of(x).values, theirs = parts_of(y).values;
  const FoundNumbers found = find_numbers(coordinate_numbers(parts_of(y).indices, a.sizes()),
                                          coordinate_numbers(indices, a.sizes()));
  if (!found.same) {
    Tensor at = found.at;
    if (!found.all) {
      const Tensor kept = squeeze(nonzero(at >= 0), IntSpan{1});
      indices = index_select(indices, 1, kept), mine = index_select(mine, 0, kept);
      at = index_select(at, 0, kept);
    }
    theirs = index_select(theirs, 0, at);
  }
  const Tensor values = mine * theirs;
  return make_coo(indices, values, broadcast_shapes(a.sizes(), b.sizes()),
                  parts_of(a).coalesced && parts_of(b).coalesced);
}

Tensor product_of_sparse(const Tensor& a, const Tensor& b) {
  Tensor out;
  {
    const NoGrad off;
    out = product_of_coo(to_coo(a), to_coo(b));
    if (!is_coo(a)) out = recompressed(out, a.layout());
  }
  // The gradient of a factor has the indices of the other: it may be stored where that factor is
  // not.
  if (Record r{"mul", out, {a, b}}) {
    r.wrt(0, [other = r.save_for(0, b)](const Tensor& g) { return mul_conj(g, other()); });
    r.wrt(1, [other = r.save_for(1, a)](const Tensor& g) { return mul_conj(g, other()); });
  }
  return out;
}

// A tensor by coordinates with what it stores repeated along dimensions that are new or of size 1.
Tensor sparse_broadcast_to(const Tensor& input, IntSpan size) {
  const int64_t added = static_cast<int64_t>(size.size()) - input.dim();
  const int64_t indexed = added + sparse_dim(input), count = stored_count(input);
  CHECK(added >= 0 && broadcast_shapes(input.sizes(), size) == size.dims(), RuntimeError,
        "_sparse_broadcast_to: a tensor of size {} cannot be broadcast to size {}", input.sizes(),
        size);
  const auto repeats = [&](int64_t d) { return d < added || input.sizes()[d - added] != size[d]; };
  int64_t copies = 1;
  for (int64_t d = 0; d < indexed; ++d) copies *= repeats(d) ? size[d] : 1;
  const Tensor& indices = parts_of(input).indices;
  const Tensor each = arange(int64_t{0}, count * copies, int64_t{1}, options_of(indices));
  const Tensor place = div_floor(each, std::max<int64_t>(copies, 1));
  Tensor copy = each - place * copies;
  std::vector<Tensor> rows(static_cast<size_t>(indexed));
  for (int64_t d = indexed; d-- > 0;) {
    if (!repeats(d)) {
      rows[d] = index_select(select(indices, 0, d - added), 0, place);
      continue;
    }
    const Tensor next = div_floor(copy, std::max<int64_t>(size[d], 1));
    rows[d] = copy - next * size[d];
    copy = next;
  }
  Dims shape{count};
  shape.append(size.begin() + indexed, size.end());
  const Tensor values = index_select(expand(sparse_values(input), shape), 0, place);
  const bool coalesced = copies == 1 && added == 0 && parts_of(input).coalesced;
  return sparse_coo(stack(rows, 0), values, size, coalesced);
}
OP_FUNCTION(sparse_broadcast_to, "_sparse_broadcast_to(input, size)",
            "A tensor by coordinates, repeated along dimensions of size 1 and new ones.",
            takes_sparse | no_out)

Tensor product_with_dense(const Tensor& narrow, const Tensor& dense) {
  const Dims shape = broadcast_shapes(narrow.sizes(), dense.sizes());
  const bool fits = !is_coo(narrow) || narrow.sizes() == shape;
  const Tensor sparse = fits ? narrow : coalesce(sparse_broadcast_to(narrow, shape));
  const Tensor wide = expand(dense, sparse.sizes());
  const Tensor& stored = parts_of(sparse).values;
  const Tensor factors = reshape(values_at(wide, stored_coordinates(sparse)), stored.sizes());
  const Tensor values = stored * detach(factors);
  Tensor out;
  {
    const NoGrad off;
    out = with_indices_of(sparse, values);
  }
  if (Record r{"mul", out, {sparse, dense}}) {
    r.wrt(0, [d = r.save(dense)](const Tensor& g) { return mul_conj(g, d()); });
    r.wrt(1, [s = r.save(sparse)](const Tensor& g) { return mul_conj(g, s()); });
  }
  return out;
}

Tensor sparse_product(const Operand& a, const Operand& b) {
  const bool swapped = !is_sparse_operand(a);
  const Tensor& sparse = (swapped ? b : a).tensor();
  const Operand& other = swapped ? a : b;
  if (is_number(other)) {
    Tensor out;
    {
      const NoGrad off;
      out = with_indices_of(sparse, mul(parts_of(sparse).values, other));
    }
    static const Tensor none;
    const Tensor& factor = other.is_tensor() ? other.tensor() : none;
    if (Record r{"mul", out, {sparse, factor}}) {
      if (other.is_tensor()) {
        r.wrt(0, [f = r.save(factor)](const Tensor& g) { return mul_conj(g, f()); });
        r.wrt(1, [s = r.save(sparse)](const Tensor& g) {
          return sum(mul_conj(to_dense(g), to_dense(s())));
        });
      } else {
        r.wrt(0, [f = other.scalar()](const Tensor& g) {
          return mul_conj(g, scalar_tensor(f, options_of(g)));
        });
      }
    }
    return out;
  }
  const Tensor& tensor = other.tensor();
  if (!tensor.is_sparse()) return product_with_dense(sparse, tensor);
  if (tensor.dim() == 0) return sparse_product(sparse, to_dense(tensor));
  if (sparse.dim() == 0) return sparse_product(to_dense(sparse), tensor);
  return product_of_sparse(a.tensor(), b.tensor());
}

Tensor sparse_quotient(const BinaryRow& row, const Operand& a, const Operand& b) {
  CHECK(is_sparse_operand(a) && is_number(b), RuntimeError,
        "Sparse {}division requires a scalar or zero-dim dense tensor divisor (got shape {} for "
        "divisor)",
        row.slot == &kernels::div_floor ? "floor " : "",
        b.is_tensor() ? b.tensor().sizes() : IntSpan());
  const Tensor& x = a.tensor();
  if (row.slot != &kernels::div) {
    const Tensor whole = is_coo(x) ? coalesce(x) : x;
    return with_indices_of(whole, binary_op(row, sparse_values(whole), b));
  }
  Tensor out;
  {
    const NoGrad off;
    out = with_indices_of(x, div(parts_of(x).values, b));
  }
  const Tensor divisor = b.is_tensor() ? b.tensor() : scalar_tensor(b.scalar(), options_of(out));
  if (Record r{"div", out, {x}}) {
    r.wrt(0, [d = r.save(divisor)](const Tensor& g) { return div_conj(g, d()); });
  }
  return out;
}

}  // namespace

Tensor sparse_binary(const BinaryRow& row, const Operand& a, const Operand& b, const Tensor& out) {
  const bool sums = row.slot == &kernels::add, subtracts = row.slot == &kernels::sub;
  if (subtracts) check_no_bool_operand(a, b);
  if (sums || subtracts) return sparse_sum(row.name, a, b, int64_t{sums ? 1 : -1}, out);
  check_unwrapped(row.name, a, b);
  const bool divides = row.slot == &kernels::div || row.slot == &kernels::div_floor ||
                       row.slot == &kernels::div_trunc;
  if (row.slot != &kernels::mul && !divides)
    refuse_sparse(row.name, (is_sparse_operand(a) ? a : b).tensor());
  if (out.defined()) check_inplace(row.name, out, b.requires_grad());
  return delivered(row.name, divides ? sparse_quotient(row, a, b) : sparse_product(a, b), out);
}

// f(a) + f(b) is not f(a + b): there is nothing that the values of equal coordinates could become.
void check_coalesced(const char* op, bool is_linear, const Tensor& self) {
  CHECK(is_linear || !is_coo(self) || parts_of(self).coalesced, RuntimeError,
        "{}_ requires coalesced input", op);
}

Tensor sparse_unary(const UnaryRow& row, const Tensor& input, const Scalar* params, int n_params,
                    const Tensor& out) {
  const bool is_linear = row.flags & OpDef::linear;
  if (!(row.flags & OpDef::takes_sparse)) refuse_sparse(row.name, input);
  if (out.defined()) check_inplace(row.name, out);
  if (out.defined() && out.is_same(input)) check_coalesced(row.name, is_linear, out);
  if (is_linear && n_params == 0) {
    Tensor result;
    {
      const NoGrad off;
      result = with_indices_of(input, unary_op(row, parts_of(input).values, nullptr, 0));
    }
    // The rule is linear as well, and needs nothing of what went in.
    if (Record r{row.name, result, {input}}) {
      r.wrt(0, [gradient = row.gradient](const Tensor& g) {
        const Scalar none[2];
        return gradient(g, {}, none);
      });
    }
    return delivered(row.name, result, out);
  }
  const Tensor x = is_linear || !is_coo(input) ? input : coalesce(input);
  const Tensor values = unary_op(row, sparse_values(x), params, n_params);
  return delivered(row.name, with_indices_of(x, values), out);
}

Tensor sparse_pow(const Tensor& input, const Operand& exponent) {
  CHECK(is_number(exponent), RuntimeError,
        "pow: a sparse tensor is raised to the power of a number only");
  const Scalar power = exponent.is_tensor() ? item(exponent.tensor()) : exponent.scalar();
  CHECK(
      !(power == Scalar(0)), RuntimeError,
      "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense");
  const Tensor x = is_coo(input) ? coalesce(input) : input;
  return with_indices_of(x, pow(sparse_values(x), power));
}

// --- Copies -----------------------------------------------------------------------------------

Tensor clone_sparse(const Tensor& input) {
  Tensor out = make_alias(input);
  out->version = nullptr;
  SparseParts& parts = *out->parts;
  {
    const NoGrad off;
    parts.indices = clone(parts.indices, MemoryFormat::contiguous);
    if (parts.plain.defined()) parts.plain = clone(parts.plain, MemoryFormat::contiguous);
    parts.values = clone(parts.values, MemoryFormat::contiguous);
  }
  if (Record r{"clone", out, {input}}) r.wrt(0, [](const Tensor& g) { return g; });
  return out;
}

Tensor sparse_to(const Tensor& input, Device device, DType dtype) {
  Tensor out = make_alias(input);
  out->version = nullptr;
  SparseParts& parts = *out->parts;
  {
    const NoGrad off;
    parts.indices = to(parts.indices, device);
    if (parts.plain.defined()) parts.plain = to(parts.plain, device);
    parts.values = to(parts.values, device, dtype, false, true, {});
  }
  out->dtype = dtype;
  out->device = parts.values.device();
  if (is_differentiable(dtype)) {
    if (Record r{"to_copy", out, {input}}) {
      r.wrt(0, [home = input.device()](const Tensor& g) { return to(g, home); });
    }
  }
  return out;
}

Tensor copy_sparse_(const Tensor& self, const Tensor& source) {
  const auto type = [](const Tensor& x) {
    const std::string device = x.device().is_cuda() ? "cuda." : "";
    return "torch." + device + (x.is_sparse() ? "sparse." : "") +
           std::string(dtype_legacy_name(x.dtype())) + "Tensor";
  };
  CHECK(self.is_sparse() && source.is_sparse(), RuntimeError,
        "copy_() between dense and sparse Tensors is not implemented! Found self type = {} and src "
        "type = {}",
        type(self), type(source));
  CHECK(self.layout() == source.layout(), RuntimeError,
        "copy_: the layouts of self and src must match, but got {} and {}",
        layout_word(self.layout()), layout_word(source.layout()));
  CHECK(self.sizes() == source.sizes(), RuntimeError,
        "copy_: the sizes of self and src must match, but got {} and {}", self.sizes(),
        source.sizes());
  check_inplace("copy_", self, source.requires_grad());
  Tensor copied = sparse_to(source, self.device(), self.dtype());
  if (copied.is_same(source)) copied = clone_sparse(source);
  return delivered("copy_", clone_sparse(copied), self);
}

// Other parts, and with them another size, for a sparse tensor.
Tensor become_sparse_(const Tensor& self, const Tensor& source) {
  CHECK(self.is_sparse() && self.layout() == source.layout(), RuntimeError,
        "_sparse_become_: expected sparse tensors of one layout, but got {} and {}",
        layout_word(self.layout()), layout_word(source.layout()));
  check_inplace("copy_", self, source.requires_grad());
  return delivered("copy_", clone_sparse(sparse_to(source, self.device(), self.dtype())), self);
}
OP_FUNCTION(become_sparse_, "_sparse_become_(self, source)",
            "Gives a sparse tensor the parts, the size and the history of another.", takes_sparse)

Tensor zero_sparse_(const Tensor& self) {
  check_inplace("zero_", self);
  const SparseParts& parts = parts_of(self);
  Tensor empty;
  {
    const NoGrad off;
    if (is_coo(self)) {
      empty = make_coo(contiguous(narrow(parts.indices, 1, 0, 0)),
                       contiguous(narrow(parts.values, 0, 0, 0)), self.sizes(), true);
    } else {
      empty = make_compressed(self.layout(), parts.indices, parts.plain, zeros_like(parts.values),
                              self.sizes());
    }
  }
  return delivered("zero_", empty, self);
}

}  // namespace flambeau
