# Builds, checks and installs lio. `make help` lists the targets.
# Cargo decides which files are out of date, so every target calls it. Each version of Lua has its own target folder.

# The version of Lua: 5.4, 5.5, or the path of an interpreter of either version (LuaRocks passes a path).
LUA ?= 5.4
PREFIX ?= /usr/local
CARGO ?= cargo
# The stock interpreter of Lua 5.4, which is the second host of the tests.
LUA54 ?= lua5.4
# Only suites whose name contains this word, or one of these words, run: make suites ONLY='socket json'
ONLY ?=
# Suites and options of the benchmarks: make bench SUITES='http rounds=3'
SUITES ?=

LUA_VERSION := $(if $(findstring /,$(LUA)),$(shell '$(LUA)' -e 'print((_VERSION:gsub("Lua ", "")))'),$(LUA))
ifeq ($(filter $(LUA_VERSION),5.4 5.5),)
$(error LUA is "$(LUA)": lio is built for Lua 5.4 or 5.5)
endif
FEATURE := lua$(subst .,,$(LUA_VERSION))

# A comma, for use inside a function call of make.
, := ,

TARGET := $(or $(CARGO_TARGET_DIR),target)
# The default features are built in $(TARGET) itself, as by `cargo build`.
BIN_TARGET := $(TARGET)$(if $(filter 5.5,$(LUA_VERSION)),/lua55)
BIN := $(BIN_TARGET)/release/lio
# Each Lua version has its own folder for the module.
MODULES := build$(if $(filter 5.5,$(LUA_VERSION)),/lua5.5)
# Debian has no interpreter of Lua 5.5: the tests build one from the sources of the executable.
STOCK := $(if $(filter 5.5,$(LUA_VERSION)),$(TARGET)/stock/lua5.5,$(LUA54))
LIBRARY := $(BIN_TARGET)/release/liblio$(if $(filter Darwin,$(shell uname -s)),.dylib,.so)

# The default feature set is Lua 5.4, without other features, so that `cargo run` by hand uses the same files.
VENDORED := --target-dir '$(BIN_TARGET)'$(if $(filter 5.5,$(LUA_VERSION)), --no-default-features --features $(FEATURE)$(,)vendored)
# Rust's thread-locals do not survive an unload, so the linker marks the object: dlclose(3) does not unload it.
SHARED := --crate-type cdylib$(if $(filter Linux,$(shell uname -s)), -- -C link-arg=-Wl$(,)-z$(,)nodelete)
MODULE_FEATURES := --no-default-features --features $(FEATURE),module
# The executable and the module share the crates that do not differ.
MODULE := --target-dir '$(BIN_TARGET)' $(MODULE_FEATURES)

.PHONY: build module rock test suites checked sanitize sanitize-core sanitize-module fuzz panics alloc-failures \
  loom test-long bench install uninstall dist deb definitions \
  lint tools clean help

build: ## the executable: target/release/lio
	$(CARGO) build --release --bin lio $(VENDORED)
	@echo 'built $(BIN)'

module: ## the shared object for a stock Lua: build/lio.so, for Lua 5.5 build/lua5.5/lio.so
	$(CARGO) rustc --release --lib $(MODULE) $(SHARED)
	@mkdir -p $(MODULES)
	@# A rename replaces the file: a process that has loaded the old file keeps it, and parallel builds do not conflict.
	new=$(MODULES)/lio.so.$$$$; cp '$(LIBRARY)' $$new && mv -f $$new $(MODULES)/lio.so
	@# Lua searches for the module `ltask.bootstrap` in a file that is named after the first part of the module's name.
	new=$(MODULES)/ltask.so.$$$$; ln -sf lio.so $$new && mv -f $$new $(MODULES)/ltask.so

# LuaRocks passes its C compiler, which `make` would export. Crates with C code would then be compiled again for each
# compiler, although they find the same one by themselves.
ifneq ($(filter rock,$(MAKECMDGOALS)),)
unexport CC
endif

rock: module
	@# For LuaRocks the file has the same path with every Lua version.
	@mkdir -p build/rock
	@# A rename replaces the file, as above: another process may be installing it.
	new=build/rock/lio.so.$$$$; cp $(MODULES)/lio.so $$new && mv -f $$new build/rock/lio.so

tools:
	@LUA54='$(LUA54)' sh tests/tools.sh

