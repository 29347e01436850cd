"""Compiling and linking: with ninja where it is there, which knows what has changed, and else one
command after the other on all cores.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from flambeau.utils import _extension_paths as paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Build:
    """The objects of some sources, and what is linked from them.

    Args:
        name: of the extension, for errors.
        folder: where ninja keeps what it knows.
        flags: the C++ compiler's.
        cuda_flags: nvcc's.
    """

    def __init__(
        self, name: str, folder: str, flags: Sequence[str], cuda_flags: Sequence[str]
    ) -> None:
        self.name, self.folder = name, folder
        self.compiler = paths.get_cxx_compiler()
        self.flags, self.cuda_flags = list(flags), list(cuda_flags)
        self.objects: list[tuple[str, str]] = []  # source, object
        self.target: str | None = None
        self.use_ninja = True
        self.link_flags: list[str] = []

    def compile(self, source: str, object_file: str) -> None:
        """Adds a source and where its object goes."""
        self.objects.append((os.path.abspath(source), os.path.abspath(object_file)))

    def link(self, target: str, flags: Sequence[str]) -> None:
        """Says what all objects are linked to. It appears when it is whole."""
        self.target, self.link_flags = os.path.abspath(target), list(flags)

    def run(self, verbose: bool = False) -> None:
        """Builds; raises RuntimeError with the compiler's message where that fails."""
        for _, object_file in self.objects:
            os.makedirs(os.path.dirname(object_file), exist_ok=True)
        if self.use_ninja and paths.is_ninja_available():
            self._run_ninja(verbose)
        else:
            self._run_commands(verbose)

    def _nvcc(self) -> str:
        return os.environ.get("PYTORCH_NVCC") or paths.join_cuda_home("bin", "nvcc")

    def _compile_command(self, source: str, object_file: str) -> list[str]:
        if paths.is_cuda_source(source):
            compiler, flags = self._nvcc(), self.cuda_flags
        else:
            compiler, flags = self.compiler, self.flags
        depends = ["-MD", "-MF", f"{object_file}.d"]
        return [*compiler.split(), *depends, *flags, "-c", source, "-o", object_file]

    def _link_command(self) -> str:
        assert self.target is not None
        part = f"{self.target}.part"
        objects = [object_file for _, object_file in self.objects]
        command = [*self.compiler.split(), *objects, *self.link_flags, "-o", part]
        return f"{shlex.join(command)} && mv -f {shlex.quote(part)} {shlex.quote(self.target)}"

    def _run_ninja(self, verbose: bool) -> None:
        def escape(path: str) -> str:
            return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")

        text = ["ninja_required_version = 1.3", "rule compile", "  command = $command"]
        text += ["  depfile = $out.d", "  deps = gcc", "rule link", "  command = $command"]
        for source, object_file in self.objects:
            command = shlex.join(self._compile_command(source, object_file))
            text.append(f"build {escape(object_file)}: compile {escape(source)}")
            text.append("  command = " + command.replace("$", "$$"))
        if self.target is not None:
            objects = " ".join(escape(object_file) for _, object_file in self.objects)
            text.append(f"build {escape(self.target)}: link {objects}")
            text.append("  command = " + self._link_command().replace("$", "$$"))
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "build.ninja"), "w") as file:
            file.write("\n".join(text) + "\n")
        run = ["ninja"] + ["-v"] * verbose
        if jobs := os.environ.get("MAX_JOBS", ""):
            run += ["-j", jobs]
        self._check(_run(run, self.folder), verbose)

    def _run_commands(self, verbose: bool) -> None:
        def run(command: str) -> subprocess.CompletedProcess[str]:
            if verbose:
                print(command, file=sys.stderr)
            return _run(["sh", "-c", command])

        commands = [shlex.join(self._compile_command(*each)) for each in self.objects]
        jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
        with ThreadPoolExecutor(jobs) as pool:
            for done in pool.map(run, commands):
                self._check(done, verbose)
        if self.target is not None:
            self._check(run(self._link_command()), verbose)

    def _check(self, done: subprocess.CompletedProcess[str], verbose: bool) -> None:
        if done.returncode:
            raise RuntimeError(f"Error building extension '{self.name}': {done.stdout}")
        if verbose:
            print(done.stdout, end="", file=sys.stderr)


def _run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
