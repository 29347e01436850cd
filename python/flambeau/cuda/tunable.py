"""Choosing kernels of matrix products by trial, which Flambeau does not do.

cuBLASLt's heuristics choose them. What PyTorch lets programs set here is kept and told, and nothing
is ever enabled, tuned or recorded.
"""

from __future__ import annotations

import contextlib
import os
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "dynamic_dims_mask",
    "enable",
    "get_cublaslt_requested_algo_count",
    "get_filename",
    "get_max_tuning_duration",
    "get_max_tuning_iterations",
    "get_results",
    "get_rotating_buffer_size",
    "get_validators",
    "is_enabled",
    "mgpu_tune_gemm_in_file",
    "read_file",
    "record_untuned_enable",
    "record_untuned_is_enabled",
    "set_cublaslt_requested_algo_count",
    "set_filename",
    "set_max_tuning_duration",
    "set_max_tuning_iterations",
    "set_numerical_check_tolerances",
    "set_rotating_buffer_size",
    "tune_gemm_in_file",
    "tuning_enable",
    "tuning_is_enabled",
    "wildcard_fallback_enable",
    "wildcard_fallback_is_enabled",
]

_numbers = {"duration": 30, "iterations": 100, "buffer": 0, "algorithms": -1}
_switches = {"tuning": True, "wildcard": False}
_file = {"name": ""}


def _warn(name: str) -> None:
    warnings.warn(
        f"torch.cuda.tunable.{name}: Flambeau does not tune matrix products; cuBLASLt chooses "
        "their kernels",
        stacklevel=3,
    )


def enable(val: bool = True) -> None:
    """Warns that products are not tuned, if that is asked for."""
    if val:
        _warn("enable")


def is_enabled() -> bool:
    """False: products are not tuned."""
    return False


def tuning_enable(val: bool = True) -> None:
    """Whether products would be tuned, if that were enabled."""
    _switches["tuning"] = bool(val)


def tuning_is_enabled() -> bool:
    """What tuning_enable said."""
    return _switches["tuning"]


def record_untuned_enable(val: bool = True) -> None:
    """Warns that products are not recorded, if that is asked for."""
    if val:
        _warn("record_untuned_enable")


def record_untuned_is_enabled() -> bool:
    """False: products are not recorded."""
    return False


def wildcard_fallback_enable(val: bool = True) -> None:
    """Whether results of other shapes would be taken, if there were any."""
    _switches["wildcard"] = bool(val)


def wildcard_fallback_is_enabled() -> bool:
    """What wildcard_fallback_enable said."""
    return _switches["wildcard"]


@contextlib.contextmanager
def dynamic_dims_mask(
    M: bool = False, N: bool = False, K: bool = False, BATCH: bool = False
) -> Iterator[None]:
    """A context in which some sizes would not count; nothing is looked up by them."""
    yield


def set_max_tuning_duration(duration: int) -> None:
    """How many milliseconds a trial would take at most."""
    _numbers["duration"] = duration


def get_max_tuning_duration() -> int:
    """What set_max_tuning_duration said."""
    return _numbers["duration"]


def set_max_tuning_iterations(iterations: int) -> None:
    """How often a trial would be run at most."""
    _numbers["iterations"] = iterations


def get_max_tuning_iterations() -> int:
    """What set_max_tuning_iterations said."""
    return _numbers["iterations"]


def set_cublaslt_requested_algo_count(count: int) -> None:
    """How many kernels would be tried."""
    _numbers["algorithms"] = count


def get_cublaslt_requested_algo_count() -> int:
    """What set_cublaslt_requested_algo_count said."""
    return _numbers["algorithms"]


def set_rotating_buffer_size(buffer_size: int) -> None:
    """How many MiB of operands trials would go round in."""
    _numbers["buffer"] = buffer_size


def get_rotating_buffer_size() -> int:
    """What set_rotating_buffer_size said."""
    return _numbers["buffer"]


def set_numerical_check_tolerances(enable: bool, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """How far trials might lie from the default's results; there are none."""


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """The file that results would be kept in."""
    stem, suffix = os.path.splitext(filename)
    _file["name"] = f"{stem}0{suffix}" if insert_device_ordinal else filename


def get_filename() -> str:
    """The file that set_filename named."""
    return _file["name"]


def get_results() -> tuple[tuple[str, str, str, float], ...]:
    """Nothing: there are no results."""
    return ()


def get_validators() -> tuple[tuple[str, str], ...]:
    """Nothing: there are no results to be valid."""
    return ()


def read_file(filename: str | None = None) -> bool:
    """False: results of others are not used."""
    return False


def tune_gemm_in_file(filename: str) -> None:
    """Raises: products are not tuned."""
    raise NotImplementedError("tune_gemm_in_file: Flambeau does not tune matrix products")


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Raises: products are not tuned."""
    raise NotImplementedError("mgpu_tune_gemm_in_file: Flambeau does not tune matrix products")
