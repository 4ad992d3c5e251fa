//! Conversion of values to text.

use super::call::Call;
use super::function::Function;
use super::pusher::Pusher;
use super::returns::Push;
use super::state::{Kind, State};

/// `(value)`: returns the text that `tostring` returns. A metamethod may run.
pub(crate) const TO_TEXT: Function = Function::new(|_: &mut Call<'_>| Ok(Text { is_error: false }));

/// `(error)`: returns the error if it is a string, else the text that its `__tostring` returns, else a text with the
/// error's type.
pub(crate) const ERROR_TEXT: Function = Function::new(|_: &mut Call<'_>| Ok(Text { is_error: true }));

/// The text of the first argument.
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

/// Pops the error from a stack, and returns it as text. The stack is empty if a coroutine has closed itself.
pub(super) fn take_message(stack: &mut State) -> String {
    let top = stack.count();
    let text = match (top > 0).then(|| stack.string(top)).flatten() {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "(error object is not a string)".to_owned(),
    };
    stack.drop_to(top - 1);
    text
}
