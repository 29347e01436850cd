"""Activation checkpointing: what a function saves for backward is dropped, and computed again when
needed.

Two ways. Not reentrant (use_reentrant=False): the function runs as always, and hooks on the tensors
it saves keep only a placeholder for each; the first placeholder that backward asks for runs the
function again and fills them all. Reentrant: the function runs without history inside one custom
node, whose backward runs it again with history and calls backward on that.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import warnings
import weakref

import flambeau
from flambeau import _C
from flambeau.autograd import Function
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.utils._checkpoint_saving import saving, unsuppressed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from flambeau import Tensor
    from flambeau.utils._selective_checkpoint import (
        SAC_IGNORED_OPS,
        CheckpointPolicy,
        SelectiveCheckpointContext,
        create_selective_checkpoint_contexts,
    )

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The recomputation did not do what the forward pass had done."""


class _Switches:
    """Settings of the context managers below; None leaves the choice to the arguments of
    checkpoint.
    """

    early_stop: bool = True
    debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside it, whether a recomputation stops when the last tensor that is needed has been
    computed.
    """
    before = _Switches.early_stop
    _Switches.early_stop = enable
    try:
        yield
    finally:
        _Switches.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside it, errors of checkpoint name the lines that saved each tensor, whatever `debug`
    says.
    """
    before = _Switches.debug
    _Switches.debug = enabled
    try:
        yield
    finally:
        _Switches.debug = before


def noop_context_fn() -> tuple[Any, Any]:
    """The default for context_fn: two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class DefaultDeviceType:
    """The type of device whose random state is kept besides the CPU's when no argument is a tensor
    on one.
    """

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default_device_type


# Random state -------------------------------------------------------------------------------------
def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of the tensors among `args`, other than the CPU, and the states of their
    generators.
    """
    devices = {
        arg.device.index
        for arg in args
        if isinstance(arg, flambeau.Tensor) and arg.device.type not in ("cpu", "meta")
    }
    ids = sorted(devices)
    return ids, [flambeau.cuda.get_rng_state(device) for device in ids]


def set_device_states(
    devices: list[int], states: list[Tensor], *, device_type: str | None = None
) -> None:
    """Sets the states of the generators of `devices`."""
    for device, state in zip(devices, states):
        flambeau.cuda.set_rng_state(state, device)


