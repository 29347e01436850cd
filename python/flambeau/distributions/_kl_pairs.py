"""The divergences of pairs of distributions: first of one family, then of different ones."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.bernoulli import Bernoulli
from flambeau.distributions.beta import Beta
from flambeau.distributions.binomial import Binomial
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.continuous_bernoulli import ContinuousBernoulli
from flambeau.distributions.dirichlet import Dirichlet
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.exponential import Exponential
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.geometric import Geometric
from flambeau.distributions.gumbel import Gumbel
from flambeau.distributions.half_normal import HalfNormal
from flambeau.distributions.independent import Independent
from flambeau.distributions.kl import (
    _batch_trace_XXT,
    _infinite_like,
    _x_log_x,
    kl_divergence,
    register_kl,
)
from flambeau.distributions.laplace import Laplace
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from flambeau.distributions.normal import Normal
from flambeau.distributions.one_hot_categorical import OneHotCategorical
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.poisson import Poisson
from flambeau.distributions.transformed_distribution import TransformedDistribution
from flambeau.distributions.uniform import Uniform
from flambeau.distributions.utils import _sum_rightmost, euler_constant

_LOG_2PI = math.log(2 * math.pi)


# One family ---------------------------------------------------------------------------------------
@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    softplus = flambeau.nn.functional.softplus
    # In logits, which stay exact where a probability is close to one.
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1[q.probs == 0] = flambeau.inf
    t1[p.probs == 0] = 0
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2[q.probs == 1] = flambeau.inf
    t2[p.probs == 1] = 0
    return t1 + t2


@register_kl(Beta, Beta)
def _beta_beta(p: Any, q: Any) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * flambeau.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * flambeau.digamma(p.concentration0)
    t5 = (total_q - total_p) * flambeau.digamma(total_p)
    return t1 - t2 + t3 + t4 + t5


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    kl[p.total_count > q.total_count] = flambeau.inf
    return kl


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = flambeau.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: Any, q: Any) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli_same(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + flambeau.log1p(-p.probs)
    t3 = -q._cont_bern_log_norm() - flambeau.log1p(-q.probs)
    return t1 + t2 + t3


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Any, q: Any) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = total_p.lgamma() - total_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = p.concentration - q.concentration
    t4 = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return t1 - t2 + (t3 * t4).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    params_p = [param.detach().requires_grad_() for param in p._natural_params]
    params_q = q._natural_params
    normalizer = p._log_normalizer(*params_p)
    gradients = flambeau.autograd.grad(normalizer.sum(), params_p, create_graph=True)
    result = q._log_normalizer(*params_q) - normalizer
    for param_p, param_q, gradient in zip(params_p, params_q, gradients):
        term = (param_q - param_p) * gradient
        result = result - _sum_rightmost(term, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = flambeau.lgamma(q.concentration) - flambeau.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * flambeau.digamma(p.concentration)
    t4 = (q.rate - p.rate) * (p.concentration / p.rate)
    return t1 + t2 + t3 + t4


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    t1 = -ratio.log() - shift
    t2 = flambeau.exp(shift + (1 + ratio).lgamma())
    return t1 + ratio * euler_constant + t2 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - flambeau.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: Any, q: Any) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    t2, t3 = distance / q.scale, distance / p.scale
    return -ratio.log() + t2 + ratio * flambeau.exp(-t3) - 1


@register_kl(Normal, Normal)
def _normal_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    t1 = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + t1 - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Any, q: Any) -> Tensor:
    scale_ratio, alpha_ratio = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return result.masked_fill(p.support.lower_bound < q.support.lower_bound, flambeau.inf)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), flambeau.inf)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Any, q: Any) -> Tensor:
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# Multivariate normal ------------------------------------------------------------------------------
def _solve(factor: Tensor, right: Tensor) -> Tensor:
    """factor^-1 right, for a lower triangular factor."""
    batch = flambeau.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    factor = factor.expand(batch + factor.shape[-2:])
    right = right.expand(batch + right.shape[-2:])
    return flambeau.linalg.solve_triangular(factor, right, upper=False)


def _check_sizes(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {type(p).__name__}s with different event shapes cannot be "
            f"computed: {p.event_shape} and {q.event_shape}"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
def _mvn_mvn(p: Any, q: Any) -> Tensor:
    _check_sizes(p, q)
    half_term = q._half_log_det() - p._half_log_det()
    solved = _solve(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half_term + 0.5 * (_batch_trace_XXT(solved) + distance - p.event_shape[0])


def _low_rank_trace(q: Any, factor: Tensor) -> Tensor:
    """The trace of q's precision times factor factor^T."""
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    inner = _solve(q._capacitance_tril, scaled @ factor)
    direct = _batch_trace_XXT(factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
    return direct - _batch_trace_XXT(inner)


def _low_rank_distance(q: Any, offset: Tensor) -> Tensor:
    """The squared distance of an offset in the metric of q."""
    return _low_rank_trace(q, offset.unsqueeze(-1))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank_low_rank(p: Any, q: Any) -> Tensor:
    _check_sizes(p, q)
    diagonal = flambeau.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    trace = _low_rank_trace(q, p._unbroadcasted_cov_factor) + _low_rank_trace(q, diagonal)
    distance = _low_rank_distance(q, q.loc - p.loc)
    return 0.5 * (q._log_det() - p._log_det() + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _mvn_low_rank(p: Any, q: Any) -> Tensor:
    _check_sizes(p, q)
    log_det = q._log_det() - 2 * p._half_log_det()
    trace = _low_rank_trace(q, p._unbroadcasted_scale_tril)
    distance = _low_rank_distance(q, q.loc - p.loc)
    return 0.5 * (log_det + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_mvn(p: Any, q: Any) -> Tensor:
    _check_sizes(p, q)
    log_det = 2 * q._half_log_det() - p._log_det()
    factor = q._unbroadcasted_scale_tril
    diagonal = flambeau.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    trace = _batch_trace_XXT(_solve(factor, p._unbroadcasted_cov_factor)) + _batch_trace_XXT(
        _solve(factor, diagonal)
    )
    distance = _batch_mahalanobis(factor, q.loc - p.loc)
    return 0.5 * (log_det + trace + distance - p.event_shape[0])


# Different families -------------------------------------------------------------------------------
@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    logs = p.mean * q.logits + flambeau.log1p(-q.probs) + q._cont_bern_log_norm()
    return -p.entropy() - logs


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    total = p.concentration1 + p.concentration0
    mean_log = p.concentration1.digamma() - total.digamma()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + t2 - (q.concentration - 1) * mean_log + q.rate * p.mean


def _cross_normal(p: Any, q: Any) -> Tensor:
    """The divergence from a normal distribution, by entropy, mean and variance."""
    spread = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * _LOG_2PI + q.scale.log() + 0.5 * spread / q.scale.pow(2)


for _kind in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_kind, Normal)(_cross_normal)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _cross_normal(p, q).masked_fill(p.alpha <= 2, flambeau.inf)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return result.masked_fill((q.low > 0) | (q.high < 1), flambeau.inf)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return result.masked_fill((q.low > 0) | (q.high < 1), flambeau.inf)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    t1 = -q.concentration * flambeau.log(ratio)
    constant = 1 + euler_constant
    return t1 + ratio + q.concentration.lgamma() + q.concentration * euler_constant - constant


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    loc = q.loc / q.scale
    t1 = product.log() - 1
    t2 = product.reciprocal()
    t3 = flambeau.exp(loc) * product / (product + 1)
    return t1 - loc + t2 + t3


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    loc = q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma()
    t1 = t1 - p.concentration
    t2 = product.log() + p.concentration / product
    t3 = flambeau.exp(loc) * (1 + product.reciprocal()).pow(-p.concentration) - loc
    return t1 + t2 + t3


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean_ratio, square = (p.loc - q.loc) / q.scale, (p.scale / q.scale).pow(2)
    t1 = mean_ratio
    t2 = flambeau.exp(-mean_ratio + 0.5 * square)
    t3 = -flambeau.log(p.scale / q.scale) - 0.5 * (1 + _LOG_2PI)
    return t1 + t2 + t3


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    offset = p.loc - q.loc
    ratio = p.scale / q.scale
    standard = offset / p.scale
    t1 = flambeau.log(ratio)
    t2 = math.sqrt(2 / math.pi) * p.scale * flambeau.exp(-0.5 * standard.pow(2))
    t3 = offset * flambeau.erf(math.sqrt(0.5) * standard)
    return -t1 + (t2 + t3) / q.scale - (0.5 * (1 + _LOG_2PI) - math.log(2))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    product = p.scale * q.rate
    t1 = (p.alpha / product).log() - p.alpha.reciprocal()
    result = t1 + p.alpha * product / (p.alpha - 1) - 1
    return result.masked_fill(p.alpha <= 1, flambeau.inf)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - mean_log
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * mean_log
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return (t1 + t2 + t3 + t4 - 1).masked_fill(p.alpha <= 1, flambeau.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = flambeau.log(width)
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    mean_log_rest = (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    t2 = (q.concentration1 - 1) * mean_log - (q.concentration0 - 1) * mean_log_rest
    t3 = q.concentration1.lgamma() + q.concentration0.lgamma()
    result = t3 - (q.concentration1 + q.concentration0).lgamma() - (t1 + t2)
    return result.masked_fill((p.high > 1) | (p.low < 0), flambeau.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    logs = p.mean * q.logits + flambeau.log1p(-q.probs) + q._cont_bern_log_norm()
    return (-p.entropy() - logs).masked_fill((p.high > 1) | (p.low < 0), flambeau.inf)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return result.masked_fill(p.low < 0, flambeau.inf)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * mean_log + q.rate * (p.high + p.low) / 2
    return (-width.log() + t2 + t3).masked_fill(p.low < 0, flambeau.inf)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    t1 = width.log() + 0.5 * (high + low)
    return t1 - width * (flambeau.exp(-high) - flambeau.exp(-low))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    logs = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * mean_log
    return (-p.entropy() - logs).masked_fill(p.low < q.scale, flambeau.inf)


# Pairs where p has values that q never takes ------------------------------------------------------
def _infinite(parameter: str, kinds: tuple[type, ...], others: tuple[type, ...]) -> None:
    def infinite(p: Any, q: Any) -> Tensor:
        return _infinite_like(getattr(p, parameter))

    for kind in kinds:
        for other in others:
            register_kl(kind, other)(infinite)


_infinite("concentration1", (Beta,), (Pareto,))
_infinite("probs", (ContinuousBernoulli,), (Pareto,))
_infinite("rate", (Exponential,), (Beta, ContinuousBernoulli, Pareto, Uniform))
_infinite("concentration", (Gamma,), (Beta, ContinuousBernoulli, Pareto, Uniform))
_on_line = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_infinite("loc", (Gumbel, Laplace, Normal), _on_line)
_infinite("alpha", (Pareto,), (Beta, ContinuousBernoulli, Uniform))
_infinite("rate", (Poisson,), (Bernoulli, Binomial))
