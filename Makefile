# The two commands of the README: `make demo` and `make test`. Both install what the machine lacks.
.PHONY: demo test setup

setup:
	@./scripts/setup

test: setup
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo test --locked

demo: setup
	@echo "demo: not ready"
