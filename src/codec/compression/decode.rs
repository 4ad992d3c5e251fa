//! Decoders. Invariant: one `write` never outputs more than its limit, even for a very small input. In addition, a
//! decoder buffers at most [`BROTLI_BUFFER`] decoded bytes (brotli) or 32 KiB (flate2), and has a window of at most 16 MiB
//! (brotli) or 32 KiB (flate2).

use super::Coding;
use brotli::DecompressorWriter;
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use std::io::{self, Write};

/// The size of a brotli decoder's buffer, in bytes.
const BROTLI_BUFFER: usize = 16 * 1024;
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

/// Collects output up to a limit.
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

    /// Returns why the decoder that writes into this sink has failed.
    fn failure(&self) -> DecodeError {
        if self.is_over { DecodeError::TooLong } else { DecodeError::Corrupt }
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

/// A decoder for one coding; for gzip, a decoder of one member. It consumes no bytes after the end of the encoded data.
trait StreamDecoder: Write {
    fn sink(&mut self) -> &mut Sink;
    /// Verifies the checksum after the data, if the decoder has not done so itself.
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! stream_decoder {
    ($decoder:ident $(, $check:ident)?) => {
        impl StreamDecoder for $decoder<Sink> {
            fn sink(&mut self) -> &mut Sink {
                self.get_mut()
            }
            $(fn check(&mut self) -> io::Result<()> {
                self.$check()
            })?
        }
    };
}
stream_decoder!(GzDecoder, try_finish);
stream_decoder!(ZlibDecoder);
stream_decoder!(DeflateDecoder);
stream_decoder!(DecompressorWriter);

enum State {
    /// The first bytes of the body, which are too few to choose the decoder.
    First(Vec<u8>),
    Decoding(Box<dyn StreamDecoder>),
    Failed(DecodeError),
}

/// The decoder of one body.
pub(crate) struct Decoder {
    coding: Coding,
    state: State,
    out: Vec<u8>,
    limit: usize,
    is_finished: bool,
}

impl Decoder {
    /// `limit`: the maximum number of bytes that one `write` may output, at least 1.
    pub(crate) fn new(coding: Coding, limit: usize) -> Self {
        Decoder { coding, state: State::First(Vec::new()), out: Vec::new(), limit, is_finished: false }
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
        if data.is_empty() {
            return Ok(());
        }
        self.decode(data).inspect_err(|&failure| {
            self.state = State::Failed(failure);
            self.out = Vec::new();
        })
    }

    /// Ends the body. An empty body is valid, because a response without a body can still have a `Content-Encoding`
    /// field.
    pub(crate) fn finish(&mut self) -> Result<(), DecodeError> {
        self.is_finished = true;
        match &mut self.state {
            State::Failed(failure) => Err(*failure),
            State::First(bytes) if bytes.is_empty() => Ok(()),
            State::First(_) => Err(DecodeError::Truncated),
            // A finished decoder consumes no bytes.
            State::Decoding(decoder) => match decoder.write(&[0]) {
                Ok(0) => decoder.check().map_err(|_| decoder.sink().failure()),
                _ => Err(DecodeError::Truncated),
            },
        }
    }

    fn decode(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let (first, mut data);
        data = piece;
        if let State::First(bytes) = &mut self.state {
            bytes.extend_from_slice(piece);
            let Some(decoder) = begin(self.coding, bytes, Sink::new(self.limit))? else {
                return Ok(());
            };
            first = std::mem::take(bytes);
            data = &first;
            self.state = State::Decoding(decoder);
        }
        let decoder = match &mut self.state {
            State::Decoding(decoder) => decoder,
            State::Failed(failure) => return Err(*failure),
            State::First(_) => return Ok(()),
        };
        decoder.sink().out = std::mem::take(&mut self.out);
        decode_all(self.coding, decoder, data).map_err(|_| decoder.sink().failure())?;
        self.out = std::mem::take(&mut decoder.sink().out);
        Ok(())
    }
}

/// Creates the decoder for a body that begins with `first`, which must not be empty. Returns `None` if more bytes are
/// needed to choose the decoder.
fn begin(coding: Coding, first: &[u8], sink: Sink) -> Result<Option<Box<dyn StreamDecoder>>, DecodeError> {
    Ok(Some(match (coding, first) {
        (Coding::Gzip, [GZIP_MAGIC, ..]) => Box::new(GzDecoder::new(sink)),
        (Coding::Gzip, _) => return Err(DecodeError::Corrupt),
        (Coding::Brotli, &[head, ..]) if is_large_window(head) => return Err(DecodeError::Corrupt),
        (Coding::Brotli, _) => Box::new(DecompressorWriter::new(sink, BROTLI_BUFFER)),
        // The first two bytes distinguish zlib's format from raw deflate, which some servers send (RFC 9110 section
        // 8.4.1.2).
        (Coding::Deflate, &[head, next, ..]) => {
            match head & 15 == 8 && u16::from_be_bytes([head, next]).is_multiple_of(31) {
                true => Box::new(ZlibDecoder::new(sink)),
                false => Box::new(DeflateDecoder::new(sink)),
            }
        }
        (Coding::Deflate, _) => return Ok(None),
    }))
}

/// Returns whether a brotli stream that begins with `head` has a window that HTTP does not allow. The bits are reserved (RFC
/// 7932 section 9.1), but the library's decoder accepts them: a body of a few bytes would then allocate up to 1 GiB.
pub(super) fn is_large_window(head: u8) -> bool {
    head & 0b111_1111 == 0b001_0001
}

/// Decodes all of `data`. A gzip member may be followed by another member.
fn decode_all(coding: Coding, decoder: &mut Box<dyn StreamDecoder>, mut data: &[u8]) -> io::Result<()> {
    while let [next, ..] = data {
        match decoder.write(data)? {
            0 if coding == Coding::Gzip && *next == GZIP_MAGIC => {
                decoder.check()?;
                let sink = std::mem::take(decoder.sink());
                *decoder = Box::new(GzDecoder::new(sink));
            }
            0 => return Err(io::ErrorKind::InvalidData.into()),
            taken => data = &data[taken..],
        }
    }
    // The decoders buffer decoded bytes until a flush.
    decoder.flush()?;
    // brotli's decoder returns one buffer of decoded bytes at most after its last input; an empty write returns the next.
    let mut is_pending = coding == Coding::Brotli;
    while is_pending {
        let before = decoder.sink().out.len();
        let _: usize = decoder.write(&[])?;
        is_pending = decoder.sink().out.len() > before;
    }
    Ok(())
}
