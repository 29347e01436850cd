# ruff: noqa
# fmt: off
# Memory formats and the strides of results.
x = torch.arange(48.0).reshape(2, 3, 2, 4)
c = x.contiguous(memory_format=torch.channels_last)
facts = [c.stride(), c.is_contiguous(), c.is_contiguous(memory_format=torch.channels_last), x.is_contiguous(memory_format=torch.channels_last), c.to(memory_format=torch.contiguous_format).stride()]
likes = [torch.empty_like(c).stride(), torch.zeros_like(c).stride(), torch.ones_like(c, memory_format=torch.contiguous_format).stride(), torch.rand_like(c).stride(), torch.full_like(c, 1).stride()]
ops = [(c + 1).stride(), (c + x).stride(), (x + c).stride(), (c * c).stride(), c.exp().stride(), c.relu().stride(), c.clone().stride(), c.double().stride(), (c > 0).stride(), (c + torch.ones(3, 1, 1)).stride()]
more = [c.sum(1).stride(), c.sum(1, keepdim=True).stride(), c.mean((2, 3)).stride(), c.permute(0, 2, 3, 1).stride(), c.permute(0, 2, 3, 1).is_contiguous(), c[0].stride(), c.flatten(1).stride(), c.reshape(2, -1).stride(), c.softmax(1).stride()]
made = [torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride(), torch.empty(1, 1, 4, 4, memory_format=torch.channels_last).stride(), torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last).stride()]
cat = [torch.cat([c, c]).stride(), torch.cat([c, x], 1).stride(), torch.stack([c, c]).stride(), torch.where(c > 0, c, x).stride()]
five = torch.zeros(2, 3, 2, 2, 2).to(memory_format=torch.channels_last_3d).stride()
one = [torch.zeros(2, 1, 3, 3).contiguous(memory_format=torch.channels_last).stride(), torch.zeros(2, 4, 1, 1).contiguous(memory_format=torch.channels_last).stride(), torch.zeros(2, 4, 1, 1).is_contiguous(memory_format=torch.channels_last)]
# %%
a = torch.zeros(3, 4)
t = a.t()
elementwise = [(t + t).stride(), (t + 1).stride(), (t + a.reshape(4, 3)).stride(), (a.reshape(4, 3) + t).stride(), t.exp().stride(), t.clone().stride(), t.contiguous().stride(), t.double().stride(), (t == 0).stride(), torch.add(t, t, alpha=2).stride()]
sliced = [a[:, ::2].exp().stride(), a[::2].exp().stride(), (a[:, ::2] + 1).stride(), a[:, 1].exp().stride(), a[:, ::2].clone().stride(), a[::2].clone().stride(), a[:, ::2].double().stride()]
broadcast = [(torch.zeros(3, 1) + torch.zeros(4)).stride(), (torch.zeros(4, 1).t() + torch.zeros(3, 1)).stride(), (torch.zeros(2, 1, 3) * torch.zeros(5, 1)).stride(), torch.zeros(3).expand(2, 3).exp().stride(), (torch.zeros(1).expand(3, 4) + 1).stride(), torch.zeros(2, 3, 4).permute(2, 0, 1).exp().stride(), (torch.zeros(2, 3, 4).permute(2, 0, 1) + torch.zeros(3)).stride()]
reduced = [t.sum(0).stride(), t.sum(0, keepdim=True).stride(), torch.zeros(2, 3, 4).permute(2, 0, 1).sum(1).stride(), torch.zeros(2, 3, 4).permute(2, 0, 1).sum(1, keepdim=True).stride(), t.max(0)[0].stride(), t.cumsum(0).stride(), t.sort(0)[0].stride(), t.softmax(0).stride(), t.argmax(1).stride(), t.std(1).stride(), t.any(0).stride(), t.prod(1).stride(), t.amax(1).stride(), t.topk(2, 0)[0].stride(), t.logsumexp(1).stride()]
indexed = [t[[0, 1]].stride(), a[:, [0, 1]].stride(), t[t == 0].stride(), t.index_select(0, torch.tensor([0])).stride(), t.gather(0, torch.zeros(1, 3, dtype=torch.int64)).stride(), t.masked_fill(t == 0, 1).stride(), torch.zeros(2, 3, 4)[:, [0, 1], [1, 2]].stride(), torch.zeros(2, 3, 4)[[0, 1], :, [1, 2]].stride(), torch.zeros(2, 3, 4).permute(2, 0, 1)[[0, 1]].stride(), t.flip(0).stride(), t.roll(1).stride(), t.tril().stride(), t.scatter(0, torch.zeros(1, 3, dtype=torch.int64), 1.0).stride()]
products = [(a @ t).stride(), torch.mm(t, a).stride(), torch.matmul(torch.zeros(2, 3, 4), t).stride(), torch.bmm(torch.zeros(2, 3, 4), torch.zeros(2, 4, 3)).stride(), (a @ torch.zeros(4)).stride(), torch.einsum("ij->ji", a).stride(), torch.einsum("ij,jk->ki", a, t).stride(), torch.einsum("bij,bjk->bik", torch.zeros(2, 3, 4), torch.zeros(2, 4, 5)).stride(), torch.tensordot(a, t, 1).stride(), torch.outer(torch.zeros(2), torch.zeros(3)).stride(), torch.nn.functional.linear(torch.zeros(2, 3), torch.zeros(4, 3)).stride(), torch.addmm(torch.zeros(3), a, t).stride()]
views = [a.view(2, 6).stride(), a.unfold(1, 2, 1).stride(), a.diagonal().stride(), a.unsqueeze(1).stride(), a.expand(2, 3, 4).stride(), torch.zeros(1, 3).squeeze().stride(), a.movedim(0, 1).stride(), torch.zeros(2, 3, 4).flatten(1).stride(), torch.zeros(2, 3, 4).transpose(0, 2).reshape(4, 6).stride(), a.repeat(2, 1).stride(), t.repeat(1, 2).stride(), a.chunk(2, 1)[1].stride(), a.narrow(1, 1, 2).stride(), torch.zeros(0, 3).t().stride(), torch.zeros(3, 0).stride(), torch.zeros(2, 0, 3).stride(), torch.zeros(1, 1).expand(0, 1).stride(), torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(4))[0].stride(), torch.meshgrid(torch.zeros(2), torch.zeros(3), indexing="xy")[0].stride()]
joined = [torch.cat([t, t]).stride(), torch.cat([t, t], 1).stride(), torch.stack([t, t], 1).stride(), torch.hstack([a, a]).stride(), torch.cat([a, t.reshape(3, 4)]).stride(), torch.where(t == 0, t, t).stride(), t.clamp(0, 1).stride(), torch.lerp(t, t, 0.5).stride(), t.pow(2).stride(), (2 ** t).stride(), t.nan_to_num().stride(), t.round(decimals=1).stride()]
grads = []
for f in (lambda x: x.t().exp().sum(), lambda x: (x.t() * 2).sum(), lambda x: x[:, ::2].sum(), lambda x: x.expand(2, 3, 4).sum(), lambda x: x.permute(1, 0).clone().sum(), lambda x: (x @ x.t()).sum(), lambda x: x.sum(0).sum(), lambda x: x.reshape(4, 3).t().sum()):
    p = torch.ones(3, 4, requires_grad=True)
    f(p).backward()
    grads.append(p.grad.stride())
q = torch.ones(4, 3).t().requires_grad_()
(q * 2).sum().backward()
qs = q.grad.stride()
