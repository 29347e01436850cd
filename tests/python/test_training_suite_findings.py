"""What PyTorch's own tests of optimizers, schedules and autocast brought to light."""

import math

import pytest

import flambeau as torch


# --- Autocast -------------------------------------------------------------------------------------
@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_a_cast_made_without_history_is_not_used_where_there_is_one(off):
    layer = torch.nn.Linear(3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        with off():
            layer(torch.ones(2, 3))
        out = layer(torch.ones(2, 3))
        with off():
            assert not layer(torch.ones(2, 3)).requires_grad
    assert out.requires_grad
    out.float().sum().backward()
    assert layer.weight.grad is not None


def test_autocast_of_no_function_is_refused():
    with pytest.raises(TypeError, match="requires a callable, but got Tensor"):
        torch.autocast("cpu")(torch.ones(2))


# --- Optimizers -----------------------------------------------------------------------------------
FUSED = [torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adam, torch.optim.AdamW]


@pytest.mark.parametrize("kind", FUSED)
def test_no_step_is_made_where_infinity_was_found(kind):
    more = {"momentum": 0.9, "dampening": 0.5} if kind is torch.optim.SGD else {}
    p, q = torch.ones(2), torch.ones(2)
    optimizer = kind([p], lr=0.1, fused=True, **more)
    optimizer.grad_scale, optimizer.found_inf = None, torch.ones(())
    p.grad = torch.full((2,), math.inf)
    optimizer.step()
    assert p.tolist() == [1, 1] and float(optimizer.state[p].get("step", 0)) == 0
    # The next step is the first.
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.zeros(())
    p.grad = torch.full((2,), 2.0)
    optimizer.step()
    plain = kind([q], lr=0.1, **more)
    q.grad = torch.full((2,), 0.5)
    plain.step()
    assert torch.allclose(p, q)


def test_a_scaler_and_a_fused_optimizer_agree_with_a_plain_one():
    p, q = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    fused = torch.optim.SGD([p], lr=0.1, momentum=0.9, fused=True)
    plain = torch.optim.SGD([q], lr=0.1, momentum=0.9)
    for param, optimizer in ((p, fused), (q, plain)):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for factor in (1.0, math.inf, 2.0):
            optimizer.zero_grad()
            scaler.scale((param * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert torch.allclose(p, q) and torch.isfinite(p).all()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("option", ["betas", "weight_decay", "lr", "eps"])
def test_hyperparameters_of_adam_have_gradients(kind, option):
    def result(h):
        p = torch.ones(3, dtype=torch.float64).clone()
        p.grad = 2 * p.clone()
        given = (h, 1.5 * h) if option == "betas" else h
        optimizer = kind([p], differentiable=True, **{option: given})
        optimizer.step()
        p.grad = p * 3
        optimizer.step()
        return p.sum()

    h = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(result(h), h)
    step = 1e-4
    with torch.no_grad():
        up, down = result(h + step), result(h - step)
    assert abs(float(found) - float(up - down) / (2 * step)) < 1e-3 * (1 + abs(float(found)))


def test_the_weight_decay_of_sgd_has_a_gradient():
    w = torch.ones(3, requires_grad=True)
    decay = torch.tensor(0.5, requires_grad=True)
    p = w.clone()
    optimizer = torch.optim.SGD([p], lr=0.1, weight_decay=decay, differentiable=True)
    p.grad = (2 * w).clone()
    optimizer.step()
    to_w, to_decay = torch.autograd.grad(p.sum(), (w, decay))
    assert torch.allclose(to_w, torch.full((3,), 0.75)) and abs(float(to_decay) + 0.3) < 1e-6


@pytest.mark.parametrize(("most", "calls"), [(1, 2), (3, 4), (5, 6)])
def test_a_line_search_keeps_to_the_evaluations_that_are_left(most, calls):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=1, max_eval=most, line_search_fn="strong_wolfe")
    count = 0

    def closure():
        nonlocal count
        count += 1
        optimizer.zero_grad()
        # The slope never changes: no step is long enough for the search.
        loss = (x * torch.tensor([1.0, -1.0])).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert count == calls


@pytest.mark.parametrize("shape", [(2, 6), (6, 2), (3, 3)])
def test_muon_scales_its_rate_by_the_shape(shape):
    moves = {}
    for name in ("original", "spectral_unclamped"):
        p = torch.zeros(shape, requires_grad=True)
        p.grad = torch.arange(1.0, 1 + p.numel()).reshape(shape)
        torch.optim.Muon([p], lr=0.1, adjust_lr_fn=name).step()
        moves[name] = p.detach()
    ratio = min(1.0, math.sqrt(shape[0] / shape[1]))
    assert torch.allclose(moves["spectral_unclamped"], moves["original"] * ratio)


# --- Schedules ------------------------------------------------------------------------------------
def _rates(schedule, optimizer, steps):
    rates = []
    for _ in range(steps):
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize(
    ("milestones", "expected"),
    [([0, 0, 1], [0.3, 0.4, 0.4]), ([0, 1, 2], [0.2, 0.3, 0.4]), ([1, 2, 3], [0.1, 0.2, 0.3])],
)
def test_a_sequence_begins_with_the_schedule_whose_turn_it_is(milestones, expected):
    optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
    members = [
        torch.optim.lr_scheduler.ConstantLR(optimizer, factor=k / 10, total_iters=9)
        for k in (1, 2, 3, 4)
    ]
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, members, milestones)
    assert _rates(schedule, optimizer, 3) == expected


@pytest.mark.parametrize("given", [0.95, [0.95]])
def test_a_factor_must_be_a_function(given):
    optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
    with pytest.raises(TypeError, match="lr_lambda should be a function, but got float"):
        torch.optim.lr_scheduler.MultiplicativeLR(optimizer, given)


def test_averaging_that_goes_on_starts_from_the_rates_it_finds():
    first = torch.optim.SGD([torch.ones(2)], lr=0.1)
    schedule = torch.optim.swa_utils.SWALR(first, swa_lr=0.01)
    assert _rates(schedule, first, 5)[-1] == 0.068906
    second = torch.optim.SGD([torch.ones(2)], lr=0.1)
    second.load_state_dict(first.state_dict())
    again = torch.optim.swa_utils.SWALR(second, swa_lr=0.01, last_epoch=4)
    assert abs(again.get_last_lr()[0] - 0.055) < 1e-9
    assert _rates(again, second, 3)[:2] == [0.055, 0.053899]


# --- Layers ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(3, 5), (0, 5)])
def test_trunc_normal_of_the_meta_device(shape):
    x = torch.nn.init.trunc_normal_(torch.empty(shape, device="meta"))
    assert x.is_meta and x.shape == shape


def test_a_packed_sequence_without_steps_cannot_be_padded():
    empty = torch.nn.utils.rnn.PackedSequence(torch.ones(0, 5), torch.ones(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="no steps"):
        torch.nn.utils.rnn.pad_packed_sequence(empty)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (torch.nn.Conv2d, torch.channels_last),
        (torch.nn.ConvTranspose2d, torch.channels_last),
        (torch.nn.Conv3d, torch.channels_last_3d),
    ],
)
def test_a_seed_gives_the_same_weights_however_they_lie(kind, order):
    layer = kind(3, 6, 3)
    torch.manual_seed(42)
    layer.reset_parameters()
    before = layer.weight.detach().clone()
    layer.to(memory_format=order)
    torch.manual_seed(42)
    layer.reset_parameters()
    assert torch.equal(layer.weight, before) and layer.weight.is_contiguous(memory_format=order)


