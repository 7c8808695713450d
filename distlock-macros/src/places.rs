//! The variables that an expression may use. It is not resolved, so a name that is bound inside it counts, too.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt as _;

/// A variable with the fields that are named behind it, as in `order.id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name of the variable.
    pub(crate) root: String,
    /// The fields.
    pub(crate) fields: Vec<String>,
}

impl Place {
    /// The place with this path, `order.id`.
    pub(crate) fn named(path: &str) -> Self {
        let mut names = path.split('.').map(str::to_owned);
        Place { root: names.next().unwrap_or_default(), fields: names.collect() }
    }

    /// Whether one of the two contains the other.
    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        self.root == other.root && self.fields.iter().zip(&other.fields).all(|(field, other)| field == other)
    }
}

/// The places that an expression may use, also in format strings and templates. Names of fields and methods are none.
pub(crate) fn places(tokens: TokenStream) -> Vec<Place> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_punct = |index: Option<usize>, wanted| {
        let token = index.and_then(|index| tokens.get(index));
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
    };
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) => {
                // `..` is a range, and `::` a path.
                let is_member = is_punct(index.checked_sub(1), '.') && !is_punct(index.checked_sub(2), '.');
                let is_field = is_punct(Some(index + 1), ':') && !is_punct(Some(index + 2), ':');
                if !is_member && !is_field {
                    let fields = fields(&tokens[index + 1..]);
                    found.push(Place { root: ident.unraw().to_string(), fields });
                }
            }
            TokenTree::Group(group) => found.extend(places(group.stream())),
            TokenTree::Literal(literal) => {
                let named = |root| Place { root, fields: Vec::new() };
                found.extend(names_in_literal(&literal.to_string()).into_iter().map(named));
            }
            TokenTree::Punct(_) => {}
        }
    }
    found
}

/// The fields in `.id.0`, up to a method.
fn fields(mut tokens: &[TokenTree]) -> Vec<String> {
    let mut fields = Vec::new();
    while let [TokenTree::Punct(dot), member, behind @ ..] = tokens {
        let is_method = match behind.first() {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
            Some(TokenTree::Punct(punct)) => punct.as_char() == ':',
            _ => false,
        };
        match member {
            _ if dot.as_char() != '.' => break,
            TokenTree::Ident(field) if field != "await" && !is_method => {
                fields.push(field.unraw().to_string())
            }
            // `pair.0.1` has the literal `0.1`.
            TokenTree::Literal(indices) => fields.extend(indices.to_string().split('.').map(str::to_owned)),
            _ => break,
        }
        tokens = behind;
    }
    fields
}

/// The names in the source of a literal that may stand for variables: `<name>`, `{name}`, `{:name$}`.
pub(crate) fn names_in_literal(text: &str) -> Vec<String> {
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let opened = text.split(['{', '<']).skip(1).map(|text| text.strip_prefix("r#").unwrap_or(text));
    let opened = opened.filter_map(|text| text.split(is_end).next());
    let ended = text.split('$').rev().skip(1).filter_map(|text| text.rsplit(is_end).next());
    opened.chain(ended).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_with_their_fields() {
        for (expression, expected) in [
            ("id", "id"),
            ("&order.id", "order.id"),
            ("order.pair.0.1", "order.pair.0.1"),
            ("order.r#type.len()", "order.type"),
            ("order.id().0", "order"),
            ("order.parse::<u8>()", "order u8"),
            ("order.later.await?.x", "order.later"),
            ("Order { id: 1, name, ..rest }", "Order name rest"),
            ("a..b", "a b"),
            ("(*order).id", "order"),
            ("names[i].text", "names i"),
            (r#"format!("{id:>width$} {order}", order = x.y)"#, "format id order width order x.y"),
            (r#""order:<id>:<r#type>:<order.id>""#, "id type order"),
        ] {
            let found = places(expression.parse().unwrap()).into_iter();
            let found: Vec<String> =
                found.map(|Place { root, fields }| [vec![root], fields].concat().join(".")).collect();
            assert_eq!(found.join(" "), expected, "{expression}");
        }
    }

    #[test]
    fn places_overlap_if_one_contains_the_other() {
        let overlap = |one, other| Place::named(one).overlaps(&Place::named(other));
        assert!(overlap("order", "order.id") && overlap("order.id", "order") && overlap("a.b", "a.b"));
        assert!(!overlap("order.id", "order.name") && !overlap("order", "id"));
    }
}
