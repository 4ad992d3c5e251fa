//! `lio.signal`: signals as the readiness of a descriptor, which `lualib/lio/loop.lua` waits for.

use super::socket::methods::light;
use crate::event::signals::{Purpose, Set, Signals};
use crate::lua::{Call, Fault, Function, FunctionTable, Many, Module, New, Object, failed, functions};

/// A signal watcher; `None` if it is closed.
struct Watcher(Option<Signals>);

impl Object for Watcher {
    const NAME: &'static str = "lio.signals";
    const METHODS: FunctionTable = functions! { take, handle: HANDLE, close: CLOSE };
    const META: FunctionTable = functions! { __close: CLOSE };
}

/// Returns the signal that argument `index` names.
fn signal(call: &Call<'_>, index: i32) -> Result<Set, Fault> {
    let name = call.bytes(index)?;
    Set::named(name).ok_or_else(|| {
        let name = std::str::from_utf8(name).unwrap_or("?");
        Fault::argument(index, format_args!("unknown signal '{name}'"))
    })
}

/// Opens a watcher of the signals that the arguments name.
fn watch(call: &mut Call<'_>, purpose: Purpose) -> Result<New<Watcher>, Fault> {
    let mut wanted = Set::default();
    for index in 1..=call.count() {
        wanted = wanted.with(signal(call, index)?);
    }
    if wanted.is_empty() {
        return Err(Fault::argument(1, "signal name expected"));
    }
    let signals = Signals::open(wanted, purpose).map_err(failed("signal"))?;
    Ok(New::of(Watcher(Some(signals))))
}

/// `watcher:take()`: returns the names of the signals that have arrived since the last call, as several results.
fn take(call: &mut Call<'_>) -> Result<Many<&'static str>, Fault> {
    let watcher = call.object_mut::<Watcher>(1)?;
    let caught = watcher.0.as_mut().map(Signals::take);
    Ok(Many(caught.unwrap_or_default().names().collect()))
}

/// `watcher:handle()`: returns the descriptor that becomes readable when a signal arrives.
const HANDLE: Function = Function::method(|watcher: &Watcher| light(watcher.0.as_ref().map_or(-1, Signals::number)));

/// `watcher:close()`: restores the host's signal dispositions. Idempotent.
const CLOSE: Function = Function::method_mut(|watcher: &mut Watcher| watcher.0 = None);

/// `signal.open(name, …)`: watches signals by name, such as `"SIGTERM"`. Their default action no longer runs. Returns
/// the watcher, or `nil, message, code`.
fn open(call: &mut Call<'_>) -> Result<New<Watcher>, Fault> {
    watch(call, Purpose::Take)
}

/// `signal.hold(name, …)`: like `open`, for a program whose watchers are opened later, in other VMs. Each watcher that
/// is opened before this watcher is closed gets the signals that have arrived in the meantime.
fn hold(call: &mut Call<'_>) -> Result<New<Watcher>, Fault> {
    watch(call, Purpose::Hold)
}

/// `signal.raise(name)`: sends the signal to this process. For tests.
fn raise(call: &mut Call<'_>) -> Result<(), Fault> {
    let _ = signal(call, 1)?.send();
    Ok(())
}

/// Opens `lio.signal`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { open, hold, raise })));
