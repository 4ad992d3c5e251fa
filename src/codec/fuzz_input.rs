//! The input of a fuzzer, divided into numbers and bytes. The targets of `crate::fuzzing` use it.

/// The rest of an input. After its end, numbers are 0 and there are no bytes.
pub(crate) struct Input<'i>(pub(crate) &'i [u8]);

impl<'i> Input<'i> {
    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Returns a number of 16 bits.
    pub(crate) fn short(&mut self) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    /// Returns up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'i [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// Returns the sizes of pieces: a number of them, then one byte for each; 0 means 256 bytes.
    pub(crate) fn sizes(&mut self) -> Vec<usize> {
        let count = usize::from(self.byte() % 16);
        let sizes = self.bytes(count).iter();
        let mut sizes: Vec<usize> = sizes.map(|&size| if size == 0 { 256 } else { size.into() }).collect();
        if sizes.is_empty() {
            sizes.push(usize::MAX);
        }
        sizes
    }
}

/// Splits bytes into pieces of these sizes, which are used over and over again.
pub(crate) fn pieces<'b>(bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let (mut rest, mut found) = (bytes, Vec::new());
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(size.min(rest.len()));
        found.push(piece);
        rest = after;
    }
    found
}
