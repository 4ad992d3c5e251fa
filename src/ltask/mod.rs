//! The scheduler: services, each a Lua VM with a mailbox, on worker threads.
//!
//! (design comment below is completed when the parts fit)

pub(crate) mod config;
pub(crate) mod crash;
pub(crate) mod event;
pub(crate) mod fast;
pub(crate) mod life;
pub(crate) mod log;
pub(crate) mod lua;
pub(crate) mod mailbox;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod pack;
pub(crate) mod pending;
pub(crate) mod preinit;
pub(crate) mod ready;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod sleep;
pub(crate) mod slots;
mod sync;
pub(crate) mod system;
pub(crate) mod timekeeper;
pub(crate) mod timers;
pub(crate) mod watch;
pub(crate) mod worker;
