"""float8 and complex32 are stored, moved and converted as by PyTorch, and hardly computed."""

from __future__ import annotations

import copy
import hashlib
import io
import pickle

import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.safetensors import load, save

# What PyTorch makes of all float16 and bfloat16 numbers, of 65,536 floats, and of all bytes: the
# first digits of the SHA-256 of the bytes.
DIGESTS = {
    "float8_e4m3fn": "5fca763e3fe00eb8 556222ae80c3498b 73a21ef0a10e95ad 8c7066d2da2e927f",
    "float8_e5m2": "92a1a336edf24610 875dd70a7c02e2f8 35742cf1ed0f073a f27340bbd2d23b7e",
    "float8_e4m3fnuz": "95e6fb5b04ba11dc b5a02ccdb033ad92 e9e7bbf0982bf3bf 6b26d984a28fcec3",
    "float8_e5m2fnuz": "0fa2de8eb3705708 fbc7c46b2110bf77 f853b7fc58bb87b9 3d9ca48a491b8b4a",
    "float8_e8m0fnu": "294238bae3ebdacf c7ce8810bf43d855 41c5210740811d16 32402a0a1e6da55b",
}
FLOAT8 = [getattr(torch, name) for name in DIGESTS]
STORED = [*FLOAT8, torch.complex32]


def digest(tensor: Tensor) -> str:
    return hashlib.sha256(bytes(tensor.view(torch.uint8).tolist())).hexdigest()[:16]


def same_bytes(one: Tensor, two: Tensor) -> bool:
    return one.dtype is two.dtype and one.view(torch.uint8).equal(two.view(torch.uint8))


def numbers(dtype: torch.dtype) -> Tensor:
    return torch.tensor([[1.0, 2.0, 4.0], [0.5, 8.0, 16.0]]).to(dtype)


@pytest.mark.parametrize("name", DIGESTS)
def test_conversions_are_pytorchs_bit_for_bit(name: str) -> None:
    dtype = getattr(torch, name)
    halves = torch.arange(65536).to(torch.int16)
    floats = (torch.arange(65536) * 65537 * 40503 + 12345) % 2**32
    floats = floats.to(torch.int32).view(torch.float32)
    codes = torch.arange(256).to(torch.uint8).view(dtype)
    found = [
        digest(halves.view(torch.float16).to(dtype)),
        digest(halves.view(torch.bfloat16).to(dtype)),
        digest(floats.to(dtype)),
        digest(codes.float()),
    ]
    assert " ".join(found) == DIGESTS[name]
    # Layouts and other dtypes change nothing.
    transposed = floats.view(256, 256).t().to(dtype)
    assert same_bytes(transposed.t(), floats.to(dtype).view(256, 256))
    integers = torch.arange(-300, 300)
    for other in (torch.int64, torch.float64, torch.complex64, torch.complex32):
        assert same_bytes(integers.to(other).to(dtype), integers.float().to(dtype))
    assert codes[:120].to(torch.int64).equal(codes[:120].float().to(torch.int64))
    assert codes.to(torch.bfloat16)[:120].equal(codes[:120].float().bfloat16())


@pytest.mark.parametrize("dtype", STORED)
def test_elements_are_moved_as_bytes(dtype: torch.dtype) -> None:
    x = numbers(dtype)
    wide = torch.complex64 if dtype.is_complex else torch.float32
    w = x.to(wide)
    index = torch.tensor([1, 0])

    def same(a: Tensor, b: Tensor) -> None:
        assert a.dtype == dtype and a.to(wide).equal(b)

    same(x.t().contiguous(), w.t())
    same(torch.cat([x, x]), torch.cat([w, w]))
    same(torch.stack([x, x], 1), torch.stack([w, w], 1))
    same(x[index], w[index])
    same(x[:, 1:], w[:, 1:])
    same(x[x.to(wide).abs() > 1], w[w.abs() > 1])
    same(x.index_select(1, index), w.index_select(1, index))
    same(x.repeat(2, 1), w.repeat(2, 1))
    same(torch.where(w.abs() > 1, x, x), w)
    same(x.roll(1, 0), w.roll(1, 0))
    same(x.expand(2, 2, 3).clone(), w.expand(2, 2, 3))
    same(torch.ones_like(x), torch.ones_like(w))
    same(torch.full((2,), 2.0, dtype=dtype), torch.full((2,), 2.0, dtype=wide))
    same(x.view(torch.uint8).view(dtype), w)
    y = x.clone()
    y[0] = 2.0
    y[1, :2] = y[0, 1:].clone()
    assert y.tolist() == [[2.0] * 3, [2.0, 2.0, 16.0]]
    assert y.copy_(w).tolist() == w.tolist() and y.zero_().numel() == 6
    assert x[0, 1].item() == 2.0 and bool(x[0, 0])


