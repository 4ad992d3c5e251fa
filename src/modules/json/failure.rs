//! Why a value has no JSON text, and where in it: `cannot encode a function at .users[3].name`. Made by
//! `encode.rs` on its way out of the tables.

use std::fmt;

/// Boxed, so that the result of each step, which is nearly always `Ok`, is one word.
pub(super) type Written = Result<(), Box<Failure>>;

/// Why a value has no JSON text, and the steps to it, innermost first.
pub(super) struct Failure {
    what: String,
    path: Vec<Step>,
}

pub(super) enum Step {
    Field(Vec<u8>),
    Element(i64),
}

/// The failure `what`, in the value that is being written.
pub(super) fn fail(what: impl Into<String>) -> Written {
    Err(Box::new(Failure { what: what.into(), path: Vec::new() }))
}

impl Failure {
    /// Adds the step that leads to the value which the failure is in.
    pub(super) fn inside(mut self: Box<Self>, step: Step) -> Box<Self> {
        self.path.push(step);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.what)?;
        if !self.path.is_empty() {
            to.write_str(" at ")?;
        }
        self.path.iter().rev().try_for_each(|step| match step {
            Step::Element(index) => write!(to, "[{index}]"),
            Step::Field(name) if is_name(name) => write!(to, ".{}", String::from_utf8_lossy(name)),
            Step::Field(name) => write!(to, "[{}]", quoted(name)),
        })
    }
}

/// Whether `.name` reads as Lua.
fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(|byte| !byte.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A key for a message: printable, at most 40 bytes of it.
pub(super) fn quoted(name: &[u8]) -> String {
    match name.len() {
        0..=40 => format!("\"{}\"", name.escape_ascii()),
        _ => format!("\"{}...\"", name[..40].escape_ascii()),
    }
}
