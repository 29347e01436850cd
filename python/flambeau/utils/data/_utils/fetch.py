"""Fetching samples: what a DataLoader does for each batch, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _BaseDatasetFetcher:
    """Gets samples from a dataset and collates them.

    Args:
        dataset: the dataset.
        auto_collation: whether a request is for a list of samples.
        collate_fn: makes a batch of a list of samples, or converts one sample.
        drop_last: whether a last batch that is not full is left out.
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.auto_collation, self.collate_fn, self.drop_last = auto_collation, collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """A batch, or a sample; raises StopIteration when there are no more."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Asks a dataset for samples by their indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        load_many = getattr(self.dataset, "__getitems__", None)
        if load_many:
            return self.collate_fn(load_many(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes the next samples of an iterable dataset, as many as a request has indices."""

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        batch = []
        for _ in possibly_batched_index:
            try:
                batch.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(batch)
