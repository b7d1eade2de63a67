# make demo, make test, make check: each sets up what it needs (once), then does its work.

# The first Python of the right version; `make PYTHON=/path/to/python3.11 setup` chooses another.
PYTHON ?= $(firstword $(foreach p,python3 python3.12 python3.11 python3.10,\
	$(shell $(p) -c 'import sys; 10 <= sys.version_info[1] <= 12 and print("$(p)")' 2>/dev/null)))
BIN := .venv/bin
MARKERS ?= not slow

.PHONY: setup environment demo test check lock

# .venv/lock is a copy of the lock that the environment was made from, written last: where it is the
# same as ours the environment is whole and up to date; else it is made again, from nothing.
setup:
	@cmp -s requirements.lock .venv/lock || $(MAKE) --no-print-directory environment

environment:
	@test -n "$(PYTHON)" || { echo "error: Python 3.10, 3.11 or 3.12 is needed (MindSpore 2.10 \
	has wheels for no other) and none was found: install one, or say make PYTHON=/its/path" >&2; \
	exit 2; }
	@echo "making .venv from requirements.lock: about a minute, 3 GB"
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -c "from sr_app import kernels; kernels.choice('CPU')"
	cp requirements.lock .venv/lock

demo: setup
	$(BIN)/python -m sr_app demo

test: setup
	$(BIN)/python -m pytest -m "$(MARKERS)"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "$(MARKERS)"

# Resolve anew after a change of pyproject.toml, for all Pythons and systems at once. The extras are
# pinned apart, as constraints: pip install -c requirements-extras.lock -e '.[convert]'
lock:
	uv pip compile --universal --python-version 3.10 --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --quiet --group dev -o requirements.lock pyproject.toml
	uv pip compile --universal --python-version 3.10 --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --quiet --all-extras -c requirements.lock -o requirements-extras.lock \
		pyproject.toml
