//! The Lua core: the one place that talks to Lua, and what the rest of the crate sees of it is safe.
//!
//! A function that Lua calls is `fn(&mut Call) -> Result<R, Fault>`. It runs as a *step*: it reads its arguments,
//! works in Rust, and says by its result what Lua is to get, or what is to be done next (a call, a wait) and which
//! step follows. The core does that when the step is over and its locals are dropped. From this come the rules that
//! hold everywhere else without a line of `unsafe`:
//!
//! - Nothing of Lua's runs during a step: no finalizer, no metamethod, no other call on the same object. So an object's
//!   value may be borrowed mutably. What takes memory of Lua's in the middle of a step keeps the collector and hooks
//!   quiet, see `protected`.
//! - A raise (`longjmp`) skips no destructor, since no frame of the step is left. What Lua is to get waits where a
//!   memory error cannot leak it, see `store`.
//! - A panic in a step becomes the Lua error `internal error: …`.
//!
//! | file | topic |
//! |---|---|
//! | `function` | functions as Lua gets them |
//! | `step` | steps: how Lua calls them |
//! | `flow` | what follows a step |
//! | `call` | a call, and the objects among its values |
//! | `stack` | its values |
//! | `state` | what stacks can do without code, memory, raises |
//! | `pusher` | what can be done when a step is over |
//! | `returns` | values that a step gives back |
//! | `new` | objects that it gives, and bytes that an object gives |
//! | `store` | what the core keeps for a VM |
//! | `registry` | where a VM that is not ours has that |
//! | `failure` | failures that are returned |
//! | `fault` | errors that a step raises |
//! | `build` | tables, modules, functions with upvalues |
//! | `bound` | tables of functions with an upvalue |
//! | `standard_file` | files of the standard library |
//! | `values` | values on the stack, and in tables |
//! | `walk` | what is in tables, to any depth |
//! | `events` | values that a decoder gives |
//! | `kept` | values that a VM keeps; code in Lua |
//! | `protected` | what takes memory in the middle of a step |
//! | `scratch` | bytes of the thread, on their way to Lua |
//! | `block` | where Rust values lie that Lua holds |
//! | `object` | how they are made |
//! | `fields` | values of Lua that those keep |
//! | `coroutine` | the coroutine that runs, and others |
//! | `library` | the modules that are built in, and entry points |
//! | `vm` | VMs of our own, with their data and main function |
//! | `home` | what those have beside Lua's own, and how it is found |
//! | `chunk` | Lua code |
//! | `interrupt` | what another thread has a VM do |
//! | `traceback` | where a coroutine is |
//! | `warning` | warnings, which a program's VM writes |
//! | `threads` | coroutines: `places`, `anchors` that keep them alive, `resume`, `links`, `values`, `call` |
//! | `text` | values as text |
//! | `frames` | functions that are active on them |

mod block;
mod bound;
mod build;
mod call;
mod chunk;
mod coroutine;
mod events;
mod failure;
mod fault;
mod fields;
mod flow;
mod frames;
mod function;
pub(crate) mod home;
pub(crate) mod interrupt;
mod kept;
pub(crate) mod library;
mod new;
pub(crate) mod object;
#[cfg(feature = "panics")]
pub(crate) mod panics;
mod protected;
mod pusher;
mod registry;
mod returns;
mod scratch;
mod stack;
mod standard_file;
mod state;
mod step;
mod store;
#[cfg(all(test, feature = "vendored"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod traceback;
mod values;
pub(crate) mod vm;
#[cfg(test)]
mod vm_tests;
mod walk;
#[cfg(feature = "vendored")]
mod warning;

pub(crate) use block::identity_of;
pub(crate) use bound::{Entry, Functions, Lazy};
pub(crate) use build::{Closure, List, Metatable, Methods, Module, ModuleWith, Record, Value};
pub(crate) use call::Call;
pub(crate) use chunk::Chunk;
pub(crate) use coroutine::Running;
pub(crate) use events::{Decoded, DecodedLate, Encoded, Event, Events, Table};
pub(crate) use failure::Failure;
pub(crate) use fault::{Fault, failed};
pub(crate) use fields::{Field, Holder, Noted};
pub(crate) use flow::{Either, Flow, Maybe, Next, Outcome, Pushing, Returns, Then, results};
pub(crate) use frames::Frame;
pub use function::Function;
pub(crate) use function::{FunctionTable, functions, last_name};
pub(crate) use kept::{Code, Keep, Kept};
pub(crate) use new::{Lender, Lent, Made, MadeBy, Maker, New, NewWith, Part, Source, Stored};
pub(crate) use object::Object;
pub(crate) use pusher::Pusher;
pub(crate) use returns::{Argument, Extended, Many, Nil, Pushed};
pub(crate) use scratch::{SCRATCH, Scratched, scratch};
pub(crate) use stack::Stack;
pub(crate) use state::{Kind, upvalue};
pub(crate) use step::then;
pub(crate) use text::{ERROR_TEXT, TO_TEXT};
pub(crate) use threads::{
    Back, Coroutine, Full, Identity, NewThread, Obstacle, Resumed, Status, ThreadTraceback, Threads,
};
pub(crate) use traceback::MainTraceback;
#[cfg(feature = "vendored")]
pub(crate) use traceback::Traceback;
pub(crate) use values::{Element, INDEX, Light, Plain};
pub(crate) use vm::{Broken, OPEN_LIBRARIES, Own, Slice, Vm};
pub(crate) use walk::{Pairs, Read, Walk};
