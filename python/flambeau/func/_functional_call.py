"""functional_call: a module as a function of its parameters and buffers."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
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


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer is kept: the dictionary of its module, and the key."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for key in table:
                found[f"{prefix}.{key}" if prefix else key] = (table, key)
    return found


def _with_tied(places: Any, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values, given as well to other names of the same tensor."""
    names_of: dict[int, list[str]] = {}
    for name, (table, key) in places.items():
        if table[key] is not None:
            names_of.setdefault(id(table[key]), []).append(name)
    result = dict(values)
    for names in names_of.values():
        given = {name: values[name] for name in names if name in values}
        if len(given) > 1 and len({id(value) for value in given.values()}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in names if given else ():
            result[name] = next(iter(given.values()))
    return result


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
            in one dictionary or several.
        args: the arguments of the call, in a tuple; one that is no tuple is the only argument.
        kwargs: keyword arguments.
        tie_weights: whether a tensor that the module has under several names is replaced under all.
        strict: whether all names must be given, and no other.
    """
    values = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    values = _with_tied(places, values) if tie_weights else values
    if strict:
        missing, unknown = sorted(set(places) - set(values)), sorted(set(values) - set(places))
        if missing or unknown:
            raise RuntimeError(
                f"functional_call: Missing key(s): {missing}. Unexpected key(s): {unknown}."
            )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    before = []
    try:
        for name, value in values.items():
            if name not in places:
                continue
            table, key = places[name]
            before.append((table, key, table[key]))
            table[key] = value
        return module(*arguments, **(kwargs or {}))
    finally:
        for table, key, value in reversed(before):
            table[key] = value


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
