"""Hooks of modules: the global registries, registration methods, and a call that runs them."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C, Tensor
from flambeau.utils.hooks import BackwardHook, RemovableHandle

_global_parameter_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
# By the attribute of Module that holds what is registered.
_registration_hooks = {
    "_parameters": _global_parameter_registration_hooks,
    "_buffers": _global_buffer_registration_hooks,
    "_modules": _global_module_registration_hooks,
}
_global_forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
# Global backward hooks are either all full or all of the older kind; None while there are none.
_global_is_full_backward_hook: bool | None = None

_C._ModuleBase._set_global_hooks(
    (
        _global_forward_hooks,
        _global_forward_pre_hooks,
        _global_backward_hooks,
        _global_backward_pre_hooks,
    )
)


def _register(registry: Any, hook: Any, prepend: bool = False, **flags: Any) -> RemovableHandle:
    """Adds ``hook`` to ``registry``; each flag is a dictionary to note the hook's id in."""
    extras = [flag for flag in flags.values() if flag is not None]
    handle = RemovableHandle(registry, extra_dict=extras)
    registry[handle.id] = hook
    for flag in extras:
        flag[handle.id] = True
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` whenever any module registers a buffer."""
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, submodule)`` whenever any module registers a submodule."""
    return _register(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, param)`` whenever any module registers a parameter."""
    return _register(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, args)`` before the forward of every module."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls ``hook(module, args, output)`` after the forward of every module."""
    return _register(
        _global_forward_hooks,
        hook,
        with_kwargs=_global_forward_hooks_with_kwargs if with_kwargs else None,
        always=_global_forward_hooks_always_called if always_call else None,
    )


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of register_module_full_backward_hook."""
    return _register_global_backward(hook, full=False)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` before the gradients of every module."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, grad_input, grad_output)`` for the gradients of every module."""
    return _register_global_backward(hook, full=True)


def _register_global_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook != full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a "
            "global Module hook. Please use only one of them."
        )
    _global_is_full_backward_hook = full
    return _register(_global_backward_hooks, hook)


