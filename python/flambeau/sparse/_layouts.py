"""Tensors of which only some elements are stored, by coordinates (COO) or compressed rows (CSR).

Each is a Tensor over no memory, which gives it its shape and dtype, with the stored values beside
it. Values are an ordinary tensor, so derivatives flow through them; every operation that is not
named in `flambeau.sparse._operations` is refused. Dense tensors know nothing of this.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C

# The ops are looked up when they are called.
_ops: Any = _C
_Tensor: Any = _C.Tensor

# What the tensor without memory can answer itself.
_ATTRIBUTES = frozenset(
    "shape dtype ndim itemsize nbytes name names is_quantized is_mkldnn".split()
)
_ANSWERED = frozenset(
    """size dim ndimension numel nelement element_size is_floating_point is_complex is_signed
    __len__ __hash__ is_inference""".split()
)


def _indices_text(name: str, indices: Any, indent: str) -> str:
    if indices.numel() == 0:
        return f"{name}=tensor([], size={tuple(indices.shape)})"
    head = f"{name}="
    return head + repr(indices).replace("\n", "\n" + indent + " " * len(head))


def grouped(place: Any) -> tuple[Any, Any, Any]:
    """The order of numbers, which of the ordered ones are the first of their kind, and how many
    kinds stand before each."""
    order = _ops.argsort(place, stable=True)
    ordered = place[order]
    first = _ops.ones_like(ordered, dtype=_C.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order, first, _ops.cumsum(first, 0) - 1


class SparseTensor(_Tensor):
    """What both layouts share. `_values_` are the stored elements."""

    _values_: Any
    _layout: Any = None
    _kind = ""

    @classmethod
    def _over(cls, size: Any, values: Any) -> Any:
        empty = _ops.empty(tuple(size), dtype=values.dtype, device="meta")
        result = _Tensor._make_subclass(cls, empty)
        result._values_ = values
        return result

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from flambeau.sparse import _operations

        name = func.__name__
        kwargs = kwargs or {}
        attribute = name in ("__get__", "__set__")
        known = getattr(func.__self__, "__name__", "") in _ATTRIBUTES if attribute else False
        if known or name in _ANSWERED:
            with _ops.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if attribute:
            name = getattr(func.__self__, "__name__", name)
        return _operations.run(name, args, kwargs)

    def _with_values(self, values: Any) -> Any:
        """The same places with other values."""
        raise NotImplementedError

    # What the tensor without memory would answer wrongly -------------------------------------
    @property
    def layout(self) -> Any:
        """How the elements are laid out."""
        return self._layout

    @property
    def device(self) -> Any:
        """Where the values are."""
        return self._values_.device

    @property
    def is_cuda(self) -> bool:
        """Whether the values are on a CUDA device."""
        return self._values_.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the values are in main memory."""
        return self._values_.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether there are no values at all."""
        return self._values_.is_meta

    @property
    def requires_grad(self) -> bool:
        """Whether the values want a gradient."""
        return self._values_.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values_.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether the values have no history."""
        return self._values_.is_leaf

    @property
    def grad_fn(self) -> Any:
        """The operation that made the values."""
        return self._values_.grad_fn

    @property
    def grad(self) -> Any:
        """The gradient, which has the same places."""
        grad = self._values_.grad
        return None if grad is None else self._with_values(grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._values_.grad = None if value is None else value._values_

    @property
    def data(self) -> Any:
        """The same without history."""
        return self._with_values(self._values_.detach())

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Asks for a gradient, of this tensor's values and nobody else's."""
        if self._values_.is_leaf and not self._values_.requires_grad:
            self._values_ = self._values_.detach()
        self._values_.requires_grad_(requires_grad)
        return self

    @property
    def is_sparse(self) -> bool:
        """Whether elements are stored by coordinates."""
        return self._layout is _C.sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether elements are stored by compressed rows."""
        return self._layout is _C.sparse_csr

    def values(self) -> Any:
        """The stored elements."""
        return self._values_

    def _nnz(self) -> int:
        return self._values_.shape[0]

    def dense_dim(self) -> int:
        """How many dimensions each stored element has."""
        return self._values_.dim() - 1

    def sparse_dim(self) -> int:
        """How many dimensions are indexed."""
        return self.dim() - self.dense_dim()

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Any:
        """All elements, those that are not stored being zero."""
        dense = self.to_sparse_coo()._filled()
        return dense if dtype is None else dense.to(dtype)

    def to_sparse_coo(self) -> Any:
        """The same by coordinates."""
        raise NotImplementedError

    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, **_: Any) -> Any:
        """The same in another sparse layout."""
        return self.to_sparse_csr() if layout is _C.sparse_csr else self.to_sparse_coo()

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The same by compressed rows."""
        raise NotImplementedError

    def type(self, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        """The name of the type, or the same converted."""
        if dtype is not None:
            return self._with_values(self._values_.type(dtype))
        return self._values_.type().replace("torch.", "torch.sparse.", 1)

    # What has no memory cannot give it away --------------------------------------------------
    def tolist(self) -> Any:
        """Only of dense tensors."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def data_ptr(self) -> int:
        """Only of dense tensors."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self, *, force: bool = False) -> Any:
        """Only of dense tensors."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def storage(self) -> Any:
        """Only of dense tensors."""
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    def untyped_storage(self) -> Any:
        """Only of dense tensors."""
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    def item(self) -> Any:
        """The only element."""
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self.to_dense().item()

    def __iter__(self) -> Any:
        return iter([self[k] for k in range(len(self))])

    def __deepcopy__(self, memo: Any) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment"
            )
        values = self._values_.detach().clone().requires_grad_(self.requires_grad)
        copy = memo[id(self)] = self._with_values(values)
        return copy

    def _refuse(self, name: str, wanted: str) -> Any:
        raise RuntimeError(f"{name} expected sparse {wanted} tensor layout but got {self._kind}")

    def _described(self, parts: list[str]) -> str:
        parts.append(f"size={tuple(self.shape)}, nnz={self._nnz()}")
        if self._values_.device.type != "cpu":
            parts[-1] += f", device='{self._values_.device}'"
        if self.dtype not in (_ops.get_default_dtype(), _C.int64, _C.bool):
            parts[-1] += f", dtype={self.dtype}"
        parts[-1] += f", layout={self._layout}"
        if self.grad_fn is not None:
            parts[-1] += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            parts[-1] += ", requires_grad=True"
        return "tensor(" + ",\n       ".join(parts) + ")"

    def _values_text(self) -> str:
        values = self._values_.detach()
        if values.dtype != _ops.get_default_dtype():
            values = values.double() if values.is_floating_point() else values
            text = repr(values).replace(", dtype=torch.float64", "")
        else:
            text = repr(values)
        if values.numel() == 0:
            return f"values=tensor([], size={tuple(values.shape)})"
        return "values=" + text.replace("\n", "\n       " + " " * len("values="))

    def __format__(self, spec: str) -> str:
        return repr(self)


