"""SobolEngine: the state of a Sobol sequence, scrambled or not, with PyTorch's numbers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _sobol_engine_draw
from flambeau._namespace._out import delivered
from flambeau.quasirandom._directions import BITS, DIMENSIONS, directions

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol sequence in the unit cube.

    Args:
        dimension: of the cube, at most `MAXDIM`.
        scramble: shifts and mixes the digits at random, which keeps the evenness.
        seed: of the scrambling; without one the default generator is drawn from.
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        with flambeau.device("cpu"):
            self.sobolstate = directions(dimension)
            self.shift = flambeau.zeros(dimension, dtype=flambeau.int64)
            if scramble:
                self._scramble()
            self.quasi = self.shift.clone()
            self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: flambeau.dtype | None = None
    ) -> Tensor:
        """The next n points, one a row.

        Args:
            n: how many.
            out: a tensor to write them into.
            dtype: of the points; the default dtype without one.
        """
        self._check_length(n)
        dtype = flambeau.get_default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        steps = n - 1 if first else n
        done = 0 if first else self.num_generated - 1
        result, self.quasi = _sobol_engine_draw(
            self.quasi, steps, self.sobolstate, self.dimension, done, dtype=dtype
        )
        if first:
            result = flambeau.cat((self._first_point.to(dtype), result), dim=-2)
        self.num_generated += n
        return delivered(result, out)

    def draw_base2(
        self, m: int, out: Tensor | None = None, dtype: flambeau.dtype | None = None
    ) -> Tensor:
        """The next 2**m points, if with those before they are a power of two: then they are
        balanced.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "The balance properties of Sobol' points require "
                f"n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Passes over the next n points."""
        self._check_length(n)
        self.num_generated += n
        # The state after k steps has the directions of the bits of k's Gray code.
        steps = max(self.num_generated - 1, 0)
        code = steps ^ (steps >> 1)
        quasi = self.shift.clone()
        for bit in range(self.MAXBIT):
            if code >> bit & 1:
                quasi ^= self.sobolstate[:, bit]
        self.quasi = quasi
        return self

    def _check_length(self, n: int) -> None:
        if self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(f"SobolEngine can generate at most {2**self.MAXBIT} points")

    def _scramble(self) -> None:
        """Mixes digits by a random lower triangular matrix of bits in each dimension, then shifts
        them (Matousek's linear scrambling).
        """
        generator = None
        if self.seed is not None:
            generator = flambeau.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        shifts = flambeau.randint(2, (self.dimension, bits), generator=generator)
        self.shift = (shifts * 2 ** flambeau.arange(bits)).sum(-1)
        square = (self.dimension, bits, bits)
        mixing = flambeau.randint(2, square, generator=generator).tril()
        mixing.diagonal(dim1=-2, dim2=-1).fill_(1)
        # A row of the matrix as a mask of the bits that make one bit of the result.
        masks = (mixing * 2 ** flambeau.arange(bits - 1, -1, -1)).sum(-1)
        mixed = flambeau.zeros_like(self.sobolstate)
        for row in range(bits):
            chosen = self.sobolstate & masks[:, row : row + 1]
            for width in (16, 8, 4, 2, 1):
                chosen = chosen ^ (chosen >> width)
            mixed |= (chosen & 1) << (bits - 1 - row)
        self.sobolstate = mixed

    def __repr__(self) -> str:
        words: list[Any] = [f"dimension={self.dimension}"]
        if self.scramble:
            words.append("scramble=True")
        if self.seed is not None:
            words.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(words)})"