lint: tools ## formatting, clippy for both feature sets, luacheck, the lengths of functions, and the prose
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets $(VENDORED) -- -D warnings
	@# Both feature sets use one folder, so the crates that do not differ are checked once.
	$(CARGO) clippy --lib --target-dir '$(BIN_TARGET)' $(MODULE_FEATURES) -- -D warnings
	luacheck --quiet .
	$(LUA54) tests/embedded_programs.lua
	$(LUA54) tests/lengths.lua
	$(LUA54) tests/english.lua

$(TARGET)/stock/lua5.5: tests/stock.c
	@mkdir -p '$(@D)'
	sh tests/stock.sh 5.5 '$@'

suites: tools build module $(filter $(TARGET)/%,$(STOCK))
	@LIO_BIN='$(BIN)' STOCK='$(STOCK)' MODULES='$(MODULES)' bash tests/run.sh '$(ONLY)'

checked: tools ## Rust tests and every Lua suite in the executable, with debug assertions and checks of the Lua API
	$(CARGO) test --profile checked $(VENDORED)
	$(CARGO) build --profile checked --bin lio $(VENDORED)
	@LIO_BIN='$(BIN_TARGET)/checked/lio' STOCK= bash tests/run.sh '$(ONLY)'

# Build scripts are not sanitized, so cargo needs an explicit target.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# Both versions of Lua use one folder, in which the crates that do not differ are compiled once.
SANITIZED := $(TARGET)/sanitize
SANITIZED_BIN := $(SANITIZED)/bin$(LUA_VERSION)/lio
SANITIZED_STOCK := $(SANITIZED)/lua$(LUA_VERSION)
SANITIZED_MODULES := $(SANITIZED)/modules$(LUA_VERSION)
REPORTS := $(abspath $(SANITIZED))/reports
# The suites that CI runs with AddressSanitizer: the Lua core, tasks, the scheduler, the selector, and the codecs.
SANITIZED_CORE := json_test compress_test debug_hooks task_test task_inspection coroutine_wait_test reentry_test \
  reentry_objects reentry_stack ltask_core_test ltask_core_root ltask_pack ltask_mailbox_test ltask_own_thread net_recv net_transfer \
  selector_calls selector_loop socket_test template_test thread_scope_test
SANITIZE := RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CFLAGS='-fsanitize=address -fno-omit-frame-pointer' $(CARGO)
SANITIZE_OPTIONS := --profile checked --target '$(HOST)' --target-dir '$(SANITIZED)' --no-default-features
# A report of a child process fails the run too, even if its suite does not read the report. Locals must stay on the
# real stack, because the core compares their addresses to find frames that have ended (src/lua/store.rs).
SANITIZED_ENV := ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0:log_path='$(REPORTS)/asan' \
  LSAN_OPTIONS=suppressions='$(abspath tests/lsan.supp)':print_suppressions=0 LIO_TEST_SANITIZER=address LIO_TEST_SECONDS=600
