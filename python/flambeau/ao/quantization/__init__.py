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

_WHY = "Flambeau has quantized tensors, but does not turn models into quantized ones"
_ABSENT = """AffineQuantizedObserverBase FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize
    FixedQParamsObserver FusedMovingAvgObsFakeQuantize HistogramObserver MinMaxObserver
    MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver
    ObserverBase PerChannelMinMaxObserver PlaceholderObserver QConfig QConfigDynamic
    QConfigMapping QuantWrapper RecordingObserver ReuseInputObserver
    UniformQuantizationObserverBase add_quant_dequant convert convert_jit
    default_debug_observer default_dynamic_qat_qconfig default_dynamic_qconfig
    default_dynamic_quant_observer default_embedding_qat_qconfig default_fake_quant
    default_fused_act_fake_quant default_histogram_observer default_observer
    default_per_channel_qconfig default_per_channel_weight_observer
    default_placeholder_observer default_qat_qconfig default_qat_qconfig_v2 default_qconfig
    default_symmetric_qnnpack_qat_qconfig default_symmetric_qnnpack_qconfig
    default_weight_fake_quant default_weight_observer default_weight_only_qconfig
    disable_fake_quant disable_observer enable_fake_quant enable_observer
    float16_dynamic_qconfig float16_static_qconfig float_qparams_weight_only_qconfig
    float_qparams_weight_only_qconfig_4bit fuse_conv_bn fuse_conv_bn_relu fuse_linear_bn
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qat_qconfig_mapping
    get_default_qconfig get_default_qconfig_mapping get_observer_state_dict
    load_observer_state_dict per_channel_dynamic_qconfig prepare prepare_jit prepare_qat
    propagate_qconfig_ qconfig_equals quantize quantize_dynamic quantize_jit quantize_qat
    swap_module""".split()


class QuantStub(nn.Module):
    """Where a model's input would be quantized: the input."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """Where a model's output would be converted back into floating point: the output."""


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        return absent(__name__, name, _WHY)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
