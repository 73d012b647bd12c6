# Works with GNU make 3.81 (macOS) and later. Recipes are single lines: what is longer is a script.

PYTHON := .venv/bin/python
STRATEGY ?= asgi-hold
RUN_DIR ?= .run
# Test processes side by side: two cores are busy with four, since most tests wait for something.
TESTERS ?= 4
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run demo doctor screenshots strategies test test-all offload-matrix test-postgresql contract compose-test faults check docs format audit bench bench-full outage results bench-cost bench-data lock setup clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/runtime.stamp ## Start everything (STRATEGY=asgi-hold PORT=8000 RUN_DIR=.run)
	@exec $(PYTHON) -m deploy.run --strategy "$(STRATEGY)" --run-dir "$(RUN_DIR)" $(if $(PORT),--port $(PORT))

demo: .venv/runtime.stamp ## Ninety seconds: an outage on two strategies side by side (ARGS="--short")
	@exec $(PYTHON) -m deploy.demo --report $(RUN_DIR)/demo $(ARGS)

strategies: .venv/runtime.stamp ## List the strategies, and what this machine lacks for them
	@$(PYTHON) -m deploy.run --list

doctor: .venv/runtime.stamp ## Show what is installed, what is missing and how to install it
	@$(PYTHON) manage.py doctor

screenshots: .venv/dev.stamp ## Take the picture of docs/pictures from a real run
	@$(PYTHON) -m deploy.live.tests.screenshots

test: .venv/dev.stamp ## Run the quick tests, TESTERS at once (ARGS="-k name" for some)
	@bash deploy/setup.sh
	@$(PYTHON) -m pytest -n $(TESTERS) --dist loadscope -m "not deployment" $(ARGS)

# At the end what is late beside others, or makes them late: the live page, docker-compose.yml.
test-all: .venv/dev.stamp ## Run the rest: whole deployments, every strategy, some faults in short, docker-compose.yml
	@bash deploy/setup.sh
	@$(PYTHON) -m pytest -n $(TESTERS) --dist loadscope -m "deployment$(if $(ARGS),, and not alone)" $(ARGS)
	@$(if $(ARGS),,$(PYTHON) -m pytest -m alone)
	@$(if $(ARGS),,$(MAKE) compose-test ARGS='-k "nginx-accel and short"')

test-postgresql: .venv/dev.stamp ## The API's unit tests once more, on PostgreSQL instead of SQLite
	@$(PYTHON) -m deploy.tests.on_postgresql $(PYTHON) -m pytest parcels shipping -m "not integration and not deployment" $(ARGS)

contract: .venv/dev.stamp ## Run the contract tests of every strategy, from outside (ARGS="-k bjoern" for one)
	@bash deploy/setup.sh
	@$(PYTHON) -m pytest -n $(TESTERS) --dist loadscope deploy/tests/contract $(ARGS)

compose-test: .venv/dev.stamp ## Test docker-compose.yml on a real engine (ARGS="-k asgi-hold" for one strategy)
	@bash deploy/setup.sh
	@$(PYTHON) -m pytest -m compose --capture=no deploy/tests/compose $(ARGS)

faults: .venv/dev.stamp ## Run the fault suite in full doses, and write docs/faults (for some: python -m loadtests.faults F1 F7)
	@$(PYTHON) -m loadtests.faults --dose full --report $(ARGS)

# The settings for development: production's would ask for secrets.
check: export DEBUG = 1
check: .venv/dev.stamp ## Formatting, lint, import rules, types, migrations, Django's checks, Kubernetes' schemas
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	.venv/bin/lint-imports
	$(PYTHON) -m mypy .
	$(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) manage.py check
	$(PYTHON) -m deploy.tests.manifests
	$(PYTHON) -m mkdocs build --strict

docs: .venv/dev.stamp ## Build the pages into .run/site; a broken link is an error
	$(PYTHON) -m mkdocs build --strict

format: .venv/dev.stamp ## Format the code and repair what the linter can
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

offload-matrix: .venv/dev.stamp ## offload's unit tests: Python 3.11 to 3.13, Django 5.2 and later (downloads)
	@$(PYTHON) -m offload.tests.matrix $(ARGS)

audit: .venv/dev.stamp ## Check the locked packages for known vulnerabilities (skipped offline, but not in CI)
	@$(PYTHON) -m deploy.tests.audit

bench: .venv/dev.stamp ## Load tests of all strategies, quick form, with a report (under 15 minutes)
	@$(PYTHON) -m loadtests suite quick $(ARGS)

bench-full: .venv/dev.stamp ## What README compares, five times; then the other scenarios once (eight hours)
	@$(PYTHON) -m loadtests suite full $(ARGS)

outage: .venv/dev.stamp ## A carrier hangs and comes back: ARGS="--strategies asgi-hold,uwsgi-prefork"
	@$(PYTHON) -m loadtests run outage $(ARGS)

results: .venv/dev.stamp ## Write the pages' tables: newest committed results, strategies, limits
	@$(PYTHON) manage.py limits
	@$(PYTHON) -m loadtests pages

bench-cost: .venv/dev.stamp ## Processor time for a label, and the slowest of 200, beside commit 5392665 (ARGS="--strategy asgi-hold")
	@$(PYTHON) -m loadtests.cost $(ARGS)

bench-data: .venv/dev.stamp ## Cost of 1,000,000 parcels against 1,000
	@$(PYTHON) -m loadtests.bench_data $(ARGS)

lock: .venv/dev.stamp ## Resolve requirements*.in into the hash-locked requirements*.txt
	@for list in requirements requirements-redis requirements-s3 requirements-dev requirements-bjoern; do \
		.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--custom-compile-command "make lock" $$list.in --output-file $$list.txt || exit 1; \
	done

setup: .venv/dev.stamp ## Install everything for development (system packages only as root with apt)
	@bash deploy/setup.sh

clean: ## Remove the run directory and all caches; the virtual environment stays
	rm -rf .run .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

.venv/runtime.stamp: requirements.txt requirements-redis.txt $(PYTHON)
	@sh deploy/venv.sh runtime

.venv/dev.stamp: requirements.txt requirements-redis.txt requirements-dev.txt $(PYTHON)
	@sh deploy/venv.sh dev

# A link to a Python that is gone is no file: then both are made anew.
$(PYTHON): ;
