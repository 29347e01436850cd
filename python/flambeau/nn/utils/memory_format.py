"""Converting the weights of convolutions, and nothing else, to a memory format."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Any:
    """Lays out the weights of all convolutions of images in the given format."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Any:
    """Lays out the weights of all convolutions of volumes in the given format."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
