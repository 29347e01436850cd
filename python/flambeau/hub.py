"""Models from folders that have a hubconf.py, and state dicts from files at an address.

A folder's hubconf.py defines functions that make models, and names the packages it needs in
`dependencies`. Repositories are not fetched from GitHub: clone one, and load it with
source="local".
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from urllib.parse import urlparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

try:
    from tqdm import tqdm
except ImportError:

    class tqdm:  # type: ignore[no-redef]
        """Counts, where the package that shows progress is not installed."""

        def __init__(self, iterable: Any = None, total: Any = None, **kwargs: Any) -> None:
            self.iterable, self.total, self.n = iterable, total, 0.0

        def __iter__(self) -> Any:
            for item in self.iterable:
                yield item
                self.n += 1

        def update(self, n: float = 1) -> None:
            """So much more is done."""
            self.n += n

        def set_description(self, desc: Any = None, refresh: bool = True) -> None:
            """Shows nothing."""

        def close(self) -> None:
            """Ends the count."""

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: Any) -> None:
            self.close()


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_hub_dir: str | None = None


def _get_torch_home() -> str:
    """Where PyTorch keeps what it downloads."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where downloaded files are kept."""
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: Any) -> None:
    """Sets where downloaded files are kept."""
    global _hub_dir
    _hub_dir = os.path.expanduser(os.fspath(d))


def _hubconf(folder: Any) -> ModuleType:
    """The hubconf.py of a folder, run with the folder among those that imports look in."""
    folder = os.path.expanduser(os.fspath(folder))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"hub: there is no {path}")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name
        for name in getattr(module, "dependencies", ())
        if name not in sys.modules and importlib.util.find_spec(name) is None
    ]
    if missing and missing != ["torch"]:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, name, None)
    if name.startswith("_") or not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def _check_source(source: str) -> None:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise RuntimeError(
            "hub: repositories are not fetched from GitHub; clone the repository and give its "
            'folder with source="local"'
        )


def _local_folder(repo: Any) -> Any:
    """A folder as it is given; the name of a repository on GitHub is refused."""
    if not os.path.isdir(os.path.expanduser(os.fspath(repo))):
        _check_source("github")
    return repo


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of a folder's hubconf.py returns.

    Args:
        repo_or_dir: the folder.
        model: the name of the function.
        args: its arguments.
        source: "local".
        trust_repo, force_reload, verbose, skip_validation: about repositories on GitHub.
        kwargs: keyword arguments of the function.
    """
    _check_source(source.lower())
    return _entry(_hubconf(repo_or_dir), model)(*args, **kwargs)


def list(
    github: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """The names of the functions of a folder's hubconf.py."""
    module = _hubconf(_local_folder(github))
    return [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> str | None:
    """The docstring of a function of a folder's hubconf.py."""
    return _entry(_hubconf(_local_folder(github)), model).__doc__


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Downloads a file; it appears under its name only when it is whole and its hash is right.

    Args:
        url: its address.
        dst: its path here.
        hash_prefix: how its SHA-256 begins.
        progress: accepted for compatibility; nothing is shown.
    """
    import hashlib
    from urllib.request import Request, urlopen

    from flambeau._serialization._archive import replaced_file

    request = Request(url, headers={"User-Agent": "flambeau.hub"})
    digest = hashlib.sha256()
    with urlopen(request) as source, replaced_file(os.path.expanduser(dst)) as file:
        while chunk := source.read(1 << 20):
            file.write(chunk)
            digest.update(chunk)
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Loads a file from an address, which is downloaded once.

    Args:
        url: the address.
        model_dir: where to keep the file, by default in `checkpoints` within get_dir().
        map_location: where storages go; see `flambeau.load`.
        progress: accepted for compatibility; nothing is shown.
        check_hash: whether the name of the file tells how its SHA-256 begins: name-<hash>.pth.
        file_name: the name here, if another than in the address.
        weights_only: see `flambeau.load`.
    """
    from flambeau.serialization import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
