"""What the statements of random programs ask of the generator that they are mixed into."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs import Shape, Variable


class Statements:
    """The generator, which chooses variables and numbers, as its statements see it."""

    rng: random.Random
    statements: list[str]
    variables: list[Variable]
    complex: bool

    def new(self, expression: str, shape: Shape, dtype: str | None = None) -> Variable:
        raise NotImplementedError

    def pick(self) -> Variable:
        raise NotImplementedError

    def pick_with(self, shape: Shape) -> Variable:
        raise NotImplementedError

    def scalar(self) -> str:
        raise NotImplementedError

    def dim(self, variable: Variable) -> int:
        raise NotImplementedError

    def _mixed(self, templates: tuple[str, ...]) -> tuple[str, Variable]:
        """A template with its letters filled in, and the variable that is its x."""
        raise NotImplementedError
