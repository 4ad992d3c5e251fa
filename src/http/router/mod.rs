//! Compiled routes: patterns in, route numbers and parameter values out.
//!
//! The web server's glue adds routes when the application starts and looks up each request's
//! normalised path. Invariant: the shape found first is the most specific one: segment by segment
//! from the left, literal text beats a parameter, and a parameter beats a tail.

mod pattern;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod tree;

use crate::codec::http1::head::Method;
use std::collections::HashMap;

use pattern::{Pattern, Segment};
use tree::Tree;

/// What a route was made from.
#[derive(Debug)]
pub(crate) struct Route {
    /// Empty for any.
    pub(crate) method: Box<[u8]>,
    pub(crate) pattern: Pattern,
}

/// A route that a path leads to, if its method and its constraints agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The route's number.
    pub(crate) route: usize,
    /// The method, empty for any.
    pub(crate) method: Box<[u8]>,
    /// Which of the standard methods that is.
    method_id: Method,
    /// Whether there are constraints to test.
    pub(crate) has_constraints: bool,
}

impl Candidate {
    fn is_for(&self, id: Method, name: &[u8]) -> bool {
        self.method_id == id && (id != Method::Other || *self.method == *name)
    }
}

/// A table of routes.
#[derive(Default)]
pub(crate) struct Router {
    routes: Vec<Route>,
    /// The routes of each shape, that is: whose patterns differ in names and constraints only.
    shapes: Vec<Vec<Candidate>>,
    by_segments: HashMap<Vec<Segment>, usize>,
    tree: Tree,
}

impl Router {
    /// Adds a route and returns its number, counted from 0. `method` is empty for any method.
    ///
    /// Segments of `pattern` are literal text, `:name`, `:name<constraint>`, and at its end
    /// `*name`. A constraint ends at the first `>` that a `/` or the pattern's end follows.
    /// Literal text is brought into the normal form of paths ([`crate::codec::uri::normalize_path`]).
    ///
    /// # Errors
    /// A message for the programmer, who gave a malformed pattern, or one that is there already
    /// for the same method with the same constraints.
    pub(crate) fn add(&mut self, method: &[u8], pattern: &str) -> Result<usize, String> {
        let parsed = pattern::parse(pattern)?;
        let shape = *self.by_segments.entry(parsed.segments.clone()).or_insert_with(|| {
            self.tree.insert(&parsed.segments, self.shapes.len());
            self.shapes.push(Vec::new());
            self.shapes.len() - 1
        });
        let is_duplicate = self.shapes[shape].iter().any(|candidate| {
            *candidate.method == *method && self.routes[candidate.route].pattern.constraints == parsed.constraints
        });
        if is_duplicate {
            let method = match method {
                b"" => "any method".into(),
                method => String::from_utf8_lossy(method),
            };
            return Err(format!("there is a route for {method} '{pattern}' already"));
        }
        let route = Route { method: method.into(), pattern: parsed };
        let id = self.routes.len();
        self.shapes[shape].push(Candidate {
            route: id,
            method: method.into(),
            method_id: Method::of(method),
            has_constraints: route.pattern.constraints.iter().any(Option::is_some),
        });
        self.routes.push(route);
        Ok(id)
    }

    /// The route with this number, as [`Router::add`] gave it.
    pub(crate) fn route(&self, id: usize) -> Option<&Route> {
        self.routes.get(id)
    }

    /// Calls `found` with the routes of each shape that matches a normalised path, in order of registration, and what the
    /// path has in the place of their parameters, in the order of [`Pattern::names`]: from the most to the least specific
    /// shape, until it returns true.
    pub(crate) fn each<'r, 'p>(&'r self, path: &'p [u8], mut found: impl FnMut(&'r [Candidate], &[&'p [u8]]) -> bool) {
        self.tree.walk(path, &mut |shape, values| found(&self.shapes[shape], values));
    }

    /// The routes of the most specific shape.
    #[inline]
    pub(crate) fn candidates(&self, path: &[u8]) -> Option<&[Candidate]> {
        let mut first = None;
        self.each(path, |candidates, _| {
            first = Some(candidates);
            true
        });
        first
    }
}
