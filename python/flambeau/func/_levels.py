"""What gradient transforms share: inputs that a transform differentiates by, and results cut off
from them.

A transform gives the function inputs of its own. Where an input belongs to a graph already, of an
outer transform or of the program, its own one is a view of it, so that the outer derivative sees
through; otherwise it is a leaf. A result that depends on nothing but such leaves leaves the
transform without a graph.
"""

from __future__ import annotations

import flambeau
from flambeau import _C, Tensor
from flambeau.autograd.graph import lead_elsewhere
from flambeau.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def own_input(tensor: Tensor, leaves: list[Tensor]) -> Tensor:
    """An input of this transform with the values of a tensor. Inside vmap each sample has a
    derivative of its own, also by what all share.
    """
    whole = _C._whole_batch(tensor)
    if whole.is_inference() and not flambeau.is_inference_mode_enabled():
        whole = whole.detach().clone()  # views of it take no part in graphs
    if whole.requires_grad:
        return _C._as_samples(whole.view_as(whole))
    leaf = whole.detach().requires_grad_()
    leaves.append(leaf)
    return _C._as_samples(leaf)


def own_inputs(tree: Any, leaves: list[Tensor]) -> Any:
    """A copy of the tree with inputs of this transform for its tensors; new leaves are added to
    `leaves`.
    """

    def own(tensor: Tensor) -> Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return own_input(tensor, leaves)

    return tree_map_only(Tensor, own, tree)


def _depends_on_others(tensor: Tensor, leaves: Iterable[Tensor]) -> bool:
    """Whether the graph of a tensor ends in any leaf besides `leaves`."""
    tensor = _C._whole_batch(tensor)
    if tensor.grad_fn is None:
        return tensor.requires_grad and all(tensor is not leaf for leaf in leaves)
    return lead_elsewhere([tensor.grad_fn], leaves)


def released(tree: Any, leaves: list[Tensor], tracked: bool) -> Any:
    """Results without the graph of this transform; without any where the caller has turned
    recording off, and so does not want them `tracked`.
    """

    def release(tensor: Tensor) -> Tensor:
        if tensor.requires_grad and not (tracked and _depends_on_others(tensor, leaves)):
            return tensor.detach()
        return tensor

    return tree_map_only(Tensor, release, tree)


def gradients(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: Any, create_graph: bool = True
) -> list[Tensor]:
    """The derivatives of outputs by inputs; zero for an input that no output depends on."""
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
    if not pairs or not inputs:
        return [flambeau.zeros_like(tensor) for tensor in inputs]
    found = flambeau.autograd.grad(
        [output for output, _ in pairs],
        inputs,
        [cotangent for _, cotangent in pairs],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )
    return [
        flambeau.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(inputs, found)
    ]


def gradients_of_rows(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: list[Tensor], chunk: int | None
) -> list[Tensor]:
    """The same for every row of the cotangents, so many at a time; the results are stacked."""
    count = cotangents[0].shape[0] if cotangents else 0
    involved = (*outputs, *inputs, *cotangents)
    if chunk == 1 or any(map(_C.is_batchedtensor, involved)):
        rows = [gradients(outputs, inputs, [c[i] for c in cotangents]) for i in range(count)]
        return [flambeau.stack(column) for column in zip(*rows)]
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
    parts = []
    for part in range(0, count if pairs else 0, chunk or max(count, 1)):
        end = min(part + (chunk or count), count)
        found = flambeau.autograd.grad(
            [output for output, _ in pairs],
            inputs,
            [cotangent[part:end] for _, cotangent in pairs],
            create_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
        parts.append(
            [
                tensor.new_zeros((end - part, *tensor.shape)) if one is None else one
                for tensor, one in zip(inputs, found)
            ]
        )
    if not parts:
        return [tensor.new_zeros((count, *tensor.shape)) for tensor in inputs]
    return [columns[0] if len(columns) == 1 else flambeau.cat(columns) for columns in zip(*parts)]


def flat_tensors(tree: Any, what: str) -> tuple[list[Tensor], Any]:
    """The leaves of a tree, all of which must be tensors."""
    flat, spec = tree_flatten(tree)
    for item in flat:
        if not isinstance(item, Tensor):
            raise RuntimeError(f"{what}, got {type(item)}")
    return flat, spec


def unflatten(flat: Iterable[Any], spec: Any) -> Any:
    """The tree of a specification with these leaves."""
    return tree_unflatten(list(flat), spec)


def selected(args: tuple[Any, ...], argnums: Any) -> Any:
    """The arguments with these numbers: one, or a tuple of them."""
    if isinstance(argnums, bool) or not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    if len({number % len(args) for number in numbers}) < len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    chosen = tuple(args[number] for number in numbers)
    return chosen[0] if isinstance(argnums, int) else chosen


def replaced(args: tuple[Any, ...], argnums: Any, values: Any) -> list[Any]:
    """The arguments with others in the place of those with these numbers."""
    new = list(args)
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    for number, value in zip(numbers, (values,) if isinstance(argnums, int) else values):
        new[number] = value
    return new
