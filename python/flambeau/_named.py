"""Names of dimensions: `rename`, `refine_names`, `align_to`, `zeros(2, 3, names=("N", "C"))`.

A tensor with names is of a class of its own, so that tensors without names pay nothing. Its
`__torch_function__` turns names of dimensions into their numbers, lets the op run as for any other
tensor, and names the results by the rule that the op has here. An op without a rule refuses names.
"""

from __future__ import annotations

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

    Names = tuple[str | None, ...]

__all__ = ["align_tensors"]


# Names --------------------------------------------------------------------------------------------
def _shown(names: Sequence[str | None]) -> str:
    return f"[{', '.join('None' if name is None else repr(name) for name in names)}]"


def names_of(tensor: Tensor) -> Names:
    """The name of each dimension, None where it has none."""
    return tensor.__dict__.get("_dim_names") or (None,) * tensor.dim()


def _checked(names: Sequence[Any], dim: int) -> Names:
    if len(names) != dim:
        raise RuntimeError(
            f"Number of names ({len(names)}) and number of dimensions in tensor ({dim}) do not "
            f"match: {_shown(names)}"
        )
    for name in names:
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise RuntimeError(
                f"Invalid name {name!r}: a valid identifier contains only letters, digits and "
                "underscores, and does not begin with a digit"
            )
    _refuse_duplicates(names)
    return tuple(names)


def _refuse_duplicates(names: Sequence[str | None]) -> None:
    given = [name for name in names if name is not None]
    for name in given:
        if given.count(name) > 1:
            raise RuntimeError(
                f"Cannot construct a tensor with duplicate names. Got names: {_shown(names)}"
            )


def _named(tensor: Tensor, names: Names) -> Tensor:
    """The tensor itself, with these names."""
    if isinstance(tensor, flambeau.nn.Parameter) or type(tensor) not in (
        flambeau.Tensor,
        NamedTensor,
    ):
        raise RuntimeError(f"NYI: a {type(tensor).__name__} cannot have names of dimensions")
    if any(name is not None for name in names):
        if tensor.is_meta:
            raise RuntimeError("NYI: named tensors only support CPU, CUDA tensors, not meta ones")
        tensor.__dict__["_dim_names"] = names
        _C.Tensor._set_class(tensor, NamedTensor)
    elif type(tensor) is NamedTensor:
        tensor.__dict__.pop("_dim_names", None)
        _C.Tensor._set_class(tensor, flambeau.Tensor)
    return tensor


def _position(name: Any, names: Names) -> Any:
    """The number of a dimension that is given by name; numbers stay."""
    if name is None:
        raise RuntimeError(
            "Please look up dimensions by name, got: name = None. Dimensions of "
            f"Tensor{_shown(names)} have been asked for"
        )
    if not isinstance(name, str):
        return name
    if name not in names:
        raise RuntimeError(f"Name '{name}' not found in Tensor{_shown(names)}.")
    return names.index(name)


