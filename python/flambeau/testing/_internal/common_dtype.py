"""Sets of dtypes by their kind, as tests name them."""

from __future__ import annotations

import flambeau as torch

_FLOATING = (torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)
_INTEGRAL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def floating_types() -> tuple[torch.dtype, ...]:
    return _FLOATING


def floating_types_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _FLOATING + dtypes


def floating_types_and_half() -> tuple[torch.dtype, ...]:
    return (*_FLOATING, torch.float16)


def complex_types() -> tuple[torch.dtype, ...]:
    return _COMPLEX


def complex_types_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _COMPLEX + dtypes


def floating_and_complex_types() -> tuple[torch.dtype, ...]:
    return _FLOATING + _COMPLEX


def floating_and_complex_types_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _FLOATING + _COMPLEX + dtypes


def integral_types() -> tuple[torch.dtype, ...]:
    return _INTEGRAL


def integral_types_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _INTEGRAL + dtypes


def all_types() -> tuple[torch.dtype, ...]:
    return _FLOATING + _INTEGRAL


def all_types_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _FLOATING + _INTEGRAL + dtypes


def all_types_and_complex() -> tuple[torch.dtype, ...]:
    return _FLOATING + _INTEGRAL + _COMPLEX


def all_types_and_complex_and(*dtypes: torch.dtype) -> tuple[torch.dtype, ...]:
    return _FLOATING + _INTEGRAL + _COMPLEX + dtypes


def get_all_dtypes(
    include_half: bool = True,
    include_bfloat16: bool = True,
    include_bool: bool = True,
    include_complex: bool = True,
) -> list[torch.dtype]:
    """All dtypes, without the kinds that are not wanted."""
    found = [*_INTEGRAL, *_FLOATING]
    for wanted, dtypes in (
        (include_bool, (torch.bool,)),
        (include_half, (torch.float16,)),
        (include_bfloat16, (torch.bfloat16,)),
        (include_complex, _COMPLEX),
    ):
        found += dtypes if wanted else ()
    return found
