"""Corners of making tensors and of writing into them that programs rely on."""

import warnings
import weakref
from array import array

import numpy as np
import pytest

import flambeau as torch

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind, dtype", [(float, "float64"), (int, "int64"), (bool, "bool")])
def test_python_types_stand_for_dtypes(kind, dtype):
    assert torch.tensor(1, dtype=kind).dtype is getattr(torch, dtype)
    assert torch.asarray([1], dtype=kind).dtype is getattr(torch, dtype)


def test_parts_of_complex_tensors_can_be_set():
    z = torch.zeros(2, dtype=torch.complex64)
    z.imag = torch.ones(2)
    z.real = 3
    assert z.tolist() == [3 + 1j, 3 + 1j]
    with pytest.raises(TypeError, match="imag"):
        torch.zeros(2).imag = 1


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: torch.arange(0, 4, out=out),
        lambda out: torch.linspace(0, 3, 4, out=out),
    ],
)
def test_ranges_count_through_an_out_of_another_shape(fill):
    x = torch.zeros(2, 3)
    fill(x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]


def test_cat_writes_beside_its_inputs_but_not_over_them():
    w = torch.arange(12.0)
    assert torch.cat([w[:2], w[4:6]], out=w[6:10]).tolist() == [0, 1, 4, 5]
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.cat([w[:2], w[4:6]], out=w[3:7])
    nothing = torch.zeros(0)
    assert torch.cat([nothing, nothing], dim=1).shape == (0,)


def test_asarray_shares_buffers_and_capsules():
    data = bytearray(b"abcd")
    torch.asarray(data, dtype=torch.uint8)[0] = 65
    assert data == b"Abcd"
    assert torch.asarray(array("d", [1, 2])).dtype is torch.float64
    source = torch.ones(3)
    shared = torch.asarray(torch.utils.dlpack.to_dlpack(source))
    assert shared.data_ptr() == source.data_ptr()
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        torch.asarray(np.float64(0.5), copy=False)
    with pytest.raises(ValueError, match=r"with dtype '.*' into dtype '.*'"):
        torch.asarray(source, dtype=torch.float64, copy=False)


def test_arrays_of_no_dimensions_are_numbers():
    made = torch.tensor(((7, np.array(5)), (np.array(9), 5.0)))
    assert made.tolist() == [[7, 5], [9, 5]]


def test_an_object_without_readable_elements_is_refused():
    class Unreadable:
        def __len__(self):
            return 3

        def __getitem__(self, item):
            raise TypeError

    with pytest.raises(ValueError, match="could not determine the shape"):
        torch.tensor(Unreadable())


def test_byte_masks_warn():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert torch.ones(2)[torch.tensor([1, 0], dtype=torch.uint8)].shape == (1,)
    assert ["torch.uint8 is now deprecated" in str(each.message) for each in seen] == [True]


def test_a_tensor_got_back_from_a_weak_reference_outlives_its_last_holder():
    x = torch.ones(2)
    reference = weakref.ref(x)
    holder = torch.empty(2)
    holder.grad = x
    del x
    again = reference()
    del holder
    assert again.tolist() == [1, 1] and (again + 1).sum().item() == 4
    del again
    assert reference() is None


def test_what_overlaps_its_source_is_refused():
    x = torch.zeros(6)
    index = torch.tensor([0, 1, 2])
    for write in (
        lambda: x[:3].index_copy_(0, index, x[1:4]),
        lambda: x[:3].index_add_(0, index, x[1:4]),
        lambda: x[:3].put_(index, x[1:4]),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()


def test_writes_into_expanded_tensors_warn():
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors"):
        torch.zeros(1).expand(3).index_fill_(0, torch.tensor([0]), 1.0)


def test_storages_convert_and_read_buffers():
    assert torch.ByteStorage.from_buffer(bytearray([1, 2, 3])).tolist() == [1, 2, 3]
    assert torch.tensor([1, 2]).storage().float().tolist() == [1.0, 2.0]
    assert torch.ones(2).untyped_storage().resizable()


def test_arrays_of_no_dimensions_are_sizes():
    assert torch.ones((np.array(3), np.int64(4))).shape == (3, 4)
    assert torch.ones(2).new(size=(3, 4)).shape == (3, 4)


def test_tensor_of_a_tensor_is_another_handle_of_any_dtype():
    counts = torch.tensor([1, 2])
    again = torch.Tensor(counts)
    assert again.dtype is torch.int64
    again[0] = 5
    assert counts.tolist() == [5, 2]


def test_tensor_copies_objects_that_speak_dlpack():
    class Source:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **kwargs):
            return self.tensor.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    source = torch.arange(3)
    made = torch.tensor(Source(source))
    source[0] = 9
    assert made.tolist() == [0, 1, 2]


def test_dlpack_on_the_cpu_has_no_stream():
    with pytest.raises(TypeError, match="stream must be int or None, not object"):
        torch.ones(2).__dlpack__(stream=object())
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(2).__dlpack__(stream=2)
    torch.ones(2).__dlpack__(stream=-1)


def test_resize_to_the_same_sizes_keeps_the_strides():
    transposed = torch.arange(6.0).view(2, 3).t()[1:]
    assert transposed.resize_(2, 2).tolist() == [[1.0, 4.0], [2.0, 5.0]]
    assert torch.empty(3, 2).t().resize_as_(torch.empty(2, 3)).stride() == (1, 2)
    formatted = torch.empty(3, 2).t().resize_((2, 3), memory_format=torch.contiguous_format)
    assert formatted.stride() == (3, 1)
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.empty(3).resize_(0, 4, 2**61)


