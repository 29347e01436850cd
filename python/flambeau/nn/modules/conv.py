"""Convolutions and transposed convolutions over one, two or three spatial dimensions."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from flambeau.nn.parameter import Parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _same_padding(dilation: tuple[int, ...], kernel_size: tuple[int, ...]) -> list[int]:
    """(before, after) of the last dimension first, for an output of the input's size."""
    padding = []
    for step, length in zip(reversed(dilation), reversed(kernel_size), strict=True):
        total = step * (length - 1)
        padding += [total // 2, total - total // 2]
    return padding


class _ConvNd(Module):
    """What the convolutions have in common."""

    bias: Tensor | None
    weight: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups, stride, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # What F.pad is given when the padding is not zeros and so is done beforehand.
        if padding == "valid":
            self._reversed_padding_repeated_twice: Any = [0, 0] * len(kernel_size)
        elif padding == "same":
            self._reversed_padding_repeated_twice = _same_padding(dilation, kernel_size)
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        channels = (
            (in_channels, out_channels // groups)
            if transposed
            else (out_channels, in_channels // groups)
        )
        self.weight = Parameter(
            flambeau.empty((*channels, *kernel_size), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(flambeau.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @staticmethod
    def _check(
        in_channels: int,
        out_channels: int,
        groups: int,
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        padding_mode: str,
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                "padding_mode must be one of "
                f"{set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly from +- 1 / sqrt(fan in)."""
        weight = self.weight
        if weight.is_contiguous():
            init.kaiming_uniform_(weight, a=math.sqrt(5))
        else:
            # A seed gives the same weights, however they lie in memory.
            drawn = flambeau.empty_like(weight, memory_format=flambeau.contiguous_format)
            init.kaiming_uniform_(drawn, a=math.sqrt(5))
            with flambeau.no_grad():
                weight.copy_(drawn)
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


class _Conv(_ConvNd):
    """A convolution; the subclasses say over how many dimensions and by which op."""

    _dimensions: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        spread = _ntuple(self._dimensions)
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            padding if isinstance(padding, str) else spread(padding),
            spread(dilation),
            False,
            spread(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve: Any = (F.conv1d, F.conv2d, F.conv3d)[self._dimensions - 1]
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of (N, C, L) or (C, L)."""

    _dimensions = 1


class Conv2d(_Conv):
    """Convolution of (N, C, H, W) or (C, H, W)."""

    _dimensions = 2


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W)."""

    _dimensions = 3


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution; the subclasses say over how many dimensions and by which op."""

    _dimensions: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        spread = _ntuple(self._dimensions)
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            spread(padding),
            spread(dilation),
            True,
            spread(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> Any:
        """The padding that gives the output the wanted size, which must be within reach."""
        if output_size is None:
            return self.output_padding
        spatial = self._dimensions
        outer = 2 if input.dim() == spatial + 2 else 1
        wanted = list(output_size)
        if len(wanted) == outer + spatial:
            wanted = wanted[outer:]
        if len(wanted) != spatial:
            raise ValueError(
                f"ConvTranspose{spatial}D: for {input.dim()}D input, output_size must have "
                f"{spatial} or {outer + spatial} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(d + outer) - 1) * self.stride[d]
            - 2 * int(self.padding[d])
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(spatial)
        ]
        largest = [size + self.stride[d] - 1 for d, size in enumerate(smallest)]
        if any(
            not low <= size <= high
            for size, low, high in zip(wanted, smallest, largest, strict=True)
        ):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from "
                f"{smallest} to {largest} (for an input of {input.size()[2:]})"
            )
        return tuple(size - low for size, low in zip(wanted, smallest, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        ops: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
        return ops[self._dimensions - 1](
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class _ConvTransposeMixin:
    """A base that older programs ask for; nothing here has it."""


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) or (C, L)."""

    _dimensions = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W) or (C, H, W)."""

    _dimensions = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W) or (C, D, H, W)."""

    _dimensions = 3
