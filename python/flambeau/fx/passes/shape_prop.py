"""Runs a graph and notes the shape of every value in its node."""

from __future__ import annotations

import typing

import flambeau
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(typing.NamedTuple):
    """What is known about a tensor without its elements."""

    shape: flambeau.Size
    dtype: flambeau.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: flambeau.memory_format | None
    is_quantized: bool
    qparams: dict[str, object]


def _extract_tensor_metadata(tensor: flambeau.Tensor) -> TensorMetadata:
    formats = (flambeau.contiguous_format, flambeau.channels_last, flambeau.channels_last_3d)
    ranks = {flambeau.channels_last: 4, flambeau.channels_last_3d: 5}
    memory_format = next(
        (
            one
            for one in formats
            if ranks.get(one, tensor.dim()) == tensor.dim()
            and tensor.is_contiguous(memory_format=one)
        ),
        None,
    )
    return TensorMetadata(
        tensor.shape, tensor.dtype, tensor.requires_grad, tensor.stride(), memory_format, False, {}
    )


class ShapeProp(Interpreter):
    """Sets meta['tensor_meta'] and meta['type'] of the nodes of a module's graph."""

    def run_node(self, n: Node) -> Any:
        """Runs a node and notes what it gives."""
        result = super().run_node(n)
        found = False

        def note(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, flambeau.Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        noted = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = noted
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph with inputs."""
        return super().run(*args)
