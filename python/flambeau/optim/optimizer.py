"""Optimizer: the base of all optimizers, with parameter groups, state and hooks."""

from __future__ import annotations

import functools
import math
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, TypeAlias

import flambeau
from flambeau import _C, Tensor
from flambeau.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()

# What an optimizer may be given: tensors, named tensors, or groups of parameters.
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
params_t = _params_t = ParamsT


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A method `step` that records history only where the optimizer was made differentiable."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with flambeau.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return func(self, *args, **kwargs)

    return step


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether to take the fused form of a step, and whether the one for lists of tensors."""
    everywhere = all(type(p) in (Tensor, flambeau.nn.Parameter) and p.is_cuda for p in params)
    if differentiable or not params or not everywhere:
        return False, False
    return use_fused, not use_fused


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The device types whose steps can be captured in a graph."""
    return ["cuda"]


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Puts real views in place of complex parameters and what belongs to them."""
    for index, param in enumerate(params):
        if flambeau.is_complex(param):
            params[index] = flambeau.view_as_real(param)
            for values in state_and_grads:
                values[index] = flambeau.view_as_real(values[index])


def _stack_if_compiling(x: Any) -> Any:
    """The values as they are: nothing is being compiled."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before the step of every optimizer."""
    _hook_all_steps(Optimizer)
    return _added(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after the step of every optimizer."""
    _hook_all_steps(Optimizer)
    return _added(_global_optimizer_post_hooks, hook)


def _added(registry: Any, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def _hook_all_steps(cls: Any) -> None:
    cls._hook_step()
    for subclass in cls.__subclasses__():
        _hook_all_steps(subclass)


def _step_with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a ``step`` method so that it runs the step hooks."""

    def hooked_step(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        for hook in [
            *_global_optimizer_pre_hooks.values(),
            *optimizer._optimizer_step_pre_hooks.values(),
        ]:
            replaced = hook(optimizer, args, kwargs)
            if replaced is None:
                continue
            if not isinstance(replaced, tuple) or len(replaced) != 2:
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {replaced}."
                )
            args, kwargs = replaced
        result = step(*args, **kwargs)
        for hook in [
            *optimizer._optimizer_step_post_hooks.values(),
            *_global_optimizer_post_hooks.values(),
        ]:
            hook(optimizer, args, kwargs)
        return result

    hooked_step.hooked = True  # type: ignore[attr-defined]
    hooked_step.__name__ = step.__name__
    hooked_step.__doc__ = step.__doc__
    hooked_step.__wrapped__ = step  # type: ignore[attr-defined]
    return hooked_step


def _get_value(x: Any) -> Any:
    """A hyperparameter, which may be a tensor of one element, as a number."""
    return x.item() if isinstance(x, Tensor) else x


def _typename(value: Any) -> str:
    return value.type() if isinstance(value, Tensor) else type(value).__qualname__


class Optimizer:
    """Base of all optimizers: ``params`` are tensors, (name, tensor) pairs, or groups of them.

    A group is a dictionary with ``"params"`` and with options that differ from ``defaults``.
    """

    state: defaultdict[Any, dict[str, Any]]
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: Any, with_indices: bool = False
    ) -> dict[Any, Any]:
        """See `flambeau.utils._foreach_utils`."""
        from flambeau.utils._foreach_utils import _group_tensors_by_device_and_dtype

        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_registries()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {_typename(params)}"
            )
        if isinstance(params, set):
            warnings.warn(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list "
                "instead. This will be an error in a future release.",
                FutureWarning,
                stacklevel=3,
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
            type(self)._hook_step()

    def _make_hook_registries(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Any] = OrderedDict()

    @classmethod
    def _hook_step(cls) -> None:
        """Has this class's own ``step`` run hooks; done only once there are some."""
        step = cls.__dict__.get("step")
        if step is None:
            # The class inherits its step: hook the one that it inherits.
            for base in cls.__mro__[1:]:
                if "step" in base.__dict__ and hasattr(base, "_hook_step"):
                    base._hook_step()
                    return
        elif not getattr(step, "hooked", False):
            cls.step = _step_with_hooks(step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hook_registries()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        groups = []
        for number, group in enumerate(self.param_groups):
            lines = [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            groups.append("\n".join(lines) + "\n")
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"

    # Hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before step; it may return others."""
        type(self)._hook_step()
        return _added(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after step."""
        type(self)._hook_step()
        return _added(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before state_dict."""
        return _added(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after state_dict; it may return another."""
        return _added(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before loading; it may return another."""
        return _added(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after loading."""
        return _added(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # State

    def state_dict(self) -> dict[str, Any]:
        """The state and the groups' options, with parameters replaced by their numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        packed_groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            packed_groups.append(packed)
        packed_state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        state_dict: dict[str, Any] = {"state": packed_state, "param_groups": packed_groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        return state_dict

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor,
        value: Tensor,
        param_id: int,
        param_groups: list[dict[str, Any]],
        key: str | None = None,
    ) -> Tensor:
        """A loaded tensor with its parameter's dtype and device; step counts stay as they are."""
        if key == "step":
            for group in param_groups:
                if param_id in group["params"]:
                    if group.get("fused") or group.get("capturable"):
                        return value.to(dtype=flambeau.float32, device=param.device)
                    return value
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def _fitted(
        self, param: Tensor, value: Any, param_id: int, groups: Any, key: str | None = None
    ) -> Any:
        """``value`` with every tensor inside it fitted to its parameter."""
        if isinstance(value, Tensor):
            return self._process_value_according_to_param_policy(
                param, value, param_id, groups, key
            )
        if isinstance(value, dict):
            return {k: self._fitted(param, v, param_id, groups, k) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return type(value)(self._fitted(param, v, param_id, groups) for v in value)  # type: ignore[call-arg]
        return value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict returned."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(group["params"]) != len(saved["params"])
            for group, saved in zip(groups, saved_groups, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_number = {
            number: param
            for group, saved in zip(groups, saved_groups, strict=True)
            for number, param in zip(saved["params"], group["params"], strict=True)
        }
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                param = by_number[key]
                state[param] = self._fitted(param, value, key, state_dict["param_groups"])
            else:
                state[key] = value
        new_groups = []
        for group, saved in zip(groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
            new_groups.append(saved)
        self.__setstate__({"state": state, "param_groups": new_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                    continue
                grad = param.grad
                if grad is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once; ``closure`` computes the loss again and returns it."""
        raise NotImplementedError

    @staticmethod
    def _closure_loss(closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with flambeau.enable_grad():
            return closure()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, with options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            listed: list[Any] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        else:
            listed = list(params)
        param_group["params"] = _split_names(listed, param_group)
        self._check_params(param_group["params"])
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        params = param_group["params"]
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        known: set[Any] = set()
        for group in self.param_groups:
            known.update(group["params"])
            if ("param_names" in group) != ("param_names" in param_group):
                how = "with" if "param_names" in param_group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {how} names to the optimizer"
                )
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _check_params(self, params: list[Any]) -> None:
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + _typename(param)
                )
            if not self.defaults.get("differentiable") and not (
                param.is_leaf or param.retains_grad
            ):
                raise ValueError("can't optimize a non-leaf Tensor")


def _split_names(listed: list[Any], param_group: dict[str, Any]) -> list[Any]:
    """Turns (name, tensor) pairs into tensors and puts the names into the group."""
    named = [item for item in listed if isinstance(item, tuple)]
    if not named:
        return listed
    if len(named) != len(listed):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    param_group["param_names"] = [name for name, _ in named]
    return [param for _, param in named]


def _check_common(
    lr: Any,
    weight_decay: float | None = None,
    eps: float | None = None,
    betas: tuple[Any, Any] | None = None,
) -> None:
    """Raises for options outside their range, in the words that all optimizers use."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if lr < 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if eps is not None and eps < 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for position, beta in enumerate(betas or ()):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
    if weight_decay is not None and weight_decay < 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")


def _check_step(optimizer: Any) -> None:
    """Raises where parameters do not lie where the implementation that was asked for steps, and
    where a step that asks for values would be captured into a CUDA graph.
    """
    for group in optimizer.param_groups:
        if group.get("fused") or group.get("capturable") or group.get("differentiable"):
            _check_devices(group)
    if not _C._cuda_is_loaded():
        return
    from flambeau.cuda.graphs import is_current_stream_capturing

    if is_current_stream_capturing():
        for group in optimizer.param_groups:
            if not group.get("capturable", True):
                raise RuntimeError(
                    "Attempting CUDA graph capture of step() for an instance of "
                    f"{type(optimizer).__name__} but param_groups' capturable is False."
                )


_CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone", "xla"]
_FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _check_devices(group: dict[str, Any]) -> None:
    """What PyTorch's implementations refuse is refused here too, though one op serves them all."""
    params = [param for param in group["params"] if param.grad is not None]
    if group.get("fused"):
        for param in params:
            if not (param.is_floating_point() and param.device.type in _FUSED_DEVICES):
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of "
                    f"supported devices: {_FUSED_DEVICES} but {param.dtype} and {param.device.type}"
                )
    elif group.get("capturable"):
        if any(param.device.type not in _CAPTURABLE_DEVICES for param in params):
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: "
                f"{_CAPTURABLE_DEVICES}."
            )
    elif group.get("foreach") and group.get("differentiable") and params:
        raise AssertionError("_foreach ops don't support autograd")


def _check_fused(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Raises for combinations of implementations that cannot be."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


# Tensors by device, or by device and dtype: what steps over many parameters keep copies in.
DeviceDict: TypeAlias = dict[Any, Tensor]
DeviceDtypeDict: TypeAlias = dict[Any, Tensor]


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that leaves the function as it is: nothing is compiled."""
    return lambda function: function
