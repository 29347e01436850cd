"""Data pipes of files: their names, open files, and what stands in them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["FileLister", "FileOpener", "StreamReader"]


@functional_datapipe("list_files")
class FileLister(IterDataPipe):
    """The paths of the files in folders whose names have one of the given forms."""

    def __init__(
        self,
        root: Any = ".",
        masks: Any = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        self.datapipe = [root] if isinstance(root, str) else root
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath, self.length = recursive, abspath, length

    def _has_form(self, name: str) -> bool:
        return any(not mask or fnmatch.fnmatch(name, mask) for mask in self.masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            top = os.path.abspath(root) if self.abspath else root
            for folder, below, names in os.walk(top):
                below.sort()
                if not self.recursive:
                    below.clear()
                for name in sorted(names):
                    if self._has_form(name):
                        yield os.path.join(folder, name)

    def __len__(self) -> int:
        if self.length < 0:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("open_files")
class FileOpener(IterDataPipe):
    """Paths with the files open behind them."""

    def __init__(
        self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = mode if "r" in mode else f"r{mode}"

    def __iter__(self) -> Iterator[Any]:
        for path in self.datapipe:
            yield path, open(path, self.mode, encoding=self.encoding)  # noqa: SIM115

    def __len__(self) -> int:
        if self.length < 0:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("read_from_stream")
class StreamReader(IterDataPipe):
    """Paths with what stands in the open files behind them, whole or in chunks."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[Any]:
        for path, stream in self.datapipe:
            with stream:
                while data := stream.read(self.chunk):
                    yield path, data
                    if self.chunk is None:
                        break
