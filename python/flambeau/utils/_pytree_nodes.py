"""What a pytree is made of: the kinds of containers, and the keys by which they name their
children.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


# Keys: how a container names its children ---------------------------------------------------------
class SequenceKey(namedtuple("SequenceKey", ["idx"])):
    """The place of a child in a sequence."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


class MappingKey(namedtuple("MappingKey", ["key"])):
    """The key of a child in a mapping."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


class GetAttrKey(namedtuple("GetAttrKey", ["name"])):
    """The attribute that holds a child."""

    __slots__ = ()

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


def keystr(kp: tuple[Any, ...]) -> str:
    """The text of a path of keys, as Python would write the access."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """What stands at a path of keys in `obj`."""
    for key in kp:
        obj = key.get(obj)
    return obj


# Kinds of containers ------------------------------------------------------------------------------
def is_namedtuple_class(cls: Any) -> bool:
    """Whether `cls` is a class made by collections.namedtuple or typing.NamedTuple."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether `obj` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether `obj` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_CAN_BE_DERIVED_FROM = 1 << 10


def is_structseq_class(cls: Any) -> bool:
    """Whether `cls` is a class of named results, made in C."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and isinstance(getattr(cls, "n_fields", None), int)
        and isinstance(getattr(cls, "n_sequence_fields", None), int)
        # Of classes made in C these cannot be derived from; one that only looks alike can.
        and not cls.__flags__ & _CAN_BE_DERIVED_FROM
    )


def is_structseq_instance(obj: Any) -> bool:
    """Whether `obj` is a named result."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether `obj` is a named result or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


class NodeDef(
    namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])
):
    """How one kind of container is taken apart and put together."""

    __slots__ = ()


class SerializedDef(
    namedtuple("SerializedDef", ["name", "to_dumpable_context", "from_dumpable_context"])
):
    """What one kind of container is called in text, and how its context is written there."""

    __slots__ = ()


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, SerializedDef] = {}


def _with_sequence_keys(flatten: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def flatten_with_keys(container: Any) -> Any:
        children, context = flatten(container)
        return [(SequenceKey(index), child) for index, child in enumerate(children)], context

    return flatten_with_keys


def _with_mapping_keys(flatten: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def flatten_with_keys(container: Any) -> Any:
        children, context = flatten(container)
        return [(MappingKey(key), child) for key, child in zip(container, children)], context

    return flatten_with_keys


def _tuple_flatten(container: Any) -> tuple[list[Any], Any]:
    return list(container), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return tuple(values)


_list_flatten = _tuple_flatten


def _list_unflatten(values: Iterable[Any], context: Any) -> Any:
    return list(values)


def _dict_flatten(container: Any) -> tuple[list[Any], Any]:
    return list(container.values()), list(container)


def _dict_unflatten(values: Iterable[Any], context: Any) -> Any:
    return dict(zip(context, values))


_ordereddict_flatten = _dict_flatten


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> Any:
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(container: Any) -> tuple[list[Any], Any]:
    return list(container.values()), [container.default_factory, list(container)]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> Any:
    factory, keys = context
    return defaultdict(factory, zip(keys, values))


def _deque_flatten(container: Any) -> tuple[list[Any], Any]:
    return list(container), container.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> Any:
    return deque(values, maxlen=context)


def _namedtuple_flatten(container: Any) -> tuple[list[Any], Any]:
    return list(container), type(container)


def _namedtuple_flatten_with_keys(container: Any) -> Any:
    fields = type(container)._fields
    return [(GetAttrKey(name), child) for name, child in zip(fields, container)], type(container)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


def _structseq_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(tuple(values))


_dict_flatten_with_keys = _with_mapping_keys(_dict_flatten)
_list_flatten_with_keys = _tuple_flatten_with_keys = _with_sequence_keys(_tuple_flatten)


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Makes instances of `cls` containers.

    Args:
        cls: the class; its subclasses stay leaves.
        flatten_fn: gives the list of children of an instance, and a context: whatever else it
            holds.
        unflatten_fn: makes an instance from children and context.
        flatten_with_keys_fn: as flatten_fn, with (key, child) pairs, for paths.
        serialized_type_name: the name of the class where `treespec_dumps` writes its structure.
        to_dumpable_context, from_dumpable_context: make JSON of a context, and a context of that;
            without them the context is written as it is.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    if serialized_type_name is not None:
        SUPPORTED_SERIALIZED_TYPES[cls] = SerializedDef(
            serialized_type_name, to_dumpable_context, from_dumpable_context
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(cls: type, *args: Any, **kwargs: Any) -> None:
    """register_pytree_node under its older name, which may be called again for a class."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
        _deregister_pytree_node(cls)
    register_pytree_node(cls, *args, **kwargs)


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]
    SUPPORTED_SERIALIZED_TYPES.pop(cls, None)


register_pytree_node(
    tuple, _tuple_flatten, _tuple_unflatten, flatten_with_keys_fn=_tuple_flatten_with_keys
)
register_pytree_node(
    list, _list_flatten, _list_unflatten, flatten_with_keys_fn=_list_flatten_with_keys
)
register_pytree_node(
    dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys
)
register_pytree_node(
    namedtuple,  # type: ignore[arg-type]  # stands for all named tuples
    _namedtuple_flatten,
    _namedtuple_unflatten,
    flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)
register_pytree_node(
    OrderedDict,
    _ordereddict_flatten,
    _ordereddict_unflatten,
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    _defaultdict_unflatten,
    flatten_with_keys_fn=_with_mapping_keys(_defaultdict_flatten),
)
register_pytree_node(
    deque,
    _deque_flatten,
    _deque_unflatten,
    flatten_with_keys_fn=_with_sequence_keys(_deque_flatten),
)


def _get_node_type(tree: Any) -> Any:
    """The key of `tree` in SUPPORTED_NODES, if it has one."""
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    if is_namedtuple_class(kind):
        return namedtuple
    if is_structseq_class(kind) and kind.__module__.endswith("return_types"):
        # Named results of ops are too many to register before one is met.
        register_pytree_node(
            kind,
            _namedtuple_flatten,
            _structseq_unflatten,
            flatten_with_keys_fn=_with_sequence_keys(_namedtuple_flatten),
        )
    return kind
