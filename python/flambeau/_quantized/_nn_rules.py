"""Operations of networks on quantized tensors: activations, pooling, upsampling and padding, all of
tensors that are quantized per tensor. They compute as PyTorch's kernels do: what only chooses among
numbers runs on the integers, averages on integers too; the rest in floating point, from which
results go back to integers.
"""

from __future__ import annotations

import flambeau
from flambeau._quantized._quantizers import INTS, KIND_NAMES, PerTensor, qint8, qint32, quint8
from flambeau._quantized._rules import plain, refused, same
from flambeau._quantized._tensor import QuantizedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor


def _functional() -> Any:
    return flambeau.nn.functional


def _written(input: QuantizedTensor, ints: Tensor, inplace: bool) -> QuantizedTensor:
    if not inplace:
        return QuantizedTensor._over(ints, input._quantizer)
    input._ints().copy_(ints)
    return input


# Activations --------------------------------------------------------------------------------------
def _bounded(input: Any, low: float | None, high: float | None, inplace: bool) -> Any:
    """The integers between those of two numbers."""
    quantizer, ints = input._per_tensor(), input._ints()
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    levels = [None if x is None else quantizer.place(float(x), ints.dtype) for x in (low, high)]
    return _written(input, ints.clamp(levels[0], levels[1]), inplace)


def rule_clamp(func: Any, input: Any, min: Any = None, max: Any = None) -> Any:
    if func.__name__.endswith("_") or any(
        isinstance(bound, flambeau.Tensor) for bound in (input, min, max) if bound is not input
    ):
        raise RuntimeError(
            "promoteTypes with quantized numbers is not handled yet: clamp takes bounds that are "
            "numbers"
        )
    return _bounded(input, min, max, False)


rule_clip = rule_clamp


def rule_relu(func: Any, input: Any, inplace: bool = False) -> Any:
    quantizer = input._per_tensor()
    ints = input._ints().clamp(min=quantizer.zero_point)
    return _written(input, ints, inplace or func.__name__ == "relu_")


def rule_relu6(func: Any, input: Any, inplace: bool = False) -> Any:
    return _bounded(input, 0.0, 6.0, inplace or func.__name__ == "relu6_")


