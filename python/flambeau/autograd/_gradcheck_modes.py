"""What gradcheck asks beyond backward: forward-mode derivatives, and derivatives of batches."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

    Failure = type[Exception]

_BATCH = 2


def as_tuple(values: Any) -> tuple[Any, ...]:
    """What a function takes or gives, one or several, as a tuple."""
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _positions(inputs: Sequence[Any]) -> list[int]:
    """Where the inputs are that derivatives are asked for."""
    return [
        place
        for place, value in enumerate(inputs)
        if isinstance(value, flambeau.Tensor) and value.requires_grad
    ]


def _with(inputs: Sequence[Any], place: int, value: Tensor) -> list[Any]:
    changed = list(inputs)
    changed[place] = value
    return changed


def _along(
    func: Callable[..., Any], inputs: Sequence[Any], place: int, direction: Tensor
) -> list[Tensor]:
    """The forward-mode derivatives of the outputs as one input moves along `direction`."""
    from flambeau.autograd import forward_ad

    with forward_ad.dual_level():
        duals = list(inputs)
        for other in _positions(inputs):  # all have a tangent, that of the ones at rest is zero
            still = flambeau.zeros_like(inputs[other].detach())
            tangent = direction if other == place else still
            duals[other] = forward_ad.make_dual(inputs[other].detach(), tangent)
        parts = [forward_ad.unpack_dual(output) for output in as_tuple(func(*duals))]
        return [
            (flambeau.zeros_like(part.primal) if part.tangent is None else part.tangent).detach()
            for part in parts
        ]


def _difference(
    func: Callable[..., Any], inputs: Sequence[Any], place: int, direction: Tensor, eps: float
) -> list[Tensor]:
    """The same by central differences."""
    ends = []
    for distance in (eps, -eps):
        moved = (inputs[place].detach() + distance * direction).requires_grad_()
        outputs = as_tuple(func(*_with(inputs, place, moved)))
        ends.append([output.detach().clone() for output in outputs])
    return [(above - below) / (2 * eps) for above, below in zip(*ends)]


def _differentiable(output: Tensor) -> bool:
    return output.is_floating_point() or output.is_complex()


def check_forward(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    eps: float,
    close: Callable[[Tensor, Tensor], bool],
    failure: Failure,
) -> None:
    """Compares forward-mode derivatives along random directions with central differences."""
    for number, place in enumerate(_positions(inputs)):
        directions = [flambeau.randn_like(inputs[place].detach()) for _ in range(_BATCH)]
        for direction in directions:
            analytical = _along(func, inputs, place, direction)
            numerical = _difference(func, inputs, place, direction, eps)
            for j, (one, two) in enumerate(zip(analytical, numerical)):
                if _differentiable(two) and not close(one, two):
                    raise failure(
                        f"Jacobian computed with forward mode mismatch for output {j} with respect "
                        f"to input {number},\nnumerical:{two}\nanalytical:{one}\n"
                    )


def check_batched_forward(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    close: Callable[[Tensor, Tensor], bool],
    failure: Failure,
) -> None:
    """Compares forward-mode derivatives of a batch of directions with those of each."""
    for number, place in enumerate(_positions(inputs)):
        directions = flambeau.randn(
            (_BATCH, *inputs[place].shape), dtype=inputs[place].dtype, device=inputs[place].device
        )
        each = [_along(func, inputs, place, direction) for direction in directions]

        def along(direction: Tensor, place: int = place) -> tuple[Tensor, ...]:
            def moved(value: Tensor) -> tuple[Any, ...]:
                return as_tuple(func(*_with(inputs, place, value)))

            return flambeau.func.jvp(moved, (inputs[place],), (direction,))[1]

        together = flambeau.func.vmap(along)(directions)
        for j, batch in enumerate(together):
            if not close(batch, flambeau.stack([row[j] for row in each])):
                raise failure(
                    f"While computing batched gradients, got: the forward-mode derivative of "
                    f"output {j} with respect to input {number} differs from that of each sample"
                )


def check_batched(
    outputs: Sequence[Tensor],
    tensors: tuple[Tensor, ...],
    close: Callable[[Tensor, Tensor], bool],
    failure: Failure,
) -> None:
    """Compares the gradients for a batch of output gradients with those for each of them."""
    for j, output in enumerate(outputs):
        batch = flambeau.randn((_BATCH, *output.shape), dtype=output.dtype, device=output.device)

        def gradients(given: Tensor, batched: bool, output: Tensor = output) -> Any:
            return flambeau.autograd.grad(
                output,
                tensors,
                given,
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=batched,
            )

        together = gradients(batch, True)
        each = [gradients(given, False) for given in batch]
        for number, whole in enumerate(together):
            rows = [row[number] for row in each]
            if any(row is None for row in rows) or whole is None:
                continue
            if not close(whole, flambeau.stack(rows)):
                raise failure(
                    f"While computing batched gradients, got: the gradient of output {j} with "
                    f"respect to input {number} differs from that of each sample"
                )
