# Two commands on a fresh machine: `make demo` runs the main job on the CPU, `make test` passes the tests.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
ORT_STAMP := $(VENV)/.onnxruntime-installed
RTX_STAMP := $(VENV)/.tensorrt-rtx-installed
TESTS_STAMP := $(VENV)/.tests-requirements-installed
NVRTC_STAMP := $(VENV)/.nvrtc-installed
PTXAS_STAMP := $(VENV)/.ptxas-installed
SEGTRT := target/release/segtrt

# ONNX Runtime's wheels of 1.29 and newer else send telemetry from Linux, also from the tests' processes.
export ORT_DISABLE_TELEMETRY := 1

PREFIX ?= $(HOME)/.local
# A local libonnxruntime.so, wheel or release archive for the demo, where the network does not give one: make demo ORT=FILE
ORT ?=

.PHONY: help demo test test-aarch64 test-build test-rust test-export test-lab test-slurm install format lint book bench-metrics dist clean prerequisites prerequisites-tests

help: ## This list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: prerequisites ## Build, track and measure a synthetic clip on the CPU, name the file to open. ORT=FILE: a local ONNX Runtime.
	cargo build --release --locked || { echo "cargo could not build; without a network: cargo fetch --locked on a machine that has one, then copy ~/.cargo/registry" >&2; exit 1; }
	$(SEGTRT) setup $(if $(ORT),--from $(ORT))
	rm -rf demo
	$(SEGTRT) demo --out demo

# What incremental builds keep costs a first build a tenth more; it helps only those who build again.
test: export CARGO_INCREMENTAL ?= $(if $(wildcard target/debug/incremental),1,0)
# Packages are installed, the exporter tested and the PTX checked while rustc compiles.
test: prerequisites-tests ## Formatting, lints and every test that needs no GPU.
	+$(MAKE) --no-print-directory -j2 test-rust test-export

# Clippy as the compiler: it lints what it compiles for the tests. `make lint` would check every crate once more, which
# costs 1.5 minutes on two processors. Clippy's authors warn that its code may be optimised less; for tests that is enough.
LINTING := RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" \
	CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

# Compiling needs none of the packages, so it begins before they are installed.
test-build: format
	$(LINTING) cargo test --locked --workspace --no-run

test-rust: test-build $(ORT_STAMP) $(RTX_STAMP) $(TESTS_STAMP)
	$(LINTING) cargo test --locked --workspace
	$(LINTING) cargo test --locked --workspace --benches --no-run
	python3 scripts/cli_pages.py --check  # the pages of the help that was just built
	python3 -m unittest discover -q -s pytorch  # compares with the program that was just built

test-export: $(TESTS_STAMP) $(NVRTC_STAMP) $(PTXAS_STAMP)
	$(VENV)/bin/python -m unittest discover -q -s onnx
	PYTHONPATH=$(VENV)/nvrtc-11:$(VENV)/nvrtc-12 $(VENV)/bin/python scripts/kernels.py --check
	PYTHONPATH=$(VENV)/ptxas $(VENV)/bin/python scripts/resources.py --check

test-lab: $(TESTS_STAMP) ## Tests of the team's own tools in lab/, which the program does not need.
	python3 -m unittest discover -q -s lab/measure
	$(VENV)/bin/python -m unittest discover -q -s lab/sanitize
	python3 -m unittest discover -q -s lab/kernel_trace
	$(VENV)/bin/python -m unittest discover -q -s lab/train

test-slurm: prerequisites-tests $(ORT_STAMP) ## A small experiment through a real Slurm on loopback; needs slurm-wlm and munge.
	cargo build --locked
	tests/slurm/run.sh

# One clip and eight frames with SUBSET=1. What it needs is downloaded (190 MB) and kept in target/.
test-aarch64: prerequisites-tests $(ORT_STAMP) ## The program for aarch64 under qemu gives x86-64's files. SUBSET=1: one short clip.
	SUBSET=$(SUBSET) REQUIRE=$(REQUIRE) AARCH64=$(AARCH64) NATIVE=$(NATIVE) tests/aarch64/run.sh

install: prerequisites ## Build, and install program, demo network, exporter, manual pages and completions under PREFIX (~/.local).
	cargo build --release --locked
	scripts/install.sh $(SEGTRT) $(DESTDIR)$(PREFIX)
	@echo "installed $(DESTDIR)$(PREFIX)/bin/segtrt; next: segtrt setup"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on PATH: export PATH=$(PREFIX)/bin:\$$PATH" ;; esac

format:
	python3 -m unittest discover -q -s scripts
	cargo fmt --all --check

lint: format ## Formatting and lints alone.
	cargo clippy --locked --workspace --all-targets -- -D warnings

book: ## The pages of docs/SUMMARY.md as HTML in target/book/html; needs mdbook (cargo install mdbook --locked).
	python3 scripts/book.py

bench-metrics: prerequisites-tests ## Speed of the metrics against the Python evaluator, both sides in one run.
	cargo build --release --locked --example score_masks
	python3 -m venv $(VENV)-metrics
	$(VENV)-metrics/bin/pip install --quiet numpy opencv-python-headless scikit-image pycocotools
	$(VENV)-metrics/bin/python benches/python/compare_metrics.py

# Stripped archives for x86-64 and aarch64; the sources of both are compiled anew, which takes ten minutes each on two processors.
dist: prerequisites-tests ## Make archives of the program for x86-64 and aarch64 (glibc 2.31 or newer) in target/dist.
	scripts/dist.sh $(MACHINES)

prerequisites:
	@scripts/prerequisites.sh $(if $(ORT),,curl)

# Tests, exporter and archives also need Python.
prerequisites-tests:
	@scripts/prerequisites.sh python

# ONNX Runtime comes from PyPI's wheel: the program opens its library at run time.
$(ORT_STAMP): onnx/requirements-runtime.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# TensorRT for RTX builds engines without a GPU; there is no wheel for some processors, and tests then say SKIPPED.
$(RTX_STAMP): engines/requirements-tensorrt-rtx.txt $(ORT_STAMP)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $< || echo "no TensorRT for RTX here: its tests are skipped"
	touch $@

# Pillow and onnx, which some tests compare with.
$(TESTS_STAMP): tests/requirements.txt $(ORT_STAMP) | $(RTX_STAMP)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# NVRTC compiles the kernels to PTX without a GPU. The two releases share one import folder, so each
# has a folder. On systems without a wheel nothing is installed, and the check says SKIPPED.
$(NVRTC_STAMP): cuda/requirements-nvrtc-11.txt cuda/requirements-nvrtc-12.txt $(ORT_STAMP) | $(TESTS_STAMP)
	for major in 11 12; do $(VENV)/bin/pip install --quiet --disable-pip-version-check --upgrade --target $(VENV)/nvrtc-$$major -r cuda/requirements-nvrtc-$$major.txt || exit; done
	touch $@

# ptxas assembles them for sm 86 and 87. A download of 40 MB; without it the check says SKIPPED.
$(PTXAS_STAMP): cuda/requirements-ptxas.txt $(ORT_STAMP) | $(NVRTC_STAMP)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --upgrade --no-deps --target $(VENV)/ptxas -r $< || echo "no ptxas here: resources of the kernels are compared by hash"
	touch $@

clean: ## Remove what was built here.
	rm -rf target $(VENV) $(VENV)-metrics demo
