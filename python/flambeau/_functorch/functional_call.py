"""Modules as functions of their parameters, as `torch.func` has them."""

from __future__ import annotations

from flambeau.func import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
