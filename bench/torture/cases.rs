//! Generates random cases for `client.rs`: their kinds, and the bytes of valid, truncated and aborted requests.
//! `malformed.rs` generates malformed requests. Most requests differ in their path or body, so that the client detects
//! a response to another request.

use crate::case::{Body, Case, Expected, Finish, Kind, Pace, user_json};
use crate::malformed::MALFORMED;
use crate::prng::Prng;

const OK: &[u16] = &[200];
const BODY_MOST: usize = 64 * 1024;
/// The maximum length of a body in a pipeline or in fragments, in bytes.
const SMALL_BODY: usize = 2 * 1024;
const LARGE_BODY: usize = 1024 * 1024;
const HELLO_LENGTH: usize = 14;

/// The weight of each kind: its probability is the weight divided by the sum of all weights.
const WEIGHTS: [(Kind, usize); 16] = [
    (Kind::Get, 250),
    (Kind::Post, 100),
    (Kind::PostChunked, 80),
    (Kind::Pipelined, 30),
    (Kind::Fragments, 40),
    (Kind::Head, 40),
    (Kind::Options, 30),
    (Kind::Missing, 40),
    (Kind::LastOnConnection, 30),
    (Kind::Continue, 20),
    (Kind::TruncatedFin, 40),
    (Kind::TruncatedReset, 40),
    (Kind::Aborted, 50),
    (Kind::AbortedMidResponse, 2),
    (Kind::HangUp, 20),
    (Kind::Malformed(0), 160),
];

pub(crate) struct Cases {
    random: Prng,
    /// Random bytes. All posted bodies are slices of this pool.
    pub(crate) pool: Vec<u8>,
    next_id: u64,
}

impl Cases {
    pub(crate) fn new(seed: u64) -> Cases {
        let mut random = Prng::new(seed);
        let pool = (0..LARGE_BODY / 4).flat_map(|_| random.next().to_le_bytes()).collect();
        Cases { random, pool, next_id: 0 }
    }

    /// Replaces `case` with a new case of at most `budget` requests. `budget` must not be 0.
    pub(crate) fn fill(&mut self, case: &mut Case, budget: u64) {
        case.clear();
        let kind = self.draw();
        match kind {
            Kind::Get => self.get(case, kind),
            Kind::Post => self.post(case, kind, BODY_MOST),
            Kind::PostChunked => self.post_chunked(case, kind, BODY_MOST),
            Kind::Pipelined => self.pipelined(case, budget),
            Kind::Fragments => {
                self.any_small(case, kind);
                case.pace = Pace::Fragments(1 + case.out.len() / self.random.between(2, 8));
            }
            Kind::Head => self.head(case, kind),
            Kind::Options => self.options(case, kind),
            Kind::Missing => self.missing(case, kind),
            Kind::LastOnConnection => self.last(case, kind),
            Kind::Continue => self.wait_for_continue(case, kind),
            Kind::Malformed(_) => self.malformed(case, budget),
            Kind::HangUp => case.finish = Finish::HalfClose { kind },
            Kind::TruncatedFin | Kind::TruncatedReset => self.truncated(case, kind),
            Kind::Aborted => {
                self.any_small(case, kind);
                case.responses.clear();
                case.finish = Finish::Reset { kind, turns: self.random.below(4) as u32 };
            }
            Kind::AbortedMidResponse => {
                let length = self.random.between(LARGE_BODY / 4, LARGE_BODY);
                self.post_exactly(case, kind, length);
                case.responses.clear();
                case.finish = Finish::ResetMidResponse { kind, after: self.random.between(1, length / 2) };
            }
        }
    }

