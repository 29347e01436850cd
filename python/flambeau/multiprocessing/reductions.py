"""Tensors on their way to other processes: through files in shared memory, which both map.

A tensor made by `share_memory_` lives in such a file, and every process that gets it works on the
same numbers. Any other tensor is copied into one that its receiver removes as it maps it.

A file goes when the memory of the process that made it does. What travels is a second name for it,
which its receiver takes over, so that neither depends on how long the other lives.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import weakref
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler

import flambeau
from flambeau import Tensor
from flambeau.nn.parameter import Parameter
from flambeau.sparse import _construct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
_numbers = itertools.count()
# The names that this process gave to files and has not removed; a forked child owns none of them.
_owned: set[str] = set()
_owner = 0
# The file that each shared storage lives in, by the address of its memory.
_shared: dict[int, str] = {}


def _own(path: str) -> None:
    """Makes a name one that this process removes."""
    global _owner
    if os.getpid() != _owner:
        _owned.clear()
        _owner = os.getpid()
        # After queues have sent what they hold, in worker processes too, which skip atexit.
        util.Finalize(None, _remove_all, exitpriority=-100)
    _owned.add(path)


def _new_name() -> str:
    return os.path.join(_FOLDER, f"flambeau_{os.getpid()}_{next(_numbers)}")


def _new_file(size: int) -> str:
    """A file of shared memory of `size` bytes."""
    path = _new_name()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.unlink(path)
        raise RuntimeError(
            f"unable to allocate {size} bytes of shared memory in {_FOLDER}: {error.strerror}"
        ) from error
    finally:
        os.close(descriptor)
    _own(path)
    return path


def _remove(path: str) -> None:
    """Removes a file of this process; those who mapped it keep their memory."""
    if path in _owned and os.getpid() == _owner:
        _owned.discard(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return


def _remove_all() -> None:
    for path in list(_owned):
        _remove(path)


def _mapped(path: str, size: int, shared: bool = False) -> Tensor:
    """The bytes of a file, as a tensor over the memory itself; if it is shared, that is known of
    it, and the file keeps its name, for as long as the memory is in use.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        memory = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    tensor = flambeau.frombuffer(memory, dtype=flambeau.uint8)
    if shared:
        _shared[tensor.data_ptr()] = path
        weakref.finalize(memory, _forget, tensor.data_ptr(), path).atexit = False
    return tensor


def _forget(address: int, path: str) -> None:
    if _shared.get(address) == path:
        del _shared[address]
    _remove(path)


def _storage_bytes(tensor: Tensor) -> Tensor:
    return flambeau._C._storage_bytes(tensor)


def is_shared(tensor: Tensor) -> bool:
    """Whether a tensor's memory is shared with other processes."""
    return tensor.is_cuda or _storage_bytes(tensor).data_ptr() in _shared


def share_memory_(tensor: Tensor) -> Tensor:
    """Moves the memory of a tensor to where other processes can map it; the tensor."""
    if is_shared(tensor) or tensor.numel() == 0:
        return tensor
    old = _storage_bytes(tensor)
    path = _new_file(old.numel())
    new = _mapped(path, old.numel(), shared=True)
    new.copy_(old)
    if flambeau._C._exchange_memory(tensor, new):  # views of the tensor move with it
        return tensor
    offset, size, stride = tensor.storage_offset(), tensor.size(), tensor.stride()
    whole = new[: new.numel() // tensor.dtype.itemsize * tensor.dtype.itemsize].view(tensor.dtype)
    tensor.data = whole.as_strided(size, stride, offset)
    return tensor


def _rebuild(
    path: str, size: int, once: bool, dtype: str, where: Any, is_parameter: bool
) -> Tensor:
    """The receiving end."""
    if not once:
        own = _new_name()
        os.rename(path, own)
        _own(own)
        path = own
    memory = _mapped(path, size, shared=not once)
    if once:
        os.unlink(path)
    offset, shape, stride, requires_grad = where
    tensor = memory.view(getattr(flambeau, dtype)).as_strided(shape, stride, offset)
    if is_parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def _rebuild_bare(
    dtype: str, device: str, where: tuple[Any, Any], requires_grad: bool, is_parameter: bool
) -> Tensor:
    """The receiving end of a tensor without memory: an empty one, or one of the meta device."""
    tensor = flambeau.empty_strided(*where, dtype=getattr(flambeau, dtype), device=device)
    if is_parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def _rebuild_sparse(layout: str, data: tuple[Any, ...], requires_grad: bool) -> Tensor:
    tensor = _construct.rebuild(getattr(flambeau, layout.rpartition(".")[2]), data)
    return tensor.requires_grad_(requires_grad)


def reduce_tensor(tensor: Tensor) -> Any:
    """What travels in place of a tensor."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if tensor.layout is not flambeau.strided:
        # Its parts travel as tensors of their own.
        return _rebuild_sparse, (str(tensor.layout), _construct.parts(tensor), tensor.requires_grad)
    is_parameter = isinstance(tensor, Parameter)
    dtype = str(tensor.dtype).rpartition(".")[2]
    device = tensor.device.type
    if device not in ("cpu", "meta"):
        raise RuntimeError(
            f"tensors on {device} cannot be sent to another process; send tensor.cpu()"
        )
    if tensor.numel() == 0 or tensor.is_meta:
        bare = (tuple(tensor.shape), tensor.stride())
        return _rebuild_bare, (dtype, device, bare, tensor.requires_grad, is_parameter)
    memory = _storage_bytes(tensor)
    path = _shared.get(memory.data_ptr())
    if path is not None:
        offset, stride = tensor.storage_offset(), tensor.stride()
        place = (offset, tuple(tensor.size()), stride, tensor.requires_grad)
        name = _new_name()
        os.link(path, name)
        return _rebuild, (name, memory.numel(), False, dtype, place, is_parameter)
    # Only what the tensor shows: a row of a large table does not take the table along.
    data = tensor.detach().contiguous()
    size = data.numel() * data.dtype.itemsize
    path = _new_file(size)
    _mapped(path, size).view(data.dtype).view(data.shape).copy_(data)
    # From here on the receiver removes it.
    _owned.discard(path)
    where = (0, tuple(data.size()), data.stride(), tensor.requires_grad)
    return _rebuild, (path, size, True, dtype, where, is_parameter)


def rebuild_event(device: int, handle: bytes) -> Any:
    """The event of another process."""
    return flambeau.cuda.Event.from_ipc_handle(device, handle)


def reduce_event(event: Any) -> Any:
    """What another process opens an event by, which must have been made with interprocess=True."""
    handle = event.ipc_handle()
    return rebuild_event, (event.device.index, handle)


def init_reductions() -> None:
    """Makes the pickler of multiprocessing send tensors in this way."""
    ForkingPickler.register(flambeau.cuda.Event, reduce_event)
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
