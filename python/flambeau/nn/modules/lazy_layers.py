"""The lazy forms of layers: linear, convolutions, batch and instance normalization."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from flambeau.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.linear import Linear
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes in_features from its first input."""

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        # Made without parameters first: those are not to be drawn yet.
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with flambeau.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                    f"in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """What lazy convolutions have in common."""

    weight: Any
    bias: Any
    out_channels: Any
    in_channels: Any
    _transposed = False

    def __init__(self: Any, out_channels: int, *args: Any, **kwargs: Any) -> None:
        options = self._conv_options(*args, **kwargs)
        device, dtype = options.pop("device"), options.pop("dtype")
        bias = options.pop("bias")
        super().__init__(0, 0, **options, bias=False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    @staticmethod
    def _conv_options(
        kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        return dict(locals())

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if self.has_uninitialized_params():
            self.in_channels = self._get_in_channels(input)
            if self.in_channels % self.groups != 0:
                raise ValueError("in_channels must be divisible by groups")
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        elif self.in_channels == 0:
            self.in_channels = self._get_in_channels(input)

    def _weight_shape(self: Any) -> tuple[int, ...]:
        if self._transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        else:
            channels = (self.out_channels, self.in_channels // self.groups)
        return (*channels, *self.kernel_size)

    def _get_in_channels(self: Any, input: Tensor) -> int:
        spatial = self._dimensions
        if input.dim() not in (spatial + 1, spatial + 2):
            raise RuntimeError(
                f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == spatial + 2 else input.shape[0]


class _LazyConvTransposeMixin(_LazyConvXdMixin):
    _transposed = True

    @staticmethod
    def _conv_options(  # type: ignore[override]
        kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        return dict(locals())


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """A Conv1d that takes in_channels from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """A Conv2d that takes in_channels from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """A Conv3d that takes in_channels from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTransposeMixin, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposeMixin, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposeMixin, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose3d


class _LazyNormBase(LazyModuleMixin):
    """What lazy batch and instance norms have in common."""

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    affine: Any
    track_running_stats: Any
    num_features: Any

    def __init__(
        self: Any, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        # Made without parameters first: their size is not known.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            self.bias = UninitializedParameter(**options) if bias else None
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = flambeau.tensor(0, dtype=flambeau.long, device=device)

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor) -> None:  # type: ignore[override]
        self._check_input_dim(input)
        if self.has_uninitialized_params():
            single = input.dim() == getattr(self, "_dimensions", -2) + 1
            self.num_features = input.shape[0 if single else 1]
            for name in ("weight", "bias"):
                if self._parameters.get(name) is not None:
                    self._materialize(name, (self.num_features,))
            if self.track_running_stats:
                self._materialize("running_mean", (self.num_features,))
                self._materialize("running_var", (self.num_features,))
            self.reset_parameters()
        elif self.num_features == 0:
            self.num_features = input.shape[1]


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d
