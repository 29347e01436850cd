# ruff: noqa
# fmt: off
# Ways to make tensors, and what their arguments mean.
a = [torch.zeros(2), torch.zeros((2,)), torch.zeros([2, 1]), torch.zeros(torch.Size([1])), torch.zeros(()), torch.zeros(size=(2,)), torch.ones(2, dtype=torch.int8), torch.zeros(2, requires_grad=True), torch.zeros(2, device="cpu"), torch.zeros(2, layout=torch.strided), torch.zeros(2, pin_memory=False)]
b = [torch.arange(5), torch.arange(1, 5), torch.arange(1, 10, 3), torch.arange(0.5, 2), torch.arange(0, 1, 0.25), torch.arange(5, 0, -2), torch.arange(3, dtype=torch.float64), torch.arange(start=1, end=4), torch.arange(end=3), torch.arange(0, 1, 0.1).shape, torch.arange(1.0, 1.0).shape, torch.arange(2, 7, 2.0), torch.arange(torch.tensor(3))]
c = [torch.linspace(0, 1, 5), torch.linspace(0, 10, 3, dtype=torch.int64), torch.linspace(1, 0, 4), torch.linspace(-3, 5, steps=1), torch.linspace(0, 1j, 3), torch.logspace(0, 2, 3), torch.logspace(0, 3, 4, base=2), torch.linspace(start=0, end=1, steps=2), torch.range(0, 3)]
d = [torch.eye(2), torch.eye(2, 3), torch.eye(3, 2, dtype=torch.bool), torch.full((2,), 1), torch.full([1], 2.5), torch.full((), 1 + 1j), torch.full((2,), True), torch.full((1,), 3, dtype=torch.float32), torch.full(size=(1,), fill_value=2)]
e = [torch.tril_indices(3, 3), torch.triu_indices(2, 3, 1), torch.tril_indices(3, 2, offset=-1, dtype=torch.int32), torch.hann_window(4), torch.hamming_window(5, periodic=False), torch.blackman_window(3), torch.bartlett_window(4)]
f = [torch.complex(torch.ones(2), torch.zeros(2)), torch.polar(torch.ones(1), torch.zeros(1)), torch.scalar_tensor(2), torch.scalar_tensor(2, dtype=torch.int8), torch.empty(0), torch.empty(2, 0).shape, torch.empty_strided((2, 2), (1, 2)).stride(), torch.tensor(3.0).new_zeros(2), torch.ones(1, dtype=torch.int8).new_full((2,), 3), torch.ones(1).new_tensor([1, 2]), torch.ones(1).new_ones((2,), dtype=torch.bool), torch.ones(1).new_empty(0)]
x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
g = [torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), torch.zeros_like(x, requires_grad=True), torch.full_like(x, 2, dtype=torch.int8), x.new_zeros(2), torch.empty_like(x).shape, torch.zeros_like(x, device="meta").device]
h = [torch.tensor(x.tolist()), torch.tensor(x.detach()) is x, torch.as_tensor(x) is x, torch.asarray(x) is x, torch.tensor(5, dtype=torch.float16), torch.tensor([1.9, -1.9], dtype=torch.int64), torch.tensor([0, 2], dtype=torch.bool), torch.tensor(True, dtype=torch.float32), torch.as_tensor([1, 2], dtype=torch.float32), torch.asarray(3), torch.asarray([1.0], requires_grad=True), torch.asarray(x.detach(), copy=True).data_ptr() == x.data_ptr()]
i = [torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"), torch.meshgrid([torch.arange(2), torch.arange(3)], indexing="xy"), torch.cartesian_prod(torch.arange(2), torch.arange(2)), torch.combinations(torch.arange(3)), torch.block_diag(torch.ones(1, 2), torch.ones(2, 1)), torch.vander(torch.arange(3)), torch.broadcast_shapes((2, 1), (3,)), torch.broadcast_shapes((1,), (0,))]
j = [torch.zeros(2, out=torch.ones(2)), torch.arange(3, out=torch.empty(3, dtype=torch.int64)), torch.ones(2, out=torch.empty(0)).shape, torch.eye(2, out=torch.empty(2, 2, dtype=torch.float64)).dtype]
# %%
torch.manual_seed(5)
k = [torch.rand(2, 2), torch.randn(2), torch.randint(5, (2,)), torch.randint(1, 3, size=(2, 2)), torch.randperm(4), torch.normal(0.0, 1.0, (2,)), torch.bernoulli(torch.full((4,), 0.5)), torch.rand(2, dtype=torch.float64), torch.randint(low=0, high=3, size=(2,)), torch.randint(3, (2,), dtype=torch.float32), torch.rand(1, requires_grad=True), torch.multinomial(torch.ones(4), 2), torch.poisson(torch.full((3,), 2.0))]
l = torch.initial_seed()
m = [torch.manual_seed(3).initial_seed(), torch.seed() > 0, torch.get_rng_state().dtype, torch.get_rng_state().shape, torch.default_generator.device]
# %%
torch.set_default_dtype(torch.float64)
n = [torch.zeros(1).dtype, torch.tensor(1.0).dtype, torch.tensor(1j).dtype, torch.get_default_dtype(), torch.arange(1.0).dtype, (torch.ones(1, dtype=torch.int64) / 2).dtype, torch.full((1,), 1.0).dtype, torch.rand(1).dtype, torch.Tensor([1]).dtype]
torch.set_default_dtype(torch.float32)
torch.set_default_device("meta")
o = [torch.zeros(1).device, torch.tensor([1.0]).device, torch.arange(3).device, torch.zeros(1, device="cpu").device]
torch.set_default_device(None)
q = torch.zeros(1).device
with torch.device("meta"): r = [torch.ones(1).device, torch.rand(2).device, torch.tensor(1).device, torch.empty(1, device="cpu").device]