def _unify(one: Names, two: Names) -> Names:
    """The names of two tensors that are broadcast together."""
    longer, shorter = (one, two) if len(one) >= len(two) else (two, one)
    padded = (None,) * (len(longer) - len(shorter)) + shorter
    lists = f"dims {_shown(one)} and dims {_shown(two)}"
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
class _Call:
    """An op with its arguments, names of dimensions replaced by their numbers."""

    def __init__(self, op: str, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.op, self.func, self.out = op, func, kwargs.get("out")
        tensors = [*args, *(value for name, value in kwargs.items() if name != "out")]
        flat = [
            leaf
            for item in tensors
            for leaf in (item if isinstance(item, (tuple, list)) else (item,))
        ]
        self.inputs = [leaf for leaf in flat if isinstance(leaf, flambeau.Tensor)]
        self.names = [names_of(tensor) for tensor in self.inputs]
        self.args, self.kwargs = args, kwargs
        if op in _BY_DIM:
            self.args = [args[0], *(self._numbered(item) for item in args[1:])]
            dims = ("dim", "dim0", "dim1", "dim2")
            self.kwargs = {
                name: self._numbered(value) if name in dims else value
                for name, value in kwargs.items()
            }

    def _numbered(self, item: Any) -> Any:
        own = self.names[0]
        if isinstance(item, (list, tuple)) and any(isinstance(part, str) for part in item):
            return [_position(part, own) for part in item]
        return _position(item, own) if isinstance(item, str) else item

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def dims(self, at: int) -> list[int]:
        """The dimensions that the call names, in its place among the arguments or by keyword."""
        given = self.kwargs.get("dim", self.args[at] if len(self.args) > at else None)
        listed = given if isinstance(given, (list, tuple)) else [given]
        rank = len(self.names[0])
        return [dim % rank for dim in listed if isinstance(dim, int) and rank]


def _broadcast(call: _Call, result: Tensor) -> Names:
    names: Names = ()
    for other in call.names:
        names = _unify(names, other)
    return names


def _first(call: _Call, result: Tensor) -> Names:
    return call.names[0]


def _reduced(call: _Call, result: Tensor) -> Names:
    own = call.names[0]
    if len(call.inputs) > 1:  # max(x, y)
        return _broadcast(call, result)
    if result.dim() == len(own):
        return own
    gone = call.dims(2 if call.op in ("kthvalue", "norm") else 1)
    return tuple(name for d, name in enumerate(own) if d not in gone) if result.dim() else ()


def _followed(call: _Call, result: Tensor) -> Names:
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


def _unsqueezed(call: _Call, result: Tensor) -> Names:
    own = call.names[0]
    dim = call.kwargs.get("dim", call.args[-1]) % (len(own) + 1)
    return (*own[:dim], None, *own[dim:])


def _contracted(call: _Call, result: Tensor) -> Names:
    """Of a product of matrices: what is summed over goes; the rest must stay apart."""
    a, b = call.names[-2:]
    if call.op == "linear":
        a, b = call.names[0], call.names[1][::-1]
    if len(b) == 1:
        names = a[:-1]
    elif len(a) == 1:
        names = (*b[:-2], b[-1])
    else:
        batch = _unify(a[:-2], b[:-2])
        for name in a[:-2]:
            if name is not None and name in b[-2:]:
                raise RuntimeError(
                    f"{call.op}: misaligned dims: '{name}' of Tensor{_shown(a)} is a batch "
                    f"dimension there and none in Tensor{_shown(b)}"
                )
        names = (*batch, a[-2], b[-1])
    if call.op in ("addmm", "addmv", "baddbmm", "addbmm"):
        names = _unify(call.names[0], names)
    _refuse_duplicates(names)
    return names


def _unnamed(call: _Call, result: Tensor) -> Names:
    _broadcast(call, result)
    return (None,) * result.dim()


def _rules(rule: Callable[[_Call, Any], Names], ops: str) -> dict[str, Any]:
    return dict.fromkeys(ops.split(), rule)


_RULES: dict[str, Callable[[_Call, Any], Names]] = {
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
        """H T diagonal expand expand_as mH mT moveaxis movedim permute select squeeze swapaxes
        swapdims t transpose unbind""",
    ),
    **_rules(_contracted, "addbmm addmm addmv baddbmm bmm dot linear matmul mm mv"),
    **_rules(_unnamed, "as_strided masked_select"),
    "unsqueeze": _unsqueezed,
}
_BY_DIM = {
    *(op for op, rule in _RULES.items() if rule in (_first, _reduced, _followed)),
    *("cat", "concat", "size", "stride"),
}


# Calls with more to them than their results' names ------------------------------------------------
def _get_item(tensor: Tensor, index: Any) -> Any:
    own, parts = names_of(tensor), list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(part, flambeau.Tensor) for part in parts):
        raise _unsupported("index")
    counted = sum(part is not None and part is not Ellipsis for part in parts)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (len(own) - counted)
    left, found = iter(own), list[str | None]()
    for part in parts:
        if part is None:
            found.append(None)
        elif isinstance(part, slice):
            found.append(next(left))
        else:
            next(left)
    return _named(tensor[index], tuple(found))


