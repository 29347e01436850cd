"""What settings of backends have in common: contexts that set several of them for a while, and the
precision that products of float32 are computed in.
"""

from __future__ import annotations

import contextlib

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextlib.contextmanager
def changed(settings: Any, **values: Any) -> Iterator[None]:
    """Sets attributes of `settings`, those whose value is not None, and puts the old ones back."""
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(settings, name) for name in given}
    for name, value in given.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


class Precision:
    """How exact some products of float32 are: "ieee", "tf32", "bf16", or "none" for what is said of
    all of which these are a part, or else the default.

    Args:
        part_of: the larger group.
        default: what holds where nothing is said.
        mode: the permission to use TF32 that the core is told of.
    """

    def __init__(
        self, part_of: Precision | None = None, default: str = "none", mode: str | None = None
    ) -> None:
        self._part_of, self._default, self._mode = part_of, default, mode
        self._own = "none"
        self._parts: list[Precision] = []
        if part_of is not None:
            part_of._parts.append(self)

    @property
    def fp32_precision(self) -> str:
        """What holds here."""
        if self._own != "none":
            return self._own
        above = "none" if self._part_of is None else self._part_of.fp32_precision
        return self._default if above == "none" else above

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("none", "ieee", "tf32", "bf16"):
            raise RuntimeError(f"Unknown precision: {value}")
        self._own = value
        self._tell()

    def _tell(self) -> None:
        if self._mode is not None:
            _C._set_math_mode(self._mode, self.fp32_precision == "tf32")
        for part in self._parts:
            part._tell()

    @property
    def allow_tf32(self) -> bool:
        """Whether TF32 may be used, under the older name."""
        return self.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self.fp32_precision = "tf32" if value else "ieee"


# All products of float32 there are.
everything = Precision()
