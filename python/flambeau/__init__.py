"""Flambeau: eager tensors with automatic differentiation, in PyTorch's words.

`import flambeau as torch` runs programs written for PyTorch. This module gathers names: the core's
types and ops, and the packages around them, which are loaded when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os

# By default a waiting OpenMP thread spins for milliseconds. Where cores are shared with other
# programs, that takes them from the very threads that are waited for, and training becomes ten
# times slower; a thousand turns bridge the gap between two ops. libgomp reads this while it is
# loaded.
_quiet = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & _os.environ.keys()
if _quiet:
    _os.environ["GOMP_SPINCOUNT"] = "1000"
from flambeau import _C  # noqa: E402

if _quiet:
    del _os.environ["GOMP_SPINCOUNT"]

# Every public op and type of the core. They shadow builtins (sum, abs, ...) as PyTorch's do, so
# this file itself uses no builtin of such a name.
globals().update({_name: _value for _name, _value in vars(_C).items() if _name[0] != "_"})

inf = 1e400
nan = inf - inf
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None
legacy_contiguous_format = _C.contiguous_format

from flambeau import _tensor  # noqa: E402


def _core_name(name):
    from flambeau._namespace import _core_names

    return _core_names.attribute(name)


_C.__getattr__ = _core_name

_tensor.attach(_C.Tensor)

# Ops that PyTorch has under these names, and that programs with samplers of their own call.
from flambeau._C import (  # noqa: E402
    _dirichlet_grad,
    _sample_dirichlet,
    _sobol_engine_draw,
    _standard_gamma,
    _standard_gamma_grad,
)
from flambeau._namespace._foreach import *  # noqa: E402, F403
from flambeau._namespace._interop import *  # noqa: E402, F403
from flambeau._namespace._norms import *  # noqa: E402, F403
from flambeau._namespace._settings import *  # noqa: E402, F403
from flambeau._namespace._statistics import *  # noqa: E402, F403
from flambeau._namespace._statistics import segment_reduce as _segment_reduce  # noqa: E402
from flambeau._namespace._symbolic import *  # noqa: E402, F403
from flambeau._tensor_str import set_printoptions  # noqa: E402
from flambeau.autograd import (  # noqa: E402
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from flambeau.functional import *  # noqa: E402, F403
from flambeau.random import *  # noqa: E402, F403
from flambeau.torch_version import __version__  # noqa: E402

# Names whose packages are not loaded at once.
_HOMES = {"save": "serialization", "load": "serialization", "compile": "compiler", "vmap": "func"}
_HOMES.update(dict.fromkeys(("pca_lowrank", "svd_lowrank"), "_lowrank"))
_HOMES.update(dict.fromkeys(("istft", "stft"), "_namespace._stft"))
_SPARSE = "sparse_{}_tensor".format
_HOMES.update(
    dict.fromkeys(map(_SPARSE, "coo csr csc bsr bsc compressed".split()), "sparse._construct")
)
_INDICES = ("_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo")
_HOMES.update(dict.fromkeys(_INDICES, "sparse._indices"))
_HOMES["_validate_sparse_coo_tensor_args"] = "sparse._construct"
_HOMES["_validate_sparse_compressed_tensor_args"] = "sparse._construct"
_HOMES.update(_sparse_broadcast_to="_C", _neg_view="_C")
_SPARSE_PRODUCTS = "dsmm hsmm hspmm saddmm smm spmm sspaddmm".split()
_HOMES.update(dict.fromkeys(_SPARSE_PRODUCTS, "sparse"))
_HOMES["lobpcg"] = "_lobpcg"
_HOMES.update(_int_mm="_namespace._matmul_names", _addmm_activation="_C")
_HOMES.update(Event="_namespace._streams", Stream="_namespace._streams", jagged="nested")
_HOMES.update(ops="_ops", classes="_ops", Tag="library", Future="futures", ScriptModule="jit")
_HOMES.update(GradScaler="amp", _disable_dynamo="_compile")
_HOMES.update(_softmax_backward_data="_C", _log_softmax_backward_data="_C")
_HOMES["_amp_update_scale_"] = "amp.grad_scaler"
_OLD_LINALG = ("cholesky", "eig", "lstsq", "lu", "matrix_rank", "qr", "solve", "symeig")
_HOMES.update(dict.fromkeys(_OLD_LINALG, "_linalg_utils"))
_HOMES["autocast"] = "amp.autocast_mode"
_AUTOCAST = (
    "clear_autocast_cache autocast_increment_nesting autocast_decrement_nesting "
    "get_autocast_dtype is_autocast_cache_enabled is_autocast_enabled set_autocast_cache_enabled "
    "set_autocast_dtype set_autocast_enabled"
)
_HOMES.update(dict.fromkeys(_AUTOCAST.split(), "_C"))
_AUTOCAST = (
    "get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled set_autocast_cpu_dtype "
    "set_autocast_cpu_enabled set_autocast_gpu_dtype"
)
_HOMES.update(dict.fromkeys(_AUTOCAST.split(), "amp._older_names"))
_QUANTIZED = (
    "quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel dequantize int_repr "
    "q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis "
    "empty_quantized _empty_affine_quantized _empty_per_channel_affine_quantized "
    "_make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor "
    "_choose_qparams_per_tensor quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d"
)
_HOMES.update(dict.fromkeys(_QUANTIZED.split(), "_quantized"))
_SCHEMES = (
    "qscheme per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric "
    "per_channel_affine_float_qparams"
)
_HOMES.update(dict.fromkeys(_SCHEMES.split(), "_quantized._scheme"))


_ABSENT_CLASSES = "Flambeau has flambeau.load"


def __getattr__(name):
    """Packages, and names out of packages, on first use: who only computes never pays for them."""
    if name == "__config__":
        return _importlib.import_module("flambeau.__config__")
    if name == "torch":
        # PyTorch's package has itself as an attribute, and libraries have come to use it.
        return _importlib.import_module("flambeau")
    if name[:2] != "__" and name.isidentifier():
        home = "storage" if name.endswith(("Storage", "StorageBase")) else _HOMES.get(name)
        if home:
            value = getattr(_importlib.import_module(f"flambeau.{home}"), name)
            globals()[name] = value
            return value
        if name.endswith("Tensor"):
            from flambeau._namespace._tensor_types import tensor_type

            return tensor_type(name)
        from flambeau._absent import dtype as absent_dtype

        if (absent := absent_dtype(name)) is not None:
            return absent
        if name == "PyTorchFileWriter" or name.endswith("Type") or name == "ScriptObject":
            return getattr(_C, name)
        if name == "PyTorchFileReader":
            from flambeau._absent import absent as absent_class

            globals()[name] = absent_class("flambeau", name, _ABSENT_CLASSES)
            return globals()[name]
        full = f"flambeau.{name}"
        try:
            return _importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
        if name[0] == "_":
            from flambeau._operators import _aten_private

            if (inner := vars(_aten_private).get(name)) is not None and callable(inner):
                return inner
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
