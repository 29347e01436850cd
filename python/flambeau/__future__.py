"""Choices about how modules convert their parameters, which PyTorch may make for all one day."""

from __future__ import annotations

_choices = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Sets whether `module.to()` puts new parameters in the place of the old ones."""
    _choices["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `module.to()` puts new parameters in the place of the old ones."""
    return _choices["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Sets whether `module.to()` exchanges parameters with their conversions, all they are."""
    _choices["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """Whether `module.to()` exchanges parameters with their conversions, all they are."""
    return _choices["swap"]
