"""Fetching samples: what a DataLoader does for each batch, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _BaseDataLoaderIter:
    """The base of passes over a DataLoader, whichever processes fetch."""


class Fetcher:
    """Gets samples from a dataset and collates them.

    Args:
        dataset: the dataset.
        is_iterable: whether samples come from iterating over it, not from indexing.
        batched: whether a request is a list of samples.
        collate_fn: makes a batch of a list of samples, or converts one sample.
        drop_last: whether a last batch that is not full is left out.
    """

    def __init__(
        self,
        dataset: Any,
        is_iterable: bool,
        batched: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.batched, self.collate_fn, self.drop_last = batched, collate_fn, drop_last
        self.samples = iter(dataset) if is_iterable else None
        self.exhausted = False

    def fetch(self, wanted: Any) -> Any:
        """A batch, or a sample; raises StopIteration when there are no more."""
        batch = self._indexed(wanted) if self.samples is None else self._next(wanted)
        return self.collate_fn(batch)

    def _indexed(self, wanted: Any) -> Any:
        if not self.batched:
            return self.dataset[wanted]
        load_many = getattr(self.dataset, "__getitems__", None)
        return load_many(wanted) if load_many else [self.dataset[index] for index in wanted]

    def _next(self, wanted: Any) -> Any:
        """The next samples of an iterable dataset, as many as ``wanted`` has places."""
        if self.exhausted:
            raise StopIteration
        samples: Any = self.samples
        if not self.batched:
            return next(samples)
        batch = []
        for _ in wanted:
            try:
                batch.append(next(samples))
            except StopIteration:
                self.exhausted = True
                break
        if not batch or (self.drop_last and len(batch) < len(wanted)):
            raise StopIteration
        return batch
