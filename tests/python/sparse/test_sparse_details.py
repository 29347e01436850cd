"""Details of sparse tensors: sizes, broadcasting, parts and errors."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

MATRIX = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
SHAPES = ((60, 71), (71, 53))


def test_a_product_with_a_dense_tensor_broadcasts_the_sparse_one() -> None:
    dense = torch.arange(12.0).reshape(2, 2, 3)
    for result in (dense * MATRIX.to_sparse(), MATRIX.to_sparse() * dense):
        assert result.layout is torch.sparse_coo and result.is_coalesced()
        assert torch.equal(result.to_dense(), dense * MATRIX)
    rows = torch.sparse_coo_tensor([[1]], torch.ones(1, 3), (2, 3))
    product = torch.ones(4, 2, 3) * rows
    assert product.dense_dim() == 1
    assert torch.equal(product.to_dense(), rows.to_dense().expand(4, 2, 3))


def test_gradients_go_through_a_broadcast() -> None:
    x = MATRIX.to_sparse().requires_grad_()
    (torch.arange(12.0).reshape(2, 2, 3) * x).to_dense().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.to_dense(), torch.tensor([[6.0, 0, 10], [0, 14, 0]]))


def test_broadcasting_repeats_what_is_stored() -> None:
    column = torch.tensor([[2.0], [0.0]]).to_sparse()
    wide = torch._sparse_broadcast_to(column, (3, 2, 2))
    assert torch.equal(wide.to_dense(), column.to_dense().expand(3, 2, 2))
    with pytest.raises(RuntimeError, match=r"cannot be broadcast|must match"):
        torch._sparse_broadcast_to(column, (3, 2))


def test_zeros_that_store_nothing_can_be_added_whatever_their_dimensions() -> None:
    rows = torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 2), (3, 2))
    nothing = torch.zeros(3, 2, layout=torch.sparse_coo)
    assert (nothing + rows).dense_dim() == 1
    assert torch.equal((rows - nothing).to_dense(), rows.to_dense())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_zeros_and_empty_write_into_sparse_outputs(layout: Any) -> None:
    for make in (torch.zeros, torch.empty):
        out = torch.eye(2).to_sparse(layout=layout)
        assert make(3, 4, out=out) is out
        assert out.shape == (3, 4) and out._nnz() == 0 and out.layout is layout
    with pytest.raises(RuntimeError, match="do not match"):
        torch.zeros(3, dtype=torch.int64, out=torch.eye(2).to_sparse(layout=layout))


def test_compressed_matrices_are_resized_in_place() -> None:
    x = torch.eye(3).to_sparse_csr()
    assert x.resize_(5, 4) is x
    assert x.crow_indices().tolist() == [0, 1, 2, 3, 3, 3] and x.shape == (5, 4)
    full = torch.ones(2, 3).to_sparse_csr().resize_(1, 4)
    assert full._nnz() == 4 and full.crow_indices().tolist() == [0, 4]
    y = torch.eye(3).to_sparse_csc().resize_((3, 2))
    assert y.ccol_indices().tolist() == [0, 1, 3]
    with pytest.raises(RuntimeError, match="smaller value"):
        x.resize_(5, 3)
    with pytest.raises(RuntimeError, match="Only batched sparse CSR"):
        x.resize_(5)


@pytest.mark.parametrize("layout", [torch.sparse_bsr, torch.sparse_bsc])
def test_masks_of_blocks_choose_blocks(layout: Any) -> None:
    full = torch.arange(1.0, 25).reshape(4, 6)
    mask = torch.block_diag(torch.ones(2, 3), torch.ones(2, 3))
    mask[0, 5] = 1
    blocks = mask.to_sparse(layout=layout, blocksize=(2, 3))
    result = full.sparse_mask(blocks)
    positions = blocks.to_dense().reshape(2, 2, 2, 3).amax((1, 3), keepdim=True)
    chosen = full.reshape(2, 2, 2, 3) * positions
    assert result.layout is layout and result.values().shape == blocks.values().shape
    assert torch.equal(result.to_dense(), chosen.reshape(4, 6))


def test_masks_of_blocks_may_store_none() -> None:
    nothing = torch.zeros(2, 4).to_sparse_bsr((1, 2))
    assert torch.ones(2, 4).sparse_mask(nothing)._nnz() == 0
    thin = torch.zeros(2, 0).to_sparse_bsr((1, 2))
    assert torch.ones(2, 0).sparse_mask(thin).shape == (2, 0)


def test_dense_tensors_like_sparse_ones_take_a_memory_format() -> None:
    x = torch.ones(2, 3, 4, 4).to_sparse()
    y = torch.zeros_like(x, layout=torch.strided, memory_format=torch.channels_last)
    assert y.stride() == (48, 1, 12, 3)


def test_parts_are_validated() -> None:
    torch._validate_sparse_coo_tensor_args(torch.tensor([[0, 2]]), torch.ones(2), (3,))
    with pytest.raises(RuntimeError, match="found index 5"):
        torch._validate_sparse_coo_tensor_args(torch.tensor([[0, 5]]), torch.ones(2), (3,))
    starts, plain = torch.tensor([0, 1]), torch.tensor([5])
    with pytest.raises(RuntimeError, match="`0 <= col_indices < ncols` is not satisfied"):
        torch._validate_sparse_compressed_tensor_args(
            starts, plain, torch.ones(1), (1, 3), torch.sparse_csr
        )


def test_old_names_of_products() -> None:
    sparse, dense = MATRIX.to_sparse(), torch.ones(3, 2)
    assert torch.equal(torch.hsmm(sparse, dense).to_dense(), MATRIX @ dense)
    total = torch.saddmm(torch.eye(2).to_sparse(), sparse, dense)
    assert torch.equal(total.to_dense(), torch.eye(2) + MATRIX @ dense)


S = MATRIX.to_sparse()


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (RuntimeError, "does not match the length", lambda: S.permute(1)),
        (RuntimeError, "duplicate dims", lambda: S.permute(0, 0)),
        (RuntimeError, "two tensor dim should be 2 and 1", lambda: S.mv(torch.ones(3, 1))),
        (RuntimeError, "All tensors must have the same shape", lambda: torch.cat([S, S.t()])),
        (RuntimeError, "found at position 1", lambda: torch.cat([S, MATRIX])),
        (RuntimeError, "out of range", lambda: S.narrow_copy(10, 0, 1)),
        (RuntimeError, "keepdim=True", lambda: S.norm(keepdim=True)),
        (RuntimeError, "full reductions", lambda: S.norm(dim=0)),
        (ValueError, "frobenius", lambda: S.norm(dtype=torch.float64)),
        (RuntimeError, "'dtype' argument", lambda: S.norm(p=0, dtype=torch.float64)),
        (RuntimeError, "Output shape must be 2d",
         lambda: torch.sparse.spdiags(torch.ones(1, 2), torch.tensor([0]), (2, 2, 2))),
        (RuntimeError, "but got 1", lambda: MATRIX.to_sparse(blocksize=(1,))),
        (RuntimeError, "blocksize argument given", lambda: MATRIX.to_sparse(blocksize=(1, 1))),
        (RuntimeError, "Sparse floor division", lambda: S // S),
        (RuntimeError, "to have same size", lambda: torch.ones(3, 3) + S),
        (RuntimeError, "can't be cast", lambda: torch.asin(S, out=S.long())),
        (RuntimeError, "can't be cast", lambda: MATRIX.long().mul_(S)),
        (TypeError, "'out' must be Tensor, not int", lambda: torch.atan(S, out=3)),
    ],
)  # fmt: skip
def test_errors_say_what_pytorch_says(error: Any, match: str, call: Any) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_norm_over_all_dimensions_is_a_norm() -> None:
    assert float(S.norm(dim=(0, 1))) == pytest.approx(float(MATRIX.norm()))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_factor_has_a_gradient_where_the_other_is_stored(layout: Any) -> None:
    x, y = (
        torch.tensor(rows, dtype=torch.float32).to_sparse(layout=layout).requires_grad_()
        for rows in ([[1, 0], [0, 2]], [[3, 4], [0, 0]])
    )
    (x * y).backward(torch.tensor([[5.0, 6], [7, 8]]).to_sparse(layout=layout))
    assert x.grad is not None and y.grad is not None and x.grad.layout is layout
    assert x.grad.to_dense().tolist() == [[15, 24], [0, 0]]
    assert y.grad.to_dense().tolist() == [[5, 0], [0, 16]]


def test_compressed_tensors_that_store_nothing() -> None:
    for make in (torch.empty, torch.zeros):
        rows = make((2, 3), layout=torch.sparse_csr)
        assert rows.crow_indices().tolist() == [0, 0, 0] and rows._nnz() == 0
        columns = make((4, 2, 3), layout=torch.sparse_csc)
        assert columns.ccol_indices().shape == (4, 4) and columns.shape == (4, 2, 3)
    with pytest.raises(RuntimeError, match="Only batched sparse compressed"):
        torch.empty(2, layout=torch.sparse_csr)
    with pytest.raises(RuntimeError, match="non-block"):
        torch.empty(2, 2, layout=torch.sparse_bsr)


def test_batches_of_compressed_matrices_are_taken_apart() -> None:
    x = torch.arange(1.0, 17).reshape(2, 2, 2, 2)
    for layout in (torch.sparse_csr, torch.sparse_bsc):
        blocks = {"blocksize": (1, 2)} if layout is torch.sparse_bsc else {}
        one = x.to_sparse(layout=layout, **blocks)[1, 0]
        assert one.layout is layout and torch.equal(one.to_dense(), x[1, 0])
    row = torch.select_copy(MATRIX.to_sparse_csr(), 0, 1)
    assert row.layout is torch.sparse_coo and row.to_dense().tolist() == [0, 3, 0]
    with pytest.raises(IndexError):
        MATRIX.to_sparse_csr().select(0, 5)


def test_samples_of_a_batch_of_products() -> None:
    a, b = torch.randn(2, 2, 3), torch.randn(2, 3, 2)
    positions = torch.ones(2, 2, 2).to_sparse_csr()
    result = torch.sparse.sampled_addmm(positions, a, b, beta=2.0)
    torch.testing.assert_close(result.to_dense(), 2 + a @ b)


def test_sizes_and_positions_of_another_tensor() -> None:
    for layout in (torch.sparse_coo, torch.sparse_csr):
        x = torch.zeros(3, 3).to_sparse(layout=layout)
        assert x.resize_as_sparse_(torch.eye(2).to_sparse(layout=layout)).shape == (2, 2)
    with pytest.raises(RuntimeError, match="same layout"):
        x.resize_as_sparse_(torch.eye(2).to_sparse())


def test_indices_change_their_form() -> None:
    starts, columns = torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1])
    both = torch._convert_indices_from_csr_to_coo(starts, columns)
    assert both.tolist() == [[0, 1, 1], [0, 0, 1]]
    again = torch._convert_indices_from_coo_to_csr(both[0], 2, out_int32=True)
    assert again.tolist() == [0, 1, 3] and again.dtype == torch.int32


def test_indices_of_nothing_keep_their_dtype() -> None:
    none = torch.tensor([], dtype=torch.int32)
    x = torch.sparse_csr_tensor(torch.tensor([0], dtype=torch.int32), none, none.float(), (0, 2))
    assert x.col_indices().dtype == torch.int32


def test_dense_dimensions_grow_as_those_of_a_dense_tensor() -> None:
    x = torch.sparse_coo_tensor([[0]], torch.arange(6.0).reshape(1, 2, 3), (1, 2, 3))
    x.sparse_resize_((1, 2, 4), 1, 2)
    assert x.to_dense()[0].tolist() == [[0, 1, 2, 3], [4, 5, 0, 0]]


def test_unsqueeze_of_a_tensor_without_dimensions() -> None:
    x = torch.tensor(3.0).to_sparse().unsqueeze(0)
    assert x.sparse_dim() == 1 and x.indices().tolist() == [[0]]
    assert x.to_dense().tolist() == [3.0]


def test_sums_of_sparse_integers_are_int64() -> None:
    x = torch.tensor([[1, 0], [100, 100]], dtype=torch.int8).to_sparse()
    for sums in (x.sum(0), x.to_sparse_csr().sum(0, True)):
        assert sums.dtype is torch.int64 and sums.to_dense().flatten().tolist() == [101, 100]
    assert torch.sparse.sum(x, 0).dtype is torch.int8
    with pytest.raises(RuntimeError, match="without dimensions"):
        torch.tensor(1.0).to_sparse().sum(0)


def test_a_product_is_added_to_what_has_its_dtype_and_can_be_expanded_to_its_shape() -> None:
    x = torch.tensor([[1, 0], [1, 1]])
    expected = [[2, 1], [3, 2]]
    assert torch.sparse.addmm(torch.ones(1, 2).long(), x.to_sparse(), x).tolist() == expected
    assert torch.addmm(torch.tensor(1), x.to_sparse(), x).tolist() == expected
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Float"):
        torch.sparse.addmm(torch.ones(2, 2), x.to_sparse(), x)
    with pytest.raises(RuntimeError, match="expanded size"):
        torch.sparse.addmm(torch.ones(1, 0).long(), x.to_sparse(), x)


def test_functions_of_sparse_tensors_that_need_others() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.sparse.softmax(torch.ones(2, 2).long().to_sparse(), 0)
    with pytest.raises(RuntimeError, match="hspmm: Argument #3: matrices expected, got 1D"):
        torch.hspmm(MATRIX.to_sparse(), torch.ones(3))
    with pytest.raises(RuntimeError, match="smm: Argument #2: matrices expected, got 0D"):
        torch.smm(torch.tensor(1.0).to_sparse(), MATRIX)


def test_a_single_number_made_sparse_does_not_share_memory():
    x = torch.tensor(-1.5, requires_grad=True)
    y = x.clone()
    stored = y.to_sparse()
    y.mul_(5)
    assert stored.to_dense().item() == -1.5
    stored.to_dense().backward()
    assert x.grad is not None and x.grad.item() == 1


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 1.0])
def test_positions_that_two_sparse_tensors_share(density: float) -> None:
    torch.manual_seed(0)
    shape = (40, 30)
    a = torch.randn(shape) * (torch.rand(shape) < density)
    others = [torch.randn(shape) * (torch.rand(shape) < other) for other in (0.0, 0.03, 0.7)]
    for b in (*others, a):
        x, y = a.to_sparse(), b.to_sparse()
        assert (x * y).to_dense().equal(a * b) and (x * y).is_coalesced()
        assert (x * y)._nnz() == int(((a != 0) & (b != 0)).sum())
        assert x.sparse_mask(y).to_dense().equal(a * (b != 0))
        assert x.sparse_mask(y)._nnz() == y._nnz()
        assert a.sparse_mask(y).to_dense().equal(a * (b != 0))
        order = torch.randperm(y._nnz())  # of which no list ascends
        mixed = torch.sparse_coo_tensor(y._indices()[:, order], y._values()[order], shape)
        assert x.sparse_mask(mixed).to_dense().equal(a * (b != 0))
        assert (x * mixed).to_dense().equal(a * b)
    assert x.sparse_mask(x) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.3])
def test_products_of_sparse_matrices_with_vectors_and_with_each_other(
    dtype: Any, density: float
) -> None:
    torch.manual_seed(0)
    # Small whole numbers, whose sums are exact.
    a, b = (torch.randint(-2, 3, shape) * (torch.rand(shape) < density) for shape in SHAPES)
    v = torch.randint(-2, 3, (SHAPES[0][1],))
    x, y = a.to(dtype), b.to(dtype)
    for layout in (torch.sparse_coo, torch.sparse_csr):
        matrix = x.to_sparse(layout=layout)
        assert (matrix @ v.to(dtype)).equal((a @ v).to(dtype))
        assert (matrix @ y.to_sparse(layout=layout)).to_dense().equal((a @ b).to(dtype))
    assert x.to_sparse_csr().to_sparse().is_coalesced()
    product = x.to_sparse() @ y.to_sparse()
    assert product._nnz() == int(((a != 0).long() @ (b != 0).long() != 0).sum())


def test_rows_that_do_not_ascend_are_put_in_order() -> None:
    starts, columns = torch.tensor([0, 2, 2, 4]), torch.tensor([2, 0, 1, 1])
    mixed = torch.sparse_csr_tensor(starts, columns, torch.tensor([1.0, 2, 3, 4]), (3, 3))
    dense = torch.tensor([[2.0, 0, 1], [0, 0, 0], [0, 7, 0]])
    assert mixed.to_sparse().is_coalesced() and mixed.to_sparse()._nnz() == 3
    assert mixed.to_sparse().to_dense().equal(dense)
    assert mixed.to_sparse_csc().to_dense().equal(dense)


@pytest.mark.parametrize("rows", [[-1, 0, 1], [0, 1, 3], [2, 1, -1], [1, 0, 3]])
def test_rows_outside_of_a_matrix_are_refused(rows: list[int]) -> None:
    indices = torch.tensor([rows, [0, 1, 2]])
    wrong = torch._C._sparse_coo(indices, torch.ones(3), (3, 3), True)
    for convert in (wrong.to_sparse_csr, lambda: wrong @ torch.ones(3)):
        with pytest.raises(RuntimeError, match="found index"):
            convert()


def test_views_and_products_of_coordinates() -> None:
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    s = x.to_sparse()
    assert torch.equal(torch.real(s).to_dense(), x)
    assert torch.atleast_3d(s).shape == (2, 2, 1)
    assert torch.equal(torch.atleast_3d(s).to_dense(), torch.atleast_3d(x))
    first, second = torch.broadcast_tensors(s, torch.ones(2))
    assert first.is_sparse and second.shape == (2, 2)
    assert torch.equal(torch.ldexp(s, torch.tensor(2)).to_dense(), x * 4)
    assert torch.equal(torch.linalg.vecdot(s, x).to_dense(), torch.linalg.vecdot(x, x))
