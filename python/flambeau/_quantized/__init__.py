"""Quantized tensors: integers that stand for real numbers by a scale and a zero point.

The functions here make and read them; `_tensor` says what such a tensor is, `_rules` and
`_nn_rules` what can be done with it.
"""

from __future__ import annotations

import flambeau
from flambeau._quantized._quantizers import DTYPES, INTS, PerChannel, PerTensor, qint8, quint8
from flambeau._quantized._tensor import QuantizedTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


def _integers(op: str, dtype: Any) -> Any:
    """The dtype of the integers under a quantized dtype."""
    if dtype in INTS:
        return INTS[dtype]
    if not isinstance(dtype, flambeau.dtype):
        raise TypeError(f"{op}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    raise RuntimeError(f"{op}: {dtype} is not supported in new_qtensor: it is no quantized dtype")


def _check_real(op: str, input: Any) -> None:
    if not isinstance(input, flambeau.Tensor):
        raise TypeError(f"{op}(): argument 'input' must be Tensor, not {type(input).__name__}")
    if input.is_quantized:
        raise NotImplementedError(f"Could not run 'aten::{op}': the input is quantized already")
    if input.dtype is not flambeau.float32:
        raise RuntimeError(f"{op}: Quantize only works on Float Tensor, got {input.dtype}")


def _number(op: str, name: str, value: Any, kind: type) -> Any:
    """A number, which may come in a tensor of one element."""
    if isinstance(value, flambeau.Tensor):
        return kind(value.item())
    if isinstance(value, bool) or not isinstance(value, (int, float)[: 1 + (kind is float)]):
        raise TypeError(
            f"{op}(): argument '{name}' must be Tensor or {kind.__name__}, not "
            f"{type(value).__name__}"
        )
    return kind(value)


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """A quantized tensor whose elements all stand for (integer - zero_point) * scale.

    Args:
        input: a float tensor; of a list of tensors the result is a tuple.
        scale: a number or a tensor of one; for a list of tensors, a tensor of as many.
        zero_point: the integer that stands for zero, likewise.
        dtype: torch.qint8, torch.quint8 or torch.qint32.
    """
    op = "quantize_per_tensor"
    if isinstance(input, (list, tuple)):
        for name, value in (("scales", scale), ("zero_points", zero_point)):
            if not isinstance(value, flambeau.Tensor):
                raise TypeError(
                    f"{op}(): argument '{name}' must be Tensor, not {type(value).__name__}"
                )
        return tuple(
            quantize_per_tensor(each, scale[index], zero_point[index], dtype)
            for index, each in enumerate(input)
        )
    step = _number(op, "scale", scale, float)
    zero = _number(op, "zero_point", zero_point, int)
    ints = _integers(op, dtype)
    _check_real(op, input)
    quantizer = PerTensor(step, zero)
    return QuantizedTensor._over(quantizer.quantize(input, ints), quantizer)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> Any:
    """A quantized tensor with a scale and a zero point for each place along a dimension.

    Args:
        input: a float tensor.
        scales, zero_points: vectors, of as many elements as the dimension has.
        axis: the dimension.
        dtype: torch.qint8, torch.quint8 or torch.qint32.
    """
    op = "quantize_per_channel"
    quantizer = _channels(op, scales, zero_points, axis)
    ints = _integers(op, dtype)
    _check_real(op, input)
    return QuantizedTensor._over(quantizer.quantize(input, ints), quantizer)


def _channels(op: str, scales: Any, zero_points: Any, axis: Any) -> PerChannel:
    for name, value in (("scales", scales), ("zero_points", zero_points)):
        if not isinstance(value, flambeau.Tensor):
            raise TypeError(f"{op}(): argument '{name}' must be Tensor, not {type(value).__name__}")
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise TypeError(f"{op}(): argument 'axis' must be int, not {type(axis).__name__}")
    if not scales.is_floating_point():
        raise RuntimeError(f"{op}: scale tensor must be floating point, got {scales.dtype}")
    for name, value in (("scale", scales), ("zero_points", zero_points)):
        if value.dim() != 1:
            raise RuntimeError(f"{op}: {name} tensor must have dimension 1, got {value.dim()}")
    if scales.numel() != zero_points.numel():
        raise RuntimeError(
            f"{op}: number of elements in scales and zero_points must match, got {scales.numel()} "
            f"and {zero_points.numel()}"
        )
    return PerChannel(scales.clone(), zero_points.clone(), axis)


_SMALL_SCALE = 6.1e-5  # below which products of scales would leave single precision


def _fitted(low: float, high: float, least: int, most: int) -> tuple[float, int]:
    """The scale and the zero point with which integers from least to most cover an interval."""
    if not low <= high:
        raise RuntimeError(
            "In ChooseQuantizationParams, min should be less than or equal to max, got "
            f"{low} and {high}"
        )
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (most - least)
    single = flambeau.tensor(scale, dtype=flambeau.float32)
    if single == 0 or single.reciprocal().isinf():
        scale = 0.1
    if scale < _SMALL_SCALE:
        grown = _SMALL_SCALE / scale
        scale = _SMALL_SCALE
        if low == 0:
            high = scale * (most - least)
        elif high == 0:
            low = -scale * (most - least)
        else:
            low, high = low * grown, high * grown
    if scale == float("inf"):
        raise RuntimeError("quantize_per_tensor_dynamic: the input is not finite")
    from_low, from_high = least - low / scale, most - high / scale
    # Of the two ends, the one that rounding moves least says where zero lies.
    errors = abs(least) - abs(low / scale), abs(most) - abs(high / scale)
    start = from_low if errors[0] < errors[1] else from_high
    return scale, least if start < least else most if start > most else round(start)


def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Any:
    """A quantized tensor whose scale and zero point cover the values that there are.

    Args:
        input: a float tensor.
        dtype: torch.qint8 or torch.quint8; torch.float16 gives a tensor in half precision.
        reduce_range: whether to leave out one bit of the integers.
    """
    op = "quantize_per_tensor_dynamic"
    if dtype is flambeau.float16:
        return input.to(dtype)
    limits = {qint8: (-128, 127), quint8: (0, 255)}.get(dtype)
    if limits is None:
        raise RuntimeError(f"{op}: dtype {dtype} not supported")
    _check_real(op, input)
    if input.numel() == 0:
        raise RuntimeError(
            f"{op}: Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    if reduce_range:
        limits = (limits[0] // 2, limits[1] // 2)
    detached = input.detach()
    scale, zero = _fitted(float(detached.min()), float(detached.max()), *limits)
    return quantize_per_tensor(input, scale, zero, dtype)


def _choose_qparams_per_tensor(self: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """The scale and the zero point by which torch.quint8 covers the values of a tensor."""
    detached = self.detach()
    return _fitted(float(detached.min()), float(detached.max()), 0, 127 if reduce_range else 255)


# Without values -----------------------------------------------------------------------------------
def _empty(op: str, size: Any, dtype: Any, options: dict[str, Any]) -> Tensor:
    if dtype not in INTS:
        raise RuntimeError(
            f"{op}: Creation of quantized tensor requires quantized dtype like torch.quint8, got "
            f"{dtype}"
        )
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return flambeau.empty(sizes, dtype=INTS[dtype], **options)


def _empty_affine_quantized(
    *size: Any, scale: float = 1.0, zero_point: int = 0, dtype: Any = None, **options: Any
) -> Any:
    """A quantized tensor of integers that are not set."""
    ints = _empty("_empty_affine_quantized", _sizes(size, options), dtype, options)
    return QuantizedTensor._over(ints, PerTensor(float(scale), int(zero_point)))


def _empty_per_channel_affine_quantized(
    *size: Any, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any = None, **options: Any
) -> Any:
    """A tensor, quantized per channel, of integers that are not set."""
    op = "_empty_per_channel_affine_quantized"
    ints = _empty(op, _sizes(size, options), dtype, options)
    return QuantizedTensor._over(ints, _channels(op, scales, zero_points, axis))


def _sizes(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    return (options.pop("size"),) if "size" in options else size


def empty_quantized(
    size: Any, qtensor: Any, *, dtype: Any = None, memory_format: Any = None, **options: Any
) -> Any:
    """A tensor of integers that are not set, quantized as another is."""
    if not qtensor.is_quantized:
        raise _no_quantized("empty_quantized", qtensor)
    if dtype is not None and dtype is not qtensor.dtype:
        raise RuntimeError(f"empty_quantized: dtype {dtype} is not that of the tensor")
    if memory_format is not None:
        options["memory_format"] = memory_format
    options.setdefault("device", qtensor.device)
    ints = _empty("empty_quantized", (size,), qtensor.dtype, options)
    return QuantizedTensor._over(ints, qtensor._quantizer)


def _of_integers(op: str, input: Tensor, quantizer: Any) -> Any:
    if input.dtype not in DTYPES or input.is_quantized:
        raise RuntimeError(
            f"{op}: Creation of quantized tensor requires quantized dtype like torch.quint8: the "
            f"input must be int8, uint8 or int32, got {input.dtype}"
        )
    return QuantizedTensor._over(input.clone(memory_format=flambeau.contiguous_format), quantizer)


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Any:
    """A quantized tensor of a copy of integers."""
    op = "_make_per_tensor_quantized_tensor"
    step, zero = _number(op, "scale", scale, float), _number(op, "zero_point", zero_point, int)
    return _of_integers(op, input, PerTensor(step, zero))


def _make_per_channel_quantized_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int
) -> Any:
    """A tensor, quantized per channel, of a copy of integers."""
    op = "_make_per_channel_quantized_tensor"
    return _of_integers(op, input, _channels(op, scale, zero_point, axis))


# Pooling ------------------------------------------------------------------------------------------
def _pooling(dims: int) -> Any:
    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        """The largest numbers under a window that moves over a quantized tensor."""
        if not isinstance(input, QuantizedTensor):
            raise _no_quantized(pool.__name__, input)
        largest = getattr(flambeau.nn.functional, f"max_pool{dims}d")
        return largest(input, kernel_size, stride or None, padding, dilation, ceil_mode=ceil_mode)

    pool.__name__ = pool.__qualname__ = f"quantized_max_pool{dims}d"
    return pool


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = map(_pooling, (1, 2, 3))


# Questions ----------------------------------------------------------------------------------------
def _no_quantized(op: str, tensor: Any) -> Exception:
    if not isinstance(tensor, flambeau.Tensor):
        return TypeError(f"{op}(): argument 'input' must be Tensor, not {type(tensor).__name__}")
    return NotImplementedError(
        f"Could not run 'aten::{op}' with arguments from the '{tensor.device.type.upper()}' "
        f"backend: the tensor, of {tensor.dtype}, is not quantized"
    )


def _question(name: str) -> Any:
    def ask(input: Any) -> Any:
        if not isinstance(input, QuantizedTensor):
            raise _no_quantized(name, input)
        return getattr(input, name)()

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = getattr(QuantizedTensor, name).__doc__
    return ask


int_repr = _question("int_repr")
q_scale = _question("q_scale")
q_zero_point = _question("q_zero_point")
q_per_channel_scales = _question("q_per_channel_scales")
q_per_channel_zero_points = _question("q_per_channel_zero_points")
q_per_channel_axis = _question("q_per_channel_axis")
_qscheme = _question("qscheme")


def dequantize(*args: Any, **kwargs: Any) -> Any:
    """The real numbers, in float32, that a tensor stands for; of a list, a tuple of them.

    Args:
        input: a tensor, quantized or not; or `tensors`, a list.
    """
    (given,) = (*args, *kwargs.values())
    if isinstance(given, QuantizedTensor):
        return given.dequantize()
    if isinstance(given, flambeau.Tensor):
        return given.to(flambeau.float32)
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"dequantize(): argument 'input' must be Tensor, not {type(given).__name__}"
        )
    if not given:
        raise NotImplementedError("dequantize: there are no tensors in the list")
    return tuple(dequantize(each) for each in given)
