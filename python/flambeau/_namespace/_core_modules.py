"""Modules of PyTorch's core, and which ones stand for them here: `torch._C._nn` is `nn._core`."""

from __future__ import annotations

CORE_MODULES = {
    "_autograd": "autograd._core",
    "_distributed_c10d": "distributed.distributed_c10d",
    "_functorch": "func._core",
    "_nn": "nn._core",
    "_profiler": "profiler._core",
}
