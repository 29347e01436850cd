# ruff: noqa
# fmt: off
# Distributions that rest on the gamma function and on decompositions. Where samples wait for the
# samplers of the core, densities at given values are compared.
D = torch.distributions
t = torch.tensor
def ask(make, *names):
    d = make()
    torch.manual_seed(3)
    found = {"repr": repr(d), "shapes": (d.batch_shape, d.event_shape), "rsample": d.has_rsample}
    x = d.sample((4,))
    found["sample"], found["log_prob"] = x, d.log_prob(x)
    found["support"] = d.support.check(x)
    for name in names:
        value = getattr(d, name)
        found[name] = value() if callable(value) else value
    return found
def path(make, *starts):
    torch.manual_seed(5)
    leaves = [torch.tensor(s, requires_grad=True) for s in starts]
    d = make(*leaves)
    y = d.rsample((3,))
    g = torch.autograd.grad((y * torch.arange(float(y.numel())).view(y.shape)).sum(), leaves)
    h = torch.autograd.grad(d.log_prob(y.detach()).sum(), leaves)
    return y.detach(), g, h
all4 = ("mean", "variance", "stddev", "mode", "entropy")
def at(d, x, *names):
    found = {"log_prob": d.log_prob(x), "support": d.support.check(x), "repr": repr(d)}
    for name in names:
        value = getattr(d, name)
        found[name] = value() if callable(value) else value
    return found
x = t([[0.2, 0.7], [0.4, 0.9]])
dens = [at(D.Gamma(t([0.5, 2.0]), t([1.0, 3.0])), x, *all4), at(D.Chi2(t([0.5, 2.0])), x, *all4, "df"), at(D.Beta(t([0.5, 2.0]), 3.0), x, *all4), at(D.StudentT(t([1.5, 3.0])), x, *all4), at(D.FisherSnedecor(t([1.5, 3.0]), t([5.0, 6.0])), x, "mean", "variance", "mode"), at(D.InverseGamma(t([1.5, 3.0]), t([5.0, 6.0])), x, *all4), at(D.Weibull(t([1.5, 3.0]), t([1.5, 2.0])), x, *all4), at(D.Kumaraswamy(t([1.5, 3.0]), t([0.5, 2.0])), x, "mean", "variance", "entropy"), at(D.Dirichlet(t([[0.5, 2.0], [3.0, 4.0]])), t([[0.2, 0.8], [0.4, 0.6]]), *all4)]
counts = t([[0.0, 3.0], [2.0, 10.0]])
disc = [at(D.Binomial(10, t([0.5, 0.2])), counts, "mean", "variance", "mode", "entropy", "enumerate_support"), at(D.NegativeBinomial(3.0, t([0.5, 0.2])), counts, "mean", "variance", "mode"), at(D.LKJCholesky(3, t([0.5, 2.0])), torch.eye(3)), at(D.Wishart(t(4.0), torch.eye(2) + 0.1), torch.eye(2), "mean", "variance", "entropy")]
poisson = ask(lambda: D.Poisson(t([0.5, 20.0])), "mean", "variance", "mode")
multinomial = ask(lambda: D.Multinomial(5, t([0.5, 0.2, 0.3])), "mean", "variance", "entropy")
relaxed = ask(lambda: D.RelaxedOneHotCategorical(t(0.7), t([0.5, 0.2, 0.3])), "probs")
mvn = ask(lambda: D.MultivariateNormal(t([0.5, 0.2]), t([[2.0, 0.5], [0.5, 1.0]])), "mean", "variance", "entropy", "scale_tril")
mvn2 = ask(lambda: D.MultivariateNormal(t([0.5, 0.2]), precision_matrix=t([[2.0, 0.5], [0.5, 1.0]])), "covariance_matrix", "entropy")
lowrank = ask(lambda: D.LowRankMultivariateNormal(torch.zeros(3), torch.arange(3.0).view(3, 1), t([1.0, 2.0, 3.0])), "mean", "variance", "entropy", "covariance_matrix", "precision_matrix", "scale_tril")
K = D.kl_divergence
g, g2 = D.Gamma(t([0.5, 2.0]), t([1.0, 3.0])), D.Gamma(t([1.5, 1.0]), t([2.0, 0.5]))
b, b2 = D.Beta(t([0.5, 2.0]), 1.0), D.Beta(t([1.5, 1.0]), 2.0)
gu, gu2 = D.Gumbel(t([0.3, 1.0]), 0.5), D.Gumbel(t([0.1, 1.5]), 1.5)
e, n, u = D.Exponential(t([0.5, 2.0])), D.Normal(t([0.1, 2.0]), 1.5), D.Uniform(t([0.1, 0.2]), t([0.8, 0.9]))
m = D.MultivariateNormal(t([0.5, 0.2]), t([[2.0, 0.5], [0.5, 1.0]]))
r = D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), t([1.0, 2.0]))
kl = [K(g, g2), K(b, b2), K(gu, gu2), K(b, g), K(b, e), K(b, n), K(b, u), K(e, g), K(g, e), K(g, n), K(g, gu), K(u, b), K(u, g), K(m, r), K(r, m), K(m, m), K(r, r), K(D.Dirichlet(t([0.5, 2.0])), D.Dirichlet(t([1.5, 1.0]))), K(D.Binomial(3, t([0.5])), D.Binomial(3, t([0.2])))]
icdf = D.Normal(0.2, 1.3).icdf(t([0.1, 0.5, 0.9]))
cdf = g.cdf(t([0.3, 0.5]))
# %%
# Samples that rest on gamma, Dirichlet and binomial draws, and how they move with parameters.
D = torch.distributions
t = torch.tensor
def draw(d):
    torch.manual_seed(3)
    x = d.sample((6,))
    return x, d.log_prob(x), torch.rand(2)
A, B, P = [0.05, 0.4, 1.0, 3.5], [2.0, 0.7, 1.3, 9.0], [0.2, 0.5, 0.9, 0.7]
gamma = [draw(D.Gamma(t(A, dtype=k), t(B, dtype=k))) for k in (torch.float32, torch.float64)]
beta = [draw(D.Beta(t(A, dtype=k), t(B, dtype=k))) for k in (torch.float32, torch.float64)]
others = [draw(D.Dirichlet(t([A, B]))), draw(D.StudentT(t(B), t(A), 2.0)), draw(D.Chi2(t(B))), draw(D.FisherSnedecor(t(B), t(A) + 3)), draw(D.InverseGamma(t(B), t(A)))]
counts = [draw(D.Binomial(t([3.0, 20.0, 60.0, 1000.0]).double(), t(P).double())), draw(D.NegativeBinomial(t(B), t(P)))]
wishart = [draw(D.Wishart(4.0, t([[2.0, 0.3], [0.3, 1.0]]))), draw(D.Wishart(t([4.0, 5.0, 6.0]), torch.eye(3) + 0.1))]
lkj = draw(D.LKJCholesky(4, t([0.5, 2.0])))
torch.manual_seed(9)
raw = [torch._standard_gamma(t([A, B]).t()), torch._sample_dirichlet(t([A, B]).t()), torch.binomial(t([30.0, 4.0]), t([[0.3], [0.6]])), torch._standard_gamma(t(1e8, dtype=torch.float64))]
a, b = t(B, requires_grad=True), t(A, requires_grad=True)
torch.manual_seed(2)
slopes = torch.autograd.grad((D.Gamma(a, b).rsample() * t(P)).sum(), (a, b))
slopes = [(g * 500).round() for g in slopes]
