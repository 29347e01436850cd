"""Flambeau: eager tensors with automatic differentiation, in PyTorch's words.

`import flambeau as torch` runs programs written for PyTorch. This module gathers names: the core's
types and ops, and the packages around them, which are loaded when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os

# By default a waiting OpenMP thread spins for milliseconds. Where cores are shared with other
# programs, that takes them from the very threads that are waited for, and training becomes ten
# times slower; a thousand turns bridge the gap between two ops. libgomp reads this when it loads.
_quiet = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & _os.environ.keys()
if _quiet:
    _os.environ["GOMP_SPINCOUNT"] = "1000"
from flambeau import _C  # noqa: E402

if _quiet:
    del _os.environ["GOMP_SPINCOUNT"]

# Every public op and type of the core. They shadow builtins (sum, abs, ...) as PyTorch's do, so
# this file itself uses only names that start with an underscore.
globals().update({_name: _value for _name, _value in vars(_C).items() if not _name.startswith("_")})

__version__ = "0.1.0"

inf = _float_inf = type(0.0)("inf")
nan = type(0.0)("nan")
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None
legacy_contiguous_format = _C.contiguous_format

from flambeau import _tensor  # noqa: E402

_tensor.attach(_C.Tensor)

from flambeau import _settings, autograd, random  # noqa: E402
from flambeau._settings import *  # noqa: E402, F403
from flambeau._tensor_str import set_printoptions  # noqa: E402
from flambeau.autograd import (  # noqa: E402
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from flambeau.functional import (  # noqa: E402
    broadcast_shapes,
    chain_matmul,
    einsum,
    tensordot,
)
from flambeau.random import (  # noqa: E402
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

# Loaded on first use: programs that only compute never pay for them.
_PACKAGES = frozenset(
    (
        "amp cuda backends distributed fft func hub jit library linalg masked multiprocessing nn "
        "optim overrides profiler serialization sparse special storage testing types utils version"
    ).split()
)
_FROM = {
    "save": "serialization",
    "load": "serialization",
    "UntypedStorage": "storage",
    "TypedStorage": "storage",
}


def __getattr__(name):
    if name in _PACKAGES:
        full = f"flambeau.{name}"
        try:
            return _importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    if name in _FROM or (name.endswith("Storage") and name[0] != "_"):
        value = getattr(_importlib.import_module("flambeau." + _FROM.get(name, "storage")), name)
        globals()[name] = value
        return value
    if name.endswith("Tensor") and name[0] != "_":
        from flambeau._tensor_types import tensor_type

        return tensor_type(name)
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_PACKAGES, *_FROM})
