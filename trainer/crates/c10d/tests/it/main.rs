//! Ranks as threads of one process, each with its own gloo group over one store.

mod collectives;
mod failures;
mod meshes;
mod ranks;
mod stores;
