//! Key-value stores where ranks find each other.

use std::{
    ffi::c_int,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    os::fd::IntoRawFd,
    ptr::{self, NonNull},
    time::Duration,
};

use crate::{C10dError, ErrorKind, ffi};

/// A handle to a store. Dropping the handle that serves a TCP store ends the store for everyone.
///
/// Blocking calls on one TCP handle wait for each other, so each rank has its own: [`Store::connect`] in another process,
/// [`Store::try_clone`] in another thread.
#[derive(Debug)]
pub struct Store {
    raw: NonNull<ffi::RawStore>,
    port: u16,
}

// SAFETY: the shim's handle is a reference-counted pointer with atomic counts, and may be freed in any thread.
unsafe impl Send for Store {}
// SAFETY: c10d's TCPStore, HashStore and PrefixStore guard every operation with a lock of their own.
unsafe impl Sync for Store {}

impl Store {
    /// Serves a TCP store on `host` and `port` (0 picks a free one, see [`Store::port`]) and joins it. With `wait` it
    /// returns once `world_size` ranks have joined, or fails after `timeout`, which every later call obeys too.
    ///
    /// On a loopback address only this machine can join; else the store listens on every interface.
    pub fn serve(
        host: &str,
        port: u16,
        world_size: usize,
        wait: bool,
        timeout: Duration,
    ) -> Result<Self, C10dError> {
        const OPERATION: &str = "store_serve";
        let listener = bind(host, port).map_err(|error| {
            let kind = if error.kind() == std::io::ErrorKind::InvalidInput {
                ErrorKind::Other
            } else {
                ErrorKind::Network
            };
            C10dError::new(OPERATION, kind, format!("`{host}:{port}`: {error}"))
        })?;
        let port = listener.local_addr().map_or(port, |address| address.port());
        // The server takes the socket over and closes it.
        let listener = listener.into_raw_fd();
        Self::tcp(
            OPERATION,
            host,
            port,
            Some(listener),
            world_size,
            wait,
            timeout,
        )
    }

    /// Joins the TCP store that another rank serves, or fails after `timeout`, which every later call obeys too. A
    /// refused connection is tried again until then.
    pub fn connect(
        host: &str,
        port: u16,
        world_size: usize,
        timeout: Duration,
    ) -> Result<Self, C10dError> {
        Self::tcp("store_connect", host, port, None, world_size, true, timeout)
    }

    fn tcp(
        operation: &'static str,
        host: &str,
        port: u16,
        listener: Option<c_int>,
        world_size: usize,
        wait: bool,
        timeout: Duration,
    ) -> Result<Self, C10dError> {
        let name = ffi::text(operation, host)?;
        let world_size = ffi::int(operation, world_size)?;
        let mut port_out = port;
        let raw = ffi::make(operation, |out, error| {
            // SAFETY: `name` lives over the call; the shim writes `out`, `port_out` and `error` only.
            unsafe {
                ffi::c10d_store_tcp(
                    name.as_ptr(),
                    port,
                    c_int::from(listener.is_some()),
                    listener.unwrap_or(-1),
                    world_size,
                    c_int::from(wait),
                    ffi::milliseconds(timeout),
                    out,
                    &raw mut port_out,
                    error,
                )
            }
        })?;
        Ok(Self {
            raw,
            port: port_out,
        })
    }

    /// Makes a store inside this process, for ranks that are threads; each takes a [`Store::try_clone`].
    pub fn in_process(timeout: Duration) -> Result<Self, C10dError> {
        let raw = ffi::make("store_in_process", |out, error| {
            // SAFETY: the shim writes `out` and `error` only.
            unsafe { ffi::c10d_store_hash(ffi::milliseconds(timeout), out, error) }
        })?;
        Ok(Self { raw, port: 0 })
    }

