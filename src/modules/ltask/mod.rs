//! The scheduler as Lua sees it.
//!
//! | file | topic |
//! |---|---|
//! | `messages`, `time`, `event` | module `ltask`, inside a service |
//! | `bootstrap`, `config` | module `ltask.bootstrap`, in the VM that starts the system |
//! | `exclusive` | module `ltask.exclusive` (G1) |
//! | `root` | module `ltask.root` |
//! | `calls` | of our service library: what posts and waits |
//! | `dispatch` | its main loop |
//! | `handlers`, `system` | what it calls |
//! | `recover` | errors in it |
//! | `answers` | how requests end |
//! | `start` | a service's start |
//! | `service` | the rest that each service has |
//! | `core` | module `ltask.core`: what its Lua part needs |
//! | `hooks` | what it does in rare cases, which is Lua code |
//! | `arguments` | what all of these read and give |

mod answers;
mod arguments;
pub(crate) mod bootstrap;
mod calls;
mod config;
pub(crate) mod core;
mod dispatch;
mod event;
pub(crate) mod exclusive;
mod handlers;
mod hooks;
mod messages;
mod recover;
pub(crate) mod root;
mod service;
mod start;
mod system;
mod time;

pub(crate) use service::OPEN;

use crate::lua::{Function, FunctionTable, Stack};

/// The function of these lists whose name is at 2.
fn find(stack: &Stack, lists: &[FunctionTable]) -> Option<Function> {
    let name = stack.string(2)?;
    let mut entries = lists.iter().copied().flatten();
    let found = entries.find(|(known, _)| known.to_bytes() == name);
    found.map(|(_, function)| *function)
}
