//! `debug.sethook` and `debug.gethook`, for VMs that can be interrupted: in the executable, and in services that use
//! lio's service library, the functions of this file replace Lua's functions. They call these, and hold interrupts in
//! the meantime, because an interrupt replaces the program's hook for a moment. The call happens on a separate Lua
//! thread without a hook, so that a hook for calls and returns does not see it.

use crate::lua::{Argument, Call, Fault, Function, Kind, Next, Running, StoredInTable};
use crate::task::Tasks;
use std::cell::Cell;

/// Lua's functions that the functions of this file have replaced. The program cannot replace these.
#[derive(Default)]
struct OwnFunctions {
    sethook: Cell<Option<Function>>,
    gethook: Cell<Option<Function>>,
}

/// Calls Lua's own function with the coroutine whose hook it accesses, which is the first argument or the running
/// coroutine, and with the arguments from `first` to `last`. Interrupts are held in the meantime. Pushes `results`
/// results.
fn call_own(
    call: &mut Call<'_>, own: fn(&OwnFunctions) -> &Cell<Option<Function>>, first: i32, last: i32, results: i32,
) -> Result<(), Fault> {
    let functions = call.shared::<OwnFunctions>()?;
    let own = own(&functions).get().ok_or_else(|| Fault::message("the VM has no such function of Lua"))?;
    let tasks = Tasks::of(call)?;
    call.push(own)?;
    let function = call.count();
    match call.kind(1) {
        Kind::Thread => call.push(Argument(1))?,
        _ => call.push(Running)?,
    };
    for index in first..=last {
        call.push(Argument(index))?;
    }
    let arguments = call.count() - function;
    match call.access_hook(1, |call| tasks.threads.call_of_lua(call, arguments, results))? {
        true => Ok(()),
        false => Err(Fault::value(call.count())),
    }
}

/// `sethook([co,] hook, mask [, count])`: sets a function as the hook of a coroutine, or of the running coroutine.
/// `sethook([co])` removes the hook. (Lua manual 6.10)
fn sethook(call: &mut Call<'_>) -> Result<(), Fault> {
    let hook = 1 + i32::from(call.kind(1) == Kind::Thread);
    if !call.is_none(hook) {
        call.bytes(hook + 1)?;
        call.expect(hook, Kind::Function, "function")?;
        call.optional(hook + 2, |call, index| call.integer(index))?;
    }
    let last = call.count().min(hook + 2);
    call_own(call, |own| &own.sethook, hook, last, 0)
}

/// `gethook([co])`: returns the hook of a coroutine, or of the running coroutine, its mask and its count; nil if there
/// is none. (Lua manual 6.10)
fn gethook(call: &mut Call<'_>) -> Result<Next, Fault> {
    call_own(call, |own| &own.gethook, 1, 0, 3)?;
    let first = call.count() - 2;
    // Lua's function returns only nil if there is no hook, and a mask if there is one.
    if call.is_none(first + 1) {
        call.drop_to(first);
    }
    Ok(Next::rest(first))
}

/// Replaces the functions in the library `debug`, if the VM has it.
pub(crate) fn install(call: &mut Call<'_>) -> Result<(), Fault> {
    let libraries = call.loaded_libraries()?;
    let library = call.raw_field(libraries, "debug")?;
    if call.kind(library) != Kind::Table {
        return Ok(());
    }
    let functions = call.shared::<OwnFunctions>()?;
    let replacements = [
        ("sethook", Function::new(sethook), &functions.sethook),
        ("gethook", Function::new(gethook), &functions.gethook),
    ];
    for (name, function, own) in replacements {
        let index = call.raw_field(library, name)?;
        if let Some(of_lua) = call.function_at(index)? {
            own.set(Some(of_lua));
            let key = call.create(name)?;
            call.create(StoredInTable::new(library, key, function))?;
        }
    }
    Ok(())
}
