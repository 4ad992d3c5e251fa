//! `http.server`: the web server's machine as Lua holds it. `serve` takes its work, `respond` and `read` have what is
//! done with one request.
//!
//! Sockets of its connections have an inbox for their events, so that no Lua value stands for one.

use super::machine::{Handle, Machine, machine};
use super::routes::AppRoutes;
use super::serve::Run;
use super::transport::Plain;
use super::{read, respond};
use crate::codec::http1::head::Limits;
use crate::event::clock::monotonic_nanos;
use crate::event::{CLOSED, ERROR, HANG_UP, Mode, READ, WRITE};
use crate::http::server::{ConnectionId, Readiness, Server, Settings};
use crate::lua::{Call, Failure, Fault, Field, Function, FunctionTable, New, Object, failed, functions};
use crate::modules::selector::state::Selector;
use crate::modules::stream::connection::Connection;
use crate::socket::{Moved, Socket};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// So many connections are accepted at once; then others get their turn.
const BATCH: usize = 64;

/// The key of the listener's events.
const LISTENING: u64 = 0;

/// The socket that listens.
const LISTENER: Field<Handle> = Field::new(1);

impl Object for Handle {
    const NAME: &'static str = "lio.http.server";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! {
        listen, accept, admit, arrived, flush, expire, due: DUE, run: RUN, count: COUNT, is_full: IS_FULL, watch: WATCH,
        shed, stop: STOP, settle: SETTLE, close: CLOSE, touch: respond::TOUCH, add_field: respond::ADD_FIELD,
        remove_field: respond::REMOVE_FIELD, get_field: respond::GET_FIELD, keep_fields: respond::KEEP_FIELDS,
        restore_fields: respond::RESTORE_FIELDS, clear_fields: respond::CLEAR_FIELDS,
        drop_body_fields: respond::DROP_BODY_FIELDS, answer: respond::ANSWER, start: respond::START,
        chunk: respond::CHUNK, finish: respond::FINISH, send: respond::SEND, push_file: respond::PUSH_FILE,
        queued: respond::QUEUED, sent: respond::SENT, is_answered: respond::IS_ANSWERED, is_head: respond::IS_HEAD,
        is_open: respond::IS_OPEN, close_after: respond::CLOSE_AFTER, hand_over: respond::HAND_OVER,
        address: respond::ADDRESS, body: read::BODY, piece: read::PIECE, trailers: read::TRAILERS, wait: read::WAIT,
    };
}

impl Machine {
    /// Takes in what the listener has; with `beyond`, more than the server is to have.
    fn accept(&self, listener: &Socket, beyond: bool) -> io::Result<Accepted> {
        let mut server = self.server.borrow_mut();
        for count in 0..BATCH {
            if !beyond && server.is_full() {
                return Ok(Accepted::Some);
            }
            match listener.accept() {
                Ok(Moved::Done(socket)) => self.take_in(&mut server, socket),
                Ok(Moved::WouldBlock) => {
                    listener.arm(READ)?;
                    return Ok(if count == 0 { Accepted::None } else { Accepted::All });
                }
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(Accepted::Some),
            }
        }
        Ok(Accepted::Some)
    }

    fn take_in(&self, server: &mut Server<Plain>, socket: Socket) {
        let registration = socket.source().map(|source| source.join_later(&self.selector, Mode::Once));
        let id = server.accept(Plain::new(socket));
        if let (Some(id), Some(registration)) = (id, registration) {
            registration.post_to(&self.inbox, id.number());
        }
    }
}

/// What accepting came to.
enum Accepted {
    /// Nobody was there; the listener is armed.
    None,
    /// All that was there; the listener is armed.
    All,
    /// There may be more.
    Some,
}

/// A number of the settings at argument 1.
fn setting(call: &mut Call<'_>, name: &'static str) -> Result<f64, Fault> {
    let value = call.raw_field(1, name)?;
    let number = call.number(value);
    call.drop_to(3);
    number.map_err(|_| Fault::message(format_args!("server: option '{name}' is missing")))
}

