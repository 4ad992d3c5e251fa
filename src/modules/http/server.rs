//! `http.server`: the web server's machine as a Lua object. `serve` does the server's work; `respond` and `read`
//! contain the functions for one request.
//!
//! The events of the server's connections arrive in an inbox, so that the sockets need no Lua values.

use super::machine::{Machine, ServerObject, machine};
use super::routes::AppRoutes;
use super::transport::{AnyTransport, Network};
use super::{callbacks, memory, proxies, serve};
use crate::codec::http1::head::Limits;
use crate::event::{CLOSED, ERROR, HANG_UP, Mode, READ, WRITE};
use crate::http::server::{ConnectionId, Readiness, Server, Settings};
use crate::lua::{Call, Failure, Fault, Field, Function, FunctionTable, New, Object, failed, functions};
use crate::modules::selector::state::Selector;
use crate::modules::stream::connection::Connection;
use crate::modules::tls;
use crate::socket::{Attempt, Socket};
use crate::task::Tasks;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// The maximum number of connections that are accepted in a row before other tasks run.
const BATCH: usize = 64;

/// The key of the listener's events.
const LISTENING: u64 = 0;

/// The user value that refers to the listening socket.
const LISTENER: Field<ServerObject> = Field::new(1);

impl Object for ServerObject {
    const NAME: &'static str = "lio.http.server";
    /// The listening socket, and the values of `callbacks`.
    const USER_VALUES: i32 = 12;
    const METHODS: FunctionTable = functions! {
        listen, accept, admit, connect: memory::CONNECT, take_events, flush, expire, work_count: WORK_COUNT,
        set_callbacks: callbacks::SET_CALLBACKS, dispatcher: serve::DISPATCHER, count: COUNT, is_full: IS_FULL,
        set_guests, proxies::expect_proxy_header, set_tls, notify_next_close: NOTIFY_NEXT_CLOSE, close_some_idle, stop: STOP,
        drain: DRAIN, close: CLOSE,
    };
}

impl Machine {
    /// Accepts connections. If the server is full, accepts them only if `even_if_full` is true.
    fn accept(&self, listener: &Socket, even_if_full: bool) -> io::Result<Accepted> {
        let mut server = self.server.borrow_mut();
        for count in 0..BATCH {
            if !even_if_full && server.is_full() {
                return Ok(Accepted::Some);
            }
            match listener.accept() {
                Ok(Attempt::Done(socket)) => self.add_connection(&mut server, socket),
                Ok(Attempt::WouldBlock) => {
                    listener.arm(READ)?;
                    return Ok(if count == 0 { Accepted::None } else { Accepted::All });
                }
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(Accepted::Some),
            }
        }
        Ok(Accepted::Some)
    }

    fn add_connection(&self, server: &mut Server<AnyTransport>, socket: Socket) {
        let registration = socket.source().map(|source| source.join_later(&self.selector, Mode::Once));
        let id = server.accept(Network::of(socket.into(), self.tls.borrow().clone()));
        if let (Some(id), Some(registration)) = (id, registration) {
            registration.post_to(&self.inbox, id.number());
        }
    }
}

/// The result of accepting.
enum Accepted {
    /// No connection was waiting; the listener is armed.
    None,
    /// All waiting connections were accepted; the listener is armed.
    All,
    /// More connections may be waiting.
    Some,
}

/// Reads a number from the settings at argument 1.
fn setting(call: &mut Call<'_>, name: &'static str) -> Result<f64, Fault> {
    let value = call.raw_field(1, name)?;
    let number = call.number(value);
    call.drop_to(3);
    number.map_err(|_| Fault::message(format_args!("server: option '{name}' is missing")))
}

