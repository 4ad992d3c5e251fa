//! The Lua modules of the scheduler.
//!
//! | file | topic |
//! |---|---|
//! | `messages`, `time`, `event` | module `ltask`, in every service |
//! | `bootstrap`, `config` | module `ltask.bootstrap`, in the VM that starts the system |
//! | `exclusive` | module `ltask.exclusive` (G1) |
//! | `root` | module `ltask.root` |
//! | `core` | module `ltask.core`: functions for the Lua part of lio's service library |
//! | `library` | the native part of lio's service library: the table `ltask`, `print`, `require` |
//! | `start` | how a service starts |
//! | `calls` | functions that post messages and wait for responses |
//! | `dispatch` | the main loop |
//! | `wake`, `unused` | tasks that the main loop wakes or starts; how a service without tasks ends |
//! | `handlers`, `system` | the handlers of requests and system messages |
//! | `io` | the loop of a service, and I/O threads |
//! | `respond` | how requests end |
//! | `recover` | errors in the main loop |
//! | `callbacks` | Lua functions that are called in rare cases |
//! | `arguments` | how these files read arguments and return results |

mod arguments;
pub(crate) mod bootstrap;
mod callbacks;
mod calls;
mod config;
pub(crate) mod core;
mod dispatch;
mod event;
pub(crate) mod exclusive;
mod handlers;
mod io;
mod library;
mod messages;
mod recover;
mod respond;
pub(crate) mod root;
mod start;
mod system;
mod time;
mod unused;
mod wake;

pub(crate) use library::OPEN;
#[cfg(feature = "vendored")]
pub(crate) use library::is_service_function;

use crate::lua::{Function, FunctionTable, Stack};

/// Returns the function from `lists` whose name is at index 2.
fn find_function(stack: &Stack, lists: &[FunctionTable]) -> Option<Function> {
    let name = stack.string(2)?;
    let mut entries = lists.iter().copied().flatten();
    let found = entries.find(|(known, _)| known.to_bytes() == name);
    found.map(|(_, function)| *function)
}