/// Seconds as nanoseconds; those that do not fit are for ever.
fn span(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// `http.server(settings, routes, selector)` → a server without connections. `settings`: the app's, `selector` the
/// loop's.
pub(crate) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    let routes = call.object::<AppRoutes>(2)?.0.clone();
    let selector = call.object::<Selector>(3)?.inner.clone();
    let selector = selector.ok_or_else(|| Fault::message("selector is already closed"))?;
    let requests = setting(call, "requests")?;
    let settings = Settings {
        head: Limits {
            request_line: setting(call, "request_line")? as usize,
            headers: setting(call, "headers")? as usize,
            fields: setting(call, "fields")? as usize,
        },
        header_time: span(setting(call, "header_time")?),
        keep_alive_time: span(setting(call, "keep_alive_time")?),
        body_time: span(setting(call, "body_time")?),
        body_rate: setting(call, "body_rate")?,
        write_time: span(setting(call, "write_time")?),
        connections: setting(call, "connections")? as usize,
        requests: requests.is_finite().then_some(requests as u64),
    };
    let body_limit = setting(call, "body")? as u64;
    let machine = Machine {
        server: RefCell::new(Server::new(settings, routes)),
        selector,
        inbox: Rc::default(),
        arrived: Cell::default(),
        clock: Cell::new(None),
        served: Cell::new(0),
        timer: Cell::new(u64::MAX),
        body_limit,
    };
    Ok(New::of(Handle { machine: Rc::new(machine), body: Vec::new() }))
});

/// `S:listen(socket)`: connections come from that one, which the loop knows.
fn listen(call: &mut Call<'_>) -> Result<(), Fault> {
    let machine = machine(call)?;
    let socket = call.object::<Socket>(2)?;
    if let Some(registration) = machine.selector.find(socket.number()) {
        registration.post_to(&machine.inbox, LISTENING);
    }
    call.set_field(1, LISTENER, 2)
}

/// `S:accept([all])` → true when there may be more, or no room for them; false when nobody was there, the listener
/// being armed; `nil, message, code` on failure. `all`: also where there is no room.
fn accept(call: &mut Call<'_>) -> Result<bool, Fault> {
    let beyond = call.is_true(2);
    let listener = call.field(1, LISTENER)?;
    let Some(listener) = call.as_object::<Socket>(listener) else {
        return Err(Failure::new("accept", "the listener is closed", "closed").into());
    };
    let accepted = machine(call)?.accept(listener, beyond).map_err(failed("accept"))?;
    Ok(!matches!(accepted, Accepted::None))
}

/// `S:admit(c)`: serves a connection of the loop's, which reads as closed from then on.
fn admit(call: &mut Call<'_>) -> Result<(), Fault> {
    call.object::<Handle>(1)?;
    let number = call.object::<Connection>(2)?.socket().number();
    let machine = call.object::<Handle>(1)?.machine.clone();
    let registration = machine.selector.find(number);
    let stream = call.object_mut::<Connection>(2)?;
    let (Some(registration), false) = (registration, stream.is_closed()) else {
        return Err(Fault::message("admit: the lio.connection is in no loop"));
    };
    let (socket, input, output) = stream.part();
    let mut server = machine.server.borrow_mut();
    if let Some(id) = server.adopt(Plain::new(socket), &input, &output) {
        registration.post_to(&machine.inbox, id.number());
    }
    Ok(())
}

