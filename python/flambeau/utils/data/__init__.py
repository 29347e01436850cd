"""Loading data: datasets, samplers, and the DataLoader that batches them."""

from __future__ import annotations

from flambeau.utils.data import dataloader, dataset, distributed, sampler
from flambeau.utils.data._iterate import _DatasetKind as _DatasetKind
from flambeau.utils.data._utils.worker import get_worker_info
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataloader import DataLoader
from flambeau.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from flambeau.utils.data.distributed import DistributedSampler
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "dataloader",
    "dataset",
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "random_split",
    "sampler",
]


def __getattr__(name: str) -> object:
    """Data pipes and inner parts, which only some programs use."""
    if name in (
        "DFIterDataPipe",
        "DataChunk",
        "IterDataPipe",
        "MapDataPipe",
        "functional_datapipe",
    ):
        from flambeau.utils.data import datapipes

        return getattr(datapipes.datapipe, name)
    raise AttributeError(f"module 'flambeau.utils.data' has no attribute '{name}'")
