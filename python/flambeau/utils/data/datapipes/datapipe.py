"""What all data pipes have: functions that are registered as methods, and iterators of which only
the last one is valid.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import flambeau
from flambeau.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]


class DataChunk(list):  # type: ignore[type-arg]
    """A batch that prints as a list does."""

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The elements as text."""
        return f"{indent}[{', '.join(str(item) for item in self)}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The elements as they were put in."""
        yield from self.items


class _Functions:
    """Classes under the names of methods; each kind of pipe has its own."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes `pipe.function_name(...)` call `function(pipe, ...)`."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes `pipe.function_name(...)` an instance of a class that reads from the pipe."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register

    def __getattr__(self, name: str) -> Any:
        found = type(self).functions.get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")
        return functools.partial(found, self)

    def __repr__(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return type(self).__name__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]


class _OnlyIterator:
    """An iterator of a pipe that refuses to go on once the pipe has made another."""

    def __init__(self, pipe: Any, items: Iterator[Any]) -> None:
        self._pipe, self._items = pipe, items
        self._id = pipe.__dict__["_valid_iterator_id"]

    def __iter__(self) -> _OnlyIterator:
        return self

    def __next__(self) -> Any:
        if self._pipe.__dict__["_valid_iterator_id"] != self._id:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from "
                f"the same IterDataPipe: {self._pipe!r}\nThis may be caused by multiple references "
                "to the same IterDataPipe. We recommend using `.fork()` if that is necessary."
            )
        return next(self._items)


def _single(function: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def __iter__(self: Any) -> Any:
        self.__dict__["_valid_iterator_id"] = self.__dict__.get("_valid_iterator_id", 0) + 1
        if hasattr(type(self), "reset"):
            self.reset()
        return _OnlyIterator(self, function(self))

    return __iter__


class IterDataPipe(_Functions, IterableDataset):
    """A pipe whose elements come one after the other. A subclass says how in `__iter__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in cls.__dict__:
            cls.__iter__ = _single(cls.__dict__["__iter__"])  # type: ignore[assignment]


class Shuffling:
    """What pipes have that may be told whether and how to shuffle."""

    _enabled = True
    _seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switches shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Sets the order of the next iteration."""
        self._seed = seed
        return self

    def _drawing(self) -> random.Random:
        """Draws the next order: from the seed that was set, or one of the library's generator."""
        seed, self._seed = self._seed, None
        if seed is None:
            seed = int(flambeau.empty((), dtype=flambeau.int64).random_().item())
        return random.Random(seed)


class DFIterDataPipe(IterDataPipe):
    """A pipe of tables."""


class MapDataPipe(_Functions, Dataset):
    """A pipe whose elements have keys. A subclass says how in `__getitem__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """A decorator that makes a class of pipes a method of all others, under this name."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        """Registers the class."""
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")


class Batching:
    """What pipes have that give the elements of another in batches."""

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


class _Pickled:
    """A pipe that is sent to other processes by dill, where that is installed, and pickle."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> Any:
        try:
            import dill as pickler
        except ImportError:
            pickler = pickle
        return pickler.__name__, pickler.dumps(self._datapipe)

    def __setstate__(self, state: Any) -> None:
        name, data = state
        self._datapipe = importlib.import_module(name).loads(data)

    def __len__(self) -> int:
        return len(self._datapipe)


class _IterDataPipeSerializationWrapper(_Pickled, IterDataPipe):
    """A pipe of elements one after the other, which can be pickled."""

    def __iter__(self) -> Iterator[Any]:
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_Pickled, MapDataPipe):
    """A pipe of elements with keys, which can be pickled."""

    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
