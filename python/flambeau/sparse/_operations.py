"""What can be done with sparse tensors beyond what the core does: functions, products, reductions.

Each function stands for the ops, methods and operators of its name. Derivatives flow through the
stored values.
"""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C
from flambeau.sparse import _construct
from flambeau.sparse._rearrange import select
from flambeau.sparse._table import (
    as_autocast,
    compressed,
    coo,
    indices_of,
    is_sparse,
    refuse,
    run,
    values_of,
    with_values,
    wrapped_dim,
)

__all__ = ["added_product", "product", "run", "softmax", "sum_along"]

_ops: Any = _C


# --- Elementwise ------------------------------------------------------------------------------


def rule_float_power(x: Any, exponent: Any) -> Any:
    return x.double() ** exponent


def rule_ldexp(x: Any, other: Any) -> Any:
    return x * 2.0**other


def rule_ldexp_(x: Any, other: Any) -> Any:
    return x.mul_(2.0**other)


def rule_linalg_matrix_norm(
    x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord != "fro":
        return refuse("_linalg_svd", (x,), {})
    return rule_norm(x, None, dim, keepdim, dtype=dtype)


def rule_embedding(weight: Any, input: Any, *options: Any, **kwargs: Any) -> Any:
    if input.dim() != 1 or not is_sparse(weight):
        return refuse("embedding", (weight, input), kwargs)
    return weight.index_select(0, input)


def rule_linalg_vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    return rule_sum(x.conj() * y, dim)


@compressed
def keep_zero(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function with f(0) = 0 of the stored values, perhaps in place."""
    if name.endswith("_"):
        return _keep_zero_(name.removesuffix("_"), x, args, kwargs)
    together = x.coalesce() if x.is_sparse else x
    return with_values(together, getattr(_ops, name)(values_of(together), *args, **kwargs))


def _keep_zero_(name: str, x: Any, args: Any, kwargs: Any) -> Any:
    if x.is_complex() and name in ("abs", "absolute"):
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    if x.is_sparse and not x.is_coalesced():
        raise RuntimeError(f"{name}_ requires coalesced input")
    result = keep_zero(name, x, *args, **kwargs)
    if not _C.can_cast(result.dtype, x.dtype):
        raise RuntimeError(
            f"{name}_: result type {_word(result)} can't be cast to the desired output type "
            f"{_word(x)}"
        )
    return x.copy_(result)


# --- Products ---------------------------------------------------------------------------------


def _sparse_sparse(a: Any, b: Any) -> Any:
    """Every element of a is multiplied by the row of b that its column names."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"mat1 dtype {_word(a)} does not match mat2 dtype {_word(b)}")
    layout = a.layout
    a, b = _ops._sparse_to_coo(a).coalesce(), _ops._sparse_to_coo(b).coalesce()
    starts, _ = _ops._group_by_index(indices_of(b)[0], b.shape[0])
    rows, inner = indices_of(a)
    counts = (starts[1:] - starts[:-1])[inner]
    mine = _ops.repeat_interleave(counts)
    before = _ops.cumsum(counts, 0) - counts
    theirs = (starts[inner] - before)[mine] + _ops.arange(mine.numel(), device=mine.device)
    # The gradient of either goes to the indices it stores, through its values.
    values = values_of(a)[mine] * values_of(b)[theirs]
    size = (a.shape[0], b.shape[1])
    place = (rows * size[1])[mine] + indices_of(b)[1][theirs]
    if size[0] * size[1] <= 4 * place.numel():  # a table of all positions takes less than an order
        met = _ops.zeros(size, dtype=_C.bool, device=place.device)
        met.view(-1)[place] = True
        indices = met.nonzero().t().contiguous()
        table = _ops.index_add(values.new_zeros(met.numel()), 0, place, values)
        sums = table[indices[0] * size[1] + indices[1]]
    else:
        order, first, group = _grouped(place)
        chosen = place[order[first]]
        indices = _ops.stack([chosen // size[1], chosen % size[1]])
        sums = _ops.index_add(values.new_zeros(first.numel()), 0, group, values[order])
    result = coo(indices, sums, size, True)
    return result if layout is _C.sparse_coo else result.to_sparse(layout=layout)


def _grouped(place: Any) -> tuple[Any, Any, Any]:
    """The order of numbers, where new ones begin in it, and how many new ones stand before."""
    order = _ops.argsort(place, stable=True)
    ordered = place[order]
    begins = _ops.ones_like(ordered, dtype=_C.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    return order, begins.nonzero().squeeze(1), _ops.cumsum(begins, 0) - 1


def _counts(x: Any) -> bool:
    """Whether the elements are integers or bools."""
    return not (x.is_floating_point() or x.is_complex())


def _word(x: Any) -> str:
    """How messages call a dtype: Float for torch.float32."""
    from flambeau._namespace import _tensor_types

    return _tensor_types._BY_DTYPE[x.dtype].removesuffix("Tensor")


def product(a: Any, b: Any, masked: bool) -> Any:
    """The product of matrices, one of them or both sparse. A masked gradient of a sparse one has
    its indices; otherwise it is dense."""
    a, b = as_autocast(a, b)
    if is_sparse(a) and is_sparse(b):
        return _sparse_sparse(a, b)
    if is_sparse(a):
        if a.dtype != b.dtype:
            raise RuntimeError(f"expected scalar type {_word(a)} but found {_word(b)}")
        if a.dim() == 2 and b.dim() == 2 and a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"addmm: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}"
            )
        return _ops._sparse_dense_mm(a, b, masked)
    transposed = _ops._sparse_transpose(b, 0, 1) if b.dim() == 2 else b
    return product(transposed, a.t(), masked).t()


def reduced_product(a: Any, b: Any, reduce: str) -> Any:
    """The mean, largest or smallest of the products of a row's stored elements, in place of their
    sum; zero for a row that stores nothing."""
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: reduce must be sum, mean, amax or amin, but got {reduce}")
    matrix = _ops._sparse_to_coo(a).coalesce()
    rows, columns = indices_of(matrix)
    terms = values_of(matrix).unsqueeze(1) * b[columns]
    out = b.new_zeros(a.shape[0], b.shape[1])
    if reduce == "mean":
        counts = _ops.bincount(rows, minlength=a.shape[0]).clamp(min=1).unsqueeze(1)
        return _ops.index_add(out, 0, rows, terms) / counts
    spread = rows.unsqueeze(1).expand(terms.shape)
    return _ops.scatter_reduce(out, 0, spread, terms, reduce, include_self=False)


def _check_matrices(name: str, a: Any, b: Any) -> None:
    for place, x in ((2, a), (3, b)):
        if x.dim() != 2:
            got = f"got {x.dim()}D tensor"
            raise RuntimeError(f"{name}: Argument #{place}: matrices expected, {got}")


@compressed
def rule_mm(a: Any, b: Any) -> Any:
    return product(a, b, False)


rule_spmm = rule_mm


@compressed
def rule_smm(a: Any, b: Any) -> Any:
    _check_matrices("smm", a, b)
    dense = product(a, b, True)
    return dense if is_sparse(dense) else dense.to_sparse()._coalesced_(False)


@compressed
def rule_hspmm(a: Any, b: Any) -> Any:
    _check_matrices("hspmm", a, b)
    return product(a, b, True).to_sparse(1)._coalesced_(False)


@compressed
def rule_mv(a: Any, vector: Any) -> Any:
    if a.dim() != 2 or vector.dim() != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {a.dim()} and "
            f"Tensor Dim: {vector.dim()}"
        )
    if a.shape[1] != vector.shape[0]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return product(a, vector.unsqueeze(1), False).squeeze(1)


@compressed
def rule_addmv(x: Any, a: Any, vector: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    scaled = rule_mv(a, vector) * alpha
    return scaled if beta == 0 else x * beta + scaled


@compressed
def rule_matmul(a: Any, b: Any) -> Any:
    if not a.dim() or not b.dim():
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.dim()}D and "
            f"{b.dim()}D"
        )
    if b.dim() == 1:
        return rule_mv(a, b)
    if a.dim() == 1:
        return product(a.unsqueeze(0), b, False).squeeze(0)
    if a.dim() > 2 and b.dim() == 2 and not is_sparse(a):
        return product(a.reshape(-1, a.shape[-1]), b, False).reshape(*a.shape[:-1], b.shape[1])
    return rule_bmm(a, b) if a.dim() == 3 else product(a, b, False)


rule___matmul__ = rule___rmatmul__ = rule_matmul


def rule_bmm(a: Any, b: Any) -> Any:
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0]:
        raise RuntimeError(
            f"bmm: expected batches of equally many matrices, but got sizes {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    return _ops.stack([product(select(a, 0, k), b[k], False) for k in range(a.shape[0])])


@compressed
def rule_addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return added_product(x, a, b, beta, alpha, False)


@compressed
def rule_sspaddmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta times a sparse matrix plus alpha times the product of a sparse and a dense one."""
    for name, matrix, wanted in (("self", x, True), ("mat1", a, True), ("mat2", b, False)):
        if matrix.layout is not (flambeau.sparse_coo if wanted else flambeau.strided):
            raise RuntimeError(
                f"sspaddmm: expected '{name}' to have {'sparse' if wanted else 'strided'} layout, "
                f"got '{name}' with layout {matrix.layout}"
            )
    return added_product(x, a, b, beta, alpha, True)._coalesced_(False)


def added_product(x: Any, a: Any, b: Any, beta: Any, alpha: Any, masked: bool) -> Any:
    """beta times x plus alpha times the product."""
    if not is_sparse(a) and not is_sparse(b):
        if is_sparse(x):
            raise RuntimeError(
                "addmm: a product of dense matrices is added to a dense tensor, got one with "
                f"layout {x.layout}"
            )
        return _ops.addmm(x, a, b, beta=beta, alpha=alpha)
    x, a, b = as_autocast(x, a, b)
    if not is_sparse(x):
        x = x.expand(a.size(0), b.size(1))
    if x.dtype != a.dtype:
        raise RuntimeError(f"expected scalar type {_word(a)} but found {_word(x)}")
    if _counts(x):
        alpha, beta = int(alpha), int(beta)
    result = product(a, b, masked)
    if is_sparse(x) and not is_sparse(result):
        result = result.to_sparse()
    base = x if beta == 1 else x * beta
    return _ops.add(base, result, alpha=alpha)


@compressed
def rule_linear(x: Any, weight: Any, bias: Any = None) -> Any:
    rows = x.reshape(-1, x.shape[-1]) if x.layout is flambeau.strided and x.dim() > 0 else x
    result = product(rows, weight.t(), False)
    if rows is not x:
        result = result.reshape(*x.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


# --- Reductions ---------------------------------------------------------------------------------


@compressed
def rule_sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dim is None or dim == ():
        return _ops._sparse_total(x, dtype)
    if dtype is None and _counts(x):
        dtype = flambeau.int64
    if x.is_sparse:
        return sum_along(x, dim, keepdim, dtype)
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    result = sum_along(_ops._sparse_to_coo(x), dim, True, dtype)
    result = result if result.is_sparse else result.to_sparse()
    return _ops._sparse_compress(result, x.layout, _construct.index_dtype(x))


def sum_along(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The sum along dimensions; sparse where an indexed dimension is left."""
    together = x.coalesce()
    values = values_of(together) if dtype is None else values_of(together).to(dtype)
    if dim is None:
        return values.sum()
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = {wrapped_dim(d, x.dim()) for d in given}
    if dims and x.dim() == 0:
        raise RuntimeError(f"sum: a sparse tensor without dimensions has none to add up, got {dim}")
    if len(dims) != len(given):
        raise RuntimeError(f"sum: each dimension can be given once, but got dim={given}")
    indexed = x.sparse_dim()
    inner = tuple(d - indexed + 1 for d in dims if d >= indexed)
    if inner:
        values = values.sum(inner)
    kept = [d for d in range(indexed) if d not in dims]
    if not kept:
        result = values.sum(0)
    elif len(kept) == indexed:
        size = [x.shape[d] for d in kept] + list(values.shape[1:])
        result = coo(indices_of(together), values, size, True)
    else:
        result = _sum_over_indices(together, kept, values)
    for d in sorted(dims) if keepdim else ():
        result = result.unsqueeze(d)
    return result


def _sum_over_indices(x: Any, kept: list[int], values: Any) -> Any:
    indices = indices_of(x)[kept]
    size = [x.shape[d] for d in kept] + list(values.shape[1:])
    place = _ops.zeros(x._nnz(), dtype=_C.int64, device=x.device)
    for d, row in zip(kept, indices):
        place = place * x.shape[d] + row
    order, first, group = _grouped(place)
    sums = values.new_zeros(first.numel(), *values.shape[1:])
    sums = _ops.index_add(sums, 0, group, values[order])
    return coo(indices[:, order[first]], sums, size, True)


def rule_any(x: Any, *dims: Any, **kwargs: Any) -> Any:
    if dims or kwargs:
        return refuse("any.dim", (x,), {})
    return x.coalesce()._values().any()


def rule_norm(
    x: Any, p: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if dtype is not None:
        if p in (None, "fro"):
            raise ValueError("dtype argument is not supported in frobenius norm")
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if dims and {wrapped_dim(d, x.dim()) for d in dims} != set(range(x.dim())):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    if p == "nuc":
        return refuse("_linalg_svd", (x,), {})
    return values_of(x.coalesce()).norm(2 if p is None else p)


rule_linalg_vector_norm = rule_linalg_norm = rule_norm


def _softmax_values(x: Any, dim: int, logarithm: bool) -> Any:
    """Over the stored elements along an indexed dimension: those not stored count as -inf."""
    place = _ops.zeros(x._nnz(), dtype=_C.int64, device=x.device)
    for d in range(x.sparse_dim()):
        if d != dim:
            place = place * x.shape[d] + indices_of(x)[d]
    order, first, ordered = _grouped(place)
    group = _ops.empty_like(ordered)
    group[order] = ordered
    values = values_of(x)
    spread = group.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    shape = (first.numel(), *values.shape[1:])
    top = values.new_full(shape, -float("inf"))
    top = _ops.scatter_reduce(top, 0, spread, values.detach(), "amax")[group]
    power = _ops.exp(values - top)
    total = _ops.index_add(values.new_zeros(shape), 0, group, power)[group]
    return values - top - _ops.log(total) if logarithm else power / total


def softmax(x: Any, dim: int, dtype: Any, logarithm: bool) -> Any:
    """The softmax along dim of the elements that are stored, or its logarithm."""
    together = _ops._sparse_to_coo(x).coalesce()
    if dtype is not None:
        together = together.to(dtype)
    dim = wrapped_dim(dim, x.dim())
    if _counts(together):
        name = "log_softmax" if logarithm else "softmax"
        raise NotImplementedError(f"\"{name}\" not implemented for '{_word(together)}'")
    if dim < together.sparse_dim():
        return with_values(together, _softmax_values(together, dim, logarithm))
    inner = _ops.log_softmax if logarithm else _ops.softmax
    return with_values(together, inner(values_of(together), dim - together.sparse_dim() + 1))
