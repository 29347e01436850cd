# ruff: noqa
# fmt: off
# Distributions: the same samples from the same seed, densities, moments, errors; those first that
# need no special functions.
D = torch.distributions
def ask(make, *names):
    d = make()
    torch.manual_seed(3)
    found = {"repr": repr(d), "shapes": (d.batch_shape, d.event_shape), "rsample": d.has_rsample}
    x = d.sample((4,))
    found["sample"], found["log_prob"] = x, d.log_prob(x)
    found["support"] = d.support.check(x)
    wide = d.expand((2,) + tuple(d.batch_shape))
    torch.manual_seed(4)
    found["wide"] = (wide.batch_shape, wide.sample().shape, wide.log_prob(x[:2]))
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
normal = ask(lambda: D.Normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])), *all4, "perplexity")
scalar = ask(lambda: D.Normal(0.5, 2), *all4)
uniform = ask(lambda: D.Uniform(torch.tensor([0.0, -1.0]), torch.tensor([1.0, 2.0])), *all4)
bernoulli = ask(lambda: D.Bernoulli(torch.tensor([0.2, 0.5, 1.0])), *all4, "enumerate_support", "logits")
bernoulli2 = ask(lambda: D.Bernoulli(logits=torch.tensor([0.2, -3.0])), *all4, "probs")
categorical = ask(lambda: D.Categorical(torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])), *all4, "enumerate_support", "logits", "param_shape")
categorical2 = ask(lambda: D.Categorical(logits=torch.tensor([0.1, 2.0, -3.0])), *all4, "probs")
onehot = ask(lambda: D.OneHotCategorical(torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])), *all4, "enumerate_support")
exponential = ask(lambda: D.Exponential(torch.tensor([0.5, 2.0])), *all4)
cauchy = ask(lambda: D.Cauchy(torch.tensor([0.5, 2.0]), 1.5), *all4)
laplace = ask(lambda: D.Laplace(torch.tensor([0.5, 2.0]), 1.5), *all4)
geometric = ask(lambda: D.Geometric(torch.tensor([0.3, 0.9])), *all4)
geometric2 = ask(lambda: D.Geometric(logits=torch.tensor([0.3, 0.9])), "mean", "probs")
lognormal = ask(lambda: D.LogNormal(torch.tensor([0.3, 0.9]), 0.5), *all4)
halfnormal = ask(lambda: D.HalfNormal(torch.tensor([0.3, 0.9])), *all4)
halfcauchy = ask(lambda: D.HalfCauchy(torch.tensor([0.3, 0.9])), *all4)
gumbel = ask(lambda: D.Gumbel(torch.tensor([0.3, 0.9]), 2.0), *all4)
pareto = ask(lambda: D.Pareto(torch.tensor([0.3, 0.9]), torch.tensor([0.5, 3.0])), *all4)
relaxed = ask(lambda: D.RelaxedBernoulli(torch.tensor(0.7), torch.tensor([0.3, 0.9])), "probs", "logits", "temperature")
contbern = ask(lambda: D.ContinuousBernoulli(torch.tensor([0.3, 0.5, 0.9])), "mean", "variance", "entropy", "logits")
logistic = ask(lambda: D.LogisticNormal(torch.tensor([0.3, 0.9]), torch.tensor([1.0, 0.5])), "loc")
mixture = ask(lambda: D.MixtureSameFamily(D.Categorical(torch.tensor([0.3, 0.7])), D.Normal(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.5]))), "mean", "variance")
independent = ask(lambda: D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1), *all4)
transformed = ask(lambda: D.TransformedDistribution(D.Normal(torch.zeros(2), 1.0), [D.AffineTransform(1.0, 2.0), D.SigmoidTransform()]))
vonmises = ask(lambda: D.VonMises(torch.tensor([0.3, 2.0]), torch.tensor([0.5, 30.0])), "mean", "variance")
gpareto = ask(lambda: D.GeneralizedPareto(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([0.2, -0.3])), "mean", "variance", "entropy")
line = path(lambda a: D.Uniform(a, torch.tensor(3.0)), [0.1, 0.2])
paths = [path(lambda a, b: D.Normal(a, b), [0.1, 0.2], [1.0, 2.0]), path(lambda a: D.Exponential(a), [0.5, 2.0]), path(lambda a, b: D.Laplace(a, b), [0.1, 0.2], [1.0, 2.0]), path(lambda a, b: D.Cauchy(a, b), [0.1, 0.2], [1.0, 2.0]), path(lambda a, b: D.Gumbel(a, b), [0.1, 0.2], [1.0, 2.0]), path(lambda a, b: D.LogNormal(a, b), [0.1, 0.2], [1.0, 2.0]), path(lambda a: D.RelaxedBernoulli(torch.tensor(0.5), logits=a), [0.1, 0.2]), path(lambda a: D.ContinuousBernoulli(a), [0.1, 0.2]), path(lambda a: D.HalfNormal(a), [0.1, 0.2]), path(lambda a, b: D.Pareto(a, b), [0.1, 0.2], [1.0, 2.0])]
v = torch.tensor([0.1, 0.4, 0.9])
cdfs = [D.Normal(0.2, 1.3).cdf(v), D.Uniform(0.0, 2.0).cdf(v), D.Uniform(0.0, 2.0).icdf(v), D.Exponential(2.0).cdf(v), D.Exponential(2.0).icdf(v), D.Laplace(0.0, 2.0).cdf(v), D.Laplace(0.0, 2.0).icdf(v), D.Cauchy(0.0, 2.0).cdf(v), D.Cauchy(0.0, 2.0).icdf(v), D.LogNormal(0.0, 2.0).cdf(v), D.HalfNormal(2.0).cdf(v), D.HalfCauchy(2.0).icdf(v), D.Gumbel(0.0, 2.0).cdf(v), D.Gumbel(0.0, 2.0).icdf(v), D.ContinuousBernoulli(0.3).cdf(v), D.ContinuousBernoulli(0.3).icdf(v), D.Pareto(0.05, 2.0).cdf(v), D.Pareto(0.05, 2.0).icdf(v), D.GeneralizedPareto(0.0, 1.0, 0.3).cdf(v), D.GeneralizedPareto(0.0, 1.0, 0.0).icdf(v)]
e1 = D.Normal(0.0, -1.0)
e2 = D.Normal(0.0, 1.0).log_prob(torch.tensor(float("nan")))
e3 = D.Categorical()
e4 = D.Categorical(torch.tensor([-1.0, 2.0]))
e5 = D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
e6 = D.Bernoulli(torch.tensor(1.5))
e7 = D.Normal(0.0, 1.0).log_prob(1.0)
e8 = D.Uniform(1.0, 0.0)
e9 = D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))
fine = D.Normal(0.0, -1.0, validate_args=False).log_prob(torch.tensor(0.5))
st = path(lambda a: D.OneHotCategoricalStraightThrough(a), [0.1, 0.9])
# %%
# Divergences.
D = torch.distributions
t = torch.tensor
n, u, e = D.Normal(t([0.1, 2.0]), 1.5), D.Uniform(t([0.1, 0.2]), t([0.8, 0.9])), D.Exponential(t([0.5, 2.0]))
n2, u2, e2 = D.Normal(t([0.3, 1.0]), 0.5), D.Uniform(0.0, t([1.0, 0.5])), D.Exponential(t([1.5, 1.0]))
l, l2 = D.Laplace(t([0.3, 1.0]), 0.5), D.Laplace(t([0.1, 1.5]), 1.5)
g, g2 = D.Gumbel(t([0.3, 1.0]), 0.5), D.Gumbel(t([0.1, 1.5]), 1.5)
b, b2 = D.Bernoulli(t([0.3, 1.0])), D.Bernoulli(t([0.1, 0.5]))
c, c2 = D.Categorical(t([[0.3, 0.7], [0.0, 1.0]])), D.Categorical(t([[0.5, 0.5], [1.0, 1.0]]))
p, p2 = D.Pareto(0.5, t([3.0, 1.0])), D.Pareto(0.3, t([2.0, 2.5]))
cb, cb2 = D.ContinuousBernoulli(t([0.3, 0.5])), D.ContinuousBernoulli(t([0.1, 0.5]))
K = D.kl_divergence
same = [K(n, n2), K(u, u2), K(u2, u), K(e, e2), K(l, l2), K(b, b2), K(c, c2), K(p, p2), K(cb, cb2), K(D.OneHotCategorical(t([0.3, 0.7])), D.OneHotCategorical(t([0.5, 0.5]))), K(D.Geometric(t([0.3])), D.Geometric(t([0.7]))), K(D.HalfNormal(t([0.3])), D.HalfNormal(t([0.7]))), K(D.Cauchy(0.0, t([0.3])), D.Cauchy(1.0, t([0.7]))), K(D.LogNormal(t([0.3]), 1.0), D.LogNormal(t([0.7]), 2.0)), K(D.Independent(n, 1), D.Independent(n2, 1)), K(D.Poisson(t([0.3])), D.Poisson(t([0.7])))]
cross = [K(n, g), K(n, l), K(l, n), K(g, n), K(u, n), K(e, n), K(e, g), K(u, e), K(u, g), K(u, cb), K(cb, e), K(cb, n), K(p, e), K(p, n), K(u, p2), K(n, u), K(e, u), K(l, p), K(e, p)]
e1 = K(n, c)
class Mine(D.Normal):
    pass
