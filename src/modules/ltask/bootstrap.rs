//! Module `ltask.bootstrap`: creates, runs and closes a system, in the VM that starts it.

use super::arguments::{LabelledEntry, block, kind, labelled_entry, service_id};
use super::config;
use super::root::{Source, affinity};
use crate::ltask::log::Repetition;
use crate::ltask::mailbox::Affinity;
use crate::ltask::message::{Message, Payload, SYSTEM, ServiceId};
use crate::ltask::prestart::Prestart;
use crate::ltask::service::{Service, System};
use crate::ltask::system::Preparation;
use crate::ltask::{c_functions, crash, lifecycle, run, worker};
use crate::lua::{Call, Either, Fault, Function, FunctionTable, Kind, Light, Module, Stack, functions};
use crate::modules::pack;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// How the module creates VMs. This depends on the modules that are built into the executable or the library.
pub(crate) trait Environment: 'static {
    const PREPARATION: Preparation;
}

/// The module in an environment.
pub(crate) struct Bootstrap<E>(PhantomData<E>);

impl<E: Environment> Bootstrap<E> {
    /// Opens `ltask.bootstrap`.
    pub(crate) const OPEN: Function = Function::new(open::<E>);

    const FUNCTIONS: FunctionTable = functions! {
        init = init::<E>, deinit, init_timer: NOTHING, init_socket: NOTHING, init_root, pushlog, poplog, boot_failure,
        new_service, new_thread, preinit, new_service_preinit, post_message, run = run_system, wait, mainthread_wait,
        external_sender, log_sender, pack::pack, pack::unpack, pack::unpack_remove, pack::remove,
    };
}

fn open<E: Environment>(call: &mut Call<'_>) -> Result<Module, Fault> {
    if call.data::<Service>().is_some() {
        return Err(Fault::message("ltask.bootstrap is for the VM that starts a system, not for a service"));
    }
    Ok(Module(Bootstrap::<E>::FUNCTIONS))
}

