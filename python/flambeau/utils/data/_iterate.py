"""Passes over a DataLoader. Of the loader they read attributes only, those that PyTorch's read, so
that programs can hand over an object of their own that has these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.utils.data._utils import fetch
from flambeau.utils.data._utils.pin_memory import pin_memory


class _DatasetKind:
    """How samples are asked for: by an index, or by iterating."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> fetch._BaseDatasetFetcher:
        """What gets samples from a dataset of this kind."""
        is_map = kind == _DatasetKind.Map
        made = fetch._MapDatasetFetcher if is_map else fetch._IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


def _draw_seed(generator: Any) -> int:
    """What workers are seeded with; drawn without any as well, so that the generator's state does
    not depend on them.
    """
    return int(flambeau.empty((), dtype=flambeau.int64).random_(generator=generator).item())


class _BaseDataLoaderIter:
    """The base of passes over a DataLoader, whichever processes fetch."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and flambeau.cuda.is_available()
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._persistent_workers = loader.persistent_workers
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = _draw_seed(loader.generator)
        self._num_yielded = 0

    @property
    def _make_fetcher(self) -> tuple[Any, ...]:
        """What `_DatasetKind.create_fetcher` is called with."""
        how = (self._auto_collation, self._collate_fn, self._drop_last)
        return (self._dataset_kind, self._dataset, *how)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another pass."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def __iter__(self) -> Any:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _next_index(self) -> Any:
        """What is asked for next; raises StopIteration at the end."""
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        """The next batch; raises StopIteration when there are no more."""
        raise NotImplementedError

    def __next__(self) -> Any:
        batch = self._next_data()
        self._num_yielded += 1
        if self._dataset_kind == _DatasetKind.Iterable:
            self._check_length()
        return batch

    def _check_length(self) -> None:
        """Warns when an iterable dataset gives more than its length had promised."""
        told = self._IterableDataset_len_called
        if told is None or self._num_yielded <= told:
            return
        cause = (
            " For multiprocessing data-loading, this happens where each worker gives all samples "
            "instead of its part of them: see get_worker_info()."
            if self._num_workers
            else ""
        )
        warnings.warn(
            f"Length of IterableDataset {self._dataset} was reported to be {told} "
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched."
            f"{cause}",
            stacklevel=3,
        )


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """One pass over a DataLoader in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(*self._make_fetcher)

    def _next_data(self) -> Any:
        batch = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(batch) if self._pin_memory else batch
