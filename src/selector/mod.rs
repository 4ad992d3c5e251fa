//! Readiness of descriptors, kept level-triggered on top of mio's edges.
//!
//! - `core.rs`: the poll and the table of registrations; `batch.rs`: waiting, and the queue of what is ready
//! - `registration.rs`: one descriptor in one selector
//! - `watch.rs`: the side of a registration that a socket of ours holds
//! - `verify.rs`: the second look at what is believed ready
//! - `wake.rs`: wakers for other threads; `pause.rs`: who observes a thread's waits
//! - `signal.rs`: signals as readiness of a pipe
//! - `adopt.rs`: descriptors by their numbers; `descriptor.rs`: what counts as a descriptor among Lua values
//! - `bee.rs`: the methods of `bee.select` and `bee.epoll`
//! - `lua.rs`: `require "lio"`; `interest.rs`, `iterator.rs`, `waker.rs`: what its objects can do
//!
//! How edges become levels. A registration remembers what the system last reported (`ready`). Our own
//! sockets tell, through [`Watch`], of `EWOULDBLOCK` and of short reads, which prove that a condition is
//! over; what was delivered and not proven over is looked at again before the next wait, all such
//! sockets by one poll(2), so an event is never spurious and no `epoll_ctl` is spent. A foreign
//! descriptor is re-armed (one `epoll_ctl`), and the system reports the condition again when it persists.
//! What is read-closed or in error stays ready after a short read.

pub(crate) mod adopt;
mod batch;
mod bee;
mod core;
pub(crate) mod descriptor;
mod interest;
pub(crate) mod iterator;
pub(crate) mod lua;
pub(crate) mod number;
pub(crate) mod pause;
mod registration;
pub(crate) mod signal;
mod verify;
mod wake;
mod waker;
mod watch;

pub(crate) use self::core::{Core, Kind};
pub(crate) use interest::{attach, attach_later, replace_udata};
pub(crate) use registration::{CLOSED, Mode, READ, Registration, WRITE};
pub(crate) use wake::Bell;
pub(crate) use waker::waker_argument;
pub(crate) use watch::Watch;