class HookMethods:
    """The part of Module that registers hooks and calls a module that has some."""

    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _compiled_call_impl: Callable[..., Any] | None
    forward: Callable[..., Any]

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` before this module's gradients are computed."""
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of register_full_backward_hook: sees only the last node's gradients."""
        return self._register_backward(hook, full=False)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)`` once the input gradients are known."""
        return self._register_backward(hook, full=True, prepend=prepend)

    def _register_backward(
        self, hook: Callable[..., Any], full: bool, prepend: bool = False
    ) -> RemovableHandle:
        if self._is_full_backward_hook is not None and self._is_full_backward_hook != full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = full
        return _register(self._backward_hooks, hook, prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)``, or with kwargs too, before forward; it may change them."""
        return _register(
            self._forward_pre_hooks,
            hook,
            prepend,
            with_kwargs=self._forward_pre_hooks_with_kwargs if with_kwargs else None,
        )

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after forward; what it returns is the output.

        With ``always_call`` it is called even when forward raises.
        """
        return _register(
            self._forward_hooks,
            hook,
            prepend,
            with_kwargs=self._forward_hooks_with_kwargs if with_kwargs else None,
            always=self._forward_hooks_always_called if always_call else None,
        )

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """All backward hooks for this module: (full ones, ones of the older kind)."""
        full: list[Any] = []
        partial: list[Any] = []
        (full if _global_is_full_backward_hook else partial).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook else partial).extend(self._backward_hooks.values())
        return full, partial

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a module that has hooks or is compiled; others go straight to forward."""
        compiled = self._compiled_call_impl
        return self._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        called: set[int] = set()
        try:
            return self._run_forward_and_hooks(args, kwargs, called)
        except Exception:
            self._run_always_called_hooks(args, kwargs, called)
            raise

    def _run_forward_and_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
    ) -> Any:
        full_backward_hooks, partial_backward_hooks = self._get_backward_hooks()
        backward_pre_hooks = self._get_backward_pre_hooks()
        args, kwargs = self._run_forward_pre_hooks(args, kwargs)
        backward_hook = None
        if full_backward_hooks or backward_pre_hooks:
            backward_hook = BackwardHook(self, full_backward_hooks, backward_pre_hooks)
            args = backward_hook.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for hook_id, hook, with_kwargs, _ in self._all_forward_hooks():
            called.add(hook_id)
            returned = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if returned is not None:
                result = returned
        if backward_hook is not None:
            if isinstance(result, (Tensor, tuple)):
                result = backward_hook.setup_output_hook(result)
            else:
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a "
                    f"tuple of Tensors but received {type(result)}",
                    stacklevel=4,
                )
        if partial_backward_hooks:
            self._hook_last_node(args, result, partial_backward_hooks)
        return result

    def _run_forward_pre_hooks(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        for hook in list(_global_forward_pre_hooks.values()):
            returned = hook(self, args)
            if returned is not None:
                args = returned if isinstance(returned, tuple) else (returned,)
        for hook_id, hook in list(self._forward_pre_hooks.items()):
            if hook_id not in self._forward_pre_hooks_with_kwargs:
                returned = hook(self, args)
                if returned is not None:
                    args = returned if isinstance(returned, tuple) else (returned,)
                continue
            returned = hook(self, args, kwargs)
            if returned is None:
                continue
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple "
                    f"of (new_args, new_kwargs), but got {returned}."
                )
            args, kwargs = returned
        return args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Any, bool, bool]]:
        """Every forward hook in calling order: (id, hook, takes kwargs, is always called)."""
        return [
            (
                hook_id,
                hook,
                hook_id in _global_forward_hooks_with_kwargs,
                hook_id in _global_forward_hooks_always_called,
            )
            for hook_id, hook in _global_forward_hooks.items()
        ] + [
            (
                hook_id,
                hook,
                hook_id in self._forward_hooks_with_kwargs,
                hook_id in self._forward_hooks_always_called,
            )
            for hook_id, hook in self._forward_hooks.items()
        ]

    def _run_always_called_hooks(self, args: Any, kwargs: Any, called: set[int]) -> None:
        """After an error: runs the hooks that must run, and lets only that error out."""
        for hook_id, hook, with_kwargs, always in self._all_forward_hooks():
            if not always or hook_id in called:
                continue
            try:
                hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            except Exception as error:
                kind = "global module" if hook_id in _global_forward_hooks else "module"
                warnings.warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=5,
                )

    def _hook_last_node(self, args: Any, result: Any, hooks: list[Any]) -> None:
        """Registers hooks of the older kind on the node that made the first tensor of a result."""
        first = result
        while not isinstance(first, Tensor):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        if first.grad_fn is None:
            return
        for hook in hooks:
            first.grad_fn.register_hook(_bind_module(hook, self))
        missed = _what_partial_hook_misses(args, result, first.grad_fn)
        if missed is not None:
            warnings.warn(
                f"Using {missed}. Please use "
                "register_full_backward_hook to get the documented behavior.",
                FutureWarning,
                stacklevel=5,
            )


def _what_partial_hook_misses(args: Any, result: Any, last_node: Any) -> str | None:
    """Why a hook on the last node does not see all gradients of a module, or None if it does."""
    results = (result,) if isinstance(result, Tensor) else result
    if not (isinstance(results, tuple) and all(isinstance(r, Tensor) for r in results)):
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple "
            "of Tensors is deprecated and will be removed in future versions. This hook will be "
            "missing some of the grad_output"
        )
    if not all(isinstance(arg, Tensor) for arg in args):
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a "
            "tuple of Tensors is deprecated and will be removed in future versions. This hook "
            "will be missing some of the grad_input"
        )
    if len({r.grad_fn for r in results}) > 1:
        return (
            "a non-full backward hook when outputs are generated by different autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_output"
        )
    made_inputs = {arg.grad_fn for arg in args if arg.grad_fn is not None}
    if made_inputs != {node for node, _ in last_node.next_functions}:
        return (
            "a non-full backward hook when the forward contains multiple autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_input"
        )
    return None


def _bind_module(hook: Callable[..., Any], module: Any) -> Callable[..., Any]:
    def bound(grad_input: Any, grad_output: Any) -> Any:
        return hook(module, grad_input, grad_output)

    return bound
