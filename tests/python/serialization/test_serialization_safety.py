"""Files that are damaged or hostile raise one clear exception, and a crash while saving leaves the
old file or the new one.
"""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau._serialization import _archive

REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError)


@pytest.fixture(scope="module")
def saved() -> bytes:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
    buffer = io.BytesIO()
    torch.save({"model": net.state_dict(), "epoch": 3, "names": ["a", "b"]}, buffer)
    return buffer.getvalue()


def test_every_flipped_bit_is_noticed(saved):
    generator = random.Random(0)
    for _ in range(1500):
        damaged = bytearray(saved)
        place = generator.randrange(len(damaged))
        damaged[place] ^= 1 << generator.randrange(8)
        with pytest.raises(REFUSALS):
            torch.load(io.BytesIO(damaged))


def test_every_truncated_file_is_refused(saved):
    for length in range(0, len(saved), 37):
        with pytest.raises(REFUSALS):
            torch.load(io.BytesIO(saved[:length]))


def test_mutated_files_are_read_or_refused_but_nothing_else_happens(saved):
    generator = random.Random(1)
    for _ in range(1500):
        data = bytearray(saved)
        for _ in range(generator.randrange(1, 6)):
            start = generator.randrange(len(data))
            stop = min(len(data), start + generator.randrange(1, 40))
            kind = generator.randrange(4)
            if kind == 0:
                data[start:stop] = bytes(generator.randrange(256) for _ in range(stop - start))
            elif kind == 1:
                del data[start:stop]
            elif kind == 2:
                data[start:start] = data[start:stop]
            else:
                data[start:stop] = b"\xff" * (stop - start)
        try:
            torch.load(io.BytesIO(data))
        except REFUSALS:
            continue


def archive_of(content: bytes, **records: bytes) -> io.BytesIO:
    """A well-formed archive around a pickle."""
    buffer = io.BytesIO()
    writer = _archive.ArchiveWriter(buffer, "archive")
    writer.write("data.pkl", content)
    writer.write("version", b"3\n")
    for name, data in records.items():
        writer.write(name, data)
    writer.close()
    buffer.seek(0)
    return buffer


HOSTILE = {
    "runs a command": b"cos\nsystem\n(S'true'\ntR.",
    "evaluates an expression": b"cbuiltins\neval\n(S'1'\ntR.",
    "asks for a large bytearray": b"cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.",
    "asks for large bytes": b"cbuiltins\nbytes\n(J\xff\xff\xff\x7ftR.",
    "asks for a large storage": b"ctorch\nFloatStorage\n(J\xff\xff\xff\x7ftR.",
    "asks for a large untyped storage": b"ctorch.storage\nUntypedStorage\n(J\xff\xff\xff\x7ftR.",
    "asks for a large tensor": b"ctorch\nTensor\n(J\xff\xff\xff\x7ftR.",
    "fills a large memo": b"K\x01r\xff\xff\xff\xff.",
    "has an unknown opcode": b"\xf7.",
    "never ends": b"K\x01",
    "takes from an empty stack": b"0.",
    "names a storage that is not there": (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ."
    ),
    "has a persistent id of another kind": b"K\x05Q.",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_pickle_is_refused(content):
    with pytest.raises(REFUSALS):
        torch.load(archive_of(content))


def test_a_tensor_larger_than_its_storage_is_refused():
    buffer = io.BytesIO()
    torch.save(torch.zeros(4), buffer)
    with zipfile.ZipFile(buffer) as source:
        content = source.read("archive/data.pkl")
        data = source.read("archive/data/0")
    larger = content.replace(b"K\x04\x85", b"K\x7f\x85")
    assert larger != content
    with pytest.raises(REFUSALS):
        torch.load(archive_of(larger, **{"data/0": data}))


def test_compressed_records_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("archive/data.pkl", pickle.dumps("x" * 10**6, 2))
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="compressed"):
        torch.load(buffer)


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    torch.save(1, path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        torch.save(lambda: 0, path)
    assert torch.load(path) == 1 and os.listdir(tmp_path) == ["checkpoint.pt"]


def test_the_mode_of_the_old_file_and_links_to_it_are_kept(tmp_path: Path):
    path, link = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(1, path)
    os.chmod(path, 0o640)
    link.symlink_to(path)
    torch.save(2, link)
    assert link.is_symlink() and torch.load(path) == 2
    assert path.stat().st_mode & 0o777 == 0o640


def test_records_begin_at_multiples_of_64_bytes_and_zip_tools_read_them(tmp_path: Path):
    path = tmp_path / "a.pt"
    torch.save([torch.zeros(3), torch.ones(5)], path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as source:
        assert source.testzip() is None
        for info in source.infolist():
            name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
            assert (info.header_offset + 30 + name + extra) % 64 == 0


def test_writes_into_a_mapped_file_stay_in_memory_unless_it_is_shared(tmp_path: Path):
    import mmap

    path = tmp_path / "a.pt"
    torch.save(torch.zeros(3), path)
    torch.load(path, mmap=True).fill_(1)
    assert torch.load(path).sum() == 0
    with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True).fill_(1)
    assert torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(RuntimeError, match="Bad CRC"):
        torch.load(path)
    assert torch.load(path, mmap=True).sum() == 3
    with pytest.raises(ValueError, match="MAP_SHARED"):
        torch.serialization.set_default_mmap_options(77)


def test_a_storage_can_be_shared():
    storage = torch.UntypedStorage(8).fill_(3)
    assert not storage.is_shared() and storage.share_memory_().is_shared()
    assert storage.tolist() == [3] * 8


def mutator() -> Any:
    """tools/mutate_files.py as a module."""
    path = Path(__file__).parents[3] / "tools" / "mutate_files.py"
    spec = importlib.util.spec_from_file_location("mutate_files", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_old_files_are_read_and_damaged_ones_refused():
    tools = mutator()
    state = {"w": torch.arange(6.0).view(2, 3).t(), "n": torch.tensor(3), "s": [1, "two"]}
    good = tools.old_file(state)
    loaded = torch.load(io.BytesIO(good))
    assert torch.equal(loaded["w"], state["w"]) and loaded["n"].item() == 3
    assert loaded["w"].stride() == state["w"].stride() and loaded["s"] == [1, "two"]
    for length in range(0, len(good), 13):
        with pytest.raises(REFUSALS):
            torch.load(io.BytesIO(good[:length]))
    count = (6).to_bytes(1, "little")
    # Six elements as a pickle has them; the count before the data is eight bytes long.
    for place in [i for i in range(len(good)) if good[i : i + 2] == b"K" + count]:
        with pytest.raises(REFUSALS):
            torch.load(io.BytesIO(good[:place] + b"J\xff\xff\xff\x7f" + good[place + 2 :]))


@pytest.mark.parametrize("kind", ["pickle", "pt of old", "safetensors", "npz compressed"])
def test_damaged_files_take_little_memory_and_raise_one_kind_of_error(kind):
    command = [sys.executable, mutator().__file__, "--batch", kind, "7", "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout) < 150


def test_some_modules_are_never_safe() -> None:
    buffer = io.BytesIO()
    torch.save(os.getpid, buffer)
    with torch.serialization.safe_globals([os.getpid]):
        buffer.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="is blocked"):
            torch.load(buffer, weights_only=True)
    buffer = io.BytesIO()
    torch.save(print, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL builtins\.print"):
        torch.load(buffer, weights_only=True)
