"""Who answers for an operator: the modes that are on, and the classes of its arguments.

The core asks here for every operator that concerns one of them (`__torch_dispatch__`), below
autograd, and for derivatives that it cannot compute without values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._ops import OpOverload, is_missing
from flambeau.autograd import Function

aten: Any = flambeau.ops.aten


@functools.cache
def operator_of(name: str, op: str) -> OpOverload:
    """PyTorch's operator, such as add.Tensor, for an op of the registry."""
    packet_name, _, overload = name.partition(".")
    packet = getattr(aten, packet_name)
    found: OpOverload = getattr(packet, overload)
    if is_missing(packet._function):
        packet._function = _C._ops.get(op) or getattr(Tensor, op)
    elif packet._function is _bound.get(packet_name):  # by another op
        return _Standing(found, _C._ops[op])
    _bound[packet_name] = packet._function
    return found


# Operators that the library has under other names, and what computes them.
_bound: dict[str, Any] = {}


class _Standing(OpOverload):
    """An operator of PyTorch that stands for two ops of this library: it equals that operator, and
    computes one of them.
    """

    def __init__(self, operator: OpOverload, function: Any) -> None:
        super().__init__(operator._packet, operator._overloadname)
        self._operator, self._function = operator, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self._operator

    def __hash__(self) -> int:
        return hash(self._operator)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments, those in lists too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _classes(tensors: list[Tensor]) -> tuple[Any, ...]:
    """The classes that answer; a subclass does so before its base."""
    found: list[Any] = []
    for tensor in tensors:
        cls: Any = type(tensor)
        if cls in found or not _C._is_dispatched(tensor):
            continue
        at = next((i for i, other in enumerate(found) if issubclass(cls, other)), len(found))
        found.insert(at, cls)
    return tuple(found)


def ask(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode makes of an operator, or a class of its arguments."""
    classes = _classes(list(tensors_in([*args, *kwargs.values()])))
    if _C._len_torch_dispatch_stack():
        mode = _C._pop_torch_dispatch_stack()
        try:
            result = mode.__torch_dispatch__(operator, classes, args, kwargs)
        finally:
            _C._push_on_torch_dispatch_stack(mode)
        if result is not NotImplemented:
            return result
    for cls in classes:
        result = cls.__torch_dispatch__(operator, classes, args, kwargs)
        if result is not NotImplemented:
            return result
    if not classes:  # plain tensors by now
        return operator(*args, **kwargs)
    names = "".join(f"\n  - tensor subclass {cls}" for cls in classes)
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{operator}'; all __torch_dispatch__ handlers "
        f"returned NotImplemented:\n{names}"
    )


class _Backward(OpOverload):
    """The derivative of an operator as one operator more, called like it with _backward behind: it
    takes gradients and the same arguments. A class that gives it its own values has the library
    differentiate with those.
    """

    def __init__(self, operator: OpOverload, output_mask: list[bool]) -> None:
        name = f"{operator.overloadpacket.__name__}_backward"
        super().__init__(getattr(aten, name), "default")
        self._operator = operator
        self._output_mask = output_mask  # of the tensors among the arguments

    def __call__(self, grads: list[Tensor], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        again = any(x.requires_grad for x in tensors_in([grads, args]))
        leaves: list[Tensor | None] = []
        mask = iter(self._output_mask)

        def leaf(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [leaf(item) for item in x]
            if isinstance(x, Tensor):
                wanted = next(mask)
                if wanted and not x.requires_grad:
                    x = x.detach().requires_grad_()
                leaves.append(x if wanted else None)
            return x

        with flambeau.enable_grad():
            result = self._operator(*leaf(args), **dict(zip(kwargs, leaf(list(kwargs.values())))))
            outputs = [x for x in tensors_in([result]) if _is_differentiable(x)]
            pairs = [(y, g) for y, g in zip(outputs, grads) if g is not None and y.requires_grad]
            wanted = [x for x in leaves if x is not None]
            found = iter(
                flambeau.autograd.grad(
                    [y for y, _ in pairs],
                    wanted,
                    [g for _, g in pairs],
                    create_graph=again,
                    allow_unused=True,
                )
            )
        return tuple(None if x is None else next(found) for x in leaves)


def _is_differentiable(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def ask_gradients(
    operator: OpOverload, grads: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The gradients of all tensors among the arguments; the step is recorded for the next one."""
    return _Step.apply(operator, args, kwargs, grads, *tensors_in([grads, *args, *kwargs.values()]))


class _Step(Function):
    """A derivative that a class computes, with the derivative of that."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        grads: list[Any],
        *tensors: Any,
    ) -> Any:
        output_mask = [x.requires_grad for x in tensors_in([*args, *kwargs.values()])]
        ctx.operator, ctx.arguments = _Backward(operator, output_mask), (grads, *args)
        ctx.kwargs = kwargs
        return tuple(ask(ctx.operator, ctx.arguments, kwargs))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found = ask_gradients(ctx.operator, list(grads), ctx.arguments, ctx.kwargs)
        return (None, None, None, None, *found)