def test_memory_that_others_hold_is_not_resized():
    """An array, or another library's tensor, keeps the address: it must stay the tensor's."""
    for lend in (torch.Tensor.numpy, np.asarray, torch.Tensor.__dlpack__):
        tensor = torch.ones(3)
        view, held, address = tensor[1:], lend(tensor), tensor.data_ptr()
        for resize in (
            lambda tensor=tensor: tensor.resize_(1000),
            lambda view=view: view.resize_(1000),
            lambda tensor=tensor: torch.add(torch.ones(1000), 1, out=tensor),
            lambda tensor=tensor: tensor.untyped_storage().resize_(4000),
        ):
            with pytest.raises(RuntimeError, match="storage that is not resizable"):
                resize()
        assert tensor.data_ptr() == address and tensor.tolist() == [1, 1, 1]
        assert tensor.resize_(2).tolist() == [1, 1]
        del held
    array = torch.ones(4).numpy()
    assert array.sum() == 4  # the memory outlives the tensor


def test_storages_of_buffers_take_parts_and_turn_bytes() -> None:
    data = bytearray([1, 2, 3, 4])
    assert torch.ShortStorage.from_buffer(data, "big").tolist() == [258, 772]
    assert torch.ShortStorage.from_buffer(data, "little", 1, 2).tolist() == [1027]
    assert torch.IntStorage.from_buffer(data, byte_order="big").tolist() == [16909060]
    both = torch.ComplexFloatStorage.from_buffer(bytes([64, 0, 0, 0, 63, 128, 0, 0]), "big")
    assert both.tolist() == [2 + 1j]
    with pytest.raises(RuntimeError, match="missing required argument 'byte_order'"):
        torch.ShortStorage.from_buffer(data)
    with pytest.raises(ValueError, match="invalid byte_order 'middle'"):
        torch.ShortStorage.from_buffer(data, "middle")
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.ShortStorage.from_buffer(data[:3], "big")
    with pytest.raises(ValueError, match="has only 2 elements after offset 0"):
        torch.ShortStorage.from_buffer(data, "big", 3)
    with pytest.raises(ValueError, match="offset must be non-negative"):
        torch.ByteStorage.from_buffer(data, offset=5)


def test_a_storage_of_another_dtype_is_not_read_as_numbers_it_does_not_hold() -> None:
    floats, doubles = torch.ones(3), torch.ones(3, dtype=torch.float64)
    for misread in (floats.set_, floats.new):
        with pytest.raises(RuntimeError, match="Expected a Storage of type Float or an Untyped"):
            misread(doubles.storage())
    assert floats.set_(doubles.untyped_storage()).shape == (6,)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an Untyped"):
        torch.tensor(doubles.storage(), dtype=torch.int64)


def test_memory_is_read_as_elements_of_the_dtype_that_is_asked_for() -> None:
    halves = torch.full((4,), 0.5)
    memory = halves.untyped_storage()
    copied = torch.tensor(memory, dtype=torch.float32)
    shared = torch.Tensor(memory)
    halves[0] = 1
    assert copied.tolist() == [0.5] * 4 and shared.tolist() == [1, 0.5, 0.5, 0.5]
    assert torch.as_tensor(memory, dtype=torch.int32).tolist() == [0x3F800000] + [0x3F000000] * 3
    assert torch.tensor(memory).dtype is torch.int64 and torch.tensor(memory).shape == (2,)
    assert torch.tensor(halves.storage()).tolist() == [1, 0.5, 0.5, 0.5]


def test_only_classes_of_tensors_can_be_taken() -> None:
    with pytest.raises(TypeError, match="does not inherit from Tensor is not possible"):
        torch.ones(2).as_subclass(int)
    with pytest.raises(TypeError, match=r"cls must be a type \(got int\)"):
        torch.ones(2).as_subclass(3)


def test_the_old_constructor_takes_its_arguments_by_name_and_no_others() -> None:
    assert torch.Tensor(data=[1, 2]).tolist() == [1, 2]
    assert torch.Tensor(size=(2, 3)).shape == (2, 3)
    assert torch.Tensor(np.int64(2)).shape == (2,) and torch.Tensor(2, device="cpu").shape == (2,)
    x = torch.ones(2)
    assert torch.Tensor(other=x).data_ptr() == x.data_ptr()
    for wrong in ({"dtype": torch.int64}, {"size": (2,)}, {"requires_grad": True}):
        with pytest.raises(TypeError, match="new\\(\\) received an invalid combination"):
            torch.Tensor([1.0], **wrong)
    with pytest.raises(RuntimeError, match="Legacy tensor constructor"):
        torch.Tensor(x, device="cpu")
    with pytest.raises(RuntimeError, match="expects device type: cpu but device type: meta"):
        torch.Tensor(2, device="meta")


def test_what_is_written_into_out_can_be_made_a_leaf() -> None:
    for call in (
        lambda out: torch.full((2,), 3.0, out=out, requires_grad=True),
        lambda out: torch.arange(2.0, out=out, requires_grad=True),
        lambda out: torch.rand(2, out=out, requires_grad=True),
    ):
        out = torch.zeros(2)
        assert call(out) is out and out.requires_grad and out.is_leaf


def test_complex_fill_values_are_never_complex_halves() -> None:
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.full((2,), 1j).dtype is torch.complex64
    finally:
        torch.set_default_dtype(torch.float32)
