//! Judges what a server answers to one case, apart from any socket: `client.rs` hands in the bytes received and
//! the end of the stream, and is told how to go on. Answers are matched with requests strictly in order; a byte that
//! nothing asked for is a failure.

use crate::answer::{self, Asked, Input};
use crate::case::{Case, Closing, Finish};

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// More must come.
    Wait,
    /// A 100 Continue has come: send what was held back, then wait.
    Proceed,
    /// All is as it should be, and the connection serves on.
    Reuse,
    /// All is as it should be, and the connection is done with.
    Drop,
    /// The server did something wrong.
    Wrong(String),
}

/// How the request that the case's finish is about ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// It was answered by a 4xx or 5xx that fits.
    Refused,
    /// One side closed without an answer to it.
    Closed,
}

pub(crate) struct Exchange {
    pub(crate) case: Case,
    pub(crate) inbox: Vec<u8>,
    /// Requests answered rightly so far.
    pub(crate) answered: usize,
    /// Bytes of `inbox` that were judged.
    judged: usize,
    refused: bool,
}

impl Exchange {
    pub(crate) fn new() -> Exchange {
        Exchange { case: Case::new(), inbox: Vec::new(), answered: 0, judged: 0, refused: false }
    }

    /// Forgets the last case's progress; the caller has filled in a new case.
    pub(crate) fn begin(&mut self) {
        self.inbox.clear();
        (self.answered, self.judged, self.refused) = (0, 0, false);
    }

    pub(crate) fn ending(&self) -> Ending {
        match self.refused {
            true => Ending::Refused,
            false => Ending::Closed,
        }
    }

    /// Takes bytes from the server. `pool` is where posted bodies come from.
    pub(crate) fn received(&mut self, bytes: &[u8], pool: &[u8]) -> Verdict {
        self.inbox.extend_from_slice(bytes);
        self.judge(Input::Open, pool)
    }

    /// Takes the end of the stream, orderly or by a reset.
    pub(crate) fn ended(&mut self, pool: &[u8]) -> Verdict {
        match self.judge(Input::Ended, pool) {
            Verdict::Wait | Verdict::Proceed => {}
            decided => return decided,
        }
        if self.answered < self.case.answers.len() {
            return Verdict::Wrong("closed before a valid request was answered".into());
        }
        match self.case.finish {
            Finish::ResetMidAnswer { .. } => Verdict::Wrong("closed before the answer was long enough to abort".into()),
            _ if self.judged < self.inbox.len() && !matches!(self.case.finish, Finish::Reset { .. }) => {
                Verdict::Wrong("closed inside an answer".into())
            }
            _ => Verdict::Drop,
        }
    }

    fn judge(&mut self, input: Input, pool: &[u8]) -> Verdict {
        let mut proceed = false;
        while self.answered < self.case.answers.len() {
            let expected = self.case.answers[self.answered];
            let answer = match answer::parse(&self.inbox[self.judged..], expected.asked(), input) {
                Err(fault) => return Verdict::Wrong(fault.into()),
                Ok(None) if proceed => return Verdict::Proceed,
                Ok(None) => return Verdict::Wait,
                Ok(Some(answer)) => answer,
            };
            self.judged += answer.consumed;
            if answer.status == 100 {
                proceed = true;
                continue;
            }
            if let Err(fault) = expected.check(&answer, pool) {
                return Verdict::Wrong(fault);
            }
            self.answered += 1;
        }
        self.judge_finish(input)
    }

    fn judge_finish(&mut self, input: Input) -> Verdict {
        let surplus = self.judged < self.inbox.len();
        match self.case.finish {
            Finish::Keep | Finish::ServerCloses if surplus => Verdict::Wrong("bytes that nothing asked for".into()),
            Finish::Keep => Verdict::Reuse,
            Finish::ServerCloses | Finish::Reset { .. } => Verdict::Wait,
            Finish::ResetMidAnswer { after, .. } if self.inbox.len() >= after => Verdict::Drop,
            Finish::ResetMidAnswer { .. } => Verdict::Wait,
            Finish::Refuse { allowed, closing, .. } => self.judge_refusal(input, Some(allowed), closing),
            Finish::HalfClose { .. } => self.judge_refusal(input, None, Closing::Must),
        }
    }

    /// One error answer at most; `allowed` of `None` takes any 4xx.
    fn judge_refusal(&mut self, input: Input, allowed: Option<&[u16]>, closing: Closing) -> Verdict {
        let rest = &self.inbox[self.judged..];
        if self.refused || rest.is_empty() {
            return match rest.is_empty() {
                true => Verdict::Wait,
                false => Verdict::Wrong("bytes after the answer to a malformed request".into()),
            };
        }
        let answer = match answer::parse(rest, Asked::Body, input) {
            Err(fault) => return Verdict::Wrong(fault.into()),
            Ok(None) => return Verdict::Wait,
            Ok(Some(answer)) => answer,
        };
        self.judged += answer.consumed;
        if answer.status == 100 {
            return self.judge_refusal(input, allowed, closing);
        }
        let fits = allowed.map_or((400..500).contains(&answer.status), |list| list.contains(&answer.status));
        if !fits {
            let wanted = allowed.map_or("4xx".into(), |list| format!("{list:?}"));
            let fault = format!("status {} instead of {wanted} or a close", answer.status);
            return Verdict::Wrong(fault);
        }
        self.refused = true;
        if self.judged < self.inbox.len() {
            return Verdict::Wrong("bytes after the answer to a malformed request".into());
        }
        match closing == Closing::May && !answer.close {
            true => Verdict::Reuse,
            false => Verdict::Wait,
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
