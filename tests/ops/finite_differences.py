"""First and second derivatives by finite differences in double precision.

Written apart from the library's own gradcheck, so that neither vouches for itself. For a complex
input the gradient is dL/dRe + i dL/dIm of a real L, which is PyTorch's convention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-6
Function = Callable[[list[Any]], list[Any]]  # tensors to the outputs that carry gradients


def real_product(weights: list[np.ndarray], values: list[np.ndarray]) -> float:
    """The real inner product of two lists of arrays."""
    return float(sum(np.sum(np.real(np.conj(w) * v)) for w, v in zip(weights, values, strict=True)))


def numeric_gradient(
    loss: Callable[[list[np.ndarray]], float], inputs: list[np.ndarray]
) -> list[np.ndarray]:
    """The gradient of a real loss, one element at a time."""
    gradients = []
    for position, array in enumerate(inputs):
        gradient = np.zeros_like(array)
        units = (1.0, 1.0j) if np.iscomplexobj(array) else (1.0,)
        for index in np.ndindex(*array.shape):
            for unit in units:
                ends = []
                for sign in (1, -1):
                    moved = array.copy()
                    moved[index] += sign * STEP * unit
                    ends.append(loss([*inputs[:position], moved, *inputs[position + 1 :]]))
                gradient[index] += unit * (ends[0] - ends[1]) / (2 * STEP)
        gradients.append(gradient)
    return gradients


def random_like(rng: np.random.Generator, arrays: list[np.ndarray]) -> list[np.ndarray]:
    result = []
    for array in arrays:
        values = rng.normal(size=array.shape)
        if np.iscomplexobj(array):
            values = values + 1j * rng.normal(size=array.shape)
        result.append(np.asarray(values, dtype=array.dtype))
    return result


class DerivativeCheck:
    """Compares what autograd says of a function with what its values say; without `differences`,
    which take many calls, it only asks autograd."""

    def __init__(
        self,
        lib: Any,
        function: Function,
        inputs: list[np.ndarray],
        to_tensor: Callable[[np.ndarray], Any],
        to_numpy: Callable[[Any], np.ndarray],
        seed: int,
        differences: bool = True,
    ) -> None:
        self.differences = differences
        self.lib, self.function, self.inputs = lib, function, inputs
        self.to_tensor, self.to_numpy = to_tensor, to_numpy
        self.rng = np.random.default_rng(seed)
        outputs = [to_numpy(out) for out in function(self._leaves(inputs))]
        self.weights = random_like(self.rng, outputs)

    def _leaves(self, arrays: list[np.ndarray]) -> list[Any]:
        return [self.to_tensor(array).requires_grad_() for array in arrays]

    def _gradients(
        self, outputs: list[Any], leaves: list[Any], weights: list[Any], create_graph: bool = False
    ) -> list[Any]:
        # An output may be on another device than its inputs.
        weights = [w.to(out.device) for w, out in zip(weights, outputs, strict=True)]
        found = self.lib.autograd.grad(
            outputs, leaves, weights, allow_unused=True, create_graph=create_graph
        )
        return [
            self.lib.zeros_like(leaf) if grad is None else grad
            for leaf, grad in zip(leaves, found, strict=True)
        ]

    def first(self) -> str | None:
        """A complaint about the first derivative, or None."""
        leaves = self._leaves(self.inputs)
        weights = [self.to_tensor(w) for w in self.weights]
        analytic = self._gradients(self.function(leaves), leaves, weights)
        if not self.differences:
            return None

        def loss(arrays: list[np.ndarray]) -> float:
            outputs = self.function(self._leaves(arrays))
            return real_product(self.weights, [self.to_numpy(out) for out in outputs])

        numeric = numeric_gradient(loss, self.inputs)
        for position, (got, want) in enumerate(zip(analytic, numeric, strict=True)):
            values = self.to_numpy(got)
            if values.shape != want.shape:
                return f"gradient {position} has shape {values.shape}, its input {want.shape}"
            if not np.allclose(values, want, 1e-4, 1e-5):
                return f"gradient {position}: {values.tolist()} instead of {want.tolist()}"
        return None

    def second(self) -> str | None:
        """A complaint about the derivative of the gradient, by inputs and incoming gradient."""
        points = self.inputs + self.weights
        count = len(self.inputs)
        by = random_like(self.rng, self.inputs)

        def gradients(arrays: list[np.ndarray]) -> tuple[list[Any], list[Any]]:
            leaves = self._leaves(arrays)
            outputs = self.function(leaves[:count])
            return leaves, self._gradients(outputs, leaves[:count], leaves[count:], True)

        leaves, firsts = gradients(points)
        carried = [k for k, g in enumerate(firsts) if g.requires_grad]
        analytic = [self.lib.zeros_like(leaf) for leaf in leaves]
        if carried:  # a gradient that is zero everywhere need not have a history
            analytic = self._gradients(
                [firsts[k] for k in carried], leaves, [self.to_tensor(by[k]) for k in carried]
            )
        for _ in range(2 if self.differences else 0):
            direction = random_like(self.rng, points)
            ends = []
            for sign in (1, -1):
                moved = [p + sign * STEP * d for p, d in zip(points, direction, strict=True)]
                ends.append(real_product(by, [self.to_numpy(g) for g in gradients(moved)[1]]))
            numeric = (ends[0] - ends[1]) / (2 * STEP)
            got = real_product(direction, [self.to_numpy(g) for g in analytic])
            if not np.isclose(got, numeric, 1e-4, 1e-4):
                return f"second derivative along a direction: {got} instead of {numeric}"
        return None
