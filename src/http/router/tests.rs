//! Tests of the router: patterns, precedence, parameters, error messages.

use proptest::prelude::*;

use super::Router;

fn router(patterns: &[&str]) -> Router {
    let mut router = Router::default();
    for pattern in patterns {
        router.add(b"GET", pattern).unwrap();
    }
    router
}

/// For the most specific matching shape, returns the numbers of its routes and the values of its parameters.
fn first(router: &Router, path: &str) -> Option<(Vec<usize>, Vec<String>)> {
    all(router, path).into_iter().next()
}

/// Returns the numbers of the routes and the values of the parameters, for each matching shape.
fn all(router: &Router, path: &str) -> Vec<(Vec<usize>, Vec<String>)> {
    let mut all = Vec::<(Vec<usize>, Vec<String>)>::new();
    router.each(path.as_bytes(), |candidates, values| {
        let values = values.iter().map(|value| String::from_utf8_lossy(value).into_owned());
        all.push((candidates.iter().map(|c| c.route).collect(), values.collect()));
        false
    });
    assert_eq!(
        router.candidates(path.as_bytes()).map(|found| found[0].route),
        all.first().map(|(routes, _)| routes[0])
    );
    all
}

/// Returns the pattern of the first candidate for `path`, and the values of its parameters.
fn find<'a>(patterns: &[&'a str], path: &'a str) -> Option<(&'a str, Vec<String>)> {
    let (routes, values) = first(&router(patterns), path)?;
    Some((patterns[routes[0]], values))
}

fn found<'a>(patterns: &[&'a str], path: &'a str) -> (&'a str, Vec<String>) {
    find(patterns, path).unwrap_or_else(|| panic!("no route for {path}"))
}

#[test]
fn literal_paths_match_exactly() {
    let patterns = ["/", "/a", "/a/", "/a/b"];
    for path in patterns {
        assert_eq!(found(&patterns, path), (path, vec![]));
    }
    for path in ["", "*", "a", "/b", "/A", "/a/b/", "//", "/a//b"] {
        assert_eq!(find(&patterns, path), None, "{path}");
    }
}

#[test]
fn parameters_match_one_segment_that_is_not_empty() {
    let patterns = ["/u/:id", "/u/:id/posts/:post"];
    assert_eq!(found(&patterns, "/u/7"), ("/u/:id", vec!["7".into()]));
    assert_eq!(found(&patterns, "/u/7/posts/x.y"), ("/u/:id/posts/:post", vec!["7".into(), "x.y".into()]));
    for path in ["/u/", "/u", "/u/7/", "/u//posts/1", "/u/7/posts/"] {
        assert_eq!(find(&patterns, path), None, "{path}");
    }
}

#[test]
fn tails_match_the_rest_and_may_be_empty() {
    let patterns = ["/files/*rest"];
    assert_eq!(found(&patterns, "/files/a/b/").1, ["a/b/"]);
    assert_eq!(found(&patterns, "/files/").1, [""]);
    assert_eq!(found(&patterns, "/files//").1, ["/"]);
    assert_eq!(find(&patterns, "/files"), None);
    assert_eq!(found(&["/*all"], "/").1, [""]);
    assert_eq!(found(&["/*all"], "/x/y").1, ["x/y"]);
    assert_eq!(found(&["/:lang/*rest"], "/de/").1, ["de", ""]);
}

#[test]
fn literals_precede_parameters_and_tails_from_the_left() {
    let patterns = ["/*all", "/:a/*r", "/:a/:b", "/:a", "/f/*r", "/f/:b", "/f/x", "/f/"];
    for (path, winner) in [
        ("/f/x", "/f/x"),
        ("/f/", "/f/"),
        ("/f/y", "/f/:b"),
        ("/f/y/z", "/f/*r"),
        ("/g/x", "/:a/:b"),
        ("/g/x/y", "/:a/*r"),
        ("/g/", "/:a/*r"),
        ("/g", "/:a"),
        ("/f", "/:a"),
        ("/", "/*all"),
        ("//x", "/*all"),
    ] {
        assert_eq!(found(&patterns, path).0, winner, "{path}");
    }
}

