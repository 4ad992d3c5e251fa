//! Checks a server's responses to one case, without sockets: `client.rs` passes received bytes, or reports that the
//! stream has ended, and gets a verdict. Responses must arrive in the order of the requests. Bytes that are not a
//! response to a request are a failure.

use crate::case::{Case, Finish};
use crate::malformed::Closing;
use crate::response::{self, Input, Method};

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// More bytes must arrive.
    Wait,
    /// A 100 Continue has arrived: send the rest of the request, then wait.
    Proceed,
    /// The case has succeeded, and the next case may use the connection.
    Reuse,
    /// The case has succeeded, and the connection must be closed.
    Drop,
    /// The server has made an error, which the string describes.
    Wrong(String),
}

/// How the additional request of the case's `finish` ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The server responded with an appropriate 4xx or 5xx status.
    Refused,
    /// The server or the client closed the connection without a response.
    Closed,
}

pub(crate) struct Exchange {
    pub(crate) case: Case,
    pub(crate) inbox: Vec<u8>,
    /// The number of correct responses so far.
    pub(crate) answered: usize,
    /// The number of bytes of `inbox` that have been checked.
    checked: usize,
    refused: bool,
}

impl Exchange {
    pub(crate) fn new() -> Exchange {
        Exchange { case: Case::new(), inbox: Vec::new(), answered: 0, checked: 0, refused: false }
    }

    /// Resets the progress. Called when a new case has been stored in `case`.
    pub(crate) fn begin(&mut self) {
        self.inbox.clear();
        (self.answered, self.checked, self.refused) = (0, 0, false);
    }

    pub(crate) fn ending(&self) -> Ending {
        match self.refused {
            true => Ending::Refused,
            false => Ending::Closed,
        }
    }

    /// Checks `bytes`, which the server has sent. `pool` contains the posted bodies.
    pub(crate) fn received(&mut self, bytes: &[u8], pool: &[u8]) -> Verdict {
        self.inbox.extend_from_slice(bytes);
        self.check(Input::Open, pool)
    }

    /// Checks whether the server was allowed to end the stream, with FIN or RST.
    pub(crate) fn ended(&mut self, pool: &[u8]) -> Verdict {
        match self.check(Input::Ended, pool) {
            Verdict::Wait | Verdict::Proceed => {}
            decided => return decided,
        }
        if self.answered < self.case.responses.len() {
            return Verdict::Wrong("closed before a valid request was answered".into());
        }
        match self.case.finish {
            Finish::ResetMidResponse { .. } => {
                Verdict::Wrong("closed before the response was long enough to abort".into())
            }
            _ if self.checked < self.inbox.len() && !matches!(self.case.finish, Finish::Reset { .. }) => {
                Verdict::Wrong("closed inside a response".into())
            }
            _ => Verdict::Drop,
        }
    }

    fn check(&mut self, input: Input, pool: &[u8]) -> Verdict {
        let mut proceed = false;
        while self.answered < self.case.responses.len() {
            let expected = self.case.responses[self.answered];
            let response = match response::parse(&self.inbox[self.checked..], expected.method(), input) {
                Err(fault) => return Verdict::Wrong(fault.into()),
                Ok(None) if proceed => return Verdict::Proceed,
                Ok(None) => return Verdict::Wait,
                Ok(Some(response)) => response,
            };
            self.checked += response.consumed;
            if response.status == 100 {
                proceed = true;
                continue;
            }
            if let Err(fault) = expected.check(&response, pool) {
                return Verdict::Wrong(fault);
            }
            self.answered += 1;
        }
        self.check_finish(input)
    }

    fn check_finish(&mut self, input: Input) -> Verdict {
        let surplus = self.checked < self.inbox.len();
        match self.case.finish {
            Finish::Keep | Finish::ServerCloses if surplus => Verdict::Wrong("bytes without a request".into()),
            Finish::Keep => Verdict::Reuse,
            Finish::ServerCloses | Finish::Reset { .. } => Verdict::Wait,
            Finish::ResetMidResponse { after, .. } if self.inbox.len() >= after => Verdict::Drop,
            Finish::ResetMidResponse { .. } => Verdict::Wait,
            Finish::Refuse { allowed, closing, .. } => self.check_refusal(input, Some(allowed), closing),
            Finish::HalfClose { .. } => self.check_refusal(input, None, Closing::Must),
        }
    }

    /// Checks the rest of the input, which may have at most one error response. If `allowed` is `None`, any 4xx status
    /// is correct.
    fn check_refusal(&mut self, input: Input, allowed: Option<&[u16]>, closing: Closing) -> Verdict {
        let rest = &self.inbox[self.checked..];
        if self.refused || rest.is_empty() {
            return match rest.is_empty() {
                true => Verdict::Wait,
                false => Verdict::Wrong("bytes after the response to a malformed request".into()),
            };
        }
        let response = match response::parse(rest, Method::Other, input) {
            Err(fault) => return Verdict::Wrong(fault.into()),
            Ok(None) => return Verdict::Wait,
            Ok(Some(response)) => response,
        };
        self.checked += response.consumed;
        if response.status == 100 {
            return self.check_refusal(input, allowed, closing);
        }
        let fits = allowed.map_or((400..500).contains(&response.status), |list| list.contains(&response.status));
        if !fits {
            let wanted = allowed.map_or("4xx".into(), |list| format!("{list:?}"));
            let fault = format!("status {} instead of {wanted} or a close", response.status);
            return Verdict::Wrong(fault);
        }
        self.refused = true;
        if self.checked < self.inbox.len() {
            return Verdict::Wrong("bytes after the response to a malformed request".into());
        }
        match closing == Closing::May && !response.close {
            true => Verdict::Reuse,
            false => Verdict::Wait,
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
