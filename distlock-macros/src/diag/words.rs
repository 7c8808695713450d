//! Lists of words, and the word that was probably meant.

pub(super) fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

pub(super) fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ")
}

/// The candidate that was probably meant: not more than every third letter differs.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.chars().count().max(word.chars().count()) / 3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Opt;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let names = ["user_id", "order_id", "self"];
        assert_eq!(nearest("usr_id", names.into_iter()), Some("user_id"));
        assert_eq!(nearest("userid", names.into_iter()), Some("user_id"));
        assert_eq!(nearest("basket", names.into_iter()), None);
        assert_eq!(nearest("tll", Opt::names()), Some("ttl"));
        assert_eq!(nearest("timeout", Opt::names()), None);
    }
}
