"""The safetensors format: what is written is read again, byte by byte as the format says, and files
that are not as it says are refused.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import safetensors
from flambeau.safetensors import SafetensorError


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    kinds = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
    made = {name: (torch.randn(2, 3) * 9).to(getattr(torch, name)) for name in kinds[:-1]}
    made["complex64"] = torch.complex(torch.randn(2), torch.randn(2))
    return {**made, "scalar": torch.tensor(1.5), "empty": torch.zeros(0, 4)}


def test_tensors_come_back_as_they_were(tensors, tmp_path: Path):
    path = tmp_path / "model.safetensors"
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    for found in (safetensors.load_file(path), safetensors.load(safetensors.save(tensors))):
        assert set(found) == set(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
    assert safetensors.load_metadata(path) == {"format": "pt"}


def test_the_bytes_are_those_of_the_format():
    data = safetensors.save({"b": torch.tensor([1, 2], dtype=torch.int8), "a": torch.tensor([1.0])})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header == {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "I8", "shape": [2], "data_offsets": [4, 6]},
    }
    assert length % 8 == 0 and data[8 + length :] == b"\x00\x00\x80?\x01\x02"


def test_part_of_a_tensor_is_saved_alone():
    whole = torch.arange(6.0)
    assert len(safetensors.save({"x": whole[2:4]})) < 100
    assert safetensors.load(safetensors.save({"x": whole[2:4]}))["x"].tolist() == [2.0, 3.0]


def test_what_cannot_be_kept_is_refused():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="non contiguous"):
        safetensors.save({"x": x.t()})
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"x": x, "y": x[0]})
    with pytest.raises(ValueError, match=r"expected torch\.Tensor"):
        safetensors.save({"x": 3})


def file_of(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (10**9).to_bytes(8, "little") + b"{}",
        file_of(b"not json"),
        file_of(b"[" * 100000),
        file_of([1]),
        file_of({"x": ENTRY}),
        file_of({"x": ENTRY}, b"\0" * 5),
        file_of({"x": {**ENTRY, "shape": [2]}}, b"\0" * 4),
        file_of({"x": {**ENTRY, "shape": [-1]}}, b"\0" * 4),
        file_of({"x": {**ENTRY, "dtype": "F8"}}, b"\0" * 4),
        file_of({"x": {**ENTRY, "data_offsets": [4, 0]}}, b"\0" * 4),
        file_of({"x": {**ENTRY, "more": 1}}, b"\0" * 4),
        file_of({"x": ENTRY, "y": ENTRY}, b"\0" * 4),
        file_of({"x": {**ENTRY, "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, b"\0" * 4),
        file_of(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":1}', b"\0" * 4),
        file_of({"__metadata__": {"a": 1}}),
    ],
)
def test_a_file_that_is_not_as_the_format_says_is_refused(data):
    with pytest.raises(SafetensorError):
        safetensors.load(data)


def test_mutated_files_are_read_or_refused(tensors):
    saved, generator = safetensors.save(tensors), random.Random(0)
    for _ in range(2000):
        data = bytearray(saved)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            safetensors.load(bytes(data[: generator.randrange(len(data)) or None]))
        except SafetensorError:
            continue
