"""Where a training step of benchmarks/train.py spends the device's time, kernel by kernel, beside
PyTorch in the same run where it is installed.

Usage: python benchmarks/kernels.py [--model bert] [--mode float32] [--rows 20]

Each library runs in a process of its own. The most expensive kernels come first, with how often
they ran in the step; names that a template fills are cut short.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
from collections import Counter

import train


def device_times(library: str, model: str, mode: str) -> tuple[Counter[str], Counter[str]]:
    """Microseconds of the device by kernel in one step, and how often each ran."""
    train.torch = torch = importlib.import_module(library)
    train.nn, train.F = torch.nn, importlib.import_module(f"{library}.nn.functional")
    profiler = importlib.import_module(f"{library}.profiler")
    step = train.training(model, mode, "cuda", train.MODELS[model][2])
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    for _ in range(2):  # the first recording sets the tracer up
        step(), step()
        torch.cuda.synchronize()
        with profiler.profile(activities=activities) as recorded:
            step()
            torch.cuda.synchronize()
    times, counts = Counter[str](), Counter[str]()
    for event in recorded.events():
        # Ours names the kind of device, PyTorch has a type for it.
        if str(event.device_type).rsplit(".", 1)[-1].lower() == "cuda":
            times[event.name] += event.time_range.elapsed_us()
            counts[event.name] += 1
    return times, counts


def show(library: str, model: str, mode: str, rows: int) -> None:
    times, counts = device_times(library, model, mode)
    print(f"{library}, {model} {mode}: {sum(times.values()) / 1e3:.2f} ms of the device")
    for name, taken in times.most_common(rows):
        print(f"{taken / 1e3:10.3f} ms {counts[name]:6d} x  {name[:110]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--model", default="bert")
    parser.add_argument("--mode", default="float32")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--library")
    options = parser.parse_args()
    if options.library:
        return show(options.library, options.model, options.mode, options.rows)
    libraries = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    for library in libraries:
        subprocess.run([sys.executable, *sys.argv, "--library", library], check=True)


if __name__ == "__main__":
    main()