def test_a_buffer_may_be_of_a_class_that_answers_for_ops():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    module, first, second = torch.nn.Module(), Like(), Like()
    module.register_buffer("b", first)
    assert module.b is first and dict(module.named_buffers())["b"] is first
    module.b = second
    assert module.b is second
    with pytest.raises(TypeError):
        module.b = 3


def test_statistics_of_an_instance_norm_may_be_narrower_than_its_input():
    layer = torch.nn.InstanceNorm1d(5, track_running_stats=True)
    out = layer(torch.randn(2, 5, 4, dtype=torch.float64))
    assert out.dtype == torch.float64 and layer.running_mean.dtype == torch.float32
    assert layer.running_mean.abs().sum() > 0


@pytest.mark.parametrize(
    ("method", "chunk"), [("aspect_ratio", 8), ("aspect_ratio:2", 4), ("auto", 8), (None, 8)]
)
def test_chunks_by_the_shape_of_the_weight(method, chunk):
    options = torch.nn.LinearCrossEntropyOptions(chunking_method=method)
    assert options.samples_in_chunk(32, 40, 10) == chunk


@pytest.mark.parametrize("method", ["aspect_ratio:0", "aspect_ratio:-1", "aspect_ratio:", "x"])
def test_other_ways_to_cut_are_refused(method):
    with pytest.raises(ValueError, match="invalid chunking_method"):
        torch.nn.LinearCrossEntropyOptions(chunking_method=method)


def test_what_is_no_number_has_no_distance_of_order_zero():
    x = torch.tensor([[math.inf, 1.0], [math.inf, 2.0], [0.0, 1.0]])
    near, far, other = torch.nn.functional.pdist(x, p=0.0).tolist()
    assert math.isnan(near) and far == 1 and other == 2
    assert math.isnan(torch.cdist(x[:1], x[1:2], p=0.0).item())
