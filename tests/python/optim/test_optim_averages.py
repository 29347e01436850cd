"""Averages of weights, their schedule, and Muon."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.optim import swa_utils


def test_an_averaged_model_holds_the_mean_of_what_it_saw():
    net = torch.nn.Linear(2, 2)
    averaged = swa_utils.AveragedModel(net)
    for value in (1.0, 2.0, 6.0):
        torch.nn.init.constant_(net.weight, value)
        averaged.update_parameters(net)
    assert torch.allclose(averaged.module.weight, torch.full((2, 2), 3.0))
    assert averaged.n_averaged == 3 and averaged(torch.ones(1, 2)).shape == (1, 2)
    again = swa_utils.AveragedModel(torch.nn.Linear(2, 2))
    again.load_state_dict(averaged.state_dict())
    assert torch.equal(again.module.weight, averaged.module.weight)


def test_an_exponential_average_moves_by_its_share():
    net = torch.nn.Linear(1, 1)
    averaged = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    for value in (0.0, 1.0):
        torch.nn.init.constant_(net.weight, value)
        averaged.update_parameters(net)
    assert averaged.module.weight.item() == pytest.approx(0.1)


def test_integer_buffers_are_averaged_too():
    net = torch.nn.BatchNorm1d(1)
    averaged = swa_utils.AveragedModel(net, use_buffers=True)
    for _ in range(3):
        net(torch.randn(4, 1))
        averaged.update_parameters(net)
    assert averaged.module.num_batches_tracked.dtype == torch.int64


def test_statistics_are_computed_anew_over_a_loader():
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(1)).eval()
    data = [torch.tensor([[0.0], [2.0]]), torch.tensor([[4.0], [6.0]])]
    swa_utils.update_bn(data, net)
    assert net[0].running_mean.item() == 3.0 and net[0].momentum == 0.1 and not net.training


def test_the_schedule_ends_at_its_rate_and_stays():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, 0.1, anneal_epochs=3, anneal_strategy="linear")
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([1.0, 0.7, 0.4, 0.1, 0.1])


def test_muon_steps_along_an_orthogonal_matrix():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(4, 6))
    weight.grad = torch.randn(4, 6)
    torch.optim.Muon([weight], lr=1.0, weight_decay=0).step()
    gram = weight.detach() @ weight.detach().T
    # The polynomial leaves singular values between about 0.7 and 1.2.
    assert (gram.diagonal() > 0.4).all() and (gram.diagonal() < 1.6).all()
    assert (gram - torch.diag(gram.diagonal())).abs().max() < 0.4
    with pytest.raises(ValueError, match="2D parameters"):
        torch.optim.Muon([torch.nn.Parameter(torch.zeros(3))])
