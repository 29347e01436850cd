"""Context managers that are decorators too, on functions and on generators, fresh for every
call.
"""

from __future__ import annotations

import functools
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_CO_GENERATOR = 0x20  # the flag `inspect.isgeneratorfunction` looks at; inspect is slow to import


def _is_generator_function(func: Any) -> bool:
    while isinstance(func, functools.partial):
        func = func.func
    code = getattr(getattr(func, "__func__", func), "__code__", None)
    return code is not None and bool(code.co_flags & _CO_GENERATOR)


def _wrap_generator(make_context: Callable[[], Any], func: F) -> F:
    """Runs the generator inside the context and its caller outside of it, at every exchange."""

    @functools.wraps(func)
    def generator_context(*args: Any, **kwargs: Any) -> Any:
        generator = func(*args, **kwargs)
        try:
            with make_context():
                item = generator.send(None)
            while True:
                try:
                    request = yield item
                except GeneratorExit:
                    with make_context():
                        generator.close()
                    raise
                except BaseException as error:
                    with make_context():
                        item = generator.throw(error)
                else:
                    with make_context():
                        item = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return generator_context  # type: ignore[return-value]


def context_decorator(make_context: Callable[[], Any], func: F) -> F:
    """`func`, run inside the context that `make_context()` gives."""
    if isinstance(func, type):
        raise TypeError(f"cannot decorate the class {func.__name__}: decorate its methods instead")
    if _is_generator_function(func):
        return _wrap_generator(make_context, func)

    @functools.wraps(func)
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        with make_context():
            return func(*args, **kwargs)

    return decorate_context  # type: ignore[return-value]


class _DecoratorContextManager:
    """A context manager whose instances decorate: `@mode(arguments)`."""

    def __call__(self, orig_func: F) -> F:
        if isinstance(orig_func, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods: decorate the `__init__` method for the "
                "same effect.",
                FutureWarning,
                stacklevel=2,
            )

            def construct(*args: Any, **kwargs: Any) -> Any:
                return orig_func(*args, **kwargs)

            return context_decorator(self.clone, construct)  # type: ignore[return-value]
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """A context with the same arguments, so that a decorated function may call itself."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that takes no arguments, and so decorates without parentheses as well: `@mode`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
