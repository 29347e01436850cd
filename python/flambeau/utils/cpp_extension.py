"""Extension modules in C++: built when a program runs (`load`, `load_inline`) or by setuptools.

They include `torch/extension.h`, bind functions with pybind11, or register operators with
TORCH_LIBRARY. See docs/extensions.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os

import flambeau
from flambeau.utils import _extension_paths as paths
from flambeau.utils._extension_build import Build
from flambeau.utils._extension_paths import (
    check_compiler_is_gcc,
    check_compiler_ok_for_platform,
    get_compiler_abi_compatibility_and_version,
    get_cxx_compiler,
    get_default_build_root,
    include_paths,
    is_ninja_available,
    library_paths,
    verify_ninja_availability,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from flambeau.utils._extension_setup import (
        BuildExtension,
        CppExtension,
        CUDAExtension,
        SyclExtension,
    )

CUDA_HOME, CUDNN_HOME = paths.CUDA_HOME, paths.CUDNN_HOME
ROCM_HOME, SYCL_HOME, IS_HIP_EXTENSION = paths.ROCM_HOME, paths.SYCL_HOME, False
COMMON_NVCC_FLAGS = paths.COMMON_NVCC_FLAGS

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
]

# What was built in this process: by name, the hash of what it was built from, how often it was
# built, and what it gave.
_built: dict[str, tuple[str, int, Any]] = {}


def __getattr__(name: str) -> Any:
    # setuptools takes as long to import as all of this package.
    if name in ("BuildExtension", "CppExtension", "CUDAExtension", "SyclExtension"):
        from flambeau.utils import _extension_setup

        return getattr(_extension_setup, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: str | Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Builds an extension, unless that has been done, and imports it.

    Args:
        name: of the module; `TORCH_EXTENSION_NAME` is that in its sources.
        sources: paths of C++ and CUDA sources.
        extra_cflags: flags of the C++ compiler.
        extra_cuda_cflags: flags of nvcc.
        extra_sycl_cflags: refused unless empty, as is `with_sycl`: there is no SYCL here.
        extra_ldflags: flags of the linker.
        extra_include_paths: folders of headers.
        build_directory: where it is built; a folder of the user's cache by default.
        verbose: shows what is run.
        with_cuda: compiles and links with the CUDA toolkit; by default if there is a CUDA source.
        is_python_module: imports what was built; False loads a library of operators instead, and
            gives back its path.
        is_standalone: builds a program, and gives back its path.
        keep_intermediates: accepted for compatibility.

    """
    if with_sycl or extra_sycl_cflags:
        raise NotImplementedError("cpp_extension.load: Flambeau has no SYCL devices")
    files = [sources] if isinstance(sources, str) else [os.fspath(each) for each in sources]
    folder = build_directory or paths.build_folder(name, verbose)
    extra = [extra_include_paths] if isinstance(extra_include_paths, str) else extra_include_paths
    cuda = any(map(paths.is_cuda_source, files)) if with_cuda is None else with_cuda
    flags = [f"-I{os.path.abspath(each)}" for each in extra or ()]
    flags += [f"-isystem{each}" for each in include_paths("cuda" if cuda else "cpu")]
    flags.append(f"-isystem{paths.python_include()}")
    link = [*(extra_ldflags or ()), *paths.link_flags(cuda)]
    options = [flags, list(extra_cflags or ()), list(extra_cuda_cflags or ()), link]
    return _load(name, files, folder, options, verbose, is_python_module, is_standalone)


