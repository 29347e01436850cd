"""Sparse tensors: products, sums and softmax of them. `torch.sparse_coo_tensor`,
`torch.sparse_csr_tensor` and `Tensor.to_sparse` make them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from flambeau import _C, broadcast_shapes
from flambeau.sparse import _operations
from flambeau.sparse._construct import sparse_coo_tensor as _coo_tensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]

_ops: Any = _C


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of matrices, at least one of them sparse. The gradient of a sparse one is sparse
    too: it has the same indices."""
    if reduce not in (None, "sum"):
        return _operations.reduced_product(mat1, mat2, reduce)
    if mat1.layout is _C.strided and mat2.layout is _C.strided:
        return _ops.mm(mat1, mat2)
    return _operations.product(mat1, mat2, True)


def _function(name: str, doc: str) -> Any:
    def call(mat1: Any, mat2: Any) -> Any:
        return _operations.run(name, (mat1, mat2), {})

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


dsmm = _function("mm", "The product of a sparse and a dense matrix.")
spmm = _function("spmm", "The product of a sparse and a dense matrix.")
smm = _function("smm", "The product of a sparse and a dense matrix, as a sparse one.")
hspmm = _function("hspmm", "The product of a sparse and a dense matrix, with sparse rows.")
hsmm = hspmm


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta times a sparse matrix plus alpha times the product of a sparse and a dense one."""
    return _operations.rule_sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


saddmm = sspaddmm


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta times mat plus alpha times the product of a sparse and another matrix."""
    return _operations.added_product(mat, mat1, mat2, beta, alpha, True)


def sum(input: Any, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The sum of all elements, or along dimensions; sparse where an indexed dimension is left."""
    return _operations.sum_along(_ops._sparse_to_coo(input), dim, False, dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The softmax along dim of the elements that are stored; the others count as -inf."""
    return _operations.softmax(input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of softmax."""
    return _operations.softmax(input, dim, dtype, True)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None
) -> Any:
    """beta times input plus alpha times mat1 @ mat2 at the indices that input stores."""
    if input.dim() > 2 or mat1.dim() > 2 or mat2.dim() > 2:
        return _sampled_batches(input, mat1, mat2, beta, alpha, out)
    pattern = input.to_sparse_csr()
    rows, columns = pattern.crow_indices().long(), pattern.col_indices().long()
    dots = _ops._csr_sampled_dot(rows, columns, mat1, mat2.t())
    result = _ops._sparse_with_values(pattern, pattern.values() * beta + dots * alpha)
    result = result if input.layout is _C.sparse_csr else result.to_sparse()
    return result if out is None else out.copy_(result)


def _sampled_batches(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any, out: Any) -> Any:
    """sampled_addmm of each matrix of a batch; a single one serves all of a batch."""
    three = (input.crow_indices(), input.col_indices(), input.values(), mat1, mat2)
    inner = (1, 1, 1, 2, 2)  # how many dimensions of each are no batch
    batch = broadcast_shapes(*(x.shape[: x.dim() - n] for x, n in zip(three, inner)))
    spread = [x.expand(*batch, *x.shape[x.dim() - n :]) for x, n in zip(three, inner)]
    flat = [x.reshape(math.prod(batch), *x.shape[len(batch) :]) for x in spread]
    size = input.shape[-2:]
    rows = []
    for start, place, values, left, right in zip(*flat):
        matrix = _ops._sparse_compressed(start, place, values, size, input.layout)
        rows.append(sampled_addmm(matrix, left, right, beta=beta, alpha=alpha).values())
    values = _ops.stack(rows).reshape(spread[2].shape) if rows else spread[2]
    parts = (x.contiguous() for x in (*spread[:2], values))
    result = _ops._sparse_compressed(*parts, (*batch, *size), input.layout)
    return result if out is None else out.copy_(result)


def spdiags(diagonals: Any, offsets: Any, shape: Sequence[int], layout: Any = None) -> Any:
    """A sparse matrix with the rows of ``diagonals`` along diagonals at ``offsets``."""
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, but got shape: {list(shape)}")
    if diagonals.dim() == 1:
        diagonals = diagonals.unsqueeze(0)
    if offsets.dim() == 0:
        offsets = offsets.unsqueeze(0)
    if offsets.numel() != diagonals.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
            f"({offsets.numel()})"
        )
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    columns = _ops.arange(diagonals.shape[1], device=diagonals.device).expand(diagonals.shape)
    rows = columns - offsets.unsqueeze(1)
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    indices = _ops.stack([rows[inside], columns[inside]])
    result = _coo_tensor(indices, diagonals[inside], shape)
    return result.to_sparse(layout=layout) if layout is not None else result


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """Says whether all rules shall be checked when a sparse tensor is made. What memory depends on
    is checked in any case; the order of indices within a row only where this asks for it.

    A context, a decorator, or a switch.
    """

    _enabled: ClassVar[bool] = False

    def __init__(self, enable: bool = True) -> None:
        self.wanted = enable
        self.before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """What was last asked for."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Asks for all checks."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Says that only what memory depends on needs to be checked."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self.before.append(self.is_enabled())
        check_sparse_tensor_invariants._enabled = self.wanted

    def __exit__(self, *exception: Any) -> None:
        check_sparse_tensor_invariants._enabled = self.before.pop()


# Two of four weights kept is what NVIDIA's tensor cores multiply; libraries ask for the classes by
# name when they are imported.
_SEMI_STRUCTURED = {
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
}


def __getattr__(name: str) -> Any:
    """The constructors of old: `torch.sparse.FloatTensor(indices, values, size)`."""
    if name in _SEMI_STRUCTURED:
        from flambeau._absent import absent

        made = absent(__name__, name, "Flambeau has no kernels of semi-structured sparsity")
        return globals().setdefault(name, made)
    if not name.endswith("Tensor"):
        raise AttributeError(f"module 'flambeau.sparse' has no attribute '{name}'")
    from flambeau._namespace._tensor_types import tensor_type

    dtype = tensor_type(name).dtype

    def make(*args: Any) -> Any:
        if not args:
            return _coo_tensor(_ops.empty((1, 0)), _ops.empty(0), (0,), dtype=dtype)
        if len(args) == 1 or all(isinstance(arg, int) for arg in args):
            return _coo_tensor(size=args[0] if len(args) == 1 else args, dtype=dtype)
        return _coo_tensor(*args, dtype=dtype)

    make.__name__ = name
    return make


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """The function gradcheck for functions that take or return sparse tensors: it is called with a
    function of their stored values."""

    def checked(func: Any, inputs: Any, **kwargs: Any) -> Any:
        from flambeau.autograd._sparse_gradcheck import over_values

        kwargs.pop("masked", None)
        given = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
        return gradcheck(*over_values(func, given), **kwargs)

    return checked
