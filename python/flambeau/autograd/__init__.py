"""Automatic differentiation: `backward`, `grad`, the grad modes, custom functions and gradient
checks.

The graph and its engine are in the core; this package checks arguments and names things.
"""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C
from flambeau._C import SavedTensor as SavedTensor

from . import anomaly_mode, function, grad_mode, graph, variable
from ._device_type import DeviceType
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .grad_mode import (
    _unsafe_preserve_version_counter as _unsafe_preserve_version_counter,
)
from .grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .grad_mode import (
    is_multithreading_enabled as is_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    from flambeau import Tensor

    from .graph import GradientEdge

    Targets: TypeAlias = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]
    Gradients: TypeAlias = Tensor | Sequence[Tensor | None] | None

__all__ = [
    "DeviceType",
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


def _as_tuple(targets: Targets) -> tuple[Any, ...]:
    if isinstance(targets, (flambeau.Tensor, graph.GradientEdge)):
        return (targets,)
    return tuple(targets)


def _wanted(inputs: Targets | Mapping[str, Tensor], caller: str) -> tuple[Any, ...]:
    """The tensors and edges to differentiate by."""
    wanted = _as_tuple(tuple(inputs.values()) if isinstance(inputs, dict) else inputs)  # type: ignore[arg-type]
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{caller}()` cannot be empty.")
    for target in wanted:
        if not isinstance(target, (flambeau.Tensor, graph.GradientEdge)):
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {type(target).__name__}"
            )
    return wanted


def _shape_and_dtype(output: Any) -> tuple[Any, Any]:
    if isinstance(output, graph.GradientEdge):
        metadata = output.node._input_metadata[output.output_nr]
        return flambeau.Size(metadata.shape), metadata.dtype
    if not isinstance(output, flambeau.Tensor):
        raise AssertionError(f"Expected output to be a torch.Tensor, got {type(output).__name__}")
    return output.shape, output.dtype


def _implicit_gradient(output: Any) -> Tensor | None:
    """What a scalar output starts from: None, for which the core makes a one, unless it is an
    edge, or a tensor whose class makes its own.
    """
    if isinstance(output, flambeau.Tensor) and not output.requires_grad:
        return None
    shape, dtype = _shape_and_dtype(output)
    if shape.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {dtype}"
        )
    if isinstance(output, flambeau.Tensor):
        return flambeau.ones_like(output) if _C._is_wrapped(output) else None
    metadata = output.node._input_metadata[output.output_nr]
    return flambeau.ones(shape, dtype=dtype, device=metadata.device)


def _check_gradient(index: int, gradient: Tensor, output: Any, batched: bool) -> None:
    shape, dtype = _shape_and_dtype(output)
    given = gradient.shape[1:] if batched else gradient.shape
    if given != shape:
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{index}] has a shape of {given} and output[{index}] has a shape of "
                f"{shape}."
            )
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {given} and output[{index}] "
            f"has a shape of {shape}."
        )
    if dtype.is_complex != gradient.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{index}] has a dtype of {gradient.dtype} and "
            f"output[{index}] has a dtype of {dtype}."
        )


def _make_grads(
    outputs: tuple[Any, ...], gradients: tuple[Any, ...], batched: bool
) -> tuple[Tensor | None, ...]:
    """The gradient each output starts from: the given one, checked, or what a scalar starts
    from.
    """
    made: list[Tensor | None] = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if isinstance(gradient, flambeau.Tensor):
            _check_gradient(index, gradient, output, batched)
            made.append(gradient)
        elif gradient is None:
            made.append(_implicit_gradient(output))
        else:
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
            )
    return tuple(made)


def _gradients_tuple(gradients: Gradients, count: int) -> tuple[Any, ...]:
    if gradients is None:
        return (None,) * count
    if isinstance(gradients, flambeau.Tensor):
        return (gradients,)
    return tuple(gradients)


_told_of_cycle = False


def _warn_of_cycle() -> None:
    """Says once what backward with create_graph leaves behind."""
    global _told_of_cycle
    if _told_of_cycle and not flambeau.is_warn_always_enabled():
        return
    _told_of_cycle = True
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the "
        "parameter and its gradient which can cause a memory leak. We recommend using "
        "autograd.grad when creating the graph, or setting the .grad fields of your parameters to "
        "None after use.",
        stacklevel=4,
    )


def backward(
    tensors: Targets,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Gradients = None,
    inputs: Targets | Mapping[str, Tensor] | None = None,
) -> None:
    """Adds the gradients of `tensors` with respect to the leaves of their graph to the leaves'
    `.grad`.

    Args:
        tensors: what is differentiated: tensors or gradient edges.
        grad_tensors: for each of them the gradient to start from; None for a scalar means one.
        retain_graph: keeps what the graph saved, for a second pass; by default as `create_graph`.
        create_graph: records the pass itself, so that gradients can be differentiated again.
        grad_variables: the old name of `grad_tensors`.
        inputs: the only tensors whose `.grad` is to be added to; by default all leaves.
    """
    if _C._vmap_level():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    wanted = () if inputs is None else _wanted(inputs, "backward")
    outputs = _as_tuple(tensors)
    gradients = _make_grads(outputs, _gradients_tuple(grad_tensors, len(outputs)), False)
    if retain_graph is None:
        retain_graph = create_graph
    if create_graph:
        _warn_of_cycle()
    _C._engine_run_backward(outputs, gradients, retain_graph, create_graph, wanted, True, True)


def _grad_of_batch(
    outputs: tuple[Any, ...],
    gradients: tuple[Any, ...],
    retain_graph: bool,
    create_graph: bool,
    inputs: tuple[Any, ...],
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients for each row of the batched ones, stacked: vmap over backward."""
    if any(gradient is None or gradient.dim() == 0 for gradient in gradients):
        raise ValueError(
            "is_grads_batched=True: every output needs a grad_output with a batch dimension"
        )
    sizes = [gradient.shape[0] for gradient in gradients]
    if len(set(sizes)) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
    if sizes[0] == 0:
        return tuple(tensor.new_zeros((0, *tensor.shape)) for tensor in inputs)
    level = _C._vmap_increment_nesting(sizes[0], "different")
    try:
        samples = tuple(_C._add_batch_dim(gradient, 0, level) for gradient in gradients)
        found = _run_on_samples(
            outputs, samples, level, inputs, retain_graph, create_graph, allow_unused
        )
        return tuple(
            None if one is None else _C._remove_batch_dim(one, level, sizes[0], 0) for one in found
        )
    finally:
        _C._vmap_decrement_nesting()


def _run_on_samples(
    outputs: tuple[Any, ...],
    gradients: tuple[Any, ...],
    level: int,
    inputs: tuple[Any, ...],
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of what all samples share, given one of each sample: one backward pass, or, where
    a step of it has to look at values, one a sample.
    """
    rest = (create_graph, inputs, allow_unused, False)
    try:
        return _C._engine_run_backward(outputs, gradients, True, *rest)
    except RuntimeError:
        size = _C._vmap_describe_level(level)[0]
        before = _C._vmap_set_level(_C._vmap_outer_level(level))
        try:
            whole = [_C._remove_batch_dim(gradient, level, size, 0) for gradient in gradients]
            rows = [
                grad(
                    outputs,
                    inputs,
                    tuple(t[i] for t in whole),
                    retain_graph or i + 1 < size,
                    create_graph,
                    allow_unused=allow_unused,
                )
                for i in range(size)
            ]
            found = [None if c[0] is None else flambeau.stack(c) for c in zip(*rows)]
        finally:
            _C._vmap_set_level(before)
        return tuple(None if one is None else _C._add_batch_dim(one, 0, level) for one in found)


def _grad_of_samples(
    outputs: tuple[Any, ...],
    gradients: tuple[Any, ...],
    inputs: tuple[Any, ...],
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients inside vmap: of what all samples share in one backward pass, those of what is
    behind where each sample has inputs of its own, else one backward pass a sample.
    """
    level = max(map(_C.maybe_get_level, (*outputs, *gradients, *inputs)))
    size = _C._vmap_describe_level(level)[0]
    if max(map(_C.maybe_get_level, (*outputs, *inputs))) < level and None not in gradients:
        return _run_on_samples(
            outputs, gradients, level, inputs, retain_graph, create_graph, allow_unused
        )

    given = tuple(
        flambeau.ones_like(output) if gradient is None else gradient
        for output, gradient in zip(outputs, gradients)
    )

    def whole(tensor: Any) -> Any:
        return tensor if tensor is None else _C._remove_batch_dim(tensor, level, size, 0)

    own = all(_C.maybe_get_level(tensor) == level for tensor in inputs)
    before = _C._vmap_set_level(_C._vmap_outer_level(level))
    try:
        sources, given = tuple(map(whole, outputs)), tuple(map(whole, given))
        if own:
            found = grad(
                sources, tuple(map(whole, inputs)), given, retain_graph, create_graph,
                allow_unused=allow_unused,
            )  # fmt: skip
        else:
            rows = [
                grad(
                    tuple(t[i] for t in sources),
                    inputs,
                    tuple(t[i] for t in given),
                    retain_graph or i + 1 < size,
                    create_graph,
                    allow_unused=allow_unused,
                )
                for i in range(size)
            ]
            found = tuple(
                None if column[0] is None else flambeau.stack(column) for column in zip(*rows)
            )
    finally:
        _C._vmap_set_level(before)
    return tuple(None if one is None else _C._add_batch_dim(one, 0, level) for one in found)


def grad(
    outputs: Targets,
    inputs: Targets | Mapping[str, Tensor],
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Returns the sum of the gradients of `outputs` with respect to each of `inputs`.

    Args:
        outputs: what is differentiated.
        inputs: by what; a dict gives a dict of gradients back, anything else a tuple.
        grad_outputs: for each output the gradient to start from; None for a scalar means one.
        retain_graph: keeps what the graph saved, for a second pass; by default as `create_graph`.
        create_graph: records the pass itself, so that the results can be differentiated.
        only_inputs: ignored.
        allow_unused: whether an input that `outputs` do not depend on gives None instead of an
            error.
        is_grads_batched: `grad_outputs` have a first dimension more, over which the results are
            stacked.
        materialize_grads: zeros instead of None for inputs that `outputs` do not depend on.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    names = tuple(inputs) if isinstance(inputs, dict) else None
    sources = _as_tuple(outputs)
    wanted = _wanted(inputs, "grad")
    overridable = (*sources, *wanted)
    if _C._has_torch_function(overridable):
        from flambeau.overrides import handle_torch_function

        return handle_torch_function(
            grad, overridable, outputs, inputs, grad_outputs, retain_graph, create_graph,
            only_inputs, allow_unused, is_grads_batched, materialize_grads,
        )  # fmt: skip
    given = _gradients_tuple(grad_outputs, len(sources))
    gradients = _make_grads(sources, given, is_grads_batched)
    if retain_graph is None:
        retain_graph = create_graph
    unused_ok = materialize_grads if allow_unused is None else allow_unused or materialize_grads
    if is_grads_batched:
        result = _grad_of_batch(sources, gradients, retain_graph, create_graph, wanted, unused_ok)
    elif any(map(_C.is_batchedtensor, (*sources, *gradients, *wanted))):
        result = _grad_of_samples(sources, gradients, wanted, retain_graph, create_graph, unused_ok)
    else:
        result = _C._engine_run_backward(
            sources, gradients, retain_graph, create_graph, wanted, unused_ok, False
        )
    if materialize_grads:
        result = tuple(
            _zeros_for(target, create_graph) if found is None else found
            for found, target in zip(result, wanted)
        )
    return result if names is None else dict(zip(names, result))


def _zeros_for(target: Any, requires_grad: bool) -> Tensor:
    """The gradient of a tensor on which nothing depends."""
    if isinstance(target, graph.GradientEdge):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    return flambeau.zeros_like(target, requires_grad=requires_grad)


def _is_checkpoint_valid() -> bool:
    """Whether parts may be computed again on the way back: whole graphs always go there."""
    return True


def __getattr__(name: str) -> Any:
    # Loaded on first use, to keep `import flambeau` short.
    if name in ("forward_ad", "functional", "profiler", "profiler_util"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
