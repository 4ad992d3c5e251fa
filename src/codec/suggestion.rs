//! Hints for words that a program or a user has mistyped. `lualib/lio/options.lua` does the same for the options of calls.

/// Returns ` (did you mean 'word'?)` for the known word that differs least from `word`; an empty string if more than a
/// third of its characters would change.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|other| distance(word, other));
    match nearest {
        Some(other) if distance(word, other) <= (other.len() / 3).max(1) => format!(" (did you mean '{other}'?)"),
        _ => String::new(),
    }
}

/// Returns the smallest number of changes that turn one word into the other. A change inserts, removes or replaces a
/// byte, or exchanges two adjacent bytes.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let is_same = one[i - 1] == other[j - 1];
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + usize::from(!is_same));
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, hint};

    #[test]
    fn a_similar_word_is_suggested_and_another_is_not() {
        let known = ["--help", "--watch"];
        assert_eq!(hint("--wacth", &known), " (did you mean '--watch'?)");
        assert_eq!(hint("--halp", &known), " (did you mean '--help'?)");
        assert_eq!(hint("--nonsense", &known), "");
        assert_eq!(hint("-z", &known), "");
    }

    #[test]
    fn an_exchange_of_two_neighbours_is_one_change() {
        assert_eq!(distance("chekc", "check"), 1);
        assert_eq!(distance("", "new"), 3);
        assert_eq!(distance("sreve", "serve"), 1);
        assert_eq!(distance("srev", "serve"), 2);
    }
}
