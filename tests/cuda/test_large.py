"""Tensors of more than 2^31 elements, grids of more than 65,535 blocks, and none at all: every kind
of kernel counts right, or says that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import flambeau as torch
import flambeau.nn.functional as F

pytestmark = [pytest.mark.large, pytest.mark.unwatched]
N = (1 << 31) + 4096 + 3


@pytest.fixture(autouse=True)
def gives_memory_back() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def marked_bytes() -> torch.Tensor:
    """Zeros, with 5 behind half of them and 7 as the last."""
    x = torch.zeros(N, dtype=torch.uint8, device="cuda")
    x[N // 2], x[-1] = 5, 7
    return x


def test_elements_are_computed_and_converted() -> None:
    bytes_ = marked_bytes()
    twice = bytes_ * 2
    assert twice[-3:].tolist() == [0, 0, 14] and int(twice.sum()) == 24
    half = bytes_.to(torch.float16)
    assert half[-1].item() == 7 and half[N // 2].item() == 5
    assert torch.where(bytes_ > 6, bytes_, twice)[-1].item() == 7
    assert int((bytes_ > 0).sum()) == 2


def test_strided_views_are_read_and_written() -> None:
    bytes_ = marked_bytes()
    rows = bytes_[: N // 3 * 3].view(-1, 3)
    transposed = rows.t().contiguous()
    assert transposed.shape == (3, N // 3)
    at = N // 2
    assert transposed[at % 3, at // 3].item() == 5
    bytes_[1::2].add_(1)
    assert bytes_[-2].item() == (N - 2) % 2 and int(bytes_.sum(dtype=torch.int64)) == 12 + N // 2


def test_reductions_count_all_elements() -> None:
    bytes_ = marked_bytes()
    assert int(bytes_.sum()) == 12
    assert bytes_.argmax().item() == N - 1 and bytes_.max().item() == 7
    assert int(torch.count_nonzero(bytes_)) == 2
    assert bytes_.any().item() and not bytes_.all().item()
    assert bytes_.nonzero().flatten().tolist() == [N // 2, N - 1]
    wide = bytes_[: N // 4 * 4].view(4, -1)
    assert wide.sum(1).tolist() == [0, 0, 5, 0]


def test_scans_reach_the_end() -> None:
    ones = torch.ones(N // 39 * 39, dtype=torch.int8, device="cuda").view(-1, 39)[:, :13]
    assert ones.cumsum(1)[-1].tolist() == list(range(1, 14))
    long = torch.ones((1 << 31) - 1, dtype=torch.int8, device="cuda").cumsum(0, dtype=torch.int32)
    assert long[-1].item() == (1 << 31) - 1


def test_parts_are_joined_and_taken_apart() -> None:
    bytes_ = marked_bytes()
    both = torch.cat([bytes_, bytes_])
    assert both[N + N // 2].item() == 5 and both[-1].item() == 7 and int(both.sum()) == 24
    positions = torch.tensor([N - 1, 0, N // 2], device="cuda")
    assert bytes_[positions].tolist() == bytes_.index_select(0, positions).tolist() == [7, 0, 5]
    assert bytes_.gather(0, positions).tolist() == bytes_.take(positions).tolist() == [7, 0, 5]
    bytes_.scatter_(0, positions[:1], 9)
    bytes_.index_fill_(0, positions[1:2], 8)
    assert (bytes_[-1].item(), bytes_[0].item()) == (9, 8)
    assert bytes_.masked_select(bytes_ > 0).tolist() == [8, 5, 9]
    assert bytes_.flip(0)[:2].tolist() == [9, 0] and bytes_.roll(1)[0].item() == 9


def test_rows_are_normalised_beyond_the_32nd_bit() -> None:
    x = torch.zeros(1 << 20, 2056, dtype=torch.bfloat16, device="cuda")  # 2^31 and 2^23 more
    x[-1, -1] = 8
    for rows in (F.softmax(x, -1), F.log_softmax(x, -1).exp(), F.layer_norm(x, (2056,))):
        last, before = rows[-1, -1].item(), rows[-2, -1].item()
        assert last > 0.5 and before < 0.01
        del rows
    targets = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
    losses = F.cross_entropy(x, targets, reduction="none")
    assert losses[-1].item() > losses[0].item() > 7


def test_images_are_normalised_pooled_and_enlarged_beyond_the_32nd_bit() -> None:
    x = torch.zeros(33, 64, 1024, 1024, dtype=torch.bfloat16, device="cuda")  # 2^31 and 2^26 more
    x[-1, -1, -1, -1] = 100
    y = F.batch_norm(x, None, None, training=True)
    assert y[-1, -1, -1, -1].item() > 1000 > 0.1 > abs(y[-1, 0, -1, -1].item())
    del y
    for pooled in (F.max_pool2d(x, 2), F.avg_pool2d(x, 2) * 4, F.adaptive_max_pool2d(x, 512)):
        assert pooled[-1, -1, -1, -1].item() == 100 and pooled.sum().item() == 100
        del pooled
    small = x[..., ::2, ::2].contiguous()
    small[-1, -1, -1, -1] = 3
    large = F.interpolate(small, scale_factor=2)
    assert large[-1, -1, -2:, -2:].tolist() == [[3, 3], [3, 3]] and large.sum().item() == 12


def test_gradients_of_pooling_reach_the_end() -> None:
    x = torch.zeros(33, 64, 1024, 1024, dtype=torch.bfloat16, device="cuda")
    x[-1, -1, -1, -1] = 1
    for pool in (F.max_pool2d, F.avg_pool2d):
        x.grad = None
        pool(x.requires_grad_(), 2).sum().backward()
        assert x.grad[-1, -1, -1, -1].item() == (1 if pool is F.max_pool2d else 0.25)


def test_products_of_large_matrices_are_right_at_the_end() -> None:
    a = torch.zeros(1 << 17, 64, dtype=torch.bfloat16, device="cuda")
    b = torch.zeros(64, 16400, dtype=torch.bfloat16, device="cuda")
    a[-1, 3], b[3, -1] = 2, 3
    out = a @ b
    assert out.numel() > 1 << 31 and out[-1, -1].item() == 6 and out[-2, -1].item() == 0


def test_random_numbers_fill_everything() -> None:
    x = torch.empty(N, dtype=torch.bfloat16, device="cuda").uniform_()
    assert 0.45 < x[-1000:].float().mean().item() < 0.55
    kept = F.dropout(torch.ones(N, dtype=torch.float16, device="cuda"), 0.5)
    assert 400 < int((kept[-1000:] != 0).sum()) < 600


@pytest.mark.parametrize("count", [65_535, 65_536, 200_000])
def test_batches_of_more_than_a_grid_has_rows(count: int) -> None:
    x = torch.randn(count, 2, 3, dtype=torch.float64)
    d = x.cuda()

    def same(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        torch.testing.assert_close(function(d).cpu(), function(x), rtol=1e-9, atol=1e-9)

    same(lambda x: x @ x.mT)
    same(lambda x: x.sum(1))
    same(lambda x: x.sum(0))
    same(lambda x: x.softmax(1))
    same(lambda x: x.cumsum(0))
    same(lambda x: x.cumsum(1))
    same(lambda x: x.sort(1).values)
    same(lambda x: x.topk(2, -1).values)
    same(lambda x: torch.linalg.det(x @ x.mT))
    same(lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"))
    same(lambda x: F.max_pool1d(x, 2))
    same(lambda x: torch.fft.rfft(x).real)
    same(lambda x: F.conv1d(x[:, :2], torch.ones(1, 2, 2, dtype=x.dtype, device=x.device)))
    same(lambda x: F.group_norm(x, 2))
    same(lambda x: F.grid_sample(x[:, None], x[:, :, None, :2].tanh(), align_corners=False))


def test_nothing_is_computed_of_nothing() -> None:
    x = torch.empty(0, 3, device="cuda")
    assert (x + 1).shape == x.t().contiguous().t().shape == (0, 3)
    assert x.sum().item() == 0 and x.prod().item() == 1
    assert (x.t() @ x).tolist() == [[0.0] * 3] * 3
    assert torch.cat([x, x]).shape == x.sort(0).values.shape == x.softmax(0).shape == (0, 3)
    assert x[torch.empty(0, dtype=torch.int64, device="cuda")].shape == (0, 3)
    assert F.embedding(torch.empty(0, dtype=torch.int64, device="cuda"), x).shape == (0, 3)
    assert x.unique().shape == x.nonzero().flatten().shape == (0,)
    assert F.dropout(x).shape == torch.rand(0, device="cuda").view(0, 1).expand(0, 3).shape
    out = torch.empty(5, device="cuda")
    torch.add(x.view(-1), 1, out=out.resize_(0))
    assert out.shape == (0,)
