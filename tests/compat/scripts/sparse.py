# ruff: noqa
# fmt: off
# Sparse tensors, their gradients and what optimizers do with them. `# %%` starts a new program.
def parts(x):
    if x.layout == torch.strided: return ["dense", x.detach().tolist()]
    if x.layout == torch.sparse_coo: return ["coo", x.is_coalesced(), x._indices().tolist(), x._values().tolist(), tuple(x.shape), str(x.dtype)]
    return [str(x.layout), x.values().tolist(), tuple(x.shape)]
i = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
s = torch.sparse_coo_tensor(i, torch.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3))
c = s.coalesce()
r = c.to_sparse_csr()
d = torch.arange(6.0).reshape(2, 3)
facts = [s.is_sparse, s.is_sparse_csr, s.layout == torch.sparse_coo, s.sparse_dim(), s.dense_dim(), s._nnz(), c._nnz(), s.numel(), s.is_coalesced(), c.is_coalesced(), s.stride(), s.is_contiguous(), len(s), s.type(), d.sparse_dim(), d.dense_dim()]
rows = [r.crow_indices().tolist(), r.col_indices().tolist(), r.values().tolist(), r.is_sparse, r.is_sparse_csr, r.sparse_dim(), parts(r.t()), parts(c.to_sparse_csc()), parts(d.to_sparse_bsr((1, 3)))]
converted = [parts(s.to_dense()), parts(r.to_dense()), parts(r.to_sparse()), parts(d.to_sparse()), parts(d.to_sparse(1)), parts(d.to_sparse(layout=torch.sparse_csr)), parts(torch.tensor(3.0).to_sparse()), parts(s.double()), parts(s.int()), parts(s.to(torch.float16))]
arithmetic = [parts(s * 2), parts(s / 2), parts(-s), parts(c + c), parts(s + s), parts(torch.add(c, c, alpha=2)), parts(c * c), parts(d + s), parts(d - s), parts(s * d), parts(d * s), parts(s ** 2), parts(s * torch.tensor(2.0))]
functions = [parts(s.abs()), parts(s.sqrt()), parts(torch.relu(s)), parts(s.floor()), parts(torch.isnan(s)), parts(s.sign()), parts(r * 2), parts(torch.relu(r)), parts(r + r)]
reduced = [parts(s.sum()), parts(s.sum(0)), parts(s.sum(1, keepdim=True)), parts(torch.sparse.sum(s, 0)), parts(torch.sparse.sum(s, [0, 1])), s.norm().item(), parts(torch.sparse.sum(s, 1, dtype=torch.float64))]
products = [parts(s @ torch.ones(3, 2)), parts(s @ torch.ones(3)), parts(torch.ones(2, 2) @ s), parts(torch.ones(2) @ s), parts(torch.mm(s, torch.ones(3, 2))), parts(torch.sparse.mm(c, c.t())), parts(torch.addmm(torch.ones(2, 2), s, torch.ones(3, 2), beta=2, alpha=3)), parts(torch.sparse.addmm(torch.ones(2, 2), s, torch.ones(3, 2))), parts(torch.mv(s, torch.ones(3))), parts(r @ torch.ones(3, 2)), parts(torch.hspmm(c, torch.ones(3, 2))), parts(torch.smm(s, torch.ones(3, 2)))]
moved = [parts(s.t()), parts(s.T), parts(s.transpose(0, 1)), parts(s.permute(1, 0)), parts(s.unsqueeze(0)), parts(s[1]), parts(s[1, 2]), parts(c[:, 2]), parts(s.select(1, 2)), parts(c.index_select(0, torch.tensor([1, 0]))), parts(torch.cat([s, s])), parts(torch.cat([s, s], 1)), parts(torch.stack([s, s])), [parts(x) for x in c], parts(s.narrow_copy(0, 1, 1)), parts(d.sparse_mask(c)), parts(s.sparse_mask(c)), parts(d.sparse_mask(r))]
copies = [parts(s.clone()), parts(c.clone()), parts(s.detach()), parts(torch.zeros_like(s)), parts(s.clone().zero_()), parts(s.clone().copy_(c)), parts(s.clone().mul_(2)), parts(s.clone().add_(c)), parts(torch.zeros((2, 3), layout=torch.sparse_coo)), parts(s.new_zeros(2)), parts(c.clone().sparse_resize_((3, 3), 2, 0)), parts(s.clone().sparse_resize_and_clear_((4, 4), 2, 0))]
softmaxes = [parts(torch.sparse.softmax(c, 0)), parts(torch.sparse.log_softmax(c, 1, dtype=torch.float64))]
text = [str(s), repr(c), str(r), str(s.double()), str(torch.sparse_coo_tensor(size=(2, 3))), str(s.clone().requires_grad_()), str(r.t())]
# %%
i = torch.tensor([[0, 1, 1], [2, 0, 2]])
s = torch.sparse_coo_tensor(i, torch.tensor([3.0, 4.0, 5.0]), (2, 3))
r = s.to_sparse_csr()
d = torch.ones(2, 3)
a = torch.exp(s)
b = s.view(6)
c = s.reshape(6)
e = s.numpy()
f = s.tolist()
g = s.data_ptr()
h = s.storage()
j = s.max()
k = s == s
l = s + 1
m = s + d
n = s / s
o = 2 / s
p = s.indices()
q = s.values()
t = r.indices()
u = s.crow_indices()
v = d.coalesce()
w = d.indices()
x = s[0:1]
y = s[5]
z = s.fill_(1)
aa = torch.equal(s, s)
ab = s.clamp(0)
ac = torch.ones_like(s)
ad = torch.zeros(2, 3).copy_(s)
ae = s.item()
af = bool(s)
ag = s.nbytes
ah = s.resize_(3, 3)
ai = s ** 0
aj = torch.softmax(s, 0)
ak = torch.mm(s, torch.ones(4, 2))
al = torch.sparse.mm(s, torch.ones(3, 2, dtype=torch.float64))
am = torch.sparse_coo_tensor(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]))
an = torch.sparse_coo_tensor(i, torch.tensor([1.0, 2.0]))
ao = torch.sparse_coo_tensor(i, torch.tensor([1.0, 2.0, 3.0]), (2,))
ap = d.to_sparse(3)
aq = d.to_sparse_bsr((3, 2))
ar = r.stride()
at = d.sparse_mask(torch.ones(3, 3).to_sparse())
au = torch.ones(2, 3, layout=torch.sparse_coo)
av = s.expand(2, 2, 3)
# %%
def parts(x):
    if x.layout == torch.strided: return ["dense", x.tolist()]
    c = x.coalesce()
    return ["coo", c._indices().tolist(), c._values().tolist()]
