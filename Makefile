# Two verbs do all the set-up: `make run` opens the app, `make test` runs every test.
#
#   make run                 environment in .venv, torch 2.13.0 for the CPU, then the app
#   make run TORCH=system    keep the torch (>= 2.11, with CUDA) and Triton that this machine already has
#
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

.PHONY: run test evil audit chaos lint bench env clean

run: $(STAMP)
	@$(BIN)/aisp-tui

# Bytecode is kept whatever the shell says: hundreds of processes would compile the package anew, each for itself.
test: $(STAMP)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadgroup

# Every fixture of the gallery through the engine, and every check proven by its cheat. Half an hour.
audit: $(STAMP)
	@$(BIN)/python -m pytest -m audit tests/proofs/audit

# Faults that need an engine of their own, fifty rounds of the kill loop, a short long life: one after the other, for ten
# minutes, since what they look at is what a busy machine hides.
evil: $(STAMP)
	@$(BIN)/python -m pytest -m evil

# Engine, workers, verifier and app killed at random points, and what was told held against the store. A minute or two.
chaos: $(STAMP)
	@$(BIN)/python -m tests.proofs chaos --rounds 50

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP)
	@$(BIN)/python -m tests.proofs bench --record docs/speed

env: $(STAMP)

$(STAMP): pyproject.toml
	@echo "aisp: making $(VENV) (torch: $(TORCH))"
	@$(PYTHON) -c 'import sys; sys.exit("aisp needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try make run PYTHON=python3.12") if sys.version_info < (3, 11) else None'
ifeq ($(TORCH),system)
	@$(PYTHON) -c '$(FIND_TORCH); assert p, "TORCH=system, but this Python has no torch; name one that has: make run PYTHON=/path/to/python3"'
	@$(PYTHON) -m venv --system-site-packages $(VENV)
	@# The torch may itself lie in an environment, which --system-site-packages does not reach: a .pth file does.
	@$(PYTHON) -c '$(FIND_TORCH); print(p.parent)' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_this_machine.pth"
	@$(BIN)/python -c 'import importlib.metadata as m; v = m.version("torch"); assert tuple(map(int, v.split("+")[0].split(".")[:2])) >= (2, 11), "TORCH=system needs torch 2.11 or newer, found " + v'
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[cuda,dev]"
else
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[cpu,cuda,dev]"
endif
	@touch $@

clean:
	@rm -rf $(VENV) build dist *.egg-info