def rule_hardtanh(
    func: Any, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return _bounded(input, min_val, max_val, inplace or func.__name__ == "hardtanh_")


def _real(compute: Callable[..., Tensor]) -> Callable[..., Any]:
    """A rule that computes on real numbers and keeps the quantizer."""

    def rule(func: Any, input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        quantizer = input._per_tensor()
        result = compute(input.dequantize(), *args, **kwargs)
        ints = quantizer.quantize(result, INTS[input.dtype])
        return _written(input, ints, inplace or func.__name__.endswith("_"))

    return rule


def _leaky(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return flambeau.where(x > 0, x, x * negative_slope)


def rule_threshold(
    func: Any, input: Any, threshold: float, value: float, inplace: bool = False
) -> Any:
    if inplace or func.__name__ == "threshold_":
        raise refused("threshold_", (input,))
    return _real(lambda x: flambeau.where(x > threshold, x, value))(func, input)


# Scale and zero point of the results, which lie in a known interval.
_UNIT = {
    quint8: PerTensor(2.0**-8, 0),
    qint8: PerTensor(2.0**-8, -128),
    qint32: PerTensor(2.0**-32, 0),
}
_SYMMETRIC = {
    quint8: PerTensor(2.0**-7, 128),
    qint8: PerTensor(2.0**-7, 0),
    qint32: PerTensor(2.0**-31, 0),
}


def _squashed(compute: Callable[..., Tensor], ranges: dict[Any, PerTensor]) -> Callable[..., Any]:
    def rule(func: Any, input: Any, inplace: bool = False) -> Any:
        input._per_tensor()
        if func.__name__.endswith("_"):
            raise refused(func.__name__, (input,))
        quantizer = ranges[input.dtype]
        ints = quantizer.quantize(compute(input.dequantize()), INTS[input.dtype])
        if inplace:
            input._ints().copy_(ints)
            input._quantizer = quantizer
            return input
        return QuantizedTensor._over(ints, quantizer)

    return rule


def rule_gelu(func: Any, input: Any, approximate: str = "none") -> Any:
    quantizer = input._per_tensor()
    result = _functional().gelu(input.dequantize(), approximate=approximate)
    # PyTorch keeps this scale in single precision.
    scale = float(flambeau.tensor(quantizer.scale, dtype=flambeau.float32))
    made = PerTensor(scale, quantizer.zero_point)
    return QuantizedTensor._over(made.quantize(result, INTS[input.dtype]), made)


def rule_dropout(
    func: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    if training and p != 0:
        raise refused("bernoulli_", (input,))
    return input


# Pooling ------------------------------------------------------------------------------------------
def _steps(input: QuantizedTensor) -> Tensor:
    """How many scales each element lies from zero, exact in double precision."""
    return input._ints().double().sub_(input._per_tensor().zero_point)


def _requantized(input: QuantizedTensor, steps: Tensor, together: bool) -> QuantizedTensor:
    """Of numbers of scales, the nearest integers.

    Args:
        together: whether ties go to the even place, instead of to the even number of steps.
    """
    quantizer, kind = input._per_tensor(), input._ints().dtype
    zero = float(quantizer.zero_point)
    steps = steps.float()
    levels = steps.add_(zero).round_() if together else steps.round_().add_(zero)
    levels.masked_fill_(levels.isnan(), 0)  # of what has no elements
    ints = PerTensor(1.0, 0).quantize(levels, kind)
    return QuantizedTensor._over(ints, quantizer)


def _by_pixels(input: QuantizedTensor) -> bool:
    """Whether the channels of a pixel lie side by side: for these PyTorch has other kernels, which
    round before they add the zero point."""
    ints = input._ints()
    if ints.dim() == 3:
        ints = ints.unsqueeze(-2)  # a line is an image of one row
    formats = {4: flambeau.channels_last, 5: flambeau.channels_last_3d}
    return ints.dim() in formats and ints.is_contiguous(memory_format=formats[ints.dim()])


def _average(name: str) -> Callable[..., Any]:
    def rule(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        result = getattr(_functional(), name)(_steps(input), *args, **kwargs)
        return _requantized(input, result, name != "avg_pool3d" and not _by_pixels(input))

    return rule


def _largest(name: str) -> Callable[..., Any]:
    def rule(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        input._per_tensor()
        if kwargs.pop("return_indices", False):
            raise refused(f"{name}_with_indices", (input,))
        ints = input._ints()
        result = getattr(_functional(), name)(ints.double(), *args, **kwargs)
        low = flambeau.iinfo(ints.dtype).min  # of windows that lie in the padding altogether
        ints = result.nan_to_num(neginf=low).to(ints.dtype)
        return QuantizedTensor._over(ints, input._quantizer)

    return rule


# Upsampling and padding ---------------------------------------------------------------------------
def rule_interpolate(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "nearest")
    ranks = {"nearest": (4, 5), "nearest-exact": (4, 5), "bilinear": (4,), "area": (3, 4, 5)}
    input._per_tensor()
    if input.dim() not in ranks.get(mode, ()):
        raise refused(f"upsample_{mode}{input.dim() - 2}d", (input,))
    if mode == "area":
        return _requantized(input, func(_steps(input), *args, **kwargs), not _by_pixels(input))
    ints = input._ints()
    if mode == "bilinear":
        between = func(ints.float(), *args, **kwargs)
        return _requantized(input, between.sub_(input._quantizer.zero_point), False)
    moved = func(ints.double(), *args, **kwargs).to(ints.dtype)
    return QuantizedTensor._over(moved, input._quantizer)


rule_upsample = rule_interpolate


def rule_pad(func: Any, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if not isinstance(input._quantizer, PerTensor):
        raise RuntimeError("Only per-tensor padding is supported.")
    ints, quantizer = input._ints(), input._quantizer
    if mode == "constant":
        place = quantizer.place(0.0 if value is None else float(value), ints.dtype)
        return QuantizedTensor._over(func(ints, pad, mode, place), quantizer)
    if mode != "reflect" or len(pad) > 4:
        raise refused(f"{mode}_pad{len(pad) // 2}d", (input,))
    return QuantizedTensor._over(func(ints.double(), pad, mode).to(ints.dtype), quantizer)


def rule_channel_shuffle(func: Any, input: Any, groups: int) -> Any:
    if input.dtype is not quint8:
        raise RuntimeError(
            f"Quantized channel shuffle works only on QUInt8 but got {KIND_NAMES[input.dtype]}"
        )
    input._per_tensor()
    return same(func, (input, groups), {})


def rule_embedding(func: Any, input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(weight, QuantizedTensor) or isinstance(input, QuantizedTensor):
        raise refused("embedding", (input, weight))
    if not isinstance(weight._quantizer, PerTensor):
        raise RuntimeError(
            "Only per_tensor quantized quantized tensors are supported by index_select."
        )
    ints = plain(weight)
    chosen = ints.index_select(0, input.reshape(-1)).view(*input.shape, *ints.shape[1:])
    return QuantizedTensor._over(chosen, weight._quantizer)


rule_leaky_relu = _real(_leaky)
rule_sigmoid = _squashed(lambda x: x.sigmoid(), _UNIT)
rule_hardsigmoid = _squashed(lambda x: _functional().hardsigmoid(x), _UNIT)
rule_tanh = _squashed(lambda x: x.tanh(), _SYMMETRIC)
rule_avg_pool1d = _average("avg_pool1d")
rule_avg_pool2d = _average("avg_pool2d")
rule_avg_pool3d = _average("avg_pool3d")
rule_adaptive_avg_pool1d = _average("adaptive_avg_pool1d")
rule_adaptive_avg_pool2d = _average("adaptive_avg_pool2d")
rule_adaptive_avg_pool3d = _average("adaptive_avg_pool3d")
rule_max_pool1d = _largest("max_pool1d")
rule_max_pool2d = _largest("max_pool2d")
rule_max_pool3d = _largest("max_pool3d")
rule_grid_sampler = rule_grid_sampler_2d = _real(lambda *x, **k: flambeau.grid_sampler_2d(*x, **k))
