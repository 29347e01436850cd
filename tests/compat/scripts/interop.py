# ruff: noqa
# fmt: off
# NumPy, buffers, DLPack, subclasses and overrides.
import numpy as np
a = np.arange(6.0).reshape(2, 3)
t = torch.from_numpy(a)
t[0, 0] = 7
facts = [float(a[0, 0]), t.dtype, t.stride(), torch.from_numpy(a.T).stride(), torch.from_numpy(a[:, ::2]).stride(), torch.from_numpy(np.array(3.5)).shape]
kinds = [str(torch.from_numpy(np.zeros(1, d)).dtype) for d in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "u2", "u4", "u8")]
back = [str(torch.zeros(1, dtype=d).numpy().dtype) for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64)]
x = torch.zeros(3)
n = x.numpy()
n[0] = 5
shared = [x, np.asarray(x).tolist(), np.array(x).tolist(), x.__array__().dtype.name, np.asarray(x, dtype=np.int64).tolist(), np.asarray(torch.zeros(2, 3).t()).strides]
made = [torch.tensor(a).dtype, torch.tensor(a.astype("f4")).dtype, torch.as_tensor(a).data_ptr() == a.ctypes.data, torch.tensor(np.float32(1.5)).dtype, torch.tensor(np.int32(1)).dtype, torch.tensor([np.float64(1.5)]).dtype, torch.tensor([np.float32(1.5), 2]).dtype, torch.tensor(np.bool_(True)).dtype, torch.as_tensor(np.int64(3)).item(), torch.tensor([np.array([1, 2]), np.array([3, 4])]), torch.asarray(a).data_ptr() == a.ctypes.data]
mixed = [(torch.ones(2) * np.float64(2)).dtype, (torch.ones(2, dtype=torch.int64) * np.float32(1.5)).dtype, (np.float64(2) * torch.ones(2)).dtype if hasattr(np.float64(2) * torch.ones(2), "dtype") else 0, torch.ones(2).add(np.int64(3)), torch.zeros(np.int64(2), np.int32(3)).shape, torch.zeros(3)[np.int64(1)], torch.zeros(3)[np.array([0, 1])].shape, torch.arange(np.int64(3)), torch.full((2,), np.float32(1.5)), torch.zeros(2).sum(np.int64(0))]
# An array on the left of a tensor is refused by PyTorch and taken here.
ops = [str(type(torch.ones(2) * np.ones(2)).__name__), np.sum(torch.ones(3).numpy()).item(), np.sqrt(torch.tensor([4.0])).tolist(), np.add(torch.ones(2), 1).tolist()]
force = [torch.ones(2, requires_grad=True).numpy(force=True).tolist(), torch.tensor([1 + 2j]).conj().numpy(force=True).tolist() == [1 - 2j], torch.ones(2, requires_grad=True).detach().numpy().tolist()]
zero = [torch.from_numpy(np.zeros((0, 3))).shape, torch.zeros(0, 3).numpy().shape, torch.tensor(5).numpy().shape, int(torch.tensor(5).numpy())]
# %%
b = bytearray(range(8))
x = torch.frombuffer(b, dtype=torch.int16)
b[0] = 9
y = [x, torch.frombuffer(b, dtype=torch.uint8, offset=2, count=3), torch.frombuffer(memoryview(b), dtype=torch.int32).shape]
import array
z = [torch.frombuffer(array.array("f", [1.0, 2.0]), dtype=torch.float32), torch.tensor(array.array("i", [1, 2])), torch.tensor(range(3)), torch.tensor((1, 2)), torch.tensor([(1, 2), [3, 4]]), torch.tensor([[[]]]).shape, torch.tensor([torch.tensor(1), torch.tensor(2)]), torch.tensor([torch.tensor(1.5), 2])]
d = torch.from_dlpack(torch.arange(3))
e = torch.arange(3)
f = torch.from_dlpack(e)
f[0] = 5
g = [e, torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(e)), e.__dlpack_device__(), torch.from_dlpack(torch.arange(6).reshape(2, 3).t()).stride()]
import numpy as np
h = [np.from_dlpack(e).tolist(), torch.from_dlpack(np.arange(3.0))]
lists = [torch.tensor([[1, 2.5], [True, 4]]), torch.tensor([True, 2]), torch.tensor([1, 2.0]), torch.tensor([1, 1j]), torch.tensor([True, False]), torch.tensor([]), torch.tensor([[], []]).shape, torch.tensor(2**40), torch.tensor(1e400), torch.tensor([10**18])]
# %%
class Sub(torch.Tensor):
    pass
s = torch.ones(2).as_subclass(Sub)
kinds = [type(s).__name__, type(s + 1).__name__, type(s.sum()).__name__, type(s[0]).__name__, type(torch.add(s, 1)).__name__, type(s.clone()).__name__, type(torch.ones(2) + s).__name__, type(s.view(2)).__name__, type(s.split(1)[0]).__name__, type(s.max(0)).__name__, type(s.max(0).values).__name__, type(s.detach()).__name__, isinstance(s, torch.Tensor), type(torch.stack([s, s])).__name__, type(s.tolist()).__name__, type(s.shape).__name__, type(s.T).__name__, type(s.grad).__name__, type(s.data).__name__]
called = []
class Log(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        called.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})
l = torch.ones(2).as_subclass(Log)
r = [type(l * 2).__name__, type(torch.exp(l)).__name__, l.sum().item(), l[0].item(), type(torch.cat([l, l])).__name__]
l += 1
l[0] = 5
sh = l.shape
class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return (func.__name__, len(args), sorted(kwargs or {}))
u = Duck()
ducks = [torch.add(u, 1), torch.sum(u, dim=0), torch.cat([u, torch.ones(1)]), torch.ones(1).add(u), torch.nn.functional.relu(u), torch.matmul(torch.ones(1), u), torch.zeros_like(u), torch.is_tensor(u), torch.nn.functional.dropout(u, 0.5)]
wrap = Sub([1.0, 2.0])
made = [type(wrap).__name__, wrap.tolist(), type(torch.Tensor._make_subclass(Sub, torch.ones(1), True)).__name__, torch.Tensor._make_subclass(Sub, torch.ones(1), True).requires_grad]
types = [torch.is_tensor(s), torch.is_tensor(3), torch.typename(torch.ones(1)), torch.is_storage(torch.ones(1).untyped_storage()), isinstance(torch.ones(1), torch.FloatTensor), isinstance(torch.ones(1).long(), torch.LongTensor), torch.FloatTensor([1, 2]), torch.LongTensor(2).shape, torch.Tensor(2, 3).shape, torch.Tensor([1, 2]), torch.Tensor().shape, torch.IntTensor([[1]]).dtype, torch.BoolTensor([1, 0])]
