//! Tells the linker where libtorch lies, so that the program finds it without an environment variable.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // torch-sys hands its folder to direct dependants only, which is why the manifest names it.
    if let Ok(folder) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        let folder =
            std::fs::canonicalize(&folder).map_or(folder, |path| path.display().to_string());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!(
        "cargo:rustc-env=TRAINER_LIBTORCH_VERSION={}",
        libtorch_version()
    );
}

/// Returns the version that libtorch's folder names.
fn libtorch_version() -> String {
    let library = std::env::var("DEP_TCH_LIBTORCH_LIB").unwrap_or_default();
    let version = std::path::Path::new(&library)
        .parent()
        .map(|folder| folder.join("build-version"));
    let text = version.and_then(|path| std::fs::read_to_string(path).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}