/// `S:arrived()` → whether there is something to serve; whether the listener wants a closer look. Takes the events of
/// the loop's last wait.
fn arrived(call: &mut Call<'_>) -> Result<(bool, bool), Fault> {
    let listener = call.field(1, LISTENER)?;
    let listener = call.as_object::<Socket>(listener);
    let machine = machine(call)?;
    let mut list = machine.arrived.take();
    machine.inbox.take(&mut list);
    let mut look = false;
    if !list.is_empty() {
        let clock = machine.clock();
        for (key, bits) in list.drain(..) {
            match ConnectionId::from_number(key) {
                Some(id) => {
                    let events = Readiness {
                        read: bits & READ != 0,
                        write: bits & WRITE != 0,
                        over: bits & (CLOSED | HANG_UP | ERROR) != 0,
                    };
                    machine.server.borrow_mut().ready(id, events, clock);
                }
                None => look |= listener.is_some_and(|listener| machine.accept_some(listener)),
            }
        }
    }
    machine.arrived.set(list);
    let due = machine.server.borrow().due() > 0;
    Ok((due, look))
}

impl Machine {
    /// The listener has connections. → whether Lua has to look at it: there is no room, or a failure
    fn accept_some(&self, listener: &Socket) -> bool {
        match self.accept(listener, false) {
            Ok(Accepted::All | Accepted::None) => false,
            Ok(Accepted::Some) => self.server.borrow().is_full() || listener.arm(READ).is_err(),
            Err(_) => true,
        }
    }
}

/// `S:flush()` → after how many seconds the loop's timer has to fire, if that is to be set anew. Sends what is queued;
/// to be called before the loop waits.
fn flush(call: &mut Call<'_>) -> Result<Option<f64>, Fault> {
    let machine = machine(call)?;
    let mut server = machine.server.borrow_mut();
    server.flush();
    machine.clock.set(None);
    Ok(match server.next_deadline() {
        Some(due) if due < machine.timer.get() => {
            machine.timer.set(due);
            // Up to the next microsecond: the loop counts seconds.
            let left = due.saturating_sub(monotonic_nanos()) + 1000;
            Some(left as f64 / 1e9)
        }
        _ => None,
    })
}

/// `S:expire()` → whether there is something to serve. The loop's timer has fired.
fn expire(call: &mut Call<'_>) -> Result<bool, Fault> {
    let machine = machine(call)?;
    machine.timer.set(u64::MAX);
    let clock = machine.read_clock();
    let mut server = machine.server.borrow_mut();
    server.expire(clock);
    Ok(server.due() > 0)
}

/// `S:due()` → how many connections have something to do, or more.
const DUE: Function = Function::method(|handle: &Handle| handle.machine.server.borrow().due() as i64);

/// `S:run()` → what a task serves with.
const RUN: Function = Function::method(|handle: &Handle| New::of(Run::new(handle.machine.clone())));

/// `S:count()` → how many connections there are.
const COUNT: Function = Function::method(|handle: &Handle| handle.machine.server.borrow().count() as i64);

/// `S:is_full()` → whether there are as many connections as may be.
const IS_FULL: Function = Function::method(|handle: &Handle| handle.machine.server.borrow().is_full());

/// `S:watch()`: Lua is told when the next connection leaves.
const WATCH: Function = Function::method(|handle: &Handle| handle.machine.server.borrow_mut().watch());

/// `S:shed()`: closes a few connections that have had an answer and are idle for a while.
fn shed(call: &mut Call<'_>) -> Result<(), Fault> {
    let machine = machine(call)?;
    let clock = machine.clock();
    machine.server.borrow_mut().shed(clock);
    Ok(())
}

/// `S:stop()`: what has arrived is answered, and the last answer of a connection says that it closes.
const STOP: Function = Function::method(|handle: &Handle| handle.machine.server.borrow_mut().stop());

/// `S:settle()`: connections that are idle close, and others when they would fall idle.
const SETTLE: Function = Function::method(|handle: &Handle| handle.machine.server.borrow_mut().settle_down());

/// `S:close()`: all connections close; tasks that wait on one are told.
const CLOSE: Function = Function::method(|handle: &Handle| handle.machine.server.borrow_mut().close_all());
