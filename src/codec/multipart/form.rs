//! Reads a form part by part: stores the values of fields, checks the sizes of parts, and keeps the first error.
//!
//! Invariants: after a refusal every call is refused with the same [`Reject`]; each byte of a part is returned once.
//! Errors are those of [`Multipart`], and 413 for a part that is too large.

use super::{Event, Limits, Multipart, Part};
use crate::codec::http1::reject::Reject;
use std::ops::Range;

/// A form that is being received.
pub(crate) struct Form {
    parser: Multipart,
    /// The bytes of a field's value received so far.
    collected: Vec<u8>,
    /// The number of bytes of the current part returned so far.
    returned: u64,
    /// Whether a part has begun and not ended.
    in_part: bool,
    /// The data that [`Form::peek`] has returned and that has not been consumed yet.
    peeked: Option<Range<usize>>,
    refused: Option<Reject>,
}

/// The result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FormEvent {
    /// More of the body is needed; the caller passes it to [`Form::feed`].
    More,
    /// A part begins: [`Form::part`] returns it.
    Part,
    /// Data of the current part: a range of [`Form::bytes`], valid until the next call.
    Data(Range<usize>),
    /// The current part, or the whole form, is complete.
    End,
}

impl Form {
    /// Returns the reader of a body with this `Content-Type`.
    pub(crate) fn new(content_type: &[u8], limits: Limits) -> Result<Self, Reject> {
        Ok(Self {
            parser: Multipart::new(content_type, limits)?,
            collected: Vec::new(),
            returned: 0,
            in_part: false,
            peeked: None,
            refused: None,
        })
    }

    /// Adds the next piece of the body. Data that [`Form::peek`] has returned and that was not consumed is discarded.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.peeked = None;
        self.parser.feed(piece);
    }

    /// Advances to the next part. The rest of the current part is skipped.
    pub(crate) fn next(&mut self) -> Result<FormEvent, Reject> {
        self.peeked = None;
        loop {
            match self.event()? {
                Event::More => return Ok(FormEvent::More),
                Event::Part => {
                    self.in_part = true;
                    self.returned = 0;
                    self.collected.clear();
                    return Ok(FormEvent::Part);
                }
                Event::Data(_) => {}
                Event::PartEnd => self.in_part = false,
                Event::Done => return Ok(FormEvent::End),
            }
        }
    }

    /// Returns the next piece of the current part. `limit`: the maximum size of the whole part in bytes.
    ///
    /// # Errors
    /// The errors of [`Form::next`], and 413 if the part is larger than `limit`.
    pub(crate) fn piece(&mut self, limit: u64) -> Result<FormEvent, Reject> {
        if !self.in_part {
            return Ok(FormEvent::End);
        }
        let data = match self.peeked.take() {
            Some(data) => data,
            None => match self.event()? {
                Event::More => return Ok(FormEvent::More),
                Event::Data(data) => data,
                _ => {
                    self.in_part = false;
                    return Ok(FormEvent::End);
                }
            },
        };
        self.returned += data.len() as u64;
        if self.returned > limit {
            let reject = Reject::new(413, "a part of the form is larger than allowed");
            self.refused = Some(reject);
            return Err(reject);
        }
        Ok(FormEvent::Data(data))
    }

    /// Returns the next piece of the current part without consuming it.
    pub(crate) fn peek(&mut self) -> Result<FormEvent, Reject> {
        let event = self.piece(u64::MAX)?;
        if let FormEvent::Data(data) = &event {
            self.returned -= data.len() as u64;
            self.peeked = Some(data.clone());
        }
        Ok(event)
    }

    /// Passes all available data of the current part to `take`. Returns whether the part is complete
    /// ([`FormEvent::End`]) or more of the body is needed ([`FormEvent::More`]).
    pub(crate) fn drain<E: From<Reject>>(
        &mut self, limit: u64, mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<FormEvent, E> {
        loop {
            match self.piece(limit)? {
                FormEvent::Data(data) => take(&self.parser.bytes()[data])?,
                event => return Ok(event),
            }
        }
    }

    /// Collects the available data of the current part. Once the part is complete, [`Form::text`] returns it.
    pub(crate) fn collect(&mut self, limit: u64) -> Result<FormEvent, Reject> {
        let mut collected = std::mem::take(&mut self.collected);
        let event = self.drain(limit, |data| {
            collected.extend_from_slice(data);
            Ok(())
        });
        self.collected = collected;
        event
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The earlier refusal of the form, or the error of [`Multipart::end`].
    pub(crate) fn end(&mut self) -> Result<(), Reject> {
        match self.refused {
            Some(reject) => Err(reject),
            None => self.parser.end(),
        }
    }

    /// The part that began most recently.
    pub(crate) fn part(&self) -> &Part {
        self.parser.part()
    }

    /// The buffer that [`FormEvent::Data`] points into.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.parser.bytes()
    }

    /// The data that [`Form::collect`] has collected.
    pub(crate) fn text(&self) -> &[u8] {
        &self.collected
    }

    fn event(&mut self) -> Result<Event, Reject> {
        if let Some(reject) = self.refused {
            return Err(reject);
        }
        let event = self.parser.next();
        self.refused = event.as_ref().err().copied();
        event
    }
}
