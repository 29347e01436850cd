"""The CPU: which instructions its kernels may use."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vector instructions that the kernels in use are made of: "AVX512" or "AVX2"."""
    with open("/proc/self/maps") as file:
        return "AVX512" if "libflambeau_cpu_v4.so" in file.read() else "AVX2"
