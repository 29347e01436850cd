"""What nested tensors of both layouts share: the core's tensor holds packed values, and what needs
one size for all components is refused or goes by way of padding."""

from __future__ import annotations

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

# The class, of which type checkers know too much: what is an attribute there is a property here.
PlainTensor: Any = flambeau.Tensor


class Nested(PlainTensor):
    """A batch of tensors whose sizes differ."""

    def values(self) -> Tensor:
        """All elements of all components, packed."""
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(flambeau.Tensor)

    @property
    def ndim(self) -> int:
        return self.dim()

    @property
    def is_nested(self) -> bool:
        return True

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """A tensor in which components are filled up with `padding` to the largest sizes."""
        from flambeau.nested import to_padded_tensor

        return to_padded_tensor(self, padding, output_size)

    @property
    def grad_fn(self) -> Any:
        """The node of the operation that made it, not that of naming it nested."""
        with _C.DisableTorchFunctionSubclass():
            node = PlainTensor.grad_fn.__get__(self)
        if node is None or node.name() != "AliasBackward0":
            return node
        before = node.next_functions[0][0]
        return node if before is None or "AccumulateGrad" in before.name() else before

    def _plain_grad(self) -> Any:
        with _C.DisableTorchFunctionSubclass():
            return PlainTensor.grad.__get__(self)
