"""Names of PyTorch that Flambeau does not have and that libraries only mention: they can be
imported, subclassed and asked for with isinstance, and using one raises an error that says what is
missing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def absent(module: str, name: str, why: str) -> Any:
    """A class of that name which has no instances: making one raises NotImplementedError.

    Args:
        module: the `__name__` of the module that has the name.
        name: the name.
        why: the end of the sentence "torch.x.name: ...".
    """
    path = f"torch.{module.partition('.')[2]}.{name}"

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{path}: {why}")

    made = type(name, (), {"__new__": __new__, "__doc__": f"Not available: {why}."})
    made.__module__ = module
    return made
