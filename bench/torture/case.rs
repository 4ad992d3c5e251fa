//! The vocabulary of the torture program: a case is what one connection does between two decisions. Its bytes are
//! sent, its expected answers are matched in order, and its finish says what becomes of the rest. `cases.rs` makes
//! cases, `exchange.rs` judges what the server answers to them.

use crate::answer::{Answer, Asked};
use crate::malformed::MALFORMED;

/// A row of the ledger. Each request attempt counts in exactly one.
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
    AbortedMidAnswer,
    /// Not a request: an idle keep-alive connection that the client ends, which the server must close too.
    HangUp,
    /// Index into [`MALFORMED`].
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
    "aborted mid-answer",
    "(hang-up)",
];

impl Kind {
    /// Number of rows.
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
            Kind::AbortedMidAnswer => 13,
            Kind::HangUp => 14,
            Kind::Malformed(index) => NAMES.len() + usize::from(index),
        }
    }

    /// What to call row `row` in print.
    pub(crate) fn row_name(row: usize) -> String {
        match NAMES.get(row) {
            Some(name) => (*name).to_string(),
            None => format!("bad: {}", MALFORMED[row - NAMES.len()].name),
        }
    }
}

/// The body that a valid request must be answered with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Hello,
    /// The JSON of the user with this number.
    User(u64),
    /// What was posted: so many bytes of the pool from this place on.
    Posted(usize, usize),
    /// Whatever the server likes, such as the text of a 404.
    Any,
    /// A HEAD answer: no body, and the length of the GET answer if one is announced.
    HeadOf(usize),
}

/// One answer that a case waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    /// Any of these.
    pub(crate) status: &'static [u16],
    pub(crate) body: Body,
    /// Methods that the `Allow` header must name.
    pub(crate) allow: &'static [&'static str],
}

impl Expected {
    pub(crate) fn asked(&self) -> Asked {
        match self.body {
            Body::HeadOf(_) => Asked::HeadOnly,
            _ => Asked::Body,
        }
    }

    /// Compares a final answer with what it should be; `pool` is where posted bodies come from.
    pub(crate) fn check(&self, answer: &Answer, pool: &[u8]) -> Result<(), String> {
        if !self.status.contains(&answer.status) {
            return Err(format!("status {} instead of {:?}", answer.status, self.status));
        }
        let allow = answer.header("allow").unwrap_or_default();
        let named = |method: &str| allow.split(|&byte| byte == b',').any(|word| word.trim_ascii() == method.as_bytes());
        if let Some(method) = self.allow.iter().find(|method| !named(method)) {
            return Err(format!("Allow does not name {method}"));
        }
        let right = match self.body {
            Body::Any => true,
            Body::Hello => *answer.body == *b"Hello, World!\n",
            Body::User(id) => *answer.body == *user_json(id).as_bytes(),
            Body::Posted(start, length) => *answer.body == pool[start..start + length],
            Body::HeadOf(length) => {
                answer.header("content-length").is_none_or(|value| value == length.to_string().as_bytes())
            }
        };
        match right {
            true => Ok(()),
            false => Err(format!("wrong body or length for {:?}: {} bytes", self.body, answer.body.len())),
        }
    }
}

/// The body of `GET /users/<id>`.
pub(crate) fn user_json(id: u64) -> String {
    format!("{{\"id\":\"{id}\"}}")
}

/// Whether the connection may go on after a refused request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Closing {
    /// The framing is in doubt: what follows must not be taken for a request.
    Must,
    May,
}

/// What becomes of the connection after the expected answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Finish {
    /// It serves the next case.
    Keep,
    /// The server closes it.
    ServerCloses,
    /// One more request was malformed: answered by one of `allowed`, or closed.
    Refuse { kind: Kind, allowed: &'static [u16], closing: Closing },
    /// Half a request (or none) was sent and then FIN: a 4xx or nothing, and the server closes.
    HalfClose { kind: Kind },
    /// RST when all is sent and `turns` turns of the loop have gone by.
    Reset { kind: Kind, turns: u32 },
    /// RST when `after` bytes of the answer are here.
    ResetMidAnswer { kind: Kind, after: usize },
}

impl Finish {
    /// The ledger row of the request that the finish is about, if it is about one.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match *self {
            Finish::Keep | Finish::ServerCloses => None,
            Finish::Refuse { kind, .. }
            | Finish::HalfClose { kind }
            | Finish::Reset { kind, .. }
            | Finish::ResetMidAnswer { kind, .. } => Some(kind),
        }
    }
}

/// How the bytes go out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Whole,
    /// One piece of 1 to so many bytes per turn of the loop.
    Fragments(usize),
}

/// See the head of the file. The buffers are used again for the next case.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) out: Vec<u8>,
    pub(crate) answers: Vec<Expected>,
    pub(crate) finish: Finish,
    pub(crate) pace: Pace,
    /// Send no further than this before a 100 Continue has come.
    pub(crate) hold: Option<usize>,
}

impl Case {
    pub(crate) fn new() -> Case {
        Case { out: Vec::new(), answers: Vec::new(), finish: Finish::Keep, pace: Pace::Whole, hold: None }
    }

    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.answers.clear();
        (self.finish, self.pace, self.hold) = (Finish::Keep, Pace::Whole, None);
    }

    /// The ledger rows of everything that this case attempts.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.answers.iter().map(|expected| expected.kind).chain(self.finish.kind())
    }

    /// Request attempts in this case.
    pub(crate) fn requests(&self) -> u64 {
        self.kinds().filter(|kind| *kind != Kind::HangUp).count() as u64
    }
}
