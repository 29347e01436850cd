"""Captured work: what a program gives to a stream once, run again by a single call."""

from __future__ import annotations

import gc
import warnings

import flambeau
from flambeau import _C
from flambeau.cuda._device import synchronize
from flambeau.cuda._graph_hooks import (
    GraphHooks,
    export_dot,
    register_graph_capture_end_hook,
    register_graph_capture_start_hook,
    register_graph_instantiate_hook,
    register_graph_replay_end_hook,
    register_graph_replay_start_hook,
)
from flambeau.cuda.memory import empty_cache
from flambeau.cuda.streams import Stream, current_stream
from flambeau.cuda.streams import stream as stream_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from flambeau.cuda._graph_hooks import Hook

__all__ = [
    "CUDAGraph",
    "export_dot",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "register_graph_capture_end_hook",
    "register_graph_capture_start_hook",
    "register_graph_instantiate_hook",
    "register_graph_replay_end_hook",
    "register_graph_replay_start_hook",
]


def is_current_stream_capturing() -> bool:
    """Whether what the current stream is given is captured instead of run."""
    from flambeau.cuda._device import is_initialized

    return is_initialized() and bool(_C._cuda_is_capturing())


def graph_pool_handle() -> tuple[int, int]:
    """A name for memory that graphs share, for the ``pool`` argument of captures."""
    capture, user = _C._cuda_new_pool(True)
    return capture, user


class CUDAGraph:
    """Work that was captured from a stream.

    Memory that it uses comes from a pool of its own and stays where it is as long as the graph
    lives: replays read the same inputs' addresses and write the same outputs'.

    Args:
        keep_graph: whether the captured form is kept and made executable by instantiate() or the
            first replay, instead of at the end of the capture.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._raw = _C._cuda_new_graph(keep_graph)
        self._keeps, self._is_executable = keep_graph, False
        self._hooks = GraphHooks()

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Captures what the current stream is given from now on.

        Args:
            pool: the memory to use, of graph_pool_handle() or another graph's pool(). Graphs that
                share memory must be replayed in the order in which they were captured.
            capture_error_mode: which calls of other threads end the capture: "global" for all that
                may be unsafe, "thread_local" for this thread's only, or "relaxed".
        """
        if self._hooks.any("capture_end", "instantiate") and not self._keeps:
            self.enable_debug_mode()  # hooks look at what was captured
        _C._cuda_graph_begin(self._raw, (0, 0) if pool is None else pool, capture_error_mode)
        self._hooks.run("capture_start", self)

    def capture_end(self) -> None:
        """Ends the capture: from now on replay() runs it."""
        if _C._cuda_graph_end(self._raw) == 0:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be "
                "captured on wrong device or stream.",
                stacklevel=2,
            )
        self._is_executable = not self._keeps
        self._hooks.run("capture_end", self)
        if self._is_executable:
            self._hooks.run("instantiate", self)

    def instantiate(self) -> None:
        """Makes a kept graph executable, again if need be."""
        _C._cuda_graph_instantiate(self._raw)
        self._is_executable = True
        self._hooks.run("instantiate", self)

    def replay(self) -> None:
        """Runs the captured work in the current stream."""
        if not self._is_executable and self._hooks.any("instantiate"):
            self.instantiate()
        self._hooks.run("replay_start", self)
        _C._cuda_graph_replay(self._raw)
        self._hooks.run("replay_end", self)

    def reset(self) -> None:
        """Forgets the work and lets its memory go."""
        _C._cuda_graph_reset(self._raw)

    def pool(self) -> tuple[int, int]:
        """The name of the memory that this graph uses."""
        capture, user = _C._cuda_graph_pool(self._raw)
        return capture, user

    def enable_debug_mode(self) -> None:
        """Keeps what is captured for debug_dump()."""
        _C._cuda_graph_keep(self._raw)

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph to a file in Graphviz' language."""
        _C._cuda_graph_dump(self._raw, str(debug_path))

    def raw_cuda_graph(self) -> int:
        """The driver's handle of the captured form, which must have been kept."""
        return int(_C._cuda_graph_raw(self._raw, False))

    def raw_cuda_graph_exec(self) -> int:
        """The driver's handle of the executable form."""
        return int(_C._cuda_graph_raw(self._raw, True))

    def register_generator_state(self, generator: Any) -> None:
        """Lets the graph draw from a generator; one that a capture draws from is known anyway."""
        _C._cuda_graph_register(self._raw, generator)

    def register_capture_start_hook(self, fn: Hook) -> Any:
        """Calls a function with the graph when a capture begins; the handle takes it off again."""
        return self._hooks.add("capture_start", fn)

    def register_capture_end_hook(self, fn: Hook) -> Any:
        """Calls a function with the graph when a capture has ended."""
        return self._hooks.add("capture_end", fn)

    def register_post_instantiate_hook(self, fn: Hook) -> Any:
        """Calls a function with the graph when it has been made executable."""
        return self._hooks.add("instantiate", fn)

    def register_replay_start_hook(self, fn: Hook) -> Any:
        """Calls a function with the graph before each replay."""
        return self._hooks.add("replay_start", fn)

    def register_replay_end_hook(self, fn: Hook) -> Any:
        """Calls a function with the graph after each replay has been asked for."""
        return self._hooks.add("replay_end", fn)


