//! Reading a form part by part: what of a part was read, its limits, and what refused the form.
//!
//! Invariant: after a refusal every step is refused alike; each byte of a part is given out once. Errors are those of
//! [`Multipart`], and 413 for a part that is too large.

use super::{Event, Limits, Multipart, Part};
use crate::codec::http1::status::Reject;
use std::ops::Range;

/// A form on its way in.
pub(crate) struct Form {
    parser: Multipart,
    /// A field's value as far as it has come.
    collected: Vec<u8>,
    /// Bytes of the current part that were given out.
    taken: u64,
    /// Whether a part has begun and not ended.
    within: bool,
    /// Data that [`Form::peek`] has found.
    ahead: Option<Range<usize>>,
    refused: Option<Reject>,
}

/// What a step came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// More of the body must come: [`Form::feed`].
    Hungry,
    /// A part begins: [`Form::part`].
    Part,
    /// Data of the current part: [`Form::bytes`] has it until the next step.
    Data(Range<usize>),
    /// The current part, or the whole form, is complete.
    End,
}

impl Form {
    /// A form in a body whose `Content-Type` is this.
    pub(crate) fn new(content_type: &[u8], limits: Limits) -> Result<Self, Reject> {
        Ok(Self {
            parser: Multipart::new(content_type, limits)?,
            collected: Vec::new(),
            taken: 0,
            within: false,
            ahead: None,
            refused: None,
        })
    }

    fn event(&mut self) -> Result<Event, Reject> {
        if let Some(reject) = self.refused {
            return Err(reject);
        }
        let event = self.parser.next();
        self.refused = event.as_ref().err().copied();
        event
    }

    /// Takes the next bytes of the body, in the place of what was not read of the last ones.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.ahead = None;
        self.parser.feed(piece);
    }

    /// The next part; what is left of the current one is skipped.
    pub(crate) fn next(&mut self) -> Result<Step, Reject> {
        self.ahead = None;
        loop {
            match self.event()? {
                Event::Hungry => return Ok(Step::Hungry),
                Event::Part => {
                    self.within = true;
                    self.taken = 0;
                    self.collected.clear();
                    return Ok(Step::Part);
                }
                Event::Data(_) => {}
                Event::PartEnd => self.within = false,
                Event::Done => return Ok(Step::End),
            }
        }
    }

    /// The next data of the current part, which may have `limit` bytes in all.
    ///
    /// # Errors
    /// As [`Form::next`], and 413 when the part is larger.
    pub(crate) fn piece(&mut self, limit: u64) -> Result<Step, Reject> {
        if !self.within {
            return Ok(Step::End);
        }
        let data = match self.ahead.take() {
            Some(data) => data,
            None => match self.event()? {
                Event::Hungry => return Ok(Step::Hungry),
                Event::Data(data) => data,
                _ => {
                    self.within = false;
                    return Ok(Step::End);
                }
            },
        };
        self.taken += data.len() as u64;
        if self.taken > limit {
            let reject = Reject::new(413, "a part of the form is larger than allowed");
            self.refused = Some(reject);
            return Err(reject);
        }
        Ok(Step::Data(data))
    }

    /// Whether the current part has data, which stays to be read.
    pub(crate) fn peek(&mut self) -> Result<Step, Reject> {
        let step = self.piece(u64::MAX)?;
        if let Step::Data(data) = &step {
            self.taken -= data.len() as u64;
            self.ahead = Some(data.clone());
        }
        Ok(step)
    }

    /// Gives what has come of the current part to `take`; then it is complete, or hungry.
    ///
    /// # Errors
    /// As [`Form::piece`], and those of `take`.
    pub(crate) fn drain<E: From<Reject>>(
        &mut self, limit: u64, mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Step, E> {
        loop {
            match self.piece(limit)? {
                Step::Data(data) => take(&self.parser.bytes()[data])?,
                step => return Ok(step),
            }
        }
    }

    /// Collects what has come of the current part: [`Form::text`] has it once it is complete.
    pub(crate) fn collect(&mut self, limit: u64) -> Result<Step, Reject> {
        let mut collected = std::mem::take(&mut self.collected);
        let step = self.drain(limit, |data| {
            collected.extend_from_slice(data);
            Ok(())
        });
        self.collected = collected;
        step
    }

    /// Tells that the body is at its end.
    ///
    /// # Errors
    /// What refused the form before, or as [`Multipart::finish`].
    pub(crate) fn finish(&mut self) -> Result<(), Reject> {
        match self.refused {
            Some(reject) => Err(reject),
            None => self.parser.finish(),
        }
    }

    /// The part that began last.
    pub(crate) fn part(&self) -> &Part {
        self.parser.part()
    }

    /// The buffer that [`Step::Data`] points into.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.parser.bytes()
    }

    /// What [`Form::collect`] has put together.
    pub(crate) fn text(&self) -> &[u8] {
        &self.collected
    }
}