#[test]
fn a_more_specific_dead_end_does_not_hide_another_match() {
    assert_eq!(found(&["/a/b/c", "/:x/b/d"], "/a/b/d").0, "/:x/b/d");
    assert_eq!(found(&["/a/:y/c", "/*all"], "/a/b/d").0, "/*all");
}

#[test]
fn braces_and_other_signs_are_literal_text() {
    let patterns = ["/{a}", "/}{", "/a:b", "/a*b", "/x<y>"];
    for path in patterns {
        assert_eq!(found(&patterns, path), (path, vec![]));
    }
    assert_eq!(find(&patterns, "/z"), None);
}

#[test]
fn literal_text_is_converted_to_the_normal_form() {
    assert!(find(&["/caf\u{e9}"], "/caf%C3%A9").is_some());
    assert!(find(&["/%7euser"], "/~user").is_some());
    assert!(find(&["/a b"], "/a%20b").is_some());
}

#[test]
fn names_and_constraints_stay_in_order() {
    let mut router = Router::default();
    let id = router.add(b"PUT", "/:a<%d+>/x/:b/*c<[^>]+/?>").unwrap();
    let route = router.route(id).unwrap();
    assert_eq!(route.pattern.names, ["a", "b", "c"]);
    assert_eq!(route.pattern.constraints, [Some("%d+".to_string()), None, Some("[^>]+/?".to_string())]);
    assert_eq!(*route.method, *b"PUT");
    assert!(router.route(id + 1).is_none());
}

#[test]
fn routes_of_one_shape_are_in_order_of_registration() {
    let mut router = Router::default();
    for (method, pattern) in [("GET", "/u/:id<%d+>"), ("GET", "/u/:name"), ("", "/u/:x"), ("POST", "/u/:id")] {
        router.add(method.as_bytes(), pattern).unwrap();
    }
    let candidates = router.candidates(b"/u/7").unwrap();
    let seen: Vec<_> = candidates.iter().map(|c| (c.route, &*c.method, c.has_constraints)).collect();
    let expected: [(usize, &[u8], bool); 4] =
        [(0, b"GET", true), (1, b"GET", false), (2, b"", false), (3, b"POST", false)];
    assert_eq!(seen, expected);
    assert_eq!(first(&router, "/u/7").unwrap().1, ["7"]);
}

#[test]
fn all_matches_are_sorted_from_most_to_least_specific() {
    let patterns = ["/*all", "/u/:id<%d+>", "/:a/:b", "/u/*r", "/u/7", "/v"];
    let router = router(&patterns);
    let order = all(&router, "/u/7").into_iter().map(|(routes, values)| (patterns[routes[0]], values.join(",")));
    let order: Vec<_> = order.collect();
    let expected = [("/u/7", ""), ("/u/:id<%d+>", "7"), ("/u/*r", "7"), ("/:a/:b", "u,7"), ("/*all", "u/7")];
    assert_eq!(order, expected.map(|(p, v)| (p, v.to_string())));
}

#[test]
fn malformed_patterns_are_refused_with_a_message() {
    let long: String = (0..17).map(|i| format!("/:p{i}")).collect();
    for (pattern, part) in [
        ("", "must begin with '/'"),
        ("a", "must begin with '/'"),
        ("/:", "without a name"),
        ("/*", "without a name"),
        ("/:<%d>", "without a name"),
        ("/:a/:a", "parameter 'a' twice"),
        ("/:a/*a", "parameter 'a' twice"),
        ("/*a/b", "not the last"),
        ("/*a/", "not the last"),
        ("/:a<%d+", "'<' without '>'"),
        ("/:a<%d+>b", "'<' without '>'"),
        ("/:a<>", "empty constraint"),
        ("/:a.json", "'.' in the parameter name"),
        ("/%zz", "malformed escape"),
        ("/a?b", "has '?', which is not part of a path (write '%3F'"),
        ("/a/#b", "has '#', which is not part of a path (write '%23'"),
        (&long, "more than 16"),
    ] {
        let message = Router::default().add(b"GET", pattern).unwrap_err();
        assert!(message.contains(part), "{pattern}: {message}");
        assert!(message.contains(&format!("'{pattern}'")), "{message}");
    }
}

