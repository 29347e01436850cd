# ruff: noqa
# fmt: off
# The rules of gradients: leaves, accumulation, retaining, modes, hooks, custom functions.
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
facts = [x.is_leaf, y.is_leaf, x.grad_fn is None, y.grad_fn is None, y.requires_grad, x.detach().requires_grad, y.detach().is_leaf, (x.detach() * 2).is_leaf, x.retains_grad, y.retains_grad, y.output_nr]
y.retain_grad()
(y * y).sum().backward()
g1 = [x.grad.clone(), y.grad.clone(), y.retains_grad]
(x * 3).sum().backward()
g2 = x.grad.clone()
x.grad = None
(x * x).sum().backward(retain_graph=True)
x.grad.zero_()
z = (x ** 3).sum()
g3 = torch.autograd.grad(z, x, retain_graph=True)
g4 = torch.autograd.grad(z, x, create_graph=True)
g5 = torch.autograd.grad(g4[0].sum(), x)
left = x.grad
# %%
x = torch.ones(2, requires_grad=True)
w = torch.ones(2, requires_grad=True)
g1 = torch.autograd.grad((x * 2).sum(), [x, w], allow_unused=True)
g2 = torch.autograd.grad((x * 2).sum(), [x, w], materialize_grads=True)
g3 = torch.autograd.grad([x * 2, w * 3], [x, w], [torch.ones(2), torch.full((2,), 2.0)])
g4 = torch.autograd.grad((x * w).sum(), (x,))
g5 = torch.autograd.grad(x.sum(), x)
g6 = torch.autograd.grad((x * w).sum(), x, is_grads_batched=False)
torch.autograd.backward([(x * 2).sum(), (w * 3).sum()])
torch.autograd.backward([x * 2], [torch.ones(2)])
torch.autograd.backward((x * w).sum(), inputs=[x])
(x * w).backward(torch.tensor([1.0, 2.0]), inputs=[w])
xg, wg = x.grad, w.grad
# %%
x = torch.ones(2, requires_grad=True)
flags = []
with torch.no_grad():
    y = x * 2
    flags += [y.requires_grad, torch.is_grad_enabled(), torch.ones(1, requires_grad=True).requires_grad]
    with torch.enable_grad():
        flags += [(x * 2).requires_grad, torch.is_grad_enabled()]
    flags.append(torch.is_grad_enabled())
flags.append(torch.is_grad_enabled())
with torch.set_grad_enabled(False): flags.append((x * 2).requires_grad)
torch.set_grad_enabled(False)
flags.append((x * 2).requires_grad)
torch.set_grad_enabled(True)
@torch.no_grad()
def f(v): return (v * 2).requires_grad
@torch.no_grad
def g(v): return (v * 2).requires_grad
@torch.enable_grad()
def h(v): return (v * 2).requires_grad
@torch.inference_mode()
def i(v): return (v * 2).is_inference()
flags += [f(x), g(x), i(x), f.__name__]
with torch.no_grad(): flags.append(h(x))
with torch.inference_mode():
    k = torch.ones(2)
    flags += [k.is_inference(), k.requires_grad, torch.is_inference_mode_enabled(), (x * 2).requires_grad, x.is_inference(), (k + 1).is_inference()]
flags += [torch.is_inference_mode_enabled(), k.is_inference(), (k + 1).is_inference(), k.clone().is_inference()]
with torch.no_grad():
    x.add_(1)
    x.mul_(2)
x.detach().add_(1)
x.data.zero_()
flags += [x.requires_grad, x.is_leaf]
def gen():
    with torch.no_grad():
        yield torch.is_grad_enabled()
outside = [next(gen()), torch.is_grad_enabled()]
# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
seen = []
h1 = x.register_hook(lambda g: seen.append(("a", g.tolist())))
h2 = x.register_hook(lambda g: g * 2)
h3 = x.register_hook(lambda g: seen.append(("c", g.tolist())))
y = x * 2
y.register_hook(lambda g: seen.append(("y", g.tolist())))
h4 = x.register_post_accumulate_grad_hook(lambda p: seen.append(("p", p.grad.tolist())))
y.sum().backward()
first = x.grad.clone()
h2.remove()
(x * 1).sum().backward()
second = x.grad.clone()
h1.remove()
h3.remove()
h4.remove()
(x * 1).sum().backward()
n = len(seen)
y = x * 2
y.retain_grad()
y.register_hook(lambda g: g * 10)
y.sum().backward()
yg = y.grad
z = x * 3
z.register_hook(lambda g: g * 5)
gz = torch.autograd.grad(z.sum(), [z, x])
# %%
calls = []
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        calls.append(("f", x.requires_grad, torch.is_grad_enabled()))
        return x ** power
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        calls.append(("b", ctx.needs_input_grad, torch.is_grad_enabled(), g.tolist()))
        return g * ctx.power * x ** (ctx.power - 1), None
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = Square.apply(x, 3)
facts = [y.requires_grad, y.is_leaf, type(y.grad_fn).__name__, y.grad_fn.name()]
y.sum().backward()
g = x.grad
g2 = torch.autograd.grad(Square.apply(x, 3).sum(), x, create_graph=True)
g3 = torch.autograd.grad(g2[0].sum(), x)
with torch.no_grad(): off = Square.apply(x, 2).requires_grad
class Two(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x + y, x * y
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)
    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        calls.append((a is None, b is None))
        one = torch.zeros_like(x) if a is None else a
        two = torch.zeros_like(x) if b is None else b
        return one + two * y, one + two * x
