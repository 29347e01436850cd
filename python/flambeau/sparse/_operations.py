"""What can be done with sparse tensors. Each function stands for the ops, methods and operators of
its name; it takes coordinates (COO), and what gets compressed rows gives them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau.sparse._construct import sparse_mask as _dense_sparse_mask
from flambeau.sparse._layouts import CooTensor, CsrTensor, SparseTensor, grouped

_ops: Any = _C
_TABLE: dict[str, Callable[..., Any]] = {}


def _for(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _TABLE.update(dict.fromkeys(names, function))
        return function

    return enter


def _map(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(item, change) for item in tree)
    return change(tree)


def run(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls the function for `name`, or says that there is none."""
    function = _TABLE.get(name)
    if function is None:
        raise NotImplementedError(
            f"Could not run 'aten::{name.strip('_')}' with arguments from the 'SparseCPU' backend: "
            "it is not implemented for sparse tensors. Tensor.to_dense() makes a dense one."
        )
    rows = False

    def by_coordinates(value: Any) -> Any:
        nonlocal rows
        if not isinstance(value, CsrTensor):
            return value
        rows = True
        return value.to_sparse_coo()

    args = _map(tuple(args), by_coordinates)
    kwargs = {key: _map(value, by_coordinates) for key, value in kwargs.items()}
    result = function(*args, **kwargs)
    if rows and isinstance(result, CooTensor) and result.dim() == 2 and result.sparse_dim() == 2:
        return result.to_sparse_csr()
    return result


def _is_number(value: Any) -> bool:
    if isinstance(value, SparseTensor):
        return False
    return not isinstance(value, _C.Tensor) or value.dim() == 0


# --- Elementwise ------------------------------------------------------------------------------

_KEEP_ZERO = """abs absolute asin arcsin asinh arcsinh atan arctan atanh arctanh ceil conj
conj_physical deg2rad erf erfinv expm1 floor frac log1p nan_to_num neg negative positive rad2deg
relu round sgn sign signbit sin sinh sqrt square tan tanh trunc isnan isinf isposinf isneginf
""".split()


def _zero_keeping(name: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        together = x.coalesce()
        return together._with_values(getattr(_ops, name)(together._values_, *args, **kwargs))

    return function


_TABLE.update({name: _zero_keeping(name) for name in _KEEP_ZERO})
_TABLE["__neg__"] = _TABLE["neg"]
_TABLE["__abs__"] = _TABLE["abs"]


@_for("pow", "__pow__")
def _pow(x: Any, exponent: Any) -> Any:
    if not _is_number(exponent) or exponent <= 0:
        raise RuntimeError(f"pow: a sparse tensor takes a positive number, not {exponent}")
    together = x.coalesce()
    return together._with_values(together._values_**exponent)


def _joined(a: Any, b: Any, alpha: Any) -> Any:
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )
    indices = _ops.cat([a._indices_, b._indices_], 1)
    other = b._values_ if alpha == 1 else b._values_ * alpha
    return CooTensor.make(indices, _ops.cat([a._values_, other]), a.shape)


