"""The table of what can be done with sparse tensors beyond what the core does, and its use.

The core calls `run` when an op that does not take sparse tensors itself is given one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._operators._kinds import among, kind_named, names_of, replaced

_ops: Any = _C


def compressed(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Says of a rule that it takes compressed tensors as they are."""
    rule.__dict__["takes_compressed"] = True
    return rule


def rule_for(name: str) -> Callable[..., Any] | None:
    """What stands for an op, a method or an operator: rule_name of the modules about sparse
    tensors, or, for a function that keeps zero, that function of the stored values."""
    from flambeau.sparse import _operations, _rearrange

    for each in names_of(name.replace(".", "_")):
        for module in (_operations, _rearrange):
            found: Callable[..., Any] | None = getattr(module, f"rule_{each}", None)
            if found is not None:
                return found
    if kind_named(name.removesuffix("_")).has("keeps_zero"):
        return compressed(functools.partial(_operations.keep_zero, name))
    return None


def is_sparse(value: Any) -> bool:
    """Whether it is a tensor of any sparse layout."""
    return isinstance(value, _C.Tensor) and value.layout is not _C.strided


def is_coo(value: Any) -> bool:
    """Whether it is a tensor by coordinates."""
    return isinstance(value, _C.Tensor) and value.is_sparse


def is_compressed(value: Any) -> bool:
    """Whether it is a tensor by compressed rows or columns."""
    return is_sparse(value) and not value.is_sparse


def refuse(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Raises PyTorch's error for an op that has nothing for this layout."""
    found = [x for x in among((*args, *kwargs.values()), _C.Tensor) if is_sparse(x)]
    layout = "Sparse" if found and found[0].is_sparse else "SparseCsr"
    device = found[0].device.type.upper() if found else "CPU"
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{layout}{device}' backend. The op "
        "is not implemented for tensors of this layout; Tensor.to_dense() makes a dense one."
    )


def _refuse_wrapped(name: str, x: Any) -> None:
    if _C._is_wrapped(x):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' on a tensor that has no values of its own: the class "
            "that wraps them answers for ops by __torch_dispatch__, which was not asked here."
        )


def _into(out: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an op, written into `out`."""
    if not isinstance(out, _C.Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    function = rule_for(name + ".out")
    if function is not None:
        return function(*args, out=out, **kwargs)
    if not any(is_sparse(x) for x in args):
        return refuse(name, (*args, out), kwargs)  # out alone is sparse
    result = getattr(_ops, name)(*args, **kwargs).detach()
    if is_sparse(out) and not _C.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"{name}: result type {result.dtype} can't be cast to the desired output type "
            f"{out.dtype}"
        )
    if not is_sparse(out) and not is_sparse(result) and out.shape != result.shape:
        out.resize_(result.shape)
    if is_coo(out) and is_coo(result):
        return _ops._sparse_become_(out, result)
    return out.copy_(result)


def _for_each(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """An op over lists of tensors, one after the other."""
    method = getattr(_C.Tensor, name.removeprefix("_foreach_"), None)
    if method is None:
        return refuse(name, args, kwargs)
    count = len(args[0])
    columns = [x if isinstance(x, (list, tuple)) else [x] * count for x in args]
    results = [method(*row, **kwargs) for row in zip(*columns)]
    return None if name.endswith("_") else tuple(results)


def as_autocast(*factors: Any) -> Any:
    """What is to be multiplied, in the low precision of autocast where it is on."""
    for device in ("cpu", "cuda") if _C._is_any_autocast_enabled() else ():
        if _C.is_autocast_enabled(device):
            from flambeau.amp.autocast_mode import cast

            factors = cast(factors, device, _C.get_autocast_dtype(device))
    return factors


def run(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls the function for `name`, or says that there is none."""
    for tensor in among((*args, *kwargs.values()), _C.Tensor):
        _refuse_wrapped(name, tensor)
    if kwargs.get("out") is not None:
        return _into(kwargs.pop("out"), name, args, kwargs)
    function = rule_for(name)
    if function is None:
        if name.startswith("_foreach_"):
            return _for_each(name, args, kwargs)
        return refuse(name, args, kwargs)
    if args and isinstance(args[0], (int, float, complex)):  # each is a function of a tensor
        return refuse(name, args, kwargs)
    if getattr(function, "takes_compressed", False):
        return function(*args, **kwargs)
    layout = None

    def by_coordinates(value: Any) -> Any:
        nonlocal layout
        if not is_sparse(value) or value.is_sparse:
            return value
        layout = value.layout
        return _ops._sparse_to_coo(value)

    args = replaced(tuple(args), _C.Tensor, by_coordinates)
    kwargs = {key: replaced(value, _C.Tensor, by_coordinates) for key, value in kwargs.items()}
    result = function(*args, **kwargs)
    if layout is not None and is_coo(result) and result.dim() == 2 and result.sparse_dim() == 2:
        return result.to_sparse(layout=layout)
    return result


def indices_of(x: Any) -> Any:
    """The coordinates, a column for each stored element."""
    return x._indices()


values_of = _ops._sparse_values
with_values = _ops._sparse_with_values


def coo(indices: Any, values: Any, size: Any, coalesced: bool = False) -> Any:
    """A tensor by coordinates of parts that fit together."""
    return _ops._sparse_coo(indices, values, tuple(size), coalesced)


def wrapped_dim(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, "
            f"{max(rank, 1) - 1}], but got {dim})"
        )
    return dim % max(rank, 1)
