"""Structures of pytrees as text, and containers that need no functions of their own: dataclasses
and constants.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from enum import Enum

from flambeau.utils._pytree_nodes import (
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    GetAttrKey,
    SerializedDef,
    is_namedtuple_class,
    register_pytree_node,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau.utils._pytree import TreeSpec

_PROTOCOL = 1
# Named tuples are one kind of container of many classes, each under a name of its own.
_NAMED_TUPLES: dict[str, type] = {}


def _qualified(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _found(path: str) -> Any:
    module, _, names = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def _plain(value: Any) -> Any:
    """What JSON has no words for: a member of an enumeration, by its name."""
    if isinstance(value, Enum):
        return {"__enum__": True, "fqn": _qualified(type(value)), "name": value.name}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _restored(value: dict[str, Any]) -> Any:
    return _found(value["fqn"])[value["name"]] if "__enum__" in value else value


def _dump_named_tuple(cls: Any) -> str:
    name = next((name for name, known in _NAMED_TUPLES.items() if known is cls), None)
    if name is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a "
            "serialized_type_name. Please register using `_register_namedtuple`."
        )
    return name


def _load_named_tuple(name: str) -> type:
    if name not in _NAMED_TUPLES:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a "
            "serialized name. Please register using `_register_namedtuple`."
        )
    return _NAMED_TUPLES[name]


def _dump_default(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _load_default(stored: dict[str, Any]) -> Any:
    path = f"{stored['default_factory_module']}:{stored['default_factory_name']}"
    return [_found(path), stored["dict_context"]]


def _register_builtin(cls: Any, dump: Any = None, load: Any = None) -> None:
    name = f"{cls.__module__}.{cls.__name__}"
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializedDef(name, dump, load)


for _kind in (tuple, list, dict, OrderedDict, deque):
    _register_builtin(_kind)
_register_builtin(namedtuple, _dump_named_tuple, _load_named_tuple)
_register_builtin(defaultdict, _dump_default, _load_default)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a class of named tuples the name that its structure is written under."""
    if not is_namedtuple_class(cls):
        raise TypeError(f"{cls} is not a namedtuple class")
    _NAMED_TUPLES[serialized_type_name] = cls


def _as_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, default=_plain)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register "
                "a custom serializer using _register_pytree_node."
            ) from error
    children = [_as_json(child) for child in spec.children_specs]
    return {"type": known.name, "context": context, "children_spec": children}


def _from_json(stored: dict[str, Any]) -> TreeSpec:
    from flambeau.utils._pytree import LeafSpec, TreeSpec

    name = stored["type"]
    if name is None:
        return LeafSpec()
    kind = next((k for k, v in SUPPORTED_SERIALIZED_TYPES.items() if v.name == name), None)
    if kind is None:
        raise NotImplementedError(
            f"Deserializing `{name}` in pytree is not registered. Please register it using "
            "`register_pytree_node` with a `serialized_type_name`."
        )
    load = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    context = stored["context"]
    context = load(context) if load else json.loads(context, object_hook=_restored)
    return TreeSpec(kind, context, [_from_json(child) for child in stored["children_spec"]])


def _checked_protocol(protocol: int) -> None:
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure of a pytree as text, which `treespec_loads` reads."""
    from flambeau.utils._pytree import TreeSpec

    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    protocol = _PROTOCOL if protocol is None else protocol
    _checked_protocol(protocol)
    return json.dumps((protocol, _as_json(treespec)), default=_plain)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that a text of `treespec_dumps` describes."""
    protocol, stored = json.loads(serialized)
    _checked_protocol(protocol)
    return _from_json(stored)


class _Dot:
    """A leaf as it is printed."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure of a pytree as the pytree is printed, with a star for each leaf."""
    return repr(treespec.unflatten([_Dot()] * treespec.num_leaves))


def _checked_fields(
    cls: Any, field_names: list[str] | None, drop_field_names: list[str] | None
) -> list[str]:
    dropped = set(drop_field_names or ())
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return field_names
    own = [field.name for field in dataclasses.fields(cls) if field.init]
    if field_names is None:
        return [name for name in own if name not in dropped]
    problems = ""
    missing, unknown = set(own) - set(field_names) - dropped, set(field_names) - set(own)
    if missing:
        problems += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in "
            "the pytree, please add them to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n"
        )
    if unknown:
        problems += (
            f"Unexpected fields in `field_names`: {unknown}. Please remove these fields, or add "
            "them to `drop_field_names`.\n"
        )
    if problems:
        raise ValueError(f"field_names does not include all dataclass fields.\n{problems}")
    return field_names


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes instances of a dataclass containers of their fields; those that are None stay away.

    Args:
        cls: the class, which is made by keyword arguments of its fields.
        field_names: the fields that hold children; all without it.
        drop_field_names: fields that are left out, and get their default when put together.
        serialized_type_name: the name that structures are written under.
    """
    names = _checked_fields(cls, field_names, drop_field_names)

    def flatten_with_keys(container: Any) -> tuple[list[Any], Any]:
        pairs = [(name, getattr(container, name)) for name in names]
        full = [(GetAttrKey(name), value) for name, value in pairs if value is not None]
        empty = [name for name, value in pairs if value is None]
        return full, [[key.name for key, _ in full], empty]

    def flatten(container: Any) -> tuple[list[Any], Any]:
        pairs, context = flatten_with_keys(container)
        return [value for _, value in pairs], context

    def unflatten(values: Any, context: Any) -> Any:
        full, empty = context
        return cls(**dict(zip(full, values)), **dict.fromkeys(empty))

    SUPPORTED_NODES.pop(cls, None)
    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant: the constant."""

    value: Any


def register_constant(cls: type) -> None:
    """Makes instances of a class part of the structure: containers without children, alike if they
    are equal.
    """
    for method in ("__eq__", "__hash__"):
        if getattr(cls, method) in (None, getattr(object, method)):
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{method}` "
                "implementation."
            )
    flatten: Callable[[Any], Any] = lambda value: ([], ConstantNode(value))  # noqa: E731
    register_pytree_node(
        cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten
    )
