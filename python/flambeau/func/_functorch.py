"""`functorch`, the package that `torch.func` grew out of: its names, as older programs import them.

A module becomes a function of its parameters (and buffers), which are handed out as tuples.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau import func as _func
from flambeau.func import functional_call, functionalize

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]

__version__ = flambeau.__version__


def _older_name(function: Callable[..., Any], newer: str) -> Callable[..., Any]:
    """The function, which tells whoever calls it by this module's name about the newer one."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`functorch.{function.__name__}` is deprecated as of PyTorch 2.0, which has functorch "
            f"built in. Please use `torch.{newer}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return wrapper


vmap = _older_name(_func.vmap, "vmap")
grad = _older_name(_func.grad, "func.grad")
grad_and_value = _older_name(_func.grad_and_value, "func.grad_and_value")
hessian = _older_name(_func.hessian, "func.hessian")
jacfwd = _older_name(_func.jacfwd, "func.jacfwd")
jacrev = _older_name(_func.jacrev, "func.jacrev")
jvp = _older_name(_func.jvp, "func.jvp")
vjp = _older_name(_func.vjp, "func.vjp")


class FunctionalModuleWithBuffers(nn.Module):
    """A module as a function: called with parameters, buffers and its arguments."""

    def __init__(
        self, model: nn.Module, param_names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        state.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function: called with parameters and its arguments."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A function of parameters, buffers and arguments, and copies of the module's own."""
    own = copy.deepcopy(model)
    params, buffers = dict(own.named_parameters()), dict(own.named_buffers())
    if disable_autograd_tracking:
        own.requires_grad_(False)
    function = FunctionalModuleWithBuffers(own, tuple(params), tuple(buffers))
    return function, tuple(params.values()), tuple(buffers.values())


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A function of parameters and arguments, and copies of the module's own parameters."""
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(function.stateless_model, function.param_names, ()), params


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for several modules of a kind, and their parameters and buffers stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    kind = type(models[0])
    if not all(type(model) is kind and model.training == models[0].training for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class and to have "
            "the same training/eval mode."
        )
    made = [make_functional_with_buffers(model) for model in models]
    params = tuple(
        flambeau.stack(column).detach().requires_grad_()
        for column in zip(*(params for _, params, _ in made), strict=True)
    )
    buffers = tuple(
        flambeau.stack(column) for column in zip(*(buffers for _, _, buffers in made), strict=True)
    )
    return made[0][0], params, buffers
