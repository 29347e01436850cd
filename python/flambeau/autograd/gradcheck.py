"""gradcheck and gradgradcheck: derivatives from backward compared with differences of function
values.

A function of complex outputs is checked as two functions, its real and its imaginary part, so
everything below works on real outputs. For a complex input z = a + bi and a real output f, both the
numerical and the analytical entry are df/da + i df/db. A Jacobian here has one row for each input
element and one column for each output element.
"""

from __future__ import annotations

import itertools
import warnings

import flambeau

from ._gradcheck_modes import as_tuple as _as_tuple
from ._gradcheck_modes import check_batched, check_batched_forward, check_forward
from ._sparse_gradcheck import over_values
from .function import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck when derivatives do not agree."""


class _Settings:
    """What the caller of gradcheck chose, handed through the checks below."""

    def __init__(
        self, eps: float, atol: float, rtol: float, nondet_tol: float, check_grad_dtypes: bool
    ):
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.nondet_tol = nondet_tol
        self.check_grad_dtypes = check_grad_dtypes


def _differentiable(values: tuple[Any, ...]) -> tuple[Tensor, ...]:
    return tuple(
        value for value in values if isinstance(value, flambeau.Tensor) and value.requires_grad
    )


def _differentiable_outputs(outputs: Any) -> tuple[Tensor, ...]:
    return tuple(output for output in _as_tuple(outputs) if output.requires_grad)


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    found = False
    for index, value in enumerate(inputs):
        if not (isinstance(value, flambeau.Tensor) and value.requires_grad):
            continue
        found = True
        if value.dtype not in (flambeau.float64, flambeau.complex128):
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex.",
                stacklevel=4,
            )
        if any(stride == 0 and size > 1 for stride, size in zip(value.stride(), value.shape)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports "
                "inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )


def _part(func: Callable[..., Any], imaginary: bool) -> Callable[..., tuple[Tensor, ...]]:
    """The real part of `func`'s outputs, or the imaginary part of those that are complex."""

    def part(*inputs: Any) -> tuple[Tensor, ...]:
        outputs = _as_tuple(func(*inputs))
        if imaginary:
            return tuple(output.imag for output in outputs if output.is_complex())
        return tuple(output.real if output.is_complex() else output for output in outputs)

    return part


def _values(outputs: Any) -> list[Tensor]:
    # Copies: an output may share memory with the input that is about to be changed.
    return [output.detach().clone() for output in _as_tuple(outputs)]


def _slopes(func: Callable[[], Any], move: Callable[[float], None], eps: float) -> list[Tensor]:
    """The central differences of `func`'s outputs; `move(t)` puts the input at distance t."""
    move(-eps)
    below = _values(func())
    move(eps)
    above = _values(func())
    move(0.0)
    for one, two in zip(above, below):
        for what in ("shape", "dtype"):
            if getattr(one, what) != getattr(two, what):
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are "
                    f"perturbed on a small scale, but got: {getattr(one, what)} and "
                    f"{getattr(two, what)}."
                )
    return [(one - two) / (2 * eps) for one, two in zip(above, below)]


def _numerical_jacobians(func: Callable[[], Any], tensor: Tensor, eps: float) -> list[Tensor]:
    """For each output the Jacobian with respect to `tensor`, which is changed in place and
    restored.
    """
    rows: list[list[Tensor]] = []
    data = tensor.data
    for index in itertools.product(*map(range, tensor.shape)):
        element = data[index]
        value = element.item()

        def move(distance: float, element: Tensor = element, value: Any = value) -> None:
            element.fill_(value + distance)

        slopes = _slopes(func, move, eps)
        if tensor.is_complex():
            along_imaginary = _slopes(func, lambda t, m=move: m(t * 1j), eps)  # type: ignore[misc]
            slopes = [a + 1j * b for a, b in zip(slopes, along_imaginary)]
        rows.append([slope.reshape(-1) for slope in slopes])
    if not rows:
        return [tensor.new_zeros(0, output.numel()) for output in _as_tuple(func())]
    return [flambeau.stack(columns) for columns in zip(*rows)]


def _gradients(
    output: Tensor, inputs: tuple[Tensor, ...], grad_output: Tensor
) -> tuple[Tensor | None, ...]:
    return flambeau.autograd.grad(output, inputs, grad_output, retain_graph=True, allow_unused=True)


