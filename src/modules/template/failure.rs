//! Errors of templates as one line of text: the file and the line, the problem, the source of the expression, and the
//! templates that have included it.

use super::limits::original;
use minijinja::{Error, ErrorKind};
use std::error::Error as _;
use std::fmt::Write;

/// The maximum number of characters of the source that are shown.
const MAX_SHOWN: usize = 80;

/// The maximum number of including templates that are shown.
const MAX_OUTER: usize = 5;

/// Returns the message of an error. `path_of` returns the path of a template as messages show it.
pub(super) fn text(error: &Error, path_of: impl Fn(&str) -> String) -> String {
    // The errors of including templates contain the error of the included template.
    let mut chain = vec![error];
    while let Some(inner) = chain[chain.len() - 1].source().and_then(|inner| inner.downcast_ref::<Error>()) {
        chain.push(inner);
    }
    let place = |error: &Error| Some(format!("{}:{}", path_of(error.name()?), error.line()?));
    let innermost = chain[chain.len() - 1];
    let at = chain.iter().rposition(|error| place(error).is_some());
    let mut message = String::new();
    if let Some(place) = at.and_then(|at| place(chain[at])) {
        message = place + ": ";
    }
    message.push_str(&problem(innermost));
    if let Some(shown) = at.and_then(|at| shown_line(chain[at])) {
        let _ = write!(message, ", in '{shown}'");
    }
    for outer in chain[..at.unwrap_or(0)].iter().rev().take(MAX_OUTER) {
        if let Some(place) = place(outer) {
            let _ = write!(message, ", called from {place}");
        }
    }
    message
}

fn problem(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too many steps (option 'fuel' sets the limit)".into(),
        // An error of `limits`, which contains the place.
        (ErrorKind::SyntaxError, Some(detail)) if error.template_source().is_none() => detail.into(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    }
}

/// Returns the line of the template's source, without the space around it.
fn shown_line(error: &Error) -> Option<String> {
    let line = error.template_source()?.lines().nth(error.line()?.checked_sub(1)?)?.trim();
    let line = original(line);
    let mut shown: String = line.chars().take(MAX_SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    Some(shown)
}
