//! The types of the torture program. A case is a sequence of requests on one connection: the bytes to send, the
//! expected responses in order, and what happens to the connection after these responses. `cases.rs` generates cases;
//! `exchange.rs` checks the server's responses.

use crate::malformed::{Closing, MALFORMED};
use crate::response::{Method, Response};

/// The kind of a request. Each kind has a row in the table of results, and each request attempt counts in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Get,
    Post,
    PostChunked,
    Pipelined,
    Fragments,
    Head,
    Options,
    Missing,
    LastOnConnection,
    Continue,
    TruncatedFin,
    TruncatedReset,
    Aborted,
    AbortedMidResponse,
    /// Not a request: the client ends an idle keep-alive connection, and the server must close it too.
    HangUp,
    /// A malformed request: its index in [`MALFORMED`].
    Malformed(u8),
}

const NAMES: [&str; 15] = [
    "GET",
    "POST by length",
    "POST chunked",
    "pipelined",
    "in fragments",
    "HEAD",
    "OPTIONS",
    "404 and 405",
    "last on connection",
    "100-continue",
    "truncated, FIN",
    "truncated, RST",
    "aborted at once",
    "aborted mid-response",
    "(hang-up)",
];

impl Kind {
    /// The number of rows.
    pub(crate) const ROWS: usize = NAMES.len() + MALFORMED.len();

    pub(crate) fn row(self) -> usize {
        match self {
            Kind::Get => 0,
            Kind::Post => 1,
            Kind::PostChunked => 2,
            Kind::Pipelined => 3,
            Kind::Fragments => 4,
            Kind::Head => 5,
            Kind::Options => 6,
            Kind::Missing => 7,
            Kind::LastOnConnection => 8,
            Kind::Continue => 9,
            Kind::TruncatedFin => 10,
            Kind::TruncatedReset => 11,
            Kind::Aborted => 12,
            Kind::AbortedMidResponse => 13,
            Kind::HangUp => 14,
            Kind::Malformed(index) => NAMES.len() + usize::from(index),
        }
    }

    /// Returns the printed name of a row.
    pub(crate) fn row_name(row: usize) -> String {
        match NAMES.get(row) {
            Some(name) => (*name).to_string(),
            None => format!("bad: {}", MALFORMED[row - NAMES.len()].name),
        }
    }
}

/// The expected body of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Hello,
    /// The JSON of the user with this number.
    User(u64),
    /// The posted body: its position in the pool, and its length.
    Posted(usize, usize),
    /// Any body, such as the message of a 404.
    Any,
    /// The response to a HEAD request: it has no body, and its Content-Length, if there is one, is this number.
    HeadOf(usize),
}

/// An expected response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    /// The allowed statuses.
    pub(crate) status: &'static [u16],
    pub(crate) body: Body,
    /// The methods that the field `Allow` must list.
    pub(crate) allow: &'static [&'static str],
}

impl Expected {
    pub(crate) fn method(&self) -> Method {
        match self.body {
            Body::HeadOf(_) => Method::Head,
            _ => Method::Other,
        }
    }

    /// Compares a final response with the expected response. `pool` contains the posted bodies.
    pub(crate) fn check(&self, response: &Response, pool: &[u8]) -> Result<(), String> {
        if !self.status.contains(&response.status) {
            return Err(format!("status {} instead of {:?}", response.status, self.status));
        }
        let allow = response.header("allow").unwrap_or_default();
        let named = |method: &str| allow.split(|&byte| byte == b',').any(|word| word.trim_ascii() == method.as_bytes());
        if let Some(method) = self.allow.iter().find(|method| !named(method)) {
            return Err(format!("the Allow header does not list {method}"));
        }
        let is_correct = match self.body {
            Body::Any => true,
            Body::Hello => *response.body == *b"Hello, World!\n",
            Body::User(id) => *response.body == *user_json(id).as_bytes(),
            Body::Posted(start, length) => *response.body == pool[start..start + length],
            Body::HeadOf(length) => {
                response.header("content-length").is_none_or(|value| value == length.to_string().as_bytes())
            }
        };
        match is_correct {
            true => Ok(()),
            false => Err(format!("wrong body or length for {:?}: {} bytes", self.body, response.body.len())),
        }
    }
}

/// Returns the body of the response to `GET /users/<id>`.
pub(crate) fn user_json(id: u64) -> String {
    format!("{{\"id\":\"{id}\"}}")
}

/// How a case ends after the expected responses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish {
    /// The connection stays open, and the next case uses it.
    Keep,
    /// The server closes the connection.
    ServerCloses,
    /// The client sends one more request, which is malformed: the server responds with a status in `allowed`, or closes
    /// the connection.
    Refuse { kind: Kind, allowed: &'static [u16], closing: Closing },
    /// The client sends a part of a request (or nothing) and then FIN. The server may respond with a 4xx status, and
    /// closes the connection.
    HalfClose { kind: Kind },
    /// The client sends all bytes, and then sends RST after `turns` more turns of its loop.
    Reset { kind: Kind, turns: u32 },
    /// The client sends RST when it has received `after` bytes of the response.
    ResetMidResponse { kind: Kind, after: usize },
}

impl Finish {
    /// Returns the kind of the additional request, or `None` if there is no such request.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match *self {
            Finish::Keep | Finish::ServerCloses => None,
            Finish::Refuse { kind, .. }
            | Finish::HalfClose { kind }
            | Finish::Reset { kind, .. }
            | Finish::ResetMidResponse { kind, .. } => Some(kind),
        }
    }
}

/// How the client sends the bytes of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Whole,
    /// The client sends one piece per turn of its loop. A piece has 1 to this number of bytes.
    Fragments(usize),
}

/// A sequence of requests on one connection (see the head of this file). Its buffers are reused for the next case.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) out: Vec<u8>,
    pub(crate) responses: Vec<Expected>,
    pub(crate) finish: Finish,
    pub(crate) pace: Pace,
    /// The number of bytes that the client may send before it has received a 100 Continue; `None`: all bytes.
    pub(crate) hold: Option<usize>,
}

impl Case {
    pub(crate) fn new() -> Case {
        Case { out: Vec::new(), responses: Vec::new(), finish: Finish::Keep, pace: Pace::Whole, hold: None }
    }

    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.responses.clear();
        (self.finish, self.pace, self.hold) = (Finish::Keep, Pace::Whole, None);
    }

    /// Returns the kinds of all requests of this case.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.responses.iter().map(|expected| expected.kind).chain(self.finish.kind())
    }

    /// Returns the number of request attempts in this case.
    pub(crate) fn requests(&self) -> u64 {
        self.kinds().filter(|kind| *kind != Kind::HangUp).count() as u64
    }
}
