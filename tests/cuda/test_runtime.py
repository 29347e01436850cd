"""Devices, streams, events, memory and random generators of CUDA."""

from __future__ import annotations

import pickle
import threading

import pytest

import flambeau as torch


def test_streams_tell_where_they_are() -> None:
    stream = torch.cuda.Stream()
    assert stream.device == torch.device("cuda:0")
    assert (stream.device_index, stream.device_type) == (0, 1)
    assert stream.stream_id != torch.cuda.default_stream().stream_id


def test_a_device_has_a_name_and_properties() -> None:
    assert torch.cuda.device_count() >= 1
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.get_device_name() == properties.name
    assert torch.cuda.get_device_capability(0) == (properties.major, properties.minor)
    assert properties.total_memory > 2**30
    assert properties.multi_processor_count > 0


def test_cuda_without_an_index_is_the_current_device() -> None:
    x = torch.zeros(2, device="cuda")
    assert x.device == torch.device("cuda", torch.cuda.current_device())
    assert x.is_cuda and x.get_device() == 0
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0


def test_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(99)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1, device="cuda:99")


def test_values_survive_the_way_to_the_device_and_back() -> None:
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.bool,
    ):
        x = torch.arange(24).reshape(2, 3, 4).to(dtype)
        assert torch.equal(x.cuda().cpu(), x)
        assert torch.equal(x.cuda().transpose(0, 2).cpu(), x.transpose(0, 2))
        assert torch.equal(x.transpose(0, 1).cuda().cpu(), x.transpose(0, 1))
    assert x.cuda().tolist() == x.tolist()
    assert torch.tensor([1.5, 2.5], device="cuda")[1].item() == 2.5
    assert repr(torch.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"


def test_every_dtype_converts_to_every_other() -> None:
    names = (
        "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool"
    )
    values = torch.tensor([0, 1, 2, 5, 100])
    for source in names.split():
        x = values.to(getattr(torch, source))
        for target in names.split():
            dtype = getattr(torch, target)
            assert torch.equal(x.cuda().to(dtype).cpu(), x.to(dtype)), (source, target)
            wide = x.expand(3, 5).t()
            assert torch.equal(wide.cuda().to(dtype).cpu(), wide.to(dtype)), (source, target)


def test_tensors_on_two_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device="cuda") + torch.ones(2)
    zero_dim = torch.ones(2, device="cuda") + torch.tensor(2.0)
    assert zero_dim.tolist() == [3.0, 3.0]


# --- Memory --------------------------------------------------------------------------------------


@pytest.mark.unwatched
def test_memory_is_counted_and_reused() -> None:
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4096  # rounded to 512
    address = x.data_ptr()
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before == 4096
    assert torch.empty(1000, device="cuda").data_ptr() == address


@pytest.mark.unwatched
def test_empty_cache_gives_memory_back() -> None:
    x = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    held = torch.cuda.memory_reserved()
    del x
    assert torch.cuda.memory_reserved() == held
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= held - (64 << 20)