#[test]
fn a_duplicate_route_is_refused() {
    let mut router = router(&["/u/:id", "/f/*r"]);
    for pattern in ["/u/:id", "/u/:name", "/f/*rest"] {
        let message = router.add(b"GET", pattern).unwrap_err();
        assert!(message.contains("already") && message.contains("GET"), "{message}");
    }
    router.add(b"POST", "/u/:id").unwrap();
    router.add(b"", "/u/:id").unwrap();
    assert!(router.add(b"", "/u/:id").unwrap_err().contains("any method"));
    assert_eq!(router.add(b"GET", "/u/:id<%d+>").unwrap(), 4);
    assert_eq!(router.number_of(b"GET", "/u/:name"), Ok(Some(0)));
    assert_eq!(router.number_of(b"GET", "/u/:name<%d+>"), Ok(Some(4)));
    assert_eq!(router.number_of(b"PUT", "/u/:id"), Ok(None));
    assert_eq!(router.number_of(b"GET", "/u"), Ok(None));
    assert!(router.number_of(b"GET", "/u/:").is_err());
}

#[test]
fn ten_thousand_routes_are_distinguished() {
    let mut router = Router::default();
    for i in 0..10_000 {
        router.add(b"GET", &format!("/group{}/item{i}/:id", i % 100)).unwrap();
    }
    for i in (0..10_000).step_by(37) {
        let path = format!("/group{}/item{i}/x", i % 100);
        assert_eq!(first(&router, &path).unwrap().0, [i]);
    }
}

/// Returns how specific a pattern is and the values of its parameters, if the pattern matches `path`.
fn scan(pattern: &str, path: &str) -> Option<(Vec<u8>, Vec<String>)> {
    let (mut rank, mut values) = (Vec::new(), Vec::new());
    let mut rest = Some(path.strip_prefix('/')?);
    for segment in pattern.strip_prefix('/')?.split('/') {
        let text = rest?;
        if segment.starts_with('*') {
            rank.push(2);
            values.push(text.to_string());
            return Some((rank, values));
        }
        let (part, behind) = text.split_once('/').map_or((text, None), |(part, behind)| (part, Some(behind)));
        rest = behind;
        match segment.starts_with(':') {
            true if part.is_empty() => return None,
            true => values.push(part.to_string()),
            false if part != segment => return None,
            false => {}
        }
        rank.push(u8::from(segment.starts_with(':')));
    }
    rest.is_none().then_some((rank, values))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The tree and a simple scan of all patterns implement the same rule.
    #[test]
    fn the_tree_gives_the_same_result_as_a_scan(
        patterns in prop::collection::vec("(/(a|b|ab|\\{|:x|)){1,4}(/\\*r)?", 1..12),
        paths in prop::collection::vec("(/(a|b|ab|aba|\\{|c|)){1,5}", 1..12),
    ) {
        let mut router = Router::default();
        for (i, pattern) in patterns.iter().enumerate() {
            // Parameter names must differ within a pattern. Each route has its own method, because duplicates are
            // refused.
            let mut parts = pattern.split(":x");
            let mut text = parts.next().unwrap_or_default().to_string();
            for (n, part) in parts.enumerate() {
                text.push_str(&format!(":x{n}{part}"));
            }
            let _ = router.add(format!("M{i}").as_bytes(), &text).unwrap();
        }
        for path in &paths {
            let mut by_scan = Vec::new();
            for (i, pattern) in patterns.iter().enumerate() {
                if let Some((rank, values)) = scan(pattern, path)
                    && !by_scan.iter().any(|(known, _, _)| *known == rank)
                {
                    by_scan.push((rank, i, values));
                }
            }
            by_scan.sort();
            let by_scan: Vec<_> = by_scan.into_iter().map(|(_, route, values)| (route, values)).collect();
            let by_tree: Vec<_> = all(&router, path).into_iter().map(|(routes, values)| (routes[0], values)).collect();
            prop_assert_eq!(by_tree, by_scan, "{}", path);
        }
    }
}