def _checked_gradient(gradient: Tensor | None, tensor: Tensor, settings: _Settings) -> Tensor:
    """`gradient`, or zeros for None, after a look at its shape and dtype."""
    if gradient is None:
        return flambeau.zeros_like(tensor)
    if gradient.shape != tensor.shape:
        raise GradcheckError("Analytical gradient has incorrect size")
    if settings.check_grad_dtypes and gradient.dtype != tensor.dtype:
        raise GradcheckError("Analytical gradient has dtype mismatch")
    return gradient


def _analytical_jacobians(
    output: Tensor, inputs: tuple[Tensor, ...], settings: _Settings
) -> list[Tensor]:
    """For each input the Jacobian of `output`, one backward pass for each output element."""
    columns: list[list[Tensor]] = [[] for _ in inputs]
    for index in range(output.numel()):
        grad_output = flambeau.zeros(output.numel(), dtype=output.dtype, device=output.device)
        grad_output[index] = 1
        gradients = _gradients(output, inputs, grad_output.view(output.shape))
        for column, gradient, tensor in zip(columns, gradients, inputs):
            column.append(_checked_gradient(gradient, tensor, settings).reshape(-1))
    return [
        flambeau.stack(column, dim=1) if column else tensor.new_zeros(tensor.numel(), 0)
        for column, tensor in zip(columns, inputs)
    ]


def _close(analytical: Any, numerical: Any, rtol: float, atol: float) -> bool:
    dtype = flambeau.promote_types(analytical.dtype, numerical.dtype)
    return flambeau.allclose(analytical.to(dtype), numerical.to(dtype), rtol, atol)


def _check_repeatable(
    first: Sequence[Tensor], again: Sequence[Tensor], settings: _Settings
) -> None:
    for one, two in zip(first, again):
        if one.numel() and not (one - two).abs().max().item() <= settings.nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values, although analytical gradient matches "
                f"numerical gradient. The tolerance for nondeterminism was {settings.nondet_tol}. "
                "If the function is not deterministic, pass `nondet_tol` to gradcheck."
            )


