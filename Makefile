# SPDX-License-Identifier: Apache-2.0
# The short way in. meson and ninja do the work; see CONTRIBUTING.md for the long way.
.DEFAULT_GOAL := build
.PHONY: build run test judges bench install clean

# Where `make install` puts things; DESTDIR is honoured too.
PREFIX ?= /usr/local

build: ## installs what is missing to build, and builds: the command is build/farlane
	@scripts/setup.sh build
	@scripts/build.sh

run: build ## the main job on this machine, and its result
	@scripts/run.sh

test: ## installs what is missing, builds in every way, and runs every test
	@scripts/setup.sh build test
	@scripts/test.sh

judges: build ## programs that are not ours (Linux kernels in QEMU, nvme-cli) against ours
	@scripts/setup.sh test judges
	@scripts/test.sh judges

bench: build ## measures, as ratios within one run; BENCH="--only randread" and more (bench/run.py --help)
	@bench/run.py $(BENCH)

install: build
	@meson configure build --prefix "$$(realpath -m -- '$(PREFIX)')"
	@meson install -C build

clean:
	rm -rf build build-*
