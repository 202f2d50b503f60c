# Each target does all its own set-up: a machine with Python ≥ 3.11 and nothing else is enough.
PYTHON ?= python3
DEMO := .venv-demo
TEST := .venv-test
INTEGRATIONS := .venv-integrations
BIN := $(if $(filter Windows_NT,$(OS)),Scripts,bin)

# The tests start many processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast test-long test-integrations lint bench clean

demo: $(DEMO)/ready
	$(DEMO)/$(BIN)/soundsmooth certify

test: $(TEST)/ready
	$(TEST)/$(BIN)/ruff check .
	$(TEST)/$(BIN)/ruff format --check .
	$(TEST)/$(BIN)/mypy
	$(TEST)/$(BIN)/python -m pytest -q -n 2 --dist worksteal

test-fast: $(TEST)/ready
	$(TEST)/$(BIN)/python -m pytest -q -n 2 --dist worksteal --fast

test-long: $(TEST)/ready
	$(TEST)/$(BIN)/python -m pytest -q -n 2 --dist worksteal --long

test-integrations: $(INTEGRATIONS)/ready
	SOUNDSMOOTH_INTEGRATIONS=1 $(INTEGRATIONS)/$(BIN)/python -m pytest -v --durations=0 tests/integrations

lint: $(TEST)/ready
	$(TEST)/$(BIN)/ruff check .
	$(TEST)/$(BIN)/ruff format --check .
	$(TEST)/$(BIN)/mypy

bench: $(TEST)/ready
	$(TEST)/$(BIN)/soundsmooth bench cpu

$(DEMO)/ready: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'soundsmooth needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(TEST)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'soundsmooth needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(TEST)
	$(TEST)/$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(INTEGRATIONS)/ready: pyproject.toml tests/integrations/constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'soundsmooth needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c tests/integrations/constraints.txt -e '.[integrations]'
	@touch $@

clean:
	rm -rf $(DEMO) $(TEST) $(INTEGRATIONS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
