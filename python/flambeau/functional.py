"""Functions whose arguments take more forms than an op's signature can say."""

from __future__ import annotations

import warnings

from flambeau import _C
from flambeau._namespace._out import delivered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = ["broadcast_shapes", "chain_matmul", "einsum", "tensordot"]


def __getattr__(name: str) -> Any:
    """What PyTorch keeps in its module of this name, and the package here."""
    if name.startswith("_"):
        raise AttributeError(f"module 'flambeau.functional' has no attribute '{name}'")
    from flambeau import (  # noqa: F401
        atleast_1d,
        atleast_2d,
        atleast_3d,
        block_diag,
        broadcast_tensors,
        cartesian_prod,
        cdist,
        istft,
        lu,
        meshgrid,
        norm,
        pca_lowrank,
        split,
        stft,
        svd_lowrank,
        unique,
        unique_consecutive,
        unravel_index,
    )

    if (found := locals().get(name)) in (None, name):
        raise AttributeError(f"module 'flambeau.functional' has no attribute '{name}'")
    return found


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape to which tensors of the given shapes broadcast."""
    for shape in shapes:
        if not isinstance(shape, (int, str, list, tuple)):
            raise RuntimeError(
                "Input shapes should be of type ints, a tuple of ints, or a list of ints, got "
                f"{shape}"
            )
    lists = [[shape] if isinstance(shape, int) else list(shape) for shape in shapes]
    rank = max((len(shape) for shape in lists), default=0)
    result = [1] * rank
    for shape in lists:
        for place in range(-len(shape), 0):
            size = shape[place]
            if size < 0:
                raise ValueError(
                    "Attempting to broadcast a dimension with negative length!"
                    f" (broadcast_shapes: {tuple(shape)})"
                )
            if size in (1, result[place]):
                continue
            if result[place] != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape, got "
                    + " and ".join(str(tuple(each)) for each in lists)
                )
            result[place] = size
    return _C.Size(result)


def _subscripts(sublist: Sequence[Any]) -> str:
    """The letters for a list of dimension numbers, in which Ellipsis stands for any number."""
    text = ""
    for label in sublist:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            error = ValueError if isinstance(label, int) else RuntimeError
            raise error(
                "einsum(): subscript in subscript list is not within the valid range "
                f"[0, {len(_LETTERS)}), got {label!r}"
            )
    return text


def einsum(*args: Any) -> Tensor:
    """Sums of products of elements of the operands, in the notation of Einstein.

    ``einsum("ij,jk->ik", a, b)`` names dimensions by letters;
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` by numbers.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], _C.Tensor):
        operands = args[0 : len(args) - len(args) % 2 : 2]
        equation = ",".join(_subscripts(labels) for labels in args[1::2])
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
        return _C.einsum(equation, operands)
    return _C.einsum(*args)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over dimensions of ``a`` and ``b``.

    ``dims`` is how many of the last of ``a`` and the first of ``b``, or two lists of them.
    """
    if not isinstance(dims, (int, tuple, list, _C.Tensor)):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or "
            f"list[list[int]] containing two lists, but got dims={dims}"
        )
    if isinstance(dims, _C.Tensor):
        if dims.numel() == 1:
            dims = int(dims.item())
        else:
            dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = dims
        dims_a = [first] if isinstance(first, int) else list(first)
        dims_b = [second] if isinstance(second, int) else list(second)
    if out is None:
        return _C.tensordot(a, b, dims_a, dims_b)
    return _C.tensordot(a, b, dims_a, dims_b, out=out)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices, multiplied in the order that needs the fewest multiplications."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    warnings.warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors.",
        stacklevel=2,
    )
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return delivered(matrices[0], out)
    return _C.linalg_multi_dot(matrices) if out is None else _C.linalg_multi_dot(matrices, out=out)
