"""Tells which modules a computation belongs to while they run."""

from __future__ import annotations

import weakref
from typing import Any

from flambeau import nn
from flambeau.nn.modules import module as _module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context in which `parents` holds the names of the modules whose forward is running.

    "Global" is always among them. The module that was called from outside is named by its class,
    those below it by the path to them: {"Global", "Net", "Net.layer1", "Net.layer1.0"}.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._stack: list[str] = []
        self._handles: list[Any] = []

    def _name(self, module: nn.Module) -> str:
        if module not in self._names:
            self._name_below(module, type(module).__name__)
        return self._names[module]

    def _name_below(self, module: nn.Module, name: str) -> None:
        self._names[module] = name
        for child_name, child in module.named_children():
            self._name_below(child, f"{name}.{child_name}")

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        self._stack.append(self._name(module))
        self.parents.add(self._stack[-1])

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        self._stack.pop()
        self.parents = {"Global", *self._stack}

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            _module.register_module_forward_pre_hook(self._enter_module),
            _module.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return self

    def __exit__(self, *args: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._stack.clear()
        self.parents = {"Global"}
