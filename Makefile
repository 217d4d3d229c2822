# The two commands of the README: `make demo` and `make test`. Both install what the machine lacks.
.PHONY: demo test test-data test-browser setup setup-test check-cuda test-cuda jetson jetson-cuda test-arm64 test-vm test-package test-service

# An hour of the built-in world, at full speed, with a small encoder that starts from random weights.
demo: setup
	cargo build --release --locked
	@rm -rf target/demo
	@target/release/oupn-edge --camera rooms --realtime off --minutes 60 --config examples/rooms.toml --calibrate on \
	  --data target/demo --reserve 0

test: setup-test
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo clippy --locked -p oupn-edge --no-default-features --features nokhwa -- -D warnings
	cargo test --locked
	./scripts/check-unit
	./scripts/test-cuda

# The tests that `make test` counts as ignored: they need public data in OUPN_DATA and weights in OUPN_WEIGHTS. The end of
# docs/DATA.md says which.
test-data: setup
	@: "$${OUPN_DATA:?set it to the folder of the public data, see docs/DATA.md}"
	@: "$${OUPN_WEIGHTS:?set it to the folder of the public weights, see docs/DATA.md}"
	cargo test --locked --test learning -- --ignored --nocapture

# The live page and the report in a real browser (Debian's chromium); renews their pictures in docs/images. Not a part of
# `make test`: it installs a browser.
test-browser: setup
	cargo build --release --locked
	./scripts/test-browser

setup:
	@./scripts/setup

# The tests make videos and read them again.
setup-test:
	@./scripts/setup ffmpeg

# Compiles the CUDA kernels for Jetson Orin and checks feature `cuda`. Not a part of `make test`: it downloads half a
# gigabyte and takes ten CPU minutes the first time.
check-cuda: setup
	./scripts/check-cuda

# The program with feature `cuda` on a stand-in driver: no GPU, no CUDA. The last part of `make test`, by itself.
test-cuda: setup
	./scripts/test-cuda

# The Jetson: docs/JETSON.md. None of these is a part of `make test`: a cross build takes ten CPU minutes.
jetson: setup
	./scripts/jetson

# On the board itself, where JetPack's CUDA toolkit is.
jetson-cuda: setup
	./scripts/jetson-cuda

# The fast kernels as aarch64 code, against the same oracles and goldens as on this machine.
test-arm64: setup
	./scripts/jetson test

# The aarch64 binary on an emulated machine with a virtual camera.
test-vm: setup
	./scripts/test-vm

# The package, installed, upgraded and purged in an emulated system.
test-package: setup
	./scripts/test-package

# The service under a real systemd: late disk, read-only root, broken update, missing camera. Needs root.
test-service: setup
	./scripts/test-service
