//! Patterns of keys.

/// The longest pattern, in bytes.
pub(crate) const LONGEST_PATTERN: usize = 1024;

/// `*` stands for any text, `?` for one character, `\` makes the next character stand for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    AnyText,
    AnyCharacter,
    Character(char),
}

impl Pattern {
    /// `None`: it is too long.
    pub(crate) fn read(text: &str) -> Option<Pattern> {
        if text.len() > LONGEST_PATTERN {
            return None;
        }
        let mut characters = text.chars();
        let mut pieces = Vec::new();
        while let Some(c) = characters.next() {
            let piece = match c {
                '*' => Piece::AnyText,
                '?' => Piece::AnyCharacter,
                '\\' => Piece::Character(characters.next().unwrap_or('\\')),
                c => Piece::Character(c),
            };
            // Two of these in a row mean the same as one, and would only cost time.
            if piece != Piece::AnyText || pieces.last() != Some(&Piece::AnyText) {
                pieces.push(piece);
            }
        }
        Some(Pattern { pieces })
    }

    /// The common beginning of all keys that the pattern matches.
    pub(crate) fn beginning(&self) -> String {
        let literal = self.pieces.iter().map_while(|piece| match piece {
            Piece::Character(c) => Some(*c),
            Piece::AnyText | Piece::AnyCharacter => None,
        });
        literal.collect()
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        let (mut at, mut rest) = (0, key.chars());
        // The position of the last `*`, and the text that it may still match.
        let mut star = None;
        loop {
            match self.pieces.get(at) {
                Some(Piece::AnyText) => {
                    at += 1;
                    star = Some((at, rest.clone()));
                    continue;
                }
                Some(piece) => {
                    let mut after = rest.clone();
                    if after
                        .next()
                        .is_some_and(|c| *piece == Piece::AnyCharacter || *piece == Piece::Character(c))
                    {
                        (at, rest) = (at + 1, after);
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            // The last `*` takes in one character more.
            let Some((behind, taken)) = &mut star else { return false };
            if taken.next().is_none() {
                return false;
            }
            (at, rest) = (*behind, taken.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        let matches = |pattern: &str, key: &str| Pattern::read(pattern).unwrap().matches(key);
        for (pattern, key) in [
            ("*", ""),
            ("*", "order:42"),
            ("order:*", "order:"),
            ("order:*", "order:42"),
            ("*:42", "order:42"),
            ("o*:*2", "order:42"),
            ("a*b*c", "abbcbc"),
            ("??", "\u{e4}\u{f6}"),
            ("a\\*b", "a*b"),
            ("\\", "\\"),
            ("", ""),
            ("**a**", "a"),
        ] {
            assert!(matches(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [
            ("", "a"),
            ("order:*", "orders"),
            ("?", ""),
            ("?", "ab"),
            ("a\\*b", "axb"),
            ("a*b", "abc"),
            ("*a", "b"),
        ] {
            assert!(!matches(pattern, key), "{pattern} {key}");
        }
    }

    #[test]
    fn the_beginning_is_what_every_match_begins_with() {
        let beginning = |pattern: &str| Pattern::read(pattern).unwrap().beginning();
        assert_eq!(beginning("order:*"), "order:");
        assert_eq!(beginning("a\\*b?c"), "a*b");
        assert_eq!((beginning("*"), beginning("k")), (String::new(), "k".to_owned()));
        assert!(Pattern::read(&"x".repeat(LONGEST_PATTERN + 1)).is_none());
    }
}