s, p = Two.apply(x, x * 2)
gs = torch.autograd.grad(s.sum(), x, retain_graph=True)
gp = torch.autograd.grad(p.sum(), x)
class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 2
a = x.clone()
b = Dirty.apply(a)
same = [a is b, a._version]
(b * b).sum().backward()
g4 = x.grad
class Index(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        i = x.argmax()
        ctx.mark_non_differentiable(i)
        return x * 1, i
    @staticmethod
    def backward(ctx, g, gi):
        return g
v, i = Index.apply(x)
nd = [v.requires_grad, i.requires_grad]
class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g): return g * 2
o = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
od = o[0].requires_grad
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g, g
Wrong.apply(x).sum().backward()
class Shape(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g[:1]
Shape.apply(x).sum().backward()
class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): raise KeyError("mine")
Raises.apply(x).sum().backward()
x.grad = None
(x * 2).sum().backward()
after = x.grad
# %%
x = torch.ones(3, requires_grad=True)
packed = []
def pack(t):
    packed.append(tuple(t.shape))
    return t * 2
def unpack(t): return t / 2
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (x.exp() * x).sum()
y.backward()
g = x.grad.clone()
count = len(packed)
x.grad = None
with torch.autograd.graph.save_on_cpu():
    y = (x.exp() * x).sum()
y.backward()
g2 = x.grad
node = (x * 2).grad_fn
names = [node.name(), node.next_functions[0][0].name(), node.next_functions[0][1], type(node).__name__, (x + 1).grad_fn.name(), x.exp().grad_fn.name(), x.sum().grad_fn.name(), x.view(3).grad_fn.name(), x[0].grad_fn.name(), x.clone().grad_fn.name()]
nh = []
node.register_hook(lambda gi, go: nh.append((gi[0].tolist(), go[0].tolist())))
node.register_prehook(lambda go: nh.append(go[0].tolist()))
y = (x * 2)
y.grad_fn.register_hook(lambda gi, go: nh.append(("h", gi[0].tolist(), go[0].tolist())))
y.grad_fn.register_prehook(lambda go: nh.append(("p", go[0].tolist())))
y.sum().backward()
acc = x.view_as(x).grad_fn.next_functions[0][0]
same = [acc.variable is x, acc.name()]
meta = (x * 2).grad_fn.metadata
# %%
x = torch.ones(2, requires_grad=True)
x.requires_grad_(False)
a = [x.requires_grad, (x * 2).requires_grad]
x.requires_grad = True
b = x.requires_grad
y = (x * 2).detach_()
c = [y.requires_grad, y.is_leaf]
x.grad = torch.tensor([1.0, 2.0])
d = x.grad
del x.grad
e = x.grad
p = torch.nn.Parameter(torch.zeros(2))
q = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
f = [p.requires_grad, q.requires_grad, p.is_leaf, isinstance(p, torch.Tensor), type(p + 1).__name__, type(p.data).__name__, type(p.detach()).__name__, isinstance(torch.zeros(1), torch.nn.Parameter)]
x.data = torch.zeros(3)
g = [x.shape, x.requires_grad]
m = torch.ones(2, requires_grad=True)
with torch.autograd.set_detect_anomaly(True): anomaly = torch.is_anomaly_enabled()
again = torch.is_anomaly_enabled()
with torch.autograd.detect_anomaly(): (m * 0 / 0).sum().sqrt().backward()
# %%
checkpoint = torch.utils.checkpoint.checkpoint
x = torch.ones(3, requires_grad=True)
n = []
def body(v):
    n.append(torch.is_grad_enabled())
    return (v * 2).exp()
y = checkpoint(body, x, use_reentrant=False)
y.sum().backward()
g = x.grad.clone()
x.grad = None
y = checkpoint(body, x, use_reentrant=True)
y.sum().backward()
g2 = x.grad
# %%
def f(x): return (x ** 2).sum()
def v(x): return x ** 2
x = torch.tensor([1.0, 2.0])
j = torch.autograd.functional.jacobian(v, x)
h = torch.autograd.functional.hessian(f, x)
vj = torch.autograd.functional.vjp(v, x, torch.ones(2))
jv = torch.autograd.functional.jvp(v, x, torch.ones(2))
hv = torch.autograd.functional.hvp(f, x, torch.ones(2))
vh = torch.autograd.functional.vhp(f, x, torch.ones(2))
d = torch.ones(3, dtype=torch.float64, requires_grad=True)
checks = [torch.autograd.gradcheck(lambda t: t.exp() * 2, [d]), torch.autograd.gradgradcheck(lambda t: t.exp() * 2, [d]), torch.autograd.gradcheck(lambda t: t.detach() + t * 0, [d], raise_exception=False)]
