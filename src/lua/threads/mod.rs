//! Coroutines: their creation, resumption, waits and end. Only this folder has a `lua_State` of a coroutine.
//!
//! | file | topic |
//! |---|---|
//! | `places` | the coroutines of a VM, by numbers |
//! | `anchors` | the table that keeps them alive |
//! | `create` | creating that table, coroutines, and probes of collector cycles |
//! | `resume` | resuming a coroutine in the middle of a step |
//! | `values` | moving values to and from coroutines |
//! | `call` | calling a function on its own thread |
//! | `links` | which coroutines resume each other |
//! | `guards` | coroutines that stay alive only as long as a token is referenced |
//! | `status` | queries about a coroutine |
//! | `hook` | the debug hook of a new coroutine |

mod anchors;
mod call;
mod create;
mod guards;
mod hook;
mod links;
mod places;
mod resume;
mod status;
mod values;

pub(crate) use anchors::Coroutine;
pub(crate) use links::Obstacle;
pub(crate) use places::{Full, Identity, Threads};
pub(crate) use resume::{ResumeResult, Resumed};
pub(crate) use status::{NewThread, Status, ThreadTraceback};
