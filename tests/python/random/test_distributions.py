"""Distributions: densities that sum to one, samples that follow them, and what the parts promise
each other. tests/compat compares numbers with PyTorch's.
"""

from __future__ import annotations

import math
import pickle

import pytest

import flambeau as torch
from flambeau import distributions as D
from flambeau.distributions import constraints, kl_divergence, transforms

CONTINUOUS = [
    D.Normal(0.3, 1.2),
    D.Laplace(0.3, 0.7),
    D.Cauchy(0.0, 0.2),
    D.Gumbel(0.3, 0.5),
    D.LogNormal(0.0, 0.4),
    D.HalfNormal(1.2),
    D.Exponential(1.5),
    D.Uniform(-1.0, 2.0),
    D.Pareto(0.5, 3.0),
    D.ContinuousBernoulli(0.3),
    D.GeneralizedPareto(0.0, 1.0, 0.1),
    D.Gamma(2.0, 1.5),
    D.Chi2(3.0),
    D.InverseGamma(3.0, 2.0),
    D.MixtureSameFamily(
        D.Categorical(torch.tensor([0.3, 0.7])),
        D.Normal(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.5])),
    ),
]
DISCRETE = [
    D.Bernoulli(0.3),
    D.Categorical(torch.tensor([0.2, 0.5, 0.3])),
    D.Geometric(0.4),
    D.OneHotCategorical(torch.tensor([0.2, 0.5, 0.3])),
]


def name(d: D.Distribution) -> str:
    return type(d).__name__


@pytest.mark.parametrize("d", CONTINUOUS, ids=name)
def test_the_density_of_a_continuous_distribution_integrates_to_its_probabilities(d):
    torch.manual_seed(0)
    low, high = bounds(d)
    x = torch.linspace(low, high, 20001, dtype=torch.float64)
    density = d.log_prob(x.float()).double().exp()
    area = ((density[1:] + density[:-1]) / 2 * (x[1:] - x[:-1])).sum().item()
    expected = (d.cdf(torch.tensor(high)) - d.cdf(torch.tensor(low))).item()
    assert area == pytest.approx(expected, abs=2e-3)


def bounds(d: D.Distribution) -> tuple[float, float]:
    """An interval that most samples are in."""
    samples = d.sample((2000,)).sort().values
    return samples[100].item(), samples[-100].item()


@pytest.mark.parametrize("d", CONTINUOUS, ids=name)
def test_samples_follow_the_cumulative_distribution_function(d):
    torch.manual_seed(0)
    samples = d.sample((4000,)).sort().values
    expected = (torch.arange(4000) + 0.5) / 4000
    # The Kolmogorov-Smirnov statistic is below 1.95 / sqrt(n) in all but one run of a thousand.
    assert (d.cdf(samples) - expected).abs().max().item() < 1.95 / math.sqrt(4000)


INVERTIBLE = [
    d
    for d in CONTINUOUS
    if name(d)
    not in "MixtureSameFamily Normal LogNormal HalfNormal Gamma Chi2 InverseGamma".split()
]


@pytest.mark.parametrize("d", INVERTIBLE, ids=name)
def test_the_inverse_of_the_cumulative_distribution_function_undoes_it(d):
    p = torch.tensor([0.1, 0.4, 0.9])
    assert torch.allclose(d.cdf(d.icdf(p)), p, atol=1e-5)


@pytest.mark.parametrize("d", DISCRETE, ids=name)
def test_the_probabilities_of_a_discrete_distribution_sum_to_one(d):
    if d.has_enumerate_support:
        values = d.enumerate_support()
    else:
        values = torch.arange(200.0)
    assert d.log_prob(values).exp().sum(0).item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("d", DISCRETE[:1] + DISCRETE[2:], ids=name)
def test_moments_are_those_of_samples(d):
    torch.manual_seed(0)
    samples = d.sample((20000,))
    assert torch.allclose(samples.mean(0), d.mean, atol=0.05)
    assert torch.allclose(samples.var(0), d.variance, atol=0.15)


def test_gradients_reach_parameters_through_rsample_but_not_through_sample():
    loc = torch.zeros(3, requires_grad=True)
    d = D.Normal(loc, 1.0)
    d.rsample((5,)).sum().backward()
    assert loc.grad.tolist() == [5.0, 5.0, 5.0]
    assert not d.sample().requires_grad


def test_a_policy_gradient_is_what_the_formula_says():
    logits = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    d = D.Categorical(logits=logits)
    (-d.log_prob(torch.tensor(1)) * 2.0).backward()
    expected = 2 * (torch.softmax(logits.detach(), 0) - torch.tensor([0.0, 1.0, 0.0]))
    assert torch.allclose(logits.grad, expected)


