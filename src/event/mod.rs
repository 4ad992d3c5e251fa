//! Readiness of descriptors, kept level-triggered on top of mio's edges; timers, clocks, wakers and signals.
//!
//! - `selector.rs`: the poll and the table of registrations; `batch.rs`: waiting, and the queue of what is ready
//! - `interest.rs`: what can be asked for; `registration.rs`: one descriptor in one selector
//! - `source.rs`: a descriptor of ours, whose calls report to its registrations what they learnt
//! - `verify.rs`: the second look at what is believed ready
//! - `waker.rs`: wakers for other threads; `pause.rs`: the observer of a thread's waits
//! - `adopt.rs`: descriptors of raw numbers
//! - `signals.rs`: signals as readiness of a pipe
//! - `clock.rs`, `timers.rs`: the monotonic clock, and timers by due time
//!
//! How edges become levels. A registration remembers what the system last reported (`ready`). The calls of a
//! [`Source`] report `EWOULDBLOCK` and short reads, which prove that a condition is over; what was delivered and not
//! proven over is checked again before the next wait, all such sources by one poll(2), so an event is never spurious
//! and no `epoll_ctl` is spent. A foreign descriptor is re-armed (one `epoll_ctl`), and the system reports the
//! condition again when it persists. What is read-closed or in error stays ready after a short read.
//!
//! Nothing here knows Lua, sockets or streams.

pub(crate) mod adopt;
mod batch;
pub(crate) mod clock;
mod interest;
pub(crate) mod pause;
mod registration;
mod selector;
// Part of it is for the supervisor, which only the executable has.
#[cfg_attr(not(feature = "vendored"), allow(dead_code))]
pub(crate) mod signals;
mod source;
pub(crate) mod timers;
mod verify;
pub(crate) mod waker;

pub(crate) use interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
pub(crate) use registration::{Inbox, Registration};
pub(crate) use selector::Selector;
pub(crate) use source::{Source, Target};
pub(crate) use waker::Waker;
