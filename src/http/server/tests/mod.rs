//! Tests of the server as a state machine: no socket, no Lua, no clock. An in-memory connection joins the server and a
//! client. The test decides which bytes arrive, how many bytes the client receives, and what time it is.

mod bodies;
mod closing;
mod handshakes;
mod limits;
mod properties;
mod proxied;
mod requests;
mod responses;
mod wire;

use super::*;
use crate::codec::http1::body::{BodyEvent, IncomingBody};
use crate::codec::http1::fields::NO_FIELDS;
use crate::codec::http1::head::Progress;
use crate::codec::http1::response_head::{self, RequestKind};
use crate::stream::queue::Sent;
use wire::{Pipe, Wire};

/// Returns a 200 response with a text body.
fn text_response(body: &[u8]) -> Response<'_> {
    Response { status: 200, media_type: MediaType::Text, body: Body::Bytes(body) }
}

const SECOND: u64 = 1_000_000_000;

/// A server, its connections, and a log of events.
struct Pair {
    server: Server<Pipe>,
    wires: Vec<(ConnectionId, Wire)>,
    clock: Clock,
    /// The dispatched requests that wait for their response, in order.
    waiting: Vec<RequestId>,
    /// The method and the path of each dispatched request, ended waits, and closed connections.
    log: Vec<String>,
}

/// The immediate action of a handler.
enum HandlerAction {
    Text(Vec<u8>),
    /// The handler responds later.
    Wait,
}

fn routes() -> Rc<RefCell<Routes>> {
    let mut routes = Routes::default();
    for (method, path) in
        [("GET", "/"), ("GET", "/wait"), ("POST", "/wait"), ("GET", "/len/:n"), ("POST", "/echo"), ("POST", "/skip")]
    {
        routes.add(method.as_bytes(), path).unwrap();
    }
    Rc::new(RefCell::new(routes))
}

impl Pair {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        Pair {
            server: Server::new(settings, routes()),
            wires: Vec::new(),
            clock: Clock { now: 1000 * SECOND, unix: 784_111_777 },
            waiting: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Opens a connection. Returns its number, counted from 0.
    fn connect(&mut self) -> usize {
        let (wire, pipe) = wire::pair();
        let id = self.server.accept(pipe).expect("an identifier is free");
        self.wires.push((id, wire));
        self.run();
        self.wires.len() - 1
    }

    /// Opens a connection on which these bytes arrive. Returns the response.
    fn exchange(&mut self, bytes: &[u8]) -> String {
        let number = self.connect();
        self.send(number, bytes);
        self.got(number)
    }

    /// Delivers bytes from the client.
    fn send(&mut self, number: usize, bytes: &[u8]) {
        self.wires[number].1.deliver(bytes);
        self.events(number);
    }

    /// Closes the client's sending side.
    fn end(&mut self, number: usize) {
        self.wires[number].1.end();
        self.events(number);
    }

    /// Lets the client receive `count` more bytes.
    fn take(&mut self, number: usize, count: usize) {
        self.wires[number].1.take(count);
        self.events(number);
    }

    fn events(&mut self, number: usize) {
        let (id, wire) = &self.wires[number];
        let events = wire.events();
        if events != Readiness::default() {
            self.server.ready(*id, events, self.clock);
        }
        self.run();
    }

    fn advance(&mut self, nanos: u64) {
        self.clock.now += nanos;
        self.server.expire(self.clock);
        self.run();
    }

    /// Does all pending work.
    fn run(&mut self) {
        loop {
            match self.server.next(self.clock) {
                Work::Dispatch { id, .. } => self.handle(id),
                Work::Resume { id, reason } => {
                    assert!(self.waiting.contains(&id), "the request waits");
                    self.log.push(format!("{reason:?}"));
                }
                Work::ConnectionClosed => self.log.push("connection closed".to_string()),
                Work::Idle => break,
            }
        }
        self.server.flush();
    }

