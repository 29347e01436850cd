"""How names of dimensions go through ops: for each op the rule that names its results.

See _named.py, which calls these rules.
"""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

    Names = tuple[str | None, ...]


# Names --------------------------------------------------------------------------------------------
def shown(names: Sequence[str | None]) -> str:
    return f"[{', '.join('None' if name is None else repr(name) for name in names)}]"


def names_of(tensor: Tensor) -> Names:
    """The name of each dimension, None where it has none."""
    return tensor.__dict__.get("_dim_names") or (None,) * tensor.dim()


def refuse_duplicates(names: Sequence[str | None]) -> None:
    given = [name for name in names if name is not None]
    for name in given:
        if given.count(name) > 1:
            raise RuntimeError(
                f"Cannot construct a tensor with duplicate names. Got names: {shown(names)}"
            )


def position(name: Any, names: Names) -> Any:
    """The number of a dimension that is given by name; numbers stay."""
    if name is None:
        raise RuntimeError(
            "Please look up dimensions by name, got: name = None. Dimensions of "
            f"Tensor{shown(names)} have been asked for"
        )
    if not isinstance(name, str):
        return name
    if name not in names:
        raise RuntimeError(f"Name '{name}' not found in Tensor{shown(names)}.")
    return names.index(name)


def unify(one: Names, two: Names) -> Names:
    """The names of two tensors that are broadcast together."""
    longer, shorter = (one, two) if len(one) >= len(two) else (two, one)
    padded = (None,) * (len(longer) - len(shorter)) + shorter
    lists = f"dims {shown(one)} and dims {shown(two)}"
    found: list[str | None] = []
    for a, b in zip(longer, padded, strict=True):
        if a is not None and b is not None and a != b:
            raise RuntimeError(
                f"Error when attempting to broadcast {lists}: dim '{a}' and dim '{b}' are at the "
                "same position from the right but do not match."
            )
        for name, others in ((a, shorter), (b, longer)):
            if name is not None and a != b and name in others:
                raise RuntimeError(
                    f"Misaligned dims when attempting to broadcast {lists}: dim '{name}' appears "
                    "in a different position from the right across both lists."
                )
        found.append(a if a is not None else b)
    return tuple(found)


# Rules: the names of one result of a call ---------------------------------------------------------
class Call:
    """An op with its arguments, names of dimensions replaced by their numbers."""

    def __init__(self, op: str, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.op, self.func, self.out = op, func, kwargs.get("out")
        self.outdim = kwargs.pop("outdim", None) if op == "diagonal" else None
        tensors = [*args, *(value for name, value in kwargs.items() if name != "out")]
        flat = [
            leaf
            for item in tensors
            for leaf in (item if isinstance(item, (tuple, list)) else (item,))
        ]
        self.inputs = [leaf for leaf in flat if isinstance(leaf, flambeau.Tensor)]
        self.names = [names_of(tensor) for tensor in self.inputs]
        self.args, self.kwargs = args, kwargs
        if op.removesuffix("_") in BY_DIM:
            self.args = [args[0], *(self._numbered(item) for item in args[1:])]
            dims = ("dim", "dim0", "dim1", "dim2")
            self.kwargs = {
                name: self._numbered(value) if name in dims else value
                for name, value in kwargs.items()
            }

    def _numbered(self, item: Any) -> Any:
        own = self.names[0]
        if isinstance(item, (list, tuple)) and any(isinstance(part, str) for part in item):
            return [position(part, own) for part in item]
        return position(item, own) if isinstance(item, str) else item

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def dims(self, at: int) -> list[int]:
        """The dimensions that the call names, in its place among the arguments or by keyword."""
        given = self.kwargs.get("dim", self.args[at] if len(self.args) > at else None)
        listed = given if isinstance(given, (list, tuple)) else [given]
        rank = len(self.names[0])
        return [dim % rank for dim in listed if isinstance(dim, int) and rank]


def _broadcast(call: Call, result: Any) -> Names:
    names: Names = ()
    for other in call.names:
        names = unify(names, other)
    return names


def _first(call: Call, result: Any) -> Names:
    return call.names[0]


def _reduced(call: Call, result: Any) -> Names:
    own = call.names[0]
    if len(call.inputs) > 1:  # max(x, y)
        return _broadcast(call, result)
    if result.dim() == len(own):
        return own
    gone = call.dims(2 if call.op in ("kthvalue", "norm") else 1)
    return tuple(name for d, name in enumerate(own) if d not in gone) if result.dim() else ()


def _followed(call: Call, result: Any) -> Names:
    """Of a view that only drops, adds and reorders dimensions: a dimension is known by its stride
    in a tensor whose strides are different primes."""
    primes = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091)
    source, own = call.inputs[0], call.names[0]
    strides = primes[: source.dim()]
    probe = flambeau.empty_strided(tuple(source.shape), strides, device="meta")
    rest = [item for item in call.args if item is not source]
    seen = call.func(probe, *rest, **call.kwargs)
    seen = seen[0] if isinstance(seen, (tuple, list)) else seen
    by_stride = dict(zip(strides, own, strict=False))
    return tuple(by_stride.get(stride) for stride in seen.stride())


