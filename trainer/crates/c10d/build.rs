//! Compiles the C++ shim against the libtorch that torch-sys found.

use std::{env, path::PathBuf};

fn main() {
    // torch-sys says `links = "tch"` and publishes its library folder to direct dependents.
    let lib = PathBuf::from(
        env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names its library folder"),
    );
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo:rerun-if-env-changed=TRAINER_CUDA_INCLUDE");
    let include = env::var_os("LIBTORCH_INCLUDE")
        .map(PathBuf::from)
        .or_else(|| lib.parent().map(PathBuf::from))
        .expect("the library folder has a parent")
        .join("include");
    let nccl = env::var_os("CARGO_FEATURE_NCCL").is_some();
    let mut shim = cc::Build::new();
    shim.cpp(true)
        .std("c++20")
        .pic(true)
        .warnings(false)
        .opt_level(2)
        .define("USE_C10D_GLOO", None)
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        .include("cpp/gloo")
        .flag(format!("-isystem{}", include.display()))
        .flag(format!(
            "-isystem{}",
            include.join("torch/csrc/api/include").display()
        ));
    if nccl {
        shim.define("USE_C10D_NCCL", None);
        for folder in env::split_paths(&env::var_os("TRAINER_CUDA_INCLUDE").unwrap_or_default()) {
            shim.flag(format!("-isystem{}", folder.display()));
        }
    }
    shim.file("cpp/c10d.cpp").compile("trainer_c10d");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    // Tests of this crate run without the binary's rpath.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
    if nccl {
        // libtorch_cuda registers its kernels when loaded; no symbol of it need be named for that to matter.
        println!("cargo:rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,-lc10_cuda,--as-needed");
    }
}