/// `init_timer()`, `init_socket()`: do nothing.
const NOTHING: Function = Function::new(|_: &mut Call<'_>| Ok(()));

/// The system that this VM has created with `init`, until `deinit`.
#[derive(Default)]
struct CurrentSystem(RefCell<Option<OwnedSystem>>);

struct OwnedSystem {
    system: Arc<System>,
    running: bool,
    /// VMs that run before the system is started (G1), until they become services. The key is the pointer that Lua code
    /// gets.
    prestarts: HashMap<usize, Prestart>,
}

impl Drop for OwnedSystem {
    fn drop(&mut self) {
        if self.running {
            self.system.quit();
            run::wait(&self.system, || false);
        }
        self.prestarts.clear();
        run::close_all(&self.system);
        crash::uninstall(&self.system);
    }
}

impl CurrentSystem {
    fn set_running(&self, running: bool) {
        if let Some(owner) = &mut *self.0.borrow_mut() {
            owner.running = running;
        }
    }
}

/// Returns the system that `init` has created, and whether it is running. Fails if there is no system.
fn owned_system(call: &mut Call<'_>) -> Result<(Arc<System>, bool), Fault> {
    let current = call.shared::<CurrentSystem>()?;
    let found = current.0.borrow().as_ref().map(|owner| (owner.system.clone(), owner.running));
    found.ok_or_else(|| Fault::message("no system: call bootstrap.init first"))
}

fn system(call: &mut Call<'_>) -> Result<Arc<System>, Fault> {
    owned_system(call).map(|(system, _)| system)
}

/// `bootstrap.init(config)`: creates a system. Writes the values that are used, including defaults, back into the
/// table.
fn init<E: Environment>(call: &mut Call<'_>) -> Result<(), Fault> {
    let current = call.shared::<CurrentSystem>()?;
    if current.0.borrow().is_some() {
        return Err(Fault::message("init: a system already exists; call bootstrap.deinit first"));
    }
    let system = System::new(config::read(call)?, E::PREPARATION).map_err(Fault::message)?;
    crash::install(&system).map_err(Fault::message)?;
    current.0.replace(Some(OwnedSystem { system, running: false, prestarts: HashMap::new() }));
    Ok(())
}

/// `bootstrap.deinit()`: closes the system. If the system is running, ends it first.
fn deinit(call: &mut Call<'_>) -> Result<(), Fault> {
    let (system, running) = owned_system(call)?;
    if running {
        system.quit();
        wait_for_end(call)?;
    }
    let owner = call.shared::<CurrentSystem>()?.0.take();
    drop(owner);
    Ok(())
}

/// `bootstrap.init_root(1)`: only checks the argument, because root is always service 1.
fn init_root(call: &mut Call<'_>) -> Result<(), Fault> {
    system(call)?;
    call.integer_in(1, 1..=1, "root's service id")?;
    Ok(())
}

/// `bootstrap.pushlog(pointer, size)`: adds an entry of the system (service 0) to the log, and takes ownership of the
/// block.
fn pushlog(call: &mut Call<'_>) -> Result<(), Fault> {
    let (address, size) = block(call, 1)?;
    let system = system(call)?;
    let payload = Payload::from_raw(address, size);
    system.push_log(SYSTEM, payload, Repetition::Counted);
    Ok(())
}

/// `bootstrap.poplog()`: returns the oldest entry of the log: its time (centiseconds since the Unix epoch), service id,
/// label, pointer and size; nothing if the log is empty.
fn poplog(call: &mut Call<'_>) -> Result<LabelledEntry, Fault> {
    Ok(labelled_entry(system(call)?.log.pop_last()))
}

/// `bootstrap.boot_failure()`: returns the reason why root could not start the system of `ltask.start`; nil if root did
/// not fail.
fn boot_failure(call: &mut Call<'_>) -> Result<Option<String>, Fault> {
    Ok(system(call)?.boot_failure())
}

/// `bootstrap.new_service(label, source, id)` (G1) or `new_service(label, source, chunkname, id [, worker])` (G2):
/// creates a service and returns its id. If `id` is 0 or nil, the next free id is used. In G1, `source` is Lua code or
/// `@path`, and the function raises on failure. In G2, it returns false and a message on failure.
fn new_service(call: &mut Call<'_>) -> Result<Either<ServiceId, (bool, String)>, Fault> {
    let system = system(call)?;
    let label = call.utf8(1)?;
    let is_second_generation = call.kind(3) == Kind::String;
    let wanted = wanted_id(call, if is_second_generation { 4 } else { 3 })?;
    let source = Source::read(call, 2, is_second_generation.then_some(3))?;
    let affinity = match is_second_generation {
        true => affinity(call, 5, system.config.worker)?,
        false => Affinity::Any,
    };
    match create(&system, wanted, label, &source, affinity) {
        Ok(id) => Ok(Either::One(id)),
        Err(message) if is_second_generation => Ok(Either::Other((false, message))),
        Err(message) => Err(Fault::message(message)),
    }
}

fn wanted_id(call: &Call<'_>, index: i32) -> Result<ServiceId, Fault> {
    Ok(call.optional(index, service_id)?.unwrap_or(0))
}

/// Opens a slot and creates the service. On failure, returns an error message.
fn create(
    system: &Arc<System>, wanted: ServiceId, label: &str, source: &Source<'_>, affinity: Affinity,
) -> Result<ServiceId, String> {
    let id = system.registry.open(wanted).ok_or_else(|| no_slot(wanted))?;
    let service = lifecycle::create(system, id, label, source.chunk())
        .map_err(|message| format!("new service {label}: {message}"))?;
    lifecycle::install(system, service, affinity);
    Ok(id)
}

fn no_slot(wanted: ServiceId) -> String {
    match wanted {
        0 => "new service: there are too many services (config.max_service)".to_owned(),
        _ => format!("new service: the id {wanted} is taken, or too high"),
    }
}

/// `bootstrap.new_thread(id)`: makes the service exclusive (G1). The service gets its own thread, which starts with the
/// system.
fn new_thread(call: &mut Call<'_>) -> Result<(), Fault> {
    let id = service_id(call, 1)?;
    let (system, running) = owned_system(call)?;
    if running {
        return Err(Fault::message("new_thread: the system is already running"));
    }
    run::make_exclusive(&system, id).map_err(Fault::message)
}

/// `bootstrap.preinit(source)`: starts a VM that runs on its own thread before the system is started (G1). The VM's
/// main function is resumed with `true` each time it yields. Returns a pointer for `new_service_preinit`.
fn preinit(call: &mut Call<'_>) -> Result<Light, Fault> {
    let system = system(call)?;
    let source = Source::read(call, 1, None)?;
    let prestart = Prestart::start(&system, source.chunk()).map_err(Fault::message)?;
    let current = call.shared::<CurrentSystem>()?;
    let mut owner = current.0.borrow_mut();
    let prestarts = &mut owner.as_mut().expect("`system` has found the owner").prestarts;
    let name = prestarts.keys().max().map_or(1, |most| most + 1);
    prestarts.insert(name, prestart);
    Ok(Light(name))
}

/// `bootstrap.new_service_preinit(label, id, p)`: turns the VM of `preinit` into service `id` and returns the id. From
/// then on, the main function is resumed without values.
fn new_service_preinit(call: &mut Call<'_>) -> Result<u32, Fault> {
    let (system, current) = (system(call)?, call.shared::<CurrentSystem>()?);
    let label = call.utf8(1)?;
    let wanted = wanted_id(call, 2)?;
    let name = call.light(3).ok_or_else(|| Fault::expected(3, "light userdata"))?;
    let id = system.registry.open(wanted).ok_or_else(|| Fault::message(no_slot(wanted)))?;
    let prestart = current.0.borrow_mut().as_mut().and_then(|owner| owner.prestarts.remove(&name.0));
    let prestart = prestart.ok_or_else(|| "preinit: there is no such VM".to_owned());
    match prestart.and_then(|prestart| prestart.into_service(&system, id, label)) {
        Ok(service) => lifecycle::install(&system, service, Affinity::Any),
        Err(message) => {
            lifecycle::discard(&system, id);
            return Err(Fault::message(message));
        }
    }
    Ok(id)
}

/// `bootstrap.post_message{ from=, to=, session=, type=, message=, size= }`: posts a message, which takes ownership of
/// the block. If the message is refused, raises `push message failed`.
fn post_message(call: &mut Call<'_>) -> Result<(), Fault> {
    call.expect(1, Kind::Table, "table")?;
    call.drop_to(1);
    let index = call.raw_field(1, "from")?;
    let from = call.optional(index, service_id)?.unwrap_or(SYSTEM);
    let index = required_field(call, "to")?;
    let to = service_id(call, index)?;
    let index = call.raw_field(1, "session")?;
    let session = call.optional(index, Stack::integer)?.unwrap_or(0);
    let index = required_field(call, "type")?;
    let kind = kind(call, index, "type")?;
    let index = call.raw_field(1, "message")?;
    call.raw_field(1, "size")?;
    let (address, size) = block(call, index)?;
    let system = system(call)?;
    let message = Message { from, to, session, kind, payload: Payload::from_raw(address, size) };
    let posted = system.post(message, 0);
    posted.map_err(|_| Fault::message("push message failed"))
}

/// Pushes a required field of the table at index 1. Returns the field's stack index.
fn required_field(call: &mut Call<'_>, name: &'static str) -> Result<i32, Fault> {
    let index = call.raw_field(1, name)?;
    match call.is_none(index) {
        false => Ok(index),
        true => Err(Fault::message(format_args!("post_message: field '{name}' is missing"))),
    }
}

/// Waits until the system has ended, and returns the exit code. In the stock interpreter, Ctrl-C sets a hook; this
/// function then ends the system.
fn wait_for_end(call: &mut Call<'_>) -> Result<i64, Fault> {
    let (system, hook) = (system(call)?, call.hook());
    let code = run::wait(&system, || call.hook() != hook);
    call.shared::<CurrentSystem>()?.set_running(false);
    Ok(code.into())
}

/// `bootstrap.run()`: runs the system until it has ended, and returns the exit code (G1). `bootstrap.run(mainthread)`:
/// starts the system, and immediately returns a context for `wait` (G2).
fn run_system(call: &mut Call<'_>) -> Result<Either<i64, Light>, Fault> {
    let at_once = call.count() > 0;
    let (system, running) = owned_system(call)?;
    if running || system.is_quitting() {
        return Err(Fault::message("run: the system is already running or has ended"));
    }
    call.shared::<CurrentSystem>()?.set_running(true);
    run::start(&system);
    Ok(match at_once {
        true => Either::Other(c_functions::context(&system)),
        false => Either::One(wait_for_end(call)?),
    })
}

/// `bootstrap.wait(context)`: waits until root and every thread have ended, and returns the exit code.
fn wait(call: &mut Call<'_>) -> Result<i64, Fault> {
    match owned_system(call)? {
        (_, true) => wait_for_end(call),
        (_, false) => Err(Fault::message("wait: the system is not running")),
    }
}

/// `bootstrap.mainthread_wait([no_wait])`: waits for a service that requested the main thread, runs a slice of that
/// service, and returns true. Returns false if the system is ending, or if no service waits and `no_wait` is true.
fn mainthread_wait(call: &mut Call<'_>) -> Result<bool, Fault> {
    let no_wait = call.is_true(1);
    let (system, hook) = (system(call)?, call.hook());
    let id = loop {
        if let Some(id) = system.scheduler.next_of_main() {
            break id;
        }
        if no_wait || system.is_quitting() {
            return Ok(false);
        }
        // A process signal ends the wait. If the signal has set a hook, the system must end.
        if !system.scheduler.main_event.wait_once() && call.hook() != hook {
            system.quit();
        }
    };
    worker::run_main_slice(&system, id);
    Ok(true)
}

/// `bootstrap.external_sender(context)`: returns a function pointer `int (void *queue, void *message)`, and `queue`.
/// The function can be called from any thread and sends the pointer to root as the request `external`. It returns 0 on
/// success, and another number if the message was refused.
fn external_sender(call: &mut Call<'_>) -> Result<(Light, Light), Fault> {
    Ok(c_functions::external_sender(&system(call)?))
}

/// `bootstrap.log_sender(context)`: returns a function pointer `void (void *log, void *data, size_t size)`, and `log`.
/// The function can be called from any thread and adds an entry of service 0 to the log. It takes ownership of `data`,
/// a block of packed values from `malloc`.
fn log_sender(call: &mut Call<'_>) -> Result<(Light, Light), Fault> {
    Ok(c_functions::log_of_system(&system(call)?))
}