    fn draw(&mut self) -> Kind {
        let mut at = self.random.below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in WEIGHTS {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        Kind::Get
    }

    /// Adds a small valid request to the case.
    fn any_small(&mut self, case: &mut Case, kind: Kind) {
        match self.random.below(16) {
            0..8 => self.get(case, kind),
            8..10 => self.post(case, kind, SMALL_BODY),
            10..12 => self.post_chunked(case, kind, SMALL_BODY),
            12..14 => self.head(case, kind),
            14 => self.options(case, kind),
            _ => self.missing(case, kind),
        }
    }

    fn pipelined(&mut self, case: &mut Case, budget: u64) {
        let count = self.random.between(2, 32).min(budget as usize);
        (0..count).for_each(|_| self.any_small(case, Kind::Pipelined));
        if self.random.one_in(4) {
            case.pace = Pace::Fragments(1 + case.out.len() / self.random.between(2, 8));
        }
    }

    fn get(&mut self, case: &mut Case, kind: Kind) {
        if self.random.one_in(8) {
            let target = *self.random.pick(&["/", "/?", "/?a=1&b=%20+c", "http://t/"]);
            self.head_of(case, "GET", target);
            case.out.extend_from_slice(b"\r\n");
            return expect(case, kind, OK, Body::Hello);
        }
        let id = self.id();
        let start = *self.random.pick(&["", "", "", "http://t"]);
        let end = *self.random.pick(&["", "", "", "?q=a+b&r=%41", "?"]);
        self.head_of(case, "GET", &format!("{start}/users/{id}{end}"));
        case.out.extend_from_slice(b"\r\n");
        expect(case, kind, OK, Body::User(id));
    }

    fn head(&mut self, case: &mut Case, kind: Kind) {
        let id = self.id();
        let (target, length) = match self.random.one_in(2) {
            true => ("/".to_string(), HELLO_LENGTH),
            false => (format!("/users/{id}"), user_json(id).len()),
        };
        self.head_of(case, "HEAD", &target);
        case.out.extend_from_slice(b"\r\n");
        expect(case, kind, OK, Body::HeadOf(length));
    }

    fn options(&mut self, case: &mut Case, kind: Kind) {
        let allow: [(&str, &'static [&'static str]); 4] =
            [("/", &["GET", "HEAD"]), ("/users/7", &["GET", "HEAD"]), ("/echo", &["POST"]), ("*", &[])];
        let (target, allow) = *self.random.pick(&allow);
        self.head_of(case, "OPTIONS", target);
        case.out.extend_from_slice(b"\r\n");
        case.responses.push(Expected { kind, status: &[200, 204], body: Body::Any, allow });
    }

    /// Adds a request for a target without a route (404), or with a method that the route does not have (405).
    fn missing(&mut self, case: &mut Case, kind: Kind) {
        let id = self.id();
        let (method, target, status, allow): (_, _, &[u16], &[&str]) = match self.random.below(4) {
            0 => ("DELETE", format!("/users/{id}"), &[405], &["GET", "HEAD"]),
            1 => ("GET", "/echo".to_string(), &[405], &["POST"]),
            2 => ("GET", format!("/users/{id}/none"), &[404], &[]),
            _ => ("GET", format!("/none/{id}"), &[404], &[]),
        };
        self.head_of(case, method, &target);
        case.out.extend_from_slice(b"\r\n");
        case.responses.push(Expected { kind, status, body: Body::Any, allow });
    }

    fn post(&mut self, case: &mut Case, kind: Kind, most: usize) {
        let length = self.random.length(most);
        self.post_exactly(case, kind, length);
    }

    fn post_exactly(&mut self, case: &mut Case, kind: Kind, length: usize) {
        let start = self.place(length);
        self.head_of(case, "POST", "/echo");
        case.out.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        case.out.extend_from_slice(&self.pool[start..start + length]);
        expect(case, kind, OK, Body::Posted(start, length));
    }

    fn post_chunked(&mut self, case: &mut Case, kind: Kind, most: usize) {
        let length = self.random.length(most);
        let start = self.place(length);
        self.head_of(case, "POST", "/echo");
        let coding = *self.random.pick(&["chunked", "chunked", "Chunked"]);
        case.out.extend_from_slice(format!("Transfer-Encoding: {coding}\r\n\r\n").as_bytes());
        // On average a body has at most about 64 chunks.
        let most = self.random.between(length / 32 + 1, length + 1);
        let mut at = 0;
        while at < length {
            let size = self.random.between(1, most).min(length - at);
            self.chunk_line(case, size);
            case.out.extend_from_slice(&self.pool[start + at..start + at + size]);
            case.out.extend_from_slice(b"\r\n");
            at += size;
        }
        self.chunk_line(case, 0);
        let trailer = *self.random.pick(&["", "", "X-Sum: 1\r\n", "X-Sum: 1\r\nX-Other: a b\r\n"]);
        case.out.extend_from_slice(trailer.as_bytes());
        case.out.extend_from_slice(b"\r\n");
        expect(case, kind, OK, Body::Posted(start, length));
    }

