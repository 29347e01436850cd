"""How the library was built, as text."""

from __future__ import annotations

import flambeau

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The version, the instruction sets and the libraries behind products of matrices."""
    lines = [
        f"Flambeau {flambeau.__version__}, for programs written for PyTorch:",
        "  - C++ standard: 202002",
        f"  - CPU capability usage: {flambeau.backends.cpu.get_cpu_capability()}",
        f"  - oneDNN: {flambeau.backends.mkldnn.is_available()}",
        f"  - CUDA: {flambeau.cuda.is_available()}",
        "  - Build settings: USE_CUDA=ON, USE_MKL=OFF, USE_MKLDNN=ON, USE_OPENMP=ON",
    ]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads compute."""
    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {flambeau.get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {flambeau.get_num_interop_threads()}\n"
        "ATen parallel backend: OpenMP\n"
    )
