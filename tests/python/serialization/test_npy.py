"""NumPy's files: what either library writes the other reads, and what is damaged is refused."""

from __future__ import annotations

import io
import random
import zipfile

import numpy as np
import pytest

import flambeau as torch
from flambeau import npy

DTYPES = (
    "float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64 bool"
).split()
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 4), (1, 2, 3, 4)]


def arrays() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        (generator.standard_normal(shape) * 5).astype(dtype)
        for dtype in DTYPES
        for shape in SHAPES
        if np.dtype(dtype).kind != "u"
    ] + [generator.integers(0, 99, (2, 3)).astype(k) for k in DTYPES if k[0] == "u"]


def test_what_numpy_writes_is_read(tmp_path):
    for order in ("C", "F", ">"):
        for array in arrays():
            given = array.astype(array.dtype.newbyteorder(">")) if order == ">" else array
            np.save(tmp_path / "x.npy", np.asarray(given, order="C" if order == ">" else order))
            loaded = npy.load(tmp_path / "x.npy")
            assert loaded.shape == array.shape
            np.testing.assert_array_equal(loaded.numpy(), array)
            assert loaded.numpy().dtype == array.dtype


def test_what_is_written_numpy_reads(tmp_path):
    for array in arrays():
        npy.save(tmp_path / "x", torch.from_numpy(array))
        read = np.load(tmp_path / "x.npy")
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype and read.shape == array.shape


def test_views_and_conjugates_are_written_as_they_read(tmp_path):
    z = torch.tensor([[1 + 2j, 3 - 1j]]).t().conj()
    npy.save(tmp_path / "z.npy", z)
    assert npy.load(tmp_path / "z.npy").tolist() == z.tolist()
    with pytest.raises(TypeError, match="no dtype for"):
        npy.save(tmp_path / "b.npy", torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("write", [npy.savez, npy.savez_compressed])
def test_archives_go_both_ways(write, tmp_path):
    write(tmp_path / "a", torch.arange(5), weight=torch.randn(3, 4), flag=torch.tensor(True))
    with np.load(tmp_path / "a.npz") as theirs:
        ours = npy.load(tmp_path / "a.npz")
        assert set(theirs) == set(ours) == {"arr_0", "weight", "flag"}
        for name, tensor in ours.items():
            np.testing.assert_array_equal(theirs[name], tensor.numpy())
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "b.npz", x=np.zeros((100, 100)), y=np.arange(3))
        loaded = npy.load(tmp_path / "b.npz")
        assert loaded["x"].shape == (100, 100) and loaded["y"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="keyword arr_0"):
        write(tmp_path / "c", torch.ones(1), arr_0=torch.ones(1))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "cannot be tensors"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "cannot be tensors"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "shape is invalid"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2**60,)}", "no literal"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 40,)}", "no literal"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,)}", "bytes, the file"),
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "must be a bool"),
        ("{'descr': '<f4'}", "must have descr"),
        ("__import__('os').abort()", "no literal"),
        ("[" * 5000, "no literal"),
    ],
)
def test_hostile_headers_are_refused(header, text):
    content = header.encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(content).to_bytes(2, "little") + content + b"\0" * 4
    with pytest.raises(npy.NpyError, match=text):
        npy.load(io.BytesIO(data))


def test_damaged_files_are_read_or_refused_but_nothing_else_happens():
    buffers = [io.BytesIO() for _ in range(3)]
    npy.save(buffers[0], torch.randn(7, 3))
    npy.savez(buffers[1], a=torch.arange(9), b=torch.ones(2, 2))
    npy.savez_compressed(buffers[2], a=torch.arange(9), b=torch.ones(2, 2))
    generator = random.Random(0)
    for buffer in buffers:
        good = buffer.getvalue()
        for length in range(0, len(good), 11):
            with pytest.raises(npy.NpyError):
                npy.load(io.BytesIO(good[:length]))
        for _ in range(600):
            data = bytearray(good)
            for _ in range(generator.randrange(1, 5)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            try:
                npy.load(io.BytesIO(data))
            except npy.NpyError:
                continue


def test_flipped_bits_in_the_data_of_an_archive_are_noticed():
    buffer = io.BytesIO()
    npy.savez(buffer, a=torch.randn(50))
    good = buffer.getvalue()
    info = zipfile.ZipFile(buffer).infolist()[0]
    begin = good.index(b"\x93NUMPY")
    for place in range(begin, begin + info.file_size, 3):
        data = bytearray(good)
        data[place] ^= 4
        with pytest.raises(npy.NpyError):
            npy.load(io.BytesIO(data))


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npy"
    npy.save(path, torch.zeros(3))
    with pytest.raises(TypeError, match="no dtype for"):
        npy.save(path, torch.ones(3).bfloat16())
    assert npy.load(path).tolist() == [0, 0, 0] and [p.name for p in tmp_path.iterdir()] == [
        "x.npy"
    ]
