"""Lazy modules: those that learn the size of their input from the first one they see."""

from __future__ import annotations

from typing import Any

from flambeau.nn.parameter import UninitializedBuffer, is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Makes a module initialize its parameters in its first forward pass.

    A subclass comes before the module's class in the list of bases, has UninitializedParameters,
    gives them their shapes in ``initialize_parameters``, and becomes ``cls_to_become`` after.
    That takes objects of one layout: a plain class, as Module's first base is.
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[misc]
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                kept = keep_vars or is_lazy(param)
                destination[prefix + name] = param if kept else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                kept = keep_vars or is_lazy(buffer)
                destination[prefix + name] = buffer if kept else buffer.detach()

    def _lazy_load_hook(
        self: Any, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: Any, unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        """Takes the shapes of parameters from a state that has them."""
        for table in (self._parameters, self._buffers):
            for name, own in list(table.items()):
                given = state_dict.get(prefix + name)
                if own is None or given is None or not is_lazy(own) or is_lazy(given):
                    continue
                self._materialize(name, given.shape)

    def _materialize(self: Any, name: str, shape: Any) -> None:
        """Gives a parameter or buffer its shape."""
        own = self._parameters.get(name, self._buffers.get(name))
        if isinstance(own, UninitializedBuffer):
            self._buffers[name] = own.data.new_empty(shape)
        else:
            own.materialize(shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters the shapes that fit the first input, and values."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        tensors = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(tensor) for tensor in tensors)

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        """Runs before the first forward pass, and makes the module an ordinary one."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self: Any) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
