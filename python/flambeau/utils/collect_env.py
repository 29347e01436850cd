"""A report of the environment a program runs in, for logs and bug reports.

`python -m flambeau.utils.collect_env` prints it.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import NamedTuple

import flambeau

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]


class SystemEnv(NamedTuple):
    """What the report tells."""

    torch_version: str
    is_debug_build: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    nvidia_gpu_models: str
    cpu_info: str
    cpu_count: str
    num_threads: str


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def get_env_info() -> SystemEnv:
    """The facts of the report."""
    has_cuda = flambeau.cuda.is_available()
    devices = range(flambeau.cuda.device_count()) if has_cuda else ()
    return SystemEnv(
        torch_version=str(flambeau.__version__),
        is_debug_build=str(flambeau.version.debug),
        os=platform.platform(),
        libc_version="-".join(platform.libc_ver()),
        python_version=sys.version.replace("\n", " "),
        python_platform=platform.machine(),
        is_cuda_available=str(has_cuda),
        nvidia_gpu_models=", ".join(map(flambeau.cuda.get_device_name, devices)) or "none",
        cpu_info=_cpu_model(),
        cpu_count=str(os.cpu_count()),
        num_threads=str(flambeau.get_num_threads()),
    )


_TITLES = {
    "torch_version": "Flambeau version",
    "is_debug_build": "Is debug build",
    "os": "OS",
    "libc_version": "Libc version",
    "python_version": "Python version",
    "python_platform": "Python platform",
    "is_cuda_available": "Is CUDA available",
    "nvidia_gpu_models": "GPU models",
    "cpu_info": "CPU",
    "cpu_count": "CPU cores",
    "num_threads": "Threads",
}


def get_pretty_env_info() -> str:
    """The report as text."""
    facts = get_env_info()._asdict()
    return "\n".join(f"{_TITLES[name]}: {value}" for name, value in facts.items())


def main() -> None:
    """Prints the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
