# One door to everything: `make demo` shows what pilum does, `make test` proves it.
# Needs Python 3.11 or newer, Rust (see rust-toolchain.toml) and, for Spark, Java 17. Everything else is installed into
# .venv by pinned requirements. Nothing is written outside of this folder but the caches of cargo and pip.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin

# One target folder and one profile: the tests, the lints and the wheel under test share what they compile.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
CARGO_PROFILE := --profile ci

export VIRTUAL_ENV := $(VENV)
export PATH := $(BIN):$(PATH)
# Spark: workers run in this environment, and nothing listens or announces itself beyond the machine.
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python
export SPARK_LOCAL_IP ?= 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1
# A chart is a file here: no display, and no settings in a home that may not exist.
export MPLBACKEND := Agg
export MPLCONFIGDIR := $(VENV)/.matplotlib

RUST_SOURCES := $(shell find rust protos -type f \( -name '*.rs' -o -name '*.proto' -o -name 'Cargo.toml' \)) \
	Cargo.toml Cargo.lock rust-toolchain.toml

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz bombs coverage lint build wheel bench bench-peers bench-flips bench-commits bench-sets bench-growth bench-far bench-memory bench-profile bench-checksums bench-rust clean \
	test-rust test-python test-wheel fmt-check clippy rustdoc ruff mypy stubtest

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-demo $(VENV)/.stamp-build ## The main job: real flights through Spark into a table and back
	$(BIN)/python examples/flights.py

test: lint test-rust test-python test-wheel ## Everything: formats, lints, types, Rust and Python tests, the peers

lint: fmt-check clippy rustdoc ruff mypy stubtest ## Formats, lints, documentation and types

build: $(VENV)/.stamp-build ## Build the module and install it into .venv

wheel: $(VENV)/.stamp-venv ## A release wheel in dist/
	$(BIN)/python -m pip install -q -r requirements/build.txt
	$(BIN)/maturin build --release --out dist

bench: bench-rust bench-peers bench-flips bench-commits ## Criterion's figures, then pilum beside its peers

bench-rust: $(VENV)/.stamp-venv
	cargo bench --workspace

bench-peers: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/peers.py

bench-flips: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/flips.py

bench-commits: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/commits.py

bench-sets: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/sets.py --out benches/SETS.md

bench-growth: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/growth.py --peer --out benches/GROWTH.md

bench-far: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/far.py --late 0.015 --late 0.06 --out benches/FAR.md

bench-profile: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/profiles.py --out benches/PROFILE.md

bench-checksums: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/checksums.py --out benches/CHECKSUMS.md

# Takes three times the table on disk, 12 GB.
bench-memory: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/memory.py --out benches/MEMORY.md

clean: ## Remove what was built (the environment too)
	rm -rf $(VENV) dist build examples/out
	rm -f python/pilum/*.so
	cargo clean

# -- Rust -------------------------------------------------------------------------------------------------------------

fmt-check:
	cargo fmt --all --check

# PyO3 asks the interpreter of the environment: it has to be there first.
clippy: $(VENV)/.stamp-venv
	cargo clippy --workspace --all-targets $(CARGO_PROFILE) -- -D warnings

rustdoc: $(VENV)/.stamp-venv
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps $(CARGO_PROFILE)

test-rust: $(VENV)/.stamp-venv
	cargo test --workspace $(CARGO_PROFILE)

# -- Python -----------------------------------------------------------------------------------------------------------

ruff: $(VENV)/.stamp-test
	$(BIN)/ruff check python tests examples benches
	$(BIN)/ruff format --check python tests examples benches

mypy: $(VENV)/.stamp-test
	$(BIN)/mypy

stubtest: $(VENV)/.stamp-test $(VENV)/.stamp-build
	$(BIN)/python -m mypy.stubtest pilum._pilum --mypy-config-file pyproject.toml

# Ten targets, two at a time: under five minutes. `make fuzz FUZZ_SECONDS=1800` runs longer, PILUM_FUZZ_SEED begins elsewhere.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.stamp-venv ## Feed every decoder with damaged files, each for FUZZ_SECONDS
	PILUM_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --workspace $(CARGO_PROFILE) --test it -- \
		fuzz_ --test-threads=2 --nocapture

# Each is measured against 128 MiB, and the slowest is told: the mark is 100 ms.
bombs: $(VENV)/.stamp-venv ## Files that unpack to more than there is, and names that lead out
	cargo test --workspace $(CARGO_PROFILE) --test it -- bombs_are_refused leads_out --test-threads=1 --nocapture

# Not a part of the judgement: it compiles the crates once more, with counters.
coverage: $(VENV)/.stamp-venv ## Lines of the decoders that damaged files reach, in docs/coverage.md
	$(BIN)/python tests/decoder_coverage.py --out docs/coverage.md

test-python: $(VENV)/.stamp-test $(VENV)/.stamp-build
	$(BIN)/python -m pytest

# What was compiled for the tests is packed, not compiled again.
test-wheel: $(VENV)/.stamp-build
	@rm -rf $(VENV)/wheel
	$(BIN)/maturin build -q $(CARGO_PROFILE) --out $(VENV)/wheel
	$(BIN)/python tests/check_wheel.py $(VENV)/wheel

# -- The environment: stamps make the second run quick --------------------------------------------------------------------

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.stamp-demo: $(VENV)/.stamp-venv requirements/demo.txt requirements/build.txt requirements/constraints.txt
	$(BIN)/python -m pip install -q -r requirements/demo.txt
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-demo requirements/test.txt
	$(BIN)/python -m pip install -q -r requirements/test.txt
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-demo requirements/bench.txt
	$(BIN)/python -m pip install -q -r requirements/bench.txt
	@touch $@

# `maturin develop` links python/pilum into the environment: edits of .py files need no build.
$(VENV)/.stamp-build: $(VENV)/.stamp-demo $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop $(CARGO_PROFILE)
	@rm -f $(VENV)/.stamp-build-release
	@touch $@

# Figures are taken from the profile that users get.
$(VENV)/.stamp-build-release: $(VENV)/.stamp-demo $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop --release
	@rm -f $(VENV)/.stamp-build
	@touch $@
