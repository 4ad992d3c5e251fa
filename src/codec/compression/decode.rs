//! Decoders. The invariant: what one step lets out is never more than its limit, however small the piece
//! that asked for it was, and next to nothing beyond it is held either.

use super::Coding;
use super::gzip::{MAX_HEADER, TRAILER, check_trailer, header_length};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use flate2::{Crc, Decompress, FlushDecompress, Status};

/// Room made for output at a time.
const ROOM: usize = 16 * 1024;

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

type BrotliWork = BrotliState<HeapAlloc<u8>, HeapAlloc<u32>, HeapAlloc<HuffmanCode>>;

/// Where in its coding a body is.
enum Work {
    /// The first two bytes tell zlib's format from the bare one, which some servers send
    /// (RFC 9110 section 8.4.1.2).
    Sniff(Vec<u8>),
    Deflate(Box<Decompress>),
    /// A gzip header that is not whole yet.
    Header(Vec<u8>),
    Member(Box<Decompress>, Crc),
    Trailer(Vec<u8>, Crc),
    Brotli(Box<BrotliWork>),
    /// The coding's own end was read.
    Ended,
    Failed(Failure),
}

/// Output up to a limit.
struct Sink {
    out: Vec<u8>,
    limit: usize,
}

impl Sink {
    /// Lets `fill` write into some room; it returns how much it wrote, which is also the result, and
    /// whether the room was used up. One byte more than the limit allows is asked for, to tell a body that
    /// is full to the brim from one that goes on.
    fn extend(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Result<bool, Failure> {
        let start = self.out.len();
        let room = (self.limit + 1 - start.min(self.limit)).min(ROOM);
        self.out.resize(start + room, 0);
        let made = fill(&mut self.out[start..]);
        self.out.truncate(start + made);
        match self.out.len() > self.limit {
            true => Err(Failure::TooLong),
            false => Ok(made == room),
        }
    }
}

/// One body on its way in.
pub(crate) struct Decoder {
    work: Work,
    sink: Sink,
    started: bool,
    finished: bool,
}

impl Decoder {
    /// `limit`: bytes that one `write` may let out, at least 1.
    pub(crate) fn new(coding: Coding, limit: usize) -> Self {
        let work = match coding {
            Coding::Gzip => Work::Header(Vec::new()),
            Coding::Deflate => Work::Sniff(Vec::new()),
            Coding::Brotli => Work::Brotli(Box::new(BrotliState::new(
                HeapAlloc::new(0),
                HeapAlloc::new(0),
                HeapAlloc::new(HuffmanCode::default()),
            ))),
        };
        let out = Vec::new();
        Decoder {
            work,
            sink: Sink { out, limit },
            started: false,
            finished: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.finished
    }

    /// What came out and was not taken yet.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.sink.out
    }

