"""Tensors whose class answers for operators with `__torch_dispatch__`.

The binding gives every call that has such a tensor among its arguments to `run`. What only asks
about a tensor is answered at once. Everything else is put into the form of PyTorch's operators,
with its arguments in their order, and given to the class: below autograd, which records the step by
the rules of `_wrapped_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._operators._aten_names import _Standing, operator_of
from flambeau._operators._wrapped_arguments import arranged
from flambeau._ops import OpOverload
from flambeau.autograd import Function

aten: Any = flambeau.ops.aten


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments, those in lists too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def run(func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of the binding that has a tensor of such a class among its arguments."""
    from flambeau._operators._wrapped_forms import FORMS

    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = f"{func.__self__.__name__}.__get__"
    if func is Tensor.where:  # a method whose operator begins with its argument
        args = (args[1], args[0], *args[2:]) if len(args) > 1 else args
    form = FORMS.get(name)
    if form is not None:
        return form(*args, **kwargs)
    is_attribute = name.endswith(("__get__", "__set__", "__delete__"))
    operator = None if is_attribute else operator_of(func, args, kwargs)
    if operator is None:
        with _C._DisableTorchDispatch():
            return func(*args, **kwargs)
    args, kwargs = arranged(name, args, kwargs)
    # Of no operator: what is made wants a gradient, not what the class makes it from.
    wants = kwargs.get("requires_grad", False)
    if "requires_grad" in kwargs:
        kwargs = {key: value for key, value in kwargs.items() if key != "requires_grad"}
    result = dispatch(operator, args, kwargs)
    return result.requires_grad_() if wants else result


def dispatch(operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the classes of the arguments make of an operator, recorded for backward."""
    from flambeau._operators._wrapped_rules import RULES, WITHOUT_DERIVATIVE

    name = operator.overloadpacket.__name__
    tensors = list(tensors_in([*args, *kwargs.values()]))
    if not any(map(_dispatches, tensors)):  # a class has given plain tensors on the way here
        return operator(*args, **kwargs)
    wants = flambeau.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if not wants or name in WITHOUT_DERIVATIVE:
        with flambeau.no_grad():
            result = _ask(operator, tensors, args, kwargs)
        if name.endswith("_") and args and isinstance(args[0], Tensor):
            _C._increment_version(args[0])
        return result
    if not any(map(_C._is_wrapped, tensors)):
        # They have values, and what the class computes from those has a history of its own.
        return _ask(operator, tensors, args, kwargs)
    if name.endswith("_") or kwargs.get("out") is not None:
        raise NotImplementedError(
            f"{operator}: a write into a tensor without values of its own "
            "(torch.Tensor._make_wrapper_subclass) is not recorded for backward"
        )
    rule = RULES.get(name) or _backward_as_one_step(operator)
    return _Recorded.apply(operator, rule, args, kwargs, *tensors)


def _dispatches(tensor: Any) -> bool:
    return type(tensor).__torch_dispatch__ is not _C._disabled_torch_dispatch_impl


def _ask(
    operator: OpOverload, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    classes: list[Any] = []
    for tensor in tensors:
        cls: Any = type(tensor)
        if cls in classes or not _dispatches(tensor):
            continue
        # A subclass answers before its base.
        at = next((i for i, other in enumerate(classes) if issubclass(cls, other)), len(classes))
        classes.insert(at, cls)
    for cls in classes:
        result = cls.__torch_dispatch__(operator, tuple(classes), args, kwargs)
        if result is not NotImplemented:
            return result
    names = "".join(f"\n  - tensor subclass {cls}" for cls in classes)
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{operator}'; all __torch_dispatch__ handlers "
        f"returned NotImplemented:\n{names}"
    )


def _backward_as_one_step(operator: OpOverload) -> Callable[..., Any]:
    """A rule for an operator that has none: one operator more, called like it with _backward
    behind, that takes gradients and the same arguments. The class is asked for it, and where it
    gives it its own values, the library differentiates.
    """

    def function(grads: list[Tensor], *args: Any, **kwargs: Any) -> tuple[Tensor | None, ...]:
        again = any(x.requires_grad for x in tensors_in([grads, args]))
        leaves: list[Tensor] = []

        def leaf(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [leaf(item) for item in x]
            if isinstance(x, Tensor):
                if x.is_floating_point() or x.is_complex():
                    x = x if x.requires_grad else x.detach().requires_grad_()
                leaves.append(x)
            return x

        with flambeau.enable_grad():
            result = operator(*leaf(args), **kwargs)
            outputs = [x for x in tensors_in([result]) if x.requires_grad]
            wanted = [x for x in leaves if x.requires_grad]
            found = iter(
                flambeau.autograd.grad(
                    outputs, wanted, grads[: len(outputs)], create_graph=again, allow_unused=True
                )
            )
        return tuple(next(found) if x.requires_grad else None for x in leaves)

    backward = getattr(aten, f"{operator.overloadpacket.__name__}_backward").default
    standing = _Standing(backward, function)

    def rule(g: Any, y: Any, wants: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch(standing, ([g] if isinstance(g, Tensor) else list(g), *args), kwargs)

    return rule


def from_core(name: str, a: Tensor, b: Tensor | None) -> Tensor:
    """What the core asks of tensors that pass through it: to detach, to clone, to add, to cast."""
    if name == "add":
        return a + b  # type: ignore[operator]
    if name == "to":
        return a.to(b)  # type: ignore[call-overload, no-any-return]
    found: Tensor = a.detach() if name == "detach" else a.clone()
    return found


_HOLE = object()  # where a tensor was among arguments


def _taken_out(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_taken_out(item) for item in value]
    return _HOLE if isinstance(value, Tensor) else value


def _put_back(value: Any, tensors: Iterator[Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_back(item, tensors) for item in value]
    return next(tensors) if value is _HOLE else value


class _Recorded(Function):
    """A step that a class answered, with its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: OpOverload,
        rule: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *tensors: Tensor,
    ) -> Any:
        from flambeau._operators._wrapped_rules import KEEP_RESULT

        result = _ask(operator, list(tensors), args, kwargs)
        outputs = [result] if isinstance(result, Tensor) else list(result)
        ctx.rule, ctx.count, ctx.single = rule, len(tensors), isinstance(result, Tensor)
        ctx.arguments = _taken_out([args, list(kwargs.values())])
        ctx.names = list(kwargs)
        kept = outputs if operator.overloadpacket.__name__ in KEEP_RESULT else []
        ctx.save_for_backward(*tensors, *kept)
        return result if isinstance(result, Tensor) else tuple(result)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        inputs, outputs = saved[: ctx.count], saved[ctx.count :]
        args, named = _put_back(ctx.arguments, iter(inputs))
        found = ctx.rule(
            grads[0] if ctx.single else grads,
            outputs[0] if outputs and ctx.single else outputs,
            ctx.needs_input_grad[4:],
            *args,
            **dict(zip(ctx.names, named, strict=True)),
        )
        found = [*found, *[None] * (ctx.count - len(found))]
        return (
            None,
            None,
            None,
            None,
            *(None if g is None else fitted(g, x) for g, x in zip(found, inputs, strict=True)),
        )


def fitted(grad: Tensor, like: Tensor) -> Tensor:
    """A gradient summed over the dimensions along which its tensor was spread."""
    lead = grad.dim() - like.dim()
    if lead > 0:
        grad = grad.sum(list(range(lead)))
    spread = [d for d, size in enumerate(like.shape) if size == 1 and grad.shape[d] != 1]
    return grad.sum(spread, True) if spread else grad
