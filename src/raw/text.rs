//! A message of bounded length that lives on the stack.
//!
//! Used wherever a message must survive until `lua_error` without owning memory.

use std::fmt;

const CAPACITY: usize = 400;

/// Up to 400 bytes of UTF-8; what is longer is cut.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    length: usize,
    bytes: [u8; CAPACITY],
}

impl Text {
    pub(crate) fn new(message: &str) -> Self {
        Self::format(format_args!("{message}"))
    }

    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Text {
            length: 0,
            bytes: [0; CAPACITY],
        };
        // `write_str` below never fails; a failing `Display` only shortens the message.
        let _ = fmt::Write::write_fmt(&mut text, arguments);
        text
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = CAPACITY - self.length;
        let mut take = piece.len().min(room);
        while !piece.is_char_boundary(take) {
            take -= 1;
        }
        self.bytes[self.length..self.length + take].copy_from_slice(&piece.as_bytes()[..take]);
        self.length += take;
        Ok(())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl From<&str> for Text {
    fn from(message: &str) -> Self {
        Text::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let text = Text::new(&"é".repeat(300));
        assert_eq!(text.as_bytes().len(), 400);
        let odd = Text::new(&format!("x{}", "é".repeat(300)));
        assert_eq!(odd.as_bytes().len(), 399);
        assert!(std::str::from_utf8(odd.as_bytes()).is_ok());
    }
}
