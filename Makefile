# Everything happens in .venv; nothing needs root or a system package.
# An empty file in .venv/stamps says that an extra is installed. It is written after pip has
# succeeded and is out of date when pyproject.toml or constraints.txt is newer.

PYTHON ?= python3
ARGS   ?=

VENV   := .venv
RUN    := $(VENV)/bin/python
STAMPS := $(VENV)/stamps
PACKAGES := micro tensor viz

# Exists while pip is at work, and holds the number of the process that runs it. Found when no such
# process is alive, it means that an install was cut short and that what lies in the environment
# cannot be trusted.
UNFINISHED := $(VENV)/unfinished
BUSY := $(shell kill -0 $$(cat $(UNFINISHED) 2>/dev/null) 2>/dev/null && echo yes)
CUT_SHORT := $(if $(BUSY),,$(wildcard $(UNFINISHED)))

# A stamp counts only beside a sound environment.
ifneq ($(CUT_SHORT)$(if $(wildcard $(RUN)),,gone),)
$(shell rm -rf $(STAMPS))
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # one install at a time
.PHONY: help mnist test test-numpy test-browser prove faults mutate endure check experiments draw lesson notebooks format clean

help: ## list the targets
	@echo "usage: make TARGET [ARGS='options of the program'] [PYTHON=python3.12]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

mnist: $(STAMPS)/train ## train the MNIST classifier; writes to results/ (ARGS=--help: its options)
	$(RUN) demos/train_mnist.py $(ARGS)

test: $(STAMPS)/test ## run the whole everyday test suite (ARGS: options of pytest)
	$(RUN) -m pytest --numprocesses auto --dist worksteal $(ARGS)

test-numpy: $(STAMPS)/test ## run it on numpy's kernels instead of those that numba compiles
	SMOLGRAD_KERNELS=numpy $(RUN) -m pytest --numprocesses auto --dist worksteal $(ARGS)

# A target of its own, because it needs a system package: Chromium (Debian: chromium).
test-browser: $(STAMPS)/test ## run the tests of the players in headless Chromium
	$(RUN) -m pytest -m browser tests/viz $(ARGS)

prove: $(STAMPS)/test ## hold the engines against each other in full; goes on where it was stopped
	$(RUN) -m tests.crosscheck.prove --programs 201000 $(ARGS)
	$(RUN) -m tests.crosscheck.digits

faults: $(STAMPS)/test ## plant every fault of the catalogue in a copy, and see which test catches it
	$(RUN) -m tests.faults.run $(ARGS)

mutate: $(STAMPS)/test $(STAMPS)/mutation ## change the calculus in every small way, and see what notices
	$(RUN) -m tests.mutation.run $(ARGS)

endure: $(STAMPS)/test ## measure long chains, memory over many steps, threads and tasks, two runs
	$(RUN) -m tests.crosscheck.endurance $(ARGS)

check: $(STAMPS)/check ## lint, formatting and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy $(PACKAGES)

experiments: $(STAMPS)/test ## rerun every experiment, about half an hour (ARGS=--list: each one)
	$(RUN) demos/experiments.py $(ARGS)

draw: $(STAMPS)/train $(STAMPS)/viz ## draw computation graphs of both engines; writes to results/
	$(RUN) demos/draw_graph.py $(ARGS)

# 1 says that an exercise is not right yet, which is no failure of make's.
lesson: $(STAMPS)/lessons ## lessons and exercises: N=3; N=3 NEW=mine.py begins; N=3 FILE=mine.py checks
	@$(RUN) demos/walkthroughs/lesson.py "$(N)" $(if $(NEW),--new "$(NEW)") \
		$(if $(FILE),--file "$(FILE)") || [ $$? = 1 ]

notebooks: $(STAMPS)/lessons ## run the lessons as notebooks; writes to build/lessons (ARGS: numbers)
	$(RUN) demos/walkthroughs/notebooks.py $(ARGS)

format: $(STAMPS)/check ## rewrite the sources as check wants them, where that can be done safely
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean: ## remove the environment and every cache
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(PACKAGES) tests demos -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment and what is installed in it

PIP_INSTALL = $(RUN) -m pip install --disable-pip-version-check --constraint constraints.txt

# $(call install,WHAT). An install that fails (no network, say) has changed nothing and may be
# tried again as it is; one that is interrupted or killed leaves the marker behind.
define install
@if [ "$(BUSY)" ]; then \
	echo "Another make is installing into $(VENV): try again when it is done." >&2; exit 1; fi
@trap 'exit 130' INT TERM; echo $$$$ > $(UNFINISHED); \
	if $(PIP_INSTALL) $(1); then touch $@; rm $(UNFINISHED); else rm $(UNFINISHED); exit 1; fi
endef

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "smolgrad needs Python 3.11 or newer, and '$(PYTHON)' is not." >&2; \
		echo "Name another one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "'$(PYTHON)' cannot make environments: its modules venv and ensurepip are missing." >&2; \
		echo "Debian and Ubuntu have them in the package python3-venv. Or name another Python:" >&2; \
		echo "make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@if [ "$(CUT_SHORT)" ]; then \
		echo "The last install was cut short: starting over with an empty $(VENV)."; rm -rf $(VENV); fi
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

# torch comes first and by its exact version: resolved together with something that asks for any
# version of it, pip may choose a build for accelerators that is ten times as large.
$(STAMPS)/torch: constraints.txt | $(STAMPS)/venv
	$(call install,$$(grep '^torch==' constraints.txt))

$(STAMPS)/test: $(STAMPS)/torch

$(STAMPS)/%: pyproject.toml constraints.txt | $(STAMPS)/venv
	$(call install,--editable ".[$*]")
