//! From settings to a listening board, and back down.
//!
//! The order matters: the data folder is locked before anything in it is opened, the port is
//! taken before a run is adopted. Going down, streams say goodbye, trainers go on.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::future::Future;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use board_store::{Store, StoreError};
use board_supervisor::{Settings, Supervisor, SupervisorError};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::config::ServerConfig;
use crate::state::AppState;
use crate::{app, demo};

/// A client that has not sent its headers by then is cut off.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a request's line and headers together.
const HEADER_LIMIT_BYTES: usize = 64 << 10;

/// How long open requests may go on once the board stops.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Why the board did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be made or written.
    #[error("the data folder `{}` is not writable", path.display())]
    DataDir {
        /// The folder, or what in it failed.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another board holds the data folder.
    #[error("another board uses the data folder `{}`{}", path.display(), describe(holder))]
    Locked {
        /// The folder.
        path: PathBuf,
        /// What the other board wrote into the lock file: process id and address.
        holder: String,
    },
    /// The port is taken.
    #[error("port {port} on {} is in use by another program", host)]
    PortInUse {
        /// The address asked for.
        host: std::net::IpAddr,
        /// The port asked for.
        port: u16,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runs of the last board cannot be taken up.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

impl StartError {
    /// Returns what the user can change.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DataDir { .. } => Some("choose another folder with `--data-dir DIR`".into()),
            Self::Locked { .. } => Some(
                "use that board, stop it, or choose another folder with `--data-dir DIR`".into(),
            ),
            Self::PortInUse { port, .. } => Some(format!(
                "choose another port, as in `board serve --port {}`",
                port.checked_add(1).unwrap_or(7860)
            )),
            Self::Listen { .. } => Some("choose another address with `--host` and `--port`".into()),
            Self::Store(error) => error.hint(),
            Self::Supervisor(error) => error.hint(),
        }
    }
}

fn describe(holder: &str) -> String {
    if holder.is_empty() {
        String::new()
    } else {
        format!(" ({holder})")
    }
}

/// A board that listens but does not yet answer.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: AppState,
    lock: File,
}

impl Server {
    /// Locks the data folder, takes the port and takes up what the last board left.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        make_folder(&config.data_dir)?;
        let mut lock = lock_folder(&config)?;
        let (listener, address) = listen(&config).await?;
        let holder = format!("process {}, http://{address}", std::process::id());
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(holder.as_bytes()));
        written.map_err(|source| StartError::DataDir {
            path: config.lock_file(),
            source,
        })?;
        let state = open(config).await?;
        Ok(Self {
            listener,
            address,
            state,
            lock,
        })
    }

    /// Returns the address for a browser.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the handles that the requests share.
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// Answers requests until `stop` ends, then lets go of everything but the trainers.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let app = app(self.state.clone());
        let open = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => serve_connection(stream, app.clone(), &open),
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(Duration::from_millis(200)).await; // out of file descriptors
                    }
                },
                () = &mut stop => break,
            }
        }
        tracing::info!("stopping; the trainers go on");
        drop(self.listener);
        self.state.shutdown.cancel();
        if tokio::time::timeout(CLOSING_TIME, open.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("some requests were cut off");
        }
        self.state.supervisor.shutdown().await;
        self.state.store.close().await;
        drop(self.lock);
    }
}

fn serve_connection(stream: TcpStream, app: axum::Router, open: &GracefulShutdown) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_LIMIT_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let watched = open.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a connection broke");
        }
    });
}

/// Prepares the data folder, opens the store and takes up the runs that the last board left.
pub async fn open(config: ServerConfig) -> Result<AppState, StartError> {
    for folder in [
        config.data_dir.clone(),
        config.runs_dir(),
        config.models_dir(),
        config.datasets_dir(),
    ] {
        make_folder(&folder)?;
    }
    if let Err(error) = demo::unpack(&config) {
        tracing::warn!(%error, "the demo could not be unpacked");
    }
    let store = Store::open(&config.database()).await?;
    let supervisor = Supervisor::start(store.clone(), supervision(&config)).await?;
    Ok(AppState::new(config, store, supervisor))
}

/// Returns what the supervisor is told.
fn supervision(config: &ServerConfig) -> Settings {
    let mut settings = Settings::new(config.runs_dir(), &config.trainer);
    settings.max_running = config.max_runs;
    settings.environment.clone_from(&config.environment);
    settings
}

fn make_folder(folder: &Path) -> Result<(), StartError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| StartError::DataDir {
            path: folder.into(),
            source,
        })
}

fn lock_folder(config: &ServerConfig) -> Result<File, StartError> {
    let path = config.lock_file();
    let failed = |source| StartError::DataDir {
        path: path.clone(),
        source,
    };
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            if file.read_to_string(&mut holder).is_err() {
                holder.clear();
            }
            Err(StartError::Locked {
                path: config.data_dir.clone(),
                holder,
            })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

async fn listen(config: &ServerConfig) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = SocketAddr::new(config.host, config.port);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortInUse {
            host: config.host,
            port: config.port,
        },
        _ => StartError::Listen { address, source },
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
