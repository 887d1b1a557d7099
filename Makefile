# Everything runs in .venv, which any target makes on first use: python3 and make are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROWSER := .venv/.browser

.PHONY: demo test lint bench sweep versions clean

demo: $(READY)
	$(BIN)/python -m fixtures.demo

# Compiled first: hundreds of tests start processes, most of which may not write what they compile.
test: $(READY) $(BROWSER)
	$(BIN)/python -m compileall -q tracekit replay fixtures
	$(BIN)/python -m pytest -q -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p tracekit -p replay
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

# The tests over whole data sets, which `make test` leaves out; one may take long without hanging.
sweep: $(READY)
	$(BIN)/python -m pytest -q -n 2 -m slow -o faulthandler_timeout=1800

# The tests of the store under the oldest DuckDB that is supported.
versions: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade \
	  --target .venv/duckdb-1.5 duckdb==1.5.5
	PYTHONPATH=.venv/duckdb-1.5 $(BIN)/python -m pytest -q -n 2 tests/store

clean:
	rm -rf .venv .tracekit .tracekit-demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  .hypothesis build dist
	find tracekit replay tests fixtures benchmarks -name __pycache__ -type d -prune \
	  -exec rm -rf {} + 2>/dev/null || true

# Made anew when the lock or the metadata change; the stamp is written last, so that a broken
# set-up is never taken for a finished one.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name another one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

# The page of a comparison is tested in a real browser. Only whoever owns the machine is given one;
# for others those tests say what is missing.
$(BROWSER): $(READY)
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	       && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "no Chromium: the tests of the page of a comparison are skipped"
	touch $(BROWSER)
