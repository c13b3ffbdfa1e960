//! Compiles the C++ shim against the libtorch that torch-sys found.

use std::{env, path::PathBuf};

fn main() {
    // torch-sys says `links = "tch"` and publishes its library folder to direct dependents.
    let lib = PathBuf::from(
        env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names its library folder"),
    );
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH_INCLUDE");
    let include = env::var_os("LIBTORCH_INCLUDE")
        .map(PathBuf::from)
        .or_else(|| lib.parent().map(PathBuf::from))
        .expect("the library folder has a parent")
        .join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .pic(true)
        .warnings(false)
        .opt_level(3)
        .flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        .flag(format!("-isystem{}", include.display()))
        .flag(format!(
            "-isystem{}",
            include.join("torch/csrc/api/include").display()
        ))
        .files([
            "cpp/autograd.cpp",
            "cpp/tensor.cpp",
            "cpp/fused.cpp",
            "cpp/kernels.cpp",
            "cpp/norm_kernels.cpp",
        ])
        .compile("trainer_torch_ext");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    // Tests of this crate run without the binary's rpath.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
}