def _flatten(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    own, out_dim = names_of(tensor), kwargs.get("out_dim", args[-1] if len(args) > 1 else None)
    if isinstance(kwargs.get("dims", args[0] if args else None), (list, tuple)):
        dims = [_position(name, own) for name in kwargs.get("dims", args[0])]
        if not dims:
            raise RuntimeError("flatten(tensor, dims, out_dim): dims cannot be empty")
        if dims != list(range(dims[0], dims[0] + len(dims))):
            raise RuntimeError(
                f"flatten(tensor, dims, out_dim): dims {args[0]} must be consecutive in "
                f"Tensor{_shown(own)}"
            )
        start, end = dims[0], dims[-1]
    elif isinstance(out_dim, str) and len(args) + len(kwargs) == 3:
        start = _position(kwargs.get("start_dim", args[0]), own) % len(own)
        end = _position(kwargs.get("end_dim", args[1]), own) % len(own)
    else:
        raise _unsupported("flatten")
    made = tensor.flatten(start, end)
    return _named(made, _checked((*own[:start], out_dim, *own[end + 1 :]), made.dim()))


def _unflatten(tensor: Tensor, dim: Any, sizes: Any) -> Tensor:
    own = names_of(tensor)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    pairs = list(sizes.items()) if isinstance(sizes, dict) else list(sizes)
    if not isinstance(pairs[0], (list, tuple)):
        if isinstance(dim, str):
            raise TypeError("unflatten(): argument 'dim' (position 1) must be int, not str")
        raise RuntimeError(
            "unflatten: input is a named tensor but no names were given for unflattened sizes"
        )
    at = _position(dim, own) % len(own)
    new = [pair[1] for pair in pairs]
    known = [size for size in new if size != -1]
    if -1 in new and 0 in known:
        raise RuntimeError(
            f"unflatten: Provided sizes {new}: the unspecified dimension size -1 can be any value "
            "and is ambiguous"
        )
    product, size = 1, tensor.size(at)
    for one in known:
        product *= one
    if size % product if -1 in new and product else product != size:
        raise RuntimeError(
            f"unflatten: Provided sizes {new} don't multiply up to the size of dim {at} "
            f"('{own[at]}': {size}) in Tensor{_shown(own)}"
        )
    made = flambeau.unflatten(tensor, at, new)
    names = (*own[:at], *(pair[0] for pair in pairs), *own[at + 1 :])
    return _named(made, _checked(names, made.dim()))


def _equal(one: Tensor, two: Tensor) -> bool:
    return names_of(one) == names_of(two) and flambeau.equal(one, two)


def _refuse_pickling(tensor: Tensor, *args: Any) -> Any:
    raise RuntimeError(
        "NYI: Named tensors don't support serialization. Please drop names via "
        "`tensor = tensor.rename(None)` before serialization."
    )


_SPECIAL: dict[str, Callable[..., Any]] = {
    "__getitem__": _get_item,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "equal": _equal,
    "__reduce_ex__": _refuse_pickling,
}
# Results that are no part of the tensor, and have no names.
_PASSED = {"grad", "__setitem__", "backward", "_grad", "numpy", "__array__", "cov", "__iter__"}


# The call -----------------------------------------------------------------------------------------
def _unsupported(op: str) -> RuntimeError:
    return RuntimeError(
        f"{op} is not yet supported with named tensors. Please drop names via "
        "`tensor = tensor.rename(None)`, call the op with an unnamed tensor, and set names on the "
        "result of the operation."
    )


def _op_of(func: Any) -> str:
    """The name of the op, for operators (`__radd__`) and attributes that of what they stand for."""
    name = str(getattr(func, "__name__", func))
    if name in ("__get__", "__set__"):
        return str(func.__self__.__name__)
    if name in _SPECIAL or name in _PASSED or not name.startswith("__"):
        return name
    bare = name.strip("_")
    words = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and",
             "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not"}  # fmt: skip
    for start in ("", "r", "i"):
        rest = bare.removeprefix(start)
        if words.get(rest, rest) in _RULES:
            return words.get(rest, rest) + ("_" if start == "i" and bare != rest else "")
    return name