def _expanded(call: Call, result: Any) -> Names:
    return (*(None,) * (result.dim() - len(call.names[0])), *call.names[0])


def _diagonal(call: Call, result: Any) -> Names:
    return (*_followed(call, result)[:-1], call.outdim)


def _unsqueezed(call: Call, result: Any) -> Names:
    own = call.names[0]
    dim = call.kwargs.get("dim", call.args[-1]) % (len(own) + 1)
    return (*own[:dim], None, *own[dim:])


def _contracted(call: Call, result: Any) -> Names:
    """Of a product of matrices: what is summed over goes; the rest must stay apart."""
    a, b = call.names[-2:]
    if call.op == "linear":
        a, b = call.names[0], call.names[1][::-1]
    if not a or not b:
        return ()  # which the op refuses
    if len(b) == 1:
        names = a[:-1]
    elif len(a) == 1:
        names = (*b[:-2], b[-1])
    else:
        batch = unify(a[:-2], b[:-2])
        for name in a[:-2]:
            if name is not None and name in b[-2:]:
                raise RuntimeError(
                    f"{call.op}: misaligned dims: '{name}' of Tensor{shown(a)} is a batch "
                    f"dimension there and none in Tensor{shown(b)}"
                )
        names = (*batch, a[-2], b[-1])
        refuse_duplicates(names)
    if call.op in ("addmm", "addmv", "baddbmm", "addbmm"):
        names = unify(call.names[0], names)
    refuse_duplicates(names)
    return names


def unnamed(call: Call, result: Any) -> Names:
    _broadcast(call, result)
    return (None,) * result.dim()


def _rules(rule: Callable[[Call, Any], Names], ops: str) -> dict[str, Any]:
    return dict.fromkeys(ops.split(), rule)


RULES: dict[str, Callable[[Call, Any], Names]] = {
    **_rules(
        _broadcast,
        """abs absolute acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bernoulli
        bitwise_and bitwise_not bitwise_or bitwise_xor bool byte cat cauchy ceil char clamp
        clamp_max clamp_min clip clone concat contiguous copy copysign cos cosh cpu cuda data
        deg2rad detach digamma div divide double dropout eq erf erfc erfinv exp expm1 exponential
        fill float floor floor_divide fmod frac ge geometric gelu greater gt half heaviside hypot
        imag int isfinite isinf isnan le leaky_relu lerp less lgamma log log10 log1p log2 log_normal
        log_sigmoid logical_and logical_not logical_or logical_xor logit long lt masked_fill
        maximum minimum mul multiply nan_to_num ne neg negative normal polygamma positive pow
        rad2deg random real reciprocal relu relu6 remainder requires_grad retain_grad round rsqrt
        rsub short sigmoid sign silu sin sinh softplus sqrt square sub subtract tan tanh threshold
        to true_divide trunc type type_as uniform where xlogy zero""",
    ),
    **_rules(
        _first,
        """bfloat16 chunk cummax cummin cumprod cumsum empty_like full_like index_add index_copy
        index_fill index_select log_softmax logcumsumexp max_pool1d max_pool2d max_pool3d
        max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices narrow ones_like
        rand_like randn_like softmax softmin sort split topk tril triu zeros_like""",
    ),
    **_rules(
        _reduced,
        """all amax amin aminmax any argmax argmin count_nonzero kthvalue logsumexp max mean median
        min mode nanmean nanmedian nansum norm prod std std_mean sum var var_mean""",
    ),
    **_rules(
        _followed,
        """H T mH mT moveaxis movedim permute select squeeze swapaxes
        swapdims t transpose unbind""",
    ),
    **_rules(_contracted, "addbmm addmm addmv baddbmm bmm dot linear matmul mm mv"),
    **_rules(unnamed, "as_strided masked_select"),
    **_rules(_expanded, "expand expand_as"),
    "diagonal": _diagonal,
    "unsqueeze": _unsqueezed,
}
BY_DIM = {
    *(op for op, rule in RULES.items() if rule in (_first, _reduced, _followed)),
    *("cat", "concat", "diagonal", "size", "stride"),
}
# Rules that need no result: what is wrong is told before anything is written.
EARLY = (_broadcast, _first, _contracted)
