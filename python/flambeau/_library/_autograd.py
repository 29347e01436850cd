"""How a registered operator is differentiated: its kernel runs as the forward of a custom function
whose backward is the rule that the program registered for it.

Lists of tensors among the arguments are laid out flat for the custom function, and the rule's
gradients of a list, a list again, are laid out the same way.
"""

from __future__ import annotations

import flambeau
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau._ops import Operator


def _is_tensor_list(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(item, flambeau.Tensor) for item in value)
    )


def _flatten(values: list[Any]) -> tuple[list[Any], list[int | None]]:
    """The values with lists of tensors opened, and for each value the length of its list."""
    flat: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        if _is_tensor_list(value):
            flat.extend(value)
            lengths.append(len(value))
        else:
            flat.append(value)
            lengths.append(None)
    return flat, lengths


def _unflatten(flat: Any, lengths: list[int | None]) -> list[Any]:
    values, at = [], 0
    for length in lengths:
        if length is None:
            values.append(flat[at])
            at += 1
        else:
            values.append(list(flat[at : at + length]))
            at += length
    return values


class _Context:
    """The context as a rule knows it: inputs are laid out as the operator has them."""

    def __init__(self, ctx: Any, call: _Call) -> None:
        self.__dict__.update(_ctx=ctx, _call=call)

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:
        """Whether each argument wants a gradient; of a list, a list."""
        needs = _unflatten(self._ctx.needs_input_grad[1:], self._call.lengths)
        return tuple(needs[: self._call.positional])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


class _Registered(Function):
    """Runs the kernel of an operator; differentiates by its rule."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *flat: Any) -> Any:
        inputs = _unflatten(flat, call.lengths)
        output = call.kernel(*inputs[: call.positional], **call.keywords(inputs))
        ctx.call = call
        result, call.output_lengths = output, None
        if isinstance(output, (list, tuple)):
            opened, call.output_lengths = _flatten(list(output))
            result = tuple(opened)
        setup = call.operator.setup_context
        if setup is not None:
            given = {"inputs": tuple(inputs[: call.positional]), "output": output}
            if call.names:
                given["keyword_only_inputs"] = call.keywords(inputs)
            setup(_Context(ctx, call), **given)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call
        rule = call.operator.backward
        if rule is None:
            raise RuntimeError(
                f"Trying to backward through {call.operator.name} but no autograd formula was "
                "registered. If you need to perform backward on this op, register one with "
                "flambeau.library.register_autograd."
            )
        if call.output_lengths is not None:
            grads = tuple(_unflatten(grads, call.output_lengths))
        found = rule(_Context(ctx, call), *grads)
        found = list(found) if isinstance(found, tuple) else [found]
        if len(found) != call.positional:
            raise RuntimeError(
                f"Expected the backward function of {call.operator.name} to return one gradient "
                f"for each of its {call.positional} inputs, got {len(found)}"
            )
        flat: list[Any] = [None]
        for gradient, length in zip(found + [None] * len(call.names), call.lengths):
            if length is None:
                flat.append(gradient)
            else:
                flat.extend([None] * length if gradient is None else gradient)
        return tuple(flat)


class _Call:
    """One call of an operator: what to run, and how its arguments were laid out."""

    def __init__(
        self,
        operator: Operator,
        kernel: Callable[..., Any],
        positional: int,
        names: list[str],
        lengths: list[int | None],
    ) -> None:
        self.operator, self.kernel = operator, kernel
        self.positional, self.names, self.lengths = positional, names, lengths
        self.output_lengths: list[int | None] | None = None

    def keywords(self, inputs: list[Any]) -> dict[str, Any]:
        """The keyword-only arguments, which stand behind the others."""
        return dict(zip(self.names, inputs[self.positional :]))


def differentiable(
    operator: Operator, kernel: Callable[..., Any], bound: list[Any], keywords: dict[str, Any]
) -> Any:
    """Calls the kernel with the arguments, recording the operator's rule."""
    flat, lengths = _flatten([*bound, *keywords.values()])
    call = _Call(operator, kernel, len(bound), list(keywords), lengths)
    output = _Registered.apply(call, *flat)
    if call.output_lengths is not None:
        return tuple(_unflatten(output, call.output_lengths))
    return output
