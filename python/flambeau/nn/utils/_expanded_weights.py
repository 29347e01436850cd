"""Weights that collect a gradient for each sample of a batch, in `grad_sample` of the parameter.

A function of `nn.functional` that is given such a weight computes what it always does. Its backward
differentiates the function once more, of one sample at a time, which `vmap` does for all at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._operators._kinds import kind_named
from flambeau.autograd import Function

__all__ = ["ExpandedWeight"]

# What may be asked of a weight without computing.
_KNOWN = {"shape", "dtype", "device", "is_cuda", "data", "data_ptr", "get_device"}


class ExpandedWeight(Tensor):
    """A parameter in the place of itself, for the length of one forward pass.

    Args:
        orig_weight: the parameter, whose `grad_sample` backward fills.
        batch_size: how many samples a batch has.
        loss_reduction: "sum", or "mean" of the samples' losses, which is undone.
    """

    orig_weight: Tensor
    batch_size: int
    loss_reduction: str
    batch_first: bool  # samples lie along the first dimension, or along the second

    def __new__(cls, orig_weight: Any, batch_size: int, loss_reduction: str) -> ExpandedWeight:
        if not isinstance(orig_weight, Tensor):
            raise RuntimeError(
                f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}"
            )
        if not orig_weight.requires_grad:
            raise RuntimeError(
                "Can only build ExpandedWeights objects of tensors that requires_grad"
            )
        made: ExpandedWeight = Tensor._make_subclass(cls, orig_weight.detach())
        made.orig_weight = orig_weight
        made.batch_size = batch_size
        made.loss_reduction = loss_reduction
        made.batch_first = True
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if _is_by_sample(func, name):
            return _call_by_sample(func, name, args, kwargs or {})
        asked = getattr(getattr(func, "__self__", None), "__name__", name)
        if asked in _KNOWN:
            with flambeau._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise RuntimeError(f"Expanded Weights encountered but cannot handle function {name}")


def _is_by_sample(func: Any, name: str) -> bool:
    """Whether a function of a batch, its first argument, has weights for each sample alone: not a
    loss, which has a target, nor what gathers statistics in training, nor bags."""
    body = getattr(func, "__wrapped__", None)
    known = inspect.signature(body).parameters if body else kind_named(name).parameters
    return "weight" in known and not {"target", "training", "offsets"} & set(known)


def _check_batch(name: str, inputs: Any, weight: ExpandedWeight) -> None:
    if not isinstance(inputs, Tensor):
        raise RuntimeError(
            f"Expanded Weights requires a Tensor as first input to {name}, got "
            f"{type(inputs).__name__}"
        )
    if inputs.dim() < (1 if name == "embedding" else 2):
        raise RuntimeError(
            "Input does not have a batch dimension. Expanded Weights expected input of at least "
            f"rank 2, got of rank {inputs.dim()}"
        )
    size = inputs.shape[0 if weight.batch_first else 1]
    if size == 0:
        raise RuntimeError(
            f"0 is not a valid batch size for Expanded Weights but got input tensor of {inputs} in "
            f"function {name}"
        )
    if size != weight.batch_size:
        raise RuntimeError(
            "Expected ExpandedWeights to have batch size matching input but got input batch size "
            f"of {size} with ExpandedWeight of batch size {weight.batch_size}"
        )


def _call_by_sample(
    func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The function's result, with a history that ends in `grad_sample` of its weights."""
    keys = list(kwargs)
    values = [*args, *kwargs.values()]
    expanded = [i for i, value in enumerate(values) if isinstance(value, ExpandedWeight)]
    first = values[expanded[0]]
    # The first argument is the batch; bilinear has two.
    batched = [0, 1] if name == "bilinear" else [0]
    for at in batched:
        _check_batch(name, values[at], first)
    taken = [*batched, *expanded]

    def call(*tensors: Tensor) -> Any:
        filled = list(values)
        for at, tensor in zip(taken, tensors, strict=True):
            filled[at] = tensor
        return func(*filled[: len(args)], **dict(zip(keys, filled[len(args) :], strict=True)))

    weights = [values[at].orig_weight for at in expanded]
    dim = 0 if first.batch_first else 1
    scale = first.batch_size if first.loss_reduction == "mean" else 1
    inputs = [values[at] for at in batched]
    result: Tensor = _BySample.apply(call, dim, scale, len(inputs), *inputs, *weights)
    return result


class _BySample(Function):
    """A function of batches and weights: batches get their gradients, weights one a sample."""

    @staticmethod
    def forward(
        ctx: Any, call: Callable[..., Any], dim: int, scale: int, batches: int, *tensors: Tensor
    ) -> Any:
        ctx.call, ctx.dim, ctx.scale, ctx.batches = call, dim, scale, batches
        ctx.save_for_backward(*tensors)
        return call(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        inputs, weights = ctx.saved_tensors[: ctx.batches], ctx.saved_tensors[ctx.batches :]
        asked = [x.detach().requires_grad_(wants) for x, wants in _wanted(ctx, inputs)]
        wanting = [x for x in asked if x.requires_grad]
        grads: Any = ()
        if wanting:
            with flambeau.enable_grad():
                result = ctx.call(*asked, *(w.detach() for w in weights))
            grads = flambeau.autograd.grad(result, wanting, grad)
        found = iter(grads)
        _collect(ctx, inputs, weights, grad)
        of_inputs = [next(found) if x.requires_grad else None for x in asked]
        return None, None, None, None, *of_inputs, *(None for _ in weights)


def _wanted(ctx: Any, inputs: tuple[Tensor, ...]) -> list[tuple[Tensor, bool]]:
    return list(zip(inputs, ctx.needs_input_grad[4 : 4 + len(inputs)], strict=True))


def _collect(
    ctx: Any, inputs: tuple[Tensor, ...], weights: tuple[Tensor, ...], grad: Tensor
) -> None:
    """Adds each sample's gradient of the weights to their `grad_sample`."""
    dim = ctx.dim

    def of_sample(g: Tensor, *sample: Tensor) -> Any:
        one = [x.unsqueeze(dim) for x in sample]
        back = flambeau.func.vjp(lambda *w: ctx.call(*one, *w), *(w.detach() for w in weights))[1]
        return back(g.unsqueeze(dim))

    with flambeau.no_grad():
        per_sample = flambeau.func.vmap(of_sample, in_dims=dim)(grad, *inputs)
    for weight, found in zip(weights, per_sample, strict=True):
        scaled = found * ctx.scale
        before = getattr(weight, "grad_sample", None)
        setattr(weight, "grad_sample", scaled if before is None else before + scaled)  # noqa: B010
