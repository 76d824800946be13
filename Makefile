# Everything here needs only python3 and, for the first `make test`, a way to PyPI.
PYTHON  ?= python3
VENV    ?= .venv
MATRIX  ?= 3.9 3.10 3.11 3.12 3.13
FLAVOURS ?= LC_ALL=C PYTHONOPTIMIZE=1 PYTHONWARNINGS=error PYTHONDEVMODE=1
USER_PYTHON ?= /usr/bin/python3
SECONDS ?= 600
ARGS    ?=
SECTIONS ?=
IN_VENV = $(VENV)/bin/python

.PHONY: help
help:       ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(IN_VENV) -m pip --quiet --disable-pip-version-check install --editable '.[test,types]'
	touch $@

.PHONY: test
test: $(VENV)/ready     ## the whole suite, the examples of SPEC.md included, in processes side by side
	$(IN_VENV) test_bash_tool.py suite $(ARGS)

.PHONY: exhaustive
exhaustive: $(VENV)/ready   ## the variants and long mixtures that `make test` leaves out
	$(IN_VENV) test_bash_tool.py suite -m exhaustive $(ARGS)

.PHONY: accidents
accidents: $(VENV)/ready    ## what models type, hosts do and machines lack: one row for each of the 26 of the acceptance list
	BASH_TOOL_WORKERS=$${BASH_TOOL_WORKERS:-4} $(IN_VENV) test_bash_tool.py suite tests/test_accidents.py $(ARGS)

.PHONY: thorough
thorough: $(VENV)/ready ## the suite and these, with hundreds of examples for each property, larger sizes and longer soaks
	BASH_TOOL_THOROUGH=1 $(IN_VENV) test_bash_tool.py suite $(ARGS)

N ?= 30
.PHONY: flakes
flakes: $(VENV)/ready   ## the suite again and again, disturbed in six ways; prints what was ever red; make flakes N=30
	$(IN_VENV) test_bash_tool.py flakes $(N) $(ARGS)

.PHONY: types
types: $(VENV)/ready    ## mypy --strict
	$(IN_VENV) -m mypy

FORMAT = $(IN_VENV) -m ruff format --quiet
.PHONY: format
format: $(VENV)/ready   ## lay out the code; make format ARGS=--check changes nothing and fails where it would
	$(FORMAT) $(ARGS) bash_tool.py
	$(FORMAT) $(ARGS) --line-length 120 test_bash_tool.py bench_bash_tool.py tests

.PHONY: spec
spec: $(VENV)/ready     ## only the executed examples of SPEC.md, and what ties SPEC.md to the tests
	$(IN_VENV) -m pytest -k 'spec or example' $(ARGS)

LEVELS ?= core,server
.PHONY: spec-for
spec-for: $(VENV)/ready ## the text of SPEC.md for some levels of conformance alone; make spec-for LEVELS=core,server
	@$(IN_VENV) test_bash_tool.py spec-for '$(LEVELS)'

.PHONY: saboteurs
saboteurs: $(VENV)/ready    ## each property must turn red under its saboteur; ARGS=third for a third, another one each day
	$(IN_VENV) test_bash_tool.py saboteurs $(ARGS)

$(VENV)-mutation/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-mutation
	$(VENV)-mutation/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test,mutation]'
	touch $@

.PHONY: mutation
mutation: $(VENV)-mutation/ready    ## the pure sections mutated; what survives must be explained; make mutation SECTIONS='6 7' ARGS='sample=150'
	$(VENV)-mutation/bin/python test_bash_tool.py mutation $(SECTIONS) $(ARGS)

.PHONY: fallbacks
fallbacks: $(VENV)/ready    ## the suite without each optional feature of the platform: /proc, memfd, …
	@set -e; for feature in proc subreaper memfd python; do echo "== without $$feature"; \
	  BASH_TOOL_WITHOUT=$$feature $(IN_VENV) test_bash_tool.py suite -k 'not spec and not example and not soak' $(ARGS); done

.PHONY: attack
attack: $(VENV)/ready   ## the rows of the attack on 0.1.0, and every kind of escapee at every ending; as root also as another user
	$(IN_VENV) test_bash_tool.py suite -m 'attack and not interop' $(ARGS)

.PHONY: escapees
escapees: $(VENV)/ready ## the table of escapees, endings and users: what survived
	$(IN_VENV) test_bash_tool.py escapees

.PHONY: engine-soak
engine-soak: $(VENV)/ready  ## random commands, cancels, forks of the host, kills and stops of supervisors; make engine-soak SECONDS=60
	$(IN_VENV) test_bash_tool.py engine-soak $(SECONDS)

