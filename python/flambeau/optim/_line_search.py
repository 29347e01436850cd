"""A line search for the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import Tensor


class Conditions(NamedTuple):
    """How much the loss must fall for its slope, how flat it must become, and in how many steps."""

    decrease: float = 1e-4
    curvature: float = 0.9
    max_steps: int = 25


class Point:
    """A distance along the direction, with the loss, the gradient and the slope there."""

    __slots__ = ("distance", "gradient", "loss", "slope")

    def __init__(self, distance: float, loss: float, gradient: Any, slope: float) -> None:
        self.distance = distance
        self.loss = loss
        self.gradient = gradient
        self.slope = slope


def _quotient(a: float, b: float) -> float:
    """a / b, infinite or NaN where b is zero: a straight line has its minimum at infinity."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def cubic_minimum(one: Point, other: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is least, within bounds."""
    left, right = (one, other) if one.distance <= other.distance else (other, one)
    low, high = bounds or (left.distance, right.distance)
    d1 = left.slope + right.slope
    d1 -= _quotient(3 * (one.loss - other.loss), one.distance - other.distance)
    discriminant = d1 * d1 - one.slope * other.slope
    if discriminant < 0:
        return (low + high) / 2.0
    d2 = discriminant**0.5
    width = right.distance - left.distance
    ratio = _quotient(right.slope + d2 - d1, right.slope - left.slope + 2 * d2)
    return min(max(right.distance - width * ratio, low), high)


def strong_wolfe(
    at: Callable[[float], tuple[float, Tensor]],
    distance: float,
    direction: Tensor,
    loss: float,
    gradient: Tensor,
    slope: float,
    tolerance_change: float,
    conditions: Conditions = Conditions(),
) -> tuple[float, Tensor, float, int]:
    """Finds a distance; returns loss, gradient, distance and the number of evaluations."""
    largest_move = float(direction.abs().max())
    start = Point(0.0, loss, gradient, slope)
    evaluations = 0

    def point(t: float) -> Point:
        nonlocal evaluations
        evaluations += 1
        new_loss, new_gradient = at(t)
        new_gradient = new_gradient.clone()
        return Point(t, float(new_loss), new_gradient, float(new_gradient.dot(direction)))

    def is_too_high(new: Point) -> bool:
        return new.loss > loss + conditions.decrease * new.distance * slope

    def is_flat(new: Point) -> bool:
        return abs(new.slope) <= -conditions.curvature * slope

    most = conditions.max_steps
    bracket, steps, found = _find_bracket(start, point, distance, is_too_high, is_flat, most)
    if not found:
        left = most - steps
        _narrow(bracket, point, is_too_high, is_flat, left, largest_move, tolerance_change)
    best = min(bracket, key=lambda each: each.loss) if not found else bracket[0]
    return best.loss, best.gradient, best.distance, evaluations


def _find_bracket(
    start: Point,
    point: Callable[[float], Point],
    distance: float,
    is_too_high: Callable[[Point], bool],
    is_flat: Callable[[Point], bool],
    max_steps: int,
) -> tuple[list[Point], int, bool]:
    """Goes further out until a good point lies between two, or is found itself."""
    previous = start
    new = point(distance)
    steps = 0
    while steps < max_steps:
        if is_too_high(new) or (steps > 1 and new.loss >= previous.loss):
            return [previous, new], steps, False
        if is_flat(new):
            return [new], steps, True
        if new.slope >= 0:
            return [previous, new], steps, False
        bounds = (
            new.distance + 0.01 * (new.distance - previous.distance),
            new.distance * 10,
        )
        further = cubic_minimum(previous, new, bounds)
        previous = new
        new = point(further)
        steps += 1
    return [start, new], steps, False


def _narrow(
    bracket: list[Point],
    point: Callable[[float], Point],
    is_too_high: Callable[[Point], bool],
    is_flat: Callable[[Point], bool],
    max_steps: int,
    largest_move: float,
    tolerance_change: float,
) -> None:
    """Shrinks a bracket, whose first point becomes the lower one, until a point is good."""
    bracket.sort(key=lambda each: each.loss)
    made_little_progress = False
    for _ in range(max_steps):
        one, other = bracket[0].distance, bracket[1].distance
        if abs(other - one) * largest_move < tolerance_change:
            return
        t = cubic_minimum(bracket[0], bracket[1])
        low, high = min(one, other), max(one, other)
        margin = 0.1 * (high - low)
        # Twice in a row close to an end, or beyond it: step away from that end.
        if min(high - t, t - low) < margin:
            if made_little_progress or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                made_little_progress = False
            else:
                made_little_progress = True
        else:
            made_little_progress = False
        new = point(t)
        if is_too_high(new) or new.loss >= bracket[0].loss:
            bracket[1] = new
            bracket.sort(key=lambda each: each.loss)
            continue
        good = is_flat(new)
        if not good and new.slope * (bracket[1].distance - bracket[0].distance) >= 0:
            bracket[1] = bracket[0]
        bracket[0] = new
        if good:
            return