    fn handle(&mut self, id: RequestId) {
        let view = self.server.head(id).expect("the head is in the input");
        let path = String::from_utf8_lossy(view.head.path(view.bytes)).into_owned();
        let method = String::from_utf8_lossy(view.head.method.of(view.bytes)).into_owned();
        self.server.take_head(id);
        self.log.push(format!("{method} {path}"));
        let act = match &*path {
            "/wait" | "/echo" => HandlerAction::Wait,
            _ => match path.strip_prefix("/len/") {
                Some(length) => HandlerAction::Text(pattern(length.parse().unwrap_or(0))),
                None => HandlerAction::Text(path.clone().into_bytes()),
            },
        };
        match act {
            HandlerAction::Text(text) => self.answer(id, &text),
            HandlerAction::Wait => self.waiting.push(id),
        }
        if path == "/echo" {
            self.echo(id);
        }
    }

    /// Responds with the body of a request if the body is complete; otherwise waits for more of it.
    fn echo(&mut self, id: RequestId) {
        let mut body = Vec::new();
        let read = self.server.read_body(id, 1 << 22, ReadMode::Whole, &mut body);
        match read {
            BodyRead::Data => self.answer(id, &body),
            BodyRead::Pending => {
                self.server.wait(id, Interest::Read, self.clock);
            }
            other => {
                self.log.push(format!("{other:?}"));
                self.answer(id, b"refused");
            }
        }
    }

    /// Continues the echo of the first request that waits for its body.
    fn echo_on(&mut self) {
        let id = self.waiting[0];
        self.echo(id);
        self.run();
    }

    /// Responds to a request and ends it.
    fn answer(&mut self, id: RequestId, text: &[u8]) {
        let responded = self.server.respond(id, text_response(text), self.clock);
        if let Responded::Rest(mut taken) = responded {
            while matches!(self.server.send(id, text, &mut taken), Some(Sent::Blocked | Sent::BudgetSpent)) {
                let number = self.wires.iter().position(|(one, _)| one.slot() == id.slot());
                self.wires[number.unwrap()].1.take(10_000);
            }
        }
        self.waiting.retain(|one| *one != id);
        self.server.end(id, RequestEnd::Complete);
    }

    /// Responds to the first request that waits.
    fn answer_first(&mut self, text: &[u8]) {
        let id = self.waiting[0];
        self.answer(id, text);
        self.run();
    }

    /// Returns the bytes that the client has received since the last call.
    fn got(&mut self, number: usize) -> String {
        String::from_utf8_lossy(&self.wires[number].1.got()).into_owned()
    }

    fn is_closed(&self, number: usize) -> bool {
        self.wires[number].1.is_closed()
    }

    /// Whether the server has closed its sending side, but not the connection.
    fn lingers(&self, number: usize) -> bool {
        self.wires[number].1.is_ended() && !self.is_closed(number)
    }
}

/// Returns a body of `length` bytes, which differ by position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Returns a GET request.
fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut all = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    all.extend_from_slice(body);
    all
}

/// Parses responses as a client does. Returns the status and the body of each response. `heads`: for each response,
/// whether the request was HEAD. Panics if a response is malformed or incomplete.
fn answers(mut bytes: &[u8], heads: &[bool]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let request = match heads.get(found.len()) {
            Some(true) => RequestKind::Head,
            _ => RequestKind::Other,
        };
        let mut fields = Box::new(NO_FIELDS);
        let (limits, mut progress) = ((1 << 16, 100), Progress::default());
        let parsed = response_head::parse(bytes, request, limits, &mut progress, &mut fields);
        let head = parsed.expect("not refused").expect("complete");
        bytes = &bytes[head.head_len..];
        if head.status == 100 {
            continue;
        }
        let (mut body, mut data) = (IncomingBody::new(head.framing), Vec::new());
        loop {
            match body.next(bytes, u64::MAX).expect("not refused") {
                BodyEvent::Data { data: run, consume } => {
                    data.extend_from_slice(&bytes[run]);
                    bytes = &bytes[consume..];
                }
                BodyEvent::End { consume, .. } => {
                    bytes = &bytes[consume..];
                    break;
                }
                BodyEvent::More { .. } => {
                    assert!(body.end(), "the body is complete");
                    break;
                }
            }
        }
        found.push((head.status, data));
    }
    found
}
