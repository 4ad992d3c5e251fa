//! Compiled routes: patterns in, route numbers and parameter values out.
//!
//! The web server's glue adds routes when the application starts and looks up each request's
//! normalised path. Look-up is matchit's radix trie, so its cost does not grow with the number of
//! routes. Invariant: the node found is the most specific one: segment by segment from the
//! left, literal text beats a parameter, and a parameter beats a tail.
//!
//! matchit allows no tail beside a parameter (`/*rest` with `/:page`), so there is one trie for
//! patterns without tail and one per depth at which a tail stands; within each of them nothing
//! can conflict.

mod pattern;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod tree;

use crate::codec::http1::head::Method;
use std::collections::HashMap;

use pattern::{MAX_PARAMETERS, Pattern, Segment};
use tree::Tree;

/// What a route was made from.
#[derive(Debug)]
pub(crate) struct Route {
    method: Box<[u8]>,
    pattern: Pattern,
}

impl Route {
    /// The method, empty for any.
    pub(crate) fn method(&self) -> &[u8] {
        &self.method
    }

    /// Names of the parameters in the order of the pattern, the tail's last.
    pub(crate) fn names(&self) -> &[String] {
        &self.pattern.names
    }

    /// Text of each parameter's constraint, in the order of the names.
    pub(crate) fn constraints(&self) -> &[Option<String>] {
        &self.pattern.constraints
    }

    fn is_constrained(&self) -> bool {
        self.constraints().iter().any(Option::is_some)
    }
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
    #[inline]
    fn is_for(&self, id: Method, name: &[u8]) -> bool {
        self.method_id == id && (id != Method::Other || *self.method == *name)
    }
}

/// All routes of one shape, that is: whose patterns differ in names and constraints only.
#[derive(Debug)]
struct Shape {
    segments: Vec<Segment>,
    candidates: Vec<Candidate>,
}

impl Shape {
    /// Whether `self` comes before `other`, given that both match the same path.
    fn is_more_specific(&self, other: &Self) -> bool {
        pattern::rank(&self.segments).lt(pattern::rank(&other.segments))
    }
}

/// Where an entry of a trie leads to.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    node: usize,
    /// The entry stands for an empty tail, which matchit does not match itself.
    has_empty_tail: bool,
}

/// Values of parameters, in the order of the pattern.
#[derive(Debug)]
pub(crate) struct Values<'p> {
    values: [&'p str; MAX_PARAMETERS],
    count: usize,
}

impl<'p> Values<'p> {
    fn new() -> Self {
        Self { values: [""; MAX_PARAMETERS], count: 0 }
    }

    /// The values; only a tail's may be empty.
    pub(crate) fn as_slice(&self) -> &[&'p str] {
        &self.values[..self.count]
    }

    /// Appends a value; patterns with more than [`MAX_PARAMETERS`] were refused.
    fn push(&mut self, value: &'p str) {
        self.values[self.count] = value;
        self.count += 1;
    }
}

/// A match: the routes of one shape, and what the path has in the place of their parameters.
#[derive(Debug)]
pub(crate) struct Node<'r, 'p> {
    /// The routes in order of registration; never empty.
    pub(crate) candidates: &'r [Candidate],
    /// Those of the parameters, raw sub-slices of the path, in the order of [`Route::names`].
    values: Values<'p>,
    shape: &'r Shape,
}

impl<'p> Node<'_, 'p> {
    /// What the path has in the place of the parameters.
    pub(crate) fn values(&self) -> &[&'p str] {
        self.values.as_slice()
    }

    fn is_more_specific(&self, other: &Self) -> bool {
        self.shape.is_more_specific(other.shape)
    }
}

