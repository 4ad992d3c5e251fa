//! The Lua core: the only code in the crate that calls Lua's C API. It offers a safe API to the rest of the crate.
//!
//! A function that Lua calls is `fn(&mut Call) -> Result<R, Fault>`. It runs as a *step*: it reads its arguments, works
//! in Rust, and returns either the results for Lua, or the next action (a call, a wait) and the step that follows it.
//! The core acts on that result after the step has returned and its locals have been dropped. This guarantees the
//! following rules, so the other code needs no `unsafe`:
//!
//! - No Lua code runs during a step: no finalizer, no metamethod, no other call on the same object. Therefore a step
//!   may borrow an object's value mutably. An operation that allocates Lua memory in the middle of a step pauses the
//!   collector and the hooks, see `protected`.
//! - A raised error (`longjmp`) skips no destructor, because no frame of the step is left. Values that are being passed
//!   to Lua are stored where a memory error cannot leak them, see `store`.
//! - A panic in a step becomes the Lua error `internal error: …`.
//!
//! | file | topic |
//! |---|---|
//! | `function` | functions that Lua can call |
//! | `step` | how Lua calls a step, and how the core runs the steps that follow |
//! | `flow` | the action after a step: the function returns, calls or yields |
//! | `call` | a call from Lua, and the objects among its values |
//! | `stack` | the values of a call |
//! | `state` | stack operations that run no Lua code, allocate nothing and raise nothing |
//! | `pusher` | stack operations that can do all three, allowed only after a step |
//! | `returns` | values that a step returns to Lua |
//! | `new` | new objects, and bytes that an object passes to Lua |
//! | `store` | values that the core keeps for a VM |
//! | `registry` | the entries that the core creates in each VM's registry |
//! | `failure` | failures that a function returns |
//! | `fault` | errors that a step raises |
//! | `build` | tables, modules, functions with upvalues |
//! | `bound` | tables of functions with a common upvalue |
//! | `standard_file` | the standard library's files |
//! | `values` | values that need no allocation, on the stack and in tables |
//! | `walk` | reading tables to any depth |
//! | `events` | values that are built from the events of a decoder |
//! | `registered` | values that a VM keeps in its registry |
//! | `protected` | operations that allocate in the middle of a step |
//! | `scratch` | the receive buffer of a thread |
//! | `block` | the memory layout of Rust values in userdata |
//! | `object` | how userdata that contains a Rust value is created |
//! | `fields` | Lua values that an object keeps |
//! | `coroutine` | queries about the running coroutine, and about coroutines on the stack |
//! | `library` | the built-in modules, and entry points |
//! | `vm` | VMs that the core creates: their data, main function, and the error that ends them |
//! | `vm_access` | the parts of its VM that a step can access |
//! | `alloc_failures` | allocations that fail, for tests |
//! | `collector` | garbage collection: the collector's mode, and when it starts |
//! | `vm_context` | the Rust data of a VM that the core creates, and how to find it |
//! | `chunk` | chunks of Lua code |
//! | `hook` | the debug hook of a coroutine, as a value |
//! | `interrupt` | code that a VM runs at the request of another thread |
//! | `interrupt_hold` | sections in which interrupts wait, because a hook is read or changed |
//! | `work` | the piece of work that a VM is doing, and when an interrupt first found it |
//! | `traceback` | tracebacks of coroutines |
//! | `warning` | the warnings of a program's VM |
//! | `threads` | coroutines that Rust code resumes |
//! | `text` | values as strings; the text of an error |
//! | `frames` | the active functions of a coroutine |

#[cfg(feature = "alloc_failures")]
pub(crate) mod alloc_failures;
mod block;
mod bound;
mod build;
mod call;
mod chunk;
mod collector;
mod coroutine;
mod events;
mod failure;
mod fault;
mod fields;
mod flow;
mod frames;
mod function;
mod hook;
pub(crate) mod interrupt;
mod interrupt_hold;
pub(crate) mod library;
mod new;
pub(crate) mod object;
#[cfg(feature = "panics")]
pub(crate) mod panics;
mod protected;
mod pusher;
mod registered;
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
mod vm_access;
mod vm_context;
#[cfg(test)]
mod vm_tests;
mod walk;
#[cfg(feature = "vendored")]
mod warning;
mod work;

pub(crate) use block::identity_of;
pub(crate) use bound::{BoundFunctions, LazyTable};
pub(crate) use build::{Closure, List, Metatable, Methods, Module, ModuleWith, Record, Value};
pub(crate) use call::Call;
pub(crate) use chunk::Chunk;
pub(crate) use coroutine::Running;
pub(crate) use events::{Decoded, DecodedOnPush, Decoder, Encoded, Event, Table};
pub(crate) use failure::Failure;
pub(crate) use fault::{Fault, failed};
pub(crate) use fields::{Field, StoredInTable, TableAt};
pub(crate) use flow::{Continuation, Either, Flow, Maybe, Next, Outcome, Pushing, Returns, results};
pub(crate) use frames::Frame;
pub use function::Function;
pub(crate) use function::{FunctionTable, functions, last_name};
pub(crate) use new::{
    ByteSource, BytesOf, New, NewFromFactory, NewTailed, NewWith, StoredInField, TailSlice, TailedFactory, TailedSource,
};
pub(crate) use object::Object;
pub(crate) use pusher::Pusher;
pub(crate) use registered::{Register, RegistryName};
pub(crate) use returns::{Argument, Extended, Many, Nil, Pushable};
pub(crate) use scratch::{SCRATCH_SIZE, ScratchBytes, scratch};
pub(crate) use stack::Stack;
pub(crate) use state::{Kind, upvalue};
pub(crate) use step::then;
pub(crate) use text::{ERROR_TEXT, TO_TEXT};
pub(crate) use threads::{
    Coroutine, Full, Identity, NewThread, Obstacle, ResumeResult, Resumed, Status, ThreadTraceback, Threads,
};
pub(crate) use traceback::MainTraceback;
#[cfg(feature = "vendored")]
pub(crate) use traceback::Traceback;
pub(crate) use values::{Element, INDEX, Light, Plain};
pub(crate) use vm::{Broken, OPEN_LIBRARIES, SliceEnd, Vm, VmOwned};
pub(crate) use walk::{Pairs, Read, Walk};
pub(crate) use work::Work;