def test_expanded_distributions_share_their_parameters_and_keep_their_class():
    d = D.Normal(torch.zeros(3), 1.0).expand((2, 3))
    assert type(d) is D.Normal and d.batch_shape == (2, 3) and d.loc.stride() == (0, 1)

    class Custom(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"custom \.expand"):
        Custom().expand((2,))


def test_wrong_parameters_and_values_are_refused_unless_checks_are_off():
    with pytest.raises(ValueError, match=r"Expected parameter scale .* GreaterThan"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        D.Bernoulli(0.5).log_prob(torch.tensor(0.5))
    with pytest.raises(ValueError, match="broadcastable"):
        D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
    assert D.Bernoulli(0.5, validate_args=False).log_prob(torch.tensor(0.5)).isfinite()
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize(
    "p, q",
    [
        (D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)),
        (D.Laplace(0.0, 1.0), D.Laplace(1.0, 2.0)),
        (D.Laplace(0.0, 1.0), D.Normal(1.0, 2.0)),
        (D.Normal(0.0, 1.0), D.Laplace(1.0, 2.0)),
        (D.Normal(0.0, 1.0), D.Gumbel(1.0, 2.0)),
        (D.Exponential(1.0), D.Exponential(2.0)),
        (D.Exponential(1.0), D.Gumbel(0.5, 2.0)),
        (D.Uniform(0.2, 0.8), D.Uniform(0.0, 1.0)),
        (D.Uniform(0.2, 0.8), D.Gumbel(0.5, 2.0)),
        (D.Uniform(0.2, 0.8), D.ContinuousBernoulli(0.3)),
        (D.ContinuousBernoulli(0.3), D.Uniform(0.0, 1.0)),
        (D.ContinuousBernoulli(0.3), D.ContinuousBernoulli(0.9)),
        (D.Pareto(1.0, 3.0), D.Exponential(0.5)),
        (D.Bernoulli(0.3), D.Bernoulli(0.6)),
        (D.Geometric(0.3), D.Geometric(0.6)),
        (D.Categorical(torch.tensor([0.3, 0.7])), D.Categorical(torch.tensor([0.6, 0.4]))),
    ],
    ids=lambda d: name(d),
)
def test_a_divergence_is_the_mean_of_the_difference_of_logarithms(p, q):
    torch.manual_seed(0)
    x = p.sample((40000,))
    difference = p.log_prob(x) - q.log_prob(x)
    expected = difference.mean().item()
    assert kl_divergence(p, q).item() == pytest.approx(expected, abs=0.03)


def test_divergences_without_a_formula_say_so_and_unreachable_ones_are_infinite():
    with pytest.raises(NotImplementedError, match="Normal and q type Categorical"):
        kl_divergence(D.Normal(0.0, 1.0), D.Categorical(torch.ones(2)))
    assert kl_divergence(D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0)).item() == math.inf


BIJECTIONS = [
    transforms.ExpTransform(),
    transforms.SigmoidTransform(),
    transforms.TanhTransform(),
    transforms.SoftplusTransform(),
    transforms.AffineTransform(1.0, -2.0),
    transforms.ComposeTransform([transforms.AffineTransform(1.0, 2.0), transforms.ExpTransform()]),
    transforms.StickBreakingTransform(),
]


@pytest.mark.parametrize("t", BIJECTIONS, ids=repr)
def test_bijections_are_inverted_and_their_jacobians_are_those_of_autograd(t):
    torch.manual_seed(0)
    x = torch.randn(4, dtype=torch.float64)
    y = t(x)
    assert torch.allclose(t.inv(y), x) and t.codomain.check(y).all()
    jacobian = torch.autograd.functional.jacobian(t, x)
    logs = t.log_abs_det_jacobian(x, y)
    if t.domain.event_dim:
        # The last part of the stick follows from the others; the matrix is triangular.
        expected = jacobian[:-1].diagonal().abs().log().sum()
    else:
        expected = jacobian.diagonal().abs().log()
    assert torch.allclose(logs, expected)


def test_a_cached_transform_gives_back_its_very_input():
    t = transforms.SigmoidTransform(cache_size=1)
    x = torch.randn(3)
    assert t.inv(t(x)) is x
    assert transforms.SigmoidTransform().inv(transforms.SigmoidTransform()(x)) is not x


@pytest.mark.parametrize(
    "c",
    [
        constraints.real,
        constraints.positive,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.unit_interval,
        constraints.interval(-2.0, 5.0),
        constraints.simplex,
        constraints.corr_cholesky,
        constraints.lower_cholesky,
        constraints.independent(constraints.positive, 1),
    ],
    ids=repr,
)
def test_a_constraint_is_reached_from_all_real_numbers(c):
    torch.manual_seed(0)
    x = torch.randn(5, 3, 3) if c is constraints.lower_cholesky else torch.randn(5, 3)
    assert c.check(D.transform_to(c)(x)).all()


