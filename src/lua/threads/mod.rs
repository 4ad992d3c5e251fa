//! Coroutines: made, resumed, waited in, closed. Nobody else has a `lua_State`.

mod anchors;
mod call;
mod guards;
mod hook;
mod links;
mod make;
mod places;
mod resume;
mod status;
mod values;

pub(crate) use anchors::Coroutine;
pub(crate) use links::Obstacle;
pub(crate) use places::{Full, Identity, Threads};
pub(crate) use resume::{Back, Resumed};
pub(crate) use status::{NewThread, Status, ThreadTraceback};
