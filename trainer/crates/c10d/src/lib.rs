//! libtorch's own distributed engine, c10d, behind safe functions: [`Store`]s where ranks meet, [`ProcessGroup`]s that
//! communicate, asynchronous [`Work`], and the [`DeviceMesh`]es that say which ranks form which group.
//!
//! A rank is a process or a thread: each has a group of its own over one store. Every collective is c10d's, over gloo on
//! the CPU or NCCL on GPUs (feature `nccl`); see [`ProcessGroup`] for what travels where. A small C++ shim turns every C++
//! exception into a [`C10dError`] with its kind. With `torch-ext` this is the only crate with `unsafe` code; it knows
//! nothing of models and strategies, and of configurations only the sizes of the meshes.
#![expect(unsafe_code, reason = "this crate is the boundary to C++")]

mod checked;
mod collective;
mod error;
mod ffi;
mod fit;
mod group;
mod logs;
pub mod mesh;
mod point_to_point;
mod spare;
mod store;
mod work;

pub use collective::ReduceOp;
pub use error::{C10dError, ErrorKind};
pub use group::{Backend, GlooOptions, ProcessGroup};
pub use logs::quiet_logs;
pub use mesh::{DeviceMesh, MeshError, MeshGroups, Meshes};
pub use store::Store;
pub use work::Work;
