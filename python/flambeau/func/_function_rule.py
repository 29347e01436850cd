"""Custom functions inside vmap: the rule that a Function has for batches is called with whole
tensors; one without a rule is run sample by sample.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from flambeau.autograd._batch_state import batch_state, refuse_in_batch
from flambeau.autograd.function import Function
from flambeau.func._batched import Batched, physical, wrap
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def apply_to_batch(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Calls the `vmap` of a Function, and gives its results as those of a sample."""
    is_batch = [isinstance(leaf, Batched) for leaf in tree_flatten(args)[0]]
    if function.vmap is Function.vmap or not any(is_batch):
        refuse_in_batch("a custom function")
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True "
            "and an overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overriden vmap staticmethod to avoid ambiguity."
        )
    info = VmapInfo(batch_state.size, batch_state.randomness)
    in_dims = tree_map(lambda leaf: 0 if isinstance(leaf, Batched) else None, args)
    size, batch_state.size = batch_state.size, None  # the rule computes with whole tensors
    try:
        returned = function.vmap(info, in_dims, *tree_map(physical, args))
    finally:
        batch_state.size = size
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {function.__name__} to have two returns, an output "
            f"and out_dims with pytree structure compatible with the output, got {returned}"
        )
    output, out_dims = returned
    flat, spec = tree_flatten(output)
    return tree_unflatten(
        [
            leaf if dim is None else wrap(leaf.movedim(dim, 0))
            for leaf, dim in zip(flat, _dims_of(out_dims, spec, function))
        ],
        spec,
    )


def _dims_of(out_dims: Any, spec: Any, function: type[Function]) -> list[int | None]:
    """Where each leaf of the output counts samples; one number stands for all."""
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * spec.num_leaves
    flat, own_spec = tree_flatten(out_dims, is_leaf=lambda value: value is None)
    if own_spec != spec:
        raise RuntimeError(
            f"The autograd.Function's vmap staticmethod of {function.__name__} returned an "
            f"incompatible (output, out_dims) tuple: expected out_dims {own_spec} to be a number "
            f"or to have the structure of the output, {spec}."
        )
    return flat