def grad_of(f):
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), torch.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3)).requires_grad_()
    y = f(s)
    y = y if y.layout == torch.strided else y.to_dense()
    (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum().backward()
    return parts(s.grad)
d = torch.arange(6.0).reshape(3, 2)
linear = [grad_of(lambda s: s.to_dense()), grad_of(lambda s: s * 2), grad_of(lambda s: -s), grad_of(lambda s: s + s), grad_of(lambda s: torch.ones(2, 3) + s), grad_of(lambda s: s * torch.full((2, 3), 3.0)), grad_of(lambda s: s / 2), grad_of(lambda s: s.clone()), grad_of(lambda s: s.double()), grad_of(lambda s: s.coalesce()), grad_of(lambda s: s.t()), grad_of(lambda s: s.coalesce().values()), grad_of(lambda s: s.to_sparse_csr())]
others = [grad_of(lambda s: s.sum()), grad_of(lambda s: torch.sparse.sum(s)), grad_of(lambda s: torch.sparse.sum(s, 0)), grad_of(lambda s: s @ d), grad_of(lambda s: torch.mm(s, d)), grad_of(lambda s: torch.sparse.mm(s, d)), grad_of(lambda s: torch.sparse.addmm(torch.ones(2, 2), s, d)), grad_of(lambda s: s @ torch.ones(3)), grad_of(lambda s: torch.ones(4, 2) @ s), grad_of(lambda s: torch.relu(s)), grad_of(lambda s: s ** 2), grad_of(lambda s: torch.stack([s, s])), grad_of(lambda s: s.to_dense(masked_grad=False))]
v = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
x = torch.arange(6.0).reshape(3, 2).requires_grad_()
s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), v, (2, 3))
torch.sparse.mm(s, x).pow(2).sum().backward()
# %%
def parts(g):
    return ["dense", g.tolist()] if g.layout == torch.strided else ["coo", g.is_coalesced(), g._indices().tolist(), g._values().tolist()]
