"""torch.qscheme and its values: how the numbers of a quantized tensor stand for real ones."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class qscheme:
    """How integers stand for real numbers: with one scale for all, or one for each channel."""

    __slots__ = ("_name",)
    _name: str

    def __new__(cls, *args: Any, **kwargs: Any) -> qscheme:
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


# Files name schemes, and their class, as attributes of the package.
qscheme.__module__ = "flambeau"
NAMES = (
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
)


def _made(name: str) -> Any:
    scheme: Any = object.__new__(qscheme)
    scheme._name = name
    return scheme


per_tensor_affine, per_channel_affine, per_tensor_symmetric = map(_made, NAMES[:3])
per_channel_symmetric, per_channel_affine_float_qparams = map(_made, NAMES[3:])
