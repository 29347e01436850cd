"""What programs tell a compiler about their functions. Flambeau runs all of them as they stand, so
nothing is ever being compiled, and a function kept away from the compiler is the function itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """The function or module itself; without one, a decorator.

    Compiling must not change what a function computes. Flambeau has no compiler, so the function
    runs as it stands, op by op, and nothing here makes it faster. All arguments besides `model` say
    how to compile, and have no effect.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    return model if model is not None else lambda function: function


def is_compiling() -> bool:
    """False: this line is being run."""
    return False


def is_dynamo_compiling() -> bool:
    """False: this line is being run."""
    return False


def is_exporting() -> bool:
    """False: this line is being run."""
    return False


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """The function, which is not compiled; without one, a decorator."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """The function or functions."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function."""
    return fn


def reset() -> None:
    """Forgets what was compiled, which is nothing."""


def cudagraph_mark_step_begin() -> None:
    """Marks the begin of a step for graphs that were captured, of which there are none."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the compilers, of which there is none."""
    return []


class set_stance:
    """Says what calls of compiled functions shall do: to be called, entered or put on a function.

    All of them run as they stand, under every stance; with "fail_on_recompile" too, since nothing
    is compiled a second time.
    """

    _STANCES = (
        "default",
        "eager_then_compile",
        "aot_eager_then_compile",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
    )

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("set_stance: force_backend needs the stance 'default'")
        if stance not in self._STANCES:
            raise RuntimeError(f"set_stance: unknown stance '{stance}'")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
