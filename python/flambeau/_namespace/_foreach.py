"""The `_foreach_` functions: an op applied to every tensor of a list, which optimizers and
gradient clipping call. Each comes as a function that makes a tuple of results and, with a trailing
underscore, as one that writes into the tensors themselves and gives back the list it was given.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from operator import attrgetter

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__: list[str] = []
_PLAIN = {_C.Tensor}
_wants_grad = attrgetter("requires_grad")


# What a function takes behind the list of tensors, one for all or one for each: names (for lists,
# for a number, for numbers), the text of its default, and whether it is given by name only.
Parameter = tuple[list[str], "str | None", bool]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, _C.Tensor)


def _checked(name: str, tensors: Any) -> Sequence[Tensor]:
    """The list itself, if it is one of tensors and not empty."""
    # Lists have hundreds of small tensors, so nothing here is a loop of Python's where maps do.
    fits = isinstance(tensors, (list, tuple))
    if not fits or not (_PLAIN.issuperset(map(type, tensors)) or all(map(_is_tensor, tensors))):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    found: Sequence[Tensor] = tensors
    return found


def _same_length(tensors: Sequence[Tensor], others: Sequence[Any]) -> None:
    if len(tensors) == len(others):
        return
    if others and isinstance(others[0], _C.Tensor):
        raise RuntimeError(
            "Tensor lists must have the same number of tensors, got "
            f"{len(tensors)} and {len(others)}"
        )
    raise RuntimeError("Tensor list must have same number of elements as scalar list.")


def _spread(tensors: Sequence[Tensor], other: Any, packed: bool) -> Sequence[Any]:
    """One operand for each tensor: from a list of tensors or of numbers, or the same for all."""
    if isinstance(other, (list, tuple)):
        _same_length(tensors, other)
        return other
    if packed and isinstance(other, _C.Tensor):
        return _packed(tensors, other)
    if isinstance(other, _C.Tensor) and other.dim() != 0:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
            f"{other.numel()} elements."
        )
    return [other] * len(tensors)


def _packed(tensors: Sequence[Tensor], scalars: Tensor) -> list[Any]:
    """The numbers of a vector, one for each tensor."""
    if scalars.dim() != 1:
        raise RuntimeError(
            f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead."
        )
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if len(scalars) != len(tensors):
        raise RuntimeError(
            f"Expected length of scalars to match input of length {len(tensors)} but got "
            f"{len(scalars)} instead."
        )
    numbers: list[Any] = scalars.tolist()
    return numbers


def _parameters(text: str) -> list[Parameter]:
    found, by_name = [], False
    for word in text.split():
        names, given, default = word.partition("=")
        if word == "*":
            by_name = True
        else:
            found.append((names.split("|"), default if given else None, by_name))
    return found


def _bound(
    name: str, parameters: list[Parameter], tensors: Sequence[Tensor], args: Any, kwargs: Any
) -> tuple[list[Sequence[Any]], dict[str, Any], dict[str, Sequence[Any]]]:
    """Columns of operands, one for each tensor; options that are the same for all; columns of the
    others."""
    named, operands, options, columns = dict(kwargs), [], {}, {}
    fits = len(args) <= sum(not by_name for _, _, by_name in parameters)
    for index, (names, default, _) in enumerate(parameters):
        found = [named.pop(word) for word in names if word in named]
        found += args[index : index + 1]
        fits = fits and len(found) <= 1 and (bool(found) or default is not None)
        if found and default is None:
            operands.append(_spread(tensors, found[0], False))
        elif found and isinstance(found[0], (list, tuple, _C.Tensor)):
            columns[names[0]] = _spread(tensors, found[0], True)
        elif found:
            options[names[0]] = found[0]
    if named or not fits:
        expected = ", ".join("|".join(names) for names, _, _ in parameters)
        raise TypeError(
            f"_foreach_{name}() received an invalid combination of arguments: behind the list of "
            f"tensors ({expected}) are expected"
        )
    return operands, options, columns


def _offer(
    name: str, takes: str = "", one: Callable[..., Any] | None = None,
    one_: Callable[..., Any] | None = None,
) -> None:  # fmt: skip
    """Makes the function known that applies `one`, by default the method, to every tensor, and the
    one in place, if there is such a method."""
    parameters = _parameters(takes)

    def applied(one: Callable[..., Any], tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        operands, options, columns = _bound(name, parameters, tensors, args, kwargs)
        if options:
            one = partial(one, **options)
        if not columns:
            return map(one, tensors, *operands)
        named = (dict(zip(columns, row)) for row in zip(*columns.values(), strict=True))
        rows = zip(tensors, *operands, strict=True)
        return (one(*row, **given) for row, given in zip(rows, named))

    if one := one or getattr(_C.Tensor, name, None):

        def functional(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
            return tuple(applied(one, _checked(f"_foreach_{name}", self), args, kwargs))

        _publish(functional, name, f"{name} of every tensor.", parameters)
    if one_ := one_ or getattr(_C.Tensor, f"{name}_", None):

        def inplace(self: Any, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
            tensors = _checked(f"_foreach_{name}_", self)
            # Before the first is written: none is, if one must not be.
            guarded = _C.is_grad_enabled() and any(map(_wants_grad, tensors))
            if guarded and any(x.requires_grad and x.is_leaf for x in tensors):
                raise RuntimeError(
                    f"_foreach_{name}_: a leaf Variable that requires grad is being used in an "
                    "in-place operation."
                )
            deque(applied(one_, tensors, args, kwargs), maxlen=0)
            return tensors

        _publish(inplace, f"{name}_", f"{name}_ on every tensor.", parameters)


def _publish(
    function: Callable[..., Any], name: str, doc: str, parameters: list[Parameter]
) -> None:
    """Makes a function known under its PyTorch name; torch.foreach reads what it takes."""
    function.__dict__["_parameters"] = parameters
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = doc
    globals()[function.__name__] = function
    __all__.append(function.__name__)


def _pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    if isinstance(self, (int, float, complex)):
        return tuple(_C.pow(self, x) for x in _checked("_foreach_pow", exponent))
    tensors = _checked("_foreach_pow", self)
    return tuple(map(_C.pow, tensors, _spread(tensors, exponent, False)))


def _powsum(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return _C.sum(_C.abs(x) ** ord, dtype=dtype)


for _name in sorted({name.removesuffix("_") for name in _C._ops_with("foreach")}):
    _offer(_name)
_offer("add", "other|scalar|scalars * alpha=1")
_offer("sub", "other|scalar|scalars * alpha=1")
_offer("mul", "other|scalar|scalars")
_offer("div", "other|scalar|scalars")
_offer("pow", "exponent")
_offer("clamp_min", "min|other|scalar|scalars")
_offer("clamp_max", "max|other|scalar|scalars")
_offer("maximum", "other|scalar|scalars", _C.Tensor.clamp_min, _C.Tensor.clamp_min_)
_offer("minimum", "other|scalar|scalars", _C.Tensor.clamp_max, _C.Tensor.clamp_max_)
_offer("addcmul", "tensor1 tensor2 value|scalars=1")
_offer("addcdiv", "tensor1 tensor2 value|scalars=1")
_offer("lerp", "end|tensors1 weight|weights")
_offer("norm", "ord=2 dtype=None", _C.linalg_vector_norm)
_offer("powsum", "ord=2 dtype=None", _powsum)
_offer("clone", "* memory_format=None")
_offer("copy", "src non_blocking=False")
_offer("mm", "mat2")
_publish(
    _pow,
    "pow",
    "pow of every tensor, or of a number to the power of each.",
    _parameters("exponent"),
)
