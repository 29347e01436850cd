"""A report of the environment a program runs in, for logs and bug reports.

`python -m flambeau.utils.collect_env` prints it.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import flambeau

__all__ = [
    "SystemEnv",
    "get_clang_version",
    "get_cmake_version",
    "get_cpu_info",
    "get_env_info",
    "get_gcc_version",
    "get_gpu_info",
    "get_libc_version",
    "get_nvidia_driver_version",
    "get_nvidia_smi",
    "get_os",
    "get_platform",
    "get_pretty_env_info",
    "get_python_platform",
    "get_running_cuda_version",
    "main",
    "run",
    "run_and_parse_first_match",
    "run_and_read_all",
    "run_and_return_first_line",
]

# What the functions below ask to run a command: `run`, or another of the same form.
Runner = Callable[..., tuple[int, str, str]]


def run(command: str | list[str]) -> tuple[int, str, str]:
    """Runs a command, a string in a shell: the exit status, what it printed, and its complaints."""
    try:
        done = subprocess.run(
            command, shell=isinstance(command, str), capture_output=True, check=False
        )
    except FileNotFoundError as error:
        return 127, "", str(error)
    out, err = (text.decode("utf-8", "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, out, err


def run_and_read_all(run_lambda: Runner, command: str | list[str]) -> str | None:
    """What a command printed, or None if it failed."""
    status, out, _ = run_lambda(command)
    return out if status == 0 else None


def run_and_return_first_line(run_lambda: Runner, command: str | list[str]) -> str | None:
    """The first line that a command printed, or None if it failed."""
    out = run_and_read_all(run_lambda, command)
    return None if out is None else out.split("\n")[0]


def run_and_parse_first_match(
    run_lambda: Runner, command: str | list[str], regex: str
) -> str | None:
    """The first group of a pattern in what a command printed, or None."""
    out = run_and_read_all(run_lambda, command)
    match = None if out is None else re.search(regex, out)
    return match.group(1) if match else None


def get_gcc_version(run_lambda: Runner) -> str | None:
    """The version of the gcc on the path, or None."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: Runner) -> str | None:
    """The version of the clang on the path, or None."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (\S+)")


def get_cmake_version(run_lambda: Runner) -> str | None:
    """The version of the cmake on the path, or None."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_smi() -> str:
    """The command that asks NVIDIA's driver."""
    return "nvidia-smi"


def get_nvidia_driver_version(run_lambda: Runner) -> str | None:
    """The version of NVIDIA's driver, or None without one."""
    query = f"{get_nvidia_smi()} --query-gpu=driver_version --format=csv,noheader"
    return run_and_return_first_line(run_lambda, query)


def get_gpu_info(run_lambda: Runner) -> str | None:
    """A line for each NVIDIA GPU, "GPU 0: its name", or None without a driver."""
    out = run_and_read_all(run_lambda, f"{get_nvidia_smi()} -L")
    return None if out is None else re.sub(r" \(UUID: .+?\)", "", out)


def get_running_cuda_version(run_lambda: Runner) -> str | None:
    """The version of the CUDA compiler on the path, or None."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cpu_info(run_lambda: Runner) -> str:
    """What the system tells about its processors, a "name: value" in each line."""
    return run_and_read_all(run_lambda, "lscpu") or f"Model name: {_cpu_model()}"


def get_platform() -> str:
    """ "linux", "darwin", "win32" or another of `sys.platform`."""
    return sys.platform


def get_python_platform() -> str:
    """The machine, its system and its C library in one line."""
    return platform.platform()


def get_libc_version() -> str:
    """The C library, such as "glibc-2.36"."""
    return "-".join(platform.libc_ver())


def get_os(run_lambda: Runner) -> str:
    """The system by the name it gives itself, and the machine."""
    release = "cat /etc/os-release"
    name = run_and_parse_first_match(run_lambda, release, r'PRETTY_NAME="(.*)"')
    return f"{name or platform.system()} ({platform.machine()})"


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