/// Converts seconds to nanoseconds. Values that are too large become the maximum, which means no limit.
fn span(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// `http.server(settings, routes, selector)`: returns a server without connections. `settings` is a table of the app's
/// settings, `selector` is the loop's selector.
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
        handshake_time: Settings::default().handshake_time,
        handshakes: Settings::default().handshakes,
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
        vm_clock: call.shared()?,
        clock: Cell::new(None),
        served: Cell::new(0),
        work: call.shared::<Tasks>()?.run_time.work.clone(),
        timer: Cell::new(u64::MAX),
        tls: RefCell::default(),
        body_limit,
    };
    Ok(New::of(ServerObject { machine: Rc::new(machine), body: Vec::new() }))
});

/// `S:listen(socket)`: accepts connections from this socket, which must be registered with the loop.
fn listen(call: &mut Call<'_>) -> Result<(), Fault> {
    let machine = machine(call)?;
    let socket = call.object::<Socket>(2)?;
    if let Some(registration) = machine.selector.find(socket.number()) {
        registration.post_to(&machine.inbox, LISTENING);
    }
    call.set_field(1, LISTENER, 2)
}

/// `S:set_tls(tls, seconds, count)`: puts TLS on the connections that are accepted from now on; `tls` is a
/// `lio.tls.server`. A handshake may take `seconds`; beyond `count` handshakes at the same time, the oldest ends.
fn set_tls(call: &mut Call<'_>) -> Result<(), Fault> {
    let tls = call.object::<tls::ServerObject>(2)?.0.clone();
    let time = span(call.number(3)?);
    let count = call.integer_in(4, 1..=i64::MAX, "count")? as usize;
    let machine = machine(call)?;
    machine.server.borrow_mut().limit_handshakes(time, count);
    machine.tls.replace(Some(tls));
    Ok(())
}

/// `S:accept([all])`: returns true if more connections may be waiting, or if the server is full; false if no connection
/// was waiting, with the listener armed; or `nil, message, code`. If `all` is true, accepts even if the server is full.
fn accept(call: &mut Call<'_>) -> Result<bool, Fault> {
    let even_if_full = call.is_true(2);
    let listener = call.field(1, LISTENER)?;
    let Some(listener) = call.as_object::<Socket>(listener) else {
        return Err(Failure::new("accept", "the listener is closed", "closed").into());
    };
    let accepted = machine(call)?.accept(listener, even_if_full).map_err(failed("accept"))?;
    Ok(!matches!(accepted, Accepted::None))
}

/// `S:admit(c)`: makes the server serve a connection of the loop. Closes the object `c`.
fn admit(call: &mut Call<'_>) -> Result<(), Fault> {
    call.object::<ServerObject>(1)?;
    let number = call.object::<Connection>(2)?.socket().number();
    let machine = call.object::<ServerObject>(1)?.machine.clone();
    let registration = machine.selector.find(number);
    let stream = call.object_mut::<Connection>(2)?;
    let (Some(registration), false) = (registration, stream.is_closed()) else {
        return Err(Fault::message("admit: the connection is closed or not registered with a loop"));
    };
    let (link, input, output) = stream.take_parts();
    let mut server = machine.server.borrow_mut();
    if let Some(id) = server.adopt(Network::of(link, None), &input, &output) {
        registration.post_to(&machine.inbox, id.number());
    }
    Ok(())
}

/// `S:take_events()`: takes the events of the loop's last wait. Returns whether there is work, whether Lua code has to
/// handle the listener, and whether the listener had an event, so that there may be new connections.
fn take_events(call: &mut Call<'_>) -> Result<(bool, bool, bool), Fault> {
    let listener = call.field(1, LISTENER)?;
    let listener = call.as_object::<Socket>(listener);
    let machine = machine(call)?;
    let mut list = machine.arrived.take();
    machine.inbox.take(&mut list);
    let (mut needs_lua, mut has_arrivals) = (false, false);
    if !list.is_empty() {
        let clock = machine.clock();
        for (key, bits) in list.drain(..) {
            match ConnectionId::from_number(key) {
                Some(id) => {
                    let events = Readiness {
                        read: bits & READ != 0,
                        write: bits & WRITE != 0,
                        closed: bits & (CLOSED | HANG_UP | ERROR) != 0,
                    };
                    machine.server.borrow_mut().ready(id, events, clock);
                }
                None => {
                    has_arrivals = true;
                    needs_lua |= listener.is_some_and(|listener| machine.accept_some(listener));
                }
            }
        }
    }
    machine.arrived.set(list);
    let has_work = machine.server.borrow().work_count() > 0;
    Ok((has_work, needs_lua, has_arrivals))
}

