"""A table of a model: its layers, the shapes they give, their parameters, and the memory it takes.

from flambeau.utils.model_summary import summary
print(summary(model, torch.zeros(1, 3, 224, 224)))
"""

from __future__ import annotations

from typing import NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.nn import Module

__all__ = ["Layer", "ModelSummary", "summary"]


class Layer(NamedTuple):
    """One line of the table."""

    name: str
    kind: str
    depth: int
    output_shapes: list[tuple[int, ...]]
    parameters: int
    trainable: int


class ModelSummary:
    """What `summary` found; printing shows the table.

    Attributes:
        layers: the modules in the order in which they are called, each once.
        parameters, trainable: how many numbers the model has, and how many of them train.
        parameter_bytes, buffer_bytes, output_bytes: the memory of parameters, of buffers, and of
            the results of the innermost modules in one pass.
    """

    def __init__(self, layers: list[Layer], model: Module, output_bytes: int) -> None:
        parameters = list(model.parameters())
        self.layers = layers
        self.parameters = sum(p.numel() for p in parameters)
        self.trainable = sum(p.numel() for p in parameters if p.requires_grad)
        self.parameter_bytes = sum(p.numel() * p.dtype.itemsize for p in parameters)
        self.buffer_bytes = sum(b.numel() * b.dtype.itemsize for b in model.buffers())
        self.output_bytes = output_bytes

    def __str__(self) -> str:
        rows = [("layer", "output", "parameters")]
        for layer in self.layers:
            title = "  " * layer.depth + f"{layer.name} ({layer.kind})"
            shapes = " ".join(str(list(shape)) for shape in layer.output_shapes)
            rows.append((title, shapes, f"{layer.parameters:,}"))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows
        ]
        lines.insert(1, "-" * len(lines[0]))
        lines.append("-" * len(lines[0]))
        lines.append(f"parameters: {self.parameters:,}, of which {self.trainable:,} train")
        memory = (self.parameter_bytes, self.buffer_bytes, self.output_bytes)
        shown = [f"{size / 2**20:.2f} MB" for size in memory]
        lines.append("memory: {} parameters, {} buffers, {} results".format(*shown))
        return "\n".join(lines)

    __repr__ = __str__


def _own_count(module: Module, only_trainable: bool) -> int:
    parameters = module.parameters()
    return sum(p.numel() for p in parameters if p.requires_grad or not only_trainable)


def summary(model: Module, *inputs: Any, **kwargs: Any) -> ModelSummary:
    """Calls a model once, without gradients and in evaluation mode, and tells what was called.

    Args:
        model: the model, which is as before afterwards.
        inputs: what it is called with; kwargs likewise.
    """
    names = {part: name for name, part in model.named_modules()}
    found: dict[Module, Layer] = {}
    output_bytes = 0
    handles = []

    def enter(module: Module, _: Any) -> None:
        # Noted on the way in, so that a module stands before those it calls.
        if module not in found:
            name = names[module]
            depth = name.count(".") + 1 if name else 0
            title = name.rpartition(".")[2] or "model"
            counts = (_own_count(module, False), _own_count(module, True))
            found[module] = Layer(title, type(module).__name__, depth, [], *counts)

    def leave(module: Module, _: Any, output: Any) -> None:
        nonlocal output_bytes
        tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
        if not found[module].output_shapes:
            found[module].output_shapes.extend(tuple(tensor.shape) for tensor in tensors)
        if next(iter(module.children()), None) is None:
            output_bytes += sum(t.numel() * t.dtype.itemsize for t in tensors)

    training = {part: part.training for part in names}
    try:
        for part in names:
            handles.append(part.register_forward_pre_hook(enter))
            handles.append(part.register_forward_hook(leave))
        model.eval()
        with flambeau.no_grad():
            model(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for part, mode in training.items():
            part.training = mode
    return ModelSummary(list(found.values()), model, output_bytes)