def _load(
    name: str,
    files: list[str],
    folder: str,
    options: list[list[str]],
    verbose: bool,
    is_python_module: bool,
    is_standalone: bool,
) -> Any:
    """Builds under a lock that other processes respect, and loads."""
    flags, extra_flags, extra_cuda_flags, link = options
    digest = _digest(files, options)
    before, version, loaded = _built.get(name, (digest, 0, None))
    if before == digest and loaded is not None:
        return loaded
    # A module that was imported cannot be replaced in its process: another one is made beside it.
    version += digest != before
    full_name = f"{name}_v{version}" if version else name
    common = [*flags, *([] if is_standalone else paths.name_flags(full_name))]
    build = Build(
        name,
        folder,
        paths.with_standard(["-fPIC", *common, *extra_flags]),
        paths.cuda_flags([*common, *extra_cuda_flags]),
    )
    for source in files:
        stem, suffix = os.path.splitext(os.path.basename(source))
        ending = ".cuda.o" if suffix == ".cu" else ".o"
        build.compile(source, os.path.join(folder, stem + ending))
    target = os.path.join(folder, full_name + ("" if is_standalone else ".so"))
    build.link(target, link if is_standalone else ["-shared", *link])
    with _lock(folder):
        build.run(verbose)
    if is_standalone:
        return target
    loaded = target
    if is_python_module:
        loaded = _import(full_name, target)
    else:
        flambeau.ops.load_library(target)
    _built[name] = (digest, version, loaded)
    return loaded


def _digest(files: Sequence[str], options: Any) -> str:
    digest = hashlib.sha256(repr((list(files), options)).encode())
    for path in files:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


@contextlib.contextmanager
def _lock(folder: str) -> Iterator[None]:
    """Lets one process at a time build in a folder. A process that dies lets go."""
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _import(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cpp_extension.load: {path} is no module", name=name, path=path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | dict[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: str | Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    gil_not_used: bool = False,
) -> Any:
    """Builds an extension from sources in strings, and imports it. See `load` for the rest.

    Args:
        name: of the module.
        cpp_sources: C++ text; `torch/extension.h` is included before it.
        cuda_sources: CUDA text; headers of the toolkit and `torch/types.h` are included before it.
        functions: names of functions to bind, or names and docstrings.
        with_pytorch_error_handling: accepted for compatibility: errors are always translated.
        use_pch: accepted for compatibility.
        no_implicit_headers: leaves the headers to the text.
        gil_not_used: says that the module does without the GIL.

    """
    if sycl_sources:
        raise NotImplementedError("cpp_extension.load_inline: Flambeau has no SYCL devices")
    folder = build_directory or paths.build_folder(name, verbose)
    cpp = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    cuda = [cuda_sources] if isinstance(cuda_sources, str) else list(cuda_sources or ())
    if not no_implicit_headers:
        cpp = ["#include <torch/extension.h>", *cpp]
        cuda = [f"#include <{header}>" for header in _CUDA_HEADERS] + cuda
    if functions is not None:
        cpp += _bindings(functions, gil_not_used)
    files = [os.path.join(folder, "main.cpp")]
    _write(files[0], cpp)
    if cuda_sources:
        files.append(os.path.join(folder, "cuda.cu"))
        _write(files[1], cuda)
    return load(
        name,
        files,
        extra_cflags,
        extra_cuda_cflags,
        extra_sycl_cflags,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        with_cuda,
        with_sycl,
        is_python_module,
        is_standalone=False,
        keep_intermediates=keep_intermediates,
    )


_CUDA_HEADERS = ("torch/types.h", "cuda.h", "cuda_runtime.h")


def _bindings(functions: str | Sequence[str] | dict[str, str], gil_not_used: bool) -> list[str]:
    if isinstance(functions, str):
        functions = [functions]
    if not isinstance(functions, dict):
        functions = {each: each for each in functions}
    last = ", py::mod_gil_not_used()" if gil_not_used else ""
    lines = [f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m{last}) {{"]
    for each, doc in functions.items():
        text = doc.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  m.def("{each}", torch::wrap_pybind_function({each}), "{text}");')
    return [*lines, "}"]


def _write(path: str, parts: Sequence[str]) -> None:
    """Writes a source, unless it says the same already: what did not change is not built again."""
    text = "\n".join(parts) + "\n"
    with contextlib.suppress(OSError), open(path) as file:
        if file.read() == text:
            return
    part = f"{path}.{os.getpid()}"
    with open(part, "w") as file:
        file.write(text)
    os.replace(part, path)


def remove_extension_h_precompiler_headers() -> None:
    """Does nothing: headers are not precompiled."""
