//! Readiness of descriptors, level-triggered on top of mio's edges; timers, clocks, wakers, signals, and work on
//! other threads.
//!
//! | file | topic |
//! |---|---|
//! | `selector` | the poll and the table of registrations |
//! | `wait` | waiting, and the order in which events are delivered |
//! | `interest` | events and modes that can be requested |
//! | `registration` | one descriptor in one selector |
//! | `source` | a descriptor owned by lio, whose calls update the readiness of its registrations |
//! | `readiness_check` | the check of remembered readiness with poll(2) |
//! | [`waker`] | wakers for other threads |
//! | [`background`] | work on other threads |
//! | `fuzz`, `fuzz_timers` | the target of a fuzzer |
//! | [`pause`] | the observer of a thread's waits |
//! | [`adopt`] | descriptors given as raw numbers |
//! | [`signals`] | signals, which make a pipe readable |
//! | [`clock`], [`timers`] | the monotonic clock; timers ordered by due time |
//!
//! How edges become levels: a registration records the readiness that the system last reported (`ready`). The calls of
//! a [`Source`] report `EWOULDBLOCK` and short reads, which prove that a condition has ended. Other conditions that
//! were delivered are checked again before the next wait, with one poll(2) for all these sources, so an event is never
//! spurious and no `epoll_ctl` is needed. A foreign descriptor is re-armed (one `epoll_ctl`), and the system reports
//! the condition again if it persists. After a short read, a descriptor that is read-closed or has an error stays
//! ready.
//!
//! This folder does not depend on Lua, or on the folders `socket` and `stream`.

pub(crate) mod adopt;
pub(crate) mod background;
pub(crate) mod clock;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz_timers;
mod interest;
pub(crate) mod pause;
mod readiness_check;
mod registration;
mod selector;
// A part of this module is used only by the supervisor, which only the executable contains.
#[cfg_attr(not(feature = "vendored"), allow(dead_code))]
pub(crate) mod signals;
mod source;
pub(crate) mod timers;
mod wait;
pub(crate) mod waker;

pub(crate) use interest::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, WRITE};
pub(crate) use registration::{Inbox, Registration};
pub(crate) use selector::Selector;
pub(crate) use source::{Source, Target};
pub(crate) use waker::Waker;