F = torch.nn.functional
w = torch.ones(5, 2, requires_grad=True)
F.embedding(torch.tensor([1, 3, 1]), w, sparse=True).sum().backward()
first = parts(w.grad)
F.embedding(torch.tensor([3, 4]), w, sparse=True).sum().backward()
second = parts(w.grad)
F.embedding(torch.tensor([3, 4]), w).sum().backward()
third = parts(w.grad)
F.embedding(torch.tensor([3, 4]), w, sparse=True).sum().backward()
fourth = parts(w.grad)
w.grad = None
(F.embedding(torch.tensor([[1, 3], [2, 2]]), w, sparse=True, padding_idx=2).sum() + F.embedding(torch.tensor([3, 4]), w, sparse=True).sum()).backward()
two = parts(w.grad)
w.grad = None
F.embedding_bag(torch.tensor([1, 3, 2, 2]), w, torch.tensor([0, 3]), sparse=True, mode="mean", padding_idx=2).sum().backward()
bag = parts(w.grad)
w.grad = None
F.embedding(torch.tensor([1, 3, 1]), w * 2, sparse=True).sum().backward()
nonleaf = parts(w.grad)
total = torch.nn.utils.clip_grad_norm_([w], 1.0)
clipped = parts(w.grad)
w.grad.zero_()
zeroed = parts(w.grad)
bad = F.embedding(torch.tensor([1]), w, sparse=True, scale_grad_by_freq=True).sum().backward()
bad2 = F.embedding_bag(torch.tensor([1]), w, torch.tensor([0]), sparse=True, mode="max")
# %%
def trained(name, **options):
    torch.manual_seed(0)
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = getattr(torch.optim, name)(table.parameters(), **options)
    for k in range(3):
        optimizer.zero_grad()
        (table(torch.tensor([1, 2, 1, k])) ** 2).sum().backward()
        optimizer.step()
    return [[round(x, 4) for x in row] for row in table.weight.tolist()]
sgd = trained("SGD", lr=0.1)
momentum = trained("SGD", lr=0.1, momentum=0.9)
nesterov = trained("SGD", lr=0.1, momentum=0.9, nesterov=True)
decayed = trained("SGD", lr=0.1, weight_decay=0.1)
adagrad = trained("Adagrad", lr=0.1)
adagrad_decayed = trained("Adagrad", weight_decay=0.1)
sparse_adam = trained("SparseAdam", lr=0.1)
maximizing = trained("SparseAdam", lr=0.1, maximize=True)
adam = trained("Adam")
adamw = trained("AdamW")
rmsprop = trained("RMSprop")
adadelta = trained("Adadelta")
adafactor = trained("Adafactor")
# %%
# Programs: skip-gram with sparse tables, a graph network, attention over edges, bags of words.
nn, F = torch.nn, torch.nn.functional
class SkipGram(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.u, self.v = nn.Embedding(n, d, sparse=True), nn.Embedding(n, d, sparse=True)
        nn.init.uniform_(self.u.weight.data, -1 / d, 1 / d)
        nn.init.constant_(self.v.weight.data, 0)
    def forward(self, pu, pv, nv):
        eu = self.u(pu)
        near = -F.logsigmoid((eu * self.v(pv)).sum(1).clamp(-10, 10))
        far = torch.bmm(self.v(nv), eu.unsqueeze(2)).squeeze(2).clamp(-10, 10)
        return (near - F.logsigmoid(-far).sum(1)).mean()
def skip_gram():
    torch.manual_seed(0)
    model = SkipGram(200, 16)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    losses = []
    for k in range(30):
        pu = torch.randint(0, 200, (32,))
        optimizer.zero_grad()
        loss = model(pu, (pu + 1) % 200, torch.randint(0, 200, (32, 5)))
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses
def graph_network():
    torch.manual_seed(0)
    edges, x, y = torch.randint(0, 100, (2, 400)), torch.randn(100, 16), torch.randint(0, 4, (100,))
    adj = torch.sparse.FloatTensor(edges, torch.ones(400), torch.Size([100, 100])).coalesce()
    degree = torch.sparse.sum(adj, 1).to_dense().clamp(min=1)
    adj = torch.sparse_coo_tensor(adj.indices(), adj.values() / degree[adj.indices()[0]], (100, 100))
    layers = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 4)])
    attention = nn.Parameter(torch.randn(400))
    optimizer = torch.optim.Adam([*layers.parameters(), attention], lr=0.01, weight_decay=5e-4)
    losses = []
    for k in range(30):
        optimizer.zero_grad()
        hidden = F.dropout(F.relu(torch.spmm(adj, layers[0](x))), 0.5)
        weights = torch.sparse.softmax(torch.sparse_coo_tensor(edges, attention, (100, 100)), 1)
        loss = F.cross_entropy(torch.sparse.mm(weights, layers[1](hidden)), y)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses
def bags():
    torch.manual_seed(0)
    table, last = nn.EmbeddingBag(50, 8, sparse=True, mode="mean"), nn.Linear(8, 3)
    parameters = [*table.parameters(), *last.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    losses = []
    for k in range(30):
        words, starts = torch.randint(0, 50, (60,)), torch.arange(0, 60, 6)
        optimizer.zero_grad()
        loss = F.cross_entropy(last(table(words, starts)), words[starts] % 3)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses
first = skip_gram()
second = graph_network()
third = bags()
