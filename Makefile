# Every target installs what it needs into .venv and nothing elsewhere (tools/install.sh); but the tests of pages need a
# browser, and those on real nodes runc and more: root gets Debian's (tools/install_browser.sh, tools/install_nodes.sh).
# `make -s` shows only what the commands themselves say.

PYTHON ?=
# Test processes side by side; tests mostly wait, so more than there are cores.
WORKERS ?= 4
BIN := .venv/bin
SCHEDULER := openb muri philly small_traces topology_gang reclaim_cycle reasons_for_pending anti_affinity capacity_churn fault_schedules pending_conditions
TRAIN := train_meshes train_resume train_overhead checkpoint_stall peer_copies agent_start agent_recovery agent_rendezvous training_faults train_mfu
PINS := requirements.lock pyproject.toml tools/install.sh tools/lock_subset.py

.PHONY: help demo demo-kubernetes demo-workshop test soak soak-simulator soak-daemon soak-kubernetes lint format bench bench-scheduler bench-train docs release lock clean

help:
	@echo 'make demo    install, train a model on real data, lose a rank, recover: see it happen'
	@echo 'make demo-kubernetes   the same on a cluster: two real nodes, a PyTorchJob, a killed pod, an MPIJob (Linux, root)'
	@echo 'make demo-workshop     three labs of the workshop, each played from its start to its acceptance'
	@echo 'make test    install what the tests need, run every test'
	@echo 'make test-labs  play every script of every lab of the workshop, with all mistakes; an hour'
	@echo 'make soak    10,000 fault schedules in simulated time, and the properties with 25 times the examples'
	@echo 'make soak-simulator   100,000 fault schedules in simulated time, results appended to a file; hours'
	@echo 'make soak-daemon      300 fault schedules of a daemon on this machine, results appended to a file'
	@echo 'make soak-kubernetes  200 fault schedules on a control plane and 10 on real nodes, then an hour of measured use'
	@echo 'make lint    style, types, sizes, words, import contracts'
	@echo 'make format  let the formatter and the linter mend what they can'
	@echo 'make bench   run every benchmark and print one table'
	@echo 'make bench-scheduler   the scheduler against published results on public traces, one table'
	@echo 'make bench-train   the training library and the agent against raw torch and torchrun, one table'
	@echo 'make docs    build the documentation into site/, the manual pages into build/man/'
	@echo 'make release package, chart, SBOM and provenance into dist/'
	@echo 'make lock    resolve requirements.lock anew'
	@echo 'make clean   remove what the targets above made'

demo: .venv/.installed-demo
	@$(BIN)/python examples/demo.py

demo-kubernetes: .venv/.installed-demo-kubernetes
	@sh tools/install_nodes.sh
	@$(BIN)/python examples/demo_kubernetes.py

demo-workshop: .venv/.installed-demo-kubernetes
	@$(BIN)/python examples/demo_workshop.py $(LABS)

test: .venv/.installed-dev
	@sh tools/install_browser.sh
	@sh tools/install_postgresql.sh
	@sh tools/install_prometheus.sh
	@sh tools/install_slurm.sh
	@sh tools/install_nodes.sh
	$(BIN)/python -m pytest $(if $(TESTS),$(TESTS),-n $(WORKERS) --dist loadscope --no-loadscope-reorder --durations 20)

# Kueue's lab is skipped unless its programs were built: tools/control_plane.py build kueue jobset.
test-labs: .venv/.installed-dev
	@sh tools/install_slurm.sh
	@sh tools/install_nodes.sh
	WINDLASS_PLAYS=all $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --durations 20 tests/labs

soak: .venv/.installed-dev
	@$(BIN)/python tools/soak.py $(SOAK)
	@$(if $(SOAK),,WINDLASS_DEPTH=1000 $(BIN)/python -m pytest -n auto --timeout 3600 tests/properties)
	@$(if $(SOAK),,WINDLASS_CRASHES=50 $(BIN)/python -m pytest tests/processes/test_cli_daemon.py)
	@$(if $(SOAK),,WINDLASS_MALFORMED=10000 $(BIN)/python -m pytest tests/kubernetes/faults/test_malformed_objects.py)
	@$(if $(SOAK),,WINDLASS_FOREIGN_OBJECTS=10070 $(BIN)/python -m pytest tests/kubernetes/external/test_foreign_objects.py)
	@$(if $(SOAK),,WINDLASS_LEADER_KILLS=50 $(BIN)/python -m pytest tests/kubernetes/faults/test_leader_killed.py)
	@$(if $(SOAK),,WINDLASS_CHECKPOINT_KILLS=50 $(BIN)/python -m pytest tests/train/checkpoint/test_faults.py)

# For every night; FIRST moves on to other seeds, RESULTS is the file of the results.
soak-simulator: .venv/.installed-dev
	@$(BIN)/python tools/soak.py --schedules $(or $(SCHEDULES),100000) --from $(or $(FIRST),0) \
		--results $(or $(RESULTS),soak-simulator.jsonl)
	@$(BIN)/python tools/campaign_results.py $(or $(RESULTS),soak-simulator.jsonl)

