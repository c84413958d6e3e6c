# `make` lists the targets. Needs python3 >= 3.11, g++ >= 12 and x86-64 Linux; brings everything else.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= cuda,dev
TORCH_INDEX_URL ?=
TEST_JOBS ?= 2
PYTEST_ARGS ?=
REPRODUCE_ARGS ?=
BUNDLE_ARGS ?=
NIGHTLY_ARGS ?=
SITE_ARGS ?=

BIN := $(VENV)/bin
comma := ,
STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
CPP_SOURCES = $(shell git ls-files '*.cu' '*.cuh' '*.cc' '*.h' '*.hpp')
GPU_TARGET := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q GPU && echo --target gpu)

PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
UV_INSTALL = $(BIN)/python -m tools.uv pip install --compile-bytecode -c constraints.txt

# Where it is set, each of the hundreds of processes of a run compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# An interrupted `make` may have left half an environment: the mark says that it is ours to empty.
VENV_MARK := $(VENV)/.made-by-make
define NEW_VENV
if [ -e "$(VENV)" ] && [ ! -e "$(VENV)/pyvenv.cfg" ] && [ ! -e "$(VENV_MARK)" ] && [ -n "$$(ls -A "$(VENV)")" ]; then \
  echo "error: $(VENV) is no virtual environment; take it away, or name another with VENV=" >&2; exit 1; fi; \
mkdir -p "$(VENV)" && touch "$(VENV_MARK)" && find "$(VENV)" -mindepth 1 ! -path "$(VENV_MARK)" -delete && \
echo "making $(VENV)" && $(PYTHON) -m venv "$(VENV)" || { \
  echo "error: $(PYTHON) cannot make a virtual environment; install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help reproduce nightly test lint format bundle sources env build dist site clean check-machine

help: ## list the targets
	@echo "Targets:"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
	@echo "Variables:"
	@echo "  VENV=$(VENV)  EXTRAS=$(EXTRAS)  TEST_JOBS=$(TEST_JOBS)"
	@echo "  TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu   a small torch where there is no GPU"
	@echo "  PYTEST_ARGS=  REPRODUCE_ARGS=  BUNDLE_ARGS=  NIGHTLY_ARGS=   passed on"

reproduce: env ## build, verify, measure (on a GPU since Ampere) or take the recorded run, and write report/
	$(BIN)/reproduce-paper measure $(REPRODUCE_ARGS)

nightly: env ## one night: preflight, build, verify, measure, compare with the nights before (an idle Hopper GPU)
	$(BIN)/python -m tools.nightly $(NIGHTLY_ARGS)

test: env ## compile every kernel for both targets and run the test suite
	$(BIN)/python -m tk_kernels.toolchain build
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal --durations 10 $(PYTEST_ARGS)

lint: env ## check style, types and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_SOURCES)

format: env ## format all sources in place
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

bundle: env ## fill bundle/ for GPU nodes that have no network
	$(BIN)/python -m tools.bundle $(BUNDLE_ARGS)

sources: env ## list the libraries without a wheel: whence, which commit, which build is here, how one is installed
	$(BIN)/python -m tools.sources list

build: env ## compile every kernel for the targets this machine can run
	$(BIN)/python -m tk_kernels.toolchain build --target cpu $(GPU_TARGET)

dist: env ## build the source distribution and the wheel, in dist/
	$(BIN)/python -m build

site: env ## build the documentation site with the recorded report, in site/ (EXTRAS=cuda,dev,docs)
	$(BIN)/reproduce-paper report --output report $(SITE_ARGS)
	$(BIN)/python -m mkdocs build --strict

env: $(STAMP) ## create the virtual environment with pinned versions

clean: ## delete what the commands generate, the environment and the kernel cache excepted
	rm -rf report report-quick report-part site bundle nightly nights outputs multirun wandb .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info

# A second run is instant: the stamp is newer than what decides the versions.
$(STAMP): pyproject.toml constraints.txt | check-machine
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(NEW_VENV); }
	$(PIP_INSTALL) setuptools uv
	$(PIP_INSTALL) torch $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL))
	$(UV_INSTALL) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

check-machine:
	@test "$$(uname -s) $$(uname -m)" = "Linux x86_64" || { \
	  echo "error: this machine is $$(uname -s) $$(uname -m); x86-64 Linux is needed" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { \
	  echo "error: $(PYTHON) is not installed; Python 3.11 or newer is needed, name one with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1); 3.11 or newer is needed, name one with PYTHON=" >&2; exit 1; }
	@$(PYTHON) tools/extras.py '$(EXTRAS)'
	@command -v $${CXX:-g++} >/dev/null || { \
	  echo "error: $${CXX:-g++} is not installed; g++ 12 or newer is needed (Debian: apt-get install g++)" >&2; exit 1; }
	@test "$$($${CXX:-g++} -dumpversion | cut -d. -f1)" -ge 12 || { \
	  echo "error: $${CXX:-g++} is version $$($${CXX:-g++} -dumpversion); 12 or newer is needed, name one with CXX=" >&2; exit 1; }