class graph:
    """A context whose work is captured into a graph.

    Args:
        cuda_graph: the graph.
        pool: the memory to use; see CUDAGraph.capture_begin.
        stream: the stream to capture from; by default one that all captures share.
        capture_error_mode: see CUDAGraph.capture_begin.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: tuple[int, int] | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.pool = pool
        self.capture_stream = stream
        self.stream_ctx = stream_context(stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        # What was left to the collector and the cache is better free before than during a capture.
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            if error is None:
                raise
            # The capture ended because of what is on its way out already.
        finally:
            self.stream_ctx.__exit__(kind, error, trace)


# --- Callables -----------------------------------------------------------------------------------


class _Captured:
    """The graphs of one callable, and the tensors that they read and write."""

    def __init__(self, function: Any, inputs: tuple[Any, ...]) -> None:
        from flambeau.utils import _pytree

        self.function = function
        self.inputs = tuple(_pytree.tree_leaves(inputs))
        if not all(isinstance(x, flambeau.Tensor) for x in self.inputs):
            raise TypeError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other "
                "types are not allowed."
            )
        is_module = isinstance(function, flambeau.nn.Module)
        self.parameters = tuple(function.parameters()) if is_module else ()
        self.surface = self.inputs + self.parameters
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Any, ...] = ()
        self.structure: Any = None
        self.output_grads: tuple[Any, ...] = ()
        self.input_grads: tuple[Any, ...] = ()

    def differentiable(self) -> tuple[Any, ...]:
        return tuple(x for x in self.surface if x.requires_grad)

    def warm_up(self, sample: tuple[Any, ...], iterations: int, allow_unused: bool) -> None:
        from flambeau.utils import _pytree

        for _ in range(iterations):
            outputs = _pytree.tree_leaves(self.function(*sample))
            wanted = [y for y in outputs if y.requires_grad]
            if wanted and self.differentiable():
                flambeau.autograd.grad(
                    wanted,
                    self.differentiable(),
                    [flambeau.empty_like(y) for y in wanted],
                    allow_unused=allow_unused,
                )

    def capture_forward(self, sample: tuple[Any, ...], pool: tuple[int, int]) -> None:
        from flambeau.utils import _pytree

        with graph(self.forward, pool=pool):
            outputs = self.function(*sample)
        leaves, self.structure = _pytree.tree_flatten(outputs)
        self.outputs = tuple(leaves)

    def capture_backward(self, pool: tuple[int, int], allow_unused: bool) -> None:
        self.output_grads = tuple(
            flambeau.empty_like(y) if y.requires_grad else None for y in self.outputs
        )
        wanted = [y for y in self.outputs if y.requires_grad]
        grads: list[Any] = []
        if wanted and self.differentiable():
            with graph(self.backward, pool=pool):
                grads = list(
                    flambeau.autograd.grad(
                        wanted,
                        self.differentiable(),
                        [g for g in self.output_grads if g is not None],
                        allow_unused=allow_unused,
                    )
                )
        self.input_grads = tuple(
            grads.pop(0) if grads and x.requires_grad else None for x in self.surface
        )

    def callable(self) -> Callable[..., Any]:
        """A function of the inputs that replays the graphs."""
        from flambeau.utils import _pytree

        captured = self

        class Graphed(flambeau.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
                for mine, given in zip(captured.inputs, inputs):
                    if mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                captured.forward.replay()
                return tuple(y.detach() for y in captured.outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                for mine, given in zip(captured.output_grads, grads):
                    if mine is not None and mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                captured.backward.replay()
                return tuple(g.detach() if g is not None else None for g in captured.input_grads)

        def run(*args: Any) -> Any:
            leaves = _pytree.tree_leaves(args)
            out = Graphed.apply(*leaves, *captured.parameters)
            return _pytree.tree_unflatten(out, captured.structure)

        return run


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Callables, functions or modules, whose forward and backward work is replayed.

    Args:
        callables: one, or a tuple of them in the order in which they will be called.
        sample_args: for each a tuple of tensors like those it will be called with: the same shapes
            and the same requires_grad.
        num_warmup_iters: how often each runs before it is captured.
        allow_unused_input: whether inputs may have no part in the outputs.
        pool: the memory to use; see CUDAGraph.capture_begin.
    """
    if flambeau.is_autocast_enabled("cuda") and flambeau.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. "
            "Please set `cache_enabled=False`."
        )
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    for function in callables:
        if isinstance(function, flambeau.nn.Module) and (
            function._backward_hooks or function._forward_hooks or function._forward_pre_hooks
        ):
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. However, "
                "registering hooks on modules after passing them through make_graphed_callables "
                "is allowed."
            )
    samples = [tuple(args) for args in sample_args]
    captured = [_Captured(function, args) for function, args in zip(callables, samples)]
    memory = graph_pool_handle() if pool is None else pool

    # Libraries set themselves up in the first iterations, which must not be captured.
    synchronize()
    side = Stream()
    side.wait_stream(current_stream())
    with stream_context(side):
        for item, sample in zip(captured, samples):
            item.warm_up(sample, num_warmup_iters, allow_unused_input)
    current_stream().wait_stream(side)
    synchronize()

    # Forward in order, backward in the reverse order: as they will be replayed, so that they can
    # share memory.
    for item, sample in zip(captured, samples):
        item.capture_forward(sample, memory)
    for item in reversed(captured):
        item.capture_backward(memory, allow_unused_input)

    results = tuple(_installed(item) for item in captured)
    return results[0] if single else results


def _installed(captured: _Captured) -> Any:
    """The callable that replays: for a module the module itself, in the mode it was captured in."""
    graphed = captured.callable()
    module = captured.function
    if not isinstance(module, flambeau.nn.Module):
        return graphed
    training, plain = module.training, module.forward

    def forward(*args: Any) -> Any:
        return graphed(*args) if module.training == training else plain(*args)

    module.forward = forward
    return module
