"""Tensors over memory of others whose elements do not lie at multiples of their size: they are read
and written as any other, and the memory stays shared.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flambeau as torch

DTYPES = "int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


def misaligned(values, dtype, offset=1):
    """A tensor with these values from byte `offset` of a buffer on, and the buffer."""
    x = torch.tensor(values, dtype=dtype)
    memory = bytearray(x.numel() * x.itemsize + offset)
    y = torch.frombuffer(memory, dtype=dtype, count=x.numel(), offset=offset)
    return y.copy_(x), memory


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 8])
def test_misaligned_elements_are_read_and_written(name, offset):
    dtype = getattr(torch, name)
    x, memory = misaligned([1, 2, 3, 4], dtype, offset)
    plain = torch.tensor([1, 2, 3, 4], dtype=dtype)
    assert x.tolist() == plain.tolist()
    assert x[1].item() == 2
    assert torch.equal(x + x, plain * 2)
    assert torch.equal(x.view(2, 2).t().contiguous(), plain.view(2, 2).t())
    assert str(x) == str(plain)
    assert torch.equal(x.clone(), plain)
    assert torch.equal(x[torch.tensor([3, 0])], plain[[3, 0]])
    assert torch.equal(pickle.loads(pickle.dumps(x)), plain)
    x.mul_(2)
    x[1:3] += 1
    x[torch.tensor([0])] = 9
    x[3:].fill_(7)
    assert x.tolist() == torch.tensor([9, 5, 7, 7], dtype=dtype).tolist()
    assert bytes(memory[offset:]) == bytes(x.clone().view(torch.uint8).tolist())


def test_results_go_to_misaligned_memory():
    out, memory = misaligned([0.0] * 300_000, torch.float32)
    x = torch.arange(300_000.0)
    assert torch.exp(x / 1e6, out=out) is out
    assert torch.equal(out, torch.exp(x / 1e6))
    assert memory[1:5] == np.float32(1).tobytes()


def test_wider_dtypes_over_bytes_that_begin_anywhere():
    memory = bytearray(range(33))
    x = torch.frombuffer(memory, dtype=torch.uint8, offset=1).view(torch.int64)
    assert x.sum().item() == np.frombuffer(memory, "<i8", 4, 1).sum()
    y = torch.empty(0, dtype=torch.int32)
    y.set_(torch.frombuffer(memory, dtype=torch.uint8, offset=1).untyped_storage(), 1, (3,), (2,))
    assert y.tolist() == np.frombuffer(memory, "<i4", 8, 1)[1:6:2].tolist()
    z = x.view(torch.uint8)
    assert (z + 1).tolist() == list(range(2, 34))


def test_misaligned_arrays_are_shared():
    array = np.frombuffer(bytearray(33), "u1", offset=1).view("f8")
    x = torch.from_numpy(array)
    x += 1.5
    assert array.tolist() == [1.5] * 4
    assert torch.from_dlpack(array).sum().item() == 6
    assert np.asarray(x).tolist() == [1.5] * 4


def test_gradients_flow_through_misaligned_elements():
    x, _ = misaligned([1.0, 2.0, 3.0], torch.float64)
    x.requires_grad_()
    (x * x).backward(misaligned([1.0, 10.0, 100.0], torch.float64)[0])
    assert x.grad.tolist() == [2, 40, 600]
    torch.optim.SGD([x], lr=0.5).step()
    assert x.tolist() == [0, -18, -297]
    index, _ = misaligned([2, 0], torch.int64)
    assert torch.tensor([5, 6, 7])[index].tolist() == [7, 5]
    assert torch.where(misaligned([1.0, 0.0], torch.float32)[0] > 0, 1, 2).tolist() == [1, 2]


def test_every_tensor_that_an_op_writes_gets_its_result():
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    values, indices = misaligned([0.0, 0.0], torch.float32)[0], misaligned([0, 0], torch.int64)[0]
    found = torch.max(x, 1, out=(values, indices))
    assert found[0] is values
    assert found[1] is indices
    assert values.tolist() == [3, 5]
    assert indices.tolist() == [0, 1]
    lists = [misaligned([1.0, 2.0], torch.float32)[0] for _ in range(2)]
    torch._foreach_add_(lists, 1)
    torch._foreach_mul_(lists, [torch.tensor(2.0), 3.0 * torch.ones(2)])
    assert [y.tolist() for y in lists] == [[4, 6], [6, 9]]
    z = torch.tensor([1 + 2j, 3 - 1j])
    torch._foreach_add_([z.conj()], 1j)
    assert z.tolist() == [1 + 1j, 3 - 2j]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_that_lie_at_multiples_of_their_parts_only(dtype):
    memory = np.zeros(512, np.uint8)
    start = -memory.ctypes.data % 64 + dtype.itemsize // 2
    z = torch.frombuffer(memoryview(memory[start:]), dtype=dtype, count=12)
    z.copy_(torch.arange(12) * (1 + 1j))
    assert z[::2].clone().tolist() == [k * (1 + 1j) for k in range(0, 12, 2)]
    assert z.view(3, 4).t().contiguous()[1].tolist() == [1 + 1j, 5 + 5j, 9 + 9j]
    z[::3] = 7
    assert z.flip(0)[-4:].tolist() == [7, 2 + 2j, 1 + 1j, 7]
    assert z.any() and z[torch.tensor([3, 1])].tolist() == [7, 1 + 1j]
    assert torch.cat([z, z])[12:15].tolist() == [7, 1 + 1j, 2 + 2j]


def test_split_reads_positions_that_are_misaligned() -> None:
    positions = torch.frombuffer(bytearray(2 + 16), dtype=torch.int64, offset=2, count=2)
    positions.copy_(torch.tensor([1, 3]))
    assert [part.tolist() for part in torch.arange(5).tensor_split(positions)] == [
        [0],
        [1, 2],
        [3, 4],
    ]