def _deliver(call: _Call, rule: Callable[[_Call, Any], Names], result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        parts = [_deliver(call, rule, part) for part in result]
        return result if hasattr(result, "_fields") or call.out is not None else type(result)(parts)
    if not isinstance(result, flambeau.Tensor):
        return result
    names, before = rule(call, result), names_of(result)
    written = call.out is not None or call.op.endswith("_")
    if written and type(result) is NamedTensor and names != before:
        raise RuntimeError(
            f"Name mismatch: names {_shown(before)} of the tensor that is written are not the same "
            f"as the computed output names {_shown(names)}"
        )
    return _named(result, names)


class NamedTensor(flambeau.Tensor):
    """A tensor whose dimensions have names; see `Tensor.rename`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = _op_of(func)
        with _C.DisableTorchFunctionSubclass():
            if op in _SPECIAL:
                return _SPECIAL[op](*args, **(kwargs or {}))
            call = _Call(op, func, list(args), kwargs or {})
            rule = _RULES.get(op) or _RULES.get(op.removesuffix("_"))
            if rule is None and op.endswith("_") and not op.endswith("__"):
                raise _unsupported(op)
            result = call.run()
            if rule is not None:
                return _deliver(call, rule, result)
        if isinstance(result, flambeau.Tensor) and op not in _PASSED:
            raise _unsupported(op)
        return result


# What every tensor can be asked for ---------------------------------------------------------------
def _filled(names: Sequence[Any], own: Names, rest: Callable[[list[Any]], Sequence[Any]]) -> Names:
    """The names, with what `rest` makes of the others in place of an ellipsis."""
    listed = [("..." if name is Ellipsis else name) for name in names]
    if listed.count("...") > 1:
        raise RuntimeError(f"More than one '...' is not supported: {_shown(listed)}")
    if "..." not in listed:
        return tuple(listed)
    at = listed.index("...")
    return (*listed[:at], *rest(listed), *listed[at + 1 :])


def _between(own: Names) -> Callable[[list[Any]], Sequence[Any]]:
    """The names of the dimensions that an ellipsis stands for by its place."""

    def rest(listed: list[Any]) -> Sequence[Any]:
        at = listed.index("...")
        return own[at : len(own) - (len(listed) - at - 1)]

    return rest


def _new_names(self: Tensor, names: tuple[Any, ...], mapping: dict[str, str]) -> Names:
    own = names_of(self)
    if names and mapping:
        raise RuntimeError("rename: takes either positional args or keyword args, not both")
    if mapping:
        for name in mapping:
            if name not in own:
                raise RuntimeError(
                    f"rename: Tried to rename dim '{name}' of Tensor{_shown(own)}, but dim "
                    f"'{name}' does not exist"
                )
        return _checked(
            [name if name is None else mapping.get(name, name) for name in own], len(own)
        )
    if len(names) == 1 and names[0] is None:
        return (None,) * len(own)
    if len(names) == 1 and isinstance(names[0], (list, tuple)):
        names = tuple(names[0])
    return _checked(_filled(names, own, _between(own)), len(own))


def rename(self: Tensor, *names: Any, **rename_map: Any) -> Tensor:
    """A view with other names: one for each dimension, of which `...` stands for any number that
    stay as they are; or by keyword, `x.rename(N="batch")`; or none, `x.rename(None)`.
    """
    new = _new_names(self, names, rename_map)
    with _C.DisableTorchFunctionSubclass():
        return _named(self.view_as(self), new)


def rename_(self: Tensor, *names: Any, **rename_map: Any) -> Tensor:
    """Gives the tensor itself other names, as `rename` does to a view of it."""
    return _named(self, _new_names(self, names, rename_map))


def has_names(self: Tensor) -> bool:
    """Whether any dimension has a name."""
    return type(self) is NamedTensor


def refine_names(self: Tensor, *names: Any) -> Tensor:
    """A view in which dimensions without a name get one; those that have one must keep it."""
    own = names_of(self)
    new = _filled(names, own, _between(own))
    if len(new) != len(own):
        raise RuntimeError(
            f"refine_names: cannot coerce Tensor{_shown(own)} to Tensor{_shown(new)} because they "
            "have a different number of dims"
        )
    for old, name in zip(own, new, strict=True):
        if old is not None and old != name:
            why = "more specific than" if name is None else "different from"
            raise RuntimeError(
                f"refine_names: cannot coerce Tensor{_shown(own)} to Tensor{_shown(new)} because "
                f"{old!r} is {why} {name!r}"
            )
    return rename(self, *new) if new else self


def align_to(self: Tensor, *names: Any) -> Tensor:
    """A view with the dimensions in the order of `names`, and new ones of size 1 where the tensor
    has none of that name. `...` stands for all that are not named.
    """
    own = names_of(self)
    if any(name is None for name in names):
        raise RuntimeError("align_to: the desired order of dimensions cannot contain a None name")
    glob = any(name is Ellipsis or name == "..." for name in names)
    order = _filled(names, own, lambda listed: [None] * sum(n not in listed for n in own))
    _refuse_duplicates(order)
    for at, name in enumerate(own):
        if name is None and not glob:
            raise RuntimeError(
                f"align_to: All input dims must be named. Found unnamed dim at index {at} of "
                f"Tensor{_shown(own)}"
            )
        if name is not None and name not in order and not glob:
            raise RuntimeError(
                f"align_to: Cannot find dim '{name}' of Tensor{_shown(own)} in {_shown(order)}"
            )
    left = iter([d for d, name in enumerate(own) if name is None or name not in order])
    places = [
        next(left) if name is None else own.index(name) if name in own else None for name in order
    ]
    with _C.DisableTorchFunctionSubclass():
        made = self.permute([place for place in places if place is not None])
        for at, place in enumerate(places):
            made = made.unsqueeze(at) if place is None else made
        final = [
            name if place is None else own[place] for name, place in zip(order, places, strict=True)
        ]
        return _named(made, _checked(final, made.dim()))


def align_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with the dimensions in the order that `other` has them."""
    return align_to(self, *names_of(other))


def align_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors with their dimensions aligned to those of the one that has most."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    longest = max(listed, key=lambda tensor: tensor.dim())
    return tuple(align_to(tensor, *names_of(longest)) for tensor in listed)


def create(factory: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """What a factory makes, with the names that it was given by keyword."""
    names = kwargs.pop("names")
    made = factory(*args, **kwargs)
    if names is None:
        return made
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise TypeError(
            f"{factory.__name__}() received an invalid combination of arguments: names must be a "
            f"tuple of names, not {type(names).__name__}"
        )
    return _named(made, _checked(names, made.dim()))


def attach(tensor: Any) -> None:
    """Gives the class of tensors what this module has."""
    for function in (rename, rename_, has_names, refine_names, align_to, align_as):
        setattr(tensor, function.__name__, function)

    def set_names(self: Tensor, names: Any) -> None:
        rename_(self, *((None,) if names is None else names))

    tensor.names = property(names_of, set_names, doc="The names of the dimensions.")
