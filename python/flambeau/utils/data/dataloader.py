"""DataLoader: iterates over a dataset in batches, in this process or with workers."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau.utils.data._iterate import _BaseDataLoaderIter as _BaseDataLoaderIter
from flambeau.utils.data._iterate import _DatasetKind, _draw_seed, _SingleProcessDataLoaderIter
from flambeau.utils.data._utils.worker import get_worker_info
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataset import Dataset as Dataset  # programs import it from here too
from flambeau.utils.data.dataset import IterableDataset, _Subscriptable
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from flambeau.utils.data.sampler import Sampler as Sampler

__all__ = ["DataLoader", "get_worker_info"]

# What programs call the types of a DataLoader's arguments.
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]

_FIXED_ATTRIBUTES = (
    "batch_size",
    "batch_sampler",
    "sampler",
    "drop_last",
    "dataset",
    "persistent_workers",
)


class _InfiniteConstantSampler:
    """None for ever: what a batch of an iterable dataset is asked for."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(_Subscriptable):
    """Iterates over a dataset: samples in an order, batched and collated.

    Each iteration takes one draw from the default generator (or from ``generator``), and one
    more when it shuffles, as in PyTorch, so that the same seed gives the same order.

    With ``num_workers`` processes, each fetches whole batches; worker i is seeded with the first
    draw plus i. Batches come in the same order as without.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        dataset, shuffle = _told_to_shuffle(dataset, shuffle)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        is_iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_iterable else _DatasetKind.Map
        _check_sampling_options(is_iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            if is_iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._iterator: Any = None
        self._IterableDataset_len_called: int | None = None
        self.__initialized = True

    __initialized = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED_ATTRIBUTES:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def multiprocessing_context(self) -> Any:
        """What worker processes are started by; None for the default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self.__multiprocessing_context = _checked_context(context, self.num_workers)

    def __iter__(self) -> Any:
        if _is_pipe(self.dataset):
            from flambeau.utils.data.graph_settings import apply_random_seed

            drawing = flambeau.Generator()
            drawing.manual_seed(_draw_seed(self.generator))
            apply_random_seed(self.dataset, drawing)
        if self.pin_memory and not flambeau.accelerator.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=2,
            )
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        """A new pass over this loader, by this process or by workers."""
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        from flambeau.utils.data._multiprocess import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter(self)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        samples = len(self.dataset)
        if self.batch_size is None:
            length = samples
        elif self.drop_last:
            length = samples // self.batch_size
        else:
            length = (samples + self.batch_size - 1) // self.batch_size
        self._IterableDataset_len_called = length
        return length


def _check_worker_options(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if num_workers > 0:
        _check_processors(num_workers)


def _check_processors(num_workers: int) -> None:
    """Warns of more workers than there are processors for them."""
    allowed = getattr(os, "sched_getaffinity", None)
    processors = len(allowed(0)) if allowed else os.cpu_count() or num_workers
    if num_workers > processors:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested "
            f"max number of worker in current system is {processors}, one a processor: excessive "
            "worker creation might get DataLoader running slow or even freeze.",
            stacklevel=4,
        )


def _checked_context(context: Any, num_workers: int) -> Any:
    """The context of multiprocessing that a name stands for."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={num_workers}"
        )
    import multiprocessing

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context


def _is_pipe(dataset: Any) -> bool:
    """Whether a dataset is a data pipe, told without loading the module that none has asked for."""
    module = sys.modules.get("flambeau.utils.data.datapipes.datapipe")
    return module is not None and isinstance(dataset, module.IterDataPipe)


def _told_to_shuffle(dataset: Any, shuffle: bool | None) -> tuple[Any, bool | None]:
    """The dataset, and what is left to choose: a data pipe shuffles by itself."""
    if not _is_pipe(dataset):
        return dataset, shuffle
    from flambeau.utils.data.graph_settings import apply_shuffle_settings

    return apply_shuffle_settings(dataset, shuffle), None


def _check_sampling_options(
    is_iterable: bool,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    """Raises for options that exclude each other."""
    if is_iterable:
        for name, value in (
            ("shuffle", shuffle or None),
            ("sampler", sampler),
            ("batch_sampler", batch_sampler),
        ):
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                    f"got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                "sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _sharding_worker_init_fn(
    worker_init_fn: Any, world_size: int, rank_id: int, worker_id: int
) -> None:
    """What a worker of one process among several begins with: its part of a data pipe."""
    from flambeau.utils.data.graph_settings import apply_sharding

    info: Any = get_worker_info()
    apply_sharding(info.dataset, world_size * info.num_workers, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


def __getattr__(name: str) -> Any:
    if name == "_MultiProcessingDataLoaderIter":
        from flambeau.utils.data._multiprocess import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
