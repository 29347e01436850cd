"""Extension modules built by setuptools: what a setup.py names, and the command that builds it."""

from __future__ import annotations

import os
import shlex

import setuptools
from setuptools.command.build_ext import build_ext

from flambeau.utils import _extension_paths as paths
from flambeau.utils._extension_build import Build

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """A setuptools.Extension of C++ sources, with the headers and libraries that it needs."""
    return _extension("cpu", name, sources, args, kwargs)


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """A setuptools.Extension of C++ and CUDA sources, which needs a CUDA toolkit."""
    if kwargs.pop("dlink", False) or kwargs.pop("dlink_libraries", None):
        raise NotImplementedError("CUDAExtension: device code is not linked across files")
    return _extension("cuda", name, sources, args, kwargs)


def SyclExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Refuses: there are no SYCL devices."""
    raise NotImplementedError("SyclExtension: Flambeau has no SYCL devices")


def _extension(
    device_type: str, name: str, sources: Any, args: Any, kwargs: dict[str, Any]
) -> setuptools.Extension:
    def add(key: str, values: list[str]) -> None:
        kwargs[key] = [*(kwargs.get(key) or ()), *values]

    add("include_dirs", paths.include_paths(device_type))
    add("library_dirs", paths.library_paths(device_type))
    add("runtime_library_dirs", paths.library_paths())
    kwargs["libraries"] = paths.own_libraries(kwargs.get("libraries") or ())
    add("libraries", [*["cudart"] * (device_type == "cuda"), *paths.LIBRARIES])
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


class BuildExtension(build_ext):
    """The command build_ext for extensions of C++ and CUDA sources.

    Options, by `with_options`: `no_python_abi_suffix=True` names files name.so, without the
    interpreter's version; `use_ninja=False` compiles without ninja.
    """

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The command with options set."""

        class cls_with_options(cls):  # type: ignore[valid-type, misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, **options})

        return cls_with_options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        self.use_ninja = kwargs.pop("use_ninja", True)
        super().__init__(*args, **kwargs)

    def build_extension(self, ext: Any) -> None:
        """Builds one extension, all of whose sources are compiled at the same time."""
        given = ext.extra_compile_args or []
        flags = given if isinstance(given, dict) else {"cxx": given, "nvcc": given}
        self._flags = {key: list(flags.get(key, ())) for key in ("cxx", "nvcc")}
        self._flags["name"] = paths.name_flags(ext.name.rpartition(".")[2])
        ext.extra_compile_args = []
        compile_objects = self.compiler.compile
        self.compiler.src_extensions = [*self.compiler.src_extensions, ".cu", ".cuh"]
        self.compiler.compile = lambda sources, **how: self._compile(ext.name, sources, **how)
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_objects
            ext.extra_compile_args = given

    def _compile(
        self,
        name: str,
        sources: list[str],
        output_dir: str | None = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_postargs: Any = None,
        depends: Any = None,
        **_: Any,
    ) -> list[str]:
        """Takes the place of the compiler's method; gives the paths of objects."""
        compiler = self.compiler
        folder = output_dir or "."
        preprocess = compiler._setup_compile(
            folder, macros, include_dirs, sources, depends, extra_postargs
        )[3]
        common = [*(os.fspath(each) for each in preprocess), *self._flags["name"]]
        usual = [*compiler.compiler_so[1:], *shlex.split(os.environ.get("CXXFLAGS", ""))]
        usual = [flag for flag in usual if flag != "-Wstrict-prototypes"]  # of C alone
        build = Build(
            name,
            os.path.join(folder, name),
            paths.with_standard([*usual, *["-g"] * bool(debug), *common, *self._flags["cxx"]]),
            paths.cuda_flags([*common, *self._flags["nvcc"]]),
        )
        build.use_ninja = self.use_ninja
        objects = []
        for source in sources:
            [plain] = compiler.object_filenames([source], output_dir=folder)
            objects.append(plain[:-2] + ".cuda.o" if source.endswith(".cu") else plain)
            build.compile(source, objects[-1])
        build.run(verbose=True)
        return objects

    def get_ext_filename(self, ext_name: str) -> str:
        """The file's name, as the options want it."""
        name = str(super().get_ext_filename(ext_name))
        if not self.no_python_abi_suffix:
            return name
        folder, file = os.path.split(name)
        stem, suffix = file.split(".")[0], file.rpartition(".")[2]
        return os.path.join(folder, f"{stem}.{suffix}")
