.PHONY: test clean

PYTHON ?= python3
VENV := .venv

$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -e '.[test]'
	touch $@

test: $(VENV)/.stamp
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -q

clean:
	rm -rf $(VENV)
