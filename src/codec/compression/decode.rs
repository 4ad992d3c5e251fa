//! Decoders. The invariant: what one write lets out is never more than its limit, however small the piece
//! that asked for it was, and no more than a buffer of [`ROOM`] or flate2's 32 KiB beyond it is held either.

use super::Coding;
use brotli::DecompressorWriter;
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use std::io::{self, Write};

/// The buffer of a brotli decoder, in bytes.
const ROOM: usize = 16 * 1024;
/// The first byte of each member of gzip (RFC 1952 section 2.3.1).
const MEMBER: u8 = 0x1f;

/// Why a body cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Not what the coding's format allows, or bytes behind its end.
    Corrupt,
    /// It ends before its end.
    Truncated,
    /// One piece grew beyond the limit.
    TooLong,
}

/// Output up to a limit.
#[derive(Default)]
struct Sink {
    out: Vec<u8>,
    limit: usize,
    is_over: bool,
}

impl Sink {
    fn new(limit: usize) -> Sink {
        Sink { limit, ..Sink::default() }
    }

    /// What an error of the decoder that writes here means.
    fn failure(&self) -> Failure {
        if self.is_over { Failure::TooLong } else { Failure::Corrupt }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.out.len().min(self.limit) {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The decoder of a coding, or of one member of gzip. It takes no byte behind the end.
trait Work: Write {
    fn sink(&mut self) -> &mut Sink;
    /// Compares what was decoded with the sum behind it, where the decoder has not done that by itself.
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! work {
    ($decoder:ident $(, $check:ident)?) => {
        impl Work for $decoder<Sink> {
            fn sink(&mut self) -> &mut Sink {
                self.get_mut()
            }
            $(fn check(&mut self) -> io::Result<()> {
                self.$check()
            })?
        }
    };
}
work!(GzDecoder, try_finish);
work!(ZlibDecoder);
work!(DeflateDecoder);
work!(DecompressorWriter);

enum State {
    /// What came first, as long as it does not tell the decoder.
    First(Vec<u8>),
    Work(Box<dyn Work>),
    Failed(Failure),
}

/// One body on its way in.
pub(crate) struct Decoder {
    coding: Coding,
    state: State,
    out: Vec<u8>,
    limit: usize,
    finished: bool,
}

impl Decoder {
    /// `limit`: bytes that one `write` may let out, at least 1.
    pub(crate) fn new(coding: Coding, limit: usize) -> Self {
        Decoder { coding, state: State::First(Vec::new()), out: Vec::new(), limit, finished: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.finished
    }

    /// What came out and was not taken yet.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Takes a piece and lets out all it tells.
    ///
    /// # Errors
    /// After a failure every piece fails the same way.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        self.decode(data).inspect_err(|&failure| {
            self.state = State::Failed(failure);
            self.out = Vec::new();
        })
    }

    fn decode(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let (first, mut data);
        data = piece;
        if let State::First(bytes) = &mut self.state {
            bytes.extend_from_slice(piece);
            let Some(work) = begin(self.coding, bytes, Sink::new(self.limit))? else {
                return Ok(());
            };
            first = std::mem::take(bytes);
            data = &first;
            self.state = State::Work(work);
        }
        let work = match &mut self.state {
            State::Work(work) => work,
            State::Failed(failure) => return Err(*failure),
            State::First(_) => return Ok(()),
        };
        work.sink().out = std::mem::take(&mut self.out);
        decode(self.coding, work, data).map_err(|_| work.sink().failure())?;
        self.out = std::mem::take(&mut work.sink().out);
        Ok(())
    }

    /// The end of the body. Nothing at all is fine as well: answers without a body name codings, too.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.finished = true;
        match &mut self.state {
            State::Failed(failure) => Err(*failure),
            State::First(bytes) if bytes.is_empty() => Ok(()),
            State::First(_) => Err(Failure::Truncated),
            // At its end it takes no byte more.
            State::Work(work) => match work.write(&[0]) {
                Ok(0) => work.check().map_err(|_| work.sink().failure()),
                _ => Err(Failure::Truncated),
            },
        }
    }
}

/// The decoder for a body that begins with these bytes, at least one; `None` when they are too few.
fn begin(coding: Coding, first: &[u8], sink: Sink) -> Result<Option<Box<dyn Work>>, Failure> {
    Ok(Some(match (coding, first) {
        (Coding::Gzip, [MEMBER, ..]) => Box::new(GzDecoder::new(sink)),
        (Coding::Gzip, _) => return Err(Failure::Corrupt),
        (Coding::Brotli, _) => Box::new(DecompressorWriter::new(sink, ROOM)),
        // The first two bytes tell zlib's format from the bare one, which some servers send
        // (RFC 9110 section 8.4.1.2).
        (Coding::Deflate, &[head, next, ..]) => {
            match head & 15 == 8 && u16::from_be_bytes([head, next]).is_multiple_of(31) {
                true => Box::new(ZlibDecoder::new(sink)),
                false => Box::new(DeflateDecoder::new(sink)),
            }
        }
        (Coding::Deflate, _) => return Ok(None),
    }))
}

/// Decodes all of `data`. Behind a member of gzip there may be another one.
fn decode(coding: Coding, work: &mut Box<dyn Work>, mut data: &[u8]) -> io::Result<()> {
    while let [next, ..] = data {
        match work.write(data)? {
            0 if coding == Coding::Gzip && *next == MEMBER => {
                work.check()?;
                let sink = std::mem::take(work.sink());
                *work = Box::new(GzDecoder::new(sink));
            }
            0 => return Err(io::ErrorKind::InvalidData.into()),
            taken => data = &data[taken..],
        }
    }
    // They hold back what they have decoded already.
    work.flush()
}
