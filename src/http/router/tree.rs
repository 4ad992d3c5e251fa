//! The shapes of all routes by their segments.
//!
//! Invariant: a walk goes on only where patterns exist, so its cost depends on how many of them look alike, not on how
//! many there are.

use super::pattern::{MAX_PARAMETERS, Segment};
use crate::codec::uri::find_byte;
use rustc_hash::FxHashMap;

/// What can follow one place in the patterns.
#[derive(Debug, Default)]
struct Branch {
    literals: FxHashMap<Box<[u8]>, usize>,
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

/// What a path has in the place of the parameters so far; patterns with more than [`MAX_PARAMETERS`] were refused.
struct Values<'p> {
    values: [&'p [u8]; MAX_PARAMETERS],
    count: usize,
}

impl<'p> Values<'p> {
    /// Has `use_them` use these with one more.
    #[inline]
    fn with(&mut self, value: &'p [u8], use_them: impl FnOnce(&mut Self) -> bool) -> bool {
        self.values[self.count] = value;
        self.count += 1;
        let result = use_them(self);
        self.count -= 1;
        result
    }

    fn as_slice(&self) -> &[&'p [u8]] {
        &self.values[..self.count]
    }
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
                Segment::Literal(text) => *branch.literals.entry(text.as_bytes().into()).or_insert(new),
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

    /// Calls `found` with each shape that matches a normalised path and the values of its parameters, from the most to
    /// the least specific, until it returns true. → whether it did
    #[inline]
    pub(super) fn walk<'p>(&self, path: &'p [u8], found: &mut impl FnMut(usize, &[&'p [u8]]) -> bool) -> bool {
        let [b'/', rest @ ..] = path else {
            return false;
        };
        self.go_on(0, Some(rest), &mut Values { values: [&[]; MAX_PARAMETERS], count: 0 }, found)
    }

    /// Goes on at branch `at` with the segments in `rest`; `None` when the path has no more.
    fn go_on<'p>(
        &self, at: usize, rest: Option<&'p [u8]>, values: &mut Values<'p>,
        found: &mut impl FnMut(usize, &[&'p [u8]]) -> bool,
    ) -> bool {
        let branch = &self.branches[at];
        let Some(text) = rest else {
            return branch.end.is_some_and(|shape| found(shape, values.as_slice()));
        };
        let (part, behind) = match find_byte(b'/', text) {
            Some(slash) => (&text[..slash], Some(&text[slash + 1..])),
            None => (text, None),
        };
        if let Some(&next) = branch.literals.get(part)
            && self.go_on(next, behind, values, found)
        {
            return true;
        }
        if let Some(next) = branch.parameter
            && !part.is_empty()
            && values.with(part, |values| self.go_on(next, behind, values, found))
        {
            return true;
        }
        branch.tail.is_some_and(|shape| values.with(text, |values| found(shape, values.as_slice())))
    }
}
