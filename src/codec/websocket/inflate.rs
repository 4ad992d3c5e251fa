//! Decompression of messages (RFC 7692 section 7.2.2). The assembly of a reader uses it.
//!
//! Invariant: one step outputs at most 32 KiB, so that the caller can check its limits between steps. Each message must
//! end at the end of a block. The window has the largest size, so that every size that a peer may choose is decoded. A
//! reference to bytes before the first message yields zeros, because the decoder does not report it.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The size of the window, in bytes.
const WINDOW: usize = 32 * 1024;

/// The input after each message: the end of an empty stored block, which the sender removes, and a final empty block.
pub(crate) const TRAILER: [u8; 9] = [0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff];

/// How decoding continues after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The next step needs more input.
    Input,
    /// The next step gets the rest of the input, which may be empty.
    Output,
    /// The data violates the deflate format.
    Corrupt,
}

/// The result of a step.
pub(crate) struct Step<'w> {
    /// The number of bytes of the input that are no longer needed.
    pub(crate) consumed: usize,
    /// The output, even before corrupt data.
    pub(crate) output: &'w [u8],
    pub(crate) next: Next,
}

/// A decoder with its window, 43 KiB.
pub(crate) struct Inflater {
    decoder: DecompressorOxide,
    window: [u8; WINDOW],
    /// The offset in the window of the next output.
    at: usize,
    is_at_end: bool,
}

impl Inflater {
    /// Returns a decoder with an empty window.
    pub(crate) fn new() -> Box<Inflater> {
        Box::new(Inflater { decoder: DecompressorOxide::new(), window: [0; WINDOW], at: 0, is_at_end: false })
    }

    /// Decodes a part of `input`.
    pub(crate) fn step(&mut self, input: &[u8]) -> Step<'_> {
        let (status, consumed, written) =
            decompress(&mut self.decoder, input, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
        let output = self.at..self.at + written;
        self.at = output.end % WINDOW;
        let is_done = status == TINFLStatus::Done;
        self.is_at_end = is_done && consumed == input.len();
        let next = match status {
            TINFLStatus::NeedsMoreInput => Next::Input,
            TINFLStatus::Done if self.is_at_end => Next::Input,
            TINFLStatus::Done | TINFLStatus::HasMoreOutput => Next::Output,
            _ => Next::Corrupt,
        };
        if is_done {
            // The next block belongs to a new stream with the same window (RFC 7692 section 7.2.3.4).
            self.decoder.init();
        }
        Step { consumed, output: &self.window[output], next }
    }

    /// Whether the input of the last step has ended at the end of a stream. If so after [`TRAILER`], the message is
    /// complete, and the decoder is ready for the next message.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a message in pieces of `size` bytes. Returns `None` if it is corrupt.
    fn inflated(inflater: &mut Inflater, message: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for mut piece in message.chunks(size).chain([&TRAILER[..]]) {
            loop {
                let step = inflater.step(piece);
                out.extend_from_slice(step.output);
                piece = &piece[step.consumed..];
                match step.next {
                    Next::Input => break,
                    Next::Output => (),
                    Next::Corrupt => return None,
                }
            }
        }
        inflater.is_at_end().then_some(out)
    }

    #[test]
    fn the_examples_of_rfc_7692_section_7_2_3() {
        let first = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        let with_window = [0xf2, 0x00, 0x11, 0x00, 0x00];
        let stored = [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
        let final_block = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
        let two_blocks = [0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00];
        for size in 1..=13 {
            let mut inflater = Inflater::new();
            for message in [&first[..], &with_window, &final_block, &with_window, &stored, &two_blocks, &with_window] {
                assert_eq!(inflated(&mut inflater, message, size).as_deref(), Some(&b"Hello"[..]), "{message:x?}");
            }
            assert_eq!(inflated(&mut inflater, &[0], size).as_deref(), Some(&b""[..]));
        }
    }

    #[test]
    fn a_message_that_ends_within_a_block_is_corrupt() {
        let message = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        for end in 1..message.len() {
            assert_eq!(inflated(&mut Inflater::new(), &message[..end], 16), None, "{end}");
        }
    }

    #[test]
    fn invalid_blocks_are_corrupt() {
        assert_eq!(inflated(&mut Inflater::new(), &[0x06, 0x00], 16), None);
        assert_eq!(inflated(&mut Inflater::new(), &[0x00, 0x05, 0x00, 0xfa, 0xfe, 0x48], 16), None);
    }

    #[test]
    fn a_step_outputs_at_most_a_window() {
        let zeros = miniz_oxide::deflate::compress_to_vec(&vec![0; 1 << 20], 9);
        let mut inflater = Inflater::new();
        let (mut total, mut at) = (0, 0);
        loop {
            let step = inflater.step(&zeros[at..]);
            assert!(step.output.len() <= WINDOW);
            total += step.output.len();
            at += step.consumed;
            if step.next != Next::Output {
                break;
            }
        }
        assert_eq!(total, 1 << 20);
    }
}
