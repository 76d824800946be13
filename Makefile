# Everything here needs only python3 and, for the first `make test`, a way to PyPI.
PYTHON  ?= python3
VENV    ?= .venv
ARGS    ?=
MATRIX  ?= 3.9 3.10 3.11 3.12 3.13
FLAVOURS ?= LC_ALL=C PYTHONOPTIMIZE=1 PYTHONWARNINGS=error PYTHONDEVMODE=1
LACKING ?= proc subreaper memfd python
USER_PYTHON ?= /usr/bin/python3
WORKERS ?= $(shell echo $$((6 * $$(getconf _NPROCESSORS_ONLN))))
QUIET = --quiet --disable-pip-version-check
COMPILED = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/pycache
IN_VENV = $(VENV)/bin/python
# The `python3` of a command is that of the environment too: a shim of pyenv takes 0.1 s for each start.
TESTED  = PATH=$(abspath $(VENV))/bin:$$PATH $(COMPILED)
PYTEST  = $(TESTED) $(IN_VENV) -m pytest

.PHONY: help
help:       ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(IN_VENV) -m pip $(QUIET) install --upgrade pip    # 20.3 knows no --editable here, and 23.2 takes up to four times as long
	$(IN_VENV) -m pip $(QUIET) install --no-compile --editable '.[test]'
	touch $@

$(VENV)/types: $(VENV)/ready    # which `make test` does not wait for
	$(IN_VENV) -m pip $(QUIET) install --no-compile --editable '.[types]'
	touch $@

