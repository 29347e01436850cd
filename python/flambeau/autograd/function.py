"""Custom functions: a forward and a backward written by the user, `Function.apply` records them as
one node.

The core type `_C._FunctionBase` is the node itself and its Python face at once: the context that
forward and backward receive is the `grad_fn` of the outputs. See Note [What a custom function asks
of the core].
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C, Tensor

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

# Note [What a custom function asks of the core]
# `_C._FunctionBase.apply(cls, *args)`:
#   1. makes `ctx = cls._backward_cls()`, with `ctx.needs_input_grad`: for each argument, whether it
#      is a tensor that requires a gradient;
#   2. calls, without recording, `cls.forward(ctx, *args)`, or, if `cls._has_setup_context`,
#      `cls.forward(*args)` and then `cls.setup_context(ctx, args, output)`;
#   3. makes the tensors among the outputs (a tensor, or a tuple in which other objects pass
#      through) outputs of ctx. It reads what the user left on ctx: `to_save` (from
#      save_for_backward), `dirty_tensors`, `non_differentiable`: tuples or absent;
#      `materialize_grads`: a bool, True if absent. `to_save` becomes saved tensors, whose versions
#      are checked and which pass through saved-tensor hooks.
# In backward the node calls `ctx.apply(*grads)` (BackwardCFunction.apply below) and checks what it
# returns. A node also has: saved_tensors, needs_input_grad, next_functions, metadata, name(),
# register_hook, register_prehook, _input_metadata.


class FunctionCtx:
    """What forward and backward of a custom function share: its methods say how outputs and inputs
    relate.
    """

    saved_tensors: tuple[Tensor | None, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves tensors (or None) for backward, which finds them in `ctx.saved_tensors`.

        Call it at most once, in forward or in setup_context, with inputs and outputs; anything else
        that backward needs may simply be set as an attribute of ctx.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for `jvp`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, flambeau.Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    "non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Says which inputs forward wrote into; each of them must be returned as an output."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """Of no use any more: writes into shared memory are seen without being told."""
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically "
            "tracked, and writes into them are seen.",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Says which outputs are not differentiable; backward receives zeros in their place."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward receives zeros (True, at first) or None for outputs that were not
        used.
        """
        self.materialize_grads = value


class BackwardCFunction(_C._FunctionBase, FunctionCtx):  # type: ignore[misc]
    """The class of contexts; each Function has a subclass of its own, named after it."""

    _forward_cls: type[Function]

    def apply(self, *grads: Any) -> Any:
        """Called by the engine with the gradients of the outputs; gives those of the inputs."""
        function = self._forward_cls
        backward, vjp = function.backward, function.vjp
        if vjp is not Function.vjp:
            if backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                    "You should only implement one of them."
                )
            return vjp(self, *grads)
        return backward(self, *grads)

    def apply_jvp(self, *tangents: Any) -> Any:
        """The tangents of the outputs, from those of the inputs."""
        return self._forward_cls.jvp(_ForwardContext(self), *tangents)


class _ForwardContext:
    """What jvp sees of the context: everything, but the tensors of save_for_forward in the place
    of those that were saved for backward.
    """

    def __init__(self, context: BackwardCFunction) -> None:
        object.__setattr__(self, "_context", context)

    def __getattr__(self, name: str) -> Any:
        if name == "saved_tensors":
            return getattr(self._context, "saved_for_forward", ())
        return getattr(self._context, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._context, name, value)


class FunctionMeta(type):
    """Gives every Function the class of its contexts, `<name>Backward`."""

    _backward_cls: type[BackwardCFunction]
    _has_setup_context: bool

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        definer = next(base for base in cls.__mro__ if "setup_context" in base.__dict__)
        cls._has_setup_context = any(isinstance(base, FunctionMeta) for base in definer.__bases__)
        super().__init__(name, bases, attributes)


def _bind(
    forward: Callable[..., Any], skip: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """`args` with the keyword arguments and defaults of `forward` put in place.

    `skip` is the number of leading parameters that the caller of apply does not give (the context).
    """
    code = forward.__code__
    skip += getattr(forward, "__self__", None) is not None  # the class of a class method
    names = code.co_varnames[skip : code.co_argcount]
    defaults = dict(zip(reversed(names), reversed(forward.__defaults__ or ())))
    for name in kwargs:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    bound = list(args)
    for name in names[len(args) :]:
        if name in kwargs:
            bound.append(kwargs[name])
        elif name in defaults:
            bound.append(defaults[name])
        else:
            raise TypeError(f"missing a required argument: '{name}'")
    return tuple(bound)


class Function(_C._FunctionBase, FunctionCtx, metaclass=FunctionMeta):  # type: ignore[misc]
    """The base of custom differentiable functions.

    Write static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`, and call `YourFunction.apply(*args)`. backward receives
    one gradient for each output and returns one for each input of forward, None for what is not
    differentiable.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method: call `apply` on the class."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs; history is not recorded inside it."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """If overridden, forward takes no context and this saves what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Computes the gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward; implement only one of them."""
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Computes the tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Computes the function over a batch."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls forward and records it, if any argument requires a gradient, as one node of the
        graph.
        """
        if cls._has_setup_context:
            args = _bind(cls.forward, 0, args, kwargs)
        elif kwargs:
            args = _bind(cls.forward, 1, args, kwargs)
        if _C._vmap_level():
            from flambeau.func._function_rule import apply_to_batch, level_of

            if (level := level_of(args)) > 0:
                return apply_to_batch(cls, args, level)
        if cls.jvp is Function.jvp:
            return super().apply(*args)
        from flambeau.autograd.forward_ad import push_tangents, tangents_of

        tangents = tangents_of(args)  # before forward, which may write into its arguments
        return push_tangents(cls, args, tangents, super().apply(*args))


class InplaceFunction(Function):
    """A Function that remembers whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function of the old kind, whose `forward_extended` and `backward_extended` take and give
    nested tuples of tensors.

    Its forward is a method of an instance, which no Function has any more: it is here for its
    name, and says so when it is called.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method: call `apply` on the class."
        )


class _DelayedError(Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, message: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.message = message
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError(ctx.message)


_DelayedError._backward_cls.__name__ = "Error"


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a backward whose results must not be differentiated again: doing so raises an
    error.
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with flambeau.no_grad():
            outputs = fn(ctx, *args)
        if not flambeau.is_grad_enabled():
            return outputs
        if not any(isinstance(arg, flambeau.Tensor) and arg.requires_grad for arg in args):
            return outputs
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        # A leaf that requires gradients makes the identity part of a graph, though nothing flows
        # back to it.
        switch = flambeau.empty(0, requires_grad=True)
        tensors = [result for result in results if isinstance(result, flambeau.Tensor)]
        guarded = iter(
            _DelayedError.apply(
                "trying to differentiate twice a function that was marked with "
                "@once_differentiable",
                *tensors,
                switch,
            )
        )
        results = tuple(
            next(guarded) if isinstance(result, flambeau.Tensor) else result for result in results
        )
        return results if isinstance(outputs, tuple) else results[0]

    return wrapper
