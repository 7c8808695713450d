//! Suggestions for misspelled names.

/// The name that differs in the fewest characters, if it is near enough for a typing error.
pub fn nearest(written: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = names.map(|name| (distance(written, &name), name));
    near.min().filter(|(distance, name)| *distance <= 2.min(name.len() / 2)).map(|(_, name)| name)
}

/// How many characters have to be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(from != *to)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
