"""Operations of networks on quantized tensors: activations, pooling, upsampling and padding, all of
tensors that are quantized per tensor. They compute as PyTorch's kernels do: what only chooses among
numbers runs on the integers, averages on integers too; the rest in floating point, from which
results go back to integers.
"""

from __future__ import annotations

import flambeau
from flambeau._operators._kinds import kind_of
from flambeau._quantized._quantizers import INTS, KIND_NAMES, PerTensor, qint8, qint32, quint8
from flambeau._quantized._rules import plain, refused, same
from flambeau._quantized._tensor import QuantizedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


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
    if kind_of(func).writes or isinstance(min, flambeau.Tensor) or isinstance(max, flambeau.Tensor):
        raise RuntimeError(
            "promoteTypes with quantized numbers is not handled yet: clamp takes bounds that are "
            "numbers"
        )
    return _bounded(input, min, max, False)


def rule_relu(func: Any, input: Any, inplace: bool = False) -> Any:
    ints = input._ints().clamp(min=input._per_tensor().zero_point)
    return _written(input, ints, inplace or kind_of(func).writes)


def rule_relu6(func: Any, input: Any, inplace: bool = False) -> Any:
    return _bounded(input, 0.0, 6.0, inplace or kind_of(func).writes)


def rule_hardtanh(
    func: Any, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return _bounded(input, min_val, max_val, inplace or kind_of(func).writes)


def rule_leaky_relu(func: Any, input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
    """Computed on real numbers, by the quantizer of the input."""
    quantizer = input._per_tensor()
    result = func(input.dequantize(), *args, **kwargs)
    ints = quantizer.quantize(result, INTS[input.dtype])
    return _written(input, ints, inplace or kind_of(func).writes)


rule_grid_sampler = rule_leaky_relu


def rule_threshold(func: Any, input: Any, *args: Any, inplace: bool = False) -> Any:
    if inplace or kind_of(func).writes:
        raise refused("threshold_", (input,))
    return rule_leaky_relu(func, input, *args)


def rule_mean(func: Any, input: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    input._per_tensor()
    if dtype is not None and dtype is not input.dtype:
        raise RuntimeError(f"{func.__name__}: {dtype} is not supported for quantized tensors")
    return rule_leaky_relu(func, input, *args, **kwargs)


rule_std = rule_mean


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


def rule_sigmoid(func: Any, input: Any, inplace: bool = False) -> Any:
    input._per_tensor()
    if kind_of(func).writes:
        raise refused(func.__name__, (input,))
    quantizer = (_SYMMETRIC if func.__name__ == "tanh" else _UNIT)[input.dtype]
    ints = quantizer.quantize(func(input.dequantize()), INTS[input.dtype])
    if inplace:
        input._ints().copy_(ints)
        input._quantizer = quantizer
        return input
    return QuantizedTensor._over(ints, quantizer)


rule_hardsigmoid = rule_tanh = rule_sigmoid


def rule_gelu(func: Any, input: Any, approximate: str = "none") -> Any:
    quantizer = input._per_tensor()
    # PyTorch keeps this scale in single precision.
    scale = float(flambeau.tensor(quantizer.scale, dtype=flambeau.float32))
    made = PerTensor(scale, quantizer.zero_point)
    result = func(input.dequantize(), approximate=approximate)
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


def rule_avg_pool(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    together = func.__name__ != "avg_pool3d" and not _by_pixels(input)
    return _requantized(input, func(_steps(input), *args, **kwargs), together)


rule_adaptive_avg_pool = rule_avg_pool


def rule_max_pool(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    input._per_tensor()
    if kwargs.pop("return_indices", False):
        raise refused(f"{func.__name__}_with_indices", (input,))
    ints = input._ints()
    result = func(ints.double(), *args, **kwargs)
    low = flambeau.iinfo(ints.dtype).min  # of windows that lie in the padding altogether
    return QuantizedTensor._over(result.nan_to_num(neginf=low).to(ints.dtype), input._quantizer)


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
