"""Event files that TensorBoard opens."""

from __future__ import annotations

from flambeau.utils.tensorboard._records import RecordWriter
from flambeau.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