mine = K(Mine(0.0, 1.0), D.Normal(1.0, 1.0))
@D.register_kl(Mine, D.Normal)
def kl_mine(p, q):
    return torch.tensor(42.0)
mine2 = K(Mine(0.0, 1.0), D.Normal(1.0, 1.0))
# %%
# Transforms and constraints.
D = torch.distributions
T, C = D.transforms, D.constraints
torch.manual_seed(0)
x = torch.randn(3, 4)
def look(t, x):
    y = t(x)
    return y, t.inv(y), t.log_abs_det_jacobian(x, y), t.forward_shape(x.shape), t.inverse_shape(y.shape), repr(t), t.bijective, t.domain.event_dim, t.codomain.event_dim, t.codomain.check(y)
looks = [look(T.ExpTransform(), x), look(T.SigmoidTransform(), x), look(T.TanhTransform(), x), look(T.SoftplusTransform(), x), look(T.AffineTransform(1.0, -2.0), x), look(T.AffineTransform(torch.arange(4.0), torch.ones(4), event_dim=1), x), look(T.PowerTransform(torch.tensor(2.0)), x.abs()), look(T.StickBreakingTransform(), x), look(T.ComposeTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)]), x), look(T.IndependentTransform(T.ExpTransform(), 1), x), look(T.ReshapeTransform((4,), (2, 2)), x), look(T.ComposeTransform([T.AffineTransform(1.0, 2.0), T.StickBreakingTransform()]), x)]
soft = [T.SoftmaxTransform()(x), T.SoftmaxTransform().inv(T.SoftmaxTransform()(x)), T.LowerCholeskyTransform()(x[:, :3]), T.CorrCholeskyTransform()(x[:, :3]), T.CorrCholeskyTransform().inv(T.CorrCholeskyTransform()(x[:, :3])), T.CorrCholeskyTransform().log_abs_det_jacobian(x[:, :3], T.CorrCholeskyTransform()(x[:, :3])), T.CorrCholeskyTransform().forward_shape((6,)), T.AbsTransform()(x)]
cat = T.CatTransform([T.ExpTransform(), T.identity_transform], dim=1, lengths=[1, 3])
cats = [cat(x), cat.inv(cat(x)), cat.log_abs_det_jacobian(x, cat(x)), T.StackTransform([T.ExpTransform(), T.identity_transform, T.TanhTransform()], dim=0)(x)]
equal = [T.ExpTransform() == T.ExpTransform(), T.AffineTransform(1.0, 2.0) == T.AffineTransform(1.0, 2.0), T.AffineTransform(1.0, 2.0) == T.AffineTransform(1.0, 3.0), T.ExpTransform().inv == T.ExpTransform().inv, T.ExpTransform().inv.inv == T.ExpTransform()]
cached = T.ExpTransform(cache_size=1)
y = cached(x)
kept = cached.inv(y) is x
to = [D.transform_to(c)(x) for c in (C.real, C.positive, C.greater_than(2.0), C.less_than(-1.0), C.interval(1.0, 3.0), C.unit_interval, C.simplex, C.half_open_interval(0.0, 2.0), C.nonnegative)]
tos = list(to)
bi = [D.biject_to(C.simplex)(x), D.biject_to(C.independent(C.positive, 1))(x)]
checks = [C.positive.check(x), C.simplex.check(torch.tensor([0.5, 0.5])), C.boolean.check(torch.tensor([0.0, 0.5])), C.integer_interval(0, 2).check(torch.tensor([0.0, 0.5, 3.0])), C.real.check(torch.tensor([float("nan"), 1.0])), C.one_hot.check(torch.tensor([[0.0, 1.0], [1.0, 1.0]])), C.lower_triangular.check(torch.eye(2)), C.lower_cholesky.check(torch.eye(2)), C.symmetric.check(torch.ones(2, 2)), C.square.check(torch.ones(2, 3)), C.nonnegative_integer.check(torch.tensor([0.0, -1.0])), C.multinomial(3).check(torch.tensor([1.0, 2.0])), C.cat([C.positive, C.real], 0, [1, 2]).check(torch.tensor([-1.0, 1.0, 2.0])), C.stack([C.positive, C.real], 0).check(torch.tensor([[-1.0], [1.0]]))]
reprs = [repr(c) for c in (C.real, C.positive, C.simplex, C.interval(0.0, 1.0), C.integer_interval(0, 3), C.real_vector, C.boolean, C.less_than(2), C.dependent)]
shown = list(reprs)
e1 = C.dependent.check(x)
e2 = D.transform_to(C.boolean)
e3 = T.ExpTransform(cache_size=3)
u = D.utils
ut = [u.broadcast_all(1.0, torch.zeros(2)), u.probs_to_logits(torch.tensor([0.2, 0.8])), u.logits_to_probs(torch.tensor([0.2, 0.8]), is_binary=True), u.clamp_probs(torch.tensor([0.0, 1.0])), u.tril_matrix_to_vec(torch.arange(9.0).view(3, 3)), u.vec_to_tril_matrix(torch.arange(6.0)), u.vec_to_tril_matrix(torch.arange(3.0), -1)]
e4 = u.broadcast_all("x")
