//! Readiness of descriptors, kept level-triggered on top of mio's edges.
//!
//! - `core.rs`: the poll, the table of registrations, the queue of what is ready
//! - `registration.rs`: one descriptor in one selector
//! - `watch.rs`: the side of a registration that a socket of ours holds
//! - `wake.rs`: wakers for other threads
//! - `signal.rs`: signals as readiness of a pipe
//! - `descriptor.rs`: what counts as a descriptor among Lua values
//! - `lua.rs`: `require "lio"`
//!
//! How edges become levels. A registration remembers what the system last reported (`ready`). It is
//! delivered again at each wait until something proves that the condition is over. For our own sockets
//! the proof is their own `EWOULDBLOCK` or short read, told through [`Watch`], so no system call is
//! spent; if a handler did not touch the socket at all, or the descriptor is foreign, the registration
//! is re-armed (one `epoll_ctl`), and the system reports the condition again when it persists.
//! What is read-closed or in error stays ready after a short read.

mod core;
pub(crate) mod descriptor;
pub(crate) mod lua;
mod registration;
pub(crate) mod signal;
mod wake;
mod watch;

pub(crate) use self::core::{Core, Kind};
pub(crate) use registration::{CLOSED, Mode, READ, Registration, WRITE};
pub(crate) use watch::Watch;
