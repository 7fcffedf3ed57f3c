# meshwatchd. `make help` lists what can be made; README.md tells the story.
#
# The first run on a machine builds .venv and, as root, installs the tools the lab needs; the stamp file
# carries a checksum of everything that went into .venv, so a later run starts at once and a changed lock
# file never goes unnoticed.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

VENV    := .venv
BIN     := $(VENV)/bin
PYTHON  := $(BIN)/python
LOCKED  := requirements/lock.txt pyproject.toml netns-lab/pyproject.toml kube/pyproject.toml scripts/bootstrap
STAMP   := $(VENV)/.complete-$(shell cat $(LOCKED) | sha256sum | cut -c1-16)
LAB     := $(PYTHON) -m netnslab

# Debian's plain `su` leaves the sbin directories out, where ip, nft and modprobe live.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
export PYTHONPATH := $(CURDIR):$(CURDIR)/netns-lab:$(CURDIR)/kube
# Each of a lab's twenty processes would be compiled anew at each start, and all tests in each worker.
unexport PYTHONDONTWRITEBYTECODE

# Tests that need neither root nor a lab, in the order in which a failure is cheapest to understand.
QUICK_TESTS := tests/unit tests/property tests/golden tests/contract tests/sim tests/meta
# Tests that build namespaces: the lab's own, and those beside the unit that they test.
LAB_TESTS   := tests/unit tests/lab
UNTIMED     := $(patsubst %,tests/lab/test_%.py,deb kube_image layouts rpm stock_kernel user_mode)
# Tests that need a browser, which is larger than all the rest: of no suite.
PICTURE_TESTS := tests/pictures
CODE        := meshwatchd netns-lab kube scripts tests
TOPOLOGIES   = $(sort $(basename $(notdir $(wildcard netns-lab/netnslab/topologies/*.toml))))

# Where `make install` puts things, as a Debian package would.
DESTDIR    ?=
PREFIX     ?= /usr
SYSCONFDIR ?= /etc

##@ Everyday

.PHONY: help
help: ## list what can be made
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z %_-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nLab topologies: %s\n' "$(if $(TOPOLOGIES),$(TOPOLOGIES),none)"

.PHONY: demo
demo: need-root venv tools ## watch a silent fault being found and healed (root)
	@$(PYTHON) -m netnslab.demo $(ARGS)

# CHECKED=1 leaves check, untimed and worlds out, for who has just run them on the same commit, as CI has.
.PHONY: test
test: need-root venv tools $(if $(CHECKED),,check untimed worlds) ## everything: check, guests, random worlds, the lab suite (root)
	@echo '==> lab suite'
	@$(PYTHON) scripts/lab-suite -m lab --require-passes --durations=60 $(addprefix --ignore=,$(UNTIMED)) $(LAB_TESTS) $(ARGS)

# The clock of a guest stands still while this machine computes, and a package is in no hurry.
.PHONY: untimed
untimed: need-root venv tools ## the lab tests beside which anything may run: packages, and guests with other kernels (root)
	@echo '==> packages, and guests with kernels of their own'
	@$(PYTHON) scripts/lab-suite -m lab --require-passes --durations=10 $(UNTIMED) $(ARGS)

.PHONY: check
check: format lint types imports unit ## format, ruff, mypy, import-linter, quick tests (no root)

# Finds what works only where something was installed by hand. For example: make bare COMMAND='make demo'
COMMAND ?= make check
.PHONY: bare
bare: need-root ## make check, or COMMAND, in a bare Debian root (root)
	@scripts/bare-root $(COMMAND)

##@ Parts of check

.PHONY: format
format: venv ## is everything formatted?
	@echo '==> ruff format'
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo 'run: make fix'; exit 1; }

.PHONY: lint
lint: venv ## ruff's rules
	@echo '==> ruff'
	@$(BIN)/ruff check --quiet $(CODE)

.PHONY: types
types: venv ## mypy, strict for the packages
	@echo '==> mypy'
	@$(BIN)/mypy --no-error-summary meshwatchd netns-lab/netnslab netns-lab/enginerig kube/meshwatchkube tests

.PHONY: imports
imports: venv ## import-linter's contracts
	@echo '==> import-linter'
	@$(BIN)/lint-imports --no-logo

.PHONY: unit
unit: venv ## unit, property, golden, contract, sim and meta tests
	@echo '==> quick tests'
	@$(PYTHON) -m pytest -q -m 'not lab' --numprocesses auto --dist loadfile --forbid-skips $(QUICK_TESTS) $(ARGS)

# All of them, or the run fails. Two calm cores need less than five minutes; a run that took longer says so, and one
# that would take a quarter of an hour is cut short.
WORLDS         ?= 10000
WORLDS_WITHIN  ?= 300
WORLDS_SECONDS ?= 900

.PHONY: worlds
worlds: venv ## random worlds in simulation, on all cores: for example WORLDS=100
	@echo '==> random worlds'
	@$(PYTHON) -m tests.sim.worlds --count $(WORLDS) --within $(WORLDS_WITHIN) --seconds $(WORLDS_SECONDS)

# Before a release, all ten million; make check takes a sample. For example: make fuzz INPUTS=200000
INPUTS ?= 10000000

.PHONY: fuzz
fuzz: venv ## mutated inputs for every decoder of foreign bytes, on all cores, as JSON
	@$(PYTHON) -m tests.property.fuzz --inputs $(INPUTS) $(ARGS)

# For example: make mutants ARGS='--count 20 --rooms routes session --then tests/sim'
.PHONY: mutants
mutants: venv ## random changes to the core, which its tests must notice, as JSON
	@$(PYTHON) -m scripts.mutants $(ARGS)

.PHONY: pictures
pictures: venv ## pages of meshwatchctl report in headless Chromium, which is larger than all suites need
	@command -v chromium-headless-shell >/dev/null || { echo 'needs: apt-get install chromium-headless-shell' >&2; exit 1; }
	@$(PYTHON) -m pytest -q $(PICTURE_TESTS) $(ARGS)

.PHONY: fix
fix: venv ## let ruff format, and repair what it can
	@$(BIN)/ruff check --quiet --fix $(CODE) || true
	@$(BIN)/ruff format --quiet $(CODE)

.PHONY: golden
golden: venv ## rewrite the golden files (then read the diff)
	@MESHWATCH_UPDATE_GOLDEN=1 $(PYTHON) -m pytest -q tests/golden tests/contract $(ARGS)

.PHONY: generate
generate: venv ## rewrite what is made from the code: docs, alert rules, dashboard, manual pages, completion
	@$(PYTHON) -m scripts.generate

##@ Laboratory (root)

# For example: make bench ARGS='detection --trials 5 --links veth --intervals 50'
.PHONY: bench
bench: need-root venv tools ## the probe engine beside BIRD's and FRR's BFD, as JSON
	@$(PYTHON) -m netnslab.bench $(ARGS)

# For example: make bench-failover ARGS='--topology submariner --count 10'
.PHONY: bench-failover
bench-failover: need-root venv tools ## outage over 20 injected faults of each kind, as JSON
	@$(PYTHON) -m netnslab.bench_failover $(ARGS)

.PHONY: bench-crashes
bench-crashes: need-root venv tools ## kill -9 at 200 random instants of failovers and failbacks, as JSON
	@$(PYTHON) -m netnslab.bench_crashes $(ARGS)

# For example: make bench-storms ARGS='--storms 60 --seed 3'
.PHONY: bench-storms
bench-storms: need-root venv tools ## random troubles of networks and daemons, with and without their help, as JSON
	@$(PYTHON) -m netnslab.bench_storms $(ARGS)

.PHONY: bench-flapping
bench-flapping: need-root venv tools ## a leader that flaps at 1 Hz for five minutes, as JSON
	@$(PYTHON) -m netnslab.bench_flapping $(ARGS)

# For example: make bench-diagnosis ARGS='--only fdb-entry-missing --topology flannel-wg'
.PHONY: bench-diagnosis
bench-diagnosis: need-root venv tools ## what the daemons make of each fault of the catalogue, as a confusion matrix
	@$(PYTHON) -m netnslab.bench_diagnosis $(ARGS)

.PHONY: bench-cures
bench-cures: need-root venv tools ## how soon wedges are repaired and black holes of large packets sized, as JSON
	@$(PYTHON) -m netnslab.bench_cures $(ARGS)

.PHONY: bench-mirror
bench-mirror: need-root venv tools ## what watching the kernel costs the agent, and the engine beside it, as JSON
	@$(PYTHON) -m netnslab.bench_mirror $(ARGS)

# For example: make bench-rest ARGS='--seconds 60 --topology kilo-cilium'
.PHONY: bench-rest
bench-rest: need-root venv tools ## bytes across the WAN, CPU and memory while nothing is wrong, as JSON
	@$(PYTHON) -m netnslab.bench_rest $(ARGS)

# For example: make bench-curve ARGS='--wan-kbit 40'
.PHONY: bench-curve
bench-curve: venv ## bytes across the WAN at rest and awake from 3 nodes a location to 1 000, by the schedule, as JSON
	@$(PYTHON) -m tests.sim.curve $(ARGS)

.PHONY: bench-removal
bench-removal: need-root venv tools ## how soon a daemon notices that an object of its own was removed, as JSON
	@$(PYTHON) -m netnslab.bench_removal $(ARGS)

.PHONY: bench-leaders
bench-leaders: need-root venv tools ## Kilo's changes of leaders with daemons and without, as JSON
	@$(PYTHON) -m netnslab.bench_leaders $(ARGS)

# `make lab-kilo-flannel` builds that mesh and leaves it standing; `make lab-down` removes it.
.PHONY: lab-down
lab-down: need-root venv ## remove the mesh that is standing
	@$(LAB) down

lab-%: need-root venv tools ## build the mesh of topology % and leave it standing
	@$(LAB) up $* $(ARGS)

##@ Installation

# What a node gets. None of it needs .venv: the wheels are made in a folder that is thrown away.
WHEELS   ?=
LOCATION  = --destdir '$(DESTDIR)' --prefix '$(PREFIX)' --sysconfdir '$(SYSCONFDIR)'

.PHONY: install
install: ## install below DESTDIR, beside what runs; WHEELS=FOLDER needs no network
	@scripts/install --wheels '$(WHEELS)' $(LOCATION)

# For nodes of Kubernetes that want it; an environment of its own, from wheels of `scripts/wheelhouse --kube FOLDER`.
.PHONY: install-kube
install-kube: ## install meshwatchd-kube below DESTDIR, its unit disabled; WHEELS=FOLDER needs no network
	@scripts/install-kube --wheels '$(WHEELS)' $(LOCATION)

.PHONY: uninstall-kube
uninstall-kube: ## undo make install-kube; PURGE=yes also removes its configuration and its user
	@scripts/uninstall-kube --purge '$(PURGE)' $(LOCATION)

.PHONY: uninstall
uninstall: ## undo make install; PURGE=yes also removes configuration, keys and state
	@scripts/uninstall --purge '$(PURGE)' $(LOCATION)

.PHONY: wheelhouse
wheelhouse: ## build/wheelhouse, all that make install WHEELS= needs on a machine without network
	@scripts/wheelhouse build/wheelhouse

# build/packages/: packages for Debian and for Fedora, an image for systemd-sysext, OCI image layouts for a DaemonSet and a
# Deployment.
.PHONY: deb rpm sysext image kube-image
deb rpm sysext image kube-image: venv ## a package with a Python of its own, in build/packages
	@$(PYTHON) -m scripts.packages $@ $(ARGS)

.PHONY: talos-extension
talos-extension: venv ## build/talos/meshwatchd-extension-VERSION.tar, an OCI image layout for Talos
	@$(PYTHON) -m scripts.talos_extension $(ARGS)

##@ Environment

.PHONY: venv
venv: $(STAMP) ## the virtual environment, from the lock file
	@:

$(STAMP):
	@rm -f $(VENV)/.complete-*
	@scripts/bootstrap python $(VENV)
	@touch $@

# Not a stamp: tools come and go without us, and looking takes a few milliseconds.
.PHONY: tools
tools: need-root ## the Debian packages of the lab
	@scripts/bootstrap tools

.PHONY: need-root
need-root:
	@[ "$$(id -u)" = 0 ] || { \
	    echo 'this builds network namespaces and needs root: sudo make $(MAKECMDGOALS)' >&2; exit 1; }

.PHONY: lock
lock: venv ## rewrite requirements/ from pyproject.toml (ARGS=--upgrade: newest versions)
	@scripts/lock $(ARGS)

.PHONY: clean
clean: ## remove .venv and everything generated
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find meshwatchd netns-lab tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
