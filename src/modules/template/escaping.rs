//! Escaping of values for HTML, with the escapes of `web.escape`: minijinja's own formatter also escapes slashes, which
//! makes links hard to read and to search for.

use crate::codec::html::escape;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, Output, State, Value, escape_formatter, filters};

/// Makes the environment escape values, and the filters `escape` and `e`, with the escapes of `web.escape`.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_formatter(write_value);
    environment.add_filter("escape", escape_value);
    environment.add_filter("e", escape_value);
}

fn write_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let has_text =
        !matches!(value.kind(), ValueKind::Undefined | ValueKind::None | ValueKind::Bool | ValueKind::Number);
    if !has_text || value.is_safe() || !matches!(state.auto_escape(), AutoEscape::Html) {
        return escape_formatter(out, state, value);
    }
    out.write_str(&escaped(value)).map_err(Error::from)
}

/// The filter `escape`: for HTML, except in a template for JSON.
fn escape_value(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match state.auto_escape() {
        _ if value.is_safe() => Ok(value.clone()),
        AutoEscape::Json => filters::escape(state, value),
        _ => Ok(Value::from_safe_string(escaped(value))),
    }
}

fn escaped(value: &Value) -> String {
    let mut bytes = Vec::new();
    match value.as_str() {
        Some(text) => escape(text.as_bytes(), &mut bytes),
        None => escape(value.to_string().as_bytes(), &mut bytes),
    }
    // Only ASCII characters were replaced, by ASCII characters.
    String::from_utf8(bytes).unwrap_or_default()
}
