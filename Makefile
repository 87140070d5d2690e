# All tasks of the project: `make help` lists them. `make demo` runs an example, `make test` runs every check.
# Needs Python (see requires-python in pyproject.toml), Rust (see rust-toolchain.toml) and, for Spark, Java 17. Everything else
# is installed into .venv from pinned requirements. Nothing is written outside of this folder but the caches of cargo and pip.

PYTHON ?= python3
# The lowest Python version is stated once, in pyproject.toml.
LOWEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\([0-9.]*\)".*/\1/p' pyproject.toml)
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin

# Tests, lints and the wheel under test use one target folder and one profile, so that dependencies are compiled once.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
CARGO_PROFILE := --profile ci

export VIRTUAL_ENV := $(VENV)
export PATH := $(BIN):$(PATH)
# Spark's workers run in this environment, and Spark listens on this machine only.
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python
export SPARK_LOCAL_IP ?= 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1
# matplotlib writes charts to files: it needs no display, and no settings in a home folder.
export MPLBACKEND := Agg
export MPLCONFIGDIR := $(VENV)/.matplotlib

RUST_SOURCES := $(shell find rust protos -type f \( -name '*.rs' -o -name '*.proto' -o -name 'Cargo.toml' \)) \
	Cargo.toml Cargo.lock rust-toolchain.toml

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz bombs coverage lint build wheel bench deny bench-peers bench-flips bench-commits bench-sets bench-growth bench-far bench-doors bench-memory bench-profile bench-checksums bench-parquet bench-kartothek kartothek-lost-updates kartothek-verdicts bench-skiff bench-spark bench-references bench-rust clean \
	test-rust test-python test-kartothek test-spark-versions test-wheel fmt-check clippy rustdoc ruff mypy stubtest

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-demo $(VENV)/.stamp-build ## An example: flights of a year through Spark into a table and back
	$(BIN)/python examples/flights.py

test: lint test-rust test-python test-wheel ## Everything: formats, lints, types, Rust and Python tests, comparisons with pylance

lint: fmt-check clippy rustdoc ruff mypy stubtest ## Formats, lints, documentation and types

build: $(VENV)/.stamp-build ## Build the module and install it into .venv

wheel: $(VENV)/.stamp-venv ## A release wheel in dist/
	$(BIN)/python -m pip install -q -r requirements/build.txt
	$(BIN)/maturin build --release --out dist

bench: bench-rust bench-peers bench-flips bench-commits ## Criterion benchmarks, then pilum beside its peers (docs/benchmarks)

bench-rust: $(VENV)/.stamp-venv
	cargo bench --workspace

bench-peers: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/peers.py

bench-flips: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/flips.py --out docs/benchmarks/flips.md

bench-commits: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/commits.py

bench-sets: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/sets.py --out docs/benchmarks/sets.md

bench-growth: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/growth.py --peer --out docs/benchmarks/growth.md

bench-far: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/far.py --late 0.015 --late 0.06 --out docs/benchmarks/far.md

bench-doors: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/doors.py --out docs/benchmarks/doors.md

bench-spark: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/spark.py --out docs/benchmarks/spark.md

bench-profile: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/profiles.py --out docs/benchmarks/profile.md

bench-references: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/references.py --out docs/benchmarks/references.md

bench-skiff: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/skiff.py --out docs/benchmarks/skiff.md

bench-parquet: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/parquet.py --out docs/benchmarks/parquet.md

# The interpreter of an environment with Kartothek 5.3.0; requirements/kartothek.txt says which one it needs.
KARTOTHEK_PYTHON ?= python3.8
test-kartothek: $(VENV)/.stamp-test $(VENV)/.stamp-build ## The tests that run Kartothek 5.3.0 itself: KARTOTHEK_PYTHON=INTERPRETER
	PILUM_KARTOTHEK_PYTHON=$(KARTOTHEK_PYTHON) $(BIN)/python -m pytest -m kartothek_peer tests/python/test_kartothek_writing.py tests/interop/test_kartothek_peer.py

# Run this if a change alters the Kartothek datasets that pilum writes: Kartothek reads 200 of them, and the script records their digests.
kartothek-verdicts: $(VENV)/.stamp-test $(VENV)/.stamp-build
	$(BIN)/python tests/support/kartothek_verdicts.py $(KARTOTHEK_PYTHON)

