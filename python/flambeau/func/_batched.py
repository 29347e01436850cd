"""A batch of samples as one tensor: inside vmap it looks like a single sample.

`Batched` is a tensor whose first dimension counts samples, and hides it: shapes, dimensions and
indices are those of one sample. Every op has a rule that computes it for all samples at once
(`_batching_rules.py`). Whatever has no rule, or could not be taken back, such as writing in place
or asking for a value, raises `Unbatchable` before anything has happened, and vmap runs the
function sample by sample instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.autograd._batch_state import Unbatchable
from flambeau.autograd._batch_state import batch_state as _state
from flambeau.utils._pytree import tree_leaves

__all__ = ["Batched", "Unbatchable", "batch_size", "batching", "physical", "wrap"]

Rule = Any
RULES: dict[str, Rule] = {}


def batch_size() -> int | None:
    """The number of samples of the batch that is being computed in this thread, if one is."""
    return _state.size


@contextlib.contextmanager
def batching(size: int, randomness: str = "error") -> Iterator[None]:
    """Computes a batch of this size inside."""
    if _state.size is not None:
        raise Unbatchable("a batch inside a batch")
    _state.size, _state.randomness = size, randomness
    try:
        yield
    finally:
        _state.size = None


_OTHER_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    **dict.fromkeys(("x", "a", "x1", "self"), "input"),
    "x2": "other",
}


def _as_rules_expect(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A call with PyTorch's own names in the place of NumPy's, its operands given by position."""
    if not kwargs or "condition" in kwargs:  # what comes before the operands
        return args, kwargs
    kwargs = {_OTHER_NAMES.get(name, name): value for name, value in kwargs.items()}
    if not args and "input" in kwargs:
        args = (kwargs.pop("input"),)
    if len(args) == 1 and "other" in kwargs:
        args = (*args, kwargs.pop("other"))
    return args, kwargs


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Unbatchable("a value was asked for")


class Batched(Tensor):
    """All samples' tensors as one, which looks like that of one sample."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if _state.size is None:
            raise RuntimeError("vmap: a tensor of a sample was kept and used outside of vmap")
        inside = getattr(func, "__wrapped__", None)
        if inside is not None:  # a function of nn.functional: the ops that it calls have rules
            return inside(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = f".{func.__self__.__name__}"
        rule = RULES.get(name)
        if rule is None or (kwargs and kwargs.get("out") is not None):
            raise Unbatchable(name)
        try:
            with _C.DisableTorchFunctionSubclass():
                return rule(func, *_as_rules_expect(args, kwargs or {}))
        except RuntimeError:
            if any(map(_lacks_memory, tree_leaves((args, kwargs)))):
                raise Unbatchable("a sample was read past the rules") from None
            raise

    __bool__ = __float__ = __int__ = __index__ = __complex__ = _refuse
    item = tolist = numpy = backward = data_ptr = untyped_storage = storage = _refuse
    __iter__ = __array__ = __dlpack__ = __reduce__ = register_hook = new_tensor = _refuse

    def __repr__(self, **options: Any) -> str:
        raise Unbatchable("a batch was printed")

    __format__ = __str__ = _refuse


def _lacks_memory(value: Any) -> bool:
    """Whether this was made of a batch by what knows nothing of batches."""
    return isinstance(value, Tensor) and not isinstance(value, Batched) and value.is_meta


def wrap(tensor: Tensor) -> Any:
    """A tensor whose first dimension counts samples, as the tensor of one sample."""
    # Whoever looks past the rules finds the shape and the dtype of a sample, but no memory.
    shell: Any = flambeau.empty(tensor.shape[1:], dtype=tensor.dtype, device="meta")
    shell = shell.as_subclass(Batched)
    shell.__dict__["behind"] = tensor  # with its history: ops and derivatives are of this one
    return shell


def physical(value: Any) -> Any:
    """The tensor behind that of a sample; anything else as it is."""
    return value.__dict__["behind"] if isinstance(value, Batched) else value


def whole(value: Tensor) -> Tensor:
    """The tensor behind that of a sample; one that all samples share repeats for each."""
    if isinstance(value, Batched):
        return physical(value)
    assert _state.size is not None
    return value.unsqueeze(0).expand(_state.size, *value.shape)


def wrapped(result: Any) -> Any:
    """A result of an op of batches as that of a sample."""
    if isinstance(result, Tensor):
        return wrap(result)
    if isinstance(result, tuple) and not hasattr(result, "_fields") and type(result) is not tuple:
        # The named results of an op are rebuilt as what they are.
        return type(result)([wrapped(item) for item in result])
    if isinstance(result, (list, tuple)):
        return type(result)(wrapped(item) for item in result)
    return result


def is_batched(values: Any) -> bool:
    """Whether any of these is a batch."""
    return any(isinstance(value, Batched) for value in values)
