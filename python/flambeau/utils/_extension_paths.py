"""Where an extension module finds what it is built with: compilers, headers, libraries."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig

import flambeau
from flambeau.torch_version import TorchVersion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = os.path.dirname(os.path.abspath(flambeau.__file__))
# What the headers are written in; extensions that ask for less are compiled with it, too.
CPP_STANDARD = "-std=c++20"
COMMON_NVCC_FLAGS = ["--expt-relaxed-constexpr"]
LIBRARIES = ["flambeau_nn", "flambeau_torch", "flambeau"]
# PyTorch's libraries, which extensions name sometimes: what was in them is in ours.
_OTHER_NAMES = {"c10", "torch", "torch_cpu", "torch_python", "torch_cuda", "c10_cuda"}


def _find_cuda_home() -> str | None:
    """The toolkit's folder: what the environment names, or where its compiler is."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home is None and (nvcc := shutil.which("nvcc")) is not None:
        home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    if home is None and os.path.exists("/usr/local/cuda/bin/nvcc"):
        home = "/usr/local/cuda"
    return home


CUDA_HOME = _find_cuda_home()
CUDNN_HOME = os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")
ROCM_HOME = SYCL_HOME = None


def join_cuda_home(*paths: str) -> str:
    """A path in the toolkit's folder."""
    if CUDA_HOME is None:
        raise OSError(
            "CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
        )
    return os.path.join(CUDA_HOME, *paths)


def get_cxx_compiler() -> str:
    """The C++ compiler: what CXX names, or c++."""
    return os.environ.get("CXX", "c++")


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GCC, whatever it is called."""
    try:
        text = _run([*compiler.split(), "-v"])
    except (OSError, subprocess.CalledProcessError):
        return False
    return re.search(r"^gcc version", text, re.MULTILINE) is not None


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler can build extensions here: GCC and Clang can."""
    try:
        text = _run([*compiler.split(), "-v"])
    except (OSError, subprocess.CalledProcessError):
        return False
    return re.search(r"^gcc version|clang version", text, re.MULTILINE) is not None


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, TorchVersion]:
    """Whether a compiler's code can be linked with the library, and the compiler's version."""
    if not check_compiler_ok_for_platform(compiler):
        return False, TorchVersion("0.0.0")
    text = _run([*compiler.split(), "-dumpfullversion", "-dumpversion"])
    version = TorchVersion(text.split()[0])
    return version >= ((12,) if check_compiler_is_gcc(compiler) else (14,)), version


def _run(command: Sequence[str]) -> str:
    return subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout


@functools.cache
def is_ninja_available() -> bool:
    """Whether the build tool ninja can be run."""
    try:
        subprocess.check_output(["ninja", "--version"])
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def verify_ninja_availability() -> None:
    """Raises RuntimeError where ninja cannot be run."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of headers that an extension needs."""
    paths = []
    if torch_include_dirs:
        own = os.path.join(_PACKAGE, "include")
        paths += [own, os.path.join(own, "flambeau", "compat"), _pybind11_include()]
    if device_type == "cuda":
        paths.append(join_cuda_home("include"))
        if CUDNN_HOME is not None:
            paths.append(os.path.join(CUDNN_HOME, "include"))
    return paths


def _pybind11_include() -> str:
    try:
        import pybind11
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "C++ extensions need pybind11's headers (pip install pybind11 to get them)",
            name="pybind11",
        ) from None
    return str(pybind11.get_include())


def library_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:
    """The folders of libraries that an extension needs."""
    paths = [_PACKAGE] if torch_include_dirs else []
    if device_type == "cuda":
        paths.append(join_cuda_home("lib64"))
        if CUDNN_HOME is not None:
            paths.append(os.path.join(CUDNN_HOME, "lib64"))
    return paths


def python_include() -> str:
    """The folder of Python's own headers."""
    return sysconfig.get_path("include", scheme="posix_prefix")


def link_flags(with_cuda: bool) -> list[str]:
    """What the linker is told: libraries, and where they are found when a program starts."""
    flags = [f"-L{path}" for path in library_paths("cuda" if with_cuda else "cpu")]
    flags += [f"-Wl,-rpath,{_PACKAGE}", "-Wl,--as-needed"]
    flags += [f"-l{library}" for library in LIBRARIES]
    return flags + ["-lcudart"] * with_cuda


def own_libraries(libraries: Sequence[str]) -> list[str]:
    """Libraries to link, without the names of PyTorch's."""
    return [library for library in libraries if library not in _OTHER_NAMES]


def with_standard(flags: Sequence[str]) -> list[str]:
    """Flags of a compiler with the standard that the headers need, or a later one of theirs."""
    later = [flag for flag in flags if re.match(r"-{1,2}std=(c|gnu)\+\+2[^0a]", flag)]
    others = [flag for flag in flags if not re.match(r"-{1,2}std=", flag)]
    return [*others, later[-1] if later else CPP_STANDARD]


def name_flags(name: str) -> list[str]:
    """The macros by which an extension knows how its module is called."""
    return [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]


def cuda_flags(flags: Sequence[str]) -> list[str]:
    """nvcc's flags: those given, and which GPUs to compile for unless they say so."""
    chosen = [*COMMON_NVCC_FLAGS, "--compiler-options", "-fPIC", *flags]
    if any(flag.startswith(("-arch", "-gencode", "--gpu-architecture")) for flag in flags):
        return with_standard(chosen)
    architectures = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if architectures:
        for each in re.split(r"[;\s]+", architectures.strip()):
            number = each.replace("+PTX", "").replace(".", "")
            chosen.append(f"-gencode=arch=compute_{number},code=sm_{number}")
            if each.endswith("+PTX"):
                chosen.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    elif flambeau.cuda.is_available():
        chosen.append("-arch=sm_{}{}".format(*flambeau.cuda.get_device_capability()))
    return with_standard(chosen)


def is_cuda_source(path: str) -> bool:
    """Whether nvcc compiles this file."""
    return os.path.splitext(path)[1] in (".cu", ".cuh")


def get_default_build_root() -> str:
    """The folder below which `load` builds; TORCH_EXTENSIONS_DIR names another one."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.realpath(os.path.join(cache, "flambeau_extensions"))


def build_folder(name: str, verbose: bool) -> str:
    """The folder in which an extension of that name is built, for this interpreter."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        python = f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}_cpu"
        root = os.path.join(get_default_build_root(), python)
    folder = os.path.join(root, name)
    if verbose:
        print(f"Using {root} as extensions root...", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    return folder
