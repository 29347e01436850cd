"""Runs a program written for PyTorch, unchanged, with Flambeau in the place of torch.

python -m flambeau script.py ...      a script, with its arguments
python -m flambeau -m module ...      a module, as `python -m module ...` would
python -m flambeau -c command ...     a line of Python
python -m flambeau - ...              a script from the standard input
"""

from __future__ import annotations

import os
import sys
import types

from flambeau._as_torch import install

_USAGE = "usage: python -m flambeau (script.py | -m module | -c command | -) [arguments]"


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


def _run_script(path: str) -> None:
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    exec(code, _new_main(path).__dict__)


def main(arguments: list[str]) -> int:
    """Runs what the command line asks for; gives back the exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    kind, *rest = arguments
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
        exec(compile(rest[0], "<string>", "exec"), _new_main(None).__dict__)
    elif kind == "-":
        sys.argv = arguments
        sys.path[0] = ""
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), _new_main(None).__dict__)
    elif os.path.isfile(kind):
        sys.argv = arguments
        _run_script(kind)
    else:
        print(f"python -m flambeau: can't open file '{kind}'\n{_USAGE}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