$(VENV)/compiled: $(VENV)/ready test_bash_tool.py $(wildcard tests/*.py)     # once, before each worker does it for itself
	$(PYTEST) --collect-only --quiet > /dev/null || true    # what is wrong, the run itself says
	touch $@

.PHONY: test
test: $(VENV)/compiled     ## the tests that each change must pass, side by side: most of them wait; make test ARGS='-k 003_9'
	$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)

.PHONY: clause
clause: $(VENV)/ready   ## all that is said of a clause and its neighbours: make clause OF=011.2, or OF=011
	@$(TESTED) $(IN_VENV) -m tests.tools.clause $(OF)

.PHONY: exhaustive
exhaustive: $(VENV)/compiled    ## the variants, accidents, configurations and mixtures that `make test` leaves out
	$(PYTEST) -n $(WORKERS) --dist worksteal -m exhaustive $(ARGS)

.PHONY: thorough
thorough: $(VENV)/compiled  ## both, with hundreds of examples for each property and larger sizes
	BASH_TOOL_THOROUGH=1 $(PYTEST) -n $(WORKERS) --dist worksteal -m 'not (interop or packages or hosts or ray)' $(ARGS)

.PHONY: types
types: $(VENV)/types    ## mypy --strict, and pyright
	$(IN_VENV) -m mypy & mypy=$$!; \
	$(IN_VENV) -m pyright --pythonpath $(IN_VENV) bash_tool.py; pyright=$$?; wait $$mypy && exit $$pyright

FORMAT = $(IN_VENV) -m ruff format --quiet $(ARGS)
.PHONY: format
format: $(VENV)/ready   ## lay out the code; make format ARGS=--check changes nothing and fails where it would
	$(FORMAT) bash_tool.py
	$(FORMAT) --line-length 120 test_bash_tool.py tests
	$(IN_VENV) -m tests.tools.comments

.PHONY: check
check:      ## what every change must pass, here and in both CIs: types, layout, tests, and the judge on our own server
	@red=; for stage in types 'format ARGS=--check' test wire; do \
	  eval $(MAKE) --no-print-directory $$stage || red="$$red, make $$stage"; \
	done; \
	[ -z "$$red" ] || { echo "red:$${red#,}"; exit 1; }

.PHONY: saboteurs
saboteurs: $(VENV)/ready    ## each property must turn red under its saboteur; ARGS=003.9 for one, ARGS=eighth for an eighth
	$(TESTED) $(IN_VENV) -m tests.tools.saboteurs $(ARGS)

OF ?= interop
$(VENV)-$(OF)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-$(OF)
	$(VENV)-$(OF)/bin/python -m pip $(QUIET) install --upgrade pip
	$(VENV)-$(OF)/bin/python -m pip $(QUIET) install --no-compile --editable '.[test,$(OF)]'
	[ $(OF) != interop ] || { \
	  npm install --silent --no-audit --no-fund --prefix $(VENV)-$(OF) @modelcontextprotocol/client @modelcontextprotocol/sdk & npm=$$!; \
	  $(VENV)-$(OF)/bin/python -m tests.integration.support && wait $$npm; }
	touch $@

# langsmith brings a plugin for pytest, which imports for a second in each worker.
NO_PLUGIN = -p no:langsmith_plugin
.PHONY: integration
integration: $(VENV)-$(OF)/ready    ## with real programs: OF=interop (sandboxes, clients, SDKs, sshd), packages, hosts or ray; ARGS=-s shows what was said, ARGS='-n 4 --dist worksteal' is faster
	PATH=$(abspath $(VENV))-$(OF)/bin:$$PATH $(COMPILED)-$(OF) $(VENV)-$(OF)/bin/python -m pytest $(NO_PLUGIN) -m $(OF) tests/integration $(ARGS)

$(VENV)/bash_tool.pyc: bash_tool.py $(VENV)/ready    # the judge starts 500 servers, and to compile is half of a start
	$(IN_VENV) -c 'import py_compile; py_compile.compile("bash_tool.py", "$@", doraise=True)'

SERVER ?= $(abspath $(IN_VENV)) -S $(abspath $(VENV))/bash_tool.pyc --mcp
.PHONY: wire
wire: $(VENV)/bash_tool.pyc ## the verdict of SPEC.md on a server of MCP, in any language; make wire SERVER='node server.mjs' ARGS='003.*'
	$(COMPILED) $(IN_VENV) -m tests.conformance "$(SERVER)" $(ARGS)

LEVELS ?= core,server
.PHONY: spec-for
spec-for:   ## the text of SPEC.md for some levels of conformance alone; make spec-for LEVELS=core,server
	@$(PYTHON) -m tests.tools.spec_for '$(LEVELS)'

.PHONY: judge-the-judge
judge-the-judge: $(VENV)/ready  ## that the judge finds a server that breaks a clause, for each clause; ARGS=eighth for an eighth
	$(COMPILED) $(IN_VENV) -m tests.conformance.panel $(ARGS)

.PHONY: vectors
vectors: $(VENV)/ready  ## the cases in tests/vectors anew from the oracle; fails where one has changed
	$(COMPILED) $(IN_VENV) -m tests.vectors $(ARGS)

.PHONY: bench
bench:      ## what it costs, as ratios; some eight minutes; ARGS=engine in one minute, ARGS='engine OLD.py NEW.py', ARGS='drain OLD.py NEW.py', ARGS='compare OLD.py NEW.py'
	$(PYTHON) tests/bench.py $(ARGS)

.PHONY: matrix
matrix:     ## the tests on each Python of MATRIX (on the PATH or in pyenv), under each of FLAVOURS, without each of LACKING, and as an ordinary user
	@set -e; for v in $(MATRIX); do \
	  py=$$(command -v python$$v || true); "$$py" -c '' 2>/dev/null || \
	  py=$$(ls -d "$$(pyenv root 2>/dev/null)"/versions/$$v.*/bin/python 2>/dev/null | tail -n 1); \
	  if [ -z "$$py" ]; then echo "python$$v: not found"; exit 1; fi; \
	  echo "== $$($$py --version)"; $(MAKE) --no-print-directory test exhaustive PYTHON=$$py VENV=.venv-$$v; \
	done
	@set -e; for flavour in $(FLAVOURS); do echo "== $$flavour"; env $$flavour $(MAKE) --no-print-directory test exhaustive; done
	@set -e; for feature in $(LACKING); do echo "== without $$feature: what SPEC.md, section 6, takes away is not asked"; \
	  BASH_TOOL_WITHOUT=$$feature $(MAKE) --no-print-directory test exhaustive ARGS='--ignore=tests/test_accidents.py --ignore=tests/test_spec.py'; done
	@set -e; if [ "$$(id -u)" != 0 ]; then echo "not root: the same as above"; exit 0; fi; \
	folder=$$(mktemp -d); chmod 755 $$folder; git archive HEAD | tar -x -C $$folder; chown -R nobody $$folder; \
	echo "== as nobody, with $$($(USER_PYTHON) --version)"; cd $$folder; \
	setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=$$folder PATH=/usr/local/bin:/usr/bin:/bin $(MAKE) test exhaustive PYTHON=$(USER_PYTHON); \
	rm -rf $$folder

.PHONY: release
release: $(VENV)/types  ## wheel and sdist in dist/, checked, and used in a fresh environment of each Python of MATRIX without network
	$(IN_VENV) -m tests.tools.release $(MATRIX)

.PHONY: clean
clean:      ## remove what the targets above made
	rm -rf .venv .venv-* *.egg-info build dist .mypy_cache .pytest_cache .hypothesis __pycache__ tests/__pycache__ tests/*/__pycache__
