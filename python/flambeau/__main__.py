"""Runs a program written for PyTorch, unchanged, with Flambeau in the place of torch.

python -m flambeau script.py ...      a script, with its arguments
python -m flambeau -m module ...      a module, as `python -m module ...` would
python -m flambeau -c command ...     a line of Python
python -m flambeau - ...              a script from the standard input
python -m flambeau --cmake-dir        where find_package finds the library: CMAKE_PREFIX_PATH
"""

from __future__ import annotations

import os
import sys
import types

from flambeau._as_torch import install

_USAGE = (
    "usage: python -m flambeau (script.py | -m module | -c command | -) [arguments] | --cmake-dir"
)


def _new_main(file: str | None) -> types.ModuleType:
    """A `__main__` without this file's names, which is where multiprocessing looks for the
    program's functions.
    """
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if file is not None:
        main.__file__ = file
    sys.modules["__main__"] = main
    return main


def _run(source: str | bytes, name: str, file: str | None = None) -> None:
    """Runs a program's text, without the statements about the future that stand in this file."""
    exec(compile(source, name, "exec", dont_inherit=True), _new_main(file).__dict__)


def _run_script(path: str) -> None:
    with open(path, "rb") as file:
        source = file.read()
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    _run(source, path, path)


def main(arguments: list[str]) -> int:
    """Runs what the command line asks for; gives back the exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    kind, *rest = arguments
    if kind == "--cmake-dir":
        from flambeau.utils import cmake_prefix_path

        print(cmake_prefix_path)
        return 0
    if kind in ("-m", "-c") and not rest:
        print(f"argument expected for the {kind} option\n{_USAGE}", file=sys.stderr)
        return 2
    install()
    if kind == "-m":
        import runpy

        sys.argv = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        _run(rest[0], "<string>")
    elif kind == "-":
        sys.argv = arguments
        sys.path[0] = ""
        _run(sys.stdin.read(), "<stdin>")
    elif os.path.isfile(kind):
        sys.argv = arguments
        _run_script(kind)
    else:
        print(f"python -m flambeau: can't open file '{kind}'\n{_USAGE}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
