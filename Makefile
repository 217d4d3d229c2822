# The two commands of the README: `make demo` and `make test`. Both install what the machine lacks.
.PHONY: demo test setup check-cuda

# Computes one golden window of the paper's head-camera setting and explains the result.
demo: setup
	cargo build --release --locked
	@echo
	@target/release/oupn-edge inspect window \
	  --tensors tests/golden/saycam-reference-full.safetensors --out target/demo-window.safetensors

test: setup
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo test --locked

setup:
	@./scripts/setup

# Compiles the CUDA kernels for Jetson Orin and checks feature `cuda`. Not a part of `make test`: it downloads half a
# gigabyte and takes ten CPU minutes the first time.
check-cuda: setup
	./scripts/check-cuda