.PHONY: soak
soak: $(VENV)/ready     ## a random mixture of everything; make soak SECONDS=60
	BASH_TOOL_SOAK_S=$(SECONDS) $(IN_VENV) -m pytest -m soak -s $(ARGS)

.PHONY: bench
bench:      ## what it costs, as ratios against the floor; some eight minutes; make bench ARGS=engine for the engine's alone, in one minute, ARGS='engine OLD.py NEW.py', ARGS='compare OLD.py NEW.py', ARGS=--json
	$(PYTHON) bench_bash_tool.py $(ARGS)

$(VENV)-interop/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-interop
	$(VENV)-interop/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test,interop]'
	npm install --silent --no-audit --no-fund --prefix $(VENV)-interop @modelcontextprotocol/client @modelcontextprotocol/sdk
	touch $@

.PHONY: interop-ready
interop-ready:  $(VENV)-interop/ready

.PHONY: interop
interop:    ## with real sandboxes, clients, frameworks and sshd; needs bubblewrap, node and openssh; ARGS=-s shows what was said
	@for tool in bwrap node npm ssh ssh-keygen; do command -v $$tool >/dev/null || { echo "$$tool is not installed"; exit 1; }; done
	@$(MAKE) --no-print-directory $(VENV)-interop/ready
	$(VENV)-interop/bin/python -m pytest -m interop $(ARGS)

$(VENV)-packages/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-packages
	$(VENV)-packages/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test,packages]'
	touch $@

.PHONY: packages
packages: $(VENV)-packages/ready    ## the own tests of packages from PyPI: the same numbers through the tool as without it
	$(VENV)-packages/bin/python -m pytest -m packages -s $(ARGS)

.PHONY: hosts
hosts: $(VENV)/ready    ## ten real hosts of MCP, each in an environment of its own: what they show a model; 2 GB, ten minutes at first
	$(IN_VENV) -m pytest -m hosts -s $(ARGS)

$(VENV)-ray/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test,ray]'
	touch $@

.PHONY: ray
ray: $(VENV)-ray/ready  ## the recipe for Ray on a cluster of two nodes on this machine, one of which is killed; 300 MB, one minute
	$(VENV)-ray/bin/python -m pytest -m ray -s tests/integration/test_ray.py $(ARGS)

SERVER ?= $(abspath $(IN_VENV)) $(abspath bash_tool.py) --mcp
.PHONY: wire
wire: $(VENV)/ready     ## the verdict of SPEC.md on a server of MCP, in any language; make wire SERVER='node server.mjs'
	BASH_TOOL_SERVER="$(SERVER)" $(IN_VENV) test_bash_tool.py judge $(ARGS)

.PHONY: judge-the-judge
judge-the-judge: $(VENV)/ready  ## that the judge finds a server that breaks a clause, for each clause; ARGS=third for a third, another one each day
	$(IN_VENV) test_bash_tool.py judge-the-judge $(ARGS)

.PHONY: matrix
matrix:     ## the suite on every Python of MATRIX that is on the PATH or in pyenv, under each of FLAVOURS, as nobody, and without each optional feature
	@set -e; for v in $(MATRIX); do \
	  py=$$(command -v python$$v || true); "$$py" -c '' 2>/dev/null || \
	  py=$$(ls -d "$$(pyenv root 2>/dev/null)"/versions/$$v.*/bin/python 2>/dev/null | tail -n 1); \
	  if [ -z "$$py" ]; then echo "python$$v: not found"; exit 1; fi; \
	  echo "== $$($$py --version)"; $(MAKE) --no-print-directory test PYTHON=$$py VENV=.venv-$$v; \
	done
	@set -e; for flavour in $(FLAVOURS); do echo "== $$flavour"; env $$flavour $(MAKE) --no-print-directory test; done
	@$(MAKE) --no-print-directory nobody fallbacks

.PHONY: nobody
nobody:     ## the suite as an ordinary user, when run as root
	@set -e; if [ "$$(id -u)" != 0 ]; then echo "not root: make test is the same"; exit 0; fi; \
	folder=$$(mktemp -d); chmod 755 $$folder; git archive HEAD | tar -x -C $$folder; chown -R nobody $$folder; \
	echo "== as nobody, with $$($(USER_PYTHON) --version)"; cd $$folder; \
	setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=$$folder PATH=/usr/local/bin:/usr/bin:/bin $(MAKE) test PYTHON=$(USER_PYTHON); \
	rm -rf $$folder

.PHONY: clean
clean:      ## remove what the targets above made
	rm -rf .venv .venv-* *.egg-info build dist .mypy_cache .pytest_cache .hypothesis __pycache__
