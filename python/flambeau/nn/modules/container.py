"""Modules that hold other modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections import abc as container_abcs
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from flambeau.nn.modules.module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _checked_index(index: Any, size: int) -> int:
    """``index`` as a position between 0 and ``size``, counting from the end if negative."""
    position = operator.index(index)
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of range")
    return position % size


def _key_value_pairs(name: str, pairs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for number, pair in enumerate(pairs):
        if not isinstance(pair, container_abcs.Iterable):
            raise TypeError(
                f"{name} update sequence element #{number} should be Iterable; is"
                + type(pair).__name__
            )
        pair = list(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{name} update sequence element #{number} has length {len(pair)}; 2 is required"
            )
        yield pair[0], pair[1]


class Container(Module):
    """A Module by an older name, with modules given as keywords."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in "
            "nn.Module. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for key, value in kwargs.items():
            self.add_module(key, value)


class Sequential(Module):
    """Calls its modules one after another, each on what the one before it returned.

    Takes modules, or one dictionary from names to modules.
    """

    _modules: dict[str, Module]

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        position = _checked_index(index, len(self))
        return next(islice(self._modules, position, None))

    def __getitem__(self, index: slice | int) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: slice | int) -> None:
        if isinstance(index, slice):
            for name in list(self._modules)[index]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(index))
        self._renumber()

    def _renumber(self) -> None:
        """Names the modules 0, 1, 2, ... in their order."""
        modules = list(self._modules.values())
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return self.extend(list(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*chain.from_iterable([self] * self._checked_factor(other)))

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Any:
        return self.extend(list(self) * (self._checked_factor(other) - 1))

    def _checked_factor(self, factor: Any) -> int:
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")
        return factor

    def append(self, module: Module) -> Any:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Inserts a module before position ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self._modules)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules = {str(i): each for i, each in enumerate(modules)}
        return self

    def pop(self, key: int | slice) -> Module:
        """Removes and returns the module at ``key``."""
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """A list whose modules are registered."""

    _modules: dict[str, Module]

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_checked_index(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_checked_index(index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for position in range(len(self))[index]:
                delattr(self, str(position))
        else:
            delattr(self, str(_checked_index(index, len(self))))
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for position, module in enumerate(chain(self, other)):
            combined.add_module(str(position), module)
        return combined

    def __repr__(self) -> str:
        """Like that of any module, but equal neighbours share a line."""
        groups: list[tuple[int, int, str]] = []
        for position, text in enumerate(repr(module) for module in self):
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], position, text)
            else:
                groups.append((position, position, text))
        if not groups:
            return self._get_name() + "()"
        lines = []
        for first, last, text in groups:
            if first == last:
                line = f"({first}): {text}"
            else:
                line = f"({first}-{last}): {last - first + 1} x {text}"
            lines.append(_addindent(line, 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Module) -> None:
        """Inserts a module before position ``index``."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        for position, each in enumerate(modules):
            self._modules[str(position)] = each

    def append(self, module: Module) -> Any:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Removes and returns the module at ``key``."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> Any:
        """Adds modules at the end."""
        if not isinstance(modules, container_abcs.Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        offset = len(self)
        for position, module in enumerate(modules):
            self.add_module(str(offset + position), module)
        return self


class ModuleDict(Module):
    """A dictionary whose modules are registered; it keeps the order of insertion."""

    _modules: dict[str, Module]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes everything."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes and returns the module under ``key``."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> container_abcs.KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> container_abcs.ItemsView[str, Module]:
        """Pairs of name and module."""
        return self._modules.items()

    def values(self) -> container_abcs.ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from pairs of name and module."""
        if not isinstance(modules, container_abcs.Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        if isinstance(modules, (OrderedDict, ModuleDict, container_abcs.Mapping)):
            pairs: Iterable[tuple[Any, Any]] = modules.items()
        else:
            pairs = _key_value_pairs("ModuleDict", modules)
        for key, module in pairs:
            self[key] = module


# Defined in a file of their own, but found here as well.
from flambeau.nn.modules._parameter_container import ParameterDict, ParameterList  # noqa: E402