def _mismatch(output: int, tensor: int, numerical: Any, analytical: Any, prefix: str) -> str:
    return (
        f"{prefix}Jacobian mismatch for output {output} with respect to input {tensor},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _with_prefix(prefix: str) -> str:
    return f"While considering the {prefix} part of complex outputs only, " if prefix else ""


def _slow_check(
    func: Callable[..., Any], inputs: tuple[Any, ...], settings: _Settings, prefix: str
) -> None:
    """Compares every entry of every Jacobian."""
    tensors = _differentiable(inputs)
    outputs = _as_tuple(func(*inputs))
    # Columns of outputs that are not differentiable are left out on both sides.
    numerical = [_numerical_jacobians(lambda: func(*inputs), t, settings.eps) for t in tensors]
    repeatable = []
    for j, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        analytical = _analytical_jacobians(output, tensors, settings)
        repeatable.append((analytical, _analytical_jacobians(output, tensors, settings)))
        for i, jacobian in enumerate(analytical):
            if not _close(jacobian, numerical[i][j], settings.rtol, settings.atol):
                raise GradcheckError(
                    _mismatch(j, i, numerical[i][j], jacobian, _with_prefix(prefix))
                )
    for first, again in repeatable:
        _check_repeatable(first, again, settings)


def _direction(tensor: Tensor, generator: Any, unit: bool) -> Tensor:
    """Positive random weights in the shape of `tensor`, of length one if `unit`; complex for
    complex.
    """
    dtype = flambeau.float32 if tensor.dtype == flambeau.complex64 else flambeau.float64
    if not tensor.is_complex() and tensor.is_floating_point():
        dtype = tensor.dtype
    shape = (2, *tensor.shape) if tensor.is_complex() else tuple(tensor.shape)
    weights = flambeau.rand(shape, generator=generator, dtype=dtype).to(tensor.device)
    if unit and weights.numel():
        weights = weights / weights.norm()
    return weights[0] + 1j * weights[1] if tensor.is_complex() else weights


def _numerical_along(
    func: Callable[[], Any], tensor: Tensor, direction: Tensor, eps: float
) -> list[Tensor]:
    """The slopes of the outputs along `direction`; for a complex tensor real and imaginary
    apart.
    """
    original = tensor.data.clone()
    data = tensor.data

    def moved_by(step: Tensor) -> Callable[[float], None]:
        def move(distance: float) -> None:
            data.copy_(original + distance * step)

        return move

    if not tensor.is_complex():
        return _slopes(func, moved_by(direction), eps)
    along_real = _slopes(func, moved_by(direction.real), eps)
    along_imaginary = _slopes(func, moved_by(direction.imag * 1j), eps)
    return [a + 1j * b for a, b in zip(along_real, along_imaginary)]


def _dot(gradient: Tensor, direction: Tensor) -> Tensor:
    """The slope along `direction` that `gradient` predicts, in the form `_numerical_along`
    gives.
    """
    if not direction.is_complex():
        return (gradient * direction).sum()
    along_real = (gradient.real * direction.real).sum()
    along_imaginary = (gradient.imag * direction.imag).sum()
    return along_real + 1j * along_imaginary


def _fast_check(
    func: Callable[..., Any], inputs: tuple[Any, ...], settings: _Settings, prefix: str
) -> None:
    """Compares one random combination of all entries of each Jacobian."""
    tensors = _differentiable(inputs)
    outputs = _as_tuple(func(*inputs))
    generator = flambeau.Generator()
    generator.manual_seed(0)
    directions = [_direction(tensor, generator, True) for tensor in tensors]
    weights = [_direction(output.detach(), generator, False) for output in outputs]
    along = [
        _numerical_along(lambda: func(*inputs), tensor, direction, settings.eps)
        for tensor, direction in zip(tensors, directions)
    ]
    for j, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        gradients = _gradients(output, tensors, weights[j])
        again = _gradients(output, tensors, weights[j])
        for i, tensor in enumerate(tensors):
            gradient = _checked_gradient(gradients[i], tensor, settings)
            analytical = _dot(gradient, directions[i])
            numerical = (along[i][j] * weights[j]).sum()
            size = directions[i].abs().sum().item() * weights[j].sum().item()
            if not _close(analytical, numerical, settings.rtol, settings.atol * max(size, 1e-3)):
                message = _mismatch(j, i, numerical.item(), analytical.item(), _with_prefix(prefix))
                raise GradcheckError(message + _slow_explanation(func, inputs, i, j, settings))
            _check_repeatable([gradient], [_checked_gradient(again[i], tensor, settings)], settings)


def _slow_explanation(
    func: Callable[..., Any], inputs: tuple[Any, ...], i: int, j: int, settings: _Settings
) -> str:
    tensors = _differentiable(inputs)
    numerical = _numerical_jacobians(lambda: func(*inputs), tensors[i], settings.eps)[j]
    output = _as_tuple(func(*inputs))[j]
    analytical = _analytical_jacobians(output, tensors, settings)[i]
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed in "
        "fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        "The max per-element difference (slow mode) is: "
        f"{(numerical - analytical).abs().max().item()}.\n"
    )
    if _close(analytical, numerical, settings.rtol, settings.atol):
        text += (
            "Fast gradcheck failed but element-wise differences are small. This means that the "
            "test might have passed in slow mode: try slow mode (fast_mode=False) or larger "
            "tolerances.\n"
        )
    return text


def _check_no_differentiable_outputs(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float
) -> None:
    for tensor in _differentiable(inputs):
        for jacobian in _numerical_jacobians(lambda: func(*inputs), tensor, eps):
            if (jacobian != 0).any():
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_zero_in_zero_out(outputs: tuple[Tensor, ...], tensors: tuple[Tensor, ...]) -> None:
    """A gradient of zeros must give zeros back."""
    zeros = [flambeau.zeros_like(output) for output in outputs]
    gradients = flambeau.autograd.grad(
        outputs, tensors, zeros, retain_graph=True, allow_unused=True
    )
    for gradient, tensor in zip(gradients, tensors):
        if gradient is None:
            continue
        if not (gradient == 0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        if gradient.dtype != tensor.dtype:
            raise GradcheckError("grad is incorrect type")
        if gradient.device != tensor.device:
            raise GradcheckError("grad is incorrect device")
        if gradient.shape != tensor.shape:
            raise GradcheckError("grad is incorrect size")


class _UndefinedGrad(Function):
    """The identity, whose backward gives no gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> None:
        return None


def _check_undefined(func: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Backward must cope with outputs whose gradient is undefined: all of them, and each one
    alone.
    """
    tensors = _differentiable(inputs)
    count = len(_differentiable_outputs(func(*inputs)))
    choices = [set(range(count))]
    if count > 1:
        choices.extend({index} for index in range(count))
    for undefined in choices:
        outputs = _differentiable_outputs(func(*inputs))
        guarded = tuple(
            _UndefinedGrad.apply(output) if index in undefined else output
            for index, output in enumerate(outputs)
        )
        zeros = [flambeau.zeros_like(output) for output in outputs]
        try:
            gradients = flambeau.autograd.grad(guarded, tensors, zeros, allow_unused=True)
        except RuntimeError as error:
            warnings.warn(
                "Backwards compatibility: New undefined gradient support checking feature is "
                "enabled by default, but it may break existing callers of this function. If this "
                'is true for you, you can call this function with "check_undefined_grad=False" to '
                "disable the feature",
                stacklevel=2,
            )
            raise GradcheckError(
                "Expected backward function to handle undefined output grads."
            ) from error
        if any(gradient is not None and (gradient != 0).any() for gradient in gradients):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                "undefined or zero."
            )


