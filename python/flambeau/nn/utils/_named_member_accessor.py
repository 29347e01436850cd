"""Tensors and submodules of a module by their full names: read, replaced and taken away."""

from __future__ import annotations

from flambeau.func._functional_call import _ABSENT, _Place
from flambeau.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from flambeau import Tensor

__all__ = ["NamedMemberAccessor"]


def _found(module: Module, name: str) -> _Place:
    """Where a tensor stands that must be there."""
    place = _Place(module, name)
    if place.before is _ABSENT:
        raise AttributeError(f"{place.owner._get_name()} has no attribute `{place.key}`")
    return place


def _check_own(name: str) -> None:
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Puts a tensor in the place of one of the module's own."""
    _check_own(name)
    NamedMemberAccessor(module).set_tensor(name, tensor)


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Any:
    """Puts a tensor in the place of one of the module's own, which is given back."""
    _check_own(name)
    return NamedMemberAccessor(module).swap_tensor(name, tensor, allow_missing)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Puts a module in the place of a direct submodule, which is given back."""
    if not isinstance(module, Module) or not isinstance(submodule, Module):
        raise TypeError(f"{module} or {submodule} is not an instance of torch.nn.Module")
    if "." in name or not name:
        raise KeyError(f'submodule name can\'t be empty or contain ".", got {name!r}')
    before = module._modules.get(name)
    if before is None:
        raise KeyError(f"submodule {name} does not exist")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """The tensors and submodules of a module by the names of `named_parameters` and the like.

    Args:
        module: the module.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """The submodule of that name; the module itself for an empty one."""
        return self.module.get_submodule(name)

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Puts a module in the place of another, which is given back."""
        owner, _, name = path.rpartition(".")
        return swap_submodule(self.get_submodule(owner), name, value)

    def get_tensor(self, name: str) -> Any:
        """The parameter, buffer or attribute of that name."""
        return _found(self.module, name).before

    def set_tensor(self, name: str, value: Any) -> None:
        """Puts a tensor, or None, there."""
        self.swap_tensor(name, value, allow_missing=True)

    def del_tensor(self, name: str) -> None:
        """Takes the tensor away."""
        place = _found(self.module, name)
        if place.table is None:
            place.write(_ABSENT)
        else:
            del place.table[place.key]

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Puts a tensor there and gives back what was there before."""
        from flambeau import Tensor

        if not (value is None or value is _ABSENT or isinstance(value, Tensor)):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
        place = (_Place if allow_missing else _found)(self.module, name)
        if value is _ABSENT and place.table is not None:
            del place.table[place.key]
        else:
            place.write(value)
        return place.before

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors of several names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Puts tensors at several names, as many as there are names."""
        self.swap_tensors(names, values, allow_missing=True)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Puts tensors there by their names."""
        self.set_tensors(named_tensors.keys(), named_tensors.values())

    def del_tensors(self, names: Iterable[str]) -> None:
        """Takes several tensors away."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False
    ) -> list[Any]:
        """Puts tensors at several names and gives back what was there before."""
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise AssertionError(f"{len(names)} names for {len(values)} values")
        pairs = zip(names, values, strict=True)
        return [self.swap_tensor(name, value, allow_missing) for name, value in pairs]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Puts tensors there by their names; gives back what was there, and what was missing. All
        is as before when one of them is refused.
        """
        before: dict[str, Any] = {}
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
                if before[name] is _ABSENT and not allow_missing:
                    raise RuntimeError(f"Missing key(s): {name!r}.")
        except BaseException:
            for name, value in reversed(before.items()):
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, [name for name, value in before.items() if value is _ABSENT]

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names of tensors that are missing among the keys, and keys that name none."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The parameters and their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The buffers and their names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The parameters, then the buffers, and their names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The module, all below it, and their names."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