def test_blocks_are_cut_and_joined() -> None:
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved()
    parts = [torch.empty(4 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
    assert torch.cuda.memory_reserved() - reserved == 32 << 20
    del parts
    whole = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() - reserved == 32 << 20
    del whole


def test_running_out_of_memory_says_what_was_asked_and_held() -> None:
    with pytest.raises(
        torch.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate 4096\.00 GiB"
    ):
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    assert torch.ones(3, device="cuda").sum().item() == 3  # and all is well afterwards


def test_a_tensor_of_more_than_two_to_the_31_elements_is_indexed_right() -> None:
    n = (1 << 31) + 1000
    x = torch.zeros(n, dtype=torch.uint8, device="cuda")
    x[-3:] = 7
    x[n // 2] = 5
    assert x[-4:].tolist() == [0, 7, 7, 7]
    assert int(x.sum()) == 26
    strided = x.view(-1, 8)[:, 3] if n % 8 == 0 else x[::2]
    assert int((strided + 1).to(torch.int64).sum()) == strided.numel() + int(strided.sum())
    del x, strided
    torch.cuda.empty_cache()


# --- Streams and events --------------------------------------------------------------------------


def test_work_goes_to_the_current_stream() -> None:
    side = torch.cuda.Stream()
    assert side != torch.cuda.default_stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        y = torch.ones(1000, device="cuda") * 3
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.current_stream().wait_stream(side)
    assert float(y.sum()) == 3000
    side.synchronize()
    assert side.query()


def test_streams_tell_their_priority_and_whether_they_are_captured() -> None:
    urgent, plain = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
    assert (urgent.priority, plain.priority) == (-1, 0)
    assert torch.cuda.default_stream().priority == 0
    with torch.cuda.stream(urgent):
        assert torch.cuda.current_stream().priority == -1
    assert plain.native_handle == plain.cuda_stream != 0 and not plain.is_capturing()
    x = torch.zeros(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=plain):
        assert plain.is_capturing()
        x.add_(1)
    assert not plain.is_capturing()


def test_each_thread_has_its_own_current_stream() -> None:
    side = torch.cuda.Stream()
    seen = []
    torch.cuda.set_stream(side)
    thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
    thread.start()
    thread.join()
    torch.cuda.set_stream(torch.cuda.default_stream())
    assert seen == [torch.cuda.default_stream()]


def test_events_measure_time() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    x = torch.ones(1 << 20, device="cuda")
    start.record()
    for _ in range(20):
        x = x + 1
    end.record()
    end.synchronize()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 1000
    with pytest.raises(ValueError):
        torch.cuda.Event().elapsed_time(end)


def test_memory_used_on_another_stream_is_not_reused_too_early() -> None:
    side = torch.cuda.Stream()
    x = torch.ones(1 << 22, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = torch.zeros((), device="cuda")
        for _ in range(50):
            total = total + x.sum()
    x.record_stream(side)
    del x
    torch.zeros(1 << 22, device="cuda").fill_(9)
    side.synchronize()
    assert float(total) == 50 * (1 << 22)


def test_backward_runs_in_the_streams_of_forward() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.cuda.current_stream())
            return grad * 2

    seen: list[torch.cuda.Stream] = []
    x = torch.ones(1000, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        weight = torch.full((1000,), 3.0, device="cuda")
        y = Double.apply(x) * weight
        y[:10] *= 5
        loss = y.sum()
    loss.backward()  # nobody waited for the side stream
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert float(x.grad.sum()) == 6.0 * 990 + 30.0 * 10
    with torch.cuda.stream(side):
        z = Double.apply(x)
    torch.cuda.current_stream().wait_stream(side)
    plain = (Double.apply(x) + z).sum()
    with torch.cuda.stream(side):
        plain.backward()
    side.synchronize()
    assert seen[0] == side and set(seen[1:]) == {side, torch.cuda.default_stream()}


# --- Random numbers ------------------------------------------------------------------------------


def test_a_seed_gives_the_same_numbers() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(torch.rand(1000, device="cuda"))
    assert torch.equal(*draws)
    assert not torch.equal(draws[0], torch.rand(1000, device="cuda"))
    torch.cuda.manual_seed_all(5)
    assert torch.equal(draws[0], torch.rand(1000, device="cuda"))


def test_the_state_of_a_generator_can_be_kept() -> None:
    state = torch.cuda.get_rng_state()
    assert state.numel() == 16 and state.dtype == torch.uint8
    first = torch.randn(100, device="cuda")
    torch.cuda.set_rng_state(pickle.loads(pickle.dumps(state)))
    assert torch.equal(first, torch.randn(100, device="cuda"))
    own = torch.Generator("cuda").manual_seed(3)
    again = torch.Generator("cuda").manual_seed(3)
    assert torch.equal(
        torch.rand(5, device="cuda", generator=own), torch.rand(5, device="cuda", generator=again)
    )


def test_random_numbers_follow_their_distribution() -> None:
    torch.manual_seed(0)
    n = 1 << 20
    uniform = torch.rand(n, device="cuda")
    assert float(uniform.min()) >= 0 and float(uniform.max()) < 1
    assert abs(float(uniform.mean()) - 0.5) < 2e-3
    normal = torch.randn(n, device="cuda", dtype=torch.float64)
    assert abs(float(normal.mean())) < 5e-3 and abs(float(normal.std()) - 1) < 5e-3
    assert abs(float((torch.randint(0, 10, (n,), device="cuda") == 3).float().mean()) - 0.1) < 2e-3
    kept = torch.nn.functional.dropout(torch.ones(n, device="cuda"), 0.25)
    assert abs(float((kept != 0).float().mean()) - 0.75) < 2e-3
    assert abs(float(kept.mean()) - 1) < 5e-3


# --- Page-locked memory --------------------------------------------------------------------------


def test_pinned_memory_copies_without_waiting() -> None:
    x = torch.arange(1 << 20).float()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and torch.equal(pinned, x)
    assert pinned.pin_memory() is pinned
    on_device = pinned.to("cuda", non_blocking=True)
    back = torch.empty(1 << 20, pin_memory=True)
    assert back.is_pinned() and torch.tensor([1.0, 2.0], pin_memory=True).is_pinned()
    back.copy_(on_device * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, x * 2)
    with pytest.raises(RuntimeError, match="cannot pin"):
        on_device.pin_memory()


def test_pinned_memory_is_not_reused_before_its_copies_are_done() -> None:
    target = torch.empty(1 << 24, dtype=torch.uint8, device="cuda")
    for value in range(20):
        source = torch.full((1 << 24,), value, dtype=torch.uint8).pin_memory()
        target.copy_(source, non_blocking=True)
        del source
        assert int(target[:3].sum()) == 3 * value and int(target[-3:].sum()) == 3 * value


# --- Tools ---------------------------------------------------------------------------------------


@pytest.mark.unwatched
def test_the_host_runs_ahead_of_the_device() -> None:
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    done = torch.cuda.Event()
    x = torch.ones(10, device="cuda") + 1
    done.record()
    assert not done.query()
    assert x.tolist() == [2.0] * 10
    assert done.query()


def test_ops_that_wait_for_the_device_can_be_told_of() -> None:
    x = torch.ones(3, device="cuda")
    assert torch.cuda.get_sync_debug_mode() == 0
    try:
        torch.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
            x.sum().item()
        torch.cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
            x.nonzero()
        (x + 1).sum()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode("never")


def test_profilers_can_be_told_what_is_going_on() -> None:
    with torch.cuda.nvtx.range("step {}", 1):
        torch.cuda.nvtx.mark("here")
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("other"))
    with torch.cuda.profiler.profile():
        torch.ones(3, device="cuda")


def test_what_the_library_and_the_device_are() -> None:
    assert any(name.startswith("sm_") for name in torch.cuda.get_arch_list())
    assert "-gencode compute=" in torch.cuda.get_gencode_flags()
    assert len(torch.cuda.get_device_properties().uuid) == 36
    assert torch.cuda.cudart().cudaMemGetInfo(0)[1] == torch.cuda.mem_get_info()[1]
    assert torch.cuda.current_blas_handle() != 0
    assert torch.version.cuda.startswith("13.") and torch.backends.cudnn.version() >= 90000
    assert torch.cuda._is_compiled() and torch.backends.cuda.is_built()
    assert torch.cuda.device_memory_used() > 0
    with pytest.raises(torch.cuda.CudaError, match="invalid argument"):
        torch.cuda.check_error(1)


def test_page_locked_memory_is_counted() -> None:
    before = torch.cuda.host_memory_stats().get("active_bytes.current", 0)
    x = torch.empty(1000, pin_memory=True)
    assert torch.cuda.host_memory_stats()["active_bytes.current"] - before == 4096
    del x
    assert torch.cuda.host_memory_stats()["active_bytes.current"] == before


def test_a_forked_process_is_told_that_it_cannot_use_the_device() -> None:
    import os

    torch.ones(1, device="cuda")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="cuda")
            text = "it worked"
        except RuntimeError as error:
            text = str(error) if torch.cuda._is_in_bad_fork() else "not noticed"
        os.write(writer, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"'spawn' start method" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)


def test_waiting_for_every_launch_gives_the_same_numbers() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import flambeau as torch\n"
        "x = torch.arange(5, device='cuda')\n"
        "try:\n    x[torch.tensor([7], device='cuda')]\nexcept IndexError:\n    print('at once')\n"
    )
    environment = {**os.environ, "FLAMBEAU_LAUNCH_BLOCKING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "at once"


def many_small_launches(stream: torch.cuda.Stream) -> None:
    """Kernels that are started often, each time with other sizes, numbers and memory."""
    with torch.cuda.stream(stream):
        results = [
            torch.full((i % 50 + 1,), float(i), device="cuda") * 2 + i for i in range(200)
        ]  # nothing is waited for so far
        totals = [x.sum() for x in results]
    stream.synchronize()
    for i, (result, total) in enumerate(zip(results, totals, strict=True)):
        assert result.tolist() == [3.0 * i] * (i % 50 + 1)
        assert total.item() == 3.0 * i * (i % 50 + 1)


def test_kernels_that_are_started_often_take_the_arguments_of_each_launch() -> None:
    default, side = torch.cuda.default_stream(), torch.cuda.Stream()
    urgent = torch.cuda.Stream(priority=-1)
    for stream in (default, side, default, urgent, side, urgent):
        many_small_launches(stream)


def test_threads_start_the_same_kernels_side_by_side() -> None:
    failures: list[BaseException] = []

    def work(stream: torch.cuda.Stream) -> None:
        try:
            many_small_launches(stream)
        except BaseException as failure:
            failures.append(failure)

    default = torch.cuda.default_stream()
    side = torch.cuda.Stream()
    threads = [
        threading.Thread(target=work, args=(stream,))
        for stream in (default, default, side, torch.cuda.Stream(), side, default)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.unwatched
def test_kernels_started_often_on_one_stream_do_not_wait_for_another() -> None:
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    numbers = torch.zeros(10, device="cuda"), torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    for _ in range(40):
        for stream, x in zip(streams, numbers, strict=True):
            with torch.cuda.stream(stream):
                x.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(2_000_000_000)
        numbers[0].add_(1)
    with torch.cuda.stream(streams[1]):
        numbers[1].add_(1)
    streams[1].synchronize()
    assert not streams[0].query()
    torch.cuda.synchronize()
    assert numbers[0].tolist() == numbers[1].tolist() == [41.0] * 10


def test_streams_whose_kernels_are_graphs_can_be_captured() -> None:
    main, forked = torch.cuda.Stream(), torch.cuda.Stream()
    x, y = torch.zeros(10, device="cuda"), torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    for stream, tensor in ((main, x), (forked, y)):
        with torch.cuda.stream(stream):
            for _ in range(40):
                tensor.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=main):
        x.add_(1)
        forked.wait_stream(main)
        with torch.cuda.stream(forked):
            y.add_(1)
        main.wait_stream(forked)
    assert x[0].item() == y[0].item() == 40
    for _ in range(3):
        graph.replay()
        with torch.cuda.stream(torch.cuda.default_stream()):
            x.add_(1)
    assert x[0].item() == 46 and y[0].item() == 43


def test_kernels_started_often_can_be_captured_and_take_turns_with_copies() -> None:
    x, y = torch.zeros(100, device="cuda"), torch.zeros(100, device="cuda")
    for i in range(50):
        x.add_(1)
        y.copy_(x)
        assert i % 20 or y[7].item() == i + 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    for _ in range(3):
        graph.replay()
        x.add_(1)
    assert x.tolist() == [56.0] * 100
    assert y.tolist() == [50.0] * 100


def test_new_tensors_go_where_out_lies() -> None:
    for make in (
        lambda out: torch.arange(5, out=out),
        lambda out: torch.full((5,), 2.0, out=out),
        lambda out: torch.linspace(0, 1, 5, out=out),
        lambda out: torch.eye(3, out=out),
        lambda out: torch.empty(5, out=out),
        lambda out: torch.rand(5, out=out),
    ):
        out = torch.empty(0, device="cuda")
        assert make(out) is out
        assert out.is_cuda and out.numel() >= 5


def test_the_default_tensor_type_says_the_device() -> None:
    with pytest.warns(UserWarning, match="set_default_tensor_type"):
        torch.set_default_tensor_type(torch.cuda.DoubleTensor)
        try:
            x = torch.zeros(2)
            assert x.is_cuda and x.dtype == torch.float64
        finally:
            torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.zeros(2).device.type == "cpu"
    assert torch.zeros(2).dtype == torch.float32


def test_new_tensors_are_pinned_where_asked_for() -> None:
    like = torch.zeros(5)
    made = [
        make(like, pin_memory=True)
        for make in (torch.rand_like, torch.randn_like, torch.empty_like, torch.ones_like)
    ]
    made += [make(3, pin_memory=True) for make in (torch.rand, torch.randperm, torch.eye)]
    made += [torch.linspace(0, 1, 3, pin_memory=True), torch.hann_window(4, pin_memory=True)]
    assert all(x.is_pinned() and x.untyped_storage().is_pinned() for x in made)
    assert not like.untyped_storage().is_pinned()
    assert like.untyped_storage().pin_memory().is_pinned()
    x = torch.ones(3, requires_grad=True)
    (x.pin_memory() * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_others_read_after_what_was_asked_for_before() -> None:
    asked = []

    class Producer:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, **options: object) -> object:
            asked.append(options["stream"])
            return self.tensor.__dlpack__(**options)

    x = torch.zeros(1 << 20, device="cuda")
    side, reading = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        x.add_(1)
        producer = Producer(x)
        capsule = x.__dlpack__(stream=reading.cuda_stream)
    with torch.cuda.stream(reading):
        assert torch.from_dlpack(capsule).sum().item() == 1 << 20
    torch.from_dlpack(producer)
    with torch.cuda.stream(side):
        torch.from_dlpack(producer)
    assert asked == [1, side.cuda_stream]
