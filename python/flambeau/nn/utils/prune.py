"""Pruning: masks on parameters, chosen by size, at random or by hand.

A pruned parameter ``weight`` becomes ``weight_orig``; ``weight_mask`` is a buffer, and ``weight``
their product, computed before each forward pass.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _hooks_of(module: Module, name: str) -> list[tuple[int, BasePruningMethod]]:
    """The pruning hooks on one tensor of a module, with their keys."""
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


class BasePruningMethod(ABC):
    """How to choose what is kept: subclasses say by ``compute_mask``."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask for ``t`` that also leaves out what ``default_mask`` does."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:  # fmt: skip
        """Prunes a tensor of a module, on top of what is pruned already."""
        hooks = _hooks_of(module, name)
        if len(hooks) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}."
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if hooks:
            key, before = hooks[0]
            if isinstance(before, PruningContainer):
                container = before
            else:
                container = PruningContainer(before)
            container.add_pruning_method(method)
            del module._forward_pre_hooks[key]
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if not isinstance(method, PruningContainer):
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = flambeau.ones_like(original)
        else:
            default_mask = (
                getattr(module, name + "_mask")
                .detach()
                .clone(memory_format=flambeau.contiguous_format)
            )
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not isinstance(method, PruningContainer):
                # As it was before, so that the caller may try again.
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """A pruned copy of a tensor that belongs to no module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default_mask = flambeau.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Makes pruning permanent: the tensor is a parameter again, zeros included."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters[name + "_orig"]
        assert original is not None
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several prunings of one tensor, one on top of the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if not isinstance(args, Iterable):
            args = (args,)
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a pruning of the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, which chooses only among what is still there."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "global":
            rest: Any = (slice(None),) * t.dim()
        elif method.PRUNING_TYPE == "structured":
            # Slices that are zero already do not count.
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            others = [d for d in range(t.dim()) if d != dim]
            rest = [slice(None)] * t.dim()
            rest[dim] = mask.sum(dim=others) != 0
            rest = tuple(rest)
        elif method.PRUNING_TYPE == "unstructured":
            rest = mask == 1
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[rest] = method.compute_mask(t[rest], default_mask=mask[rest]).to(new.dtype)
        return new


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _compute_nparams_toprune(self.amount, t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=flambeau.contiguous_format)
        if count != 0:
            chances = flambeau.rand_like(t)
            mask.view(-1)[flambeau.topk(chances.view(-1), k=count)[1]] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of smallest magnitude."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _compute_nparams_toprune(self.amount, t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=flambeau.contiguous_format)
        if count != 0:
            smallest = flambeau.topk(flambeau.abs(t).view(-1), k=count, largest=False)[1]
            mask.view(-1)[smallest] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _slices_mask(t: Tensor, dim: int, kept: Tensor) -> Tensor:
    """Ones in the slices along ``dim`` that are kept."""
    mask = flambeau.zeros_like(t)
    place: list[Any] = [slice(None)] * t.dim()
    place[dim] = kept
    mask[tuple(place)] = 1
    return mask


class RandomStructured(BasePruningMethod):
    """Prunes whole slices along a dimension at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        slices = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, slices)
        _validate_pruning_amount(count, slices)
        if count == 0:
            return default_mask
        chances = flambeau.rand(slices)
        threshold = flambeau.kthvalue(chances, k=count)[0]
        mask = _slices_mask(t, self.dim, chances > threshold)
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along a dimension of smallest n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        slices = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, slices)
        _validate_pruning_amount(count, slices)
        if count == 0:
            return default_mask
        largest = flambeau.topk(_compute_norm(t, self.n, self.dim), k=slices - count)[1]
        mask = _slices_mask(t, self.dim, largest)
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:  # fmt: skip
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, mask: Tensor
    ) -> BasePruningMethod:
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Gives a tensor a mask that prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes elements at random: ``amount`` of them, or that share."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the elements of smallest magnitude."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes slices along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int,
    importance_scores: Tensor | None = None,
) -> Module:  # fmt: skip
    """Prunes the slices along ``dim`` of smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prunes several tensors, given as (module, name), as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = importance_scores if importance_scores is not None else {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    relevant = [scores.get(pair, getattr(*pair)) for pair in parameters]
    flat_scores = flambeau.nn.utils.parameters_to_vector(relevant)
    masks = [
        getattr(module, name + "_mask", flambeau.ones_like(getattr(module, name)))
        for module, name in parameters
    ]
    default_mask = flambeau.nn.utils.parameters_to_vector(masks)
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(flat_scores, default_mask)
    start = 0
    for module, name in parameters:
        parameter = getattr(module, name)
        part = final[start : start + parameter.numel()].view_as(parameter)
        custom_from_mask(module, name, mask=part)
        start += parameter.numel()


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Makes the pruning of a tensor permanent."""
    for key, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether any tensor of a module, or of the modules inside it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    is_count = isinstance(amount, numbers.Integral)
    if (is_count and amount < 0) or (not is_count and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {len(t.shape)} dims"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many a count or a share of them is."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The n-norm of each slice along ``dim``."""
    dim = dim % t.dim()
    return flambeau.norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim])