@_for("add", "__add__", "__radd__", "add_", "__iadd__")
def _add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    if isinstance(a, CooTensor) and isinstance(b, CooTensor):
        return _joined(a, b, alpha)
    if isinstance(a, CooTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    return _ops.add(a, b.to_dense(), alpha=alpha)


@_for("sub", "subtract", "__sub__", "sub_", "__isub__")
def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return _add(a, b, alpha=-alpha)


def _common(a: Any, b: Any) -> Any:
    """The product of two sparse tensors: at the places of both."""
    a, b = a.coalesce(), b.coalesce()
    mine, theirs = a._places(), b._places()
    if theirs.numel() == 0:
        mine = mine[:0]
    at = _ops.searchsorted(theirs, mine).clamp(max=max(theirs.numel() - 1, 0))
    shared = theirs[at] == mine if theirs.numel() else mine.bool()
    here = shared.nonzero().squeeze(1)
    values = a._values_[here] * b._values_[at[here]]
    return CooTensor.make(a._indices_[:, here], values, a.shape, True)


@_for("mul", "multiply", "__mul__", "__rmul__", "mul_", "__imul__")
def _mul(a: Any, b: Any) -> Any:
    if not isinstance(a, CooTensor):
        a, b = b, a
    if _is_number(b):
        return a._with_values(a._values_ * b)
    if isinstance(b, CooTensor):
        return _common(a, b)
    dense = b.expand(a.shape)
    return a._with_values(a._values_ * dense[tuple(a._indices_)])


@_for("div", "divide", "true_divide", "__truediv__", "div_", "__itruediv__")
def _div(a: Any, b: Any, **kwargs: Any) -> Any:
    if not isinstance(a, CooTensor) or not _is_number(b):
        raise RuntimeError("div: a sparse tensor can only be divided by a number")
    return a._with_values(_ops.div(a._values_, b, **kwargs))


# --- Products ---------------------------------------------------------------------------------


def _check_product(a: Any, b: Any) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))})"
        )


def _sparse_sparse(a: Any, b: Any) -> Any:
    """Every element of a meets the row of b that its column names."""
    starts, columns, values = b.compressed()
    rows, inner = a._indices_
    counts = (starts[1:] - starts[:-1])[inner]
    mine = _ops.repeat_interleave(counts)
    before = _ops.cumsum(counts, 0) - counts
    theirs = starts[inner][mine] + _ops.arange(mine.numel(), device=mine.device) - before[mine]
    indices = _ops.stack([rows[mine], columns[theirs]])
    size = (a.shape[0], b.shape[1])
    return CooTensor.make(indices, a._values_[mine] * values[theirs], size).coalesce()


@_for("mm", "spmm", "smm", "hspmm", "_sparse_mm")
def _mm(a: Any, b: Any) -> Any:
    _check_product(a, b)
    if isinstance(a, CooTensor) and isinstance(b, CooTensor):
        return _sparse_sparse(a, b)
    if isinstance(a, CooTensor):
        return _ops._csr_mm(*a.compressed(), b)
    return _ops._csr_mm(*_turned(b, 0, 1).compressed(), a.t()).t()


@_for("mv")
def _mv(a: Any, vector: Any) -> Any:
    return _mm(a, vector.unsqueeze(1)).squeeze(1)


@_for("matmul", "__matmul__", "__rmatmul__")
def _matmul(a: Any, b: Any) -> Any:
    if b.dim() == 1:
        return _mv(a, b)
    if a.dim() == 1:
        return _mm(a.unsqueeze(0), b).squeeze(0)
    return _bmm(a, b) if a.dim() == 3 else _mm(a, b)


@_for("bmm")
def _bmm(a: Any, b: Any) -> Any:
    return _ops.stack([_mm(_select(a, 0, k), b[k]) for k in range(a.shape[0])])


@_for("addmm", "sspaddmm", "_sparse_addmm")
def _addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _mm(a, b)
    if isinstance(product, CooTensor):
        return _add(_mul(x, beta), product, alpha=alpha)
    return x * beta + product * alpha


# --- Reductions ---------------------------------------------------------------------------------


