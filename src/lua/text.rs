//! Conversion of values to strings.

use super::call::Call;
use super::function::Function;
use super::pusher::Pusher;
use super::returns::Push;
use super::state::{Kind, State};

/// `(value)`: returns the same string as `tostring`. A metamethod may run.
pub(crate) const TO_TEXT: Function = Function::new(|_: &mut Call<'_>| Ok(Text { is_error: false }));

/// `(error)`: returns the error if it is a string. Otherwise returns the result of its `__tostring`, or, if it has
/// none, a message that contains the error's type.
pub(crate) const ERROR_TEXT: Function = Function::new(|_: &mut Call<'_>| Ok(Text { is_error: true }));

/// The first argument as a string.
struct Text {
    is_error: bool,
}

impl Push for Text {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.drop_to(1);
        if self.is_error && to.kind(1) != Kind::String {
            to.push_metafield(1, c"__tostring");
            if to.is_none(2) {
                let text = format_args!("(error object is a {} value)", to.type_name(1)).to_string();
                return super::returns::with_parked(text, to, Push::push);
            }
        }
        to.push_text(1);
    }
}

/// Pops the error from a stack and returns it as a string. Returns a fixed text if the error is not a string, or if the
/// stack is empty because a coroutine has closed itself.
pub(super) fn take_message(stack: &mut State) -> String {
    let top = stack.count();
    let text = match (top > 0).then(|| stack.string(top)).flatten() {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "(error object is not a string)".to_owned(),
    };
    stack.drop_to(top - 1);
    text
}