kartothek-lost-updates: $(VENV)/.stamp-test $(VENV)/.stamp-build
	$(BIN)/python examples/kartothek_lost_updates.py --peer $(KARTOTHEK_PYTHON) --out docs/benchmarks/lost_updates.md

bench-kartothek: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/kartothek.py --peer $(KARTOTHEK_PYTHON) --out docs/benchmarks/kartothek.md

bench-checksums: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/checksums.py --out docs/benchmarks/checksums.md

# Takes three times the table on disk, 12 GB.
bench-memory: $(VENV)/.stamp-bench $(VENV)/.stamp-build-release
	$(BIN)/python benches/compare/memory.py --out docs/benchmarks/memory.md

# Not a part of `make test`: it compiles cargo-deny, which takes minutes.
deny: $(VENV)/.stamp-deny ## Check licences, banned crates and sources of all dependencies
	$(VENV)/bin/cargo-deny check licenses bans sources

clean: ## Remove what was built (the environment too)
	rm -rf $(VENV) dist build examples/out
	rm -f python/pilum/*.so
	cargo clean

# -- Rust -------------------------------------------------------------------------------------------------------------

fmt-check:
	cargo fmt --all --check

# The build script of PyO3 runs the interpreter of the environment, so the environment is made first.
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

# Runs more than thirty targets, four at a time, in about nine minutes. FUZZ_SECONDS=1800 runs each target longer; PILUM_FUZZ_SEED sets the seed.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.stamp-venv ## Feed every decoder with damaged files, each for FUZZ_SECONDS
	PILUM_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --workspace $(CARGO_PROFILE) --test it -- \
		fuzz_ --test-threads=4 --nocapture

# Each file may take 128 MiB and 100 ms; the slowest is printed.
bombs: $(VENV)/.stamp-venv ## Files that unpack to very much, and file names that lead out of the table
	cargo test --workspace $(CARGO_PROFILE) --test it -- bombs_are_refused leads_out --test-threads=1 --nocapture

# Not a part of `make test`: it compiles the crates again, with counters.
coverage: $(VENV)/.stamp-venv ## Count the lines of the decoders that damaged files reach, in docs/coverage.md
	$(BIN)/python tests/decoder_coverage.py --out docs/coverage.md

test-python: $(VENV)/.stamp-test $(VENV)/.stamp-build
	$(BIN)/python -m pytest

# Not a part of `make test`: it downloads each release of PySpark. `make test-spark-versions SPARK_VERSIONS="3.5 4.0"`.
SPARK_VERSIONS ?= 3.5 4.0 4.1 4.2
test-spark-versions: $(VENV)/.stamp-test $(VENV)/.stamp-build ## Types and core tests with other releases of PySpark
	$(BIN)/python tests/spark_versions.py $(SPARK_VERSIONS)

# Packs the module that was compiled for the tests.
test-wheel: $(VENV)/.stamp-build
	@rm -rf $(VENV)/wheel
	$(BIN)/maturin build -q $(CARGO_PROFILE) --out $(VENV)/wheel
	$(BIN)/python tests/check_wheel.py $(VENV)/wheel

# -- The environment: stamps make the second run quick --------------------------------------------------------------------

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(LOWEST_PYTHON)".split("."))))' \
		|| { echo "Python $(LOWEST_PYTHON) or newer is needed; name one with: make PYTHON=/path/to/python3"; exit 1; }
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

$(VENV)/.stamp-deny: $(VENV)/.stamp-venv
	cargo install --locked --root $(VENV) --version 0.20.2 cargo-deny
	@touch $@

# `maturin develop` links python/pilum into the environment: edits of .py files need no build.
$(VENV)/.stamp-build: $(VENV)/.stamp-demo $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop $(CARGO_PROFILE)
	@rm -f $(VENV)/.stamp-build-release
	@touch $@

# Benchmarks measure the profile that users get.
$(VENV)/.stamp-build-release: $(VENV)/.stamp-demo $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop --release
	@rm -f $(VENV)/.stamp-build
	@touch $@