    /// Takes a piece and lets out all it tells. After a failure every step fails the same way.
    pub(crate) fn write(&mut self, mut data: &[u8]) -> Result<(), Failure> {
        self.started |= !data.is_empty();
        while !data.is_empty() {
            if let Err(failure) = self.step(&mut data) {
                self.work = Work::Failed(failure);
                self.sink.out = Vec::new();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// The end of the body. Nothing at all is fine as well: answers without a body name codings, too.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.finished = true;
        match &self.work {
            Work::Failed(failure) => Err(*failure),
            Work::Ended => Ok(()),
            // Behind a member there may be another one, or the end.
            Work::Header(first) if first.is_empty() => Ok(()),
            _ if !self.started => Ok(()),
            _ => Err(Failure::Truncated),
        }
    }

    /// Takes some of `data`, or fails.
    fn step(&mut self, data: &mut &[u8]) -> Result<(), Failure> {
        match &mut self.work {
            Work::Sniff(first) => {
                first.extend_from_slice(data);
                *data = &[];
                if first.len() < 2 {
                    return Ok(());
                }
                let first = std::mem::take(first);
                let word = u16::from_be_bytes([first[0], first[1]]);
                let is_zlib = first[0] & 15 == 8 && word.is_multiple_of(31);
                self.work = Work::Deflate(Box::new(Decompress::new(is_zlib)));
                let mut rest = &first[..];
                while !rest.is_empty() {
                    self.step(&mut rest)?;
                }
            }
            Work::Deflate(inflater) => {
                if inflate(inflater, data, &mut self.sink, None)? {
                    self.work = Work::Ended;
                }
            }
            Work::Header(first) => {
                let Some(length) = take_header(first, data)? else {
                    return Ok(());
                };
                *data = &data[length..];
                self.work = Work::Member(Box::new(Decompress::new(false)), Crc::new());
            }
            Work::Member(inflater, sum) => {
                if inflate(inflater, data, &mut self.sink, Some(sum))? {
                    let sum = std::mem::take(sum);
                    self.work = Work::Trailer(Vec::new(), sum);
                }
            }
            Work::Trailer(bytes, sum) => {
                let taken = (TRAILER - bytes.len()).min(data.len());
                bytes.extend_from_slice(&data[..taken]);
                *data = &data[taken..];
                if let Ok(bytes) = bytes[..].try_into() {
                    check_trailer(bytes, sum)?;
                    self.work = Work::Header(Vec::new());
                }
            }
            Work::Brotli(state) => {
                if unbrotli(state, data, &mut self.sink)? {
                    self.work = Work::Ended;
                }
            }
            Work::Ended => return Err(Failure::Corrupt),
            Work::Failed(failure) => return Err(*failure),
        }
        Ok(())
    }
}

/// How many bytes of `data` are the rest of a header of which `first` came before; `None` when it is not
/// whole, all of `data` being kept in `first` then. A header that comes in one piece is not copied, so that
/// a body of many tiny members costs no copy of all the others for each.
fn take_header(first: &mut Vec<u8>, data: &mut &[u8]) -> Result<Option<usize>, Failure> {
    let known = first.len();
    if known == 0
        && let Some(length) = header_length(data)?
    {
        return Ok(Some(length));
    }
    let more = data.len().min((MAX_HEADER + 1).saturating_sub(known));
    first.extend_from_slice(&data[..more]);
    if let Some(length) = header_length(first)? {
        return Ok(Some(length - known));
    }
    // What is longer has failed.
    *data = &data[more..];
    Ok(None)
}

/// Takes `data` up to the end of the compressed data; whether that was met.
fn inflate(
    inflater: &mut Decompress,
    data: &mut &[u8],
    sink: &mut Sink,
    mut sum: Option<&mut Crc>,
) -> Result<bool, Failure> {
    loop {
        let mut status = Ok(Status::Ok);
        let full = sink.extend(|room| {
            let (taken, made) = (inflater.total_in(), inflater.total_out());
            status = inflater.decompress(data, room, FlushDecompress::None);
            let taken = (inflater.total_in() - taken) as usize;
            let made = (inflater.total_out() - made) as usize;
            *data = &data[taken..];
            if let Some(sum) = &mut sum {
                sum.update(&room[..made]);
            }
            made
        })?;
        match status {
            Err(_) => return Err(Failure::Corrupt),
            Ok(Status::StreamEnd) => return Ok(true),
            Ok(_) if full => {}
            Ok(_) if data.is_empty() => return Ok(false),
            Ok(Status::BufError) => return Err(Failure::Corrupt),
            Ok(_) => {}
        }
    }
}

/// As [`inflate`], for brotli.
fn unbrotli(state: &mut BrotliWork, data: &mut &[u8], sink: &mut Sink) -> Result<bool, Failure> {
    let (mut left, mut at, mut total) = (data.len(), 0, 0);
    loop {
        let mut result = BrotliResult::ResultFailure;
        sink.extend(|room| {
            let (mut free, mut made) = (room.len(), 0);
            result = BrotliDecompressStream(
                &mut left, &mut at, data, &mut free, &mut made, room, &mut total, state,
            );
            made
        })?;
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => {
                *data = &[];
                return Ok(false);
            }
            BrotliResult::ResultSuccess => {
                *data = &data[at..];
                return Ok(true);
            }
            BrotliResult::ResultFailure => return Err(Failure::Corrupt),
        }
    }
}
