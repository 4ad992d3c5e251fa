//! The server as a machine: no socket, no Lua, no clock. A wire of memory joins it and a client; the test decides which
//! bytes have come, how many the peer takes, and what time it is.

mod answers;
mod bodies;
mod closing;
mod limits;
mod properties;
mod requests;
mod wire;

use super::*;
use crate::codec::http1::body::{Incoming, Run};
use crate::codec::http1::fields::NO_FIELDS;
use crate::codec::http1::head::Progress;
use crate::codec::http1::response_head::{self, Asked};
use crate::stream::queue::Sent;
use wire::{Pipe, Wire};

const SECOND: u64 = 1_000_000_000;

/// One server, its connections, and what has happened.
struct Pair {
    server: Server<Pipe>,
    wires: Vec<(ConnectionId, Wire)>,
    clock: Clock,
    /// Requests that were dispatched and not answered by themselves, in order.
    waiting: Vec<RequestId>,
    /// Method and path of each request that was dispatched; waits that ended; connections that left.
    log: Vec<String>,
}

/// What a handler does at once.
enum Act {
    Text(Vec<u8>),
    /// It answers later.
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

    /// A new connection, which is number 0, 1, 2 …
    fn connect(&mut self) -> usize {
        let (wire, pipe) = wire::pair();
        let id = self.server.accept(pipe).expect("a name is free");
        self.wires.push((id, wire));
        self.run();
        self.wires.len() - 1
    }

    /// A new connection on which this has come; what it is answered with.
    fn exchange(&mut self, bytes: &[u8]) -> String {
        let number = self.connect();
        self.send(number, bytes);
        self.got(number)
    }

    /// Bytes come in.
    fn send(&mut self, number: usize, bytes: &[u8]) {
        self.wires[number].1.deliver(bytes);
        self.events(number);
    }

    /// The client ends its side.
    fn end(&mut self, number: usize) {
        self.wires[number].1.end();
        self.events(number);
    }

    /// The client takes so many bytes more.
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

    /// Does all that is to be done now.
    fn run(&mut self) {
        loop {
            match self.server.next(self.clock) {
                Work::Dispatch { id, .. } => self.handle(id),
                Work::Resume { id, why } => {
                    assert!(self.waiting.contains(&id), "a wait of nobody");
                    self.log.push(format!("{why:?}"));
                }
                Work::Room => self.log.push("room".to_string()),
                Work::Idle => break,
            }
        }
        self.server.flush();
    }

    fn handle(&mut self, id: RequestId) {
        let view = self.server.head(id).expect("its head is there");
        let path = String::from_utf8_lossy(view.head.path(view.bytes)).into_owned();
        let method = String::from_utf8_lossy(view.head.method.of(view.bytes)).into_owned();
        self.server.take_head(id);
        self.log.push(format!("{method} {path}"));
        let act = match &*path {
            "/wait" | "/echo" => Act::Wait,
            _ => match path.strip_prefix("/len/") {
                Some(length) => Act::Text(pattern(length.parse().unwrap_or(0))),
                None => Act::Text(path.clone().into_bytes()),
            },
        };
        match act {
            Act::Text(text) => self.answer(id, &text),
            Act::Wait => self.waiting.push(id),
        }
        if path == "/echo" {
            self.echo(id);
        }
    }

    /// Answers with the body of a request, once it is there.
    fn echo(&mut self, id: RequestId) {
        let mut body = Vec::new();
        let read = self.server.read_body(id, 1 << 20, How::Whole, &mut body);
        match read {
            Read::Data => self.answer(id, &body),
            Read::Pending => {
                self.server.wait(id, Interest::Read, self.clock);
            }
            other => {
                self.log.push(format!("{other:?}"));
                self.answer(id, b"refused");
            }
        }
    }

    /// Goes on with the echo of the first request that waits for its body.
    fn echo_on(&mut self) {
        let id = self.waiting[0];
        self.echo(id);
        self.run();
    }

    /// Answers a request, which is over then.
    fn answer(&mut self, id: RequestId, text: &[u8]) {
        let responded = self.server.respond(id, Response::text(text), self.clock);
        if let Responded::Rest(mut taken) = responded {
            while matches!(self.server.send(id, text, &mut taken), Some(Sent::Blocked | Sent::Turn)) {
                let number = self.wires.iter().position(|(one, _)| one.slot() == id.slot());
                self.wires[number.unwrap()].1.take(10_000);
            }
        }
        self.waiting.retain(|one| *one != id);
        self.server.end(id, End::Kept);
    }

    /// Answers the first request that waits.
    fn answer_first(&mut self, text: &[u8]) {
        let id = self.waiting[0];
        self.answer(id, text);
        self.run();
    }

    /// What the client has got since it asked last.
    fn got(&mut self, number: usize) -> String {
        String::from_utf8_lossy(&self.wires[number].1.got()).into_owned()
    }

    fn is_closed(&self, number: usize) -> bool {
        self.wires[number].1.is_closed()
    }

    /// Whether our side is ended, though the connection is not closed.
    fn lingers(&self, number: usize) -> bool {
        self.wires[number].1.is_ended() && !self.is_closed(number)
    }
}

/// Bytes of a body that are told apart.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + (at % 23) as u8).collect()
}

/// A GET of HTTP/1.1.
fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut all = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    all.extend_from_slice(body);
    all
}

/// Answers as a client reads them: status and body of each; `heads` tells which are to HEAD. Panics when they are
/// malformed, or something is left.
fn answers(mut bytes: &[u8], heads: &[bool]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let asked = match heads.get(found.len()) {
            Some(true) => Asked::Head,
            _ => Asked::Other,
        };
        let mut fields = Box::new(NO_FIELDS);
        let (limits, mut progress) = ((1 << 16, 100), Progress::default());
        let parsed = response_head::parse(bytes, asked, limits, &mut progress, &mut fields);
        let head = parsed.expect("a right answer").expect("a whole head");
        bytes = &bytes[head.head_len..];
        if head.status == 100 {
            continue;
        }
        let (mut body, mut data) = (Incoming::new(head.framing), Vec::new());
        loop {
            match body.next(bytes).expect("a right body") {
                Run::Data { data: run, consume } => {
                    data.extend_from_slice(&bytes[run]);
                    bytes = &bytes[consume..];
                }
                Run::End { consume, .. } => {
                    bytes = &bytes[consume..];
                    break;
                }
                Run::More { .. } => {
                    assert!(body.end(), "the body is cut");
                    break;
                }
            }
        }
        found.push((head.status, data));
    }
    found
}