@pytest.mark.parametrize("dtype", STORED)
def test_files_and_pickles_keep_the_bytes(dtype: torch.dtype) -> None:
    x = numbers(dtype)
    buffer = io.BytesIO()
    torch.save({"x": x, "dtype": dtype}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    assert loaded["dtype"] is dtype
    for y in (loaded["x"], pickle.loads(pickle.dumps(x)), copy.deepcopy(x), torch.from_dlpack(x)):
        assert same_bytes(y, x)
    if dtype != torch.complex32:  # for which the format has no name
        assert same_bytes(load(save({"x": x}))["x"], x)


def test_printing_types_and_limits() -> None:
    x = numbers(torch.float8_e4m3fn)[0]
    assert repr(x) == "tensor([1., 2., 4.], dtype=torch.float8_e4m3fn)"
    assert x.type() == "torch.Float8_e4m3fnTensor" and x.element_size() == 1
    c = torch.tensor([1 + 2j]).chalf()
    assert repr(c) == "tensor([1.+2.j], dtype=torch.complex32)"
    assert c.type() == "torch.ComplexHalfTensor" and torch.chalf is torch.complex32
    limits = [(i.bits, i.max, i.min, i.eps, i.tiny) for i in map(torch.finfo, FLOAT8)]
    assert limits == [
        (8, 448.0, -448.0, 0.125, 2.0**-6),
        (8, 57344.0, -57344.0, 0.25, 2.0**-14),
        (8, 240.0, -240.0, 0.125, 2.0**-7),
        (8, 57344.0, -57344.0, 0.25, 2.0**-15),
        (8, 2.0**127, 2.0**-127, 1.0, 2.0**-127),
    ]
    assert torch.finfo(torch.complex32).dtype == "float16"
    assert x.is_floating_point() and x.is_signed() and not torch.float8_e8m0fnu.is_signed


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_has_comparisons_and_hardly_any_arithmetic(dtype: torch.dtype) -> None:
    x = numbers(dtype)
    assert (x == x).all() and not (x != x).any() and not x.isnan().any() and x.isfinite().all()
    assert (x * x).float().tolist()[0] == [1.0, 4.0, 16.0]
    if dtype.is_signed:
        assert (-x.float()).to(dtype).abs().float().equal(x.float())
    for refused in (
        lambda: x + x,
        lambda: -x,
        lambda: x / 2,
        lambda: x.sum(),
        lambda: x.exp(),
        lambda: x < x,
        lambda: x.sort(),
        lambda: torch.rand(2, dtype=dtype),
        lambda: torch.arange(3, dtype=dtype),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float8_e"):
            refused()
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((2,), -1e39, dtype=dtype)
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e"):
        x.numpy()
    assert torch.result_type(x, 2.5) is dtype


def test_gradients_pass_through_conversions() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x.to(torch.float8_e5m2).float() * torch.tensor([3.0, 4.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 4.0]
    z = torch.tensor([3 + 4j], requires_grad=True)
    z.chalf().abs().sum().backward()
    assert z.grad is not None and torch.allclose(z.grad, torch.tensor([0.6 + 0.8j]), rtol=1e-3)


def test_complex32_computes_what_pytorch_computes() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j, 0.5j])
    c = x.chalf()
    assert (c + c).dtype is torch.complex32 and (c + c).tolist() == (x + x).tolist()
    assert (c * c).tolist() == (x * x).tolist() and (c - 1).tolist() == (x - 1).tolist()
    assert (1 - c).tolist() == (1 - x).tolist() and (-c).tolist() == (-x).tolist()
    assert c.add(c, alpha=2j).tolist() == x.add(x, alpha=2j).tolist()
    assert c.conj().resolve_conj().tolist() == x.conj().tolist()
    assert c.abs().dtype is torch.float16 and torch.allclose(c.abs().float(), x.abs(), rtol=1e-3)
    assert c.norm().dtype is torch.float16 and c.isreal().tolist() == [False] * 3
    assert c.nonzero().tolist() == [[0], [1], [2]] and int(c.count_nonzero()) == 3
    assert c.real.dtype is torch.float16 and c.imag.tolist() == [2.0, -4.0, 0.5]
    assert torch.view_as_complex(torch.view_as_real(c)).tolist() == x.tolist()
    assert torch.complex(c.real, c.imag).tolist() == x.tolist()
    assert c.clone().mul_(2).tolist() == (x * 2).tolist() and (c == c).all()
    assert c.masked_fill(c == 3 - 4j, 0).tolist() == [1 + 2j, 0, 0.5j]
    half = torch.ones(2, dtype=torch.float16)
    assert (half * 1j).dtype is torch.complex32 and torch.float16.to_complex() is torch.complex32
    for refused in (lambda: c / 2, lambda: c.sum(), lambda: c @ c, lambda: c.exp(), lambda: c**2):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
            refused()


def test_complex32_is_added_at_positions_and_read_there_with_gradients() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j, 0.5j], dtype=torch.complex32, requires_grad=True)
    at = torch.tensor([2, 0, 2])
    (x[at] * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16)).abs().backward(
        torch.ones(3, dtype=torch.float16)
    )
    y = x.detach().to(torch.complex64).requires_grad_()
    (y[at] * torch.tensor([1.0, 2.0, 3.0])).abs().sum().backward()
    assert x.grad is not None and y.grad is not None
    assert torch.allclose(x.grad.to(torch.complex64), y.grad, rtol=2e-3)
    c = x.detach()
    twice = torch.tensor([1, 1])
    assert c.index_add(0, twice, c[:2]).tolist() == [1 + 2j, 7 - 6j, 0.5j]
    assert c.index_put((twice,), c[1:].conj(), accumulate=True).tolist() == [1 + 2j, 6 - 0.5j, 0.5j]
    table = torch.zeros(2, 3, dtype=torch.complex32).index_put_((twice,), c, accumulate=True)
    assert table.tolist() == [[0, 0, 0], [2 + 4j, 6 - 8j, 1j]]


