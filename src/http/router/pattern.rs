//! Parser of route patterns, with parameter names and constraints.
//!
//! Invariant: a parsed pattern has at most one tail, at its end, and distinct parameter names. The segments are its
//! shape: they contain no names and no constraints.

use crate::codec::uri;

/// The maximum number of parameters of a pattern, including the tail.
pub(crate) const MAX_PARAMETERS: usize = 16;

/// One segment of a shape. Segments are ordered by precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Segment {
    /// Text in the normal form of paths. It may be empty.
    Literal(String),
    /// One segment of the path, which must not be empty.
    Parameter,
    /// The rest of the path, including slashes. It may be empty.
    Tail,
}

/// A parsed pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(super) segments: Vec<Segment>,
    /// The names of the parameters in order; the tail's name is the last.
    pub(crate) names: Vec<String>,
    /// The constraint of each parameter, in the order of the names.
    pub(crate) constraints: Vec<Option<String>>,
}

/// Parses a pattern; see `Router::add`.
pub(super) fn parse(text: &str) -> Result<Pattern, String> {
    let error = |what: &str| format!("route pattern '{text}' {what}");
    let fail = |what: &str| Err(error(what));
    let mut rest = text.strip_prefix('/').ok_or_else(|| error("must begin with '/'"))?;
    let mut pattern = Pattern { segments: Vec::new(), names: Vec::new(), constraints: Vec::new() };
    loop {
        let parsed = parse_segment(rest).map_err(|what| error(&what))?;
        if let Some(name) = parsed.name {
            if pattern.names.contains(&name) {
                return fail(&format!("has the parameter '{name}' twice"));
            }
            if pattern.names.len() == MAX_PARAMETERS {
                return fail(&format!("has more than {MAX_PARAMETERS} parameters"));
            }
            pattern.names.push(name);
            pattern.constraints.push(parsed.constraint);
        }
        let is_tail = parsed.segment == Segment::Tail;
        pattern.segments.push(parsed.segment);
        match parsed.behind {
            None => return Ok(pattern),
            Some(_) if is_tail => return fail("has a '*' segment that is not the last"),
            Some(behind) => rest = behind,
        }
    }
}

struct Parsed<'t> {
    segment: Segment,
    name: Option<String>,
    constraint: Option<String>,
    /// The text after the slash that follows the segment, if there is one.
    behind: Option<&'t str>,
}

/// Parses the segment at the start of `rest`.
fn parse_segment(rest: &str) -> Result<Parsed<'_>, String> {
    let (segment, named) = match rest.as_bytes().first() {
        Some(b':') => (Segment::Parameter, &rest[1..]),
        Some(b'*') => (Segment::Tail, &rest[1..]),
        _ => return parse_literal(rest),
    };
    let end = named.find(['/', '<']).unwrap_or(named.len());
    let (name, behind) = named.split_at(end);
    if name.is_empty() {
        return Err("has a parameter without a name".into());
    }
    if let Some(invalid) = name.chars().find(|c| !(c.is_alphanumeric() || *c == '_')) {
        return Err(format!("has '{invalid}' in the parameter name '{name}'"));
    }
    let (constraint, behind) = match behind.strip_prefix('<') {
        None => (None, behind),
        Some(constraint) => {
            let end =
                constraint_end(constraint).ok_or_else(|| format!("has a '<' without '>' at the parameter '{name}'"))?;
            (Some(&constraint[..end]), &constraint[end + 1..])
        }
    };
    if constraint == Some("") {
        return Err(format!("has an empty constraint at the parameter '{name}'"));
    }
    Ok(Parsed {
        segment,
        name: Some(name.into()),
        constraint: constraint.map(Into::into),
        behind: behind.strip_prefix('/'),
    })
}

/// Returns the offset of the `>` that ends a constraint. A `>` before other text is part of the constraint.
fn constraint_end(text: &str) -> Option<usize> {
    text.match_indices('>').map(|(at, _)| at).find(|at| matches!(text.as_bytes().get(at + 1), None | Some(b'/')))
}

fn parse_literal(rest: &str) -> Result<Parsed<'_>, String> {
    let (text, behind) = rest.split_once('/').map_or((rest, None), |(text, behind)| (text, Some(behind)));
    if let Some(found) = text.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(format!(
            "has '{found}', which is not part of a path (write '%{:02X}' for the character)",
            found as u32
        ));
    }
    let mut normal = Vec::new();
    uri::normalize_path(text.as_bytes(), &mut normal).map_err(|_| format!("has a malformed escape in '{text}'"))?;
    Ok(Parsed {
        // The normal form is ASCII.
        segment: Segment::Literal(String::from_utf8_lossy(&normal).into_owned()),
        name: None,
        constraint: None,
        behind,
    })
}
