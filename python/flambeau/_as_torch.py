"""Makes `import torch` mean Flambeau in this process, submodules included.

A finder in front of Python's own answers for `torch` and everything below it with the module of
the same name in this package, the very same object; an installed PyTorch is neither loaded nor
touched. What Flambeau does not have stays missing, and the error says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys

from flambeau._namespace._core_modules import CORE_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType
    from typing import Any

_PACKAGE = __name__.partition(".")[0]
_ALIAS = "torch"
# Modules that are not where their name says: a package that comes with torch and is a part of it by
# now, and those of PyTorch's core, `torch._C._functorch` and so on.
_OTHERS = {"functorch": f"{_PACKAGE}.func._functorch"}
_OTHERS |= {f"{_ALIAS}._C.{name}": f"{_PACKAGE}.{home}" for name, home in CORE_MODULES.items()}


def _own_name(name: str) -> str:
    """The name in this package of a module of torch."""
    return _OTHERS.get(name) or _PACKAGE + name[len(_ALIAS) :]


class _Distribution(importlib.metadata.Distribution):
    """What is installed as "torch", for libraries that ask for its version before importing it."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = importlib.import_module(f"{_PACKAGE}.torch_version").__version__
        return f"Metadata-Version: 2.1\nName: {_ALIAS}\nVersion: {version}\n"

    def locate_file(self, path: Any) -> Any:
        return importlib.import_module(_PACKAGE).__path__[0]


def _alias_loaded() -> None:
    """Names every loaded module of this package in torch as well.

    What is named already is not looked for again, and so not put into its package a second time:
    `torch.nn.utils.weight_norm` stays the function, whoever imports the module of that name.
    """
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
            sys.modules.setdefault(_ALIAS + name[len(_PACKAGE) :], module)


class _AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, after all others, modules that libraries import and of which only the name is here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{_PACKAGE}."):
            return None
        from flambeau._absent import is_absent

        absent = is_absent(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        from flambeau._absent import absent_module

        return absent_module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of torch in this package, and loads them by handing them over."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        known = fullname == _ALIAS or fullname in _OTHERS
        if not known and not fullname.startswith(f"{_ALIAS}."):
            return None
        own = _own_name(fullname)
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name is None or not own.startswith(error.name):
                raise
            raise ModuleNotFoundError(
                f"No module named '{fullname}': Flambeau stands for torch in this process, and has "
                "no such module",
                name=fullname,
            ) from None
        _alias_loaded()
        # Were it named before it is handed over, the import system would take the spec of the
        # module of this package, and run its file a second time.
        sys.modules.pop(fullname, None)
        return importlib.machinery.ModuleSpec(
            fullname, self, is_package=hasattr(module, "__path__"), loader_state=module.__spec__
        )

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """The package under its alias, for `importlib.metadata.version("torch")`."""
        if getattr(context, "name", None) in (None, _ALIAS):
            yield _Distribution()

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return sys.modules[_own_name(spec.name)]

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the alias's spec in place of the module's own.
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state


def _in_fresh_children() -> None:
    """Makes processes and fork servers that start from a fresh interpreter do the same."""
    from multiprocessing import util

    original = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> int:
        # Of the programs that multiprocessing starts, its tracker of resources runs no user's code.
        if "-c" in args and "resource_tracker" not in args[program := args.index("-c") + 1]:
            install_and_run = f"from {__name__} import install; install(); {args[program]}"
            args = [*args[:program], install_and_run, *args[program + 1 :]]
        return original(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds


def install() -> None:
    """Puts Flambeau in the place of torch for the rest of this process.

    Raises RuntimeError when another torch has been imported already: two libraries under one name
    would exchange objects that neither knows.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    package = importlib.import_module(_PACKAGE)
    if sys.modules.get(_ALIAS, package) is not package:
        raise RuntimeError(
            "install: torch has been imported already; put Flambeau in its place before that"
        )
    _alias_loaded()
    # The core is one file, and Python looks for modules below packages only.
    package._C.__path__ = []
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_AbsentFinder())
    # Libraries look at the name of the module they have imported.
    package.__name__ = _ALIAS
    _in_fresh_children()
