//! Names and values that were decoded, as one text: queries and forms, parameters of routes.

use super::uri;

/// Names with their values. Those of one name lie side by side, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Pairs {
    text: Vec<u8>,
    pairs: Vec<Pair>,
}

/// Where a name begins in the text, and its value behind it, and where that ends.
#[derive(Clone, Copy)]
struct Pair {
    name: usize,
    value: usize,
    end: usize,
}

impl Pairs {
    /// The pairs of a query or a form; what is no escape stays as it is.
    pub(crate) fn of_query(query: &[u8]) -> Pairs {
        let mut all = Pairs::default();
        all.text.reserve(query.len());
        for (name, value) in uri::query_pairs(query) {
            let begin = all.text.len();
            all.decode(name, true);
            let value_begin = all.text.len();
            all.decode(value.unwrap_or_default(), true);
            all.note(begin, value_begin);
        }
        all.group();
        all
    }

    /// The parameters of a route: names as they are, and raw values. Names differ.
    pub(crate) fn of_parameters<'p>(parameters: impl Iterator<Item = (&'p str, &'p str)>) -> Pairs {
        let mut all = Pairs::default();
        for (name, value) in parameters {
            let begin = all.text.len();
            all.text.extend_from_slice(name.as_bytes());
            let value_begin = all.text.len();
            all.decode(value.as_bytes(), false);
            all.note(begin, value_begin);
        }
        all
    }

    fn decode(&mut self, raw: &[u8], plus_is_space: bool) {
        let begin = self.text.len();
        let is_plain = !uri::needs_decode(raw, plus_is_space);
        if is_plain || uri::percent_decode(raw, plus_is_space, &mut self.text).is_err() {
            self.text.truncate(begin);
            self.text.extend_from_slice(raw);
        }
    }

    fn note(&mut self, name: usize, value: usize) {
        let end = self.text.len();
        self.pairs.push(Pair { name, value, end });
    }

    fn group(&mut self) {
        let text = &self.text;
        self.pairs
            .sort_by(|one, other| text[one.name..one.value].cmp(&text[other.name..other.value]));
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn name(&self, index: usize) -> &[u8] {
        let pair = self.pairs[index];
        &self.text[pair.name..pair.value]
    }

    pub(crate) fn value(&self, index: usize) -> &[u8] {
        let pair = self.pairs[index];
        &self.text[pair.value..pair.end]
    }

    /// How many values the name at `index` has, of which this one is the first.
    pub(crate) fn values(&self, index: usize) -> usize {
        let name = self.name(index);
        let more = (index + 1..self.len()).take_while(|other| self.name(*other) == name);
        1 + more.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pairs: &Pairs) -> Vec<(String, String, usize)> {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        (0..pairs.len())
            .map(|index| {
                let values = pairs.values(index);
                (text(pairs.name(index)), text(pairs.value(index)), values)
            })
            .collect()
    }

    #[test]
    fn values_of_one_name_lie_side_by_side_in_their_order() {
        let pairs = Pairs::of_query(b"b=1&a=x&b=2&&c&b=3&a+%41=%zz+%20");
        let want = [
            ("a", "x", 1),
            ("a A", "%zz+%20", 1),
            ("b", "1", 3),
            ("b", "2", 2),
            ("b", "3", 1),
            ("c", "", 1),
        ];
        let want = want.map(|(name, value, count)| (name.to_string(), value.to_string(), count));
        assert_eq!(all(&pairs), want);
        assert_eq!(Pairs::of_query(b"").len(), 0);
    }

    #[test]
    fn parameters_keep_plus_and_lose_escapes() {
        let pairs = Pairs::of_parameters([("id", "a%20b+c"), ("a", "%")].into_iter());
        let want = [("id", "a b+c", 1), ("a", "%", 1)];
        let want = want.map(|(name, value, count)| (name.to_string(), value.to_string(), count));
        assert_eq!(all(&pairs), want);
    }
}
