//! `http.html`: a text that a handler returns as HTML. `serve` responds with it, as with a string, unless Lua code has
//! to complete the response.

use crate::codec::html::escape;
use crate::lua::{Argument, Call, Fault, Field, Function, Kind, NewWith, Object};

/// The media type of HTML.
pub(super) const MEDIA_TYPE: &[u8] = b"text/html; charset=utf-8";

/// A page. Its text is a Lua string in a field.
pub(crate) struct Html;

/// The text of the page.
pub(super) const TEXT: Field<Html> = Field::new(1);

impl Object for Html {
    const NAME: &'static str = "lio.html";
    const USER_VALUES: i32 = 1;
}

/// `http.html(text)`: returns the text, marked as HTML.
pub(super) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    call.expect(1, Kind::String, "string")?;
    Ok(NewWith::new(Html, [(TEXT, 1)]))
});

/// `http.text_of_html(value)`: returns the text of a result of `http.html`; nil for any other value.
pub(super) const TEXT_OF: Function = Function::new(|call: &mut Call<'_>| {
    let is_html = call.as_object::<Html>(1).is_some();
    Ok::<_, Fault>(is_html.then(|| call.field(1, TEXT)).transpose()?.map(Argument))
});

/// `http.escape_html(text)`: returns the text, escaped for the content or for a quoted attribute of an HTML page.
pub(super) const ESCAPE: Function = Function::new(|call: &mut Call<'_>| {
    let mut escaped = Vec::new();
    escape(call.bytes(1)?, &mut escaped);
    Ok(escaped)
});
