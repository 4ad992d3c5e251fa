//! Reads the form of a `recv` from its arguments.

use crate::lua::{Fault, Kind, Stack};
use crate::stream::RecvForm;

/// Reads the form of a `recv` that was called with `count` arguments.
#[inline]
pub(super) fn of_call(stack: &Stack, count: i32) -> Result<RecvForm<'_>, Fault> {
    match count {
        1 => Ok(RecvForm::Any),
        _ => of_arguments(stack),
    }
}

/// Reads the form from argument 2 on.
pub(super) fn of_arguments(stack: &Stack) -> Result<RecvForm<'_>, Fault> {
    match stack.kind(2) {
        Kind::None | Kind::Nil => return Ok(RecvForm::Any),
        Kind::Number => return Ok(RecvForm::Exactly(integer(stack, 2, i64::MAX / 2, "size")?)),
        _ => {}
    }
    match stack.bytes(2)? {
        b"line" => Ok(RecvForm::Line { limit: limit(stack, 3)? }),
        b"all" => Ok(RecvForm::All { limit: limit(stack, 3)? }),
        b"until" => {
            let delimiter = stack.bytes(3)?;
            if delimiter.is_empty() {
                return Err(Fault::argument(3, "the delimiter is empty"));
            }
            let limit = limit(stack, 4)?;
            Ok(RecvForm::Until { delimiter, limit })
        }
        _ => Err(Fault::argument(2, "a size, 'line', 'until' or 'all' expected")),
    }
}

fn limit(stack: &Stack, index: i32) -> Result<usize, Fault> {
    if stack.is_none(index) { Ok(usize::MAX) } else { integer(stack, index, i64::MAX, "limit") }
}

/// Reads the size or limit at `index`.
fn integer(stack: &Stack, index: i32, high: i64, what: &str) -> Result<usize, Fault> {
    Ok(stack.integer_in(index, 0..=high, what)? as usize)
}
