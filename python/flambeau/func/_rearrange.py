"""rearrange: reordering, merging and splitting dimensions that a pattern names."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

__all__ = ["rearrange"]

_ELLIPSIS = "..."


def _check_name(name: str) -> None:
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name.startswith("_") or name.endswith("_"):
        raise ValueError(
            f"Invalid axis identifier: {name}\naxis name should should not start or end with "
            "underscore"
        )


def _read_side(side: str) -> list[list[str]]:
    """The names of each dimension of one side: one for a plain name, several in brackets."""
    groups: list[list[str]] = []
    open_group: list[str] | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if open_group is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                )
            open_group = []
        elif word == ")":
            if open_group is None:
                raise ValueError("Brackets are not balanced")
            groups.append(open_group)
            open_group = None
        else:
            if word.isdecimal() and word != "1":
                raise ValueError("rearrange only supports unnamed axes of size 1")
            if word not in ("1", _ELLIPSIS):
                _check_name(word)
            names = [] if word == "1" else [word]
            if open_group is not None:
                open_group += names
            else:
                groups.append(names)
    if open_group is not None:
        raise ValueError("Brackets are not balanced")
    names = [name for group in groups for name in group]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
    return groups


def _read(pattern: str, given: dict[str, int]) -> tuple[list[list[str]], list[list[str]]]:
    if pattern.count("->") != 1:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = map(_read_side, pattern.split("->"))
    known, used = ({name for group in side for name in group} for side in (left, right))
    if known != used:
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{known ^ used}"
        )
    if unknown := set(given) - known:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    for size in given.values():
        if not isinstance(size, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(size)}")
    return left, right


def _sizes_of(group: list[str], size: int, given: dict[str, int]) -> list[int]:
    """The sizes that the names of one dimension have; one of them may follow from the others."""
    sizes = [given.get(name, -1) for name in group]
    if sizes.count(-1) > 1:
        unknown = [name for name in group if name not in given]
        raise ValueError(f"cannot infer the sizes of two dimensions at once: {unknown}")
    product = 1
    for each in sizes:
        product *= abs(each)
    if (-1 in sizes and (product == 0 or size % product)) or (-1 not in sizes and product != size):
        raise ValueError(f"a dimension of size {size} does not split into {group} of sizes {sizes}")
    return [size // product if each == -1 else each for each in sizes]


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The elements of a tensor in the order that a pattern such as ``"b h w c -> b (h w) c"`` says.

    Args:
        tensor: the tensor; a sequence of tensors is stacked along a new first dimension.
        pattern: names for the dimensions of the tensor, an arrow, and the same names in the order
            of the result. Names in brackets are split or merged, ``...`` stands for any number of
            dimensions, ``1`` and ``()`` for one of size one.
        axes_lengths: sizes of names that brackets on the left leave open.
    """
    if not isinstance(tensor, flambeau.Tensor):
        tensor = flambeau.stack(list(tensor))
    left, right = _read(pattern, axes_lengths)
    extra = tensor.dim() - len(left) + ([_ELLIPSIS] in left)
    wanted_extra = [_ELLIPSIS] in left
    if extra < 0 or (extra > 0 and not wanted_extra):
        raise ValueError(
            f"Number of dimensions in pattern ({len(left) - wanted_extra}) must be equal to the "
            f"number of dimensions in the tensor ({tensor.dim()})"
        )
    hidden = [f"{_ELLIPSIS}{index}" for index in range(extra)]

    def spelled(groups: list[list[str]]) -> list[list[str]]:
        """The groups with a name for each dimension that an ellipsis stands for."""
        result: list[list[str]] = []
        for group in groups:
            if group == [_ELLIPSIS]:
                result += [[name] for name in hidden]
            else:
                result.append(
                    [n for name in group for n in (hidden if name == _ELLIPSIS else [name])]
                )
        return result

    sizes: dict[str, int] = {}
    for group, size in zip(spelled(left), tensor.shape, strict=True):
        sizes.update(zip(group, _sizes_of(group, size, axes_lengths), strict=True))
    # One dimension a name, in the order of the left, then of the right, then merged.
    split = tensor.reshape(list(sizes.values()))
    positions = {name: place for place, name in enumerate(sizes)}
    target = spelled(right)
    moved = split.permute([positions[name] for group in target for name in group])
    merged = []
    for group in target:
        size = 1
        for name in group:
            size *= sizes[name]
        merged.append(size)
    return moved.reshape(merged)