/// A table of routes.
#[derive(Default)]
pub(crate) struct Router {
    routes: Vec<Route>,
    shapes: Vec<Shape>,
    by_segments: HashMap<Vec<Segment>, usize>,
    /// All shapes, for the requests that one of them does not settle.
    tree: Tree,
    /// Patterns without tail.
    exact: matchit::Router<Leaf>,
    /// Patterns with a tail, one trie for each number of segments.
    tails: Vec<(usize, matchit::Router<Leaf>)>,
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
        let node = match self.by_segments.get(&parsed.segments) {
            Some(&node) => node,
            None => self.insert_shape(&parsed)?,
        };
        let is_duplicate = self.shapes[node].candidates.iter().any(|candidate| {
            *candidate.method == *method && self.routes[candidate.route].constraints() == parsed.constraints
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
        self.shapes[node].candidates.push(Candidate {
            route: id,
            method: method.into(),
            method_id: Method::of(method),
            has_constraints: route.is_constrained(),
        });
        self.routes.push(route);
        Ok(id)
    }

    fn insert_shape(&mut self, parsed: &Pattern) -> Result<usize, String> {
        let node = self.shapes.len();
        let leaf = |has_empty_tail| Leaf { node, has_empty_tail };
        let explain = |error: matchit::InsertError| error.to_string();
        let key = pattern::trie_key(&parsed.segments);
        if parsed.segments.last() == Some(&Segment::Tail) {
            let trie = self.tail_trie(parsed.segments.len());
            trie.insert(format!("{key}{{*tail}}"), leaf(false)).map_err(explain)?;
            trie.insert(key, leaf(true)).map_err(explain)?;
        } else {
            self.exact.insert(key, leaf(false)).map_err(explain)?;
        }
        self.tree.insert(&parsed.segments, node);
        self.shapes.push(Shape { segments: parsed.segments.clone(), candidates: Vec::new() });
        self.by_segments.insert(parsed.segments.clone(), node);
        Ok(node)
    }

    fn tail_trie(&mut self, depth: usize) -> &mut matchit::Router<Leaf> {
        let at = match self.tails.iter().position(|(d, _)| *d == depth) {
            Some(at) => at,
            None => {
                self.tails.push((depth, matchit::Router::new()));
                self.tails.len() - 1
            }
        };
        &mut self.tails[at].1
    }

    /// The route with this number, as [`Router::add`] gave it.
    pub(crate) fn route(&self, id: usize) -> Option<&Route> {
        self.routes.get(id)
    }

    /// The most specific node for a normalised path. When all its candidates fail their
    /// constraints, go on with [`Router::find_all`] from its second node.
    #[inline]
    pub(crate) fn find<'p>(&self, path: &'p str) -> Option<Node<'_, 'p>> {
        let mut best = self.look_up(&self.exact, path);
        for (_, trie) in &self.tails {
            // Without parameters it is literal all along, and nothing is more specific.
            if let Some(Node { values, .. }) = &best
                && values.count == 0
            {
                break;
            }
            if let Some(node) = self.look_up(trie, path)
                && best.as_ref().is_none_or(|best| node.is_more_specific(best))
            {
                best = Some(node);
            }
        }
        best
    }

    /// What [`Router::find`] tells, without the values of parameters.
    #[inline]
    pub(crate) fn candidates(&self, path: &str) -> Option<&[Candidate]> {
        let look_up = |trie: &matchit::Router<Leaf>| {
            let found = trie.at(path).ok()?;
            let literal = found.params.is_empty() && !found.value.has_empty_tail;
            Some((&self.shapes[found.value.node], literal))
        };
        let mut best = look_up(&self.exact);
        for (_, trie) in &self.tails {
            // It is literal all along, and nothing is more specific.
            if let Some((shape, true)) = best {
                return Some(&shape.candidates);
            }
            let Some((shape, literal)) = look_up(trie) else {
                continue;
            };
            if best.is_none_or(|(best, _)| shape.is_more_specific(best)) {
                best = Some((shape, literal));
            }
        }
        best.map(|(shape, _)| &shape.candidates[..])
    }

    #[inline]
    fn look_up<'p>(&self, trie: &matchit::Router<Leaf>, path: &'p str) -> Option<Node<'_, 'p>> {
        let found = trie.at(path).ok()?;
        let mut node = self.node(found.value.node);
        for (_, value) in found.params.iter() {
            node.values.push(value);
        }
        if found.value.has_empty_tail {
            node.values.push("");
        }
        Some(node)
    }

    /// A node without values yet.
    #[inline]
    fn node(&self, node: usize) -> Node<'_, 'static> {
        let shape = &self.shapes[node];
        Node { candidates: &shape.candidates, values: Values::new(), shape }
    }

    /// All nodes that match a normalised path, from the most to the least specific; for the rare
    /// request that the first of them does not settle.
    pub(crate) fn find_all<'p>(&self, path: &'p str) -> Vec<Node<'_, 'p>> {
        let mut nodes = Vec::new();
        self.tree.matches(path, &mut |node, found| {
            let mut node: Node<'_, 'p> = self.node(node);
            found.iter().for_each(|value| node.values.push(value));
            nodes.push(node);
        });
        nodes
    }
}
