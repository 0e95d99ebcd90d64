# From a fresh checkout to a running broker: `make run`. Needs Python 3.11 or later, make and a package index.
# Everything it installs goes into .venv; `make clean` takes that away again.
#
#   PYTHON=python3.13   another interpreter to make .venv with
#   ARGS="--port 9000"  flags passed on to whatever the target runs

PYTHON ?= python3
ARGS ?=

# Fixed on purpose: `clean` removes it.
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
# The Go of the package index, which needs nothing of the person's own.
GO_SET := GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-mod=mod GOTELEMETRY=off GOCACHE=$(CURDIR)/build/go-cache $(VENV)/bin/go -C shim
GO := CGO_ENABLED=0 $(GO_SET)
# The race detector needs a C compiler to link with; where there is none the tests run without it.
GO_TEST := $(if $(shell command -v gcc),CGO_ENABLED=1 $(GO_SET) test -race,$(GO) test)
# Stamps of what is installed. A changed lock file is newer than its stamp and is installed again.
RUN_READY := $(VENV)/.run-ready
TEST_READY := $(VENV)/.test-ready
# The tool that `lock` writes the lock files with. One version, so that two people write the same file.
UV_VERSION := 0.13.8

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check bench chaos screenshots shim-all lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(RUN_READY) ## install what is missing, then start the broker on http://127.0.0.1:8420
	@exec $(VENV)/bin/inboxd serve $(ARGS)

test: check ## the linters, the binary's own tests, then every test
	$(GO_TEST) ./...
	@$(VENV)/bin/python -m tests.support.chromium
	$(VENV)/bin/python -m pytest -n 3 --dist loadgroup -q $(ARGS)

check: $(TEST_READY) ## the linters only: ruff, mypy, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(GO) vet ./...
	@odd=$$($$($(GO) env GOROOT)/bin/gofmt -l shim bench/load); test -z "$$odd" || { echo "gofmt: $$odd"; exit 1; }

bench: $(TEST_READY) ## the measurements the README quotes
	$(VENV)/bin/python -m bench $(ARGS)

chaos: $(TEST_READY) ## kill everything at every moment, for long, and count what was lost
	$(VENV)/bin/python -m pytest tests/chaos --long $(ARGS)

screenshots: $(TEST_READY) ## every view of the dashboard as a picture: the README's into docs/screenshots, all into build/screenshots
	$(VENV)/bin/python -m tests.browser.screenshots $(ARGS)

shim-all: $(TEST_READY) ## the binary `inbox` for Linux, macOS and Windows, into dist/, with checksums
	$(VENV)/bin/python hatch_build.py $$($(VENV)/bin/python -c 'import inboxd; print(inboxd.__version__)')

# Existing versions are kept where they still fit: `make lock ARGS=--upgrade` takes the newest. The test lock is
# constrained by the runtime lock, so that the tests run what the broker runs.
COMPILE = UV_PYTHON_DOWNLOADS=never $(VENV)/bin/uv pip compile --quiet --universal --generate-hashes \
	--no-emit-index-url --no-header --python-version 3.11 $(ARGS)

lock: $(VENV)/.uv-$(UV_VERSION) ## write both lock files anew from pyproject.toml
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra test -c requirements.lock pyproject.toml -o requirements-test.lock

clean: ## remove .venv, caches and built packages; messages and tokens stay
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A half-made environment is worse than none, hence the removal when venv fails.
$(VENV)/pyvenv.cfg:
	@command -v $(PYTHON) >/dev/null || { \
		echo "make: there is no $(PYTHON) here. Install Python 3.11 or later, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1), inboxd needs 3.11 or later. Name one: make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make: $(PYTHON) comes without ensurepip, so it cannot make a virtual environment." >&2; \
		echo "      Debian and Ubuntu: apt install python3-venv. Or name another: make PYTHON=python3.13" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUN_READY): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock hatch_build.py $(wildcard shim/*.go)
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps -e .
	@touch $@

$(TEST_READY): $(RUN_READY) requirements-test.lock
	$(PIP) install --quiet --require-hashes -r requirements-test.lock
	@touch $@

$(VENV)/.uv-$(UV_VERSION): $(VENV)/pyvenv.cfg
	$(PIP) install --quiet uv==$(UV_VERSION)
	@touch $@
