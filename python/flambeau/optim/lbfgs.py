"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._line_search import Conditions, Point, cubic_minimum, strong_wolfe
from flambeau.optim.optimizer import Optimizer, _check_common, _get_value

__all__ = ["LBFGS"]


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """Where the cubic through two points is least: positions, values and slopes are given."""
    return cubic_minimum(Point(x1, f1, None, g1), Point(x2, f2, None, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[float, Tensor]],
    x: Any,
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """The line search alone, for other methods: loss, gradient, distance, evaluations."""
    conditions = Conditions(c1, c2, max_ls)

    def at(distance: float) -> tuple[float, Tensor]:
        return obj_func(x, distance, d)

    return strong_wolfe(at, t, d, f, g.clone(), float(gtd), tolerance_change, conditions)


def _within(evaluations: int) -> Conditions:
    """The usual conditions, for a search of so many steps."""
    return Conditions(max_steps=evaluations)


class LBFGS(Optimizer):
    """The quasi-Newton method with limited memory (Nocedal, 1980), after minFunc.

    ``step`` needs a closure, which it calls several times. All state is kept on the first
    parameter, under the names that PyTorch's checkpoints have.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        _check_common(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_gradient(self) -> Tensor:
        """All gradients as one real vector."""
        parts = []
        for param in self._params:
            part = flambeau.zeros_like(param) if param.grad is None else param.grad.to_dense()
            if part.is_complex():
                part = flambeau.view_as_real(part)
            parts.append(part.reshape(-1))
        flat = flambeau.cat(parts, 0)
        return -flat if self.param_groups[0].get("maximize") else flat

    def _move(self, distance: float, direction: Tensor) -> None:
        """Moves all parameters along a direction."""
        position = 0
        for param in self._params:
            target = flambeau.view_as_real(param) if param.is_complex() else param
            size = target.numel()
            target.add_(direction[position : position + size].view_as(target), alpha=distance)
            position += size

    def _loss_at(
        self, closure: Callable[[], float], start: list[Tensor], distance: float, direction: Tensor
    ) -> tuple[float, Tensor]:
        """The loss and the gradient at a distance from ``start``, where the parameters stay."""
        self._move(distance, direction)
        loss = closure()
        gradient = self._flat_gradient()
        for param, value in zip(self._params, start, strict=True):
            param.copy_(value)
        return loss, gradient

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Makes up to ``max_iter`` iterations; returns the loss before the first."""

        def evaluate() -> Any:
            with flambeau.enable_grad():
                return closure()

        with flambeau.no_grad():
            return self._iterate(evaluate)

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        sign = -1.0 if group.get("maximize") else 1.0
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = evaluate()
        loss = sign * float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        gradient = self._flat_gradient()
        done = bool(gradient.abs().max() <= group["tolerance_grad"])
        iterations = 0
        while not done and iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            self._choose_direction(state, gradient, group)
            state["prev_loss"] = loss
            direction = state["d"]
            lr = _get_value(group["lr"])
            total = float(gradient.abs().sum()) if state["n_iter"] == 1 else 1.0
            distance = lr / (total if total > 1.0 else 1.0)  # not NaN
            state["t"] = distance  # the next step asks for it, even if there is nowhere to go
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [param.clone() for param in self._params]

                def at(t: float, start: Any = start, direction: Any = direction) -> Any:
                    return self._loss_at(lambda: sign * float(evaluate()), start, t, direction)

                least, left = group["tolerance_change"], group["max_eval"] - evaluations
                loss, gradient, distance, used = strong_wolfe(
                    at, distance, direction, loss, gradient, slope, least, _within(left)
                )
                self._move(distance, direction)
            else:
                self._move(distance, direction)
                if iterations != group["max_iter"]:
                    loss = sign * float(evaluate())
                    gradient = self._flat_gradient()
                    used = 1
            state["t"] = distance
            evaluations += used
            state["func_evals"] += used
            done = (
                evaluations >= group["max_eval"]
                or bool(gradient.abs().max() <= group["tolerance_grad"])
                or bool((direction * distance).abs().max() <= group["tolerance_change"])
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            )
        return first_loss

    def _choose_direction(
        self, state: dict[str, Any], gradient: Tensor, group: dict[str, Any]
    ) -> None:
        """Puts the next direction into the state, and remembers the gradient for the one after."""
        if state["n_iter"] == 1:
            state["d"] = -gradient
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            state["H_diag"] = 1.0
            state.setdefault("al", None)
        else:
            change = gradient - state["prev_flat_grad"]
            moved = state["d"] * state["t"]
            curvature = float(change.dot(moved))
            if curvature > 1e-10:
                if len(state["old_dirs"]) == group["history_size"]:
                    for history in (state["old_dirs"], state["old_stps"], state["ro"]):
                        history.pop(0)
                state["old_dirs"].append(change)
                state["old_stps"].append(moved)
                state["ro"].append(1.0 / curvature)
                state["H_diag"] = curvature / float(change.dot(change))
            state["d"] = self._inverse_hessian_times(state, -gradient, group["history_size"])
        state["prev_flat_grad"] = gradient.clone()

    @staticmethod
    def _inverse_hessian_times(state: dict[str, Any], vector: Tensor, history_size: int) -> Tensor:
        """The two loops over the history, backward and forward."""
        changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        weights: list[Any] = [None] * history_size
        for i in reversed(range(len(changes))):
            weights[i] = float(moves[i].dot(vector)) * inverses[i]
            vector = vector.add(changes[i], alpha=-weights[i])
        vector = vector * state["H_diag"]
        for i, change in enumerate(changes):
            along = float(change.dot(vector)) * inverses[i]
            vector = vector.add(moves[i], alpha=weights[i] - along)
        state["al"] = weights
        return vector
