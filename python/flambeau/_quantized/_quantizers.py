"""What an integer of a quantized tensor stands for: (integer - zero point) * scale.

The formulas are written in single precision, as PyTorch computes them: a real number times the
reciprocal of the scale is rounded to the nearest integer, ties to the even one; the zero point is
added, and what lies outside the integer type becomes its nearest end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import flambeau
from flambeau import _C, _absent
from flambeau._quantized import _scheme

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

_ops: Any = _C

qint8: Any = _absent.dtype("qint8")
quint8: Any = _absent.dtype("quint8")
qint32: Any = _absent.dtype("qint32")
# The dtypes of the integers, and the quantized dtypes that they are stored for.
DTYPES: dict[Any, Any] = {flambeau.int8: qint8, flambeau.uint8: quint8, flambeau.int32: qint32}
INTS = {quantized: ints for ints, quantized in DTYPES.items()}
_LIMITS = {
    flambeau.int8: (-128, 127),
    flambeau.uint8: (0, 255),
    flambeau.int32: (-(2**31), 2**31 - 1),
}
KIND_NAMES = {qint8: "QInt8", quint8: "QUInt8", qint32: "QInt32"}


def check_zero_point(op: str, zero_point: int, ints: Any) -> None:
    low, high = _LIMITS[ints]
    if zero_point < low:
        raise RuntimeError(f"{op} zero_point {zero_point} is below lower bound.")
    if zero_point > high:
        raise RuntimeError(f"{op} zero_point {zero_point} is above upper bound.")


class PerTensor(NamedTuple):
    """One scale and one zero point for all elements."""

    scale: float
    zero_point: int

    @property
    def scheme(self) -> Any:
        return _scheme.per_tensor_affine

    def parameters(self) -> tuple[Any, ...]:
        """As files keep them."""
        return self.scheme, self.scale, self.zero_point

    def quantize(self, x: Tensor, ints: Any) -> Tensor:
        check_zero_point("quantize_tensor_per_tensor_affine", self.zero_point, ints)
        return _ops._quantized(x, self.scale, self.zero_point, ints)

    def dequantize(self, ints: Tensor) -> Tensor:
        check_zero_point("dequantize_tensor_per_tensor_affine", self.zero_point, ints.dtype)
        return _ops._dequantized(ints, self.scale, self.zero_point)

    def place(self, value: float, ints: Any) -> int:
        """The integer that a number becomes, one that is none the lowest."""
        if value != value:
            return _LIMITS[ints][0]
        return int(self.quantize(flambeau.tensor(value, dtype=flambeau.float32), ints).item())

    def on(self, device: Any) -> PerTensor:
        return self


class PerChannel:
    """A scale and a zero point for each place along an axis; zero points that are no integers are
    part of what is rounded."""

    __slots__ = ("axis", "scales", "zero_points")

    def __init__(self, scales: Tensor, zero_points: Tensor, axis: int) -> None:
        inexact = zero_points.is_floating_point()
        self.scales = scales.detach().to(flambeau.float32 if inexact else flambeau.float64)
        self.zero_points = zero_points.detach().to(flambeau.float32 if inexact else flambeau.int64)
        self.axis = axis

    @property
    def scheme(self) -> Any:
        if self.zero_points.is_floating_point():
            return _scheme.per_channel_affine_float_qparams
        return _scheme.per_channel_affine

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PerChannel)
            and self.axis == other.axis
            and self.scheme is other.scheme
            and flambeau.equal(self.scales, other.scales)
            and flambeau.equal(self.zero_points, other.zero_points)
        )

    __hash__ = object.__hash__

    def parameters(self) -> tuple[Any, ...]:
        """As files keep them."""
        return self.scheme, self.scales, self.zero_points, self.axis

    def _check_axis(self, op: str, x: Tensor) -> None:
        axis, count = self.axis, self.scales.numel()
        if not 0 <= axis < x.dim():
            raise RuntimeError(
                f"Channel axis out of range in per channel affine {op}. Got: {axis} Expected: [0, "
                f"{x.dim()})"
            )
        if count != x.shape[axis]:
            raise RuntimeError(
                f"length of scales must equal to channel, expected {x.shape[axis]} got, {count}"
            )

    def _check_zero_points(self, op: str, ints: Any) -> None:
        if not self.zero_points.is_floating_point() and self.zero_points.numel():
            for zero in self.zero_points.aminmax():
                check_zero_point(op, int(zero), ints)

    def quantize(self, x: Tensor, ints: Any) -> Tensor:
        self._check_axis("quantization", x)
        self._check_zero_points("quantize_tensor_per_channel_affine", ints)
        there = self.on(x.device)
        return _ops._quantized_by_channel(x, there.scales, there.zero_points, self.axis, ints)

    def dequantize(self, ints: Tensor) -> Tensor:
        self._check_axis("dequantization", ints)
        self._check_zero_points("dequantize_tensor_per_channel_affine", ints.dtype)
        there = self.on(ints.device)
        return _ops._dequantized_by_channel(ints, there.scales, there.zero_points, self.axis)

    def on(self, device: Any) -> PerChannel:
        return PerChannel(self.scales.to(device), self.zero_points.to(device), self.axis)

    def reshaped(self, old: Sequence[int], new: Sequence[int]) -> Any:
        """The quantizer after the shape has changed: the axis is where as many elements lie before
        it as did. One that is gone keeps its number, and values cannot be asked for."""
        if self.axis >= len(old):
            return self
        before, count = math.prod(old[: self.axis]), old[self.axis]
        found = [
            dim for dim, size in enumerate(new) if size == count and math.prod(new[:dim]) == before
        ]
        if not found and count == 1 == self.scales.numel():
            return self.chosen(0)
        axis = self.axis if not found or self.axis in found else found[0]
        return PerChannel(self.scales, self.zero_points, axis)

    def chosen(self, channel: int) -> PerTensor:
        """The quantizer of one channel."""
        zero = self.zero_points[channel].item()
        if zero != int(zero):
            raise RuntimeError(
                f"a channel whose zero point, {zero}, is no integer cannot be taken out of a "
                "tensor that is quantized per channel"
            )
        return PerTensor(float(self.scales[channel]), int(zero))

    def indexed(self, channels: Tensor, before: int) -> Any:
        """The quantizer of a part, of which `channels` says to which channel each element belongs:
        a view whose strides are zero but along the axis."""
        strides, shape = channels.stride(), channels.shape
        found = [dim for dim, stride in enumerate(strides) if stride]
        if len(found) > 1:
            found = [dim for dim in found if shape[dim] != 1][:1] or found[:1]
        if not found or (shape[found[0]] == 1 != before):
            channel = int(channels.reshape(-1)[0]) if channels.numel() else 0
            return self.chosen(channel)
        axis = found[0]
        for dim in range(channels.dim() - 1, -1, -1):
            if dim != axis and channels.numel():
                channels = channels.select(dim, 0)
        channels = channels if channels.dim() == 1 else channels.new_empty(0)
        return PerChannel(self.scales[channels], self.zero_points[channels], axis)


def of_parameters(parameters: Any) -> Any:
    """The quantizer that a file's parameters stand for."""
    scheme, *values = parameters
    if scheme is _scheme.per_tensor_affine and len(values) == 2:
        return PerTensor(float(values[0]), int(values[1]))
    channels = (_scheme.per_channel_affine, _scheme.per_channel_affine_float_qparams)
    if scheme in channels and len(values) == 3:
        scales, zeros = values[:2]
        exact = scheme is _scheme.per_channel_affine
        if isinstance(scales, (list, tuple)):
            scales = flambeau.tensor(scales, dtype=flambeau.float64)
        if isinstance(zeros, (list, tuple)):
            kind = flambeau.int64 if exact else flambeau.float32
            zeros = flambeau.tensor(zeros, dtype=kind)
        return PerChannel(scales, zeros, int(values[2]))
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")
