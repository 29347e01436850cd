# ruff: noqa
# fmt: off
# Attributes, sizes, dtypes, devices, storage and conversions. `# %%` starts a new program.
x = torch.arange(24.0).reshape(2, 3, 4)
shape = [x.shape, x.size(), x.size(0), x.size(-1), x.dim(), x.ndim, x.numel(), x.nelement(), len(x)]
shape2 = [x.stride(), x.stride(1), x.storage_offset(), x[1].storage_offset(), x.element_size(), x.itemsize, x.nbytes]
kind = [x.dtype, x.device, x.is_contiguous(), x.mT.is_contiguous(), x.is_floating_point(), x.is_complex(), x.is_signed()]
flags = [x.is_cuda, x.is_meta, x.is_sparse, x.is_quantized, x.requires_grad, x.is_leaf, x.is_cpu, x.layout == torch.strided]
names = [x.type(), x.int().type(), x.bool().type(), x.half().type(), x.double().type(), x.bfloat16().type()]
sized = torch.Size([2, 3])
sizes = [sized.numel(), sized[0], sized[-1], sized[:1], sized + (4,), sized * 2, sized == (2, 3), (2, 3) == sized, hash(sized) == hash((2, 3))]
more = [isinstance(sized, tuple), type(sized[:1]).__name__, type(sized + (1,)).__name__, sized.count(2), sized.index(3), list(sized), torch.Size(), torch.Size((1,)), torch.Size([])]
text = [str(sized), repr(sized), f"{sized}", str(list(sized))]
unpacked = list((*x.shape,))
a, b, c = x.shape
# %%
d = torch.device("cpu")
devices = [d.type, d.index, str(d), repr(d), d == torch.device("cpu"), d == "cpu", torch.device("cpu", 0) == d, torch.device("cuda:1").index, torch.device("cuda").index]
more = [torch.device(d) == d, hash(d) == hash(torch.device("cpu")), torch.device("meta").type, torch.device(type="cuda", index=2).index, d != torch.device("meta")]
t = [torch.zeros(1).device == d, torch.zeros(1, device="meta").device, torch.zeros(1, device=d).device, torch.zeros(1, device="cpu:0").device]
with torch.device("meta"): m = torch.zeros(2).device
default = torch.get_default_device()
# %%
f = torch.float32
facts = [str(f), repr(f), f == torch.float, torch.double is torch.float64, torch.half is torch.float16, torch.long is torch.int64, torch.int is torch.int32, torch.short is torch.int16, torch.cfloat is torch.complex64]
more = [f.is_floating_point, f.is_complex, f.is_signed, f.itemsize, torch.uint8.is_signed, torch.bool.itemsize, f.to_complex(), f.to_real(), torch.complex64.to_real(), hash(f) == hash(torch.float)]
used = {torch.float32: 1, torch.int64: 2}[torch.long]
isin = torch.float32 in (torch.float32, torch.float64)
# %%
x = torch.tensor([1.7, -2.3, 0.0])
converted = [x.int(), x.long(), x.short(), x.char(), x.bool(), x.half(), x.bfloat16(), x.double(), x.cfloat(), x.cdouble(), x.to(torch.int8)]
same = [x.float() is x, x.to(torch.float32) is x, x.to("cpu") is x, x.to(x) is x, x.contiguous() is x, x.to(torch.float32, copy=True) is x, x.cpu() is x, x.type(torch.float32) is x]
forms = [x.to("cpu", torch.float64).dtype, x.to(torch.device("cpu"), dtype=torch.int32).dtype, x.to(torch.zeros(1, dtype=torch.int16)).dtype, x.to(dtype=torch.bool).dtype, x.type("torch.DoubleTensor").dtype, x.type(torch.LongTensor).dtype]
wrapped = torch.tensor([300, -1, 128]).to(torch.uint8)
wrapped2 = torch.tensor([300, -129, 128]).to(torch.int8)
fromcomplex = torch.tensor([1 + 2j, 0j, 1j]).bool()
truth = torch.tensor([0.0, float("nan"), -0.0, 0.5]).bool()
lists = [x.tolist(), torch.tensor(5).tolist(), torch.tensor([[True]]).tolist(), torch.tensor([1 + 1j]).tolist(), torch.zeros(0, 2).tolist(), torch.tensor(2.5).item()]
# %%
x = torch.arange(6)
y = x.view(2, 3)
shared = [y.data_ptr() == x.data_ptr(), y[1].data_ptr() - x.data_ptr(), x.untyped_storage().nbytes(), x.is_set_to(x), y.is_set_to(x), x.untyped_storage().data_ptr() == x.data_ptr()]
size = [x.storage().size(), len(x.untyped_storage()), x[2:].storage_offset(), x[2:].untyped_storage().nbytes()]
base = [y._base is x, x._base is None, y[0]._base is x, x.detach()._is_view(), y._is_view()]
versions = [x._version, y._version]
y.add_(1)
versions2 = [x._version, y._version, x.detach()._version, x.data._version, x.clone()._version]
x.data.add_(1)
versions3 = [x._version]
z = torch.empty(0, dtype=torch.int64)
z.set_(y)
zz = [z.shape, z.data_ptr() == y.data_ptr(), z.is_set_to(y)]
# %%
x = torch.arange(12.0).reshape(3, 4)
properties = [x.T, x.mT, x.H, x.mH, x.real, torch.tensor([1 + 2j]).imag, torch.tensor([1 + 2j]).real, torch.tensor([1 + 2j]).conj().is_conj(), torch.tensor([1 + 2j]).conj().resolve_conj().is_conj()]
copies = [x.t().clone().stride(), x.t().contiguous().stride(), torch.empty_like(x.t()).stride(), torch.zeros_like(x[:, ::2]).stride(), x.expand(2, 3, 4).clone().stride(), torch.ones_like(x.expand(2, 3, 4)).stride(), torch.empty_like(x.permute(1, 0), memory_format=torch.contiguous_format).stride()]
x.resize_(2, 2)
r = [x.shape, x]
y = torch.ones(2)
y.resize_(3)
s = [y.shape, y[:2]]
y.resize_as_(torch.zeros(1, 2))
filled = [torch.full((2,), 3), torch.full((2,), 3.0), torch.full((), True), torch.full((2, 1), 1j), torch.full_like(torch.zeros(2, dtype=torch.int8), 5)]
# %%
import copy, pickle
x = torch.arange(6.0).reshape(2, 3).t()
c1 = copy.copy(x)
c2 = copy.deepcopy(x)
c3 = pickle.loads(pickle.dumps(x))
same = [c1 is x, c1.data_ptr() == x.data_ptr(), c2.data_ptr() == x.data_ptr(), c2.stride(), c3.stride()]
l = [x, x[0], x]
l2 = copy.deepcopy(l)
shared = [l2[0] is l2[2], l2[0].data_ptr() == l2[1].data_ptr()]
p = torch.nn.Parameter(torch.ones(2))
p2 = copy.deepcopy(p)
kind = [type(p2).__name__, p2.requires_grad, isinstance(p2, torch.nn.Parameter), type(pickle.loads(pickle.dumps(p))).__name__]
y = torch.ones(2, requires_grad=True)
y.sum().backward()
y2 = copy.deepcopy(y)
y.note = "kept"
y3 = copy.deepcopy(y)
note = getattr(y3, "note", None)
hashes = [hash(y) == hash(y), y in {y: 1}, len({y, y2})]
# %%
x = torch.ones(2, 3)
h = torch.zeros(2)
h.mark = 5
keep = [h]
del h
mark = keep[0].mark
bools = [bool(torch.tensor([0.1])), not torch.zeros(1), torch.ones(1) and 3, any(torch.tensor([0, 1])), all(torch.tensor([1, 1])), max(torch.tensor([1, 3, 2])), min(torch.tensor([3.0, 1.0])), sum(torch.tensor([1, 2])), sorted(torch.tensor([3, 1, 2])), abs(torch.tensor(-1))]
equality = [x == None, x != None, (x == x) is True, x is x, x.equal(x), torch.equal(x, x + 0), (torch.tensor(1) == 1).item(), torch.tensor([1]) in [torch.tensor([1])]]
numbers = [round(torch.tensor(2.6).item()), math.floor(torch.tensor(2.6)), math.ceil(torch.tensor(2.1)), math.sqrt(torch.tensor(4.0)), float(torch.tensor(2)), int(torch.tensor(2.9)), [1, 2, 3][torch.tensor(1):], "ab" * torch.tensor(2), 5 // torch.tensor(2), 2 ** torch.tensor(3), 7 % torch.tensor(4), divmod(7, 2)]
ufunc = [torch.tensor(3).__index__(), torch.tensor(True).__int__(), torch.tensor(1.5).__float__(), torch.tensor(1.5).__bool__(), torch.tensor([[1.5]]).__complex__(), torch.tensor([1, 2]).__len__(), torch.tensor([1, 2]).__contains__(2)]