CHECK_REPORTS := if [ -n "$$(ls -A '$(REPORTS)')" ]; then cat '$(REPORTS)'/*; echo 'a sanitizer reported errors'; exit 1; fi

.PHONY: sanitized-bin
sanitized-bin: tools
	$(SANITIZE) build --bin lio $(SANITIZE_OPTIONS) --features $(FEATURE)$(,)vendored$(,)plain_malloc
	@mkdir -p '$(dir $(SANITIZED_BIN))'
	@cp '$(SANITIZED)/$(HOST)/checked/lio' '$(SANITIZED_BIN).new' && mv -f '$(SANITIZED_BIN).new' '$(SANITIZED_BIN)'

sanitize: sanitized-bin ## every Lua suite in the executable, built with AddressSanitizer and LeakSanitizer, C code included
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	@$(SANITIZED_ENV) LIO_BIN='$(SANITIZED_BIN)' STOCK= bash tests/run.sh '$(ONLY)'; status=$$?; $(CHECK_REPORTS); exit $$status

sanitize-core: ## the suites of the core, as `make sanitize` runs them
	@$(MAKE) --no-print-directory sanitize ONLY='$(SANITIZED_CORE)'

sanitize-module: sanitized-bin ## every Lua suite in a stock interpreter and in the executable, both with AddressSanitizer
	sh tests/stock.sh '$(LUA_VERSION)' '$(SANITIZED_STOCK)' address
	$(SANITIZE) rustc --lib $(SANITIZE_OPTIONS) --features $(FEATURE)$(,)module$(,)plain_malloc $(SHARED)
	@mkdir -p '$(SANITIZED_MODULES)' && cp '$(SANITIZED)/$(HOST)/checked/liblio.so' '$(SANITIZED_MODULES)/lio.so'
	@ln -sf lio.so '$(SANITIZED_MODULES)/ltask.so'
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	@$(SANITIZED_ENV) LIO_BIN='$(SANITIZED_BIN)' STOCK='$(SANITIZED_STOCK)' MODULES='$(SANITIZED_MODULES)' \
	  bash tests/run.sh '$(ONLY)'; status=$$?; $(CHECK_REPORTS); exit $$status

# The suites of `make sanitize-threads`: services, and everything else that runs on several threads.
THREADED := ltask skynet net_remote thread_ web_workers webservice websocket_broadcast selector watch_workers crypto resolve
THREADS := $(TARGET)/sanitize-threads
# The standard library is compiled, too, so that ThreadSanitizer knows its locks. It replaces only `longjmp`; Lua uses
# `_longjmp`.
THREAD_FLAGS := RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread \
  CFLAGS='-fsanitize=thread -fno-omit-frame-pointer -D_longjmp=longjmp'

.PHONY: sanitize-threads
sanitize-threads: tools ## the suites with several threads, with ThreadSanitizer; needs the rustup component rust-src
	$(THREAD_FLAGS) $(CARGO) build -Zbuild-std --bin lio --profile checked --target '$(HOST)' --target-dir '$(THREADS)' \
	  --no-default-features --features $(FEATURE)$(,)vendored$(,)plain_malloc
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	@TSAN_OPTIONS=log_path='$(REPORTS)/tsan':suppressions='$(abspath tests/tsan.supp)':print_suppressions=0 \
	  LIO_TEST_SANITIZER=thread LIO_TEST_SECONDS=600 LIO_BIN='$(THREADS)/$(HOST)/checked/lio' STOCK= \
	  bash tests/run.sh '$(or $(ONLY),$(THREADED))'; status=$$?; $(CHECK_REPORTS); exit $$status

# Tests whose inputs are large take hours there: fuzzers' seeds, compression, cryptography, all dates. A VM is code in C.
MIRI_SKIPPED := fuzz compression compressed_message inflate crypto skynet_crypt every_date every_split linear_time \
  outweigh properties model work_is_linear does_not_grow truncated_message status_lines only_the_last_elements \
  around_broadcasts not_reused_soon _vm_
MIRI := codec:: memory:: ltask::message ltask::registry ltask::timers ltask::unanswered ltask::mailbox

.PHONY: miri
miri: ## the tests of the codec, of services' memory and of mailboxes in Miri; needs a nightly toolchain with miri and rust-src
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 $(CARGO) +nightly miri test --lib --target-dir '$(TARGET)/miri' \
	  -- $(MIRI) $(addprefix --skip ,$(MIRI_SKIPPED))

# The number of seconds for which `make fuzz` runs. Its argument TARGET, the name of a fuzzer, replaces the variable TARGET
# above, which these rules do not use.
SECONDS ?= 60
FUZZERS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
# The flags of cargo-fuzz, which is not required. libFuzzer reads counters of the executed code, and compared values.
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module $(addprefix -Cllvm-args=-, \
  sanitizer-coverage-level=4 sanitizer-coverage-inline-8bit-counters sanitizer-coverage-pc-table \
  sanitizer-coverage-trace-compares simplifycfg-branch-fold-threshold=0)
BUILD_FUZZERS := RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(FUZZ_FLAGS)' $(CARGO) build --release --manifest-path fuzz/Cargo.toml \
  --target '$(HOST)' --target-dir fuzz/target

.PHONY: fuzzers
fuzzers: tools
	$(BUILD_FUZZERS) --bins

fuzz: tools ## random input for a fuzzer of fuzz/: make fuzz TARGET=websocket_frames SECONDS=60
ifneq ($(filter $(TARGET),$(FUZZERS)),$(TARGET))
	@echo 'make fuzz: TARGET is the name of a fuzzer: $(FUZZERS)' >&2; exit 1
endif
	$(BUILD_FUZZERS) --bin '$(TARGET)'
	@bash fuzz/run.sh '$(TARGET)' '$(SECONDS)' -print_final_stats=1

# The folder of a module for `make panics` and `make alloc-failures` only: its functions panic, and allocations of Lua
# memory fail, when a suite requests it.
FAULTS := $(TARGET)/faults$(if $(filter 5.5,$(LUA_VERSION)),55)

.PHONY: faults
faults: tools $(filter $(TARGET)/%,$(STOCK))
	$(CARGO) build --bin lio --target-dir '$(BIN_TARGET)' --no-default-features \
	  --features $(FEATURE)$(,)vendored$(,)panics$(,)alloc_failures
	@# In one folder, the crates that do not differ are compiled once. No other target builds a shared object there.
	$(CARGO) rustc --lib --target-dir '$(BIN_TARGET)' $(MODULE_FEATURES)$(,)panics$(,)alloc_failures $(SHARED)
	@mkdir -p '$(FAULTS)' && cp '$(BIN_TARGET)/debug/$(notdir $(LIBRARY))' '$(FAULTS)/lio.so' && ln -sf lio.so '$(FAULTS)/ltask.so'

panics: faults ## a panic in each function that Lua can call, in both hosts
	LUA_PATH="$$PWD/?.lua;;" LIO_HOST='$(BIN_TARGET)/debug/lio' '$(BIN_TARGET)/debug/lio' tests/panics.lua
	LUA_PATH="$$PWD/?.lua;;" LUA_CPATH="$$PWD/$(FAULTS)/?.so;;" LIO_HOST='$(STOCK)' '$(STOCK)' tests/panics.lua

alloc-failures: faults ## each allocation of Lua memory in each function that Lua can call fails, in both hosts
	LUA_PATH="$$PWD/?.lua;;" LIO_HOST='$(BIN_TARGET)/debug/lio' '$(BIN_TARGET)/debug/lio' tests/alloc_failures.lua
	LUA_PATH="$$PWD/?.lua;;" LUA_CPATH="$$PWD/$(FAULTS)/?.so;;" LIO_HOST='$(STOCK)' '$(STOCK)' tests/alloc_failures.lua

# The steps run in this order even with `make -j`, because they share the processors and the target folders.
test: ## lint, Rust tests, loom's models, and every Lua suite in both hosts
	@$(MAKE) --no-print-directory lint
	@# With link-time optimization, the Rust tests take longer to build than the executable. They run in the profile for
	@# development, as `make panics` does; `make test-long` also runs the tests of VMs in the profile of a release.
	$(CARGO) test $(VENDORED)
	@# The last step of a build uses only one thread, so the models run at the same time.
	@$(MAKE) --no-print-directory -j2 --output-sync=target loom build module
	@# One of the two mostly waits.
	@$(MAKE) --no-print-directory -j2 --output-sync=target panics alloc-failures
	@$(MAKE) --no-print-directory suites

loom: ## the models of the mailbox, the workers and the sleep protocol, about two minutes
	$(CARGO) test --release --manifest-path tests/loom/Cargo.toml --target-dir '$(TARGET)/loom'

test-long: tools build module ## the long tests of tests/long, each with a time limit
	$(CARGO) build --release --examples $(VENDORED)
	$(CARGO) test --release --test vm $(VENDORED)
	@LIO_BIN='$(BIN)' STOCK='$(STOCK)' MODULES='$(MODULES)' LUA54='$(LUA54)' bash tests/run.sh --long '$(ONLY)'

bench: build module ## runs all benchmarks, or SUITES='http net'; bench/README.md lists the required tools
	$(CARGO) build --release --examples $(VENDORED)
	LIO='$(BIN)' EXAMPLES='$(BIN_TARGET)/release/examples' LUA54='$(LUA54)' '$(BIN)' bench/run.lua $(SUITES)

.PHONY: book
# mdBook is no requirement of the tests: docs/ can be read without it.
book: ## the documentation as HTML, for which mdBook is needed: build/book/index.html
	$(LUA54) docs/book.lua build/book-source
	mdbook build build/book-source
	$(LUA54) docs/book_language.lua zh-CN build/book/zh/*.html build/book/files/README.zh.html
	@echo 'built build/book/index.html'

# The installed files, except for the executable and the module. Packages and the tarball contain the same files.
DEFINITIONS := $(wildcard lualib/meta/*.lua)
MODULE_FOLDER := lib/lua/$(LUA_VERSION)
BASH_COMPLETIONS := share/bash-completion/completions
ZSH_COMPLETIONS := share/zsh/site-functions
FISH_COMPLETIONS := share/fish/vendor_completions.d

# Installs below the folder $(1).
define install_files
	install -d '$(1)/bin' '$(1)/$(MODULE_FOLDER)' '$(1)/share/lio/meta' '$(1)/share/man/man1' \
	  '$(1)/$(BASH_COMPLETIONS)' '$(1)/$(ZSH_COMPLETIONS)' '$(1)/$(FISH_COMPLETIONS)'
	install -m 755 '$(BIN)' '$(1)/bin/lio'
	install -m 755 $(MODULES)/lio.so '$(1)/$(MODULE_FOLDER)/lio.so'
	ln -sf lio.so '$(1)/$(MODULE_FOLDER)/ltask.so'
	install -m 644 $(DEFINITIONS) '$(1)/share/lio/meta/'
	install -m 644 packaging/lio.1 '$(1)/share/man/man1/lio.1'
	install -m 644 packaging/completions/lio.bash '$(1)/$(BASH_COMPLETIONS)/lio'
	install -m 644 packaging/completions/lio.zsh '$(1)/$(ZSH_COMPLETIONS)/_lio'
	install -m 644 packaging/completions/lio.fish '$(1)/$(FISH_COMPLETIONS)/lio.fish'
endef

install: build module ## into PREFIX: the executable, the module, definitions, the manual page, completions
	$(call install_files,$(DESTDIR)$(PREFIX))

uninstall: ## removes the files that `make install` with the same PREFIX and LUA has installed
	cd '$(DESTDIR)$(PREFIX)/' && rm -f bin/lio $(MODULE_FOLDER)/lio.so $(MODULE_FOLDER)/ltask.so share/man/man1/lio.1 \
	  $(BASH_COMPLETIONS)/lio $(ZSH_COMPLETIONS)/_lio $(FISH_COMPLETIONS)/lio.fish \
	  $(patsubst lualib/%,share/lio/%,$(DEFINITIONS))
	@# These two folders belong to lio. They remain if they contain other files.
	cd '$(DESTDIR)$(PREFIX)/' && for folder in share/lio/meta share/lio; do \
	  if [ -d $$folder ] && [ -z "$$(ls -A $$folder)" ]; then rmdir $$folder; fi; done

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The release tarball is a folder of this name: the installed files below it, documents, and a script that installs.
RELEASE := lio-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)$(if $(filter 5.5,$(LUA_VERSION)),-lua5.5)

# The folder of the tarball.
DIST ?= build

dist: build module ## the release tarball: build/lio-VERSION-SYSTEM-MACHINE.tar.gz
	rm -rf '$(DIST)/$(RELEASE)'
	$(call install_files,$(DIST)/$(RELEASE))
	@# `-S` keeps the names of functions, for backtraces.
	strip -S '$(DIST)/$(RELEASE)/bin/lio' '$(DIST)/$(RELEASE)/$(MODULE_FOLDER)/lio.so'
	install -m 644 README.md CHANGELOG.md LICENSE packaging/lio.service '$(DIST)/$(RELEASE)/'
	install -m 755 packaging/install.sh '$(DIST)/$(RELEASE)/install.sh'
	tar -C '$(DIST)' $(if $(filter Linux,$(shell uname -s)),--owner=0 --group=0 --numeric-owner --sort=name) \
	  -czf '$(DIST)/$(RELEASE).tar.gz' '$(RELEASE)'
	rm -rf '$(DIST)/$(RELEASE)'
	@echo 'built $(DIST)/$(RELEASE).tar.gz'

# The maintainer of the package, a name with an address: make deb MAINTAINER='Name <address>'
MAINTAINER ?=

deb: build module ## the Debian package: target/debian/lio_VERSION-REVISION_ARCHITECTURE.deb; needs cargo-deb
ifneq ($(LUA_VERSION),5.4)
	@echo 'make deb: Debian has only Lua 5.4: leave out LUA=$(LUA)' >&2; exit 1
endif
	@$(CARGO) deb --version >/dev/null 2>&1 || { echo 'make deb: cargo-deb is missing: cargo install cargo-deb' >&2; exit 1; }
	@mkdir -p build/deb
	strip --strip-unneeded -o build/deb/lio.so build/lio.so
	$(CARGO) deb --no-build --strip $(if $(MAINTAINER),--maintainer '$(MAINTAINER)')

definitions: ## checks lualib/meta, the examples and the code of the guides with emmylua_check
	$(LUA54) tests/definitions.lua

clean: ## remove all built files
	$(CARGO) clean --target-dir '$(TARGET)'
	rm -rf build

help:
	@sed -n 's/^\([a-z-]*\):[^#]*## /make \1: /p' Makefile
