"""Custom functions inside vmap: the rule that a Function has for batches is called with all
samples; one that asks for it (`generate_vmap_rule`) gets a rule made of its own methods.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from flambeau import _C, Tensor
from flambeau.autograd.function import Function
from flambeau.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def level_of(args: Any) -> int:
    """The innermost level that any argument is a sample of; 0 if none is."""
    return max([_C.maybe_get_level(leaf) for leaf in tree_leaves(args)], default=0)


def apply_to_batch(function: type[Function], args: tuple[Any, ...], level: int) -> Any:
    """The results of a Function for one level of samples."""
    has_rule, name = function.vmap is not Function.vmap, function.__name__
    if not function._has_setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod. For more details, "
            "please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if function.generate_vmap_rule and has_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an "
            "overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overriden vmap staticmethod to avoid ambiguity."
        )
    if not function.generate_vmap_rule and not has_rule:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override "
            "and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    before = _C._vmap_set_level(_C._vmap_outer_level(level))
    try:
        rule = _call_rule if has_rule else _call_generated
        return rule(function, args, level)
    finally:
        _C._vmap_set_level(before)


def _is_sample(leaf: Any, level: int) -> bool:
    return isinstance(leaf, Tensor) and _C.maybe_get_level(leaf) == level


def _behind(leaf: Any, level: int) -> Any:
    return _C.get_unwrapped(leaf) if _is_sample(leaf, level) else leaf


def _call_rule(function: type[Function], args: tuple[Any, ...], level: int) -> Any:
    """By the `vmap` of the Function, which gives outputs and where these count samples."""
    info = VmapInfo(*_C._vmap_describe_level(level))
    in_dims = tree_map(lambda leaf: 0 if _is_sample(leaf, level) else None, args)
    returned = function.vmap(info, in_dims, *tree_map(lambda leaf: _behind(leaf, level), args))
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {function.__name__} to have two returns, an output "
            f"and out_dims with pytree structure compatible with the output, got {returned}"
        )
    output, out_dims = returned
    flat, spec = tree_flatten(output)
    return tree_unflatten(
        [
            leaf if dim is None else _C._add_batch_dim(leaf, dim, level)
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


class _Context:
    """What the methods of the Function see of the context: tensors that it saved are samples."""

    def __init__(self, context: Any) -> None:
        object.__setattr__(self, "_context", context)

    def __getattr__(self, name: str) -> Any:
        if name == "saved_tensors":
            context = self._context
            return tuple(
                _C._add_batch_dim(tensor, 0, context.batch_level) if is_sample else tensor
                for tensor, is_sample in zip(context.saved_tensors, context.saved_samples)
            )
        return getattr(self._context, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._context, name, value)

    def save_for_backward(self, *tensors: Any) -> None:
        context = self._context
        context.saved_samples = [_is_sample(tensor, context.batch_level) for tensor in tensors]
        context.save_for_backward(*[_behind(tensor, context.batch_level) for tensor in tensors])

    def mark_dirty(self, *tensors: Any) -> None:
        self._context.mark_dirty(
            *[_behind(tensor, self._context.batch_level) for tensor in tensors]
        )

    def mark_non_differentiable(self, *tensors: Any) -> None:
        context = self._context
        context.mark_non_differentiable(*[context.outputs[id(tensor)] for tensor in tensors])


def _call_generated(function: type[Function], args: tuple[Any, ...], level: int) -> Any:
    """All samples as one Function, whose methods are those of the given one on samples."""
    size, randomness = _C._vmap_describe_level(level)
    is_sample = [_is_sample(arg, level) for arg in args]

    def samples(values: Any, which: list[bool], inner: int) -> list[Any]:
        return [_C._add_batch_dim(v, 0, inner) if s else v for v, s in zip(values, which)]

    class Generated(Function):
        @staticmethod
        def forward(ctx: Any, *whole: Any) -> Any:
            inner = ctx.batch_level = _C._vmap_increment_nesting(size, randomness)
            try:
                inputs = tuple(samples(whole, is_sample, inner))
                output = function.forward(*inputs)
                single = not isinstance(output, tuple)
                outputs = (output,) if single else output
                rows = tuple(
                    _C._remove_batch_dim(one, inner, size, 0) if isinstance(one, Tensor) else one
                    for one in outputs
                )
                ctx.outputs = {id(one): row for one, row in zip(outputs, rows)}
                # What setup_context saves of the outputs is what is returned.
                shown = tuple(
                    _C._add_batch_dim(row, 0, inner) if isinstance(row, Tensor) else row
                    for row in rows
                )
                ctx.outputs.update({id(one): row for one, row in zip(shown, rows)})
                function.setup_context(_Context(ctx), inputs, shown[0] if single else shown)
                ctx.outputs = None
            finally:
                _C._vmap_decrement_nesting()
            return rows[0] if single else rows

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            inner = ctx.batch_level = _C._vmap_increment_nesting(size, randomness)
            try:
                given = samples(grads, [grad is not None for grad in grads], inner)
                found = function.backward(_Context(ctx), *given)
                found = found if isinstance(found, tuple) else (found,)
                rows = [
                    None if one is None else _C._remove_batch_dim(one, inner, size, 0)
                    for one in found
                ]
            finally:
                _C._vmap_decrement_nesting()
            # What all samples share has the sum of their gradients.
            return tuple(
                row if row is None or own else row.sum(0) for row, own in zip(rows, is_sample)
            )

    Generated.__name__ = Generated.__qualname__ = f"Vmapped{function.__name__}"
    output = Generated.apply(*[_behind(arg, level) for arg in args])
    single = not isinstance(output, tuple)
    found = [
        _C._add_batch_dim(one, 0, level) if isinstance(one, Tensor) else one
        for one in ((output,) if single else output)
    ]
    return found[0] if single else tuple(found)
