//! Coroutines: how they are created, resumed, suspended and released. Only this folder stores the `lua_State`s of
//! coroutines, except for the main function's.
//!
//! | file | topic |
//! |---|---|
//! | `places` | the coroutines of a VM, by place number |
//! | `anchors` | the table that keeps coroutines alive |
//! | `create` | creating anchors, coroutines, and probes for collector cycles |
//! | `resume` | resuming a coroutine in the middle of a step |
//! | `values` | moving values to and from coroutines |
//! | `call` | calling a function on a separate Lua thread |
//! | `links` | the chain of coroutines that programs have resumed |
//! | `guards` | coroutines that stay alive only as long as a token is referenced |
//! | `status` | queries about a coroutine |

mod anchors;
mod call;
mod create;
mod guards;
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
