//! Conditional requests (RFC 9110 section 13): each field, and their order.

use super::super::conditional::{Conditions, Validators, Verdict, allows_range, evaluate};
use proptest::prelude::*;

const TAG: &str = "\"abc-1\"";
/// Sun, 06 Nov 1994 08:49:37 GMT.
const MODIFIED: u64 = 784_111_777;
const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn known() -> Validators<'static> {
    Validators { tag: TAG.as_bytes(), modified: MODIFIED, now: MODIFIED + 1000 }
}

fn verdict(lines: &[(&str, &str)]) -> Verdict {
    let find = |name: &str| {
        let line = lines.iter().find(|(known, _)| *known == name);
        line.map(|(_, value)| value.as_bytes())
    };
    let conditions = Conditions {
        if_match: find("if-match"),
        if_none_match: find("if-none-match"),
        if_modified_since: find("if-modified-since"),
        if_unmodified_since: find("if-unmodified-since"),
        if_range: None,
    };
    evaluate(&conditions, &known())
}

fn range(field: &str) -> bool {
    let conditions = Conditions { if_range: Some(field.as_bytes()), ..Conditions::default() };
    allows_range(&conditions, &known())
}

#[test]
fn without_conditions_the_representation_is_sent() {
    assert_eq!(verdict(&[]), Verdict::Send);
}

#[test]
fn if_none_match_compares_weakly_in_lists_and_with_an_asterisk() {
    let same = [
        TAG,
        "W/\"abc-1\"",
        "\"x\", \"abc-1\"",
        "\"x\",W/\"abc-1\",\"y\"",
        " ,\t\"abc-1\" , ",
        "\"x\"\x0c,,\x0c\"abc-1\"",
        "*",
        "\"a,b\", \"abc-1\"",
    ];
    for field in same {
        assert_eq!(verdict(&[("if-none-match", field)]), Verdict::NotModified, "{field}");
    }
    let other = ["\"x\"", "abc-1", "\"abc-1", "\"abc-1\" \"abc-1\"", "w/\"abc-1\"", "", ",", "\"ABC-1\""];
    for field in other {
        assert_eq!(verdict(&[("if-none-match", field)]), Verdict::Send, "{field}");
    }
}

#[test]
fn if_modified_since_is_ignored_with_if_none_match() {
    assert_eq!(verdict(&[("if-modified-since", THEN)]), Verdict::NotModified);
    assert_eq!(verdict(&[("if-modified-since", AFTER)]), Verdict::NotModified);
    assert_eq!(verdict(&[("if-modified-since", BEFORE)]), Verdict::Send);
    let both = [("if-modified-since", AFTER), ("if-none-match", "\"x\"")];
    assert_eq!(verdict(&both), Verdict::Send);
}

#[test]
fn all_three_forms_of_dates_are_parsed_and_other_text_is_ignored() {
    for field in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(verdict(&[("if-modified-since", field)]), Verdict::NotModified, "{field}");
    }
    for field in ["yesterday", "", "784111777", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 25:49:37 GMT"] {
        assert_eq!(verdict(&[("if-modified-since", field)]), Verdict::Send, "{field}");
        assert_eq!(verdict(&[("if-unmodified-since", field)]), Verdict::Send, "{field}");
    }
}

#[test]
fn if_match_compares_strongly_and_fails_when_it_does_not_match() {
    for field in [TAG, "*", "\"x\", \"abc-1\""] {
        assert_eq!(verdict(&[("if-match", field)]), Verdict::Send, "{field}");
    }
    for field in ["W/\"abc-1\"", "\"x\"", "", "abc-1"] {
        assert_eq!(verdict(&[("if-match", field)]), Verdict::Failed, "{field}");
    }
}

#[test]
fn if_unmodified_since_is_ignored_with_if_match() {
    assert_eq!(verdict(&[("if-unmodified-since", THEN)]), Verdict::Send);
    assert_eq!(verdict(&[("if-unmodified-since", BEFORE)]), Verdict::Failed);
    assert_eq!(verdict(&[("if-unmodified-since", BEFORE), ("if-match", TAG)]), Verdict::Send);
}

#[test]
fn a_failed_condition_comes_before_304() {
    assert_eq!(verdict(&[("if-match", "\"x\""), ("if-none-match", TAG)]), Verdict::Failed);
    assert_eq!(verdict(&[("if-match", TAG), ("if-none-match", TAG)]), Verdict::NotModified);
}

#[test]
fn if_range_requires_exactly_the_same_tag_or_date() {
    assert!(range(TAG) && range(THEN));
    for field in ["W/\"abc-1\"", "\"x\"", BEFORE, AFTER, "*", "", "\"abc-1\", \"x\"", "nonsense"] {
        assert!(!range(field), "{field}");
    }
}

#[test]
fn if_range_with_a_date_of_the_current_second_does_not_match() {
    let conditions = Conditions { if_range: Some(THEN.as_bytes()), ..Conditions::default() };
    let fresh = Validators { now: MODIFIED, ..known() };
    assert!(!allows_range(&conditions, &fresh));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(field in prop::collection::vec(any::<u8>(), 0..60)) {
        let one = Some(field.as_slice());
        let conditions = Conditions {
            if_match: None,
            if_none_match: one,
            if_modified_since: one,
            if_unmodified_since: None,
            if_range: one,
        };
        evaluate(&conditions, &known());
        allows_range(&conditions, &known());
    }

    #[test]
    fn a_tag_is_found_at_any_place_in_a_list(
        before in prop::collection::vec("(W/)?\"[a-z,]{0,5}\"", 0..5),
        after in prop::collection::vec("(W/)?\"[a-z,]{0,5}\"", 0..5),
        comma in "[ \t]{0,2},[ \t,]{0,3}",
    ) {
        let mut list = before;
        let absent = list.iter().chain(&after).map(String::as_str).collect::<Vec<_>>().join(&comma);
        list.push(TAG.into());
        list.extend(after);
        let field = list.join(&comma);
        prop_assert_eq!(verdict(&[("if-none-match", &field)]), Verdict::NotModified);
        prop_assert_eq!(verdict(&[("if-match", &field)]), Verdict::Send);
        prop_assert_eq!(verdict(&[("if-none-match", &absent)]), Verdict::Send);
    }
}
