# Every target is safe to run at any time: `setup` does nothing when nothing changed.
# PYTHON picks the interpreter for .venv:  make setup PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup run test test-long check bench evaluate gpu-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## make .venv, build llama-cpp-python once per machine, obtain the embedded model
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "setup failed: '$(PYTHON)' is missing or older than Python 3.11." >&2; \
	  echo "Install Python 3.11 or newer, or name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) packaging/bootstrap.py

run: setup ## the demo: a temporary profile, a real daemon, ten questions under a budget
	@$(BIN)/tactful demo

test: setup ## the tests, without those marked long
	$(BIN)/python -m pytest -n auto -m "not long"

test-long: setup ## the tests marked long; goes on where an interrupted run stopped
	$(BIN)/python -m pytest -m long -p tests.resumption --resume .cache/test-long

check: setup ## format, lint, types, import layers, then the tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto -m "not long"

bench: setup ## benchmarks: ratios measured in one run
	$(BIN)/python -m tactful_eval bench

evaluate: setup ## the experiments that check the promises
	$(BIN)/python -m tactful_eval contract

gpu-check: setup ## what llama.cpp does with this machine's GPU, with a dated result; exits 3 without one
	$(BIN)/python packaging/gpu_check.py

clean: ## remove .venv and everything the tools left; the cached wheel and the model stay
	rm -rf .venv build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
