//! Decoders, which decode in steps. Invariant: a step decodes at most [`STEP_INPUT`] bytes, and ends when it has output
//! [`STEP_OUTPUT`] bytes, even if a very small input decodes to much more. A decoder holds a window and decoded bytes of at
//! most 16 MiB (brotli) or 64 KiB (flate2). A step takes a few milliseconds at most, except that brotli's decoder fills
//! its window before it outputs anything: hostile data of a few bytes can make it copy 16 MiB two bytes at a time, which
//! takes 0.2 seconds.

use super::Coding;
use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use std::io::{self, Write};

/// The maximum number of bytes that a step decodes. The slowest data takes a few milliseconds: deflate blocks without
/// content, or one gzip member after another.
const STEP_INPUT: usize = 4 * 1024;
/// A step ends when it has output this number of bytes. It outputs less than four times as many.
pub(super) const STEP_OUTPUT: usize = 64 * 1024;
/// The maximum number of bytes that brotli's decoder outputs in one call.
const BROTLI_OUTPUT: usize = 16 * 1024;
/// The first byte of each gzip member (RFC 1952 section 2.3.1).
const GZIP_MAGIC: u8 = 0x1f;

/// Why a body cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeError {
    /// The data violates the coding's format, or more bytes follow the encoded data.
    Corrupt,
    /// The data ends too early.
    Truncated,
    /// One piece decodes to more bytes than the limit.
    TooLong,
}

/// How far one call of a [`StreamDecoder`] came.
struct Progress {
    consumed: usize,
    /// The decoder can output more, even without input.
    is_pending: bool,
}

/// A decoder for one coding; for gzip, a decoder of one member. It consumes no bytes after the end of the encoded data.
trait StreamDecoder {
    /// The output, which the caller may replace.
    fn out(&mut self) -> &mut Vec<u8>;
    /// Decodes a part of `data`, which is empty only if output is pending.
    fn decode(&mut self, data: &[u8]) -> io::Result<Progress>;
    /// Verifies that the data has ended, and its checksum.
    fn finish(&mut self) -> Result<(), DecodeError>;
}

macro_rules! stream_decoder {
    ($decoder:ident $(, $check:ident)?) => {
        impl StreamDecoder for $decoder<Vec<u8>> {
            fn out(&mut self) -> &mut Vec<u8> {
                self.get_mut()
            }

            fn decode(&mut self, data: &[u8]) -> io::Result<Progress> {
                let consumed = self.write(data)?;
                if consumed == data.len() {
                    // The decoder holds decoded bytes back until a flush.
                    self.flush()?;
                }
                Ok(Progress { consumed, is_pending: false })
            }

            fn finish(&mut self) -> Result<(), DecodeError> {
                // After the end of the data, the decoder consumes no bytes.
                match self.write(&[0]) {
                    Ok(0) => (),
                    _ => return Err(DecodeError::Truncated),
                }
                $(self.$check().map_err(|_| DecodeError::Corrupt)?;)?
                Ok(())
            }
        }
    };
}
stream_decoder!(GzDecoder, try_finish);
stream_decoder!(ZlibDecoder);
stream_decoder!(DeflateDecoder);

/// A decoder of brotli.
struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    out: Vec<u8>,
    is_ended: bool,
}

impl Brotli {
    fn new() -> Brotli {
        let new = StandardAlloc::default;
        // The strict decoder refuses windows larger than 16 MiB, which RFC 7932 section 9.1 does not allow.
        Brotli { state: BrotliState::new_strict(new(), new(), new()), out: Vec::new(), is_ended: false }
    }
}

impl StreamDecoder for Brotli {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn decode(&mut self, data: &[u8]) -> io::Result<Progress> {
        if self.is_ended {
            return Ok(Progress { consumed: 0, is_pending: false });
        }
        let (mut unread, mut consumed) = (data.len(), 0);
        let (mut room, mut end, mut total) = (BROTLI_OUTPUT, self.out.len(), 0);
        self.out.resize(end + room, 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut consumed,
            data,
            &mut room,
            &mut end,
            &mut self.out,
            &mut total,
            &mut self.state,
        );
        self.out.truncate(end);
        self.is_ended = matches!(result, BrotliResult::ResultSuccess);
        match result {
            BrotliResult::ResultFailure => Err(io::ErrorKind::InvalidData.into()),
            // The decoder asks for input even if decoded bytes had no room.
            _ => Ok(Progress { consumed, is_pending: room == 0 && !self.is_ended }),
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        if self.is_ended { Ok(()) } else { Err(DecodeError::Truncated) }
    }
}

enum State {
    /// No decoder has been chosen. The first byte of the body, if it has been read.
    First(Option<u8>),
    Decoding(Box<dyn StreamDecoder>),
    Failed(DecodeError),
}

/// The decoder of one body.
pub(crate) struct Decoder {
    coding: Coding,
    state: State,
    /// Input that has been fed, of which the first `at` bytes have been decoded.
    input: Vec<u8>,
    at: usize,
    out: Vec<u8>,
    limit: usize,
    /// The last step has not output everything that its input decodes to.
    is_pending: bool,
    is_finished: bool,
}

impl Decoder {
    /// `limit`: the maximum number of bytes that one `write` or `finish` may output, at least 1.
    pub(crate) fn new(coding: Coding, limit: usize) -> Self {
        Decoder {
            coding,
            state: State::First(None),
            input: Vec::new(),
            at: 0,
            out: Vec::new(),
            limit,
            is_pending: false,
            is_finished: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_finished
    }

    /// The output that the caller has not taken yet.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Decodes a piece of the body. Appends to the output all data that could be decoded so far.
    ///
    /// # Errors
    /// After an error, every further call with data returns the same error.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), DecodeError> {
        self.feed(data);
        while self.step()? {
            if self.out.len() > self.limit {
                return Err(self.fail(DecodeError::TooLong));
            }
        }
        Ok(())
    }

