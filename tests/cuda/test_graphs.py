"""Captured graphs: what is captured once and replayed does what running it again would do."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


def test_a_replay_reads_and_writes_the_captured_tensors() -> None:
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = (x * 2 + 1).sum() + x[3]
    assert not torch.cuda.is_current_stream_capturing()
    for value in (1.0, 2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert y.item() == 1000 * (2 * value + 1) + value


def test_the_explicit_calls_capture_too() -> None:
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x = torch.ones(64, 64, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _ = x @ x  # the library sets itself up outside the capture
        torch.cuda.synchronize()
        graph.capture_begin()
        y = x @ x
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    x.fill_(2.0)
    graph.replay()
    assert y[0, 0].item() == 256.0
    assert graph.pool() != (0, 0)
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_captures_need_a_stream_of_their_own_and_one_graph_each() -> None:
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    x = torch.ones(3, device="cuda")
    with torch.cuda.graph(graph):
        y = x + 1
    with (
        pytest.raises(RuntimeError, match="already owns a captured graph"),
        torch.cuda.graph(graph),
    ):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_asking_for_a_value_ends_a_capture_and_the_device_lives_on() -> None:
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(graph):
        (x + 1).sum().item()
    assert (x + 1).sum().item() == 6.0
    again = torch.cuda.CUDAGraph()
    with torch.cuda.graph(again):
        y = x * 3
    again.replay()
    assert y.sum().item() == 9.0


def test_memory_of_a_graph_is_its_own_until_it_is_reset() -> None:
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        z = y * 2
    del y
    for _ in range(4):  # memory from elsewhere does not overlap what the graph writes
        other = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(8)]
        graph.replay()
        assert all(float(part.min()) == 7.0 == float(part.max()) for part in other)
    assert float(z.sum()) == 4 * (1 << 20)
    segments = torch.cuda.memory_snapshot(graph.pool())
    assert segments and all(s["segment_pool_id"] == graph.pool() for s in segments)
    reserved = torch.cuda.memory_reserved()
    pool = graph.pool()
    del z, other, graph
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved
    assert not torch.cuda.memory_snapshot(pool)


def test_two_graphs_can_share_memory() -> None:
    x = torch.ones(1 << 20, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        a = (x + 1) * 2
    with torch.cuda.graph(second, pool=first.pool()):
        b = a + x
    assert first.pool() == second.pool() == pool
    x.fill_(3.0)
    first.replay()
    second.replay()
    assert float(b[0]) == 11.0


def test_every_replay_draws_new_numbers_and_those_that_running_would_draw() -> None:
    rates = torch.linspace(0.1, 5, 777, device="cuda")

    def draws() -> list[torch.Tensor]:
        return [
            torch.rand(1000, device="cuda"),
            F.dropout(rates, 0.3),
            torch.poisson(rates),
            torch._standard_gamma(rates),
            torch.binomial(rates.ceil(), rates / 5),
        ]

    torch.cuda.manual_seed(11)
    expected = [draws() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = draws()
    torch.cuda.manual_seed(11)
    for wanted in expected:
        graph.replay()
        assert all(map(torch.equal, drawn, wanted))
    own = torch.Generator("cuda").manual_seed(4)
    normal_wanted = torch.randn(50, device="cuda", generator=own)
    own.manual_seed(4)
    second = torch.cuda.CUDAGraph()
    second.register_generator_state(own)
    with torch.cuda.graph(second):
        normal = torch.randn(50, device="cuda", generator=own)
    second.replay()
    assert torch.equal(normal, normal_wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_every_replay_drops_other_weights_of_attention_forward_as_backward(
    dtype: torch.dtype,
) -> None:
    q = torch.zeros(1, 2, 128, 128, device="cuda", dtype=dtype, requires_grad=True)
    v = torch.eye(128, device="cuda", dtype=dtype).expand(1, 2, 128, 128).contiguous()
    v.requires_grad_()
    ones = torch.ones(1, 2, 128, 128, device="cuda", dtype=dtype)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        out = F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)
        (slope,) = torch.autograd.grad(out, v, ones)
        return out, slope

    torch.cuda.manual_seed(11)
    expected = [step()[0].detach() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, slope = step()
    torch.cuda.manual_seed(11)
    for wanted in expected:
        graph.replay()
        assert torch.equal(out, wanted)
        kept = out.detach().float().sum(-2)  # of the weights of each key
        torch.testing.assert_close(slope[..., 0].float(), kept, rtol=2e-2, atol=2e-2)
    assert not torch.equal(expected[0], expected[1])


def test_an_index_out_of_range_in_a_replay_is_an_error_at_the_next_wait() -> None:
    table = torch.arange(10, device="cuda")
    index = torch.tensor([1, 2], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        picked = table[index]
    graph.replay()
    assert picked.tolist() == [1, 2]
    index.fill_(99)
    graph.replay()
    with pytest.raises(IndexError, match="index 99 is out of bounds"):
        torch.cuda.synchronize()
    index.fill_(3)
    graph.replay()
    assert picked.tolist() == [3, 3]


def model_and_data() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
    return model, torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_whole_training_step_can_be_captured(momentum: float) -> None:
    losses = []
    for captured in (False, True):
        model, x, target = model_and_data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)

        def step(model=model, x=x, target=target, optimizer=optimizer) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        if not captured:
            losses.append([step().item() for _ in range(5)])
            continue
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        seen = []
        for _ in range(5):
            graph.replay()
            seen.append(loss.item())
        losses.append(seen)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RAdam", "NAdam", "ASGD", "Adamax", "RMSprop"])
def test_capturable_optimizers_take_the_same_steps_in_a_graph(name: str) -> None:
    parameters = []
    for captured in (False, True):
        torch.manual_seed(1)
        x = torch.randn(40, device="cuda", requires_grad=True)
        wide = torch.randn(3, 5, device="cuda", dtype=torch.float64, requires_grad=True)
        kind = getattr(torch.optim, name)
        optimizer = kind([x, wide], lr=0.01, weight_decay=0.1, capturable=captured)

        def step(x=x, wide=wide, optimizer=optimizer) -> None:
            optimizer.zero_grad(set_to_none=True)
            (x.sin().sum() + (wide**2).sum()).backward()
            optimizer.step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        if captured:
            with torch.cuda.graph(graph):
                step()
        for _ in range(4):
            graph.replay() if captured else step()
        parameters.append([x.detach().cpu(), wide.detach().cpu()])
    for plain, replayed in zip(*parameters):
        assert torch.allclose(plain, replayed, rtol=1e-4, atol=1e-5)


def test_a_rate_on_the_device_can_change_between_replays() -> None:
    lr = torch.tensor(0.1, device="cuda")
    x = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.AdamW([x], lr=lr, weight_decay=0.0, capturable=True)
    x.grad = torch.ones(4, device="cuda")
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    before = x.detach().clone()
    lr.fill_(0.0)
    graph.replay()
    assert torch.equal(x.detach(), before)
    lr.fill_(0.5)
    graph.replay()
    assert float((before - x.detach()).min()) == pytest.approx(0.5, rel=1e-3)


def test_an_optimizer_that_asks_for_values_is_not_captured() -> None:
    x = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([x])
    x.grad = torch.ones(4, device="cuda")
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with (
        pytest.raises(RuntimeError, match="instance of Adam but param_groups' capturable is False"),
        torch.cuda.graph(graph),
    ):
        optimizer.step()


def test_graphed_callables_train_as_plain_ones() -> None:
    results = []
    for graphed in (False, True):
        model, x, target = model_and_data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if graphed:
            model = torch.cuda.make_graphed_callables(model, (torch.randn_like(x),))
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        losses.append(F.cross_entropy(model(x), target).item())
        results.append(losses)
        del model, optimizer, loss
    assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_graphed_functions_have_gradients() -> None:
    a, b = (torch.randn(5, device="cuda", requires_grad=True) for _ in range(2))
    product = torch.cuda.make_graphed_callables(lambda x, y: (x * y).sin(), (a, b))
    c, d = (torch.randn(5, device="cuda", requires_grad=True) for _ in range(2))
    product(c, d).sum().backward()
    grads = torch.autograd.grad((c * d).sin().sum(), (c, d))
    assert torch.allclose(c.grad, grads[0]) and torch.allclose(d.grad, grads[1])


def test_work_of_two_streams_is_captured_where_they_join() -> None:
    x = torch.ones(1000, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x * 2
        z = x + 5
        main.wait_stream(side)
        total = y + z
        y.record_stream(main)
        del y
    x.fill_(4.0)
    graph.replay()
    assert float(total[0]) == 17.0


def test_ops_that_bring_numbers_from_the_host_can_be_captured() -> None:
    x = torch.arange(16, dtype=torch.float32, device="cuda").view(1, 1, 4, 4)
    F.interpolate(x, scale_factor=2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        nearest = F.interpolate(x, scale_factor=2)
        smooth = F.interpolate(x, size=(7, 7), mode="bilinear", align_corners=False)
    x.mul_(3)
    for _ in range(3):
        graph.replay()
    assert torch.equal(nearest, F.interpolate(x, scale_factor=2))
    assert torch.allclose(smooth, F.interpolate(x, size=(7, 7), mode="bilinear"))


def test_a_kept_graph_can_be_looked_at(tmp_path: Path) -> None:
    x = torch.ones(10, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = x + 1
    assert graph.raw_cuda_graph() != 0
    graph.instantiate()
    assert graph.raw_cuda_graph_exec() != 0
    graph.replay()
    assert float(y[0]) == 2.0
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert "digraph" in (tmp_path / "graph.dot").read_text()
    with (
        pytest.warns(UserWarning, match="Graph is empty"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        pass