def _run_checks(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    settings: _Settings,
    check_undefined_grad: bool,
    fast_mode: bool,
) -> None:
    _check_inputs(inputs)
    outputs = _as_tuple(func(*inputs))
    differentiable = _differentiable_outputs(outputs)
    if not differentiable:
        _check_no_differentiable_outputs(_part(func, False), inputs, settings.eps)
        return
    check = _fast_check if fast_mode else _slow_check
    has_complex = any(output.is_complex() for output in outputs)
    if has_complex:
        check(_part(func, True), inputs, settings, "imaginary")
    check(_part(func, False), inputs, settings, "real" if has_complex else "")
    _check_zero_in_zero_out(differentiable, _differentiable(inputs))
    if check_undefined_grad:
        _check_undefined(func, inputs)


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Checks the gradients of `func` against finite differences, for inputs that require gradients.

    The default tolerances are meant for inputs of double precision.

    Args:
        func: takes `inputs` and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those that require gradients are checked.
        eps: the distance of the finite differences.
        atol, rtol: tolerances of the comparison.
        raise_exception: raises GradcheckError on a mismatch; otherwise returns False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: also checks that backward copes with outputs that receive no gradient.
        check_grad_dtypes: also checks that gradients have the dtype of their inputs.
        check_batched_grad: also checks gradients of batches, with `is_grads_batched`.
        check_forward_ad, check_batched_forward_grad: also check forward mode, alone and under vmap.
        check_backward_ad: whether backward is checked.
        fast_mode: compares one random combination of all derivatives instead of each of them.
        masked: for sparse inputs, which are always varied at the indices that they store.
    """
    if not (check_backward_ad or check_forward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    settings = _Settings(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    func, values = over_values(func, _as_tuple(inputs))

    def close(one: Tensor, two: Tensor) -> bool:
        return _close(one, two, rtol, atol)

    try:
        if check_backward_ad:
            _run_checks(func, values, settings, check_undefined_grad, fast_mode)
        if check_batched_grad:
            outputs = _differentiable_outputs(_as_tuple(func(*values)))
            check_batched(outputs, _differentiable(values), close, GradcheckError)
        if check_forward_ad:
            check_forward(func, values, eps, close, GradcheckError)
        if check_batched_forward_grad:
            check_batched_forward(func, values, close, GradcheckError)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_grad_outputs(outputs: tuple[Tensor, ...], noncontiguous: bool) -> tuple[Tensor, ...]:
    from flambeau.testing import make_tensor

    return tuple(
        make_tensor(
            output.shape,
            dtype=output.dtype
            if output.is_floating_point() or output.is_complex()
            else flambeau.float64,
            device=output.device,
            low=-1,
            high=1,
            requires_grad=True,
            noncontiguous=noncontiguous,
        )
        for output in outputs
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Checks the second derivatives of `func`: runs gradcheck on its gradient, as a function of
    `inputs` and `grad_outputs`.

    Args:
        grad_outputs: the gradients of the outputs, to be differentiated by as well; random by
            default.
        gen_non_contig_grad_outputs: makes the random ones not contiguous.
        check_fwd_over_rev, check_rev_over_rev: which modes differentiate the gradient.
        The others are those of gradcheck.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    func, primals = over_values(func, _as_tuple(inputs))
    if grad_outputs is None:
        given = _random_grad_outputs(
            _differentiable_outputs(func(*primals)), gen_non_contig_grad_outputs
        )
    else:
        given = _as_tuple(grad_outputs)

    def gradient(*args: Any) -> tuple[Tensor, ...]:
        arguments, grads = args[: len(primals)], args[len(primals) :]
        arguments = tuple(
            value.requires_grad_()
            if isinstance(value, flambeau.Tensor) and value.requires_grad
            else value
            for value in arguments
        )
        outputs = _differentiable_outputs(func(*arguments))
        wanted = _differentiable(arguments)
        found = flambeau.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True)
        return tuple(item for item in found if item is not None)

    return gradcheck(
        gradient,
        primals + given,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
