//! Writer of JSON strings and numbers, which are appended to a buffer.

use crate::codec::byte_table;

/// The position in a string, counted from 1, of the first byte that is not valid UTF-8.
#[derive(Debug, PartialEq)]
pub(crate) struct NotUtf8(pub(crate) usize);

/// Appends an integer.
pub(crate) fn put_integer(text: &mut Vec<u8>, value: i64) {
    text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a finite number in the shortest form that is recognisable as a float.
pub(crate) fn put_float(text: &mut Vec<u8>, value: f64) {
    text.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
}

/// Appends a string in quotation marks.
#[inline]
pub(crate) fn put_string(text: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NotUtf8> {
    if bytes.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        text.reserve(bytes.len() + 2);
        text.push(b'"');
        text.extend_from_slice(bytes);
        text.push(b'"');
        return Ok(());
    }
    put_other_string(text, bytes)
}

/// Appends a string with escapes for quotation marks, backslashes and control characters (RFC 8259 section 7).
fn put_other_string(text: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NotUtf8> {
    let string = std::str::from_utf8(bytes).map_err(|error| NotUtf8(error.valid_up_to() + 1))?;
    // Writing a string to a vector cannot fail.
    let _ = serde_json::to_writer(text, string);
    Ok(())
}

/// ASCII bytes that need no escape.
static PLAIN: [bool; 256] = byte_table!(|byte| matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'\\'));

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_string_that_is_not_utf_8_is_refused_with_the_position_of_the_byte() {
        let mut text = Vec::new();
        assert_eq!(put_string(&mut text, b"ab\xc3(c"), Err(NotUtf8(3)));
        assert_eq!(put_string(&mut text, b"a\"\xff"), Err(NotUtf8(3)));
    }

    proptest! {
        #[test]
        fn serde_json_reads_the_written_text(value in any::<String>(), number in any::<i64>()) {
            let mut text = Vec::new();
            put_string(&mut text, value.as_bytes()).expect("valid UTF-8");
            prop_assert_eq!(serde_json::from_slice::<String>(&text).expect("a string"), value);
            text.clear();
            put_integer(&mut text, number);
            prop_assert_eq!(serde_json::from_slice::<i64>(&text).expect("a number"), number);
        }
    }
}
