"""Methods of Tensor that older programs call: names of Python 2, resizing without an underscore,
questions about where a tensor's memory lives."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor


def __div__(self: Tensor, other: Any) -> Tensor:
    """self / other."""
    return _C.div(self, other)


def __idiv__(self: Tensor, other: Any) -> Tensor:
    """self /= other."""
    return self.div_(other)


def __long__(self: Tensor) -> int:
    """The only element, as an integer."""
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return int(self.item())


def __nonzero__(self: Tensor) -> bool:
    """Whether the only element is not zero."""
    return bool(self)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements in another shape, which must hold as many."""
    shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.reshape(shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The same elements in the shape of another tensor."""
    return self.reshape(tensor.shape)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replaces each element by the function of it and of those of two tensors at its place."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError("Can't call map2_() on Variable that requires grad.")
    a, b = x.expand(self.shape).flatten().tolist(), y.expand(self.shape).flatten().tolist()
    values = [callable(*row) for row in zip(self.flatten().tolist(), a, b, strict=True)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """Each element, or 0 where its magnitude is at most lambd."""
    return _C.hardshrink(self, lambd)


def is_distributed(self: Tensor) -> bool:
    """Whether the tensor is spread over processes: never."""
    return False


def xpu(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    """Moves it to one of Intel's GPUs, of which there is none here."""
    raise AssertionError("Torch not compiled with XPU enabled")


def to_padded_tensor(self: Tensor, padding: float, output_size: Any = None) -> Any:
    """Of a nested tensor, its components filled up to one size; other tensors have none."""
    raise NotImplementedError(
        "Could not run 'aten::to_padded_tensor': the tensor is not nested, but of "
        f"{self.dtype} on {self.device}"
    )


def reinforce(self: Tensor, reward: Any) -> Any:
    """Was removed from PyTorch; `distributions` took its place."""
    raise RuntimeError("reinforce() was removed. Use torch.distributions instead.")


METHODS = (
    __div__,
    __idiv__,
    __long__,
    __nonzero__,
    resize,
    resize_as,
    map2_,
    hardshrink,
    is_distributed,
    reinforce,
    to_padded_tensor,
    xpu,
)
