"""Nested containers as a list of leaves, by the specs of `utils._pytree`."""

from __future__ import annotations

from flambeau.utils._pytree import LeafSpec, TreeSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LeafSpec", "TreeSpec", "register_pytree_flatten_spec", "tree_flatten_spec"]

_flattening: dict[type, Any] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[[Any, TreeSpec], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Says how an instance of a class is taken apart after a spec that is known."""
    _flattening[cls] = flatten_fn_spec


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a container that is built as the spec says."""
    if isinstance(spec, LeafSpec):
        return [pytree]
    flatten = _flattening.get(spec.type) if spec.type is not None else None
    if flatten is None:
        return spec.flatten_up_to(pytree)
    children = flatten(pytree, spec)
    pairs = zip(children, spec.children(), strict=True)
    return [leaf for child, its in pairs for leaf in tree_flatten_spec(child, its)]
