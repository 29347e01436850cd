"""Damages files in every way and loads them: no crash, one kind of exception, little memory.

    PYTHONPATH=python python tools/mutate_files.py [--count 100000] [--flips 1500] [--seed 0]

Every refusal names the file and the record (members of an .npz are Python's). Mutated files are
loaded in child processes whose address space may grow by the size of the file and
64 MB; a child that dies, hangs, or raises anything but the exceptions below is a finding. Single
flipped bits of checked formats must all be noticed.
"""

from __future__ import annotations

import argparse
import io
import pickle
import random
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import npy, safetensors
from flambeau._serialization._archive import ArchiveWriter

REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError, npy.NpyError)
ALLOWANCE = 64 << 20
BATCH = 2500


def _state() -> dict[str, Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(2, 2, 5, 5)).sum().backward()
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "names": ["a", 1, None]}


def _archive() -> bytes:
    buffer = io.BytesIO()
    torch.save(_state(), buffer)
    return buffer.getvalue()


def _safetensors() -> bytes:
    return safetensors.save({k: v.clone() for k, v in _state()["model"].items()}, {"a": "b"})


def _npy() -> bytes:
    buffer = io.BytesIO()
    npy.save(buffer, torch.randn(9, 5))
    return buffer.getvalue()


def _npz(write: Callable[..., None]) -> bytes:
    buffer = io.BytesIO()
    write(buffer, torch.arange(9), w=torch.randn(4, 3), flag=torch.tensor([True, False]))
    return buffer.getvalue()


def _load_archive(data: bytes) -> Any:
    return torch.load(io.BytesIO(data))


def old_file(obj: Any) -> bytes:
    """A file as PyTorch wrote it before 1.6: five pickles, then the bytes of the storages."""
    buffer = io.BytesIO()
    torch.save(obj, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def _records() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(_archive())) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


RECORDS = _records()


def _load_pickle(data: bytes) -> Any:
    """Loads a well-formed archive around a damaged pickle, which checksums do not shield."""
    buffer = io.BytesIO()
    writer = ArchiveWriter(buffer, "archive")
    for name, content in RECORDS.items():
        writer.write(name, data if name == "data.pkl" else content)
    writer.close()
    return _load_archive(buffer.getvalue())


def _load_npy(data: bytes) -> Any:
    return npy.load(io.BytesIO(data))


# How each kind of file is made and loaded, and whether its checksums cover every bit.
KINDS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Any], bool]] = {
    "pt": (_archive, _load_archive, True),
    "pickle": (lambda: RECORDS["data.pkl"], _load_pickle, False),
    "pt of old": (lambda: old_file(_state()), _load_archive, False),
    "safetensors": (_safetensors, safetensors.load, False),
    "npy": (_npy, _load_npy, False),
    "npz": (lambda: _npz(npy.savez), _load_npy, False),
    "npz compressed": (lambda: _npz(npy.savez_compressed), _load_npy, False),
}


def mutated(good: bytes, generator: random.Random) -> bytes:
    """A copy with one to five parts overwritten, removed, repeated, or set to extremes."""
    data = bytearray(good)
    for _ in range(generator.randrange(1, 6)):
        if not data:
            break
        start = generator.randrange(len(data))
        stop = min(len(data), start + generator.choice((1, 1, 2, 4, 8, 40)))
        kind = generator.randrange(6)
        if kind == 0:
            data[start:stop] = generator.randbytes(stop - start)
        elif kind == 1:
            del data[start:stop]
        elif kind == 2:
            data[start:start] = data[start:stop]
        elif kind == 3:
            data[start:stop] = generator.choice((b"\xff", b"\0", b"\x7f")) * (stop - start)
        elif kind == 4:
            data[start] ^= 1 << generator.randrange(8)
        else:
            del data[start:]
    return bytes(data)


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def load_batch(kind: str, seed: int, count: int) -> int:
    """Loads mutated files of one kind; the number that were read as if nothing had happened."""
    make, load, _ = KINDS[kind]
    good = make()
    load(good)  # what is imported and allocated once is not counted
    generator = random.Random(seed)
    limit = _address_space() + len(good) + ALLOWANCE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    read = 0
    for number in range(count):
        data = mutated(good, generator)
        try:
            load(data)
            read += 1
        except REFUSALS as error:
            if kind.startswith("npz") or all(word in str(error) for word in ("ile ", "record")):
                continue
            raise SystemExit(f"{kind}, seed {seed}, file {number}: no name: {error}") from error
        except BaseException as error:
            raise SystemExit(f"{kind}, seed {seed}, file {number}: {error!r}") from error
    return read


def flip_bits(count: int, seed: int) -> list[str]:
    """Single flipped bits that a checked format did not notice."""
    findings = []
    generator = random.Random(seed)
    for kind, (make, load, checked) in KINDS.items():
        if not checked:
            continue
        good = make()
        for _ in range(count):
            place, bit = generator.randrange(len(good)), generator.randrange(8)
            data = bytearray(good)
            data[place] ^= 1 << bit
            try:
                load(bytes(data))
                findings.append(f"{kind}: bit {bit} of byte {place} was not noticed")
            except REFUSALS:
                continue
    return findings


def run_batches(count: int, seed: int) -> list[str]:
    """Loads `count` mutated files, shared out among the kinds, in child processes."""
    findings = []
    for kind in KINDS:
        left, read, begun = count // len(KINDS), 0, time.monotonic()
        for number in range(0, left, BATCH):
            batch = [kind, str(seed + number), str(min(BATCH, left - number))]
            child = subprocess.run(
                [sys.executable, __file__, "--batch", *batch],
                capture_output=True,
                text=True,
                timeout=600,
            )
            if child.returncode != 0:
                findings.append(f"{kind}, batch {batch}: {child.returncode} {child.stderr[-400:]}")
            else:
                read += int(child.stdout)
        took = time.monotonic() - begun
        print(f"{kind:16} {left:7} files, {read} read, the rest refused, {took:.0f} s", flush=True)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--flips", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch:
        kind, seed, count = options.batch
        print(load_batch(kind, int(seed), int(count)))
        return 0
    findings = flip_bits(options.flips, options.seed)
    print(f"flipped bits: {options.flips}, not noticed: {len(findings)}", flush=True)
    findings += run_batches(options.count, options.seed)
    print("\n".join(findings) or "no findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
