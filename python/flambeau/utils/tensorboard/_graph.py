"""The graph of a model as TensorFlow's GraphDef: one node an operation, named by the modules that
it ran in, with edges to where its tensors came from.
"""

from __future__ import annotations

import flambeau
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_leaves
from flambeau.utils.tensorboard._records import message, text, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["model_graph", "onnx_graph", "run_metadata"]

_PRODUCER = 22  # the version of GraphDef's producer that TensorBoard reads


def _node(
    name: str, op: str, inputs: Iterable[str], shape: Any = None, attributes: str = ""
) -> bytes:
    content = text(1, name) + text(2, op) + b"".join(text(3, source) for source in inputs)
    if shape is not None:
        sizes = b"".join(message(2, varint(1, size)) for size in shape)
        content += _attribute("_output_shapes", message(1, message(7, sizes)))
    return message(1, content + _attribute("attr", text(2, attributes)))


def _attribute(name: str, value: bytes) -> bytes:
    return message(5, text(1, name) + message(2, value))


def _scopes(model: Any) -> dict[int, str]:
    """The name of each module: the classes that lead to it, and the names they have."""
    scopes: dict[str, str] = {"": type(model).__name__}
    for path, module in model.named_modules():
        if path:
            parent, _, name = path.rpartition(".")
            scopes[path] = f"{scopes[parent]}/{type(module).__name__}[{name}]"
    return {id(module): scopes[path] for path, module in model.named_modules()}


class _Tracer(TorchDispatchMode):
    """Writes down the operations that run inside it."""

    def __init__(self, model: Any, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose
        self.nodes: list[bytes] = []
        self.scope: list[str] = []
        self._modules = _scopes(model)
        self._sources: dict[int, str] = {}
        self._kept: list[Any] = []  # a tensor that is gone would lend its id to another
        self._weights: dict[int, tuple[str, str]] = {}
        for path, module in model.named_modules():
            own = (*module.named_parameters(path, False), *module.named_buffers(path, False))
            for name, tensor in own:
                last = name.rpartition(".")[2]
                self._weights.setdefault(id(tensor), (self._modules[id(module)], last))

    def add(self, name: str, op: str, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
        """A node, and that tensors come from it."""
        made = list(outputs)
        sources = [source for tensor in inputs if (source := self._source(tensor)) is not None]
        self.nodes.append(_node(name, op, sources, made[0].shape if made else None))
        if self._verbose:
            print(f"{name} = {op}({', '.join(sources)})")
        for tensor in made:
            self._kept.append(tensor)
            self._sources[id(tensor)] = name

    def _source(self, tensor: Any) -> str | None:
        known = self._sources.get(id(tensor))
        if known is None and id(tensor) in self._weights:
            scope, name = self._weights[id(tensor)]
            known = self._sources[id(tensor)] = f"{scope}/{name}/{name}"
            attributes = f"{{ name :  {name} }}"
            self.nodes.append(_node(known, "prim::GetAttr", (), tensor.shape, attributes))
        return known

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func).removeprefix("aten.").partition(".")[0]
        place = f"{self.scope[-1]}/{name}_{len(self.nodes)}"
        self.add(place, f"aten::{name}", _tensors((args, kwargs)), _tensors(result))
        return result

    def enter(self, module: Any, args: Any) -> None:
        """Before a module's forward pass."""
        self.scope.append(self._modules[id(module)])

    def leave(self, module: Any, args: Any, output: Any) -> None:
        """After it."""
        self.scope.pop()


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, flambeau.Tensor)]


def model_graph(model: Any, inputs: Any, verbose: bool = False) -> bytes:
    """The GraphDef of what a model does, in eval mode, to an input or to several."""
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if inputs is None:
        arguments = ()
    tracer = _Tracer(model, verbose)
    hooks = []
    training = [module for module in model.modules() if module.training]
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(tracer.enter))
        hooks.append(module.register_forward_hook(tracer.leave))
    try:
        model.eval()
        for i, tensor in enumerate(_tensors(arguments), 1):
            tracer.add(f"input/input.{i}", "IO Node", (), [tensor])
        with flambeau.no_grad(), tracer:
            result = model(*arguments)
    finally:
        for module in training:
            module.training = True
        for hook in hooks:
            hook.remove()
    for i, tensor in enumerate(_tensors(result), 1):
        tracer.add(f"output/output.{i}", "IO Node", [tensor], [tensor])
    return b"".join(tracer.nodes) + message(4, varint(1, _PRODUCER))


def onnx_graph(path: Any) -> bytes:
    """The GraphDef of a model in a file of ONNX, which the package onnx reads."""
    import onnx

    graph = onnx.load(path).graph
    made = {output: node for node in graph.node for output in node.output}
    names = {id(node): node.name or f"{node.op_type}_{i}" for i, node in enumerate(graph.node)}
    nodes = b"".join(_node(given.name, "Variable", ()) for given in graph.input)
    for node in graph.node:
        inputs = [names[id(made[name])] if name in made else name for name in node.input if name]
        nodes += _node(names[id(node)], node.op_type, inputs)
    return nodes + message(4, varint(1, _PRODUCER))


def run_metadata() -> bytes:
    """What TensorBoard wants to be told of the run of a graph: where it took place."""
    return message(1, message(1, text(1, "/device:CPU:0")))
