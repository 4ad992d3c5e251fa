//! The shapes of all routes by their segments, to find every one that matches a path.
//!
//! `Router::find_all` walks it where one match does not settle a request: constraints that failed,
//! 405, OPTIONS. Invariant: the walk goes on only where patterns exist, so its cost depends on how
//! many of them look alike, not on how many there are.

use super::pattern::Segment;
use std::collections::HashMap;

/// What can follow one place in the patterns.
#[derive(Debug, Default)]
struct Branch {
    literals: HashMap<String, usize>,
    parameter: Option<usize>,
    /// The shape of the pattern that ends here.
    end: Option<usize>,
    /// The shape of the pattern with a tail from here on.
    tail: Option<usize>,
}

/// The tree; the first branch is where paths begin.
#[derive(Debug)]
pub(super) struct Tree {
    branches: Vec<Branch>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { branches: vec![Branch::default()] }
    }
}

impl Tree {
    /// Adds a shape by its number.
    pub(super) fn insert(&mut self, segments: &[Segment], shape: usize) {
        let mut at = 0;
        for segment in segments {
            let new = self.branches.len();
            let branch = &mut self.branches[at];
            at = match segment {
                Segment::Literal(text) => *branch.literals.entry(text.clone()).or_insert(new),
                Segment::Parameter => *branch.parameter.get_or_insert(new),
                Segment::Tail => {
                    branch.tail = Some(shape);
                    return;
                }
            };
            if at == new {
                self.branches.push(Branch::default());
            }
        }
        self.branches[at].end = Some(shape);
    }

    /// Calls `found` with each shape that matches a normalised path and the values of its
    /// parameters, from the most to the least specific.
    pub(super) fn matches<'p>(&self, path: &'p str, found: &mut impl FnMut(usize, &[&'p str])) {
        if let Some(rest) = path.strip_prefix('/') {
            self.walk(0, Some(rest), &mut Vec::new(), found);
        }
    }

    /// Goes on at branch `at` with the segments in `rest`; `None` when the path has no more.
    fn walk<'p>(
        &self, at: usize, rest: Option<&'p str>, values: &mut Vec<&'p str>, found: &mut impl FnMut(usize, &[&'p str]),
    ) {
        let branch = &self.branches[at];
        let Some(text) = rest else {
            if let Some(shape) = branch.end {
                found(shape, values);
            }
            return;
        };
        let (part, behind) = match text.split_once('/') {
            Some((part, behind)) => (part, Some(behind)),
            None => (text, None),
        };
        if let Some(&next) = branch.literals.get(part) {
            self.walk(next, behind, values, found);
        }
        if let Some(next) = branch.parameter.filter(|_| !part.is_empty()) {
            values.push(part);
            self.walk(next, behind, values, found);
            values.pop();
        }
        if let Some(shape) = branch.tail {
            values.push(text);
            found(shape, values);
            values.pop();
        }
    }
}
