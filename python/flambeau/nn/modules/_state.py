"""Saving a module into a state_dict and loading it back."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.__future__ import get_swap_module_params_on_conversion
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.utils._swap import swap_tensors
from flambeau.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict found on one side only; prints as a sentence when there is nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WithModule:
    """A load_state_dict pre-hook together with the module it wants to be given.

    The module owns the hook, so it is held weakly: a cycle would delay the end of both.
    """

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("load_state_dict pre-hook: the module it was registered on is gone")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.module = weakref.ref(state["module"])


class StateMethods:
    """The part of Module that deals with state_dict."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _version: int = 1

    def get_extra_state(self) -> Any:
        """Override to save something besides parameters and buffers."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Override to load what get_extra_state returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like register_state_dict_post_hook, for a hook that may return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _added(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after state_dict."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _added(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before state_dict."""
        return _added(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return _added(
            self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook
        )

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before this module loads its part."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after this module and its children loaded."""
        return _added(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Saves this module's own parameters, buffers and extra state, not its children's."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers of this module and its children, by name.

        The tensors share memory with the module's; without ``keep_vars`` they are detached.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata

        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = replaced
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own parameters, buffers and extra state, not its children's."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        local_state = {
            name: tensor
            for name, tensor in itertools.chain(
                self._parameters.items(),
                (
                    item
                    for item in self._buffers.items()
                    if item[0] not in self._non_persistent_buffers_set
                ),
            )
            if tensor is not None
        }
        for name, target in local_state.items():
            key = prefix + name
            if key in state_dict:
                self._load_tensor(name, key, target, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)

        extra_state_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra_state_key in state_dict:
                self.set_extra_state(state_dict[extra_state_key])
            elif strict:
                missing_keys.append(extra_state_key)
        elif strict and extra_state_key in state_dict:
            unexpected_keys.append(extra_state_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_state_key:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in (self._modules if dot else local_state):
                        unexpected_keys.append(key)

    def _load_tensor(
        self,
        name: str,
        key: str,
        target: Tensor,
        value: Any,
        assign: bool,
        error_msgs: list[str],
    ) -> None:
        """Copies ``value`` into ``target``, or with ``assign`` puts it in its place."""
        if not isinstance(value, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(value)}"
            )
            return
        if is_lazy(target) and is_lazy(value):
            return
        # Checkpoints from before version 0.4 hold scalars as one-element vectors.
        if target.dim() == 0 and value.dim() == 1 and value.numel() == 1:
            value = value[0]
        if value.shape != target.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
            return
        if target.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding "
                "key in the module instead of copying them in place?)",
                stacklevel=6,
            )
        try:
            with flambeau.no_grad():
                if get_swap_module_params_on_conversion():
                    swap_tensors(target, _in_place_of(target, _remapped(target, value, assign)))
                elif assign:
                    setattr(self, name, _in_place_of(target, value))
                else:
                    target.copy_(value)
        except Exception as error:
            error_msgs.append(
                f'While {"assigning" if assign else "copying"} the parameter named "{key}", '
                f"whose dimensions in the model are {target.size()} and whose dimensions in the "
                f"checkpoint are {value.size()}, an exception occurred : {error.args}."
            )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Loads what state_dict returned; with ``strict``, the names must be exactly the same.

        With ``assign`` the given tensors take the place of the module's instead of being copied.
        Returns the names found on one side only, as (missing_keys, unexpected_keys).
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata  # type: ignore[attr-defined]

        found = _IncompatibleKeys(missing_keys, unexpected_keys)
        _load_tree(self, copied, "", metadata, assign, found, error_msgs)
        if strict:
            if unexpected_keys:
                error_msgs.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected_keys)}")
            if missing_keys:
                error_msgs.insert(0, f"Missing key(s) in state_dict: {_quoted(missing_keys)}")
        if error_msgs:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(error_msgs)
            )
        return found


def _load_tree(
    module: Any,
    state: Any,
    prefix: str,
    metadata: Any,
    assign: bool,
    found: _IncompatibleKeys,
    error_msgs: list[str],
) -> None:
    """Loads a module and its children.

    A function of its own: a nested one that calls itself would be a reference cycle, and hold the
    tensors of ``state`` until the next collection.
    """
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(
        state, prefix, local_metadata, True, found.missing_keys, found.unexpected_keys, error_msgs
    )
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = prefix + name + "."
            child_state = OrderedDict(
                (k, v) for k, v in state.items() if k.startswith(child_prefix)
            )
            _load_tree(child, child_state, child_prefix, metadata, assign, found, error_msgs)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, found) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                "expected to return new values, if incompatible_keys need to be "
                "modified, it should be done inplace."
            )


def _in_place_of(target: Tensor, value: Tensor) -> Tensor:
    """``value`` as what may stand where ``target`` does: a parameter where that is one."""
    if not isinstance(target, Parameter):
        return value
    if isinstance(value, Parameter):
        return value.requires_grad_(target.requires_grad)
    return Parameter(value, requires_grad=target.requires_grad)


def _remapped(target: Tensor, value: Tensor, assign: bool) -> Tensor:
    """What ``target`` wants to be exchanged for when ``value`` is loaded into it."""
    remapped = target.module_load(value, assign=assign)
    if remapped is target or remapped is value:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    return remapped


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys) + ". "


def _added(registry: Any, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(registry)
    registry[handle.id] = hook
    return handle
