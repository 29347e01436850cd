"""Settings of a compiler that Flambeau does not have. They can be set and read, and do nothing."""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False


@contextlib.contextmanager
def patch(changes: Any = None, **kwargs: Any) -> Iterator[None]:
    """A context in which settings have other values."""
    module = sys.modules[__name__]
    changes = {changes: kwargs.pop("value", None)} if isinstance(changes, str) else (changes or {})
    changes = {**changes, **kwargs}
    before = {name: getattr(module, name) for name in changes if hasattr(module, name)}
    vars(module).update(changes)
    try:
        yield
    finally:
        for name in changes:
            delattr(module, name)
        vars(module).update(before)
