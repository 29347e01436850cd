#!/usr/bin/env bash
# Builds everything with CUDA and runs what needs a GPU: tests/cuda, the questions of tests/ops on the
# device, and the timings of benchmarks/cuda.py. Continuous integration has no GPU; this is for the
# machine that has one. PYTHON names the interpreter, OUT a folder for logs; the packages that the
# build needs (see docs/dependencies.md) are installed there or on PYTHONPATH. SANITIZE=1 runs
# compute-sanitizer over all of these tests as well, in slices: slow. SANITIZE=0/6 takes every sixth
# of them from the first on, SANITIZE_TOOLS names other tools than memcheck and racecheck.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/gpu/logs}
JOBS=${JOBS:-$(nproc)}
DEVICES=${DEVICES:-cuda cpu}  # on which the questions of tests/ops are asked
mkdir -p "$OUT"

section() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

section build
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DFLAMBEAU_CUDA=ON -DFLAMBEAU_ISAS=v3 \
  -DPython_EXECUTABLE="$(command -v "$PYTHON")" ${CMAKE_ARGS:-} >"$OUT/configure.log" 2>&1 || { tail -30 "$OUT/configure.log"; exit 1; }
cmake --build build/gpu -j "$JOBS" -- -k 0 >"$OUT/build.log" 2>&1 || { grep -E -A6 'error|FAILED' "$OUT/build.log" | head -80; exit 1; }
export PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
"$PYTHON" -c 'import flambeau as torch; print(torch.cuda.get_device_properties())' || exit 1

# A process for tests/cuda and one for every question of tests/ops: they take turns on the GPU, and
# most of the time is Python's. What fails on the CPU as well is no matter of this check.
section "tests/cuda, and tests/ops on: $DEVICES"
for file in tests/cuda/test_*.py; do
  timeout 300 "$PYTHON" -m pytest -q -p no:cacheprovider --tb=short "$file" >"$OUT/cuda_$(basename "$file").log" 2>&1 &
done
questions=$(grep -oP '^def \Ktest_\w+(?=\(entry: Op, device)' tests/ops/test_ops.py)
ask() { timeout 240 "$PYTHON" -m pytest -q -p no:cacheprovider --device "$1" "tests/ops/test_ops.py::$2" >"$OUT/ops_$1_$2.log" 2>&1; }
export -f ask
export PYTHON OUT
for device in $DEVICES; do for question in $questions; do echo "$device $question"; done; done |
  OMP_NUM_THREADS=1 xargs -P "$JOBS" -L 1 bash -c 'ask "$0" "$1"'
wait
cat "$OUT"/cuda_test_*.log >"$OUT/cuda_tests.log"
rm -f "$OUT"/cuda_test_*.log
grep -E '^(FAILED|ERROR|Fatal|[0-9]+ (passed|failed))' "$OUT/cuda_tests.log" | cut -c1-200 | tail -70
for device in $DEVICES; do
  cat "$OUT"/ops_${device}_*.log >"$OUT/ops_$device.txt"
  tail -qn 1 "$OUT"/ops_${device}_*.log
  grep -hE '^FAILED' "$OUT/ops_$device.txt" | sed 's/ - .*//' | sort -u >"$OUT/failed_$device.txt"
done
rm -f "$OUT"/ops_*_test_*.log
echo "-- only on the device:"
touch "$OUT/failed_cpu.txt"
comm -23 "$OUT/failed_cuda.txt" "$OUT/failed_cpu.txt" | head -60
grep -hE '^E  .*(CUDA error|cuBLAS|cuDNN)' "$OUT/ops_cuda.txt" | cut -c1-200 | sort | uniq -c | sort -rn | head -10

# Without the allocator's cache every tensor is a piece of its own, whose ends memcheck sees. The
# sanitizer's own backtraces of the host hold on to Python's frames, and with them to tensors.
# cuDNN's kernels are NVIDIA's to check. CUPTI and PyTorch do not go together with a sanitizer, and
# tests of the cache and of graphs, whose memory it holds, want the cache.
sanitize() {  # tool, name of the log, arguments of pytest
  local tool=$1 log="$OUT/sanitizer_$1_$2.log" code
  shift 2
  FLAMBEAU_LAUNCH_GRAPHS=0 FLAMBEAU_NO_CUDA_MEMORY_CACHING=1 timeout "${SANITIZE_SECONDS:-540}" \
    "$SANITIZER" --tool "$tool" --show-backtrace device --kernel-name-exclude kernel_substring=cudnn \
    --error-exitcode 9 "$PYTHON" -m pytest -q -p no:cacheprovider -m "not large" "$@" >"$log" 2>&1
  code=$?
  echo "$(basename "$log"): exit $code, $(grep -c '^========= .*\(Invalid\|Race reported\)' "$log") findings; $(grep -E '[0-9]+ (passed|failed)|no tests ran' "$log" | tail -n 1 | cut -c1-100)"
}
slices() {  # lines of arguments of sanitize
  local tool file question slice
  for tool in ${SANITIZE_TOOLS:-memcheck racecheck}; do
    for slice in 0 1 2 3; do
      for file in tests/cuda/test_*.py; do
        case $file in *profiler* | *oracle* | *memory* | *graphs*) continue ;; esac
        echo "$tool $(basename "$file" .py)_$slice --slice $slice/4 $file"
      done
      for question in $questions; do
        echo "$tool ${question}_$slice --device cuda --slice $slice/4 tests/ops/test_ops.py::$question"
      done
    done
  done
}
if [ -n "${SANITIZE:-}" ]; then
  section "compute-sanitizer"
  SANITIZER=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
  export SANITIZER
  export -f sanitize
  case $SANITIZE in */*) part=$SANITIZE ;; *) part=0/1 ;; esac
  slices | awk -v first="${part%/*}" -v step="${part#*/}" 'NR % step == (first + 1) % step' |
    OMP_NUM_THREADS=1 xargs -P "$JOBS" -L 1 bash -c 'sanitize "$@"' sanitize
fi

[ -n "${NO_TIMINGS:-}" ] && exit 0
section timings
"$PYTHON" benchmarks/cuda.py 2>&1 | tee "$OUT/timings.txt"
section done
