"""Pytrees: flattening, mapping, paths and registration."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from enum import Enum

import pytest

import flambeau as torch
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")

TREE = {
    "b": [1, (2, None)],
    "a": Point(3, OrderedDict(z=4)),
    "d": deque([5], maxlen=3),
    "e": defaultdict(list, k=6),
}


def test_flatten_and_back() -> None:
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, None, 3, 4, 5, 6]
    again = pytree.tree_unflatten(leaves, spec)
    assert again == TREE and type(again["a"]) is Point and again["d"].maxlen == 3
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (7, 14, 4)
    assert spec == pytree.tree_structure(TREE) and hash(spec) == hash(pytree.tree_structure(TREE))


def test_spec_text() -> None:
    spec = pytree.tree_structure([1, (2,)])
    assert repr(spec) == "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*])])"
    assert pytree.tree_structure(3).is_leaf() and isinstance(
        pytree.tree_structure(3), pytree.LeafSpec
    )


def test_map() -> None:
    assert pytree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert pytree.tree_map(lambda a, b: (a, b), {"b": 1, "a": 2}, {"a": 3, "b": 4}) == {
        "b": (1, 4),
        "a": (2, 3),
    }
    assert pytree.tree_map_only(int, lambda v: -v, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert pytree.tree_map_only(lambda v: v == 2, lambda v: 0, [1, 2]) == [1, 0]


def test_mismatches() -> None:
    for other, message in (
        ([1], "arity mismatch; expected 2, but got 1"),
        ((1, 2), "type mismatch"),
    ):
        with pytest.raises(ValueError, match=message):
            pytree.tree_map(lambda a, b: a, [1, 2], other)
    with pytest.raises(ValueError, match="keys mismatch"):
        pytree.tree_map(lambda a, b: a, {"a": 1}, {"b": 1})
    with pytest.raises(
        ValueError, match="has length 1 but the spec refers to a pytree that holds 2"
    ):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_paths() -> None:
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(TREE)]
    assert paths[:4] == ["['b'][0]", "['b'][1][0]", "['b'][1][1]", "['a'].x"]
    path, leaf = pytree.tree_flatten_with_path(TREE)[0][4]
    assert leaf == 4 and pytree.key_get(TREE, path) == 4
    assert pytree.tree_map_with_path(lambda p, v: (pytree.keystr(p), v), [1]) == [("[0]", 1)]


def test_leaves_and_predicates() -> None:
    assert pytree.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]
    assert pytree.tree_all(lambda v: v > 0, [1, 2]) and pytree.tree_any(lambda v: v > 1, [1, 2])
    assert pytree.tree_leaves([1, [2]], is_leaf=lambda v: v == [2]) == [1, [2]]
    assert pytree.tree_is_leaf(None) and not pytree.tree_is_leaf([])


def test_broadcast() -> None:
    spec = pytree.tree_structure([[1, 1], 1])
    assert pytree._broadcast_to_and_flatten([5, 6], spec) == [5, 5, 6]
    assert pytree._broadcast_to_and_flatten([5], spec) is None


def test_named_results_of_ops_are_containers() -> None:
    result = torch.max(torch.tensor([[1, 3], [2, 0]]), 1)
    doubled = pytree.tree_map(lambda t: t * 2, result)
    assert type(doubled) is type(result) and doubled.values.tolist() == [6, 4]


def test_registration() -> None:
    class Pair:
        def __init__(self, one, two) -> None:
            self.one, self.two = one, two

    pytree.register_pytree_node(Pair, lambda p: ([p.one, p.two], None), lambda c, _: Pair(*c))
    try:
        mapped = pytree.tree_map(lambda v: v + 1, Pair(1, [2]))
        assert (mapped.one, mapped.two) == (2, [3])
        with pytest.raises(ValueError, match="already registered"):
            pytree.register_pytree_node(Pair, lambda p: ([], None), lambda c, _: None)
        with pytest.raises(ValueError, match="flatten_with_keys_fn"):
            pytree.tree_leaves_with_path(Pair(1, 2))
    finally:
        pytree._deregister_pytree_node(Pair)


def test_a_leaf_may_be_of_any_class() -> None:
    class Odd:
        __module__ = property(lambda self: "nowhere")  # type: ignore[assignment]

    leaf = Odd()
    assert pytree.tree_leaves([leaf, 1]) == [leaf, 1]


class Colour(Enum):
    RED = 1


Named = namedtuple("Named", ["one", "two"])


@pytest.mark.parametrize(
    "tree",
    [
        3,
        [1, (2, {"a": 3}), OrderedDict(b=4)],
        defaultdict(list, {"q": 1}),
        deque([1], maxlen=3),
        {Colour.RED: 1, "b": [2]},
        Named(1, 2),
    ],
)
def test_a_structure_survives_as_text(tree: object) -> None:
    pytree._register_namedtuple(Named, serialized_type_name="tests.Named")
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_structures_that_have_no_text_say_so() -> None:
    Other = namedtuple("Other", ["a"])
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Other(1)))
    with pytest.raises(ValueError, match="Unknown protocol 9"):
        pytree.treespec_dumps(pytree.tree_structure([1]), 9)
    with pytest.raises(TypeError, match="PyTreeSpec"):
        pytree.treespec_dumps("text")  # type: ignore[arg-type]
    assert pytree.treespec_pprint(pytree.tree_structure([1, {"a": 2}])) == "[*, {'a': *}]"


def test_dataclasses_are_containers_and_constants_belong_to_the_structure() -> None:
    @dataclass
    class Batch:
        data: list[int]
        label: int | None = None
        note: str = "x"

    @dataclass(frozen=True)
    class Mode:
        name: str

    pytree.register_dataclass(Batch, drop_field_names=["note"])
    pytree.register_constant(Mode)
    try:
        leaves, spec = pytree.tree_flatten([Batch([1, 2], note="y"), Mode("a")])
        assert leaves == [1, 2]
        assert pytree.tree_unflatten([3, 4], spec) == [Batch([3, 4]), Mode("a")]
        assert pytree.tree_structure(Mode("a")) == pytree.tree_structure(Mode("a"))
        assert pytree.tree_structure(Mode("a")) != pytree.tree_structure(Mode("b"))
        with pytest.raises(ValueError, match="Missing fields in `field_names`"):
            pytree.register_dataclass(Batch, field_names=["data", "label"])
        with pytest.raises(TypeError, match="non-default `__eq__`"):
            pytree.register_constant(type("Plain", (), {}))
    finally:
        pytree._deregister_pytree_node(Batch)
        pytree._deregister_pytree_node(Mode)
