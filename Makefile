# The two commands of the README. Each sets up what the machine lacks first.
#   make demo      build cupel and let it improve a kernel on the emulator
#   make test      build and run all tests (with CI=true also formatting, lint and short sanitizer runs)
#   make nightly   all that is too slow for CI: all files linted, all sanitizers, long fuzzing, mutants, the wheel
.PHONY: all build demo test nightly lint setup wheel clean

all: build

setup:
	@tools/setup build

build: setup
	@cmake --preset release >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
	@rm -f build-configure.log
	@cmake --build --preset release

demo: build
	@tools/setup torch
	build/cupel optimize mnist_linear_relu --device emu --candidates 20

test:
	@tools/run_tests

nightly:
	@tools/nightly

lint:
	@tools/lint

wheel:
	@tools/wheel

clean:
	rm -rf build build-* dist
