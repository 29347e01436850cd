"""Pytrees: nested containers seen as a list of leaves and a TreeSpec, the structure that holds
them.

Containers are tuples, lists, dicts, named tuples, OrderedDict, defaultdict, deque, the named
results of ops, and every class given to `register_pytree_node`. Anything else, None included, is a
leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    PyTree = Any
    IsLeaf = Callable[[Any], bool] | None

PyTree = Context = object

__all__ = [
    "Context",
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]


# Keys: how a container names its children
# ------------------------------------------------------------------


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


# Kinds of containers
# ---------------------------------------------------------------------------------------


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


def is_structseq_class(cls: Any) -> bool:
    """Whether `cls` is a class of named results, made in C."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and isinstance(getattr(cls, "n_fields", None), int)
        and isinstance(getattr(cls, "n_sequence_fields", None), int)
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


SUPPORTED_NODES: dict[Any, NodeDef] = {}


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
        serialized_type_name, to_dumpable_context, from_dumpable_context: for writing TreeSpecs to
            files; accepted and not used.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]


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
    if kind.__module__.endswith("return_types") and is_structseq_class(kind):
        # Named results of ops are too many to register before one is met.
        register_pytree_node(
            kind,
            _namedtuple_flatten,
            _structseq_unflatten,
            flatten_with_keys_fn=_with_sequence_keys(_namedtuple_flatten),
        )
    return kind


# TreeSpec
# --------------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a pytree: the type and context of its container, and its children's
    structures.

    A leaf has no type (None) and no children.
    """

    __slots__ = ("_children", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self._children = list(children_specs)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves = (
            sum(child.num_leaves for child in self._children) if type is not None else 1
        )

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self.context
        if self.type is dict or self.type is OrderedDict:
            context = tuple(context)
        elif self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        separator = ",\n" + " " * (indent + 2)
        children = separator.join(child.__repr__(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The pytree of this structure with the given leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` that stand where this structure has leaves."""
        parts: list[Any] = []
        self._collect(tree, parts)
        return parts

    def _collect(self, tree: Any, parts: list[Any]) -> None:
        if self.type is None:
            parts.append(tree)
            return
        kind = _get_node_type(tree)
        if kind != self.type and not (_is_dict(kind) and _is_dict(self.type)):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if _is_dict(self.type):
            children = self._in_my_order(tree)
        elif context != self.context and self.type is not deque:
            raise ValueError(
                f"Node context mismatch for {self.type!r}: {self.context!r} and {context!r}."
            )
        for spec, child in zip(self._children, children):
            spec._collect(child, parts)

    def _in_my_order(self, mapping: Any) -> list[Any]:
        keys = self.context[1] if self.type is defaultdict else self.context
        missing, extra = set(keys) - set(mapping), set(mapping) - set(keys)
        if missing or extra:
            text = f"; missing key(s): {missing}" if missing else ""
            text += f"; extra key(s): {extra}" if extra else ""
            raise ValueError(f"Node keys mismatch{text}.")
        return [mapping[key] for key in keys]


def _is_dict(kind: Any) -> bool:
    return kind is dict or kind is OrderedDict or kind is defaultdict


class _LeafSpecType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TreeSpec) and instance.type is None


class LeafSpec(TreeSpec, metaclass=_LeafSpecType):
    """The structure of a leaf."""

    __slots__ = ()

    def __new__(cls) -> Any:
        return _LEAF

    def __init__(self) -> None:
        pass


_LEAF = TreeSpec(None, None, [])


# Functions on trees
# ----------------------------------------------------------------------------------------


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `tree` is a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    definition = SUPPORTED_NODES.get(kind)
    if definition is None:
        leaves.append(tree)
        return _LEAF
    children, context = definition.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of `tree`, and its structure; `is_leaf` may declare containers to be leaves."""
    leaves: list[Any] = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of structure `treespec` with the given leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Goes through the leaves of `tree`."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree`."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of `tree`."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves(args) + tree_leaves(kwargs)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `func(leaf, *parts of the other trees at the same place)`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, leaves, *others))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls `func` as tree_map does, and returns `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    for arguments in zip(leaves, *others):
        func(*arguments)
    return tree


def _selector(type_or_types_or_pred: Any) -> Callable[[Any], bool]:
    if isinstance(type_or_types_or_pred, (type, tuple)) or hasattr(
        type_or_types_or_pred, "__args__"
    ):
        return lambda value: isinstance(value, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any) -> Callable[[Any], Any]:
    """Decorates a function so that it leaves values of other types as they are."""
    selected = _selector(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: func(value) if selected(value) else value

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """tree_map for the leaves of the given types (or chosen by a predicate); others stay as they
    are.
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """Calls `func` as tree_map_only does, and returns `tree` itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether `pred` holds for all leaves of the given types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether `pred` holds for any leaf of the given types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _paths(
    path: tuple[Any, ...], tree: Any, is_leaf: IsLeaf
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    definition = SUPPORTED_NODES[_get_node_type(tree)]
    if definition.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {definition.type}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        yield from _paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves of `tree`, each with its path of keys."""
    return list(_paths((), tree, is_leaf))


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves of `tree`, each with its path of keys, and its structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """tree_map with the path of keys as the first argument of `func`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(func(*pair, *extra) for pair, *extra in zip(pairs, *others))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """The leaves of `tree` repeated to fill `treespec`, or None if the two do not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result: list[Any] = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result
