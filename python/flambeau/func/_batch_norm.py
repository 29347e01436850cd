"""Batch normalization without running statistics, which a function may not keep."""

from __future__ import annotations

from flambeau import nn

__all__ = ["replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: nn.Module) -> nn.Module:
    """Makes all batch normalization in a module use the statistics of its input, in place."""
    for part in root.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.track_running_stats:
            part.running_mean = None
            part.running_var = None
            part.num_batches_tracked = None
            part.track_running_stats = False
    return root
