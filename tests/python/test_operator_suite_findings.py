"""What PyTorch's own tests of operators, tensors and storages brought to light."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.testing import make_tensor


def test_the_hash_of_a_tensor_is_its_id():
    x = torch.ones(2)
    assert hash(x) == id(x)


@pytest.mark.parametrize("kind", [3, 16, 99])
def test_dlpack_for_a_device_that_is_not_there_is_refused(kind: int):
    with pytest.raises(BufferError, match=f"Unsupported device_type: {kind}"):
        torch.ones(2).__dlpack__(max_version=(1, 0), dl_device=(kind, 0))


def test_dlpack_for_the_device_it_is_on():
    x = torch.ones(2)
    assert "dltensor" in repr(x.__dlpack__(dl_device=(1, 0)))
    with pytest.raises(ValueError, match="without copying"):
        x.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(RuntimeError, match="tuple of two ints"):
        x.__dlpack__(dl_device=(1,))
    with pytest.raises(TypeError, match="must be tuple of ints"):
        x.__dlpack__(dl_device=1)


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
)
def test_make_tensor_of_eight_bits_rounds_what_it_draws_in_float32(dtype: torch.dtype):
    torch.manual_seed(0)
    drawn = make_tensor((3, 4), device="cpu", dtype=dtype)
    torch.manual_seed(0)
    expected = make_tensor((3, 4), device="cpu", dtype=torch.float32).to(dtype)
    assert drawn.dtype == dtype
    assert torch.equal(drawn.float(), expected.float())


def test_sparse_tensors_as_real_and_as_complex_share_their_values():
    dense = torch.tensor([[1 + 2j, 0], [0, 3]])
    x = dense.to_sparse()
    real = torch.view_as_real(x)
    assert real.is_coalesced() and real.dense_dim() == 1
    assert torch.equal(real.to_dense(), torch.view_as_real(dense))
    assert torch.equal(torch.view_as_complex(real).to_dense(), dense)
    real.values().mul_(2)
    assert torch.equal(x.to_dense(), 2 * dense)
    with pytest.raises(RuntimeError, match="complex"):
        torch.view_as_real(real)
    with pytest.raises(RuntimeError, match="dense"):
        torch.view_as_complex(torch.ones(2, 2).to_sparse())
    with pytest.raises(NotImplementedError):
        torch.view_as_real(dense.to_sparse_csr())


def test_gradients_pass_through_sparse_tensors_seen_as_real():
    values = torch.tensor([1 + 2j, 3j], requires_grad=True)
    x = torch.sparse_coo_tensor([[0, 1]], values, (2,))
    torch.view_as_real(x).to_dense().square().sum().backward()
    assert torch.equal(values.grad, 2 * values.detach())


def test_a_stance_changes_nothing_where_nothing_is_compiled():
    @torch.compiler.set_stance("force_eager")
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    compiled = torch.compile(double)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="force_backend"):
        torch.compiler.set_stance("force_eager", force_backend="eager")


def test_element_sizes_by_dtype():
    assert torch._utils._element_size(torch.complex64) == 8
    with pytest.raises(RuntimeError, match=r"expected torch\.dtype"):
        torch._utils._element_size("float32")


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x + 5,
        lambda x: 5 - x,
        lambda x: x * torch.tensor(2.0),
        lambda x: torch.where(x > 0, x, 5.0),
        lambda x: x == 1,
    ],
)
def test_numbers_leave_the_strides_of_dimensions_of_size_one(op):
    """A later convolution tells by them how images lie."""
    image = torch.ones(10, 3, 1, 1).to(memory_format=torch.channels_last)
    assert op(image).stride() == image.stride() == (3, 1, 3, 3)
    row = torch.ones(5, 1).t()
    assert op(row).stride() == (1, 1)
    assert op(torch.ones(10, 3, 1, 1)).stride() == (3, 1, 1, 1)


@pytest.mark.parametrize(
    "op", [lambda x: x**3.5, lambda x: 2**x, lambda x: x.clamp(0, 1), lambda x: -x]
)
def test_functions_of_one_tensor_lie_as_a_new_one(op):
    image = torch.ones(10, 3, 1, 1).to(memory_format=torch.channels_last)
    assert op(image).stride() == (3, 1, 1, 1)


def test_hash_tensor_refuses_a_dimension_named_twice():
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.hash_tensor(torch.ones(2, 2), dim=(0, -2))


def test_a_storage_is_one_object_while_somebody_holds_it():
    x = torch.arange(6.0)
    storage = x.untyped_storage()
    assert x.untyped_storage() is storage is x[2:].untyped_storage()
    assert x.view(2, 3).storage().untyped() is storage
    assert torch.empty(0).set_(storage).untyped_storage() is storage
    assert x.clone().untyped_storage() is not storage
    made = torch.UntypedStorage(8)
    assert torch.empty(0).set_(made).untyped_storage() is made


def test_empty_storages_are_not_the_same():
    first, second = torch.empty(0), torch.empty(0)
    assert first.untyped_storage() != second.untyped_storage()
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    assert len({first.untyped_storage(), second.untyped_storage(), first.untyped_storage()}) == 2


def test_a_storage_knows_that_its_memory_has_grown():
    x = torch.ones(2, 3)
    storage, typed = x.untyped_storage(), x.storage()
    x.resize_(100)
    assert storage.nbytes() == 400 and len(storage.tolist()) == 400
    assert len(typed) == 100
    storage.resize_(0)
    assert x.untyped_storage().nbytes() == 0
    storage.resize_(400)
    assert x.untyped_storage().nbytes() == 400


def test_memory_of_others_is_not_resizable():
    assert torch.ones(3).untyped_storage().resizable()
    assert not torch.from_numpy(np.ones(3)).untyped_storage().resizable()


@pytest.mark.parametrize("kind", ["storage", "untyped_storage"])
def test_storages_without_memory_have_no_elements(kind: str):
    storage = getattr(torch.empty(3, device="meta"), kind)()
    with pytest.raises(NotImplementedError, match="meta"):
        storage[0]
    with pytest.raises(NotImplementedError, match="meta"):
        storage[0] = 1


def test_the_address_to_read_from():
    x = torch.ones(3)
    assert x.const_data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("dtype", "mantissa", "exponent"),
    [
        (torch.float16, 2.0**-14, 29),
        (torch.bfloat16, 2.0**-120, 240),
        (torch.float32, 2.0**-149, 276),
        (torch.float32, 2.0**127, -276),
        (torch.float64, 2.0**-1000, 2000),
        (torch.float64, 2.0**-1074, 2097),
        (torch.float64, 2.0**1023, -2097),
        (torch.float32, 1.0, 5000),
        (torch.float64, 1.0, -5000),
    ],
)
def test_ldexp_where_the_power_alone_is_no_number(dtype, mantissa, exponent):
    x = torch.tensor([mantissa, -mantissa], dtype=dtype)
    found = torch.ldexp(x, torch.tensor(exponent))
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(np.array([mantissa, -mantissa]), exponent)
    assert found.dtype == dtype
    assert found.tolist() == torch.tensor(expected).to(dtype).tolist()


def test_the_gradient_of_ldexp_is_the_power():
    x = torch.tensor([1.5, 3.0], requires_grad=True)
    torch.ldexp(x, torch.tensor([3, -2])).sum().backward()
    assert x.grad.tolist() == [8.0, 0.25]


def test_new_of_a_tensor_takes_no_device():
    x = torch.tensor([1])
    assert x.new(x).tolist() == [1]
    with pytest.raises(RuntimeError, match="Legacy tensor new"):
        x.new(x, device="cpu")
