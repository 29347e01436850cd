"""Sparse tensors: construction, conversion, arithmetic, products, derivatives, refusals."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import flambeau as torch

INDICES = torch.tensor([[0, 1, 1, 3], [2, 0, 2, 2]])
VALUES = torch.tensor([3.0, 4.0, 5.0, -2.0], dtype=torch.float64)
DENSE = torch.tensor([[0, 0, 3], [4, 0, 5], [0, 0, 0], [0, 0, -2]], dtype=torch.float64)


def coo(values: Any = VALUES) -> Any:
    return torch.sparse_coo_tensor(INDICES, values, (4, 3))


def same(sparse: Any, dense: Any) -> None:
    assert sparse.layout is not torch.strided
    torch.testing.assert_close(sparse.to_dense(), dense)


def test_parts_of_a_tensor_by_coordinates() -> None:
    x = coo()
    assert isinstance(x, torch.Tensor)
    assert x.is_sparse and not x.is_sparse_csr and x.layout is torch.sparse_coo
    assert x.shape == (4, 3) and x.dtype == torch.float64 and x.device.type == "cpu"
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), x.numel()) == (2, 0, 4, 12)
    assert not x.is_coalesced() and x.coalesce().is_coalesced()
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()
    assert x.coalesce().indices().tolist() == INDICES.tolist()
    assert torch.sparse_coo_tensor(INDICES, VALUES).shape == (4, 3)
    assert torch.sparse_coo_tensor(size=(2, 3))._nnz() == 0
    assert torch.sparse.FloatTensor(INDICES, VALUES.float(), (4, 3)).dtype == torch.float32
    assert x.float().dtype == torch.float32 and x.type() == "torch.sparse.DoubleTensor"
    same(x, DENSE)


def test_equal_coordinates_add_up() -> None:
    x = torch.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3))
    assert x.coalesce().values().tolist() == [2.0, 4.0]
    assert x.coalesce().indices().tolist() == [[0, 1], [0, 2]]
    assert x.to_dense().tolist() == [[2.0, 0, 0], [0, 0, 4.0]]


def test_stored_elements_may_have_dimensions_of_their_own() -> None:
    values = torch.arange(8.0).reshape(4, 2)
    x = torch.sparse_coo_tensor(INDICES, values, (4, 3, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (2, 1)
    torch.testing.assert_close(torch.sparse.sum(x, 2).to_dense(), x.to_dense().sum(2))
    torch.testing.assert_close(torch.sparse.sum(x, (0, 1)), x.to_dense().sum((0, 1)))
    torch.testing.assert_close(x.to_dense().to_sparse(2).to_dense(), x.to_dense())


def test_compressed_rows() -> None:
    x = coo().to_sparse_csr()
    assert x.layout is torch.sparse_csr and x.is_sparse_csr
    assert x.crow_indices().tolist() == [0, 1, 3, 3, 4]
    assert x.col_indices().tolist() == [2, 0, 2, 2]
    same(x, DENSE)
    same(x.to_sparse_coo(), DENSE)
    same(torch.sparse_csr_tensor([0, 1, 3, 3, 4], [2, 0, 2, 2], VALUES), DENSE)
    same(DENSE.to_sparse_csr(), DENSE)
    for result in (x * 2, x + x, x.abs(), x @ x.t()):
        assert result.layout is torch.sparse_csr


def test_arithmetic() -> None:
    x, y = coo(), DENSE
    same(x + x, y + y)
    same(x - x * 3, y - y * 3)
    same(x * x.coalesce(), y * y)
    same(x * (y + 1), y * (y + 1))
    same(x / 2, y / 2)
    same(-x, -y)
    same(torch.relu(x), torch.relu(y))
    same(x.pow(2), y**2)
    torch.testing.assert_close(torch.ones(4, 3, dtype=y.dtype) + x, y + 1)
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        x + y
    with pytest.raises(NotImplementedError, match="Could not run 'aten::exp'"):
        x.exp()


def test_reductions() -> None:
    x = coo()
    torch.testing.assert_close(x.sum(), DENSE.sum())
    same(torch.sparse.sum(x, 0), DENSE.sum(0))
    same(x.sum(1), DENSE.sum(1))
    torch.testing.assert_close(x.norm(), DENSE.norm())
    masked = torch.where(DENSE == 0, -float("inf"), DENSE)
    wanted = torch.softmax(masked, 1).nan_to_num(0.0)
    same(torch.sparse.softmax(x, 1), wanted)
    logs = torch.sparse.log_softmax(x, 1).coalesce().values()
    torch.testing.assert_close(logs.exp(), wanted[wanted != 0])


def test_rearranging() -> None:
    x = coo()
    same(x.t(), DENSE.t())
    same(x.transpose(0, 1), DENSE.t())
    same(x[1], DENSE[1])
    same(x[:, 2], DENSE[:, 2])
    assert x[1, 2].item() == 5.0
    same(x.index_select(0, torch.tensor([3, 1, 1])), DENSE[[3, 1, 1]])
    same(torch.cat([x, x], 1), torch.cat([DENSE, DENSE], 1))
    same(torch.stack([x, x]), torch.stack([DENSE, DENSE]))
    same(x.unsqueeze(1), DENSE.unsqueeze(1))
    same(torch.ones_like(DENSE).sparse_mask(x), (DENSE != 0).double())
    assert [row.to_dense().tolist() for row in x] == DENSE.tolist()


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_products_and_their_derivatives(layout: str) -> None:
    torch.manual_seed(0)
    values = VALUES.clone().requires_grad_()
    right = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    left = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)

    def make(v: Any) -> Any:
        return coo(v) if layout == "coo" else coo(v).to_sparse_csr()

    torch.testing.assert_close(torch.sparse.mm(make(values), right), DENSE @ right)
    torch.testing.assert_close(left @ make(values), left @ DENSE)
    torch.testing.assert_close(make(values) @ right[:, 0], DENSE @ right[:, 0])
    same(make(values) @ make(values).t(), DENSE @ DENSE.t())
    addend = torch.ones(4, 2, dtype=torch.float64)
    torch.testing.assert_close(
        torch.sparse.addmm(addend, make(values), right, beta=2, alpha=3),
        2 * addend + 3 * DENSE @ right,
    )
    for function, inputs in (
        (lambda v, x: torch.sparse.mm(make(v), x), [values, right]),
        (lambda v, x: x @ make(v), [values, left]),
        (lambda v: (make(v) @ make(v).t()).to_dense(), [values]),
        (lambda v: torch.sparse.softmax(make(v), 1).to_dense(), [values]),
        (lambda v: torch.sparse.sum(make(v) * make(v)), [values]),
    ):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_a_sparse_leaf_has_a_sparse_gradient() -> None:
    x = coo().requires_grad_()
    assert x.is_leaf and x.requires_grad and not VALUES.requires_grad
    torch.sparse.mm(x, torch.ones(3, 2, dtype=torch.float64)).sum().backward()
    assert x.grad.layout is torch.sparse_coo
    assert x.grad.coalesce().values().tolist() == [2.0] * 4


def test_a_graph_network_learns() -> None:
    """Two layers of neighbourhood averages separate two rings of nodes."""
    torch.manual_seed(0)
    count = 20
    nodes = torch.arange(count)
    step = (nodes % 10 + 1) % 10 + nodes // 10 * 10
    edges = torch.cat([torch.stack([nodes, step]), torch.stack([step, nodes])], 1)
    adjacency = torch.sparse_coo_tensor(edges, torch.full((2 * count,), 0.5), (count, count))
    features = torch.randn(count, 4)
    features[0] += 3
    target = (nodes // 10).long()
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 2, requires_grad=True)]
    optimizer = torch.optim.Adam(weights, lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        hidden = torch.relu(torch.sparse.mm(adjacency, features @ weights[0]))
        loss = torch.nn.functional.cross_entropy(adjacency @ (hidden @ weights[1]), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3


def test_copies_and_files() -> None:
    x = coo().coalesce()
    same(copy.deepcopy(x), DENSE)
    same(x.clone(), DENSE)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    back = torch.load(file, weights_only=False)
    same(back, DENSE)
    assert back.is_coalesced()


def test_printing() -> None:
    assert repr(coo().float()) == (
        "tensor(indices=tensor([[0, 1, 1, 3],\n"
        "                       [2, 0, 2, 2]]),\n"
        "       values=tensor([ 3.,  4.,  5., -2.]),\n"
        "       size=(4, 3), nnz=4, layout=torch.sparse_coo)"
    )
    assert repr(coo().float().to_sparse_csr()).endswith("nnz=4,\n       layout=torch.sparse_csr)")


FAILURES: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: torch.sparse_coo_tensor(INDICES, VALUES, (2, 3)),
        RuntimeError,
        "for dim 0, size is 2",
    ),
    (lambda: torch.sparse_coo_tensor(INDICES, VALUES[:2]), RuntimeError, "must have same nnz"),
    (lambda: torch.sparse_coo_tensor(INDICES, VALUES, (3,)), RuntimeError, "sparse_dim = 2"),
    (lambda: torch.sparse_coo_tensor(-INDICES, VALUES, (4, 3)), RuntimeError, "negative index"),
    (
        lambda: torch.sparse_csr_tensor([0, 2, 1], [0], [1.0]),
        RuntimeError,
        r"`0 <= crow_indices\[..., 1:\] - crow_indices\[..., :-1\] <= ncols` is not satisfied",
    ),
    (
        lambda: torch.sparse_csc_tensor([1, 1], [0], [1.0]),
        RuntimeError,
        r"`ccol_indices\[..., 0\] == 0` is not satisfied",
    ),
    (
        lambda: torch.sparse_csr_tensor([0, 1], [2], [1.0], (1, 2)),
        RuntimeError,
        "`0 <= col_indices < ncols` is not satisfied",
    ),
    (
        lambda: torch.sparse_csr_tensor([0, 1, 3], [1, 1, 0], [1.0] * 3, check_invariants=True),
        RuntimeError,
        "are sorted and distinct along the last dimension values` is not satisfied",
    ),
    (lambda: torch.sparse_csr_tensor([0, 5], [0], [1.0]), RuntimeError, "nnz` is not satisfied"),
    (lambda: coo().float() @ torch.ones(2, 2), RuntimeError, "Expected dim 0 size 3, got 2"),
    (lambda: coo() @ torch.ones(3, 2), RuntimeError, "scalar type Double but found Float"),
    (lambda: coo().numpy(), TypeError, "can't convert Sparse layout tensor to numpy"),
    (lambda: coo().tolist(), RuntimeError, "doesn't have storage"),
    (lambda: coo().reshape(3, 4), RuntimeError, "reshape is not implemented for sparse"),
    (lambda: coo().crow_indices(), RuntimeError, "row compressed tensor layout but got Sparse"),
    (
        lambda: torch._C._csr_mm(
            torch.tensor([0, 9]), torch.tensor([0]), torch.ones(1), torch.ones(1, 1)
        ),
        RuntimeError,
        "crow_indices must ascend",
    ),
    (
        lambda: torch._C._csr_mm(
            torch.tensor([0, 1]), torch.tensor([7]), torch.ones(1), torch.ones(1, 1)
        ),
        RuntimeError,
        r"must be in \[0, 1\)",
    ),
]


@pytest.mark.parametrize("case", range(len(FAILURES)))
def test_failures_say_what_is_wrong(case: int) -> None:
    run, error, words = FAILURES[case]
    with pytest.raises(error, match=words):
        run()


def calls_with_a_sparse_argument(x: Any) -> list[tuple[Any, ...]]:
    dense, rows, index = torch.ones(4, 3, dtype=x.dtype), x.to_sparse_csr(), torch.tensor([0, 1])
    return [
        (x,), (x, x), (x, dense), (dense, x), (x, 0), (x, 1, 1), (x, 2.0), (x, [0]), (x, (4, 3)),
        (x, x, x), (dense, x, x), (dense, dense, x), ([x, x],), ([dense, x], 0), (x, 0, index),
        (index, x), (dense, 0, index, x), (rows,), (rows, rows), (dense, rows),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_no_op_touches_memory_that_a_sparse_tensor_has_not_got() -> None:
    """Every op takes sparse tensors, or raises one of the exceptions that callers expect."""
    names = [name for name in dir(torch.Tensor) if name[0] != "_" and name != "xpu"]
    ops = [*torch._C._ops.values(), *filter(callable, (getattr(torch.Tensor, n) for n in names))]
    refused = 0
    for op in ops:
        for args in calls_with_a_sparse_argument(coo()):
            try:
                op(*args)
            except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
                refused += 1
    assert refused > 5 * len(ops)


def test_what_is_not_implemented_is_refused_by_name() -> None:
    for run, name in (
        (lambda: torch.exp(coo()), "exp"),
        (lambda: coo().max(), "max"),
        (lambda: coo() > 0, "gt"),
        (lambda: 1 / coo(), "reciprocal"),
        (lambda: torch.where(DENSE > 0, coo(), DENSE), "where"),
        (lambda: coo().view(12), "view"),
        (lambda: torch.einsum("ij->ji", coo()), "einsum"),
        (lambda: torch.nn.functional.dropout(coo()), "dropout"),
    ):
        with pytest.raises(
            NotImplementedError, match=f"aten::{name}' with arguments from the 'Spa"
        ):
            run()


def test_every_compressed_layout_round_trips() -> None:
    dense = torch.arange(24.0).reshape(4, 6)
    dense[:2, :3] = 0
    for layout, options in (
        (torch.sparse_csr, {}),
        (torch.sparse_csc, {}),
        (torch.sparse_bsr, {"blocksize": (2, 3)}),
        (torch.sparse_bsc, {"blocksize": (2, 3)}),
    ):
        x = dense.to_sparse(layout=layout, **options)
        assert x.layout is layout
        same(x, dense)
        same(x.t(), dense.t())
        same(x.to_sparse(), dense)
        same(x * 2, dense * 2)
        same(copy.deepcopy(x), dense)
        torch.testing.assert_close(x @ dense.t(), dense @ dense.t())
    made = torch.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2.0], layout=torch.sparse_csc)
    assert made.to_dense().tolist() == [[1, 0], [0, 2]]
    blocks = torch.sparse_bsr_tensor([0, 1], [1], torch.ones(1, 2, 2), (2, 4))
    assert blocks.to_dense().tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]


def test_in_place_writes() -> None:
    x, y = coo(), coo().coalesce()
    address = x
    x *= 2
    assert x is address
    same(x, DENSE * 2)
    same(x.add_(y), DENSE * 3)
    same(x.sub_(y, alpha=2), DENSE)
    same(x.neg_(), -DENSE)
    same(x.coalesce().abs_(), DENSE.abs())
    same(x.copy_(y), DENSE)
    assert x.zero_()._nnz() == 0
    total = torch.ones(4, 3, dtype=torch.float64)
    total += y
    torch.testing.assert_close(total, DENSE + 1)
    leaf = coo().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    version = total._version
    total.sub_(y)
    assert total._version == version + 1


def test_layers_and_results_given_by_out_take_sparse_matrices() -> None:
    x, layer = coo().float(), torch.nn.Linear(3, 2)
    dense = DENSE.float()
    torch.testing.assert_close(layer(x), layer(dense))
    torch.testing.assert_close(layer(x.to_sparse_csr()), layer(dense))
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, dense.sum(0).expand(2, 3))
    out = torch.empty(0)
    assert torch.mm(x, torch.ones(3, 2), out=out) is out
    torch.testing.assert_close(out, dense @ torch.ones(3, 2))
    same(torch.add(x, x, out=x.clone()), dense * 2)
    same(torch.vstack([x, x]), torch.vstack([dense, dense]))
    same(torch.hstack([x, x]), torch.hstack([dense, dense]))
    same(x.movedim(0, 1), dense.t())
    same(torch._foreach_mul([x, x], [2.0, 3.0])[1], dense * 3)
    torch.testing.assert_close(torch.linalg.norm(x), dense.norm())
    product = dense.clone().mul_(x)
    torch.testing.assert_close(product, dense * dense)
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        x[0, 0] = 1


def test_other_reductions_of_a_product() -> None:
    other = torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
    x = coo().to_sparse_csr()
    mean = torch.sparse.mm(x, other, reduce="mean")
    counts = torch.tensor([[1.0], [2.0], [1.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(mean, DENSE @ other / counts)
    largest = torch.sparse.mm(x, other, "amax")
    assert largest.tolist() == [[12, 15], [20, 25], [0, 0], [-8, -10]]
    assert torch.sparse.mm(x, other, "amin")[1].tolist() == [0, 4]


def test_gradcheck_varies_what_is_stored() -> None:
    other = torch.arange(6.0, dtype=torch.float64).reshape(3, 2).requires_grad_()
    for layout in (torch.sparse_coo, torch.sparse_csr):
        x = coo().to_sparse(layout=layout).requires_grad_()
        for function in (
            lambda s, d: torch.sparse.mm(s, d),
            lambda s, d: torch.sparse.mm(s, d, "mean"),
            lambda s, d: (s * 2).sin().to_dense() @ d,
            lambda s, d: s * (s * 3),
        ):
            assert torch.autograd.gradcheck(function, (x, other), masked=True)
            assert torch.autograd.gradgradcheck(function, (x, other), masked=True)


def test_other_processes_get_the_parts() -> None:
    import pickle
    from multiprocessing.reduction import ForkingPickler

    import flambeau.multiprocessing  # noqa: F401

    for x in (coo(), coo().to_sparse_csr()):
        back = pickle.loads(bytes(ForkingPickler.dumps(x)))
        assert back.layout is x.layout
        same(back, DENSE)
    with pytest.raises(RuntimeError, match="Batches of sparse tensors are not currently supported"):
        torch.utils.data.default_collate([coo(), coo()])


def test_batches_of_compressed_matrices() -> None:
    dense = torch.stack([torch.eye(3), torch.eye(3).flip(0) * 2])
    for layout in (torch.sparse_csr, torch.sparse_csc):
        x = dense.to_sparse(layout=layout)
        assert x.shape == (2, 3, 3) and x._nnz() == 3 and x.dense_dim() == 0
        same(x, dense)
        assert x.to_sparse().sparse_dim() == 3
        values = x.values().clone().requires_grad_()
        starts, plain, *_ = x.__reduce_ex__(2)[1][1]
        made = torch.sparse_compressed_tensor(starts, plain, values, layout=layout)
        (made.to_dense() * dense).sum().backward()
        torch.testing.assert_close(values.grad, x.values())
        assert torch.zeros_like(x).to_dense().count_nonzero() == 0
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        torch.stack([torch.eye(2), torch.zeros(2, 2)]).to_sparse_csr()


def test_columns_of_a_row_may_stand_in_any_order() -> None:
    x = torch.sparse_csr_tensor([0, 2, 3], [2, 0, 1], [1.0, 2.0, 3.0], (2, 3))
    dense = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])
    same(x, dense)
    same(x * dense, dense * dense)
    same(x + x, dense + dense)
    torch.testing.assert_close(x @ dense.t(), dense @ dense.t())
    assert x.to_sparse().is_coalesced() and x.to_sparse().values().tolist() == [2, 1, 3]
    summed = x.sum(0, keepdim=True)
    assert summed.layout is torch.sparse_csr and summed.to_dense().tolist() == [[2, 3, 1]]
    assert torch.zeros_like(x)._nnz() == 0
    assert torch.ones_like(x).to_dense().tolist() == (dense != 0).float().tolist()
    assert torch.zeros_like(x, layout=torch.sparse_csc).layout is torch.sparse_csc


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.bfloat16])
def test_dtypes_are_kept(dtype: Any) -> None:
    x, dense = coo(VALUES.abs().to(dtype)), DENSE.abs().to(dtype)
    for result, expected in (
        (x * x, dense * dense),
        (x + x, dense + dense),
        (dense + x, dense + dense),
        (x.coalesce(), dense),
        (x.t(), dense.t()),
        (x[1, 2], dense[1, 2]),
        (dense.sparse_mask(x), dense),
    ):
        torch.testing.assert_close(result.to_dense(), expected)
    with pytest.raises(NotImplementedError, match="Subtraction"):
        coo(VALUES.bool()) - coo(VALUES.bool())


def test_the_switch_for_checks_is_put_back() -> None:
    checks = torch.sparse.check_sparse_tensor_invariants
    assert not checks.is_enabled()

    @checks(enable=True)
    def inside() -> bool:
        return checks.is_enabled()

    assert inside()
    with checks():
        assert checks.is_enabled()
        with checks(enable=False):
            assert not checks.is_enabled()
    assert not checks.is_enabled()


def test_copies_need_equal_sizes() -> None:
    with pytest.raises(RuntimeError, match="sizes of self and src must match"):
        coo().copy_(coo().narrow_copy(0, 0, 1))


def test_in_place_functions_want_coalesced_tensors() -> None:
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [0.25, 0.5], (2, 3))
    for name in ("asin_", "log1p_", "relu_", "abs_"):
        with pytest.raises(RuntimeError, match=f"{name} requires coalesced input"):
            getattr(twice, name)()
    assert twice.neg_().to_dense()[0, 1] == -0.75


def test_new_tensors_of_a_sparse_one_are_sparse() -> None:
    again = coo().new(INDICES, VALUES, (4, 3))
    assert again.layout is torch.sparse_coo and torch.equal(again.to_dense(), DENSE)
    assert coo().new(2, 3).layout is torch.sparse_coo
    assert torch.equal(torch.ones_like(coo(), layout=torch.strided), torch.ones_like(DENSE))


def test_gradients_by_other_coordinates_reach_the_values_of_hybrid_tensors() -> None:
    values = torch.ones(3, 2, requires_grad=True)
    hybrid = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values, (2, 3, 2))
    grad = torch.arange(12.0).reshape(2, 3, 2)
    hybrid.backward(grad.to_sparse())
    assert torch.equal(values.grad, torch.stack([grad[0, 2], grad[1, 0], grad[1, 2]]))


def test_positions_named_by_keywords_and_from_the_end() -> None:
    assert torch.equal(coo().permute(dims=(1, 0)).to_dense(), DENSE.t())
    rows = torch.tensor([-1, 0])
    assert torch.equal(coo().index_select(0, rows).to_dense(), DENSE[rows])
    grown = torch.zeros(1, 3).to_sparse().resize_as_(coo().float())
    assert grown.shape == (4, 3)
    assert torch.zeros(2, 0, 3).to_sparse_csr().shape == (2, 0, 3)
    with pytest.raises(RuntimeError, match="mat1 dtype Double does not match mat2 dtype Float"):
        torch.mm(coo(), coo().t().float())


def test_batches_of_compressed_matrices_change_their_layout() -> None:
    dense = torch.eye(3).repeat(2, 1, 1) * torch.tensor([1.0, 2.0]).view(2, 1, 1)
    dense[:, 0, 2] = 5
    rows = dense.to_sparse_csr()
    columns = rows.to_sparse_csc()
    assert columns.ccol_indices().shape == (2, 4)
    assert torch.equal(columns.to_dense(), dense)
    assert torch.equal(rows.transpose(1, 2).to_dense(), dense.transpose(1, 2))
    assert rows.transpose(1, 2).layout is torch.sparse_csc


def test_compressed_matrices_beside_dense_ones() -> None:
    narrow = [torch.tensor(x, dtype=torch.int32) for x in ([0, 1, 2], [0, 1])]
    matrix = torch.sparse_csr_tensor(*narrow, torch.tensor([1.0, 2.0]), (2, 2))
    ones = torch.ones(2, 2)
    assert torch.add(matrix, ones).tolist() == [[2, 1], [1, 3]]
    assert (matrix - ones).tolist() == [[0, -1], [-1, 1]]
    assert torch.addmv(torch.ones(2), matrix, torch.ones(2), beta=2).tolist() == [3, 4]
    assert torch.sparse.addmm(ones, ones, ones).tolist() == [[3, 3], [3, 3]]
    assert torch.sparse.sampled_addmm(matrix, ones, ones).values().tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="not supported for complex"):
        (matrix * 1j).abs_()


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_linear_with_a_sparse_weight_takes_any_number_of_dimensions(layout, shape) -> None:
    torch.manual_seed(0)
    weight = torch.randn(5, 4) * (torch.rand(5, 4) > 0.5)
    x, bias = torch.randn(shape, requires_grad=True), torch.randn(5)
    dense = torch.nn.functional.linear(x, weight, bias)
    sparse = torch.nn.functional.linear(x, getattr(weight, layout)(), bias)
    torch.testing.assert_close(sparse, dense)
    (expected,) = torch.autograd.grad(dense.sum(), x)
    torch.testing.assert_close(torch.autograd.grad(sparse.sum(), x)[0], expected)


def test_a_number_is_no_sparse_tensor() -> None:
    with pytest.raises(NotImplementedError, match="float_power"):
        torch.float_power(2.0, coo())


def test_sparse_numbers_multiply_sparse_tensors() -> None:
    two = torch.tensor(2.0, dtype=torch.float64).to_sparse()
    assert torch.equal((coo() * two).to_dense(), DENSE * 2)
    assert torch.equal((two * coo()).to_dense(), DENSE * 2)
    assert (two * two).to_dense() == 4


def test_what_has_no_meaning_for_sparse_tensors() -> None:
    with pytest.raises(RuntimeError, match="each dimension can be given once"):
        torch.sparse.sum(coo(), [0, 0])
    with pytest.raises(RuntimeError, match="only supported by strided tensors"):
        torch.empty_like(coo(), memory_format=torch.channels_last)


def test_a_product_broadcasts_what_two_sparse_tensors_store() -> None:
    wide = torch.sparse_coo_tensor([[0, 1]], torch.arange(6.0).view(2, 3) + 1, (2, 3))
    narrow = torch.sparse_coo_tensor([[1, 0]], torch.tensor([[2.0], [5.0]]), (2, 1))
    a, b = wide.requires_grad_(), narrow.requires_grad_()
    for product in (a * b, b * a):
        assert product.shape == (2, 3)
        assert product.to_dense().tolist() == [[5, 10, 15], [8, 10, 12]]
    (a * b).to_dense().sum().backward()
    assert b.grad.to_dense().tolist() == [[6], [15]]
    flat = torch.sparse_coo_tensor([[0, 1], [0, 1]], torch.ones(2), (2, 3))
    with pytest.raises(RuntimeError, match="expects sparse inputs with equal dimensionality"):
        wide * flat
