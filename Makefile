# The README's two commands, `make demo` and `make test`, and what they need.
# Each does all the set-up by itself; a second call finds it done.

.PHONY: demo test test-all test-docker scenarios detection lint setup lock benchmarks clean

VENV := .venv
BIN := $(VENV)/bin
# Two files of tests at a time, those that take longest first (tests/conftest.py).
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

demo: setup
	$(BIN)/splitbrain reproduce PV-01 --system reference

test: setup lint
	$(PYTEST)

# The slow tests too: more seeds, every scenario of the reference system, plans on real Kafka, a Spark cluster.
test-all: setup lint
	$(PYTEST) -m "slow or not slow" --hypothesis-profile=thorough

# The tests of container hosts, with Docker's engine, or one started for them where none responds (as root).
test-docker: setup
	tests/support/nodes/docker_engine.sh $(BIN)/pytest tests/nodes/hosts/docker tests/harness/environments

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(VENV)/.done
	@./bootstrap.sh check

$(VENV)/.done: requirements.lock pyproject.toml bootstrap.sh
	./bootstrap.sh system
	./bootstrap.sh python $(VENV)
	touch $@

# Rewrites requirements.lock from pyproject.toml; needs uv.
lock:
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra dev --python-version 3.11 pyproject.toml -o requirements.lock >/dev/null

# Plays every scenario that was not played as it is now, on both systems and on older releases, and writes docs/catalogue.md.
scenarios: setup
	$(BIN)/python docs/catalogue.py play

# Explores each mutant of the reference system that was not explored yet, and writes docs/detection.md.
detection: setup
	$(BIN)/python benchmarks/detection.py

benchmarks: setup
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
