#!/usr/bin/env bash
# Builds everything with CUDA and runs what needs a GPU: tests/cuda, the questions of tests/ops on the
# device, and the timings of benchmarks/cuda.py. Continuous integration has no GPU; this is for the
# machine that has one. PYTHON names the interpreter, OUT a folder for logs; the packages that the
# build needs (see docs/dependencies.md) are installed there or on PYTHONPATH. SANITIZE=1 runs
# compute-sanitizer over these tests as well, in 24 slices of each tool, SANITIZE=0/4 over every
# fourth slice from the first on; SANITIZE_TOOLS names other tools than memcheck and racecheck.
# NO_TESTS=1 and NO_TIMINGS=1 leave out the tests themselves and the timings.
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

questions=$(grep -oP '^def \Ktest_\w+(?=\(entry: Op, device)' tests/ops/test_ops.py)
ask() { timeout 240 "$PYTHON" -m pytest -q -p no:cacheprovider --device "$1" "tests/ops/test_ops.py::$2" >"$OUT/ops_$1_$2.log" 2>&1; }
export -f ask
export PYTHON OUT

# A process for tests/cuda and one for every question of tests/ops: they take turns on the GPU, and
# most of the time is Python's. What fails on the CPU as well is no matter of this check.
test_all() {
  section "tests/cuda, and tests/ops on: $DEVICES"
  for file in tests/cuda/test_*.py; do
    timeout 300 "$PYTHON" -m pytest -q -p no:cacheprovider --tb=short "$file" >"$OUT/cuda_$(basename "$file").log" 2>&1 &
  done
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
}
[ -n "${NO_TESTS:-}" ] || test_all

# Without the allocator's cache every tensor is a piece of its own, whose ends memcheck sees. The
# sanitizer's own backtraces of the host hold on to Python's frames, and with them to tensors.
# CUPTI and PyTorch do not go together with a sanitizer, and tests of the cache and of graphs, whose
# memory it holds, want the cache. The first launch of a kernel costs tens of milliseconds there and
# every further one a hundred times what it does otherwise, so samples are thin, a slice has all
# questions to its ops, and races are looked for in our own kernels only, whose use of shared memory
# does not depend on layouts. cuDNN's kernels are NVIDIA's to check; so are cuBLAS's, but a program of
# cuBLAS alone fails with an illegal access where racecheck leaves its kernels for Hopper (nvjet) out.
sanitize() {  # tool, name of the log, arguments of pytest
  local tool=$1 log="$OUT/sanitizer_$1_$2.log" start=$SECONDS code
  local kernels="--kernel-name-exclude kernel_substring=cudnn" chosen="not large and not repeated and not unwatched"
  if [ "$tool" = racecheck ]; then
    kernels="--kernel-name kernel_substring=flambeau --kernel-name kernel_substring=nvjet"
    chosen="$chosen and not layouts"
  fi
  shift 2
  FLAMBEAU_LAUNCH_GRAPHS=0 FLAMBEAU_NO_CUDA_MEMORY_CACHING=1 timeout "${SANITIZE_SECONDS:-110}" \
    "$SANITIZER" --tool "$tool" --show-backtrace device $kernels --error-exitcode 9 \
    "$PYTHON" -m pytest -v -p no:cacheprovider --durations 5 --thin -m "$chosen" "$@" >"$log" 2>&1
  code=$?
  echo "$(basename "$log"): exit $code, $((SECONDS - start)) s, $(grep -c '^========= .*\(Invalid\|Race reported\)' "$log") findings; $(grep -E '[0-9]+ (passed|failed)|no tests ran' "$log" | tail -n 1 | cut -c1-100)"
}
sanitized_files=$(ls tests/cuda/test_*.py | grep -vE 'profiler|oracle|memory|graphs')
slices() {  # lines of arguments of sanitize: slices first, first + step, ...
  local first=$1 step=$2 count=24 slice tool
  for ((slice = first; slice < count; slice += step)); do
    for tool in ${SANITIZE_TOOLS:-memcheck racecheck}; do
      echo "$tool ops_$slice --device cuda --slice $slice/$count tests/ops/test_ops.py"
      echo "$tool cuda_$slice --slice $slice/$count" $sanitized_files
    done
  done
}
if [ -n "${SANITIZE:-}" ]; then
  section "compute-sanitizer"
  SANITIZER=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
  export SANITIZER
  export -f sanitize
  case $SANITIZE in */*) part=$SANITIZE ;; *) part=0/1 ;; esac
  slices "${part%/*}" "${part#*/}" |
    OMP_NUM_THREADS=1 xargs -P "${SANITIZE_JOBS:-$JOBS}" -L 1 bash -c 'sanitize "$@"' sanitize | tee "$OUT/sanitizer.txt"
  echo "$(grep -c 'exit 0' "$OUT/sanitizer.txt") of $(wc -l <"$OUT/sanitizer.txt") slices are clean (${SECONDS}s)"
fi

[ -n "${NO_TIMINGS:-}" ] && exit 0
section timings
"$PYTHON" benchmarks/cuda.py 2>&1 | tee "$OUT/timings.txt"
section done
