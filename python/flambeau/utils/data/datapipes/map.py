"""Data pipes with keys, and their methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data.datapipes.datapipe import (
    Batching,
    IterDataPipe,
    MapDataPipe,
    Shuffling,
    functional_datapipe,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """The elements of a list, or the values of a dictionary, of which a copy is made."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """A function of each element."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = lambda data: data) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(Batching, MapDataPipe):
    """Elements that stand beside each other, in batches."""

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        first = index * self.batch_size
        last = min(first + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(first, last)])


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """The elements of several pipes, one pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        rest = index
        for pipe in self.datapipes:
            if rest < len(pipe):
                return pipe[rest]
            rest -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples of the elements that have the same key in several pipes."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes.")
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


class Shuffler(Shuffling, IterDataPipe):
    """The elements in another order each time."""

    def __init__(self, datapipe: Any, *, indices: Any = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self) -> Iterator[Any]:
        order = list(self.indices)
        if self._enabled:
            order = self._drawing().sample(order, len(order))[::-1]
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)

# PyTorch's classes are called so, and exported by their short names.
for _name in __all__:
    _kind = "Iter" if _name == "Shuffler" else "Map"
    _cls: Any = globals()[_name]
    _cls.__name__ = _cls.__qualname__ = f"{_name}{_kind}DataPipe"
    globals()[_cls.__name__] = _cls
