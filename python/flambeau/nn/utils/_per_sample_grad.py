"""Gradients of each sample of a batch: `call_for_per_sample_grads`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.func import functional_call
from flambeau.nn import Module
from flambeau.nn.utils._expanded_weights import ExpandedWeight
from flambeau.utils import _pytree as pytree

__all__ = ["call_for_per_sample_grads"]


def _batch_size(values: Any, batch_first: bool) -> int:
    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    sizes = [leaf.shape[0 if batch_first else 1] for leaf in tensors]
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able "
            "and so ExpandedWeights cannot compute the batch size from the inputs. Please specify "
            "it explicitly"
        )
    for size in sizes:
        if size != sizes[0]:
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {sizes[0]} "
                f"and one with batch size {size}. Please specify it explicitly using the batch "
                "size kwarg in call_for_per_sample_grads"
            )
    return sizes[0]


def call_for_per_sample_grads(
    module: Any,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """A function that calls a module so that backward leaves in `grad_sample` of its parameters
    what each sample of the batch contributes to their gradient; `grad` stays as it was.

    Args:
        module: the module; its parameters may be used by linear, bilinear, convolutions,
            embeddings, prelu, and layer, group, instance and RMS normalization.
        batch_size: the number of samples, by default what all tensors that are passed have.
        loss_reduction: "sum" or "mean", how the loss puts samples together.
        batch_first: whether samples lie along the first dimension, or along the second.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for "
                f"multiple calls without clearing gradients. Please clear out the grad_sample "
                f"parameter of {weight}"
            )

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        size = batch_size or _batch_size((args, kwargs), batch_first)
        weights: dict[str, Tensor] = dict(module.named_parameters())
        for name, weight in list(weights.items()):
            if weight.requires_grad:
                expanded = ExpandedWeight(weight, size, loss_reduction)
                expanded.batch_first = batch_first
                weights[name] = expanded
        return functional_call(module, weights, args, kwargs)

    return call
