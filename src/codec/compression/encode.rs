//! Encoders. Each encoder writes into its own vector, which the caller empties after each step.

use super::Coding;
use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Write};

/// The size of brotli's window as a power of two: 512 KiB. Bodies compressed on the fly gain little from a larger
/// window.
const BROTLI_WINDOW: i32 = 19;
/// The size of brotli's input buffer, in bytes.
const BROTLI_BUFFER: usize = 4096;

enum State {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    /// Finished. The vector contains the rest of the output.
    Done(Vec<u8>),
}

/// The encoder of one body.
pub(crate) struct Encoder(State);

impl Encoder {
    /// `level`: within the range of [`Coding::levels`].
    pub(crate) fn new(coding: Coding, level: u32) -> Self {
        Encoder(match coding {
            Coding::Gzip => State::Gzip(GzEncoder::new(Vec::new(), Compression::new(level))),
            Coding::Deflate => State::Deflate(ZlibEncoder::new(Vec::new(), Compression::new(level))),
            Coding::Brotli => {
                let params = BrotliEncoderParams { quality: level as i32, lgwin: BROTLI_WINDOW, ..Default::default() };
                let writer = CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER, &params);
                State::Brotli(Box::new(writer))
            }
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.0, State::Done(_))
    }

    /// The output that the caller has not taken yet.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            State::Gzip(writer) => writer.get_mut(),
            State::Deflate(writer) => writer.get_mut(),
            State::Brotli(writer) => writer.get_mut(),
            State::Done(out) => out,
        }
    }

    /// Encodes a piece of the body. Its encoded bytes might be output only by a later call.
    pub(crate) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            State::Gzip(writer) => writer.write_all(data),
            State::Deflate(writer) => writer.write_all(data),
            State::Brotli(writer) => writer.write_all(data),
            State::Done(_) => Ok(()),
        }
    }

    /// Outputs everything written so far, so that the peer can decode it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            State::Gzip(writer) => writer.flush(),
            State::Deflate(writer) => writer.flush(),
            State::Brotli(writer) => writer.flush(),
            State::Done(_) => Ok(()),
        }
    }

    /// Ends the body and frees the encoder's memory.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let out = match std::mem::replace(&mut self.0, State::Done(Vec::new())) {
            State::Gzip(writer) => writer.finish()?,
            State::Deflate(writer) => writer.finish()?,
            State::Brotli(writer) => writer.into_inner(),
            State::Done(out) => out,
        };
        self.0 = State::Done(out);
        Ok(())
    }
}
