//! `trainer env` and `trainer version`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;

/// Prints the version.
pub(crate) fn show_version() -> Result<ExitCode> {
    writeln!(std::io::stdout(), "trainer {}", env!("CARGO_PKG_VERSION"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what a report of a fault should contain.
pub(crate) fn show_environment() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "trainer          {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "libtorch         {}", env!("TRAINER_LIBTORCH_VERSION"))?;
    writeln!(
        out,
        "system           {} {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )?;
    writeln!(out, "cores            {}", num_cores())?;
    writeln!(out, "torch threads    {}", tch::get_num_threads())?;
    writeln!(out, "interop threads  {}", tch::get_num_interop_threads())?;
    writeln!(
        out,
        "CUDA             {}",
        if tch::Cuda::is_available() {
            "available"
        } else {
            "not available"
        }
    )?;
    writeln!(out, "CUDA devices     {}", tch::Cuda::device_count())?;
    writeln!(
        out,
        "architectures    {}",
        trainer_models::known_architectures().join(", ")
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the cores that this process may use.
pub(crate) fn num_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