class CooTensor(SparseTensor):
    """Elements by coordinates: a column of `_indices_` for each. Equal columns add up."""

    _indices_: Any
    _coalesced = False
    _layout = _C.sparse_coo
    _kind = "Sparse"
    _rows: Any = None  # starts, columns and order by rows, once somebody multiplied with it

    @classmethod
    def make(cls, indices: Any, values: Any, size: Any, coalesced: bool = False) -> Any:
        """From parts that fit together."""
        result = cls._over(size, values)
        result._indices_ = indices
        result._coalesced = coalesced
        return result

    def _with_values(self, values: Any) -> Any:
        size = (*self.shape[: self.sparse_dim()], *values.shape[1:])
        result = CooTensor.make(self._indices_, values, size, self._coalesced)
        result._rows = self._rows
        return result

    def _places(self) -> Any:
        """Coordinates as one number each."""
        place = _ops.zeros(self._nnz(), dtype=_C.int64, device=self._indices_.device)
        for size, index in zip(self.shape, self._indices_):
            place = place * size + index
        return place

    def _filled(self) -> Any:
        sizes = self.shape[: self.sparse_dim()]
        flat = self._values_.new_zeros(math.prod(sizes), *self._values_.shape[1:])
        return _ops.index_add(flat, 0, self._places(), self._values_).reshape(self.shape)

    def coalesce(self) -> Any:
        """The same with ordered coordinates, each at most once."""
        if self._coalesced:
            return self
        if self._nnz() < 2:
            return CooTensor.make(self._indices_, self._values_, self.shape, True)
        order, first, group = grouped(self._places())
        count = int(group[-1]) + 1
        values = self._values_.new_zeros(count, *self._values_.shape[1:])
        values = _ops.index_add(values, 0, group, self._values_[order])
        return CooTensor.make(self._indices_[:, order[first]], values, self.shape, True)

    def is_coalesced(self) -> bool:
        """Whether coordinates are known to be ordered and each at most once."""
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> Any:
        self._coalesced = coalesced
        return self

    def _check_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def indices(self) -> Any:
        """The coordinates of a coalesced tensor, a column each."""
        self._check_coalesced("indices")
        return self._indices_

    def values(self) -> Any:
        """The elements of a coalesced tensor."""
        self._check_coalesced("values")
        return self._values_

    def _indices(self) -> Any:
        return self._indices_

    def _values(self) -> Any:
        return self._values_

    def crow_indices(self) -> Any:
        """Only of compressed rows."""
        return self._refuse("crow_indices", "row compressed")

    def col_indices(self) -> Any:
        """Only of compressed rows."""
        return self._refuse("col_indices", "row compressed")

    def to_sparse_coo(self) -> Any:
        """This tensor itself."""
        return self

    def compressed(self) -> tuple[Any, Any, Any]:
        """Where rows start, the columns in that order, and the values; of a matrix."""
        if self.dim() != 2 or self.sparse_dim() != 2:
            raise RuntimeError(
                f"sparse: expected a matrix of numbers, but got {self.sparse_dim()} sparse and "
                f"{self.dense_dim()} dense dimensions"
            )
        if self._rows is None:
            starts, order = _ops._group_by_index(self._indices_[0], self.shape[0])
            columns = self._indices_[1]
            # Coalesced elements stand in the order of rows already.
            self._rows = (
                (starts, columns, None) if self._coalesced else (starts, columns[order], order)
            )
        starts, columns, order = self._rows
        return starts, columns, self._values_ if order is None else self._values_[order]

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The same by compressed rows."""
        starts, columns, values = self.coalesce().compressed()
        return CsrTensor.make(starts, columns, values, self.shape)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._described(
            [_indices_text("indices", self._indices_, "       "), self._values_text()]
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = (self._indices_, self._values_, tuple(self.shape), self._coalesced)
        return CooTensor.make, parts


class CsrTensor(SparseTensor):
    """Elements by compressed rows: those of row r stand from `_crow[r]` to `_crow[r + 1]`."""

    _crow: Any
    _col: Any
    _layout = _C.sparse_csr
    _kind = "SparseCsr"
    _coordinates: Any = None  # rows and columns, once somebody asked for them

    @classmethod
    def make(cls, crow: Any, col: Any, values: Any, size: Any) -> Any:
        """From parts that fit together."""
        result = cls._over(size, values)
        result._crow = crow
        result._col = col
        return result

    def _with_values(self, values: Any) -> Any:
        result = CsrTensor.make(self._crow, self._col, values, self.shape)
        result._coordinates = self._coordinates
        return result

    def crow_indices(self) -> Any:
        """Where each row starts."""
        return self._crow

    def col_indices(self) -> Any:
        """The column of each element."""
        return self._col

    def indices(self) -> Any:
        """Only of coordinates."""
        return self._refuse("indices", "coordinate")

    def is_coalesced(self) -> bool:
        """Only of coordinates."""
        return self._refuse("is_coalesced", "coordinate")

    def coalesce(self) -> Any:
        """Only of coordinates."""
        return self._refuse("coalesce", "coordinate")

    def to_sparse_coo(self) -> Any:
        """The same by coordinates."""
        if self._coordinates is None:
            rows = _ops._csr_rows(self._crow, self._nnz())
            self._coordinates = _ops.stack([rows, self._col])
        result = CooTensor.make(self._coordinates, self._values_, self.shape, True)
        result._rows = self._crow, self._col, None
        return result

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """This tensor itself."""
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._described(
            [
                _indices_text("crow_indices", self._crow, "       "),
                _indices_text("col_indices", self._col, "       "),
                self._values_text(),
            ]
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return CsrTensor.make, (self._crow, self._col, self._values_, tuple(self.shape))