class _RandomState:
    """The random state when a function ran, to be installed again while it runs once more."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.cpu = flambeau.get_rng_state()
        self.devices, self.states = get_device_states(*args)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        with flambeau.random.fork_rng(devices=self.devices):
            flambeau.set_rng_state(self.cpu)
            set_device_states(self.devices, self.states)
            yield


class _Casting:
    """The settings of autocast when a function ran, to hold again while it runs once more."""

    def __init__(self) -> None:
        self.settings = {device: self._now(device) for device in ("cpu", "cuda")}

    @staticmethod
    def _now(device: str) -> tuple[bool, Any]:
        return flambeau.is_autocast_enabled(device), flambeau.get_autocast_dtype(device)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for device, settings in self.settings.items():
                if settings != self._now(device):
                    enabled, dtype = settings
                    stack.enter_context(flambeau.autocast(device, dtype=dtype, enabled=enabled))
            yield


# The reentrant way --------------------------------------------------------------------------------
def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """`inputs` with its tensors cut off from their history, requiring gradients as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: ",
            type(inputs).__name__,
        )
    return tuple(
        value.detach().requires_grad_(value.requires_grad)
        if isinstance(value, flambeau.Tensor)
        else value
        for value in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no tensor among `inputs` requires a gradient."""
    if not any(value.requires_grad for value in inputs if isinstance(value, flambeau.Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """One node for the whole function; it saves the arguments only."""

    @staticmethod
    def forward(
        ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = _RandomState(args) if preserve_rng_state else None
        ctx.casting = _Casting()
        ctx.is_tensor = [isinstance(arg, flambeau.Tensor) for arg in args]
        ctx.others = [arg for arg in args if not isinstance(arg, flambeau.Tensor)]
        ctx.save_for_backward(*[arg for arg in args if isinstance(arg, flambeau.Tensor)])
        with flambeau.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
        args = detach_variable(
            tuple(next(tensors) if is_tensor else next(others) for is_tensor in ctx.is_tensor)
        )
        state = (
            contextlib.nullcontext() if ctx.random_state is None else ctx.random_state.restored()
        )
        with state, ctx.casting.restored(), flambeau.enable_grad():
            outputs = ctx.run_function(*args)
        if isinstance(outputs, flambeau.Tensor):
            outputs = (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, flambeau.Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        flambeau.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return (
            None,
            None,
            *[arg.grad if isinstance(arg, flambeau.Tensor) else None for arg in args],
        )


# The way that is not reentrant --------------------------------------------------------------------
class _Placeholder:
    """Stands in a node for a tensor that the function saved; keeps what a recomputation finds for
    it.

    `found` is by backward pass: several may run, one after the other or at once.
    """

    __slots__ = ("__weakref__", "found")

    def __init__(self) -> None:
        self.found: dict[Any, Tensor] = {}


class _StopRecomputation(Exception):
    """Raised inside the recomputation when nothing more is needed of it."""


class _SaveInputs(Function):
    """Saves the arguments of a checkpointed function.

    They go through the saved-tensor hooks that are active around it: a checkpoint inside another
    keeps no tensor alive that the outer one can compute again.
    """

    @staticmethod
    def forward(ctx: Any, switch: Tensor, *args: Tensor) -> Tensor:
        ctx.save_for_backward(*args)
        return flambeau.empty(0)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise AssertionError("Did not expect to backward on this graph")


def _describe(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class _Frame:
    """One call of a checkpointed function: its arguments, its placeholders and its
    recomputations.
    """

    def __init__(
        self, recompute: Callable[..., None], early_stop: bool, check_metadata: bool, debug: bool
    ) -> None:
        self.recompute = recompute
        self.early_stop = early_stop
        self.check_metadata = check_metadata
        self.debug = debug
        self.placeholders: list[weakref.ref[_Placeholder]] = []
        self.metadata: list[dict[str, Any]] = []
        self.saved_at: list[str] = []
        self.passes_done: set[int] = set()
        self.is_complete = False  # the first run has ended

    def save_arguments(self, args: tuple[Any, ...]) -> None:
        self.is_tensor = [isinstance(arg, flambeau.Tensor) for arg in args]
        self.others = [arg for arg in args if not isinstance(arg, flambeau.Tensor)]
        switch = flambeau.empty(0, requires_grad=True)
        tensors = [arg for arg in args if isinstance(arg, flambeau.Tensor)]
        self.arguments_node = _SaveInputs.apply(switch, *tensors).grad_fn

    def arguments(self) -> list[Any]:
        tensors, others = iter(self.arguments_node.saved_tensors), iter(self.others)
        return [next(tensors) if is_tensor else next(others) for is_tensor in self.is_tensor]

    def pack(self, tensor: Tensor) -> _Placeholder:
        if saving.noted is not None:
            saving.noted.append(tensor)
        placeholder = _Placeholder()
        self.placeholders.append(weakref.ref(placeholder))
        if self.check_metadata:
            self.metadata.append(_describe(tensor))
        if self.debug:
            self.saved_at.append("".join(traceback.format_stack()[:-1]))
        return placeholder

    def unpack(self, placeholder: _Placeholder) -> Tensor:
        task = _C._current_graph_task_id()
        # Outside of a backward pass (someone looks into a node) every look is a pass of its own.
        current = object() if task == -1 else task
        if current not in self.passes_done:
            self._run_again(current)
            if task != -1:
                self.passes_done.add(task)
        if current not in placeholder.found:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                "unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do "
                "so only once."
            )
        return placeholder.found.pop(current)

    def _run_again(self, current: Any) -> None:
        arguments = self.arguments()
        count = 0
        differences: list[str] = []

        def pack_again(tensor: Tensor) -> Any:
            nonlocal count
            index = count
            count += 1
            if index >= len(self.placeholders):
                if not self.is_complete:  # a derivative inside of the function asks early
                    return tensor.detach()
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                    "during "
                    "the original forward pass." + self._hint()
                )
            if self.check_metadata and self.metadata[index] != _describe(tensor):
                differences.append(self._difference(index, tensor))
            placeholder = self.placeholders[index]()
            if placeholder is not None:
                placeholder.found[current] = tensor.detach()
            if self.early_stop and count == len(self.placeholders):
                raise _StopRecomputation
            # Nothing is kept of the second graph, but someone may look into its nodes while it
            # runs.
            return tensor.detach()

        before, saving.record = saving.record, pack_again
        try:
            with (
                contextlib.suppress(_StopRecomputation),
                saved_tensors_hooks(pack_again, lambda tensor: tensor),
                flambeau.enable_grad(),
            ):
                self.recompute(*arguments)
        finally:
            saving.record = before
        if count != len(self.placeholders) and (self.is_complete or count < len(self.placeholders)):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                f"original forward and recomputation.\nNumber of tensors saved during forward: "
                f"{len(self.placeholders)}\nNumber of tensors saved during recomputation: {count}."
                + self._hint()
            )
        if differences:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different "
                "metadata than during the forward pass.\n" + "\n".join(differences) + self._hint()
            )

    def _difference(self, index: int, tensor: Tensor) -> str:
        text = (
            f"tensor at position {index}:\nsaved metadata: {self.metadata[index]}\n"
            f"recomputed metadata: {_describe(tensor)}"
        )
        if self.debug:
            now = "".join(traceback.format_stack()[:-2])
            text += f"\nsaved at:\n{self.saved_at[index]}recomputed at:\n{now}"
        return text

    def _hint(self) -> str:
        if self.debug:
            return "\n\nYou are seeing this error because you passed `debug=True` to checkpoint."
        return (
            "\n\nTip: To see a more detailed error message, either pass `debug=True` to "
            "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block with "
            "`with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):`."
        )


def _run_function(
    fn: Callable[..., Any],
    names: tuple[str, ...],
    random_state: _RandomState | None,
    casting: _Casting,
    context: Any,
    *values: Any,
) -> None:
    """Calls `fn` once more; the last of `values` are its keyword arguments `names`."""
    positional = values[: len(values) - len(names)]
    named = dict(zip(names, values[len(positional) :]))
    state = contextlib.nullcontext() if random_state is None else random_state.restored()
    with state, casting.restored(), context:
        fn(*positional, **named)


def _checkpoint_without_reentrant(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    preserve_rng_state: bool,
    context_fn: Callable[[], tuple[Any, Any]],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    forward_context, recompute_context = context_fn()
    if not flambeau.is_grad_enabled():
        with forward_context:
            return fn(*args, **kwargs)
    random_state = _RandomState(args) if preserve_rng_state else None
    again = functools.partial(
        _run_function, fn, tuple(kwargs), random_state, _Casting(), recompute_context
    )
    # The frame must hold no argument except through the node that saves them.
    frame = _Frame(
        again,
        early_stop=early_stop and _Switches.early_stop,
        check_metadata=determinism_check == "default",
        debug=debug if _Switches.debug is None else _Switches.debug,
    )
    frame.save_arguments((*args, *kwargs.values()))
    with saved_tensors_hooks(frame.pack, frame.unpack), unsuppressed(forward_context):
        result = fn(*args, **kwargs)
    frame.is_complete = True
    return result


# The entry points ---------------------------------------------------------------------------------
def _warn_about_use_reentrant(caller: str) -> None:
    warnings.warn(
        f"{caller}: the use_reentrant parameter should be passed explicitly. use_reentrant=False "
        "is recommended, but if you need to preserve the current default behavior, you can pass "
        "use_reentrant=True.",
        stacklevel=3,
    )


def _decorate(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(function, *args, **options, **kwargs)

    return checkpointed


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls `function(*args, **kwargs)`; what it saves for backward is computed again instead of
    kept.

    Without `function` it returns a decorator.

    Args:
        use_reentrant: which of two ways; pass it. False works with `autograd.grad`, keyword
            arguments, nested structures and nested checkpoints; True, today's default, does not.
        preserve_rng_state: runs the function again with the random numbers of its first run.
        context_fn: gives two contexts, for the first run and for those that follow (not reentrant
            only).
        determinism_check: "default" compares shape, dtype and device of what is computed again with
            the first run; "none" does not (not reentrant only).
        debug: errors name the lines that saved each tensor (not reentrant only).
        early_stop: stops a recomputation once it has computed what is needed (not reentrant only).
    """
    if function is None:
        return functools.partial(
            _decorate,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
        )
    if use_reentrant is None:
        _warn_about_use_reentrant("torch.utils.checkpoint")
        use_reentrant = True
    if not use_reentrant:
        if any(map(_C.is_batchedtensor, (*args, *kwargs.values()))):
            # Samples are over by the time of backward, and are not computed again.
            return function(*args, **kwargs)
        return _checkpoint_without_reentrant(
            function,
            args,
            kwargs,
            preserve_rng_state=preserve_rng_state,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs a Sequential, or a list of functions, on `input`, in segments of which all but the last
    are checkpointed.

    Args:
        functions: the modules or functions, applied one after the other.
        segments: the number of parts to cut them into.
        use_reentrant, preserve_rng_state: as for checkpoint.
    """
    if use_reentrant is None:
        _warn_about_use_reentrant("torch.utils.checkpoint.checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if isinstance(functions, flambeau.nn.Sequential):
        functions = list(functions.children())

    def segment(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in functions[start:end]:
                value = function(value)
            return value

        return run

    size = len(functions) // segments
    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        input = checkpoint(
            segment(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return segment(last, len(functions))(input)


def __getattr__(name: str) -> Any:
    # Loaded on first use: most checkpoints are not selective.
    if name in __all__:
        from flambeau.utils import _selective_checkpoint

        return getattr(_selective_checkpoint, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
