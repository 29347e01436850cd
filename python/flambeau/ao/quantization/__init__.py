"""Where a model's tensors would be quantized. Models with these marks run in floating point; what
would convert them raises an error.
"""

from __future__ import annotations

from flambeau import nn
from flambeau._absent import absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["DeQuantStub", "QuantStub"]

_WHY = "Flambeau has no quantized tensors"
_ABSENT = """FakeQuantize HistogramObserver MinMaxObserver ObserverBase QConfig QConfigMapping
    convert default_dynamic_qconfig default_observer default_qconfig default_weight_observer
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig
    get_default_qconfig_mapping prepare prepare_qat quantize quantize_dynamic""".split()


class QuantStub(nn.Module):
    """Where a model's input would be quantized: the input."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """Where a model's output would be turned back into floating point: the output."""


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        return absent(__name__, name, _WHY)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
