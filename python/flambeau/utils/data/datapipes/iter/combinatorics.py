"""The shuffler and the sampler of data pipes, where PyTorch has them."""

from __future__ import annotations

from flambeau.utils.data.datapipes.iter import Sampler as SamplerIterDataPipe
from flambeau.utils.data.datapipes.iter import Shuffler as ShufflerIterDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]
