"""Registering operators: a name, a schema, kernels by device, shapes for the meta device, and a
rule for the derivative. They are then called as `flambeau.ops.<namespace>.<name>`.

`custom_op` makes one from a Python function. Things registered for an operator that nobody has
defined are kept until somebody does.
"""

from __future__ import annotations

import contextlib
import enum
import weakref

from flambeau import _ops
from flambeau._library import _schema
from flambeau._ops import OpOverload, OpOverloadPacket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]

infer_schema = _schema.infer

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "xpu": "XPU", "mps": "MPS"}


def _qualname(op: Any) -> str:
    if isinstance(op, str):
        return op
    if isinstance(op, OpOverload):
        return op.overloadpacket._qualified_op_name
    if isinstance(op, OpOverloadPacket):
        return op._qualified_op_name
    if isinstance(op, CustomOpDef):
        return op._qualname
    raise ValueError(f"expected an operator or its name 'namespace::name', got {type(op)}")


def _key(device_type: str) -> str:
    """The key under which kernels of a device type are kept; keys are taken as they are."""
    return _KEYS.get(device_type, device_type)


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Stands for "what is registered otherwise"; it is never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A group of operators or kernels that a program registers in one namespace.

    Args:
        ns: the namespace.
        kind: "DEF" defines new operators, "IMPL" adds kernels, "FRAGMENT" does either.
        dispatch_key: the key that kernels are registered for, if they name none.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if kind == "DEF" and ns in ("aten", "prim", "prims"):
            raise ValueError(f"{ns} is a reserved namespace. Please use another one.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[_ops.Operator] = []
        # Operators go with the library that defined them.
        weakref.finalize(self, _forget_all, self._defined).atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an operator by its name and schema; gives back its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        name = schema.partition("(")[0].strip()
        known = _ops.operator(f"{self.ns}::{name}")
        if known.schema is not None:
            raise RuntimeError(f"Tried to register an operator ({self.ns}::{schema}) twice")
        known.schema = _schema.parse(f"{self.ns}::{name}", schema[schema.index("(") :])
        self._defined.append(known)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Registers a kernel of an operator for a dispatch key."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        name = op_name if isinstance(op_name, str) else _qualname(op_name)
        qualname = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        kernels = _ops.operator(qualname).kernels
        if fn is fallthrough_kernel:
            kernels.pop(key, None)
            return
        if key in kernels and not allow_override:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python "
                f"overriding {qualname}'s behavior for {key} dispatch key and {self.ns} namespace."
            )
        kernels[key] = fn

    def _destroy(self) -> None:
        _forget_all(self._defined)


def _forget_all(operators: list[_ops.Operator]) -> None:
    for operator in operators:
        # Another library may have defined the name anew in the meantime.
        if _ops.operator(operator.qualname) is operator:
            _ops.forget(operator.qualname)
    operators.clear()


# Libraries of operators that were defined by their names alone; nobody else holds them.
_kept: list[Library] = []


def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Any = (),
) -> Any:
    """Defines an operator "namespace::name" with a schema "(Tensor x) -> Tensor".

    Given a library and "name(Tensor x) -> Tensor", as it once was, it decorates the kernel.
    """
    if isinstance(qualname, Library):
        home, name = qualname, qualname.define(schema, alias_analysis, tags=tags)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            home.impl(name, function)
            return function

        return register
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be a str, got {qualname}")
    namespace, _, name = qualname.partition("::")
    if lib is None:
        lib = Library(namespace, "FRAGMENT")
        _kept.append(lib)
    lib.define(name + schema)


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Registers a kernel of an operator for device types, "default" for all; or decorates it."""
    if isinstance(qualname, Library):
        return _impl_in(qualname, types, func or "")
    keys = [types] if isinstance(types, str) else types

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for one in keys:
            key = "CompositeExplicitAutograd" if one == "default" else _key(one)
            _ops.operator(_qualname(qualname)).kernels[key] = function
        return function

    if func is None:
        return register
    register(func)
    return None


def _impl_in(library: Library, name: Any, key: Any) -> Callable[..., Any]:
    """The older form: impl(library, name, dispatch_key) decorates a kernel."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        library.impl(name, function, key)
        return function

    return register


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Registers a kernel of an operator for device types, None for all; or decorates it."""
    return impl(op, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Registers the function that makes empty results of the right shapes; or decorates it."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _ops.operator(_qualname(op)).fake = function
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Any,
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
) -> Any:
    """The older name of register_fake."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Registers the derivative of an operator.

    Args:
        op: the operator or its name.
        backward: backward(ctx, *grads) gives the gradient of each input.
        setup_context: setup_context(ctx, inputs, output) saves what backward needs.
        lib: not needed.
    """
    known = _ops.operator(_qualname(op))
    if known.schema is not None and known.schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {known.qualname} with "
            f"schema {known.schema}."
        )
    known.backward, known.setup_context = backward, setup_context


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """Makes an operator cast its inputs to a dtype where autocast is on for the device type."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    _ops.operator(_qualname(op)).autocast[device_type] = cast_inputs


