"""Methods of Tensor that are written in Python, and the tensor types of old."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import flambeau as torch


def test_types_of_old() -> None:
    assert torch.FloatTensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.FloatTensor(2, 3).shape == (2, 3) and torch.FloatTensor().shape == (0,)
    assert torch.FloatTensor(torch.Size([4])).shape == (4,)
    assert torch.LongTensor([1.5]).dtype == torch.int64
    assert torch.BoolTensor([0, 2]).tolist() == [False, True]
    assert torch.FloatTensor(np.array([1, 2])).tolist() == [1.0, 2.0]
    x = torch.arange(3.0)
    assert torch.FloatTensor(x).data_ptr() == x.data_ptr()
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert torch.FloatTensor.dtype == torch.float32


@pytest.mark.parametrize("data", [5.0, True, None, {1}, "text"])
def test_types_of_old_want_sequences(data) -> None:
    with pytest.raises(TypeError, match=r"new\(\)"):
        torch.FloatTensor(data)


def test_types_of_old_do_not_convert() -> None:
    with pytest.raises(TypeError, match=r"new\(\)"):
        torch.LongTensor(torch.ones(2))
    with pytest.raises(RuntimeError, match="expects device type: cpu"):
        torch.FloatTensor([1], device="meta")
    with pytest.raises(AttributeError):
        torch.NoSuchTensor  # noqa: B018


def test_type() -> None:
    x = torch.arange(3.0)
    assert x.type() == "torch.FloatTensor" and x.bool().type() == "torch.BoolTensor"
    for kind in (torch.LongTensor, "torch.LongTensor", torch.int64):
        assert x.type(kind).dtype == torch.int64
    assert x.type(torch.float32) is x
    with pytest.raises(ValueError, match="invalid type"):
        x.type("nothing")


def test_new() -> None:
    x = torch.zeros(2, dtype=torch.int16)
    assert x.new(3).shape == (3,) and x.new([1, 2]).dtype == torch.int16
    assert x.new_tensor([1.9]).tolist() == [1]


def test_iteration_and_membership() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]] and len(x) == 2
    assert [row.tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
    assert 3 in x and 5 not in x
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in x  # noqa: B015
    for function in (len, list):
        with pytest.raises(TypeError, match="0-d tensor"):
            function(torch.tensor(1))


def test_functions_of_elements() -> None:
    x = torch.arange(3.0)
    assert x.apply_(lambda value: value * 2).tolist() == [0.0, 2.0, 4.0]
    assert x.map_(torch.ones(3), lambda a, b: a + b).tolist() == [1.0, 3.0, 5.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, requires_grad=True).apply_(abs)


def test_windows_on_storages() -> None:
    x = torch.arange(6.0)
    y = torch.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    y[0, 0] = 100
    assert x[1] == 100
    assert x.is_set_to(x[:]) and not x.is_set_to(x.clone())
    assert x.untyped_storage().nbytes() == 24 and x[2:].untyped_storage().nbytes() == 24
    assert x[2:].untyped_storage().data_ptr() == x.data_ptr()
    assert torch.is_storage(x.untyped_storage()) and torch.is_storage(x.storage())


def test_numpy_functions_take_tensors() -> None:
    x = torch.arange(3.0)
    assert np.asarray(x).tolist() == [0.0, 1.0, 2.0]
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    result = np.add(x, 1)
    assert isinstance(result, torch.Tensor) and result.tolist() == [1.0, 2.0, 3.0]


def test_dim_order() -> None:
    assert torch.empty(2, 3, 4).dim_order() == (0, 1, 2)
    assert torch.empty(2, 3, 4).permute(2, 0, 1).dim_order() == (1, 2, 0)


@pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2.5), np.int8(3), np.complex64(1j)])
def test_numpy_scalars_keep_dtype_and_value(scalar: np.generic) -> None:
    for make in (torch.as_tensor, torch.tensor, torch.asarray):
        held = [make(scalar) for _ in range(100)]  # memory that died would be taken again
        assert all(one.item() == scalar and one.numpy().dtype == scalar.dtype for one in held)


def test_numpy_arrays_are_operands() -> None:
    x, array = torch.ones(2), np.array([1.0, 3.0])
    for result in (x * array, array * x, x + (array - 1)):
        assert type(result) is torch.Tensor and result.tolist() == [1.0, 3.0]
        assert result.dtype == torch.float64
    assert (x == array).tolist() == [True, False] and (x < array).tolist() == [False, True]


def test_tensors_are_numbers_where_no_tensor_is_meant() -> None:
    assert torch.arange(torch.tensor(3)).tolist() == [0, 1, 2]
    assert torch.linspace(torch.tensor(0.0), 1, 3).tolist() == [0.0, 0.5, 1.0]


def test_swap_tensors_exchanges_what_two_tensors_are() -> None:
    first, second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(3))
    first.mark = "kept"
    torch.utils.swap_tensors(first, second)
    assert first.tolist() == [0, 0, 0] and second.tolist() == [1, 1]
    assert second.mark == "kept" and not hasattr(first, "mark")
    (second * 3).sum().backward()
    assert second.grad.tolist() == [3, 3] and first.grad is None
    reference = weakref.ref(first)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        torch.utils.swap_tensors(second, first)
    assert reference() is first


def test_a_plain_tensor_and_one_of_a_class_can_be_swapped() -> None:
    class Marked(torch.Tensor):
        pass

    plain, marked = torch.zeros(2), torch.ones(2).as_subclass(Marked)
    marked.cycle = marked
    torch.utils.swap_tensors(plain, marked)
    assert type(plain) is Marked and plain.tolist() == [1, 1] and plain.cycle is marked
    assert type(marked) is torch.Tensor and marked.tolist() == [0, 0]


def test_only_tensors_on_a_gpu_describe_themselves_to_cuda_libraries() -> None:
    assert not hasattr(torch.ones(2), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="non-CUDA tensor type"):
        torch.ones(2).__cuda_array_interface__  # noqa: B018


def test_storages_know_their_file_and_turn_bytes_round(tmp_path) -> None:
    path = str(tmp_path / "numbers")
    mapped = torch.from_file(path, shared=True, size=4)
    assert mapped.untyped_storage().filename == path
    address = mapped.data_ptr()
    del mapped
    assert address not in torch.storage.files
    assert torch.ones(2).untyped_storage().filename is None
    assert torch.from_file(path, shared=False, size=1).untyped_storage().filename is None
    numbers = torch.tensor([1, 256], dtype=torch.int16)
    numbers.untyped_storage().byteswap(torch.int16)
    assert numbers.tolist() == [256, 1]
    assert torch.Storage is torch.FloatStorage


def test_factors_of_addr_fit_the_dtype_of_the_result() -> None:
    whole = torch.ones(2, dtype=torch.int64)
    square = torch.ones(2, 2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        torch.addr(square, whole, whole, beta=2.5)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        torch.addr(square, whole, whole, alpha=True)
    with pytest.raises(RuntimeError, match="argument beta must not be a complex number"):
        torch.addr(square.double(), whole, whole, beta=2j)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.complex128])
@pytest.mark.parametrize("n", [0, 1, 5, 37, 1000])
def test_each_element_several_times(dtype: torch.dtype, n: int) -> None:
    x = torch.arange(2 * n).reshape(2, n).to(dtype)
    for times in range(7):
        expected = [value for value in x.flatten().tolist() for _ in range(times)]
        assert x.repeat_interleave(times).tolist() == expected
        assert x.repeat_interleave(times, 1).flatten().tolist() == expected
        assert x.t().repeat_interleave(times, 0).t().flatten().tolist() == expected
