//! `Cookie` fields as a server reads them (RFC 6265 section 5.4).

/// Returns the names and values in order, without the quotes around a value. Pairs without a valid name are left out.
pub(crate) fn pairs(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    field.split(|byte| *byte == b';').filter_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return None;
        }
        match value {
            [b'"', value @ .., b'"'] => Some((name, value)),
            value => Some((name, value)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_split_into_names_and_values() {
        let field = b"a=1; b=\"two\";c=x=y ; bad; =none; d e=1; f=\"; g=\"\";h = \"i ;a=3;";
        let all: Vec<_> = pairs(field).map(|(name, value)| (name.escape_ascii().to_string(), value)).collect();
        let all: Vec<_> = all.iter().map(|(name, value)| (&**name, value.escape_ascii().to_string())).collect();
        let want = [("a", "1"), ("b", "two"), ("c", "x=y"), ("f", "\\\""), ("g", ""), ("h", "\\\"i"), ("a", "3")];
        assert_eq!(all, want.map(|(name, value)| (name, value.to_string())));
    }
}
