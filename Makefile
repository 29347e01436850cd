# Every task a developer or a continuous-integration machine runs. `make help` lists them.
# On a fresh Debian machine `make quickstart` needs nothing but make and, for apt-get, root.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
JOBS ?= $(shell nproc)
CUDA ?= OFF
VENV := .venv
BIN := $(VENV)/bin
RUN := PYTHONPATH=python $(BIN)/python
GENERATOR := $(if $(shell command -v ninja),Ninja,Unix Makefiles)

help:  ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: system $(VENV)/.complete  ## install the compiler, the tools and the Python packages

# Debian packages, by the command or header that shows that they are there.
DEBIAN := g++:g++ cmake:cmake ninja:ninja-build ccache:ccache mold:mold clang-format:clang-format \
  clang-tidy:clang-tidy $(PYTHON):python3 /usr/include/gtest/gtest.h:libgtest-dev
.PHONY: system
system:
	@missing=""; \
	for pair in $(DEBIAN); do \
	  probe=$${pair%%:*}; \
	  if [[ $$probe == /* ]]; then [ -e "$$probe" ] || missing+=" $${pair##*:}"; \
	  else command -v "$$probe" >/dev/null || missing+=" $${pair##*:}"; fi; \
	done; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing+=" python3-venv"; \
	$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' \
	  2>/dev/null || missing+=" python3-dev"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	  else echo "Please install the Debian packages:$$missing" >&2; exit 1; fi; \
	fi

$(VENV)/.complete: pyproject.toml tools/requirements.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/requirements.py > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/requirements.txt
	touch $@

build/%/CMakeCache.txt: CMakePresets.json | $(VENV)/.complete
	cmake --preset $* -G "$(GENERATOR)"
	touch $@

.PHONY: dev
dev: setup  ## build the library and the extension into python/flambeau (CUDA=ON for the GPU too)
	@$(MAKE) --no-print-directory build/dev/CMakeCache.txt
	@if ! grep -q '^FLAMBEAU_CUDA:[A-Z]*=$(CUDA)$$' build/dev/CMakeCache.txt; then \
	  cmake --preset dev -DFLAMBEAU_CUDA=$(CUDA); fi
	cmake --build --preset dev -j $(JOBS)

.PHONY: quickstart
quickstart: dev  ## set up, build, train a network on handwritten digits, draw quickstart.png
	$(RUN) examples/quickstart.py

.PHONY: quick
quick: dev  ## a few minutes: fast lints, C++ tests, Python tests
	$(MAKE) --no-print-directory lint-fast
	ctest --preset dev -j $(JOBS)
	$(RUN) -m pytest -q -m quick tests

.PHONY: test
test: dev  ## everything that CI asks
	$(MAKE) --no-print-directory lint
	ctest --preset dev -j $(JOBS)
	$(RUN) -m pytest -q tests
	$(BIN)/python tools/budgets.py import
	$(MAKE) --no-print-directory asan
	$(MAKE) --no-print-directory cuda

.PHONY: lint lint-fast
lint-fast: setup  ## format, ruff, mypy, layers, budgets
	$(BIN)/python tools/lint.py format ruff mypy layers budgets
lint: lint-fast  ## lint-fast and clang-tidy
	$(BIN)/python tools/lint.py tidy

.PHONY: format
format: setup  ## rewrite the sources in the project's style
	$(BIN)/python tools/lint.py --fix format ruff

.PHONY: stubs
stubs: dev  ## write the type stubs and docs/cpp/reference.md from the built library
	$(BIN)/python tools/stubs.py
	$(BIN)/python tools/cpp_reference.py

# How Python runs with the sanitizers' package.
SANITIZED = LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so) $$(g++ -print-file-name=libstdc++.so)" \
  PYTHONMALLOC=malloc PYTHONPATH=build/asan/python
FUZZ = $(SANITIZED) ASAN_OPTIONS=detect_leaks=0:max_allocation_size_mb=6000:allocator_may_return_null=1 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(BIN)/python tools/fuzz.py
.PHONY: asan-build asan
asan-build: setup
	@$(MAKE) --no-print-directory build/asan/CMakeCache.txt
	cmake --build --preset asan -j $(JOBS)
asan: asan-build  ## run the C++ tests, the smoke test and some hostile calls under the sanitizers
	ASAN_OPTIONS=detect_leaks=0 ctest --preset asan
	$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 $(BIN)/python tests/smoke.py
	$(FUZZ) --calls 10000

.PHONY: tsan
tsan: setup  ## run the C++ tests that have threads under ThreadSanitizer
	@$(MAKE) --no-print-directory build/tsan/CMakeCache.txt
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan -R 'Thread|Data'

.PHONY: fuzz
CALLS ?= 100000
SEED ?= 0
fuzz: asan-build  ## hostile calls of every op under the sanitizers: CALLS=100000 SEED=0
	$(FUZZ) --calls $(CALLS) --seed $(SEED)

# A machine without a GPU still shows whether its code compiles; tools/gpu_check.sh runs it on one.
NVCC := $(or $(shell command -v nvcc),$(wildcard $(or $(CUDA_HOME),/usr/local/cuda)/bin/nvcc))
.PHONY: cuda
cuda: setup  ## compile the CUDA library, where there is nvcc
ifeq ($(NVCC),)
	@echo "no nvcc: the CUDA library is not compiled"
else
	@$(MAKE) --no-print-directory build/cuda/CMakeCache.txt
	cmake --build --preset cuda -j $(JOBS)
endif

.PHONY: wheel
wheel: setup  ## build the wheel of the CPU package into dist/
	rm -f dist/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist \
	  --config-settings=cmake.define.FLAMBEAU_CUDA=OFF .
	$(BIN)/python tools/budgets.py wheel

.PHONY: archive
archive: setup  ## pack libraries and headers for C++ programs into dist/
	@$(MAKE) --no-print-directory build/release/CMakeCache.txt
	cmake --build --preset release -j $(JOBS)
	cpack --config build/release/CPackConfig.cmake -B dist

.PHONY: build-time
build-time: setup  ## time a clean build against its budget
	$(BIN)/python tools/budgets.py compile

.PHONY: bench
bench: dev  ## overhead against PyTorch (FLAMBEAU_ORACLE names an interpreter that has torch)
	$(RUN) benchmarks/overhead.py

.PHONY: clean
clean:  ## remove what was built
	rm -rf build dist python/flambeau/*.so
