"""Reading the arguments of Module.to, which has several forms."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor

_FORMS = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, \
bool copy = False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, \
torch.memory_format memory_format = None)
"""


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """Gives (device, dtype, non_blocking, memory_format) for the arguments of ``to``."""
    given = dict(kwargs)
    if args and isinstance(args[0], Tensor):
        names = ["tensor", "non_blocking", "copy"]
    elif args and isinstance(args[0], flambeau.dtype):
        names = ["dtype", "non_blocking", "copy"]
    else:
        names = ["device", "dtype", "non_blocking", "copy"]
    if len(args) > len(names):
        raise _invalid(args, kwargs)
    for name, value in zip(names, args, strict=False):
        if name in given:
            raise _invalid(args, kwargs)
        given[name] = value

    tensor = given.pop("tensor", None)
    device = given.pop("device", None)
    dtype = given.pop("dtype", None)
    non_blocking = given.pop("non_blocking", False)
    copy = given.pop("copy", False)
    memory_format = given.pop("memory_format", None)
    if given or not isinstance(non_blocking, bool) or not isinstance(copy, bool):
        raise _invalid(args, kwargs)
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    if tensor is not None:
        if not isinstance(tensor, Tensor) or device is not None or dtype is not None:
            raise _invalid(args, kwargs)
        device, dtype = tensor.device, tensor.dtype
    if dtype is not None and not isinstance(dtype, flambeau.dtype):
        raise _invalid(args, kwargs)
    if device is not None and not isinstance(device, flambeau.device):
        if isinstance(device, bool) or not isinstance(device, (str, int)):
            raise _invalid(args, kwargs)
        device = flambeau.device(device)
    return device, dtype, non_blocking, memory_format


def _invalid(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = [type(value).__name__ for value in args]
    got += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return TypeError(
        "to() received an invalid combination of arguments - got "
        f"({', '.join(got)}), but expected one of:{_FORMS}"
    )