@pytest.mark.parametrize(
    ("other", "result"),
    [
        ("bool", "complex32"),
        ("int64", "complex32"),
        ("float16", "complex32"),
        ("bfloat16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)
def test_complex32_is_promoted_by_the_width_of_its_parts(other: str, result: str) -> None:
    found = torch.promote_types(torch.complex32, getattr(torch, other))
    assert found is getattr(torch, result)


def test_random_complex_halves_are_pytorchs() -> None:
    torch.manual_seed(0)
    drawn = torch.randn(3, dtype=torch.complex32)
    expected = torch.tensor([1.0898 - 0.2075j, -1.5410 + 0.4019j, -0.7671 - 0.9888j])
    assert torch.allclose(drawn.cfloat(), expected, atol=1e-3)


def test_devices_other_than_the_cpu_take_more_dtypes() -> None:
    def meta(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    assert meta(3, dtype=torch.bool).abs().dtype == torch.bool
    assert meta(3, 3, dtype=torch.bool).trace().dtype == torch.int64
    assert torch.histc(meta(3, dtype=torch.int32), 4).shape == (4,)
    assert torch.nansum(meta(3, dtype=torch.complex64)).dtype == torch.complex64
    half = meta(3, 3, dtype=torch.complex32)
    for result in (half.exp(), half**half, half / half, half.sum(), half.prod(), half.trace()):
        assert result.dtype == torch.complex32
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.ones(3, dtype=torch.bool).abs()
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.histc(torch.ones(3, dtype=torch.int64))
    with pytest.raises(NotImplementedError, match="does not support complex"):
        torch.nansum(torch.ones(3, dtype=torch.complex64))
