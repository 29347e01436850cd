"""Batches of sequences of different lengths: padded, packed, and the ways between the two.

A packed batch holds step 0 of all sequences, then step 1 of those that have one, and so on, longest
sequence first; ``batch_sizes`` says how many sequences each step has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import _C, Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _PackedFields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


# The tuple that carries the fields shows under the name of its subclass.
_PackedFields.__name__ = "PackedSequence_"


class PackedSequence(_PackedFields):
    """The data and batch sizes of packed sequences, and how they were sorted."""

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # both in one pair, as older programs give them
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. "
                "Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn. "
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with data of another dtype or on another device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        # Indices move with the data but stay integers.
        indices = [
            None if index is None else index.to(data.device)
            for index in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        example = flambeau.tensor((), dtype=self.data.dtype, device=self.data.device)
        if example.to(*args, **kwargs).is_cuda:
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": "cuda"})

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def double(self) -> PackedSequence:
        return self.to(dtype=flambeau.double)

    def float(self) -> PackedSequence:
        return self.to(dtype=flambeau.float)

    def half(self) -> PackedSequence:
        return self.to(dtype=flambeau.half)

    def long(self) -> PackedSequence:
        return self.to(dtype=flambeau.long)

    def int(self) -> PackedSequence:
        return self.to(dtype=flambeau.int)

    def short(self) -> PackedSequence:
        return self.to(dtype=flambeau.short)

    def char(self) -> PackedSequence:
        return self.to(dtype=flambeau.int8)

    def byte(self) -> PackedSequence:
        return self.to(dtype=flambeau.uint8)

    def pin_memory(self) -> PackedSequence:
        indices = [
            None if index is None else index.pin_memory()
            for index in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes the given one."""
    if permutation is None:
        return None
    positions = flambeau.arange(permutation.numel(), device=permutation.device)
    return flambeau.empty_like(permutation).scatter_(
        0, permutation, positions.to(permutation.dtype)
    )


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs (T, B, *) or, ``batch_first``, (B, T, *), of which ``lengths`` steps are meant.

    Unless ``enforce_sorted``, sequences are sorted by length, longest first.
    """
    counts: Tensor = flambeau.as_tensor(lengths, dtype=flambeau.int64, device="cpu")
    sorted_indices = None
    if not enforce_sorted:
        counts, sorted_indices = flambeau.sort(counts, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _C._pack_padded_sequence(input, counts, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch, in the order before packing, and the lengths of its sequences."""
    data, batch_sizes, _, unsorted_indices = sequence
    padded, lengths = _C._pad_packed_sequence(
        data, batch_sizes, batch_first, padding_value, -1 if total_length is None else total_length
    )
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        lengths = lengths[unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of different lengths below each other, filled up to the longest."""
    if isinstance(sequences, Tensor):
        sequences = list(sequences.unbind(0))
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    else:
        sequences = list(sequences)
    for place, sequence in enumerate(sequences):
        if not isinstance(sequence, Tensor):
            raise TypeError(
                f"expected Tensor as element {place} in argument 0, but got "
                f"{type(sequence).__name__}"
            )
    return _C._pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each cut to its length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        sequence[: int(length)].clone(memory_format=flambeau.contiguous_format)
        for sequence, length in zip(padded_sequences.unbind(0), lengths, strict=False)
    ]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths."""
    lengths = flambeau.tensor([sequence.size(0) for sequence in sequences], dtype=flambeau.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
