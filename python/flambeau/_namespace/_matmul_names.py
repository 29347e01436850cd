"""Products of integers by the name that programs find under `torch` although it begins with `_`."""

from __future__ import annotations

from flambeau import _C
from flambeau._namespace._out import delivered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices of bytes, in int32."""
    for name, matrix in (("self", input), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"_int_mm: expected {name} to be 2-D, but got {matrix.dim()}-D")
        if matrix.dtype not in (_C.int8, _C.uint8):
            raise RuntimeError(
                f"_int_mm: Expected {name} dtype to be int8 or uint8 but got {matrix.dtype}"
            )
    if out is not None and out.dtype != _C.int32:
        raise RuntimeError(f"_int_mm: Expected result dtype to be int32 but got {out.dtype}")
    # CUDA multiplies floating-point numbers only; these are exact.
    wide = _C.float64 if input.is_cuda else _C.int32
    result = _C.mm(input.to(wide), mat2.to(wide)).to(_C.int32)
    return delivered(result, out)