    /// Returns a view of this store in which every key begins with `prefix`, so that groups do not meet in one key.
    pub fn prefixed(&self, prefix: &str) -> Result<Self, C10dError> {
        let prefix = ffi::text("store_prefixed", prefix)?;
        let raw = ffi::make("store_prefixed", |out, error| {
            // SAFETY: `self` and `prefix` live over the call; the view shares ownership of the store.
            unsafe { ffi::c10d_store_prefix(self.raw.as_ptr(), prefix.as_ptr(), out, error) }
        })?;
        Ok(Self {
            raw,
            port: self.port,
        })
    }

    /// Returns another handle to the same store, with a connection of its own where it has one.
    pub fn try_clone(&self) -> Result<Self, C10dError> {
        let raw = ffi::make("store_clone", |out, error| {
            // SAFETY: `self` lives over the call; the shim writes `out` and `error` only.
            unsafe { ffi::c10d_store_clone(self.raw.as_ptr(), out, error) }
        })?;
        Ok(Self {
            raw,
            port: self.port,
        })
    }

    /// Returns the port of a TCP store, 0 of another.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the value of a key.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), C10dError> {
        let key = ffi::text("store_set", key)?;
        ffi::check("store_set", |error| {
            // SAFETY: key and value live over the call and are copied.
            unsafe {
                ffi::c10d_store_set(
                    self.raw.as_ptr(),
                    key.as_ptr(),
                    value.as_ptr(),
                    value.len(),
                    error,
                )
            }
        })
    }

    /// Waits until the key is there and returns its value.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, C10dError> {
        let key = ffi::text("store_get", key)?;
        let (mut value, mut length) = (ptr::null_mut::<u8>(), 0);
        ffi::check("store_get", |error| {
            // SAFETY: the shim writes `value`, `length` and `error` only.
            unsafe {
                ffi::c10d_store_get(
                    self.raw.as_ptr(),
                    key.as_ptr(),
                    &raw mut value,
                    &raw mut length,
                    error,
                )
            }
        })?;
        // SAFETY: on success `value` is a block from malloc of at least `length` bytes, which nobody else holds.
        unsafe {
            let bytes = std::slice::from_raw_parts(value, length).to_vec();
            ffi::c10d_free(value.cast());
            Ok(bytes)
        }
    }

    /// Adds to a counter, which begins at 0, and returns its new value.
    pub fn add(&self, key: &str, amount: i64) -> Result<i64, C10dError> {
        let key = ffi::text("store_add", key)?;
        let mut sum = 0;
        ffi::check("store_add", |error| {
            // SAFETY: the shim writes `sum` and `error` only.
            unsafe {
                ffi::c10d_store_add(self.raw.as_ptr(), key.as_ptr(), amount, &raw mut sum, error)
            }
        })?;
        Ok(sum)
    }

    /// Whether the key is there, without waiting.
    pub fn contains(&self, key: &str) -> Result<bool, C10dError> {
        let key = ffi::text("store_contains", key)?;
        let mut found = 0;
        ffi::check("store_contains", |error| {
            // SAFETY: the shim writes `found` and `error` only.
            unsafe { ffi::c10d_store_check(self.raw.as_ptr(), key.as_ptr(), &raw mut found, error) }
        })?;
        Ok(found != 0)
    }

    /// Changes how long a call waits. A prefixed store changes the store below.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), C10dError> {
        ffi::check("store_set_timeout", |error| {
            // SAFETY: the shim writes `error` only.
            unsafe {
                ffi::c10d_store_set_timeout(self.raw.as_ptr(), ffi::milliseconds(timeout), error)
            }
        })
    }

    pub(crate) fn raw(&self) -> *mut ffi::RawStore {
        self.raw.as_ptr()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the handle came from the shim and is freed once; groups share ownership of the store itself.
        unsafe { ffi::c10d_store_free(self.raw.as_ptr()) }
    }
}

/// Binds the server's socket: to the loopback address if that is what `host` means, else to every address.
fn bind(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let meant = (host, port).to_socket_addrs()?;
    let loopback = meant.into_iter().find(|address| address.ip().is_loopback());
    let every = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    TcpListener::bind(loopback.unwrap_or(every))
}
