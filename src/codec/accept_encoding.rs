//! `Accept-Encoding` (RFC 9110 section 12.5.3): the codings that a client accepts, in order of preference.
//!
//! Weights are in thousandths. Malformed elements are ignored.

/// The codings of responses. The coding that usually produces the smaller output is first.
const CODINGS: [&str; 2] = ["br", "gzip"];

/// Returns the codings that the client accepts, best first. Codings with a lower weight than `identity` are left out.
pub(crate) fn accepted(field: &[u8]) -> [Option<&'static str>; 2] {
    let (mut named, mut any, mut identity) = ([None; 2], None, None);
    for (name, weight) in field.split(|&byte| byte == b',').filter_map(element) {
        match name {
            b"*" => any = Some(weight),
            name if name.eq_ignore_ascii_case(b"identity") => identity = Some(weight),
            name if name.eq_ignore_ascii_case(b"x-gzip") => named[1] = named[1].or(Some(weight)),
            name => {
                if let Some(at) = CODINGS.iter().position(|coding| name.eq_ignore_ascii_case(coding.as_bytes())) {
                    named[at] = Some(weight);
                }
            }
        }
    }
    let least = identity.unwrap_or(0).max(1);
    let weights = named.map(|weight| weight.or(any).unwrap_or(0));
    let takes = |at: usize| (weights[at] >= least).then_some(CODINGS[at]);
    match weights[1] > weights[0] {
        true => [takes(1), takes(0)],
        false if takes(0).is_none() => [takes(1), None],
        false => [takes(0), takes(1)],
    }
}

/// Parses a weight (`0`, `0.5`, `1.000`) into thousandths; `None` if it is malformed.
fn weight(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] => (whole, fraction),
        _ => return None,
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = [whole].into_iter().chain(fraction).chain(b"000").take(4);
    let weight = digits.fold(0, |weight, digit| weight * 10 + u16::from(digit - b'0'));
    (weight <= 1000).then_some(weight)
}

/// Parses one element: a coding and its weight in thousandths.
fn element(text: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = text.split(|&byte| byte == b';');
    let name = parts.next()?.trim_ascii();
    match parts.next().map(<[u8]>::trim_ascii) {
        None => Some((name, 1000)),
        Some([b'q' | b'Q', b'=', value @ ..]) => Some((name, weight(value)?)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: &[&str]) {
        let found: Vec<&str> = accepted(field.as_bytes()).into_iter().flatten().collect();
        assert_eq!(found, expected, "{field}");
    }

    #[test]
    fn codings_are_sorted_by_weight_brotli_first_among_equals() {
        check("gzip, deflate, br", &["br", "gzip"]);
        check("br;q=0.5, gzip;q=0.8", &["gzip", "br"]);
        check("BR;Q=0.001", &["br"]);
        check("gzip", &["gzip"]);
        check("x-gzip", &["gzip"]);
        check("", &[]);
        check("zstd", &[]);
    }

    #[test]
    fn a_weight_of_zero_excludes_a_coding_even_with_an_asterisk() {
        check("gzip;q=0, br;q=0.0", &[]);
        check("*", &["br", "gzip"]);
        check("*;q=0.1, br;q=0", &["gzip"]);
        check("*;q=0", &[]);
        check("br, *;q=0", &["br"]);
    }

    #[test]
    fn codings_with_a_lower_weight_than_identity_are_left_out() {
        check("identity, gzip;q=0.5", &[]);
        check("identity;q=0.5, gzip;q=0.5, br;q=0.4", &["gzip"]);
        check("identity;q=0, gzip;q=0.1", &["gzip"]);
    }

    #[test]
    fn malformed_elements_are_ignored() {
        check("gzip;q=2, br", &["br"]);
        check("gzip;q=, br;q=1.5", &[]);
        check("gzip ; q=0.123 , ,;q=1", &["gzip"]);
        check("gzip;q=0.1234", &[]);
    }
}
