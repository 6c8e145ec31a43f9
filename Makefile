# Everything runs in .venv, made on first use; constraints.txt pins the tested versions.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-slow-runs test-slow-rest test-ray test-remote test-torch test-eval check clean

demo: .venv/installed
	$(BIN)/python train.py

test: .venv/installed-dev
	$(BIN)/python -m pytest -m "not slow and not gpu"

# Two halves, so that `make -j2 test-slow` takes little more than half the time on two cores.
RUNS := tests/training tests/test_interrupts.py
test-slow: test-slow-runs test-slow-rest

test-slow-runs: .venv/installed-dev
	$(BIN)/python -m pytest -m "slow and not gpu" $(RUNS)

test-slow-rest: .venv/installed-dev
	$(BIN)/python -m pytest -m "slow and not gpu" tests $(RUNS:%=--ignore=%)

test-ray: .venv/installed-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,ray]"
	$(BIN)/python -m pytest tests/dataservice/test_ray_tasks.py

test-remote: .venv/installed-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[remote-tests]"
	$(BIN)/python -m pytest tests/dataservice/test_s3.py

test-torch: .venv/installed-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pytest -m peers tests/model/test_huggingface.py tests/training/test_commands.py tests/training/test_optimizers.py tests/training/test_benchmarks.py

test-eval: .venv/installed-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,eval]"
	$(BIN)/python -m pytest -m peers tests/evaluation/test_lm_eval.py

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python must be 3.11 or newer; set PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing packages into .venv (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	@echo "installing the tools of the tests into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

# Keeps runs/ and cache/: what was trained is not rubbish.
clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
