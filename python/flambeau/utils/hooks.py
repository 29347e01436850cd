"""Handles that remove a registered hook, and the autograd side of a module's backward hooks."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict

import flambeau
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a hook that pickling a tensor may leave behind without a warning."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warns of hooks that pickling the tensor would leave behind."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )


class RemovableHandle:
    """Removes one hook from the dictionary it was registered in.

    Only a weak reference to the dictionary is held, so a handle never keeps a module alive.
    ``extra_dict`` names further dictionaries that hold a flag for the same hook.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if extra_dict is None:
            extras: Sequence[Any] = ()
        else:
            extras = extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        if self.extra_dict_ref:
            return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: Any) -> None:
        hooks = state[0]
        # A hook dictionary that died before pickling is stood in for by an empty one.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.id = state[1]
        extras = state[2] if len(state) > 2 else ()
        self.extra_dict_ref = tuple(
            weakref.ref(OrderedDict() if extra is None else extra) for extra in extras
        )
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.remove()


class BackwardHookFunction(Function):
    """The identity on some tensors; its backward hands their gradients to a callback.

    With ``keep_missing`` the callback sees None where no gradient came, and zeros elsewhere.
    What it returns goes on, with zeros for None.
    """

    @staticmethod
    def forward(
        ctx: Any, callback: Callable[..., Any], keep_missing: bool, *tensors: Tensor
    ) -> Any:
        ctx.callback = callback
        ctx.set_materialize_grads(not keep_missing)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        ctx.like = [(t.shape, t.dtype, t.device) for t in tensors]
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        passed_on = [
            flambeau.zeros(shape, dtype=dtype, device=device) if grad is None and needed else grad
            for grad, needed, (shape, dtype, device) in zip(
                ctx.callback(grads), ctx.needs_input_grad[2:], ctx.like, strict=True
            )
        ]
        return (None, None, *passed_on)


class BackwardHook:
    """Runs a module's full backward hooks around one call of that module.

    The call's tensor inputs and outputs each pass through an identity node. In backward the
    output node sees ``grad_output`` first (and runs the pre-hooks), the input node sees
    ``grad_input`` last (and runs the hooks). When no input needs a gradient there is no input
    node, and the hooks run at the output node with ``grad_input`` all None.
    """

    def __init__(
        self, module: Any, user_hooks: Sequence[Any], user_pre_hooks: Sequence[Any]
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = -1
        self.input_positions: list[int] = []
        self.output_count = -1
        self.output_positions: list[int] = []
        self.has_input_node = False

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns ``args`` with its tensors passed through the input node."""
        self.input_count = len(args)
        new_args, self.input_positions, self.has_input_node = _through_node(
            self._on_grad_input, False, args
        )
        return new_args

    def setup_output_hook(self, result: Any) -> Any:
        """Returns ``result`` (a tensor or a tuple) passed through the output node."""
        outputs = result if isinstance(result, tuple) else (result,)
        self.output_count = len(outputs)
        new_outputs, self.output_positions, _ = _through_node(self._on_grad_output, True, outputs)
        if not isinstance(result, tuple):
            return new_outputs[0]
        # A named tuple stays one: callers read its fields.
        return type(result)(*new_outputs) if hasattr(result, "_fields") else new_outputs

    def _on_grad_output(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output = _spread(grads, self.output_positions, self.output_count)
        for hook in self.user_pre_hooks:
            returned = hook(self.module, grad_output)
            if returned is not None:
                grad_output = _checked_gradients(
                    returned, len(grad_output), "Backward pre hook", "grad_output"
                )
        self.grad_outputs = grad_output
        if not self.has_input_node:
            if self.user_hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to "
                    "module outputs since no inputs require gradients. See "
                    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                    "#torch.nn.Module.register_full_backward_hook for more details.",
                    stacklevel=5,
                )
            self._run_user_hooks((None,) * self.input_count)
        return tuple(grad_output[position] for position in self.output_positions)

    def _on_grad_input(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_outputs is None:
            # Gradients came to the inputs around the outputs; there is nothing to report.
            return grads
        grad_input = self._run_user_hooks(_spread(grads, self.input_positions, self.input_count))
        return tuple(grad_input[position] for position in self.input_positions)

    def _run_user_hooks(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.user_hooks:
            returned = hook(self.module, grad_input, self.grad_outputs)
            if returned is None:
                continue
            gradients = _checked_gradients(returned, len(grad_input), "Backward hook", "grad_input")
            if not self.has_input_node and any(grad is not None for grad in gradients):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
            grad_input = gradients
        self.grad_outputs = None
        return grad_input


def _checked_gradients(returned: Any, expected: int, hook_name: str, what: str) -> tuple[Any, ...]:
    gradients = returned if isinstance(returned, tuple) else (returned,)
    if len(gradients) != expected:
        raise RuntimeError(
            f"{hook_name} returned an invalid number of {what}, "
            f"got {len(gradients)}, but expected {expected}"
        )
    return gradients


def _spread(values: tuple[Any, ...], positions: list[int], count: int) -> tuple[Any, ...]:
    """Puts ``values`` at ``positions`` of a tuple of ``count``, None elsewhere."""
    spread: list[Any] = [None] * count
    for position, value in zip(positions, values, strict=True):
        spread[position] = value
    return tuple(spread)


def _through_node(
    callback: Callable[..., Any], keep_missing: bool, values: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int], bool]:
    """Passes the tensors of ``values`` through one node; tells where they are and whether it is."""
    positions = [i for i, value in enumerate(values) if isinstance(value, flambeau.Tensor)]
    if not flambeau.is_grad_enabled() or not any(values[i].requires_grad for i in positions):
        return values, positions, False
    passed = BackwardHookFunction.apply(callback, keep_missing, *[values[i] for i in positions])
    new_values = list(values)
    for position, tensor in zip(positions, passed, strict=True):
        new_values[position] = tensor
    return tuple(new_values), positions, True
