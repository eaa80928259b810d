# To start, run `make demo` or `make test`. Both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt
QUIET := --quiet --progress-bar off
SET_UP := pyproject.toml constraints.txt
ENGINES := .venv-engines
ENGINE_PIP = $(ENGINES)/bin/python -m pip --disable-pip-version-check install --constraint constraints-engines.txt $(QUIET)

.PHONY: demo demo-one demo-two test test-engines golden pictures native fuzz fuzz-native browser java check docs docs-site docs-serve bench bench-quick runs release clean

# The whole loop on the demo set: run two retrievers, score, compare, judge. Prints each command before its output.
SET := examples/helpdesk
SEARCHED := --queries $(SET)/gold.jsonl --corpus $(SET)/corpus.jsonl
define show
@echo; echo '$$ karat $(1)'
@$(BIN)/karat $(1)
endef
demo: .venv/.demo
	@mkdir -p out && rm -f out/bm25.jsonl out/hybrid.jsonl
	@if $(BIN)/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("wordllama") is None)'; \
	then $(MAKE) --no-print-directory demo-two; \
	else echo 'No static embeddings: wordllama has no wheel for this Python. BM25 is run alone.'; \
	$(MAKE) --no-print-directory demo-one; fi

demo-one:
	$(call show,run bm25 $(SEARCHED) -o out/bm25.jsonl)
	$(call show,eval out/bm25.jsonl --gold $(SET)/gold.jsonl --corpus $(SET)/corpus.jsonl --brief -o out/report.html)
	$(call show,eval sweep out/bm25.jsonl --gold $(SET)/gold.jsonl)
	@echo; echo 'Open it in a browser: file://$(CURDIR)/out/report.html'

demo-two:
	$(call show,run bm25 $(SEARCHED) -o out/bm25.jsonl)
	$(call show,run hybrid $(SEARCHED) -o out/hybrid.jsonl)
	$(call show,eval out/hybrid.jsonl --gold $(SET)/gold.jsonl --corpus $(SET)/corpus.jsonl --brief -o out/report.html)
	$(call show,compare out/bm25.jsonl out/hybrid.jsonl --gold $(SET)/gold.jsonl --changes 0)
	$(call show,gate out/hybrid.jsonl --gold $(SET)/gold.jsonl --baseline out/bm25.jsonl --criteria $(SET)/ship-criteria.yaml \
	-o out/verdict.html) || [ $$? = 1 ]
	@echo; echo 'Open them in a browser: file://$(CURDIR)/out/report.html file://$(CURDIR)/out/verdict.html'

# Tests of one file run in one process, and so do files that share expensive resources: tests/support/scheduling.py.
test: .venv/.frameworks native browser java
	KARAT_REQUIRE_FRAMEWORKS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# Tests against real servers and other tools' own packages, which have their own environment.
test-engines: $(ENGINES)/.installed
	KARAT_ENGINES=1 $(ENGINES)/bin/python -m pytest tests/engines -n 2 --dist loadfile

# Update the golden files (all output texts). Read the difference before you commit it.
golden: .venv/.frameworks
	KARAT_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -n auto --dist loadfile \
	$$(grep -rlE --include='test_*.py' 'from golden import|KARAT_UPDATE_GOLDEN' tests)

# Take the pictures of the docs again, from the demo set. Look at them before you commit them.
pictures: .venv/.test browser
	KARAT_TAKE_PICTURES=1 $(BIN)/python -m pytest -q tests/report/page/test_pictures.py tests/web/test_pictures.py

# Compile the native reader. Without a C compiler, Karat reads with msgspec and polars only.
native: .venv/.core
	@$(BIN)/python -m karat.files.native.build || echo 'No native reader: everything works, but reading is slower.'

# Feed damaged input to every reader, history file and endpoint, FUZZ_SECONDS each. Failing inputs are kept in tests/fuzz/.
FUZZ_SECONDS := 20
fuzz: .venv/.test fuzz-native
	$(BIN)/python tests/support/fuzz.py --seconds $(FUZZ_SECONDS) --seed $$(date +%s)

# Run the native reader under AddressSanitizer and UBSan on damaged files. `make test` includes a short run.
fuzz-native: .venv/.test
	$(BIN)/python tests/support/fuzz_native.py --seconds 300