def test_distributions_and_transforms_are_pickled():
    d = pickle.loads(pickle.dumps(D.LogNormal(torch.zeros(2), 1.0)))
    assert torch.equal(d.log_prob(torch.ones(2)), D.LogNormal(0.0, 1.0).log_prob(torch.ones(2)))


SAMPLED = [
    D.Beta(torch.tensor([0.5, 2.0]), torch.tensor([3.0, 1.5])),
    D.Dirichlet(torch.tensor([[0.5, 1.0, 2.5], [4.0, 1.0, 1.0]])),
    D.StudentT(torch.tensor([6.0, 9.0]), 1.0, 0.5),
    D.FisherSnedecor(torch.tensor([4.0, 8.0]), torch.tensor([12.0, 20.0])),
    D.Binomial(torch.tensor([5.0, 80.0]), torch.tensor([0.3, 0.8])),
    D.NegativeBinomial(torch.tensor([5.0, 8.0]), torch.tensor([0.3, 0.6])),
    D.Wishart(6.0, torch.tensor([[1.0, 0.3], [0.3, 0.5]])),
]


@pytest.mark.parametrize("d", SAMPLED, ids=name)
def test_samples_have_the_mean_and_the_variance_of_their_distribution(d):
    torch.manual_seed(0)
    x = d.sample((20000,))
    off = (x.mean(0) - d.mean) / (d.variance / 20000).sqrt()
    assert off.abs().max().item() < 4.5
    assert torch.allclose(x.var(0), d.variance, rtol=0.15)


def test_gamma_samples_are_those_that_pytorch_draws():
    torch.manual_seed(5)
    x = torch._standard_gamma(torch.tensor([2.5, 0.3, 1.0, 10.0]))
    want = [1.5262277126312256, 0.1376788467168808, 1.5321317911148071, 6.737154006958008]
    torch.testing.assert_close(x, torch.tensor(want))
    counts = torch.binomial(torch.tensor([4.0, 50.0, 1e6]), torch.tensor(0.4))
    assert counts.tolist() == [1.0, 18.0, 399572.0]


@pytest.mark.parametrize("make", [lambda a: D.Gamma(a, 1.0), lambda a: D.Beta(a, 2.0)])
def test_the_mean_of_sample_gradients_is_the_gradient_of_the_mean(make):
    a = torch.tensor([0.3, 1.0, 7.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(1)
    (by_samples,) = torch.autograd.grad(make(a).rsample((40000,)).mean(0).sum(), a)
    (by_mean,) = torch.autograd.grad(make(a).mean.sum(), a)
    torch.testing.assert_close(by_samples, by_mean, rtol=0.03, atol=0.0)


def test_a_dirichlet_of_one_part_or_tiny_concentrations_stays_finite():
    a = torch.tensor([[1e-4, 1e-4, 1e-4]], requires_grad=True)
    x = D.Dirichlet(a).rsample()
    x.square().sum().backward()
    assert x.isfinite().all() and a.grad.isfinite().all()
    one = torch.tensor([2.0], requires_grad=True)
    torch._sample_dirichlet(one).sum().backward()
    assert one.grad.tolist() == [0.0]


def test_binomial_draws_of_what_is_no_number_end():
    nan = math.nan
    counts = torch.tensor([nan, 5.0, -1.0, 5.0, 5.0])
    x = torch.binomial(counts, torch.tensor([0.5, nan, 0.5, -1.0, 2.0]))
    assert x[:2].isnan().all() and x[2:].tolist() == [0.0, 0.0, 5.0]
    with pytest.raises(ValueError, match="floating-point dtypes for count"):
        torch.binomial(torch.ones(2, dtype=torch.int64), torch.ones(2))
    with pytest.raises(RuntimeError, match="at least two devices, cpu and meta"):
        torch.binomial(torch.ones(2), torch.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match="derivative for aten::binomial is not implemented"):
        torch.binomial(torch.ones(2), torch.ones(2, requires_grad=True)).sum().backward()


def test_binomial_gradient_at_logits_of_zero() -> None:
    logits = torch.tensor(0.0, requires_grad=True)
    D.Binomial(10.0, logits=logits).log_prob(torch.tensor(3.0)).backward()
    assert logits.grad is not None and logits.grad.item() == -2.0


def test_gamma_log_prob_takes_a_number() -> None:
    assert D.Gamma(1.0, 1.0).log_prob(2).item() == -2.0
    assert D.Chi2(2.0).log_prob(0).item() == pytest.approx(math.log(0.5))


def test_parameters_that_are_plain_properties_are_checked() -> None:
    with pytest.raises(ValueError, match="Expected parameter df"):
        D.Chi2(torch.tensor([-2.0]))


def test_weibull_mode_below_concentration_one() -> None:
    mode = D.Weibull(torch.ones(2), torch.tensor([1.0, 0.5])).mode
    assert mode.tolist() == [0.0, 1.0]


def test_a_distribution_without_constraints_warns() -> None:
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Bare(validate_args=True)
