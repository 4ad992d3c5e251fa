//! The shapes of all routes as a tree of segments.
//!
//! Invariant: a walk follows only existing branches, so its cost depends on the number of similar patterns and not on
//! the number of all patterns.

use super::pattern::{MAX_PARAMETERS, Segment};
use crate::codec::uri::find_byte;
use rustc_hash::FxHashMap;

/// A branch of the tree: the segments that can come next.
#[derive(Debug, Default)]
struct Branch {
    literals: FxHashMap<Box<[u8]>, usize>,
    parameter: Option<usize>,
    /// The shape of the pattern that ends here.
    end: Option<usize>,
    /// The shape of the pattern whose tail begins here.
    tail: Option<usize>,
}

/// The tree. Every path starts at the first branch.
#[derive(Debug)]
pub(super) struct Tree {
    branches: Vec<Branch>,
}

/// The values of the parameters so far. Patterns with more than [`MAX_PARAMETERS`] are refused.
struct Values<'p> {
    values: [&'p [u8]; MAX_PARAMETERS],
    count: usize,
}

impl<'p> Values<'p> {
    /// Calls `use_them` with one more value, which is removed afterwards.
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
    /// Adds the shape with the number `shape` and these segments.
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

    /// Calls `found` with the number of each shape that matches a normalised path, and with the values of its
    /// parameters, from the most to the least specific shape, until `found` returns true. Returns whether `found` has
    /// returned true.
    #[inline]
    pub(super) fn walk<'p>(&self, path: &'p [u8], found: &mut impl FnMut(usize, &[&'p [u8]]) -> bool) -> bool {
        let [b'/', rest @ ..] = path else { return false };
        self.follow(0, Some(rest), &mut Values { values: [&[]; MAX_PARAMETERS], count: 0 }, found)
    }

    /// Continues at branch `at` with the segments in `rest`, which is `None` at the end of the path.
    fn follow<'p>(
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
            && self.follow(next, behind, values, found)
        {
            return true;
        }
        if let Some(next) = branch.parameter
            && !part.is_empty()
            && values.with(part, |values| self.follow(next, behind, values, found))
        {
            return true;
        }
        branch.tail.is_some_and(|shape| values.with(text, |values| found(shape, values.as_slice())))
    }
}
