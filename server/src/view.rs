//! What every page shares: its chrome (language, theme, navigation, gauges) and how values are written.

pub mod chrome;
pub mod curve;
pub mod figure;
pub mod icon;
pub mod prose;

pub use chrome::{Chrome, DeviceGauge, LATER_PAGES, NavItem, RunLink, Section, Theme};
pub use icon::{Icon, icon};
pub use prose::{Prose, prose};
