# CMake and Ninja do the work; this file gives it short names. `make help` lists them.
# `make core` needs neither: a C compiler, make and a shell are enough.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS := $(shell nproc 2>/dev/null || echo 2)
SEEDS ?= 10000
WORLD ?= all

CONFIGURE = tools/configure.sh release
BUILD = cmake --build build --parallel $(JOBS)
PACKAGES = tools/install-packages.sh

.PHONY: all core test check-long shake coverage simulate fuzz soak bench papers papers-full demo wheel deb dist format lint docs site \
        install uninstall \
        clean help \
        configure build core-program

all: build ## build/larder and the libraries beside it (what `make` alone does)

build: configure
	@$(BUILD) --target larder larder_manuals larder_shared larder_static

configure:
	@$(PACKAGES) build
	@$(CONFIGURE)

test: ## all tests but the long ones, with asserts on (in build/test)
	@$(PACKAGES) build test
	@tools/configure.sh test
	@cmake --build build/test --parallel $(JOBS)
	@cd build/test && ctest --output-on-failure --parallel 4 --label-exclude '^long$$'

check-long: ## the tests under ASan, UBSan, TSan and MSan, longer property runs, short fuzz runs
	@$(PACKAGES) build test long site
	@tools/check-long.sh

shake: ## the tests with threads that come late by chance: SEED=1; TESTS=loader, those with that in their name
	@$(PACKAGES) build test
	@tools/configure.sh test
	@cmake --build build/test --parallel $(JOBS)
	@cd build/test && LATE="$(or $(SEED),1)" LD_PRELOAD=$$PWD/fake/late_threads.so \
	    ctest --output-on-failure --parallel 4 --label-exclude '^long$$' --tests-regex "$(or $(TESTS),.)" --no-tests=error \
	    --exclude-regex '^test_bundle$$' # which looks at what programs load

coverage: ## which lines and branches of src/ the tests run, by folder; pages in build/coverage/html
	@$(PACKAGES) build test coverage
	@tools/coverage.sh

simulate: ## plays seeds of the made world: SEEDS=1-5000, or how many; WORLD=daemon, group, ranks, far, disk, below
	@$(PACKAGES) build test
	@tools/configure.sh test
	@cmake --build build/test --parallel $(JOBS) --target tool_simulate
	@tools/simulate.sh "$(SEEDS)" $(WORLD)

fuzz: ## every fuzz target in turn for HOURS together, from another seed each time
	@$(PACKAGES) build test long
	@tools/fuzz-hours.sh "$(or $(HOURS),1)"

soak: build ## jobs join and leave a daemon for HOURS: memory, descriptors and threads stay flat
	@tools/soak.py --hours "$(or $(HOURS),1)" --larder build/larder

bench: build ## benchmarks, as ratios against a peer in the same run
	@$(PACKAGES) bench
	@$(CONFIGURE)
	@$(BUILD) --target bench_programs
	@tools/bench.sh

papers: build ## tables and figures of five papers beside ours, into docs/results; papers-full takes longer
	@$(PACKAGES) test
	@tools/papers.sh

papers-full: build ## the same with more epochs and seeds
	@$(PACKAGES) test
	@tools/papers.sh --full

demo: ## trains on Fashion-MNIST through several caches and draws a report
	@$(PACKAGES) build demo
	@$(CONFIGURE)
	@$(BUILD) --target larder
	@tools/demo.sh

wheel: ## dist/larder-*.whl, which other distributions take; all libraries inside
	@$(PACKAGES) build dist
	@tools/wheel.sh dist

deb: ## dist/*.deb: library, headers, program and service, Python module; clean by lintian
	@$(PACKAGES) build dist
	@tools/deb.sh dist

dist: ## dist/: source archive, wheel and Debian packages of this commit, with checksums
	@$(PACKAGES) build dist
	@tools/dist.sh dist

format: ## applies .clang-format
	@tools/format.sh

