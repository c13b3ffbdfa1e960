//! What the server was told at its start, parsed once and never wrong afterwards.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

/// The settings of a running board.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address to listen on; a loopback address until there is a login.
    pub host: IpAddr,
    /// Port to listen on; 0 lets the system choose one.
    pub port: u16,
    /// Folder that holds the database, the runs, the models and the datasets.
    pub data_dir: PathBuf,
    /// Runs that may train at the same time; further ones wait in the queue.
    pub max_runs: usize,
    /// The `trainer` program.
    pub trainer: PathBuf,
    /// The environment that the supervisor chooses from for a trainer.
    pub environment: Vec<(OsString, OsString)>,
    /// Further folders whose model folders are offered.
    pub model_roots: Vec<PathBuf>,
    /// Whether to open a browser once the board listens.
    pub open_browser: bool,
}

impl ServerConfig {
    /// Returns the settings of a board on loopback with everything else at its default.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 7860,
            data_dir: data_dir.into(),
            max_runs: 1,
            trainer: PathBuf::from("trainer"),
            environment: Vec::new(),
            model_roots: Vec::new(),
            open_browser: false,
        }
    }

    /// Returns the folder of the run directories.
    pub fn runs_dir(&self) -> PathBuf {
        self.data_dir.join("runs")
    }

    /// Returns the folder of the models that the board offers.
    pub fn models_dir(&self) -> PathBuf {
        self.data_dir.join("models")
    }

    /// Returns the folder that holds `dataset_info.json` and the data files.
    pub fn datasets_dir(&self) -> PathBuf {
        self.data_dir.join("datasets")
    }

    /// Returns the file of the database.
    pub fn database(&self) -> PathBuf {
        self.data_dir.join("board.sqlite")
    }

    /// Returns the file whose lock keeps a second board off the data folder.
    pub fn lock_file(&self) -> PathBuf {
        self.data_dir.join("board.lock")
    }

    /// Returns a message with the paths in it relative to the data folder.
    pub fn shorten(&self, message: &str) -> String {
        message.replace(&format!("{}/", self.data_dir.display()), "")
    }
}
