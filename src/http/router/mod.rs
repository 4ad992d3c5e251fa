//! The router: it finds the routes that match a path, and the values of their parameters.
//!
//! | file | topic |
//! |---|---|
//! | `pattern` | parsing of patterns |
//! | `tree` | the shapes of all patterns |
//! | [`routes`] | the routes of an app |
//!
//! The web server adds routes when the app starts, and matches the normalised path of each request. Invariant: the most
//! specific shape is found first. Segment by segment from the left, literal text precedes a parameter, and a parameter
//! precedes a tail.

mod pattern;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod tree;

use crate::codec::http1::head::Method;
use std::collections::HashMap;

use pattern::{Pattern, Segment};
use tree::Tree;

/// The method and the pattern of a route.
#[derive(Debug)]
pub(crate) struct Route {
    /// The method; empty for any method.
    pub(crate) method: Box<[u8]>,
    pub(crate) pattern: Pattern,
}

/// A route whose pattern matches a path. Its method and its constraints have not been tested yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The route's number.
    pub(crate) route: usize,
    /// The method; empty for any method.
    pub(crate) method: Box<[u8]>,
    /// The standard method with this name, or `Other`.
    method_id: Method,
    /// Whether the route has constraints to test.
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
    /// The routes of each shape. The patterns of one shape differ only in names and constraints.
    shapes: Vec<Vec<Candidate>>,
    by_segments: HashMap<Vec<Segment>, usize>,
    tree: Tree,
}

impl Router {
    /// Adds a route and returns its number, counted from 0. An empty `method` means any method.
    ///
    /// Segments of `pattern` are literal text, `:name` and, as the last segment, `*name`. A `<constraint>` may follow a
    /// name. A constraint ends at the first `>` before a `/` or the end of the pattern. Literal text is converted to
    /// the normal form of paths ([`crate::codec::uri::normalize_path`]).
    ///
    /// # Errors
    /// A message for the programmer, if the pattern is malformed, or if a route with the same pattern, method and
    /// constraints already exists.
    pub(crate) fn add(&mut self, method: &[u8], pattern: &str) -> Result<usize, String> {
        let parsed = pattern::parse(pattern)?;
        if self.position(method, &parsed).is_some() {
            let method = match method {
                b"" => "any method".into(),
                method => String::from_utf8_lossy(method),
            };
            return Err(format!("a route for {method} '{pattern}' already exists"));
        }
        let shape = *self.by_segments.entry(parsed.segments.clone()).or_insert_with(|| {
            self.tree.insert(&parsed.segments, self.shapes.len());
            self.shapes.push(Vec::new());
            self.shapes.len() - 1
        });
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

    /// Returns the number of the route with this pattern, method and constraints, or `None` if there is none. The names
    /// of parameters are not compared.
    ///
    /// # Errors
    /// A message for the programmer, if the pattern is malformed.
    pub(crate) fn number_of(&self, method: &[u8], pattern: &str) -> Result<Option<usize>, String> {
        Ok(self.position(method, &pattern::parse(pattern)?))
    }

    fn position(&self, method: &[u8], pattern: &Pattern) -> Option<usize> {
        let shape = *self.by_segments.get(&pattern.segments)?;
        let is_same = |candidate: &&Candidate| {
            *candidate.method == *method && self.routes[candidate.route].pattern.constraints == pattern.constraints
        };
        self.shapes[shape].iter().find(is_same).map(|candidate| candidate.route)
    }

    /// Returns the route with this number, as returned by [`Router::add`].
    pub(crate) fn route(&self, id: usize) -> Option<&Route> {
        self.routes.get(id)
    }

    /// Calls `found` for each shape that matches a normalised path, from the most to the least specific, until `found`
    /// returns true. Its arguments are the routes of the shape in order of registration, and the values of their
    /// parameters in the order of [`Pattern::names`].
    pub(crate) fn each<'r, 'p>(&'r self, path: &'p [u8], mut found: impl FnMut(&'r [Candidate], &[&'p [u8]]) -> bool) {
        self.tree.walk(path, &mut |shape, values| found(&self.shapes[shape], values));
    }

    /// Returns the routes of the most specific matching shape.
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
