# ruff: noqa
# fmt: off
# torch.func: derivatives and batches of functions.
torch.manual_seed(0)
from_func = torch.func
grad, vjp, jvp, vmap, jacrev, jacfwd, hessian = from_func.grad, from_func.vjp, from_func.jvp, from_func.vmap, from_func.jacrev, from_func.jacfwd, from_func.hessian
x, y, w = torch.randn(3), torch.randn(3), torch.randn(3, requires_grad=True)
f = lambda a, b=2.0: (a.sin() * b).sum()
g1 = [grad(f)(x), grad(f)(x, y), grad(f, argnums=1)(x, y), grad(f, argnums=(0, 1))(x, y), grad(grad(torch.sin))(x[0]), grad(grad(grad(lambda a: a ** 4)))(x[1]), from_func.grad_and_value(f)(x), grad(lambda a: ((a * w).sum(), a), has_aux=True)(x), grad(lambda d: (d["a"] * d["b"]).sum())({"a": x, "b": y})]
outer = [grad(lambda a: (a * w).sum())(x).requires_grad, grad(lambda a: (a * 3).sum())(w).requires_grad, grad(lambda a: (a ** 2).sum())(w).requires_grad, grad(lambda a: (a ** 2).sum())(x).requires_grad]
h = grad(lambda a: (a ** 2 * w).sum())(x)
back = torch.autograd.grad(h.sum(), w)
with torch.no_grad():
    inside = grad(lambda a: (a ** 2).sum())(x)
out, fn = vjp(lambda a, b: (a * b, a.sum()), x, y)
v1 = [out, fn((torch.ones(3), torch.tensor(2.0)))]
j1 = [jvp(lambda a: a.sin() * 2, (x,), (y,)), jvp(lambda a, b: (a * b, a + 1), (x, y), (y, x)), jvp(lambda a: (a.exp(), a), (x,), (y,), has_aux=True)]
J = [jacrev(torch.sin)(x), jacfwd(torch.sin)(x), jacrev(lambda a, b: a.outer(b), argnums=(0, 1))(x, y), jacfwd(lambda a, b: a.outer(b), argnums=(0, 1))(x, y)[0], jacrev(lambda a: {"s": a.sum(), "q": a ** 2})(x)["s"], jacfwd(lambda a: (a.sum(), a ** 2))(x), jacrev(lambda a: (a ** 2, a), has_aux=True)(x), hessian(lambda a: (a ** 3).sum())(x), hessian(lambda a: a.prod())(x)]
l = from_func.linearize(lambda a: a.sin(), x)
lin = [l[0], l[1](y)]
m = torch.randn(4, 3)
V = [vmap(torch.dot)(m, m), vmap(torch.dot, in_dims=(0, None))(m, x), vmap(lambda a: a * 2, in_dims=1, out_dims=1)(m).contiguous(), vmap(lambda a: (a.sum(), a * 2), out_dims=(0, 1))(m), vmap(vmap(torch.mul))(m, m), vmap(grad(f))(m), vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))({"a": m, "b": x}), vmap(lambda a: a.sum(), chunk_size=2)(m), torch.vmap(torch.sum)(m), vmap(jacrev(torch.sin))(m)]
e = lambda call: call()
e1 = vmap(lambda a: a + torch.rand(3))(m)
e2 = vmap(lambda a: 3)(m)
e3 = vmap(lambda a: a)(3)
e4 = vmap(lambda a, b: a)(m, x)
e5 = grad(lambda a: a)(x)
e6 = vmap(lambda a: a, in_dims=None)(x)
e7 = grad(f, argnums=5)(x)
e8 = jvp(f, x, y)
torch.manual_seed(1)
same = vmap(lambda a: a * 0 + torch.rand(3), randomness="same")(m)
rows = torch.equal(same[0], same[1])
different = vmap(lambda a: a * 0 + torch.rand(3), randomness="different")(m)
apart = torch.equal(different[0], different[1])
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
for p in net.parameters():
    torch.nn.init.constant_(p, 0.5)
params = {k: v.detach() * 2 for k, v in net.named_parameters()}
fc = [from_func.functional_call(net, params, (m,)), from_func.functional_call(net, params, m), from_func.functional_call(net, ({"0.weight": params["0.weight"]}, {"0.bias": params["0.bias"]}), (m,)), net(m)]
e9 = from_func.functional_call(net, {"nope": x}, (m,), strict=True)
def loss(params, a):
    return from_func.functional_call(net, params, (a,)).sum()
per = vmap(grad(loss), in_dims=(None, 0))(params, m)
stack = from_func.stack_module_state([net, net])
F = torch.autograd.forward_ad
with F.dual_level():
    def along(a):
        d = F.make_dual(a, y)
        return F.unpack_dual(d.sin() * 2 + d.sum())
    u = along(x)
    plain = F.unpack_dual(x).tangent
dual = [u.primal, u.tangent, plain]
e10 = F.make_dual(x, y)
# %%
# Batches of samples: random numbers, chunks, empty batches.
F = torch.nn.functional
x = torch.arange(12.0).view(3, 4)
def drawn(f, **options):
    torch.manual_seed(7)
    return torch.vmap(f, **options)(x), torch.rand(1)
different = [drawn(f, randomness="different") for f in (lambda a: a + torch.rand(4) + torch.rand(2).sum(), lambda a: a + torch.randn(9).sum(), lambda a: torch.randn_like(a), lambda a: a + torch.randint(0, 9, (4,)), lambda a: a[torch.randperm(4)], lambda a: torch.bernoulli(a / 12), lambda a: F.dropout(a + 1, 0.3), lambda a: a + a.new_empty(4).exponential_(), lambda a: a + torch.normal(0.5, 2.0, (4,)))]
same = [drawn(f, randomness="same") for f in (lambda a: a + torch.randn(4), lambda a: F.dropout(a + 1))]
chunked = [drawn(lambda a: a + torch.rand(4), randomness=r, chunk_size=2) for r in ("same", "different")]
empty = [torch.vmap(lambda a: (a * 2, a.sum()), out_dims=(1, 0))(torch.zeros(0, 3)), torch.vmap(lambda a: a, in_dims=-1)(torch.zeros(2, 0))]
forbidden = torch.vmap(lambda a: a + torch.rand(4))(x)
