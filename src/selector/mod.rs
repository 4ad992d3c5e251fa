//! Selectors as Lua sees them: raw functions on `src/event`.
//!
//! - `signal.rs`: signals as readiness of a pipe
//! - `descriptor.rs`: what counts as a descriptor among Lua values
//! - `bee.rs`: the methods of `bee.select` and `bee.epoll`
//! - `lua.rs`: `require "lio"`; `interest.rs`, `iterator.rs`, `waker.rs`: what its objects can do

mod bee;
pub(crate) mod descriptor;
mod interest;
pub(crate) mod iterator;
pub(crate) mod lua;
pub(crate) mod signal;
mod waker;

pub(crate) use interest::{attach, attach_later, replace_udata};
pub(crate) use waker::waker_argument;
