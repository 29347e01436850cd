"""Data pipes whose elements come one after the other, and their methods."""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau.utils.data.collate import default_collate
from flambeau.utils.data.datapipes._streams import FileLister, FileOpener, StreamReader
from flambeau.utils.data.datapipes.datapipe import (
    Batching,
    DataChunk,
    IterDataPipe,
    Shuffling,
    functional_datapipe,
)
from flambeau.utils.data.sampler import SequentialSampler

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]


def _check_function(fn: Any, input_col: Any = None) -> None:
    """Raises unless a function takes an element, or that many columns of it."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # one of the interpreter's own
        return
    wanted = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    if len(wanted) > given:
        name = getattr(fn, "__name__", str(fn))
        raise ValueError(
            f"The function {name} takes {len(wanted)} positional parameters, but {given} are "
            "required."
        )


class _Of(IterDataPipe):
    """A pipe that reads from one other and has as many elements."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __len__(self) -> int:
        return len(self.datapipe)


class IterableWrapper(IterDataPipe):
    """The elements of any iterable object, of which a copy is made for each pass."""

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place "
                    "modification would affect source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)


@functional_datapipe("map")
class Mapper(_Of):
    """A function of each element, or of some columns of it.

    Args:
        datapipe: the pipe that is read from.
        fn: the function.
        input_col: the column, or columns, that it is given; all of the element by default.
        output_col: the column that its result is put into; -1 puts it behind the others.
    """

    def __init__(
        self, datapipe: Any, fn: Any, input_col: Any = None, output_col: Any = None
    ) -> None:
        _check_function(fn, input_col)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        super().__init__(datapipe)
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._applied(data)

    def _applied(self, data: Any) -> Any:
        if self.input_col is None:
            return self.fn(data)
        many = isinstance(self.input_col, (list, tuple))
        columns = self.input_col if many else [self.input_col]
        result = self.fn(*(data[column] for column in columns))
        is_tuple = isinstance(data, tuple)
        filled: Any = list(data) if is_tuple else copy.copy(data)
        if self.output_col == -1:
            filled.append(result)
        elif self.output_col is not None:
            at = self.output_col
            filled[at[0] if isinstance(at, (list, tuple)) else at] = result
        else:
            filled[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del filled[column]
        return tuple(filled) if is_tuple else filled


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches made tensors, by default_collate unless another function is given."""

    def __init__(
        self, datapipe: Any, conversion: Any = default_collate, collate_fn: Any = None
    ) -> None:
        super().__init__(datapipe, collate_fn or conversion)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The elements, or those by one of their columns, for which a function is true."""

    def __init__(self, datapipe: Any, filter_fn: Any, input_col: Any = None) -> None:
        _check_function(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        column = self.input_col
        for data in self.datapipe:
            if column is None:
                keeps = self.filter_fn(data)
            elif isinstance(column, (list, tuple)):
                keeps = self.filter_fn(*(data[one] for one in column))
            else:
                keeps = self.filter_fn(data[column])
            if not isinstance(keeps, (bool, flambeau.Tensor)) and type(keeps).__name__ != "bool_":
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got "
                    f"{type(keeps)}"
                )
            if keeps:
                yield data


@functional_datapipe("batch")
class Batcher(Batching, IterDataPipe):
    """Elements that come after each other, in batches."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for data in self.datapipe:
            batch.append(data)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The elements of batches, through that many levels of them; -1 is all levels."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield from self._spread(data, self.unbatch_level)

    def _spread(self, data: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level < 0 and not isinstance(data, (list, DataChunk))):
            yield data
            return
        if not isinstance(data, (list, DataChunk)):
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )
        for item in data:
            yield from self._spread(item, level - 1 if level > 0 else level)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The elements of several pipes, one pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of an element of each pipe, until one ends."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One element of each pipe in turn, until one ends."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for items in zip(*self.datapipes, strict=False):
            yield from items

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)


@functional_datapipe("shuffle")
class Shuffler(Shuffling, _Of):
    """The elements in another order: each is drawn from a buffer of those that come next."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        super().__init__(datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level))
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        drawing = self._drawing()
        buffer: list[Any] = []
        for data in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = drawing.randint(0, len(buffer) - 1)
                drawn, buffer[at] = buffer[at], data
                yield drawn
            else:
                buffer.append(data)
        while buffer:
            yield buffer.pop(drawing.randint(0, len(buffer) - 1))


class Sampler(_Of):
    """The elements at the indices that a sampler names."""

    def __init__(
        self,
        datapipe: Any,
        sampler: Any = SequentialSampler,
        sampler_args: Any = None,
        sampler_kwargs: Any = None,
    ) -> None:
        super().__init__(datapipe)
        self.sampler = sampler(
            *(sampler_args or ()), data_source=datapipe, **(sampler_kwargs or {})
        )

    def __iter__(self) -> Iterator[Any]:
        yield from self.sampler


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every n-th element, where the work is shared by n processes; all of them otherwise."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, group: Any = None) -> None:
        """Sets how many processes share the work, and which of them this is."""
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for i, data in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield data

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)