def register_vmap(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Accepts a rule for `vmap`, which calls operators once for each example and needs none."""
    return (lambda function: function) if func is None else func


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Refuses: there is no dispatch below autograd that Python could take over."""
    raise NotImplementedError(
        f"register_torch_dispatch: {_qualname(op)}: Flambeau has no __torch_dispatch__; classes "
        "take operations over with __torch_function__"
    )


class CustomOpDef:
    """An operator made from a Python function; call it as you would the function."""

    def __init__(self, qualname: str, schema: str, function: Callable[..., Any]) -> None:
        self._namespace, _, self._name = qualname.partition("::")
        self._qualname, self._init_fn = qualname, function
        if _ops.operator(qualname).schema is not None:
            _ops.forget(qualname)
        self._library = Library(self._namespace, "FRAGMENT")
        self._library.define(self._name + schema)
        self._operator = _ops.operator(qualname)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(_ops.ops, self._namespace), self._name)(*args, **kwargs)

    @property
    def _opoverload(self) -> OpOverload:
        return getattr(getattr(_ops.ops, self._namespace), self._name).default

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """See `flambeau.library.register_kernel`."""
        register = register_kernel(self, device_types)
        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """See `flambeau.library.register_fake`."""
        return register_fake(self, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """See `flambeau.library.register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """See `flambeau.library.register_autocast`."""
        register_autocast(self, device_type, cast_inputs)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """See `flambeau.library.register_vmap`."""
        return register_vmap(self, func)

    def register_torch_dispatch(self, cls: Any, fn: Any = None, /) -> Any:
        """See `flambeau.library.register_torch_dispatch`."""
        return register_torch_dispatch(self, cls, fn)

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """A context in which the kernel of a device type is on or off."""

        @contextlib.contextmanager
        def switched() -> Any:
            disabled, key = self._operator.disabled, _key(device_type)
            before = key in disabled
            (disabled.discard if enabled else disabled.add)(key)
            try:
                yield
            finally:
                (disabled.add if before else disabled.discard)(key)

        return switched()


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Makes an operator from a function with annotations; or decorates it.

    Args:
        name: its name, "namespace::name".
        fn: the function, which is the kernel.
        mutates_args: the names of the arguments it writes into, or "unknown".
        device_types: the device types the function serves; all by default.
        schema: the schema, instead of the one that the annotations describe.
        tags: accepted for compatibility.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        written = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(name, written, function)
        register_kernel(made, device_types, function)
        return made

    return make if fn is None else make(fn)


class _FakeContext:
    """What a fake implementation asks for sizes that depend on values, which nobody knows."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Refuses: sizes on the meta device are numbers."""
        raise NotImplementedError(
            "new_dynamic_size: a size that depends on values is not known on the meta device"
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> _FakeContext:
    """The context of the fake implementation that is running."""
    return _FakeContext()


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = ("test_schema", "test_autograd_registration", "test_faketensor"),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Calls an operator and checks what was registered for it.

    Inputs must not change unless the schema says so, and the fake implementation must give the
    shapes and dtypes of the real results. Gives back for each test "SUCCESS" or, where
    `raise_exception` is False, the exception.
    """
    from flambeau._library._opcheck import checks

    tests = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    known = _ops.operator(_qualname(op))
    if known.schema is None:
        raise RuntimeError(f"operator {known.qualname} does not exist")
    results: dict[str, Any] = {}
    for test in tests:
        try:
            checks[test](known, args, kwargs or {})
            results[test] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise
            results[test] = error
    return results


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Any:
    """Makes an operator from a function that calls Triton kernels through `wrap_triton`; or
    decorates it. See `custom_op` for the arguments.
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


class wrap_triton:
    """A Triton kernel within an operator: it can be named, and refuses to run.

    Args:
        triton_kernel: the kernel.
    """

    def __init__(self, triton_kernel: Any, /) -> None:
        self.kernel = triton_kernel

    def __getitem__(self, grid: Any) -> Any:
        """The kernel over a grid, as it is about to be called."""
        return self.run

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses: kernels written in Triton do not run here."""
        raise NotImplementedError("wrap_triton: Flambeau does not run Triton kernels")

    __call__ = run


class Tag(enum.Enum):
    """What an operator may say about itself; nothing here asks for it."""

    core = 0
    data_dependent_output = 1
    dynamic_output_shape = 2
    flexible_layout = 3
    generated = 4
    inplace_view = 5
    maybe_aliasing_or_mutating = 6
    needs_exact_strides = 7
    needs_fixed_stride_order = 8
    nondeterministic_bitwise = 9
    nondeterministic_seeded = 10
    pointwise = 11
    pt2_compliant_tag = 12
    view_copy = 13
    cudagraph_unsafe = 14
    inplace = 15
    needs_contiguous_strides = 16
    out = 17
    out_variant = 18
    reduction = 19
