//! Decoded names and values of queries, forms and route parameters, stored in one buffer. In queries and forms `+` is a
//! space; in route parameters it is a plus sign.

use super::uri;

/// Names with their values, accessed by index.
pub(crate) trait PairList: 'static {
    fn len(&self) -> usize;
    fn name(&self, index: usize) -> &[u8];
    fn value(&self, index: usize) -> &[u8];
    /// Returns the number of values of the name at `index`, which must be the index of its first value.
    fn values(&self, index: usize) -> usize;
}

/// Names with their values. The values of one name are adjacent, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Pairs {
    text: Vec<u8>,
    pairs: Vec<Pair>,
}

/// Offsets in the text: the start of a name, the start of its value, which follows the name, and the end of the value.
#[derive(Clone, Copy)]
struct Pair {
    name: usize,
    value: usize,
    end: usize,
}

impl Pairs {
    /// Decodes the pairs of a query or a form. A name or value with a malformed escape is kept as it is.
    pub(crate) fn of_query(query: &[u8]) -> Pairs {
        let mut all = Pairs::default();
        all.text.reserve(query.len());
        for (name, value) in uri::query_pairs(query) {
            all.add(name, value.unwrap_or_default(), true);
        }
        let text = &all.text;
        all.pairs.sort_by(|one, other| text[one.name..one.value].cmp(&text[other.name..other.value]));
        all
    }

    /// Stores the parameters of a route, with their values decoded. The names must differ.
    pub(crate) fn of_parameters<'p>(parameters: impl Iterator<Item = (&'p str, &'p [u8])>) -> Pairs {
        let mut all = Pairs::default();
        for (name, value) in parameters {
            // Names have no escapes.
            all.add(name.as_bytes(), value, false);
        }
        all
    }

    fn add(&mut self, name: &[u8], value: &[u8], plus_is_space: bool) {
        let begin = self.text.len();
        self.decode(name, plus_is_space);
        let value_begin = self.text.len();
        self.decode(value, plus_is_space);
        self.pairs.push(Pair { name: begin, value: value_begin, end: self.text.len() });
    }

    fn decode(&mut self, raw: &[u8], plus_is_space: bool) {
        let begin = self.text.len();
        let is_plain = !uri::needs_decode(raw, plus_is_space);
        if is_plain || uri::percent_decode(raw, plus_is_space, &mut self.text).is_err() {
            self.text.truncate(begin);
            self.text.extend_from_slice(raw);
        }
    }
}

impl PairList for Pairs {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn name(&self, index: usize) -> &[u8] {
        let pair = self.pairs[index];
        &self.text[pair.name..pair.value]
    }

    fn value(&self, index: usize) -> &[u8] {
        let pair = self.pairs[index];
        &self.text[pair.value..pair.end]
    }

    fn values(&self, index: usize) -> usize {
        let name = self.name(index);
        let more = (index + 1..self.len()).take_while(|other| self.name(*other) == name);
        1 + more.count()
    }
}

/// Up to four short pairs with different names and without escapes in the values. They are enough for most routes, and
/// need no heap memory.
#[derive(Clone, Copy)]
pub(crate) struct InlinePairs {
    text: [u8; 48],
    /// The offsets at which each name and each value ends.
    end_offsets: [u8; 8],
    /// The number of names and values together.
    count: u8,
}

impl InlinePairs {
    /// Stores `pairs`; `None` if there are too many, if they are too long, or if a value has escapes.
    #[inline]
    pub(crate) fn of<'p>(pairs: impl Iterator<Item = (&'p str, &'p [u8])>) -> Option<InlinePairs> {
        let mut inline = InlinePairs { text: [0; 48], end_offsets: [0; 8], count: 0 };
        let mut end = 0;
        for (name, value) in pairs {
            if uri::find_byte(b'%', value).is_some() {
                return None;
            }
            for text in [name.as_bytes(), value] {
                let begin = end;
                end += text.len();
                let room = inline.text.get_mut(begin..end)?;
                room.copy_from_slice(text);
                *inline.end_offsets.get_mut(usize::from(inline.count))? = end as u8;
                inline.count += 1;
            }
        }
        Some(inline)
    }

    fn part(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.end_offsets[index - 1] };
        &self.text[begin.into()..self.end_offsets[index].into()]
    }
}

impl PairList for InlinePairs {
    fn len(&self) -> usize {
        usize::from(self.count) / 2
    }

    fn name(&self, index: usize) -> &[u8] {
        self.part(2 * index)
    }

    fn value(&self, index: usize) -> &[u8] {
        self.part(2 * index + 1)
    }

    fn values(&self, _: usize) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pairs: &impl PairList) -> Vec<(String, String, usize)> {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        (0..pairs.len())
            .map(|index| {
                let values = pairs.values(index);
                (text(pairs.name(index)), text(pairs.value(index)), values)
            })
            .collect()
    }

    #[test]
    fn values_of_one_name_are_adjacent_in_their_order() {
        let pairs = Pairs::of_query(b"b=1&a=x&b=2&&c&b=3&a+%41=%zz+%20");
        let want = [("a", "x", 1), ("a A", "%zz+%20", 1), ("b", "1", 3), ("b", "2", 2), ("b", "3", 1), ("c", "", 1)];
        let want = want.map(|(name, value, count)| (name.to_string(), value.to_string(), count));
        assert_eq!(all(&pairs), want);
        assert_eq!(Pairs::of_query(b"").len(), 0);
    }

    #[test]
    fn parameters_keep_plus_and_are_unescaped() {
        let pairs = Pairs::of_parameters([("id", &b"a%20b+c"[..]), ("a", b"%")].into_iter());
        let want = [("id", "a b+c", 1), ("a", "%", 1)];
        let want = want.map(|(name, value, count)| (name.to_string(), value.to_string(), count));
        assert_eq!(all(&pairs), want);
    }

    #[test]
    fn few_pairs_are_stored_without_change() {
        let long = "x".repeat(36);
        for (pairs, is_few) in [
            (&[][..], true),
            (&[("a", "1"), ("bb", ""), ("", "3"), ("d", "4+")], true),
            (&[("a", "%20")], false),
            (&[("a", &long), ("b", "1234567890")], true),
            (&[("a", &long), ("b", "12345678901")], false),
            (&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")], false),
        ] {
            let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
            let inline = InlinePairs::of(pairs.clone());
            assert_eq!(inline.is_some(), is_few, "{:?}", pairs.clone().collect::<Vec<_>>());
            if let Some(inline) = inline {
                assert_eq!(all(&inline), all(&Pairs::of_parameters(pairs)));
            }
        }
    }
}