@_for("sum", "_sparse_sum")
def _sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    values = x._values_ if dtype is None else x._values_.to(dtype)
    if dim is None or dim == ():
        return values.sum()
    dims = {d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    indexed = x.sparse_dim()
    inner = tuple(d - indexed + 1 for d in dims if d >= indexed)
    if inner:
        values = values.sum(inner)
    kept = [d for d in range(indexed) if d not in dims]
    if not kept:
        result = values.sum(0)
    else:
        size = [x.shape[d] for d in kept] + list(values.shape[1:])
        ordered = x._coalesced and len(kept) == indexed
        result = CooTensor.make(x._indices_[kept], values, size, ordered).coalesce()
    for d in sorted(dims) if keepdim else ():
        result = result.unsqueeze(d)
    return result


@_for("norm")
def _norm(x: Any, p: Any = 2, **kwargs: Any) -> Any:
    return x.coalesce()._values_.norm(p, **kwargs)


def _softmax_values(x: Any, dim: int, logarithm: bool) -> Any:
    """Over the stored elements along an indexed dimension: those not stored count as -inf."""
    others = [d for d in range(x.sparse_dim()) if d != dim]
    place = _ops.zeros(x._nnz(), dtype=_C.int64, device=x._values_.device)
    for d in others:
        place = place * x.shape[d] + x._indices_[d]
    order, _, ordered = grouped(place)
    group = _ops.empty_like(ordered)
    group[order] = ordered
    count = int(ordered[-1]) + 1 if ordered.numel() else 0
    values = x._values_
    spread = group.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    shape = (count, *values.shape[1:])
    top = values.new_full(shape, -float("inf"))
    top = _ops.scatter_reduce(top, 0, spread, values.detach(), "amax")[group]
    power = _ops.exp(values - top)
    total = _ops.index_add(values.new_zeros(shape), 0, group, power)[group]
    return values - top - _ops.log(total) if logarithm else power / total


@_for("softmax", "log_softmax")
def softmax(x: Any, dim: int, dtype: Any = None, *, logarithm: bool = False) -> Any:
    """The softmax along dim of the elements that are stored."""
    together = x.coalesce()
    if dtype is not None:
        together = together._with_values(together._values_.to(dtype))
    dim %= x.dim()
    if dim < x.sparse_dim():
        return together._with_values(_softmax_values(together, dim, logarithm))
    inner = _ops.log_softmax if logarithm else _ops.softmax
    return together._with_values(inner(together._values_, dim - x.sparse_dim() + 1))


_TABLE["log_softmax"] = lambda x, dim, dtype=None: softmax(x, dim, dtype, logarithm=True)


# --- Places -----------------------------------------------------------------------------------


def _turned(x: Any, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return _permute(x, order)


@_for("transpose", "swapaxes", "swapdims")
def _transpose(x: Any, dim0: int, dim1: int) -> Any:
    return _turned(x, dim0 % x.dim(), dim1 % x.dim())


@_for("t", "T", "mT")
def _t(x: Any) -> Any:
    return x if x.dim() < 2 else _turned(x, x.dim() - 2, x.dim() - 1)


@_for("permute")
def _permute(x: Any, *dims: Any) -> Any:
    order = list(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else list(dims)
    order = [d % x.dim() for d in order]
    indexed = x.sparse_dim()
    if sorted(order[:indexed]) != list(range(indexed)):
        raise RuntimeError("permute: sparse and dense dimensions cannot change places")
    values = x._values_.permute(0, *[d - indexed + 1 for d in order[indexed:]])
    size = [x.shape[d] for d in order]
    ordered = x._coalesced and order == list(range(x.dim()))
    return CooTensor.make(x._indices_[order[:indexed]], values, size, ordered)


@_for("unsqueeze")
def _unsqueeze(x: Any, dim: int) -> Any:
    dim %= x.dim() + 1
    size = [*x.shape[:dim], 1, *x.shape[dim:]]
    indexed = x.sparse_dim()
    if dim > indexed:
        values = x._values_.unsqueeze(dim - indexed + 1)
        return CooTensor.make(x._indices_, values, size, x._coalesced)
    rows = _ops.zeros_like(x._indices_[:1])
    indices = _ops.cat([x._indices_[:dim], rows, x._indices_[dim:]])
    return CooTensor.make(indices, x._values_, size, x._coalesced)


@_for("select")
def _select(x: Any, dim: int, index: int) -> Any:
    dim %= x.dim()
    length = x.shape[dim]
    if not -length <= index < length:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{dim}"
        )
    index %= length
    indexed = x.sparse_dim()
    size = [*x.shape[:dim], *x.shape[dim + 1 :]]
    if dim >= indexed:
        values = x._values_.select(dim - indexed + 1, index)
        return CooTensor.make(x._indices_, values, size, x._coalesced)
    here = (x._indices_[dim] == index).nonzero().squeeze(1)
    if indexed == 1:
        return x._values_[here].sum(0)
    kept = [d for d in range(indexed) if d != dim]
    return CooTensor.make(x._indices_[kept][:, here], x._values_[here], size, x._coalesced)


@_for("__getitem__")
def _getitem(x: Any, key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    dim = 0
    for item in keys:
        if isinstance(item, int):
            x = _select(x, dim, item) if isinstance(x, CooTensor) else x[item]
        elif item == slice(None):
            dim += 1
        else:
            raise NotImplementedError(f"a sparse tensor takes integers and ':', not {item!r}")
    return x


@_for("index_select")
def _index_select(x: Any, dim: int, index: Any) -> Any:
    dim %= x.dim()
    size = list(x.shape)
    size[dim] = index.numel()
    if dim >= x.sparse_dim():
        values = x._values_.index_select(dim - x.sparse_dim() + 1, index)
        return CooTensor.make(x._indices_, values, size, x._coalesced)
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < x.shape[dim]:
        raise IndexError(f"index_select(): index out of range for size {x.shape[dim]}")
    starts, order = _ops._group_by_index(x._indices_[dim], x.shape[dim])
    counts = (starts[1:] - starts[:-1])[index]
    to = _ops.repeat_interleave(counts)
    before = _ops.cumsum(counts, 0) - counts
    at = starts[index][to] + _ops.arange(to.numel(), device=to.device) - before[to]
    chosen = order[at]
    indices = x._indices_[:, chosen]
    indices[dim] = to
    return CooTensor.make(indices, x._values_[chosen], size)


@_for("cat", "concat", "concatenate")
def _cat(tensors: Any, dim: int = 0) -> Any:
    first = tensors[0]
    dim %= first.dim()
    if dim >= first.sparse_dim() or not all(isinstance(x, CooTensor) for x in tensors):
        raise RuntimeError("cat: sparse tensors are joined along an indexed dimension only")
    parts, offset = [], 0
    for x in tensors:
        moved = x._indices_.clone()
        moved[dim] += offset
        offset += x.shape[dim]
        parts.append(moved)
    size = list(first.shape)
    size[dim] = offset
    values = _ops.cat([x._values_ for x in tensors])
    return CooTensor.make(_ops.cat(parts, 1), values, size)


@_for("unbind")
def _unbind(x: Any, dim: int = 0) -> Any:
    return tuple(_select(x, dim, k) for k in range(x.shape[dim]))


@_for("reshape", "view", "flatten")
def _reshape(x: Any, *size: Any) -> Any:
    raise RuntimeError("reshape is not implemented for sparse tensors")


@_for("stack")
def _stack(tensors: Any, dim: int = 0) -> Any:
    return _cat([_unsqueeze(x, dim) for x in tensors], dim)


@_for("sparse_mask")
def _sparse_mask(x: Any, mask: Any) -> Any:
    if not isinstance(x, SparseTensor):
        return _dense_sparse_mask(x, mask)
    return _dense_sparse_mask(x.to_dense(), mask)


# --- Copies -------------------------------------------------------------------------------------

_CONVERSIONS = """to float double half bfloat16 long int short char byte bool cfloat cdouble cpu
cuda type_as clone detach""".split()


def _converted(name: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        values = getattr(x._values_, name)(*args, **kwargs)
        if values is x._values_:
            return x
        indices = x._indices_.clone() if name == "clone" else x._indices_.to(values.device)
        return CooTensor.make(indices, values, x.shape, x._coalesced)

    return function


_TABLE.update({name: _converted(name) for name in _CONVERSIONS})


@_for("zero_")
def _zero_(x: Any) -> Any:
    x._values_ = x._values_.detach()[:0]
    x._indices_ = x._indices_[:, :0]
    x._rows = None
    return x


@_for("zeros_like")
def _zeros_like(x: Any, **kwargs: Any) -> Any:
    values = _ops.zeros_like(x._values_[:0], **kwargs)
    return CooTensor.make(x._indices_[:, :0], values, x.shape, True)
