"""The graph seen from Python: nodes, edges, hooks on several gradients, and hooks on saved
tensors.
"""

from __future__ import annotations

import functools
from collections import namedtuple

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def lead_elsewhere(nodes: Iterable[Node | None], leaves: Iterable[Tensor]) -> bool:
    """Whether the graph behind nodes ends in any leaf besides `leaves`."""
    own = {id(leaf) for leaf in leaves}
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in own:
            return True
        waiting += [before for before, _ in node.next_functions]
    return False


class _NodeMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (_C._Node, _C._FunctionBase))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (_C._Node, _C._FunctionBase))


class Node(metaclass=_NodeMeta):
    """What `grad_fn` is: an operation of the graph. The core makes nodes; this class names their
    interface.
    """

    def name(self) -> str:
        """The name of the operation, such as `MulBackward0`."""
        raise NotImplementedError

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input of the forward operation the node that made it, and which output of it."""
        raise NotImplementedError

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's notes on this node."""
        raise NotImplementedError

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Calls `fn(grad_inputs, grad_outputs)` after the node ran; what it returns replaces
        grad_inputs.
        """
        raise NotImplementedError

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Calls `fn(grad_outputs)` before the node runs; what it returns replaces grad_outputs."""
        raise NotImplementedError


GradientEdge = namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=[None])
GradientEdge.__doc__ = (
    """The place of the graph that the gradient of a tensor passes: an output of a node."""
)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge for `tensor`, to be given to `backward` or `grad` in its place, without keeping it
    alive.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Says that `tensor` was written into by means that autograd does not see."""
    tensors = (tensor,) if isinstance(tensor, flambeau.Tensor) else tensor
    try:
        for item in tensors:
            _C._increment_version(item)
    except TypeError:
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input") from None


class saved_tensors_hooks:
    """Inside it, every tensor that an operation saves passes through `pack_hook`; what that returns
    is kept, and given to `unpack_hook`, which must return the tensor, when backward needs it."""

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_default_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args: object) -> None:
        _C._pop_saved_tensors_default_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside it, saved tensors are kept in the memory of the CPU and come back to their device in
    backward.

    Args:
        pin_memory: keeps them in pinned memory, so that the way back overlaps with computing.
        device_type: the device for which memory is pinned.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            if not pin_memory:
                return (tensor.device, tensor.cpu())
            packed = flambeau.empty(
                tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True
            )
            packed.copy_(tensor)
            return (tensor.device, packed)

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks:
    """Inside it, using saved-tensor hooks raises a RuntimeError that says `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self.previous: str | None = None

    def __enter__(self) -> None:
        self.previous = _C._saved_tensors_hooks_get_disabled_error_message()
        _C._saved_tensors_hooks_disable(self.error_message)

    def __exit__(self, *args: object) -> None:
        if self.previous is None:
            _C._saved_tensors_hooks_enable()
        else:
            _C._saved_tensors_hooks_disable(self.previous)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.error_message):
                return func(*args, **kwargs)

        return disabled


class _MultiHandle:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *args: object) -> None:
        self.remove()


def _hook_when_all_came(tensors: Sequence[Tensor], fn: Callable[..., Any]) -> list[Any]:
    """Hooks that call `fn` in each backward pass once, with the gradients of all tensors it
    computes.
    """
    if not all(tensor.requires_grad for tensor in tensors):
        raise AssertionError("Expected every tensor of register_multi_grad_hook to require a grad")
    nodes = [get_gradient_edge(tensor).node for tensor in tensors]
    # By pass: how many gradients will come, and those that came. Threads have passes of their own.
    expected: dict[int, int] = {}
    arrived: dict[int, list[Tensor | None]] = {}

    def receive(index: int, gradient: Tensor) -> None:
        task = _C._current_graph_task_id()
        if task == -1:
            raise AssertionError("expected this hook to be called inside a backward call")
        if task not in expected:
            expected[task] = sum(map(_C._will_engine_execute_node, nodes))
            arrived[task] = [None] * len(nodes)
        arrived[task][index] = gradient
        expected[task] -= 1
        if expected[task] == 0:
            del expected[task]
            fn(arrived.pop(task))

    return [
        tensor.register_hook(functools.partial(receive, index))
        for index, tensor in enumerate(tensors)
    ]


def _hook_when_one_came(tensors: Sequence[Tensor], fn: Callable[..., Any]) -> list[Any]:
    """Hooks that call `fn` in each backward pass with the first of the gradients that comes."""
    served: set[int] = set()

    def receive(gradient: Tensor) -> None:
        task = _C._current_graph_task_id()
        if task == -1:
            raise AssertionError("expected this hook to be called inside a backward call")
        if task not in served:
            served.add(task)
            _C._queue_callback(functools.partial(served.discard, task))
            fn(gradient)

    return [tensor.register_hook(receive) for tensor in tensors]


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> _MultiHandle:
    """Calls `fn` in each backward pass when gradients of `tensors` are ready.

    Args:
        tensors: the tensors; each must require a gradient.
        fn: with mode "all" it is called with the list of their gradients when the last that this
            pass computes is ready, None for those it does not compute; with mode "any" with the
            first that is ready.
        mode: "all" or "any".
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    install = _hook_when_all_came if mode == "all" else _hook_when_one_came
    return _MultiHandle(install(tensors, fn))


def queue_callback(callback: Callable[[], None]) -> None:
    """Calls `callback` when the backward pass that is running ends."""
    _C._queue_callback(callback)


class allow_mutation_on_saved_tensors:
    """Inside it, saved tensors may be written into before backward: operations save copies.

    A copy is taken when the tensor is saved, so this costs the memory of what is saved. Backward
    has to happen inside it too.
    """

    _current: allow_mutation_on_saved_tensors | None = None

    def __init__(self) -> None:
        self._copies = saved_tensors_hooks(self._pack, self._unpack)

    @staticmethod
    def _pack(tensor: Tensor) -> Tensor:
        with flambeau.enable_grad():
            return tensor.clone()

    def _unpack(self, copy: Tensor) -> Tensor:
        if allow_mutation_on_saved_tensors._current is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was originally recorded."
            )
        return copy

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        if allow_mutation_on_saved_tensors._current is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._copies.__enter__()
        allow_mutation_on_saved_tensors._current = self
        return self

    def __exit__(self, *args: object) -> None:
        allow_mutation_on_saved_tensors._current = None
        self._copies.__exit__()