lint: ## formatting, layers, style, spelling, cppcheck, clang-tidy, shellcheck
	@$(PACKAGES) build lint
	@tools/lint.sh

docs: build ## writes the tables in docs that are generated
	@tools/gen-docs.sh

site: ## build/site/index.html: docs/ as pages with a search, to be read without a network
	@$(PACKAGES) site
	@tools/site.sh build/site

install: build ## into $(DESTDIR)$(PREFIX): program, man pages, completion, libraries, headers, larder.pc
	@umask 022 && DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

uninstall: ## removes what the last `make install` wrote
	@test -f build/install_manifest.txt || { echo "nothing was installed from here" >&2; exit 1; }
	@while read -r file || [ "$$file" ]; do \
	    rm -f "$(DESTDIR)$$file" && echo "removed $(DESTDIR)$$file"; \
	done <build/install_manifest.txt
	@sed -n 's|/larder/[^/]*$$|/larder|p' build/install_manifest.txt | sort -u | \
	    while read -r folder; do rmdir "$(DESTDIR)$$folder" 2>/dev/null || true; done

clean: ## removes all build output
	rm -rf build dist

help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | \
	    while IFS='|' read -r name what; do printf '%-19s %s\n' "$$name" "$$what"; done

# ---- the core: libc and pthreads alone ----------------------------------------------------------

CORE_CFLAGS ?= -O2
CORE_DIR ?= build/core# another one for another compiler
files_below = $(foreach f,$(wildcard $(1)/*),$(call files_below,$(f)) $(filter %.c,$(f)))
CORE_SOURCES = $(call files_below,src)
CORE_OBJECTS = $(patsubst src/%.c,$(CORE_DIR)/%.o,$(CORE_SOURCES)) $(CORE_DIR)/page_files.o $(CORE_DIR)/code_files.o \
               $(CORE_DIR)/shells_files.o
CORE_PAGE = $(wildcard src/see/page/*)
CORE_CODE = $(wildcard src/gpu/code/*)
CORE_SHELLS = $(wildcard src/cli/shells/*)

core: ## build/core/larder with a C compiler alone; optional parts are off
	@command -v $(firstword $(CC)) >/dev/null || \
	    { echo "no C compiler ($(firstword $(CC))); Debian: gcc libc6-dev" >&2; exit 1; }
	@$(MAKE) --no-print-directory -j$(JOBS) core-program
	@$(CORE_DIR)/larder --version

ifneq ($(filter core-program,$(MAKECMDGOALS)),)
core-program: $(CORE_DIR)/larder

$(CORE_DIR)/larder: $(CORE_OBJECTS)
	@echo "link $@"
	@$(CC) $(LDFLAGS) -Wl,--export-dynamic-symbol='larder_[a-z]*' -o $@ $(CORE_OBJECTS) \
	    -lpthread -ldl -lm

$(CORE_DIR)/embed: tools/embed.c
	@mkdir -p $(@D)
	@$(CC) -o $@ $<

$(CORE_DIR)/page_files.c: $(CORE_DIR)/embed $(CORE_PAGE)
	@$< $@ see/page $(CORE_PAGE)

$(CORE_DIR)/code_files.c: $(CORE_DIR)/embed $(CORE_CODE)
	@$< $@ gpu/code $(CORE_CODE)

$(CORE_DIR)/shells_files.c: $(CORE_DIR)/embed $(CORE_SHELLS)
	@$< $@ cli/shells $(CORE_SHELLS)

$(CORE_DIR)/%_files.o: $(CORE_DIR)/%_files.c
	@$(CC) -std=gnu17 -Iinclude -Isrc $(CORE_CFLAGS) -MMD -MP -c -o $@ $<

$(CORE_DIR)/%.o: src/%.c
	@echo "cc $<"
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc $(CORE_CFLAGS) -MMD -MP -c -o $@ $<

-include $(CORE_OBJECTS:.o=.d)
else
.NOTPARALLEL: # goals share build/; Ninja and ctest run in parallel inside
endif