    /// Adds the line of a chunk's size, in one of its spellings, sometimes with an extension (RFC 9112, section 7.1.1).
    fn chunk_line(&mut self, case: &mut Case, size: usize) {
        let extension = *self.random.pick(&["", "", "", "", ";a", ";a=b", ";a=\"b c\"", ";a=1;b=2"]);
        let line = match self.random.below(4) {
            0 => format!("{size:X}{extension}\r\n"),
            1 => format!("{size:06x}{extension}\r\n"),
            _ => format!("{size:x}{extension}\r\n"),
        };
        case.out.extend_from_slice(line.as_bytes());
    }

    /// Adds a request after which the server closes the connection: it contains `Connection: close`, or is an HTTP/1.0
    /// request.
    fn last(&mut self, case: &mut Case, kind: Kind) {
        let id = self.id();
        let request = match self.random.below(3) {
            0 => format!("GET /users/{id} HTTP/1.0\r\n\r\n"),
            1 => format!("GET /users/{id} HTTP/1.0\r\nHost: t\r\nConnection: close\r\n\r\n"),
            _ => format!("GET /users/{id} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"),
        };
        case.out.extend_from_slice(request.as_bytes());
        expect(case, kind, OK, Body::User(id));
        case.finish = Finish::ServerCloses;
    }

    /// Adds a POST whose body is sent after a 100 Continue (RFC 9110, section 10.1.1).
    fn wait_for_continue(&mut self, case: &mut Case, kind: Kind) {
        let length = 1 + self.random.length(SMALL_BODY);
        let start = self.place(length);
        self.head_of(case, "POST", "/echo");
        case.out.extend_from_slice(format!("Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n").as_bytes());
        case.hold = Some(case.out.len());
        case.out.extend_from_slice(&self.pool[start..start + length]);
        expect(case, kind, OK, Body::Posted(start, length));
    }

    /// Adds a malformed request, sometimes after valid requests in the same pipeline, which must still be answered.
    fn malformed(&mut self, case: &mut Case, budget: u64) {
        if self.random.one_in(4) {
            let count = self.random.between(1, 3).min(budget as usize - 1);
            (0..count).for_each(|_| self.any_small(case, Kind::Pipelined));
        }
        let index = self.random.below(MALFORMED.len());
        let entry = &MALFORMED[index];
        (entry.write)(&mut case.out, &mut self.random);
        if self.random.one_in(8) {
            case.pace = Pace::Fragments(1 + case.out.len() / self.random.between(2, 8));
        }
        let kind = Kind::Malformed(index as u8);
        case.finish = Finish::Refuse { kind, allowed: entry.allowed, closing: entry.closing };
    }

    fn truncated(&mut self, case: &mut Case, kind: Kind) {
        self.any_small(case, kind);
        case.responses.clear();
        case.out.truncate(self.random.between(1, case.out.len() - 1));
        case.finish = match kind {
            Kind::TruncatedFin => Finish::HalfClose { kind },
            _ => Finish::Reset { kind, turns: self.random.below(4) as u32 },
        };
    }

    /// Adds the request line, Host and some harmless fields, but no blank line.
    fn head_of(&mut self, case: &mut Case, method: &str, target: &str) {
        let host = *self.random.pick(&["Host: t", "host: t", "HOST:t", "Host: \t t:80 "]);
        case.out.extend_from_slice(format!("{method} {target} HTTP/1.1\r\n{host}\r\n").as_bytes());
        for _ in 0..self.random.length(6) {
            let line = *self.random.pick(&[
                "Accept: */*",
                "User-Agent: torture/1 (x; y)",
                "X-Empty:",
                "Connection: keep-alive",
            ]);
            case.out.extend_from_slice(line.as_bytes());
            case.out.extend_from_slice(b"\r\n");
        }
        if self.random.one_in(8) {
            case.out.extend_from_slice(b"X-Filler: ");
            let length = self.random.length(4096);
            case.out.resize(case.out.len() + length, b'f');
            case.out.extend_from_slice(b"\r\n");
        }
    }

    /// Returns a position in the pool for a body of `length` bytes.
    fn place(&mut self, length: usize) -> usize {
        self.random.below(self.pool.len() - length)
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

fn expect(case: &mut Case, kind: Kind, status: &'static [u16], body: Body) {
    case.responses.push(Expected { kind, status, body, allow: &[] });
}
