# make quickstart: train a small model on real data and see it work.   make test: every check.   make docs: the site.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test test-all sanitize docs linkcheck screenshots wheel release clean

quickstart: .venv/installed
	$(BIN)/dragoman quickstart

# Tests start Python a hundred times: what it compiles is kept. They share the cores, so OpenMP's threads do not wait busily.
TEST := PYTHONDONTWRITEBYTECODE= OMP_WAIT_POLICY=PASSIVE $(BIN)/pytest
test: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(TEST) -n 3 --dist loadfile --no-loadscope-reorder  # some tests wait, so three on two cores

# Also load, soak, browser and long experiments.
test-all: test
	$(TEST) -n 2 --dist loadfile --no-loadscope-reorder -m long

# The native tests with a debug build that checks addresses and undefined behaviour. AddressSanitizer reserves more address space
# than the test of a lack of memory allows.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: .venv/installed-dev
	DRAGOMAN_CXXFLAGS="$(SANITIZE)" CXX=g++ OMP_NUM_THREADS=2 \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest -n 0 -q tests/test_native.py tests/test_kernels.py \
		--deselect tests/test_kernels.py::test_a_lack_of_memory_is_told_as_pytorch_tells_it

# The site, docs/_build/index.html. A link or reference that is broken is an error.
docs: .venv/installed-docs
	$(BIN)/sphinx-build --jobs auto --quiet --fail-on-warning --nitpicky -d docs/_build/.doctrees docs docs/_build

# The links to other sites; this needs a network.
linkcheck: .venv/installed-docs
	$(BIN)/sphinx-build --jobs auto --quiet -b linkcheck -d docs/_build/.doctrees docs docs/_build/linkcheck

# The pictures of README and site, with a run from English to German and a folder with train.en, train.de, test.en and test.de.
RUN ?= runs/ende
TEXT ?= .
screenshots: .venv/installed-dev
	$(BIN)/python -m tools.screenshots $(RUN) $(TEXT)

# Into dist/: a wheel for Linux on each machine, with the C++ compiled for each of its levels, and the source distribution. The
# tag of a wheel says from which glibc on it works. The other machine needs its compiler: on Debian, g++-aarch64-linux-gnu.
MACHINES ?= x86_64 aarch64
wheel: .venv/installed-dev
	rm -rf dist
	$(BIN)/python -m build --sdist
	for machine in $(MACHINES); do DRAGOMAN_WHEEL=$$machine $(BIN)/python -m build --wheel --outdir dist/linux || exit 1; done
	PATH=$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist dist/linux/*.whl
	rm -r dist/linux
	$(BIN)/twine check --strict dist/*

# The version, today's date in the changelog, all tests, and what is to be uploaded; it uploads nothing: make release VERSION=0.1.0
release: .venv/installed-dev
	$(BIN)/python -m tools.release "$(VERSION)"
	$(MAKE) test-all
	$(MAKE) wheel
	@echo 'Look at git diff and dist/. Then: git commit -am "Version $(VERSION)"; git tag v$(VERSION); $(BIN)/twine upload dist/*'

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[quickstart]'
	touch $@

.venv/installed-docs: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ .venv/installed .venv/installed-docs

clean:
	rm -rf .venv
