"""Names of dimensions: `rename`, `refine_names`, `align_to`, `zeros(2, 3, names=("N", "C"))`.

A tensor with names is of a class of its own, so that tensors without names pay nothing. Its
`__torch_function__` turns names of dimensions into their numbers, lets the op run as for any other
tensor, and names the results by the rule of the op (_named_rules.py). An op without one refuses
them. PyTorch had this as a prototype and has dropped it; programs that use it still run here.
"""

from __future__ import annotations

import flambeau
from flambeau import _C
from flambeau._named_rules import (
    EARLY,
    RULES,
    Call,
    names_of,
    position,
    refuse_duplicates,
    shown,
    unnamed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor
    from flambeau._named_rules import Names

__all__ = ["align_tensors"]


def _checked(names: Sequence[Any], dim: int) -> Names:
    if len(names) != dim:
        raise RuntimeError(
            f"Number of names ({len(names)}) and number of dimensions in tensor ({dim}) do not "
            f"match: {shown(names)}"
        )
    for name in names:
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise RuntimeError(
                f"Invalid name {name!r}: a valid identifier contains only letters, digits and "
                "underscores, and does not begin with a digit"
            )
    refuse_duplicates(names)
    return tuple(names)


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
        dims = [position(name, own) for name in kwargs.get("dims", args[0])]
        if not dims:
            raise RuntimeError("flatten(tensor, dims, out_dim): dims cannot be empty")
        if dims != list(range(dims[0], dims[0] + len(dims))):
            raise RuntimeError(
                f"flatten(tensor, dims, out_dim): dims {args[0]} must be consecutive in "
                f"Tensor{shown(own)}"
            )
        start, end = dims[0], dims[-1]
    elif isinstance(out_dim, str) and len(args) + len(kwargs) == 3:
        start = position(kwargs.get("start_dim", args[0]), own) % len(own)
        end = position(kwargs.get("end_dim", args[1]), own) % len(own)
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
    at = position(dim, own) % len(own)
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
            f"('{own[at]}': {size}) in Tensor{shown(own)}"
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
        if words.get(rest, rest) in RULES:
            return words.get(rest, rest) + ("_" if start == "i" and bare != rest else "")
    return name


def _refuse_mismatch(target: Tensor, names: Names) -> None:
    if type(target) is NamedTensor and names != names_of(target):
        raise RuntimeError(
            f"Name mismatch: names {shown(names_of(target))} of the tensor that is written are "
            f"not the same as the computed output names {shown(names)}"
        )


def _deliver(call: Call, rule: Callable[[Call, Any], Names], result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        parts = [_deliver(call, rule, part) for part in result]
        return result if hasattr(result, "_fields") or call.out is not None else type(result)(parts)
    if not isinstance(result, flambeau.Tensor):
        return result
    names = rule(call, result)
    if call.out is not None or call.op.endswith("_"):
        _refuse_mismatch(result, names)
    return _named(result, names)


class NamedTensor(flambeau.Tensor):
    """A tensor whose dimensions have names; see `Tensor.rename`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = _op_of(func)
        with _C.DisableTorchFunctionSubclass():
            if op in _SPECIAL:
                return _SPECIAL[op](*args, **(kwargs or {}))
            call = Call(op, func, list(args), kwargs or {})
            rule = RULES.get(op.removesuffix("_"))
            in_place = op.endswith("_") and not op.endswith("__")
            if in_place and (rule is None or rule is unnamed):
                raise _unsupported(op)
            if rule in EARLY:
                names = rule(call, None)
                if in_place:
                    _refuse_mismatch(args[0], names)
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
        raise RuntimeError(f"More than one '...' is not supported: {shown(listed)}")
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
                    f"rename: Tried to rename dim '{name}' of Tensor{shown(own)}, but dim "
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
            f"refine_names: cannot coerce Tensor{shown(own)} to Tensor{shown(new)} because they "
            "have a different number of dims"
        )
    for old, name in zip(own, new, strict=True):
        if old is not None and old != name:
            why = "more specific than" if name is None else "different from"
            raise RuntimeError(
                f"refine_names: cannot coerce Tensor{shown(own)} to Tensor{shown(new)} because "
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
    refuse_duplicates(order)
    for at, name in enumerate(own):
        if name is None and not glob:
            raise RuntimeError(
                f"align_to: All input dims must be named. Found unnamed dim at index {at} of "
                f"Tensor{shown(own)}"
            )
        if name is not None and name not in order and not glob:
            raise RuntimeError(
                f"align_to: Cannot find dim '{name}' of Tensor{shown(own)} in {shown(order)}"
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
    rest = {name: value for name, value in kwargs.items() if name != "names"}
    names, made = kwargs["names"], factory(*args, **rest)
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