class _ChildDataPipe(IterDataPipe):
    """One of the pipes that a pipe was split into."""

    def __init__(self, shared: _Shared, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = shared, instance_id

    def __iter__(self) -> Iterator[Any]:
        yield from self.main_datapipe.elements_of(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.length()


class _Shared:
    """What the parts of a split pipe have in common: the source, and a queue for each part."""

    def __init__(
        self, name: str, datapipe: Any, parts: int, targets: Callable[[Any], Any], size: int
    ) -> None:
        self.name, self.datapipe, self.targets, self.buffer_size = name, datapipe, targets, size
        self.queues: list[deque[Any]] = [deque() for _ in range(parts)]
        self.source: Iterator[Any] | None = None
        self.started: set[int] = set()

    def length(self) -> int:
        if self.name != "ForkerIterDataPipe":
            raise TypeError(f"object of type '{self.name}' has no len()")
        return len(self.datapipe)

    def elements_of(self, part: int) -> Iterator[Any]:
        if self.source is None or part in self.started:  # a new pass begins for all parts
            self.source = iter(self.datapipe)
            self.started.clear()
            for queue in self.queues:
                queue.clear()
        self.started.add(part)
        mine = self.queues[part]
        while True:
            while not mine:
                try:
                    data = next(self.source)
                except StopIteration:
                    return
                for place in self.targets(data):
                    self.queues[place].append(data)
                held = sum(map(len, self.queues)) - len(mine)
                if 0 <= self.buffer_size < held:
                    raise BufferError(
                        f"{self.name} buffer overflow,buffer size {self.buffer_size} is "
                        "insufficient."
                    )
            yield mine.popleft()


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """Several pipes with the same elements, which the source gives once."""

    def __new__(
        cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: Any = None
    ) -> Any:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        if num_instances == 1:
            return [datapipe]
        everywhere = range(num_instances)
        shared = _Shared(
            "ForkerIterDataPipe", datapipe, num_instances, lambda data: everywhere, buffer_size
        )
        return [_ChildDataPipe(shared, i) for i in range(num_instances)]


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """Several pipes, to which a function deals the elements by number."""

    def __new__(
        cls,
        datapipe: Any,
        num_instances: int,
        classifier_fn: Any,
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        _check_function(classifier_fn)

        def targets(data: Any) -> list[int]:
            place = classifier_fn(data)
            if place is None and drop_none:
                return []
            if place is None or not 0 <= place < num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{num_instances - 1}. {place} is returned."
                )
            return [place]

        name = "DemultiplexerIterDataPipe"
        shared = _Shared(name, datapipe, num_instances, targets, buffer_size)
        return [_ChildDataPipe(shared, i) for i in range(num_instances)]


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
    """Elements for which a function gives the same key, together.

    Args:
        datapipe: the pipe that is read from.
        group_key_fn: the function.
        keep_key: whether groups come as (key, group).
        buffer_size: how many elements wait at most; then the largest group goes.
        group_size: how many elements a group has at most.
        guaranteed_group_size: how many it has at least when it goes because of the buffer.
        drop_remaining: whether smaller ones are left out then.
    """

    def __init__(
        self,
        datapipe: Any,
        group_key_fn: Any,
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_function(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size, self.drop_remaining = guaranteed_group_size, drop_remaining

    def __iter__(self) -> Iterator[Any]:
        groups: OrderedDict[Any, list[Any]] = OrderedDict()
        waiting = 0
        for data in self.datapipe:
            key = self.group_key_fn(data)
            group = groups.setdefault(key, [])
            group.append(data)
            waiting += 1
            if self.group_size is not None and len(group) == self.group_size:
                waiting -= len(group)
                yield self._finished(key, groups.pop(key))
            if waiting == self.max_buffer_size:
                key = max(groups, key=lambda k: len(groups[k]))
                waiting -= len(groups[key])
                group = groups.pop(key)
                if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
                    yield self._finished(key, group)
                elif not self.drop_remaining:
                    raise RuntimeError(
                        f"Failed to group items: {group}. Please increase the buffer size."
                    )
        for key, group in groups.items():
            yield self._finished(key, group)

    def _finished(self, key: Any, group: list[Any]) -> Any:
        chunk = DataChunk(group)
        return (key, chunk) if self.keep_key else chunk


# PyTorch's classes are called so, and exported by their short names.
for _name in __all__:
    _cls: Any = globals()[_name]
    _cls.__name__ = _cls.__qualname__ = f"{_name}IterDataPipe"
    setattr(sys.modules[_cls.__module__], _cls.__name__, _cls)
