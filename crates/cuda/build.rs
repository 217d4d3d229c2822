//! With feature `cuda`: compiles the CUDA kernels with nvcc, to machine code and to PTX in one file. Without it, does
//! nothing.

// Printing is how a build script speaks to cargo.
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

const KERNELS: &str = "src";

/// The Jetson Orin's. Its machine code needs no compiling at the first start; its PTX also runs on every later architecture.
const DEFAULT_COMPUTE_CAPABILITY: &str = "87";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={KERNELS}");
    // The variables that candle's own build looks at.
    for variable in ["NVCC", "NVCC_CCBIN", "CUDA_HOME", "CUDA_COMPUTE_CAP"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    let capability = env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| DEFAULT_COMPUTE_CAPABILITY.into());
    let target = PathBuf::from(env::var("OUT_DIR")?).join("module.fatbin");
    let mut command = Command::new(nvcc());
    let code = format!("-gencode=arch=compute_{capability},code=[sm_{capability},compute_{capability}]");
    command.args(["-fatbin", "-O3", "-std=c++17"]).arg(code);
    if let Some(compiler) = env::var_os("NVCC_CCBIN") {
        command.arg("-ccbin").arg(compiler);
    }
    command.arg(Path::new(KERNELS).join("module.cu")).arg("-o").arg(target);
    let status = command.status().map_err(|error| {
        format!(
            "feature `cuda` needs nvcc ({error}): install the CUDA toolkit, or point NVCC or CUDA_HOME at it"
        )
    })?;
    if !status.success() {
        return Err(format!("nvcc did not compile {KERNELS}/module.cu").into());
    }
    Ok(())
}

fn nvcc() -> PathBuf {
    let in_home = |home| Path::new(&home).join("bin/nvcc");
    env::var_os("NVCC")
        .map(PathBuf::from)
        .or_else(|| env::var_os("CUDA_HOME").map(in_home))
        .unwrap_or("nvcc".into())
}
