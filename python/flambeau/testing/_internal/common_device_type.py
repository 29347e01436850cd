"""Tests that run once for each device and dtype: a class of tests that take ``device`` (and
``dtype``) becomes one for each device that is there.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.testing._internal.common_utils import (
    bound_test,
    dtype_name,
    parameter_cases,
    signature_takes,
)

__all__ = [
    "dtypes",
    "dtypesIfCPU",
    "dtypesIfCUDA",
    "instantiate_device_type_tests",
    "onlyCPU",
    "onlyCUDA",
    "onlyNativeDeviceTypes",
    "onlyOn",
    "precisionOverride",
    "skipCPUIf",
    "skipCPUIfNoLapack",
    "skipCUDAIf",
    "skipIf",
    "tol",
    "toleranceOverride",
]  # fmt: skip


class dtypes:
    """The dtypes that a test runs for, on all devices or on those of one type."""

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        self.choices = args
        self.device_type = device_type

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        function.__dict__.setdefault("dtypes_of", {})[self.device_type] = self.choices
        return function


class dtypesIfCPU(dtypes):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cpu")


class dtypesIfCUDA(dtypes):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cuda")


def skipIf(condition: Any, reason: str, device_type: str | None = None) -> Callable[[Any], Any]:
    """Skips a test, on one type of device or on all, where a condition holds. It may be the name
    of an attribute of the test's class.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def test(self: Any, *args: Any, **kwargs: Any) -> Any:
            concerned = device_type is None or self.device_type == device_type
            holds = getattr(self, condition) if isinstance(condition, str) else condition
            if concerned and holds:
                raise unittest.SkipTest(reason)
            return function(self, *args, **kwargs)

        return test

    return decorate


def skipCPUIf(condition: Any, reason: str) -> Callable[[Any], Any]:
    return skipIf(condition, reason, "cpu")


def skipCUDAIf(condition: Any, reason: str) -> Callable[[Any], Any]:
    return skipIf(condition, reason, "cuda")


def skipCPUIfNoLapack(function: Callable[..., Any]) -> Callable[..., Any]:
    """LAPACK is always there: the test runs."""
    return function


class onlyOn:
    """Runs a test on some types of devices only."""

    def __init__(self, device_type: str | list[str]) -> None:
        self.types = [device_type] if isinstance(device_type, str) else list(device_type)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def test(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self_.device_type not in self.types:
                raise unittest.SkipTest(f"Only runs on {self.types}")
            return function(self_, *args, **kwargs)

        return test


onlyCPU = onlyOn("cpu")
onlyCUDA = onlyOn("cuda")
onlyNativeDeviceTypes = onlyOn(["cpu", "cuda", "meta"])


class tol:
    """A pair of tolerances."""

    def __init__(self, atol: float, rtol: float) -> None:
        self.atol, self.rtol = atol, rtol


class toleranceOverride:
    """The tolerances of a test by dtype."""

    def __init__(self, d: dict[Any, tol]) -> None:
        self.tolerances = d

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        function.__dict__["tolerances_of"] = self.tolerances
        return function


def precisionOverride(d: dict[Any, float]) -> Callable[[Any], Any]:
    return toleranceOverride({dtype: tol(atol, 0.0) for dtype, atol in d.items()})


def _device_types(only_for: Any, except_for: Any) -> list[str]:
    found = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    chosen = {only_for} if isinstance(only_for, str) else set(only_for or found)
    left_out = {except_for} if isinstance(except_for, str) else set(except_for or ())
    return [one for one in found if one in chosen and one not in left_out]


def _dtype_choices(function: Any, device_type: str) -> list[Any]:
    by_device = function.__dict__.get("dtypes_of", {})
    return list(by_device.get(device_type, by_device.get("all", [None])))


def _with_tolerances(function: Any, dtype: Any) -> Any:
    limits = function.__dict__.get("tolerances_of", {}).get(dtype)
    if limits is None:
        return function

    @functools.wraps(function)
    def test(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.precision, self.rel_tol = limits.atol, limits.rtol
        return function(self, *args, **kwargs)

    return test


def _add_tests(cls: Any, name: str, function: Any, device_type: str) -> None:
    device = device_type if device_type == "cpu" else f"{device_type}:0"
    for suffix, arguments, decorators in parameter_cases(function):
        for dtype in _dtype_choices(function, device_type):
            given = dict(arguments)
            if signature_takes(function, "device"):
                given["device"] = device
            several = dtype if isinstance(dtype, (tuple, list)) else [dtype]
            if dtype is not None:
                given["dtypes" if signature_takes(function, "dtypes") else "dtype"] = dtype
            parts = [name, suffix, device_type, *(dtype_name(d) for d in several if d is not None)]
            full = "_".join(part for part in parts if part)
            test = _with_tolerances(function, dtype)
            setattr(cls, full, bound_test(test, full, given, decorators))


def instantiate_device_type_tests(
    generic_test_class: type,
    scope: dict[str, Any],
    except_for: Any = None,
    only_for: Any = None,
    **_: Any,
) -> None:
    """Replaces a class of tests in ``scope`` by one for each device: TestX by TestXCPU, ..."""
    scope.pop(generic_test_class.__name__, None)
    tests = {k: v for k, v in generic_test_class.__dict__.items() if k.startswith("test")}
    shared = {
        k: v
        for k, v in generic_test_class.__dict__.items()
        if k not in tests and k not in ("__dict__", "__weakref__")
    }
    for device_type in _device_types(only_for, except_for):
        name = generic_test_class.__name__ + device_type.upper()
        made: Any = type(name, generic_test_class.__bases__, {**shared, "device_type": device_type})
        made.__qualname__ = name
        for test, function in tests.items():
            _add_tests(made, test, function, device_type)
        scope[name] = made
