# ruff: noqa
# fmt: off
# Writes through views, with gradients: what each alias sees, and which writes are refused.
x = torch.arange(6.0, requires_grad=True)
y = x * 1
v = y.view(2, 3)
v[0].mul_(2)
v[:, 1] = 7
names = [y.grad_fn.name(), v.grad_fn.name(), v[0].grad_fn.name()]
(y * torch.arange(6.0)).sum().backward()
g = x.grad
# %%
x = torch.ones(4, requires_grad=True)
y = x.clone()
a = y[:2]
b = y[1:3]
a.mul_(2)
b.add_(x[:2])
c = a * 1
y.mul_(3)
(a.sum() + b.prod() + c.sum()).backward()
g = x.grad
# %%
x = torch.ones(2, 2, requires_grad=True)
y = x * 1
with torch.no_grad(): v = y.view(4)
v.add_(1)
with torch.no_grad(): w = y[0]
w.mul_(2)
with torch.no_grad(): y.add_(1)
y.sum().backward()
g = x.grad
# %%
x = torch.ones(3, requires_grad=True)
base = torch.zeros(3)
v = base[1:]
v.copy_(x[:2])
facts = [base.requires_grad, v.requires_grad, base.is_leaf, v.is_leaf, v._base is base]
(base * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
g = x.grad
# %%
x = torch.ones(3, requires_grad=True)
y = x.exp()
s = y.sum()
y.add_(1)
s.backward()
z = x.exp()
t = (z * z).sum()
z.detach().add_(1)
t.backward()
# %%
x = torch.ones(4, requires_grad=True)
y = x * 2
d = y.detach()
d.add_(1)
v1 = [y._version, d._version]
y.sum().backward()
c = (x * 2).chunk(2)
c[0].add_(1)
u = (x * 2).unbind()
u[0].mul_(2)
s = (x * 2).split(2)
s[1].zero_()
o = torch.zeros(4)
oc = o.chunk(2)
oc[0].add_(1)
o2 = o.clone()
# %%
x = torch.ones(2, 3, requires_grad=True)
e = x.expand(4, 2, 3)
e.add_(1)
f = torch.ones(2, 1).expand(2, 3)
f.add_(1)
f[0, 0] = 5
t = torch.ones(2, 3)
t.t_()
t.unsqueeze_(0)
t.squeeze_()
t.transpose_(0, 1)
s = [t.shape, t.stride()]
t.as_strided_((2,), (1,))
q = (x * 1)
q.t_()
q.mul_(torch.arange(6.0).reshape(3, 2))
q.sum().backward()
g = x.grad
# %%
x = torch.ones(3, requires_grad=True)
y = x * 1
y[1] = x[0] * 5
y[torch.tensor([True, False, False])] = x[2]
y[[2]] *= 3
y.index_fill_(0, torch.tensor([0]), 2.0)
y.masked_fill_(y > 4, 1.0)
y.sum().backward()
g = x.grad
z = torch.zeros(3)
z[0] = x[0]
z[1:] = x[:2] * 2
zf = [z.requires_grad, z.is_leaf, z.grad_fn.name()]
z.sum().backward()
g2 = x.grad
# %%
a = torch.arange(6.0)
a[1:] = a[:-1].clone()
b = torch.arange(6.0)
b[:3] = b[3:]
c = torch.arange(6.0).reshape(2, 3)
c.copy_(c.flip(0))
d = torch.arange(4.0)
d.add_(d)
e = torch.arange(4.0)
e[::2] += e[1::2]
f = torch.arange(4)
f[f > 1] = f[f > 1] * 10
g = torch.zeros(3, dtype=torch.int64)
g[0] = 2.7
g[1] = True
h = torch.zeros(3)
h[torch.tensor([0, 0, 1])] = torch.tensor([1.0, 2.0, 3.0])
i = torch.zeros(3, 3)
i[torch.tensor([0, 1]), torch.tensor([1, 2])] = 1
i[:, 0] = torch.arange(3)
i[-1] = i[0]
i.diagonal().fill_(9)
j = torch.zeros(2, 3)
j[:, torch.tensor([True, False, True])] = torch.tensor([[1.0, 2.0]])
k = torch.zeros(2, 2)
k[None] = 1
k[..., 0] = 2
k[()] += 1
k[True] += 1
