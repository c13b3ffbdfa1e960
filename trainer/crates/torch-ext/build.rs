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
    let mut shim = build();
    shim.flag("-D_GLIBCXX_USE_CXX11_ABI=1")
        .flag(format!("-isystem{}", include.display()))
        .flag(format!(
            "-isystem{}",
            include.join("torch/csrc/api/include").display()
        ))
        .files(["cpp/autograd.cpp", "cpp/tensor.cpp", "cpp/fused.cpp"])
        .compile("trainer_torch_ext");
    compile_kernels("base", &[]);
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        compile_kernels("v3", &["-march=x86-64-v3"]);
        compile_kernels("v4", &["-march=x86-64-v4", "-mprefer-vector-width=512"]);
    }
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    // Tests of this crate run without the binary's rpath.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
}

/// Compiles the kernels for one CPU generation; which one runs is decided at run time.
fn compile_kernels(variant: &str, flags: &[&str]) {
    let mut kernels = build();
    for flag in flags {
        kernels.flag(flag);
    }
    kernels
        .define("VARIANT", variant)
        .flag("-ffp-contract=fast")
        .flag("-fno-math-errno")
        .flag("-fno-trapping-math")
        .flag_if_supported("-Wno-psabi")
        .file("cpp/kernels.cpp")
        .compile(&format!("trainer_torch_ext_{variant}"));
}

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    // Always optimized: a debug build of the kernels would be of no use to anyone.
    build
        .cpp(true)
        .std("c++20")
        .pic(true)
        .warnings(false)
        .opt_level(3);
    build
}
