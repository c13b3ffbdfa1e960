//! Copies a rank's log to the terminal while the launcher waits.
//!
//! The rank writes straight to its file, so nothing is lost and nothing stalls if the terminal goes away.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);

/// Copies until it is dropped, then copies the rest.
#[derive(Debug)]
pub(crate) struct Mirror {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    /// Starts to copy what is appended to `path` from now on.
    pub(crate) fn start(path: PathBuf) -> Self {
        let offset = std::fs::metadata(&path).map_or(0, |file| file.len());
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut file = None;
            loop {
                let is_last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                if file.is_none() {
                    file = File::open(&path)
                        .ok()
                        .filter(|mut file| file.seek(SeekFrom::Start(offset)).is_ok());
                }
                if let Some(file) = &mut file {
                    let mut text = Vec::new();
                    if file.read_to_end(&mut text).is_err()
                        || std::io::stderr().write_all(&text).is_err()
                    {
                        return;
                    }
                }
                if is_last {
                    return;
                }
            }
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