# Pages are tested in Debian's chromium. If it cannot be installed, those tests are skipped.
BROWSERS := chromium chromium-browser google-chrome
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
browser:
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	command -v apt-get >/dev/null && echo 'Installing chromium from Debian: about 150 MB to download.' && \
	$(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core || \
	echo 'No browser: tests that need one are skipped. Install chromium to run them.'

# Spark is tested with Java 17 or 21. If it cannot be installed, those tests are skipped.
java:
	@command -v java >/dev/null && exit 0; \
	command -v apt-get >/dev/null && echo 'Installing Java from Debian: about 50 MB to download.' && \
	$(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -q --no-install-recommends default-jre-headless || \
	echo 'No Java: tests that need Spark are skipped. Install default-jre-headless (17 or 21) to run them.'

check: .venv/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests examples benchmarks tools
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/architecture

# Everything in docs/ and the package that is generated from code. A test fails if it is out of date.
docs: .venv/.core
	$(BIN)/karat metrics --markdown > docs/metrics.md
	$(BIN)/python -m karat.results.diagnosis docs/diagnosis.md
	$(BIN)/python -m karat.schemas
	$(BIN)/python tools/drawings.py
	$(BIN)/python tools/speed.py
	$(BIN)/python tools/reference.py

# The documentation as a site, in site/; needs no network once it is set up.
SITE := .venv-site
docs-site: $(SITE)/.installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build --strict
	@echo 'Open it in a browser: file://$(CURDIR)/site/index.html'

docs-serve: $(SITE)/.installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs serve

# Wheels, source archive and checksums, in dist/. Uploads nothing; RELEASE=--dry-run keeps nothing either.
release: .venv/.test
	$(BIN)/python tools/release.py $(RELEASE)

# Make the demo set's run logs again with real retrievers.
runs: .venv/.test
	$(BIN)/python examples/helpdesk/make_runs.py

bench-quick: .venv/.bench native
	$(BIN)/python benchmarks/quick.py

bench: .venv/.bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/commands.py --output benchmarks/COMMANDS.md
	$(BIN)/python benchmarks/reading.py --output benchmarks/READING.md
	$(BIN)/python benchmarks/statistics_speed.py --output benchmarks/STATISTICS.md
	$(BIN)/python benchmarks/interval_coverage.py --output benchmarks/COVERAGE.md
	$(BIN)/python benchmarks/calibration_coverage.py --output benchmarks/CALIBRATION.md
	$(BIN)/python benchmarks/evidence_matching.py --output benchmarks/EVIDENCE.md
	$(BIN)/python benchmarks/report_speed.py --output benchmarks/REPORT.md
	$(BIN)/python benchmarks/retrieval_speed.py --output benchmarks/RETRIEVAL.md
	$(BIN)/python benchmarks/bm25_quality.py --output benchmarks/BM25.md
	$(BIN)/python benchmarks/judge_speed.py --output benchmarks/JUDGE.md
	$(BIN)/python benchmarks/history_speed.py --output benchmarks/HISTORY.md
	$(BIN)/python benchmarks/dashboard_speed.py --output benchmarks/DASHBOARD.md
	$(BIN)/python benchmarks/team_speed.py --output benchmarks/TEAM.md
	$(BIN)/python benchmarks/scale.py --largest --output benchmarks/SCALE.md
	$(BIN)/python benchmarks/parts_speed.py --output benchmarks/PARTS.md
	$(BIN)/python benchmarks/duckdb_sql.py --largest --output benchmarks/DUCKDB.md
	$(BIN)/python benchmarks/growth.py

clean:
	rm -rf .venv $(ENGINES) $(SITE) site .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Karat needs Python 3.11 or newer: make PYTHON=python3.12 …'; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python $(SET_UP)
	$(PIP) $(QUIET) --editable .
	@touch $@

.venv/.demo: .venv/bin/python $(SET_UP)
	@echo 'Installing Karat, BM25 and static embeddings into .venv: about 100 MB to download.'
	$(PIP) $(QUIET) --editable '.[baselines,dense]'
	@touch $@ .venv/.core

.venv/.test: .venv/bin/python $(SET_UP)
	@echo 'Installing what the tests need into .venv (Spark, PostgreSQL, a browser driver and more): about 870 MB to download.'
	$(PIP) --editable '.[test]'
	@touch $@ .venv/.demo .venv/.core

# Libraries for the tests of framework retrievers; a separate group because it is large.
.venv/.frameworks: .venv/.test
	@echo 'Installing LangChain, LlamaIndex, Haystack and sentence-transformers with torch: up to 2.6 GB more to download.'
	$(PIP) --editable '.[test,test-frameworks]'
	@touch $@

.venv/.check: .venv/bin/python $(SET_UP)
	$(PIP) $(QUIET) --editable '.[test,check]'
	@touch $@ .venv/.test .venv/.demo .venv/.core

.venv/.bench: .venv/bin/python $(SET_UP)
	$(PIP) $(QUIET) --editable '.[bench]'
	@touch $@

# Of pyserini only the Lucene server inside it is used; what it depends on (torch and more) is not.
$(ENGINES)/.installed: pyproject.toml constraints-engines.txt
	@echo 'Installing engines and other tools into $(ENGINES): about 810 MB to download.'
	@test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINE_PIP) --editable '.[test-engines]'
	$(ENGINE_PIP) --no-deps pyserini
	@touch $@

$(SITE)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Karat needs Python 3.11 or newer: make PYTHON=python3.12 …'; exit 2; }
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip --disable-pip-version-check install --constraint constraints.txt $(QUIET) --editable '.[site]'
	@touch $@
