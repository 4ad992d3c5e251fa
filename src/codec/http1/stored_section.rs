//! Access to the fields of a stored section that was parsed before. These functions read the section line by line,
//! without a table.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Returns the lines, including the blank line, each with its carriage return but without its line feed. `section` must
/// have been accepted by [`super::fields::parse_section`]; its blank line may be missing.
pub(crate) fn lines(section: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = section;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len() - 1);
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

/// Returns the names and values of the fields in order, as sent, without white space around a value.
pub(crate) fn fields(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    lines(section).filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// Returns the values of a field in order. Names are case-insensitive.
pub(crate) fn values<'s>(section: &'s [u8], name: &[u8]) -> impl Iterator<Item = &'s [u8]> + Clone {
    lines(section).filter_map(move |line| {
        let is_named = line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
        is_named.then(|| line[name.len() + 1..].trim_ascii())
    })
}

/// Returns all values of a field, joined with commas (for `Cookie` with semicolons); `None` if the field is missing.
pub(crate) fn joined<'s>(section: &'s [u8], name: &[u8]) -> Option<Cow<'s, [u8]>> {
    let mut values = values(section, name);
    let mut all = Cow::Borrowed(values.next()?);
    for value in values {
        append(all.to_mut(), name, value);
    }
    Some(all)
}

/// Adds a value of a repeated field to the values before it.
fn append(all: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    all.extend_from_slice(if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " });
    all.extend_from_slice(value);
}

/// Returns the values of all fields, joined as by [`joined`], with the names in lower case.
pub(crate) fn all_joined(section: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (name, value) in fields(section) {
        match all.entry(name.to_ascii_lowercase()) {
            Entry::Vacant(entry) => drop(entry.insert(value.to_vec())),
            Entry::Occupied(mut entry) => append(entry.get_mut(), name, value),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::fields::{NO_FIELDS, Section, parse_section};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_found_in_any_case_and_joined() {
        let section = b"A: 1\r\nb:\t2 \r\na:  3:4\r\nEmpty:\r\n\r\n";
        let all: Vec<_> = values(section, b"a").collect();
        assert_eq!(all, [&b"1"[..], b"3:4"]);
        assert_eq!(joined(section, b"A").as_deref(), Some(&b"1, 3:4"[..]));
        assert_eq!(joined(section, b"B").as_deref(), Some(&b"2"[..]));
        assert_eq!(joined(section, b"empty").as_deref(), Some(&b""[..]));
        assert_eq!(joined(section, b"c"), None);
        let cookies = joined(b"Cookie: a=1\r\ncookie: b=2\r\n", b"cookie");
        assert_eq!(cookies.as_deref(), Some(&b"a=1; b=2"[..]));
        let all = all_joined(b"Cookie: a=1\r\nB: 1\r\ncookie: b=2\r\nb: 2\r\nb:\r\n\r\n");
        let expected = [("b", "1, 2, "), ("cookie", "a=1; b=2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(all, BTreeMap::from(expected));
    }

    proptest! {
        #[test]
        fn the_fields_are_those_that_the_parser_finds(
            lines in prop::collection::vec("[A-Za-z-]{1,9}:[ \t]{0,2}[!-~\u{80}-\u{ff} \t:]{0,12}[ \t]{0,2}", 0..6)
        ) {
            let mut section = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>();
            section.push_str("\r\n");
            let section = section.as_bytes();
            let mut table = NO_FIELDS;
            if let Ok(Section::Complete { count, .. }) =
                parse_section(section, 0, 1 << 16, 256, &mut table)
            {
                let known = table[..count].iter();
                let known: Vec<_> =
                    known.map(|field| (field.name.of(section), field.value.of(section))).collect();
                prop_assert_eq!(fields(section).collect::<Vec<_>>(), &known[..]);
                let all = all_joined(section);
                for (name, value) in &all {
                    prop_assert_eq!(joined(section, name).unwrap_or_default(), &value[..]);
                }
                prop_assert!(known.iter().all(|(name, _)| all.contains_key(&name.to_ascii_lowercase())));
            }
        }
    }
}