soak-daemon: .venv/.installed-dev
	@WINDLASS_DAEMON_SCHEDULES=$(or $(SCHEDULES),300) WINDLASS_FIRST_SEED=$(or $(FIRST),0) \
		WINDLASS_CAMPAIGN_RESULTS=$(or $(RESULTS),soak-daemon.jsonl) \
		$(BIN)/python -m pytest -q -n auto tests/processes/test_daemon_campaign.py
	@$(BIN)/python tools/campaign_results.py $(or $(RESULTS),soak-daemon.jsonl)

# FIRST, SCHEDULES and RESULTS as above; NODE_SCHEDULES on real nodes (root); STEADY is the length of the last part in seconds.
soak-kubernetes: .venv/.installed-dev
	@sh tools/install_nodes.sh
	@WINDLASS_KUBERNETES_SCHEDULES=$(or $(SCHEDULES),200) WINDLASS_FIRST_SEED=$(or $(FIRST),1) \
		WINDLASS_CAMPAIGN_RESULTS=$(or $(RESULTS),soak-kubernetes.jsonl) \
		$(BIN)/python -m pytest -q -s tests/kubernetes/campaigns/test_campaign.py
	@WINDLASS_KUBEFLOW=all $(BIN)/python -m pytest -q tests/kubernetes/kubeflow_operators
	@$(BIN)/python tools/control_plane.py build kueue jobset coscheduler controller-gen
	@$(BIN)/python -m pytest -q tests/kubernetes/other_schedulers
	@WINDLASS_NODE_SCHEDULES=$(or $(NODE_SCHEDULES),10) WINDLASS_FIRST_SEED=$(or $(FIRST),1) \
		$(BIN)/python -m pytest -q -s tests/kubernetes/campaigns/test_real_nodes.py
	@WINDLASS_STEADY_SECONDS=$(or $(STEADY),3600) $(BIN)/python -m pytest -q -s tests/kubernetes/campaigns/test_steady_use.py
	@$(BIN)/python tools/campaign_results.py $(or $(RESULTS),soak-kubernetes.jsonl)

lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_words.py

format: .venv/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/.installed-demo
	@$(BIN)/python benchmarks/run.py $(ONLY)

bench-scheduler: .venv/.installed-demo
	@$(BIN)/python benchmarks/run.py $(or $(ONLY),$(SCHEDULER))

bench-train: .venv/.installed-dev
	@$(BIN)/python benchmarks/run.py $(or $(ONLY),$(TRAIN))

docs: .venv/.installed-docs
	$(BIN)/python tools/write_man_pages.py build/man
	$(BIN)/python tools/build_docs.py site
	@echo 'Open site/index.html'

# Package, chart, SBOM (CycloneDX) and provenance (in-toto, SLSA), in dist/. The image is built of the same commit.
release: .venv/.installed-release
	rm -rf dist
	$(BIN)/python tools/write_man_pages.py build/man
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		$(BIN)/uv build --quiet --no-config --build-constraints requirements.lock --require-hashes --out-dir dist
	rm -f dist/.gitignore
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -C deploy/helm windlass | gzip -n > dist/windlass-chart.tgz
	$(BIN)/python tools/lock_subset.py kubernetes,otlp,remote-write > .venv/operator.lock
	$(BIN)/cyclonedx-py requirements --output-reproducible --of JSON -o dist/windlass-operator.cdx.json .venv/operator.lock
	$(BIN)/cyclonedx-py requirements --output-reproducible --of JSON -o dist/windlass.cdx.json requirements.lock
	$(BIN)/python tools/write_provenance.py dist

# Needs uv alone: the packages cannot be installed while the lock lacks one. Pins of the last extras exclude those of the others.
COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --no-emit-index-url --generate-hashes --python-version 3.11
lock: .venv/bin/uv
	$(COMPILE) $(foreach extra,train kubernetes server float8 notebook otlp remote-write s3 examples workshop docs release dev,--extra $(extra)) -o requirements.lock
	$(COMPILE) $(foreach extra,kubernetes examples torchx kfp airflow,--extra $(extra)) -o requirements-pipelines.lock

.venv/bin/uv:
	@$(MAKE) .venv/.installed-dev

clean:
	rm -rf .venv site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.installed-demo: EXTRAS = train,examples
.venv/.installed-demo-kubernetes: EXTRAS = train,examples,kubernetes
.venv/.installed-dev: EXTRAS = train,examples,kubernetes,notebook,otlp,remote-write,s3,workshop,dev
.venv/.installed-docs: EXTRAS = docs
.venv/.installed-release: EXTRAS = release,dev
.venv/.installed-%: $(PINS)
	@PYTHON='$(PYTHON)' sh tools/install.sh $(EXTRAS)
	@touch $@
