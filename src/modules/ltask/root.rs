//! Module `ltask.root`: functions that only root may call.

use super::arguments::{service, service_id};
use crate::ltask::lifecycle;
use crate::ltask::mailbox::Affinity;
use crate::ltask::message::{ROOT, ServiceId};
use crate::ltask::service::System;
use crate::lua::{Call, Chunk, Either, Fault, Function, FunctionTable, List, Module, Stack, functions};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FUNCTIONS: FunctionTable = functions! { init_service, close_service, set_exit_code };

/// Opens `ltask.root`.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    root_system(call)?;
    Ok(Module(FUNCTIONS))
});

/// Returns the system. Fails if the caller is not root.
fn root_system(call: &mut Call<'_>) -> Result<Arc<System>, Fault> {
    let service = service(call)?;
    match service.id {
        ROOT => Ok(service.system().clone()),
        _ => Err(Fault::message("ltask.root: only root may use this module")),
    }
}

/// The code of a service.
pub(super) enum Source<'a> {
    Text(&'a [u8], CString),
    File(CString),
}

impl Source<'_> {
    /// Reads the source at `index`, with the chunk name at index `name`. If `name` is None, a source that begins with
    /// `@` is the path of a file.
    pub(super) fn read(stack: &Stack, index: i32, name: Option<i32>) -> Result<Source<'_>, Fault> {
        let text = stack.bytes(index)?;
        Ok(match (name, text) {
            (None, [b'@', path @ ..]) => Source::File(c_string(path)),
            (None, _) => Source::Text(text, c"=service".to_owned()),
            (Some(name), _) => Source::Text(text, c_string(stack.bytes(name)?)),
        })
    }

    pub(super) fn chunk(&self) -> Chunk<'_> {
        match self {
            Source::Text(text, name) => Chunk::Text(text, name),
            Source::File(path) => Chunk::File(Some(path)),
        }
    }
}

/// Returns the bytes up to the first zero byte.
fn c_string(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|&byte| byte == 0);
    CString::new(&bytes[..end.unwrap_or(bytes.len())]).unwrap_or_default()
}

/// Returns the affinity for the worker whose number is at `index`; for any worker if the value is nil.
pub(super) fn affinity(stack: &Stack, index: i32, workers: usize) -> Result<Affinity, Fault> {
    let range = 0..=workers as i64 - 1;
    let number = stack.optional(index, |stack, index| stack.integer_in(index, range, "worker"))?;
    Ok(number.map_or(Affinity::Any, |number| Affinity::Worker(number as usize)))
}

/// `root.init_service(id, label, source [, chunkname [, worker]])`: creates a service. Returns true, or false and a
/// message. With three arguments (G1), raises errors instead, and a source `@path` is a file.
fn init_service(call: &mut Call<'_>) -> Result<Either<bool, (bool, String)>, Fault> {
    let system = root_system(call)?;
    let id = service_id(call, 1)?;
    let label = call.utf8(2)?;
    let is_first_generation = call.is_none(4);
    let source = Source::read(call, 3, (!is_first_generation).then_some(4))?;
    let affinity = affinity(call, 5, system.config.worker)?;
    match create(&system, id, label, &source, affinity) {
        Ok(()) => Ok(Either::One(true)),
        Err(message) if is_first_generation => Err(Fault::message(message)),
        Err(message) => Ok(Either::Other((false, message))),
    }
}

/// Creates the service in the slot that was opened for `id`. On failure, returns an error message.
fn create(
    system: &Arc<System>, id: ServiceId, label: &str, source: &Source<'_>, affinity: Affinity,
) -> Result<(), String> {
    let slot = system.registry.get(id);
    if !slot.is_some_and(|slot| slot.mailbox.is_building(id)) {
        return Err(format!("init_service: {id} is not the id of a new service"));
    }
    let service = lifecycle::create(system, id, label, source.chunk())?;
    lifecycle::install(system, service, affinity);
    Ok(())
}

/// `root.close_service(id)`: closes a service. Returns a list `{ from, session, from, session, … }` of the requests
/// that the service has not answered. The schedule message DEL frees the service's id.
fn close_service(call: &mut Call<'_>) -> Result<List<i64>, Fault> {
    let system = root_system(call)?;
    let id = service_id(call, 1)?;
    if id == ROOT {
        return Err(Fault::argument(1, "root cannot close itself"));
    }
    let requests = lifecycle::close(&system, id).into_iter();
    let items = requests.flat_map(|(from, session)| [from.into(), session]);
    Ok(List { items: items.collect(), named: Vec::new() })
}

/// `root.set_exit_code(n)`: sets the exit code that `bootstrap.run` or `bootstrap.wait` returns.
fn set_exit_code(call: &mut Call<'_>) -> Result<(), Fault> {
    let code = call.integer_in(1, i32::MIN.into()..=i32::MAX.into(), "exit code")?;
    root_system(call)?.exit_code.store(code as i32, Ordering::SeqCst);
    Ok(())
}
