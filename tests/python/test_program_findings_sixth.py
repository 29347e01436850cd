"""What random programs compared with PyTorch have found, sixth part."""

from __future__ import annotations

import pytest

import flambeau as torch

NAN = float("nan")


def test_reversed_dimensions_of_a_vector_are_a_view() -> None:
    x = torch.ones(4, requires_grad=True)
    assert x.T is not x and not x.T.is_leaf


def test_triangles_of_expanded_tensors() -> None:
    x = torch.arange(1.0, 5.0)
    rows = torch.meshgrid(x, x, indexing="ij")[0]
    assert rows.triu_()._version == 1
    assert x.tolist() == [1, 0, 0, 0]
    batch = torch.arange(1.0, 7.0).reshape(2, 3).expand(2, 2, 3)
    assert batch.tril_()[1].tolist() == [[1, 0, 0], [4, 5, 0]]


def test_no_nan_is_the_most_frequent() -> None:
    found = torch.tensor([[2.5, NAN, NAN, 3.0], [NAN, NAN, 1.0, 1.0]]).mode(1)
    assert found.values.tolist() == [2.5, 1.0] and found.indices.tolist() == [0, 3]
    assert torch.tensor([NAN, NAN]).mode().values.isnan()


def test_views_without_history_are_no_roots() -> None:
    base = torch.ones(3, requires_grad=True) * 2
    with torch.no_grad():
        view = base[0]
    assert view.requires_grad and view.grad_fn is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        view.backward()
    view.clone().backward(inputs=[view])


def test_the_target_of_a_pass_is_checked_too() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * x
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward(inputs=[y])
    assert x.grad is None


def test_strides_of_empties() -> None:
    x = torch.empty(0, 1, 3)
    assert (x / 2).stride() == (3, 0, 1)
    assert (x + x).stride() == (3, 3, 1)
    assert torch.stack([x[:, 0]] * 2, 1).stride() == (6, 3, 1)


def test_errors_come_in_the_order_of_pytorch() -> None:
    with pytest.raises(NotImplementedError):
        torch.tensor([True]).trace()
    with pytest.raises(RuntimeError, match="square"):
        torch.ones(2, 3).bool().matrix_exp()
    with pytest.raises(TypeError, match="can't assign a str"):
        torch.tensor(1.0)[0] = "a"
    with pytest.raises(RuntimeError, match="leaf variables"):
        (torch.ones(2, requires_grad=True) * 2).requires_grad = True
    with pytest.raises(AttributeError):
        torch.ones(2).alias()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="map_: expected"):
        torch.ones(2).map_(torch.ones(2).double(), lambda a, b: a + b)


def test_new_numbers_go_into_results() -> None:
    x = torch.ones(4, requires_grad=True) * 2
    torch.linspace(0, 3, 4, out=x)
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.ones(2, out=torch.ones(2, requires_grad=True))


def test_numbers_of_a_batch_of_no_samples() -> None:
    none = torch.empty(0)
    with pytest.raises(IndexError):
        torch.func.vmap(lambda t: t * 2)(none)
    with pytest.raises(IndexError):
        torch.func.vmap(lambda t: t + torch.ones(3))(none)
    assert torch.func.vmap(lambda t: (t * t).sin() ** 2)(none).shape == (0,)
    assert torch.func.vmap(lambda t: t * 2)(torch.empty(0, 3)).shape == (0, 3)


def test_shapes_are_refused_before_dtypes() -> None:
    for op in (torch.bitwise_xor, torch.gcd, torch.bitwise_left_shift):
        with pytest.raises(RuntimeError, match="must match the size"):
            op(torch.ones(2, 3), torch.ones(4))
    for solve in (torch.linalg.det, torch.linalg.inv, torch.linalg.cholesky):
        with pytest.raises(RuntimeError, match="square"):
            solve(torch.ones(1, 2).int())
    with pytest.raises(ValueError, match="batch_size"):
        torch.nn.functional.nll_loss(torch.ones(3, 2), torch.ones(2, 3).byte())
    with pytest.raises(NotImplementedError, match="mode"):
        torch.ones(2, dtype=torch.complex64).mode(0)


def test_a_nan_in_front_comes_first_among_elements_that_differ() -> None:
    found = torch.tensor([[NAN, 2.5, 1.0], [2.5, NAN, 1.0]]).mode(1)
    assert found.indices.tolist() == [0, 2]


def test_views_of_what_nobody_holds_are_results() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    for made in (torch.kron(x, x), torch.cartesian_prod(x[0], x[0])):
        assert not made._is_view() and made._version == 0
        made.sum().backward()
    empty = torch.zeros(2, 0)
    assert torch.inner(empty, empty)._version == 0
    assert torch.einsum("ij,ij->i", empty, empty)._version == 0


def test_conjugating_real_numbers_in_place_writes_nothing() -> None:
    x = torch.ones(1).expand(3)
    assert x.conj_physical_() is x and x._version == 1


def test_parts_of_complex_numbers_overlap_them() -> None:
    z = torch.ones(1, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="single memory location"):
        z.add_(z.real)


def test_nothing_is_filled_along_a_dimension_of_no_elements() -> None:
    with pytest.raises(RuntimeError):
        torch.empty(0).index_fill(0, torch.tensor([0]), 2)


def test_which_of_equal_elements_is_the_kth() -> None:
    assert torch.full((6,), NAN).kthvalue(1).indices.item() == 4
    assert torch.ones(3).kthvalue(1).indices.item() == 1
    x = torch.tensor([3, 1, 2, 1, 3, 2, 1, 0])
    assert [x.kthvalue(k).values.item() for k in range(1, 9)] == [0, 1, 1, 1, 2, 2, 3, 3]
