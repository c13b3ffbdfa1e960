//! Tells the linker where libtorch lies, for the tests of this crate.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // torch-sys hands its folder to direct dependents only, which is why the manifest names it.
    if let Ok(folder) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        let folder =
            std::fs::canonicalize(&folder).map_or(folder, |path| path.display().to_string());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
