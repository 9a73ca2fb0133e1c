# make demo    a capture through a host with policy routing and source validation, then one drop explained
# make test    all tests: compiled, path tests as plain Python, path tests with range checks
# make check   ruff and mypy
# make fuzz    damaged packets, in the build that checks ranges (PACKETS=1000000 SEED=1)
# make differ  random hosts and packets, asked of the running kernel (root; MINUTES=5 SEED=0)
# make record  the kernel's answers to all scenarios, anew (root)
.PHONY: help demo test test-compiled test-plain test-checked check fuzz differ record clean

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# tests of the edges and of the control side, which is never compiled: once is enough
EDGES := $(addprefix tests/test_, $(addsuffix .py, cli packaging architecture bench verify aio \
	host_file snapshot ss infer route_changes route_import bulk_routes prefix_docs frames))

help:
	@sed -n 's/^# //p' Makefile | head -6

$(VENV)/.stamp: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'Python 3.11 or later is needed (set PYTHON=…)'; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	    { echo 'the venv module is missing: apt-get install python3-venv'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --no-build-isolation -e .
	@touch $@

demo: $(VENV)/.stamp
	@BIN=$(BIN) demo/run

# three passes, two at a time; each says what it found when it ends
test: $(VENV)/.stamp
	@echo 'Tests in three passes, two at a time: range-checked, compiled, plain Python.'
	@echo 'The first run compiles the packet path for two of them; each pass reports when it ends.'
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-checked test-compiled test-plain

test-compiled: $(VENV)/.stamp
	$(BIN)/python -m pytest -q

test-plain: $(VENV)/.stamp
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(EDGES:%=--ignore=%)

test-checked: $(VENV)/.stamp
	IPPATH_CHECKED=1 $(BIN)/python -m pytest -q $(EDGES:%=--ignore=%)

check: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

PACKETS ?= 1000000
SEED ?= 1
fuzz: $(VENV)/.stamp
	IPPATH_CHECKED=1 IPPATH_SEARCH=1 IPPATH_FUZZ_PACKETS=$(PACKETS) IPPATH_FUZZ_SEED=$(SEED) \
	    $(BIN)/python -m pytest -q tests/test_mutation.py --timeout=0 --hypothesis-seed=$(SEED)

MINUTES ?= 5
differ: $(VENV)/.stamp
	PYTHONPATH=src $(BIN)/python -m tests.kernel.differ --minutes $(MINUTES) --seed $(SEED)

record: $(VENV)/.stamp
	$(BIN)/python -m tests.kernel.record

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist out
