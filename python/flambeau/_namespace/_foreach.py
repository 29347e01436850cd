"""The `_foreach_` functions: an op applied to every tensor of a list, which optimizers and
gradient clipping call. Each comes as a function that makes a tuple of results and, with a trailing
underscore, as one that writes into the tensors themselves and gives back the list it was given.
"""

from __future__ import annotations

from collections import deque
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


def _spread(tensors: Sequence[Tensor], other: Any) -> Sequence[Any]:
    """One operand for each tensor: from a list of tensors or of numbers, or the same for all."""
    if isinstance(other, (list, tuple)):
        _same_length(tensors, other)
        return other
    if isinstance(other, _C.Tensor) and other.dim() != 0:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
            f"{other.numel()} elements."
        )
    return [other] * len(tensors)


def _offer(name: str, function: Callable[..., Any], doc: str, takes: str = "") -> None:
    """Makes a function known under its PyTorch name. `takes` names what torch.foreach takes behind
    the list: operands by position, and behind a star options by name."""
    function.__dict__["_takes"] = takes
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = doc
    globals()[function.__name__] = function
    __all__.append(function.__name__)


def _offer_both(
    name: str, apply: Callable[..., Any], apply_: Callable[..., Any], takes: str = ""
) -> None:
    """apply(self, *args) yields results; apply_(self, *args) writes them into self."""

    def functional(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return tuple(apply(_checked(functional.__name__, self), *args, **kwargs))

    def inplace(self: Any, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        tensors = _checked(inplace.__name__, self)
        # Before the first is written: none is, if one must not be.
        guarded = _C.is_grad_enabled() and any(map(_wants_grad, tensors))
        if guarded and any(x.requires_grad and x.is_leaf for x in tensors):
            raise RuntimeError(
                f"{inplace.__name__}: a leaf Variable that requires grad is being used in an "
                "in-place operation."
            )
        deque(apply_(tensors, *args, **kwargs), maxlen=0)
        return tensors

    # As methods go: max has no in-place form, zero_ no other.
    if hasattr(_C.Tensor, name):
        _offer(name, functional, f"{name} of every tensor.", takes)
    if hasattr(_C.Tensor, f"{name}_"):
        _offer(f"{name}_", inplace, f"{name}_ on every tensor.", takes)


def _method(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(_C.Tensor, name)
    return found


def _offer_unary(name: str) -> None:
    def applying(op: str) -> Callable[..., Any]:
        return lambda self: map(_method(op), self)

    _offer_both(name, applying(name), applying(f"{name}_"))


def _offer_binary(name: str, method: str, takes: str = "other") -> None:
    """A function of a list and of a number, a zero-dim tensor, or a list of either."""
    operand = ("exponent",) if takes == "exponent" else ("other", "scalar", "scalars")
    scaled = "alpha" in takes

    def applying(op: str) -> Callable[..., Any]:
        one = _method(op)

        def apply(self: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
            # The second operand is named after its kind.
            named = [word for word in operand if word in kwargs]
            options = {word: value for word, value in kwargs.items() if word not in named}
            if len(args) + len(named) != 1 or options.keys() - ({"alpha"} if scaled else set()):
                raise TypeError(
                    f"_foreach_{name}() received an invalid combination of arguments: a second "
                    f"operand ({', '.join(operand)}){' and alpha' if scaled else ''} are expected"
                )
            other = args[0] if args else kwargs[named[0]]
            if not options:
                return map(one, self, _spread(self, other))
            alpha = options["alpha"]
            return (one(x, y, alpha=alpha) for x, y in zip(self, _spread(self, other), strict=True))

        return apply

    _offer_both(name, applying(method), applying(f"{method}_"), takes)


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


def _offer_ternary(name: str) -> None:
    def applying(op: str) -> Callable[..., Any]:
        one = _method(op)

        def apply(
            self: Sequence[Tensor], tensor1: Any, tensor2: Any, value: Any = 1, scalars: Any = None
        ) -> Any:
            _same_length(self, tensor1)
            _same_length(self, tensor2)
            scale = value if scalars is None else scalars
            if isinstance(scale, _C.Tensor):
                scale = _packed(self, scale)
            rows = zip(self, tensor1, tensor2, _spread(self, scale), strict=True)
            return (one(x, a, b, value=v) for x, a, b, v in rows)

        return apply

    _offer_both(name, applying(name), applying(f"{name}_"), "tensor1 tensor2 * value=1")


def _lerping(op: str) -> Callable[..., Any]:
    one = _method(op)

    def apply(
        self: Sequence[Tensor], tensors1: Any, weight: Any = None, weights: Any = None
    ) -> Any:
        _same_length(self, tensors1)
        share = weight if weights is None else weights
        return map(one, self, tensors1, _spread(self, share))

    return apply


def _pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    if isinstance(self, (int, float, complex)):
        return tuple(_C.pow(self, x) for x in _checked("_foreach_pow", exponent))
    tensors = _checked("_foreach_pow", self)
    return tuple(map(_C.pow, tensors, _spread(tensors, exponent)))


def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_norm", self)
    return tuple(_C.linalg_vector_norm(x, ord, dtype=dtype) for x in tensors)


def _powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_powsum", self)
    return tuple(_C.sum(_C.abs(x) ** ord, dtype=dtype) for x in tensors)


def _clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_clone", self)
    return tuple(_C.clone(x, memory_format=memory_format) for x in tensors)


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Sequence[Tensor]:
    tensors = _checked("_foreach_copy_", self)
    _same_length(tensors, src)
    for x, y in zip(tensors, src, strict=True):
        x.copy_(y, non_blocking)
    return tensors


def _mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    tensors = _checked("_foreach_mm", self)
    _same_length(tensors, mat2)
    return tuple(_C.mm(x, y) for x, y in zip(tensors, mat2, strict=True))


for _name in sorted({name.removesuffix("_") for name in _C._ops_with("foreach")}):
    _offer_unary(_name)
_offer_binary("add", "add", "other * alpha=1")
_offer_binary("sub", "sub", "other * alpha=1")
_offer_binary("mul", "mul")
_offer_binary("div", "div")
_offer_binary("pow", "pow", "exponent")
_offer_binary("clamp_min", "clamp_min", "min")
_offer_binary("clamp_max", "clamp_max", "max")
_offer_binary("maximum", "clamp_min")
_offer_binary("minimum", "clamp_max")
_offer_ternary("addcmul")
_offer_ternary("addcdiv")
_offer_both("lerp", _lerping("lerp"), _lerping("lerp_"), "end weight")
_offer("pow", _pow, "pow of every tensor, or of a number to the power of each.", "exponent")
_offer("norm", _norm, "The norm of every tensor.", "* ord=2 dtype")
_offer("powsum", _powsum, "The sum of the powers of the magnitudes of every tensor.")
_offer("clone", _clone, "A copy of every tensor.", "* memory_format")
_offer("copy_", _copy_, "Copies every tensor of src into that of self.", "src * non_blocking=False")
_offer("mm", _mm, "The product of every pair of matrices.", "mat2")
