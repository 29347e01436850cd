"""functional_call: a module as a function of its parameters and buffers."""

from __future__ import annotations

import contextlib

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from flambeau.nn import Module

__all__ = ["functional_call", "stack_module_state"]


def _merged(dictionaries: Any) -> dict[str, Tensor]:
    """One dictionary from one or several, which may not name anything twice."""
    if isinstance(dictionaries, dict):
        return dictionaries
    if not isinstance(dictionaries, (list, tuple)):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dictionaries)}"
        )
    if not all(isinstance(one, dict) for one in dictionaries):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for one in dictionaries for name in one]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(
            f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return {name: value for one in dictionaries for name, value in one.items()}


_ABSENT = object()


def _own_tensors(module: Module) -> dict[str, Tensor]:
    """The parameters and buffers under all their names."""
    found: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _with_tied(own: dict[str, Tensor], values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values, given as well to other names of the same tensor."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    result = dict(values)
    for names in names_of.values():
        given = {name: values[name] for name in names if name in values}
        if len({id(value) for value in given.values()}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in names if given else ():
            result[name] = next(iter(given.values()))
    return result


def _check_names(module: Module, own: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """What ``strict`` asks: every name of the module, and no other."""
    complaints = [
        f"\n\t{what} key(s): {', '.join(repr(name) for name in sorted(names))}."
        for what, names in (("Unexpected", values.keys() - own), ("Missing", own.keys() - values))
        if names
    ]
    if complaints:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:{''.join(complaints)}"
        )


class _Place:
    """Where a module keeps a tensor: a table of its parameters or buffers, or an attribute."""

    def __init__(self, module: Module, name: str) -> None:
        from flambeau.nn import Module

        path, _, self.key = name.rpartition(".")
        if not self.key:
            raise KeyError('tensor name can\'t be empty string ""')
        owner: Any = module
        for part in path.split(".") if path else ():
            if not hasattr(owner, part):
                raise AttributeError(f"{owner._get_name()} has no attribute `{part}`")
            owner = getattr(owner, part)
            if not isinstance(owner, Module):
                raise TypeError(
                    f"submodule `{part}`: {owner} is not an instance of torch.nn.Module"
                )
        tables = (owner._parameters, owner._buffers)
        self.owner = owner
        self.table = next((table for table in tables if self.key in table), None)
        self.before = self.read()
        if not (self.before is None or self.before is _ABSENT or isinstance(self.before, Tensor)):
            raise TypeError(
                f"attribute `{self.key}`: {self.before} is not an instance of torch.Tensor"
            )

    def read(self) -> Any:
        """What stands there now."""
        if self.table is None:
            return getattr(self.owner, self.key, _ABSENT)
        return self.table.get(self.key, _ABSENT)

    def write(self, value: Any) -> None:
        """Puts a tensor there; a table takes one of any class, a parameter or not."""
        if self.table is not None:
            self.table[self.key] = value
        elif value is not _ABSENT:
            setattr(self.owner, self.key, value)
        elif hasattr(self.owner, self.key):
            delattr(self.owner, self.key)


@contextlib.contextmanager
def reparametrized(
    module: Module,
    given: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Gives a module other parameters and buffers for as long as the context lasts.

    ``stack_weights`` asks that the module be restored in the opposite order, which it always is.
    """
    own = _own_tensors(module) if tie_weights or strict else {}
    values = _with_tied(own, given) if tie_weights else given
    if strict:
        _check_names(module, own, values)
    positions: dict[str, _Place] = {}
    try:
        for name, value in values.items():
            if not (value is None or isinstance(value, Tensor)):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            place = _Place(module, name)
            place.write(value)
            positions[name] = place
        yield
    finally:
        for name, place in reversed(positions.items()):
            now = place.read()
            if name in given and now is not _ABSENT:
                given[name] = now  # what forward assigned belongs to the caller's dictionary
            place.write(place.before)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other parameters and buffers than its own.

    Args:
        module: the module, which is as before when the call is over.
        parameter_and_buffer_dicts: tensors by the names of `named_parameters` and `named_buffers`,
            in one dictionary or several; plain attributes that hold tensors can be named as well.
            What forward assigns to such a name is put into the dictionary, if it is one.
        args: the arguments of the call, in a tuple; one that is no tuple is the only argument.
        kwargs: keyword arguments.
        tie_weights: whether a tensor that the module has under several names is replaced under all.
        strict: whether all names must be given, and no other.
    """
    given = _merged(parameter_and_buffer_dicts)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights=tie_weights, strict=strict):
        return module(*arguments, **(kwargs or {}))


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and the buffers, of several models of one class stacked by name."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(name: str, tensors: tuple[Tensor, ...]) -> Tensor:
        wants = tensors[0].requires_grad
        if any(tensor.requires_grad != wants for tensor in tensors):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        return flambeau.stack([t.detach() for t in tensors]).requires_grad_(wants)

    tables = []
    for listing in ("named_parameters", "named_buffers"):
        states = [dict(getattr(m, listing)()) for m in models]
        tables.append({name: stacked(name, tuple(s[name] for s in states)) for name in states[0]})
    return tables[0], tables[1]
