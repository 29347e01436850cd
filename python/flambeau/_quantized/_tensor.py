"""QuantizedTensor: integers, and what they stand for.

The tensor of the core holds the integers, so that views share memory as all views do; `_quantizer`
says what they stand for. Operations come to `_rules`, which knows those that PyTorch has for
quantized tensors, and refuses the others.
"""

from __future__ import annotations

from collections import OrderedDict

import flambeau
from flambeau import _C
from flambeau._quantized._quantizers import DTYPES, KIND_NAMES, PerChannel, PerTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

# The class, of which type checkers know too much: what is an attribute there is a property here.
PlainTensor: Any = flambeau.Tensor


class QuantizedTensor(PlainTensor):
    """A tensor of integers that stand for real numbers. torch.quantize_per_tensor makes them."""

    _quantizer: Any

    @staticmethod
    def _over(ints: Tensor, quantizer: Any) -> QuantizedTensor:
        """A quantized tensor over integers, whose memory it shares."""
        made = ints.as_subclass(QuantizedTensor)
        made._quantizer = quantizer
        return made

    def _ints(self) -> Tensor:
        """The integers, in the same memory."""
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(flambeau.Tensor)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from flambeau._quantized import _rules

        return _rules.call(func, args, kwargs or {})

    # What it is
    @property
    def dtype(self) -> Any:
        return DTYPES[self._ints().dtype]

    @property
    def is_quantized(self) -> bool:
        return True

    def qscheme(self) -> Any:
        """How the integers stand for real numbers."""
        return self._quantizer.scheme

    def dequantize(self) -> Tensor:
        """The real numbers, in float32."""
        return self._quantizer.dequantize(self._ints())

    def int_repr(self) -> Tensor:
        """A copy of the integers."""
        return self._ints().clone()

    def _per_tensor(self) -> PerTensor:
        if not isinstance(self._quantizer, PerTensor):
            raise RuntimeError(
                "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false: the "
                f"tensor is quantized by {self.qscheme()}"
            )
        return self._quantizer

    def _per_channel(self) -> PerChannel:
        if not isinstance(self._quantizer, PerChannel):
            raise RuntimeError(
                "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == "
                "kPerChannelAffineFloatQParams to be true, but got false: the tensor is quantized "
                f"by {self.qscheme()}"
            )
        return self._quantizer

    def q_scale(self) -> float:
        """The scale of all elements."""
        return self._per_tensor().scale

    def q_zero_point(self) -> int:
        """The integer that stands for zero."""
        return self._per_tensor().zero_point

    def q_per_channel_scales(self) -> Tensor:
        """The scale of each channel."""
        return self._per_channel().scales

    def q_per_channel_zero_points(self) -> Tensor:
        """The zero point of each channel."""
        return self._per_channel().zero_points

    def q_per_channel_axis(self) -> int:
        """The dimension that counts the channels."""
        return self._per_channel().axis

    # Views and memory
    @property
    def data(self) -> QuantizedTensor:
        return QuantizedTensor._over(self._ints(), self._quantizer)

    @data.setter
    def data(self, other: Any) -> None:
        if not isinstance(other, QuantizedTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                f"incompatible tensor type: {self.dtype} and {other.dtype}"
            )
        with _C.DisableTorchFunctionSubclass():
            PlainTensor.data.__set__(self, other._ints())
        self._quantizer = other._quantizer

    def _covers_memory(self) -> bool:
        """Whether it is all of the integers that there are, and not a part of another's."""
        with _C.DisableTorchFunctionSubclass():
            base = PlainTensor._base.__get__(self)
        return base is None or base.numel() == self.numel()

    @property
    def _base(self) -> None:
        return None

    def new_tensor(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "new_tensor: a quantized tensor is not made of numbers alone; use quantize_per_tensor"
        )

    def storage(self) -> Any:
        """The memory under the integers."""
        from flambeau.storage import TypedStorage, UntypedStorage

        return TypedStorage(wrap_storage=UntypedStorage._of(self._ints()), dtype=self.dtype)

    _typed_storage = storage

    # Other forms
    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """The name of the type, or the tensor in another dtype, which must be its own."""
        if dtype is None:
            place = "" if self.device.type == "cpu" else f"{self.device.type}."
            return f"torch.quantized.{place}{KIND_NAMES[self.dtype]}Tensor"
        return self.to(dtype)

    def is_signed(self) -> bool:
        raise RuntimeError("isSignedType not supported for quantized types")

    def item(self) -> float:
        """The real number that the only element stands for."""
        return self.dequantize().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            word = "no values" if self.numel() == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {word} is ambiguous")
        return bool(self.item())

    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def __format__(self, format_spec: str) -> str:
        return format(self.item() if self.dim() == 0 else str(self), format_spec)

    def __contains__(self, element: Any) -> bool:
        return element in self.dequantize()

    def tolist(self) -> Any:
        raise RuntimeError(
            "load_scalar: invalid type: a quantized tensor has no list of values; take that of "
            "dequantize() or int_repr()"
        )

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"Got unsupported ScalarType {KIND_NAMES[self.dtype]}")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        raise BufferError(f"Can't export tensors of dtype {self.dtype}")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from flambeau import _tensor_str

        return _tensor_str.describe_quantized(self, tensor_contents)

    # Copies and pickles
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        from copy import deepcopy

        from flambeau._tensor import _copy_of_memory

        copied = QuantizedTensor._over(_copy_of_memory(self._ints(), memo), self._quantizer)
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            if name != "_quantizer":
                copied.__dict__[name] = deepcopy(value, memo)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        from flambeau import _tensor, _utils

        hooks: OrderedDict[int, Any] = OrderedDict()
        others = {k: v for k, v in self.__dict__.items() if k not in ("_quantizer", "_is_param")}
        if self.__dict__.get("_is_param"):
            arguments = (self.data, False, hooks)
            if others:
                return _utils._rebuild_parameter_with_state, (*arguments, others)
            return _utils._rebuild_parameter, arguments
        ints = self._ints()
        where = (ints.storage_offset(), tuple(ints.size()), tuple(ints.stride()))
        made = (self.storage(), *where, self._quantizer.parameters(), False, hooks)
        if not others:
            return _utils._rebuild_qtensor, made
        state = (_utils._rebuild_qtensor, flambeau.Tensor, made, others)
        return _tensor._rebuild_from_type_v2, state
