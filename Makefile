# Two verbs do all the set-up: `make run` opens the app, `make test` runs the tests.
#
#   make run                 environment in .venv, torch for the CPU unless a torch with CUDA is here, then the app
#   make run TORCH=system    keep the torch (>= 2.11, with CUDA) and Triton that this machine already has
#
# `make env` installs what running needs and nothing else; `make test`, `make lint` and their like add the developers' tools.
# Without a network, put the wheels in a folder and say: PIP_NO_INDEX=1 PIP_FIND_LINKS=folder make run TORCH=system

PYTHON ?= python3
TORCH  ?= auto
VENV   ?= .venv
BIN    := $(VENV)/bin

# auto: a Python that has a torch with CUDA keeps it. Looked for, never imported.
FIND_TORCH := import importlib.util as u, pathlib; s = u.find_spec("torch"); p = pathlib.Path(s.submodule_search_locations[0]) if s else None
ifeq ($(TORCH),auto)
TORCH := $(shell $(PYTHON) -c '$(FIND_TORCH); print("system" if p and (p / "lib/libtorch_cuda.so").exists() else "cpu")' 2>/dev/null || echo cpu)
endif

STAMP := $(VENV)/.installed-$(TORCH)
TOOLS := $(STAMP)-tools
PIP   := $(BIN)/python -m pip install -q --disable-pip-version-check
# CONSTRAINTS=constraints.txt installs the very versions that the tests last passed with.
ifdef CONSTRAINTS
export PIP_CONSTRAINT := $(CONSTRAINTS)
endif
# The one version of torch for a CPU stands in pyproject.toml.
CPU_TORCH = $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)

.PHONY: run test check slow evil audit chaos lint bench env clean

run: $(STAMP)
	@$(BIN)/aisp-tui

# Bytecode is kept whatever the shell says: hundreds of processes would compile the package anew, each for itself.
# Of three tests at once one waits: on two cores that takes a tenth less time than two.
test: $(TOOLS)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadgroup

# What a change needs before it is committed, in a minute or two: lint, types, and the tests that import what was changed
# since SINCE.
SINCE ?= HEAD
check: lint
	@affected="$$($(BIN)/python -m tests.affected $(SINCE))"; if [ -z "$$affected" ]; then echo "no test imports what was changed"; \
	else PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadgroup $$affected; fi

# The tests that take more than two seconds each: most play whole runs. A quarter of an hour.
slow: $(TOOLS)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m 'slow and not audit and not evil' -n 3 --dist loadgroup

# Every fixture of the gallery through the engine, and every check proven by its cheat. Half an hour.
audit: $(TOOLS)
	@$(BIN)/python -m pytest -m audit tests/proofs/audit

# What breaks, kills or cheats an engine that runs, a tour of a hostile world, fifty rounds of the kill loop, a short long
# life: one after the other, for a quarter of an hour, since what they look at is what a busy machine hides.
evil: $(TOOLS)
	@$(BIN)/python -m pytest -m evil

# Engine, workers, verifier and app killed at random points, and what was told held against the store. A minute or two.
chaos: $(TOOLS)
	@$(BIN)/python -m tests.proofs chaos --rounds 50

lint: $(TOOLS)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(TOOLS)
	@$(BIN)/python -m tests.proofs bench --record docs/speed

env: $(STAMP)

# Each step says what it does before it does it: pip is silent, and some of them take a minute.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("aisp needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try make run PYTHON=python3.12") if sys.version_info < (3, 11) else None'
ifeq ($(TORCH),system)
	@$(PYTHON) -c '$(FIND_TORCH); assert p, "TORCH=system, but this Python has no torch; name one that has: make run PYTHON=/path/to/python3"'
	@echo "aisp: 1 of 2: making $(VENV) beside the torch of this machine"
	@$(PYTHON) -m venv --system-site-packages $(VENV)
	@# The torch may itself lie in an environment, which --system-site-packages does not reach: a .pth file does.
	@$(PYTHON) -c '$(FIND_TORCH); print(p.parent)' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_this_machine.pth"
	@$(BIN)/python -c 'import importlib.metadata as m; v = m.version("torch"); assert tuple(map(int, v.split("+")[0].split(".")[:2])) >= (2, 11), "TORCH=system needs torch 2.11 or newer, found " + v'
	@echo "aisp: 2 of 2: installing aisp and what it needs to run; less than a minute on a usual line"
	@$(PIP) -e ".[cuda]"
else
	@echo "aisp: 1 of 3: making $(VENV); no torch with CUDA was found, so a torch for the CPU is installed"
	@$(PYTHON) -m venv $(VENV)
	@echo "aisp: 2 of 3: downloading $(CPU_TORCH), a few hundred megabytes; a minute or two on a usual line"
	@$(PIP) $(CPU_TORCH)
	@echo "aisp: 3 of 3: installing aisp and what it needs to run; less than a minute"
	@$(PIP) -e ".[cpu,cuda]"
endif
	@touch $@
	@echo "aisp: ready"

$(TOOLS): $(STAMP)
	@echo "aisp: installing what tests and lint need; less than a minute on a usual line"
	@$(PIP) -e ".[dev]"
	@touch $@

clean:
	@rm -rf $(VENV) build dist *.egg-info