impl Machine {
    /// Accepts waiting connections. Returns whether Lua code has to handle the listener, because the server is full or
    /// accepting failed.
    fn accept_some(&self, listener: &Socket) -> bool {
        match self.accept(listener, false) {
            Ok(Accepted::All | Accepted::None) => false,
            Ok(Accepted::Some) => self.server.borrow().is_full() || listener.arm(READ).is_err(),
            Err(_) => true,
        }
    }
}

/// `S:flush()`: flushes the queues of the connections. Must be called before the loop waits. If the loop's timer has to
/// be set, returns the number of seconds until it must fire; otherwise nil.
fn flush(call: &mut Call<'_>) -> Result<Option<f64>, Fault> {
    let machine = machine(call)?;
    let mut server = machine.server.borrow_mut();
    server.flush();
    machine.clock.set(None);
    Ok(match server.next_deadline() {
        Some(due) if due < machine.timer.get() => {
            machine.timer.set(due);
            // A microsecond is added, because the loop's timer counts in seconds, which are rounded.
            let left = due.saturating_sub(machine.vm_clock.nanos()) + 1000;
            Some(left as f64 / 1e9)
        }
        _ => None,
    })
}

/// `S:expire()`: handles the deadlines that have passed, after the loop's timer has fired. Returns whether there is
/// work.
fn expire(call: &mut Call<'_>) -> Result<bool, Fault> {
    let machine = machine(call)?;
    machine.timer.set(u64::MAX);
    let clock = machine.read_clock();
    let mut server = machine.server.borrow_mut();
    server.expire(clock);
    Ok(server.work_count() > 0)
}

/// `S:work_count()`: returns an upper bound for the number of connections with work.
const WORK_COUNT: Function =
    Function::method(|object: &ServerObject| object.machine.server.borrow().work_count() as i64);

/// `S:count()`: returns the number of connections.
const COUNT: Function = Function::method(|object: &ServerObject| object.machine.server.borrow().count() as i64);

/// `S:is_full()`: returns whether the limit of connections has been reached.
const IS_FULL: Function = Function::method(|object: &ServerObject| object.machine.server.borrow().is_full());

/// `S:set_guests(count)`: sets the number of connections that the server no longer serves, but which count for its limit.
fn set_guests(call: &mut Call<'_>) -> Result<(), Fault> {
    let count = call.integer_in(2, 0..=i64::MAX, "count")? as usize;
    machine(call)?.server.borrow_mut().set_guests(count);
    Ok(())
}

/// `S:notify_next_close()`: requests a notification when the next connection closes.
const NOTIFY_NEXT_CLOSE: Function =
    Function::method(|object: &ServerObject| object.machine.server.borrow_mut().notify_next_close());

/// `S:close_some_idle()`: closes a few connections that have had a response and have been idle for more than a second.
fn close_some_idle(call: &mut Call<'_>) -> Result<(), Fault> {
    let machine = machine(call)?;
    let clock = machine.clock();
    machine.server.borrow_mut().close_some_idle(clock);
    Ok(())
}

/// `S:stop()`: starts stopping the server. Requests that have arrived are handled, and the last response on each
/// connection announces that the connection will be closed.
const STOP: Function = Function::method(|object: &ServerObject| object.machine.server.borrow_mut().stop());

/// `S:drain()`: closes idle connections, and closes each other connection as soon as it is idle.
const DRAIN: Function = Function::method(|object: &ServerObject| object.machine.server.borrow_mut().drain());

/// `S:close()`: closes all connections. Tasks that wait on the connections are resumed.
const CLOSE: Function = Function::method(|object: &ServerObject| object.machine.server.borrow_mut().close_all());