    /// Keeps a piece of the body, which further calls of [`Decoder::step`] decode.
    pub(crate) fn feed(&mut self, data: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.at));
        self.input.extend_from_slice(data);
    }

    /// Decodes a part of the bytes that have been fed. Returns whether there was anything to decode.
    ///
    /// # Errors
    /// After an error, every further step with data returns the same error.
    pub(crate) fn step(&mut self) -> Result<bool, DecodeError> {
        if self.at == self.input.len() && !self.is_pending {
            return Ok(false);
        }
        let input = std::mem::take(&mut self.input);
        let consumed = self.advance(&input[self.at..]).map_err(|failure| self.fail(failure))?;
        self.at += consumed;
        // The memory of the input is freed when all of it has been decoded.
        if self.at < input.len() {
            self.input = input;
        } else {
            self.at = 0;
        }
        Ok(true)
    }

    /// Ends the body. An empty body is valid, because a response without a body can still have a `Content-Encoding`
    /// field.
    pub(crate) fn finish(&mut self) -> Result<(), DecodeError> {
        self.is_finished = true;
        self.write(&[])?;
        match &mut self.state {
            State::Failed(failure) => Err(*failure),
            State::First(None) => Ok(()),
            State::First(Some(_)) => Err(DecodeError::Truncated),
            State::Decoding(decoder) => decoder.finish(),
        }
    }

    /// Makes this failure final, and frees all data.
    fn fail(&mut self, failure: DecodeError) -> DecodeError {
        self.state = State::Failed(failure);
        (self.input, self.at, self.is_pending) = (Vec::new(), 0, false);
        self.out = Vec::new();
        failure
    }

    /// Makes one step, with `input`, which is empty only if output is pending. Returns the number of decoded bytes.
    fn advance(&mut self, input: &[u8]) -> Result<usize, DecodeError> {
        if let State::First(first) = self.state {
            let Some(decoder) = begin(self.coding, first.as_slice(), input)? else {
                self.state = State::First(Some(input[0]));
                return Ok(1);
            };
            self.state = State::Decoding(decoder);
            if let Some(first) = first {
                self.advance(&[first])?;
            }
        }
        let decoder = match &mut self.state {
            State::Decoding(decoder) => decoder,
            State::Failed(failure) => return Err(*failure),
            State::First(_) => return Ok(0),
        };
        *decoder.out() = std::mem::take(&mut self.out);
        let input = &input[..input.len().min(STEP_INPUT)];
        let advanced = step(self.coding, decoder, input).map_err(|_| DecodeError::Corrupt);
        self.out = std::mem::take(decoder.out());
        let Progress { consumed, is_pending } = advanced?;
        self.is_pending = is_pending;
        Ok(consumed)
    }
}

/// Creates the decoder for a body that begins with `first` and `next`, which must not be empty. Returns `None` if more
/// bytes are needed to choose the decoder.
fn begin(coding: Coding, first: &[u8], next: &[u8]) -> Result<Option<Box<dyn StreamDecoder>>, DecodeError> {
    let mut bytes = first.iter().chain(next).copied();
    let (head, next) = (bytes.next(), bytes.next());
    Ok(Some(match (coding, head, next) {
        (Coding::Gzip, Some(GZIP_MAGIC), _) => Box::new(GzDecoder::new(Vec::new())),
        (Coding::Gzip, ..) => return Err(DecodeError::Corrupt),
        (Coding::Brotli, ..) => Box::new(Brotli::new()),
        // The first two bytes distinguish zlib's format from raw deflate, which some servers send (RFC 9110 section
        // 8.4.1.2).
        (Coding::Deflate, Some(head), Some(next)) => {
            match head & 15 == 8 && u16::from_be_bytes([head, next]).is_multiple_of(31) {
                true => Box::new(ZlibDecoder::new(Vec::new())),
                false => Box::new(DeflateDecoder::new(Vec::new())),
            }
        }
        (Coding::Deflate, ..) => return Ok(None),
    }))
}

/// Decodes `data` until enough has been output. A gzip member may be followed by another member.
fn step(coding: Coding, decoder: &mut Box<dyn StreamDecoder>, data: &[u8]) -> io::Result<Progress> {
    let (mut consumed, most) = (0, decoder.out().len() + STEP_OUTPUT);
    loop {
        let rest = &data[consumed..];
        let progress = decoder.decode(rest)?;
        consumed += progress.consumed;
        if consumed == data.len() && !progress.is_pending || decoder.out().len() >= most {
            return Ok(Progress { consumed, is_pending: progress.is_pending });
        }
        if progress.consumed == 0 && !progress.is_pending {
            if coding != Coding::Gzip || rest[0] != GZIP_MAGIC {
                return Err(io::ErrorKind::InvalidData.into());
            }
            decoder.finish().map_err(|_| io::ErrorKind::InvalidData)?;
            let out = std::mem::take(decoder.out());
            *decoder = Box::new(GzDecoder::new(out));
        }
    }
}
