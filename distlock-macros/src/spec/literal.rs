//! Which expressions are templates, and which text in a template was meant as a placeholder.

use std::borrow::Cow;
use std::ops::Range;

use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, Lit, LitStr, Stmt, Token};

/// A string literal, also in parentheses or braces, or as a `concat!` of literals.
pub(super) fn template_literal(value: &Expr) -> Option<Cow<'_, LitStr>> {
    match value {
        Expr::Group(group) => template_literal(&group.expr),
        Expr::Paren(paren) => template_literal(&paren.expr),
        Expr::Block(block) if block.label.is_none() => match block.block.stmts.as_slice() {
            [Stmt::Expr(tail, None)] => template_literal(tail),
            [Stmt::Macro(mac)] if mac.semi_token.is_none() => concatenated(&mac.mac).map(Cow::Owned),
            _ => None,
        },
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(string) => Some(Cow::Borrowed(string)),
            _ => None,
        },
        Expr::Macro(mac) => concatenated(&mac.mac).map(Cow::Owned),
        _ => None,
    }
}

/// The text of `concat!("order:", "<id>")`; `None` if a part is not a literal.
fn concatenated(mac: &syn::Macro) -> Option<LitStr> {
    if mac.path.segments.last()?.ident != "concat" {
        return None;
    }
    let literals = Punctuated::<Lit, Token![,]>::parse_terminated.parse2(mac.tokens.clone()).ok()?;
    let texts = literals.iter().map(|literal| match literal {
        Lit::Str(string) => Some(string.value()),
        Lit::Char(char) => Some(char.value().to_string()),
        Lit::Bool(bool) => Some(bool.value().to_string()),
        Lit::Int(int) => Some(int.base10_digits().to_owned()),
        _ => None,
    });
    Some(LitStr::new(&texts.collect::<Option<String>>()?, mac.span()))
}

/// A placeholder in the syntax of something else.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The place in the template.
    pub(crate) range: Range<usize>,
    /// The argument that it names, if it names one.
    pub(crate) name: Option<String>,
}

/// `#name`, `$name`, `@name`, `[name]`, `(name)`, and `:name` where no value ends before the colon, for arguments that
/// have no placeholder; `%s` and `%d` in a function with arguments.
pub(super) fn foreign_names(text: &str, placeholders: &[&str], names: &[String]) -> Vec<Foreign> {
    let mut found = Vec::new();
    for name in names.iter().filter(|name| !placeholders.contains(&name.as_str())) {
        for (start, _) in text.match_indices(name.as_str()) {
            let (before, after) = (&text[..start], &text[start + name.len()..]);
            let last = before.chars().next_back();
            let next = after.chars().next();
            if next.is_some_and(is_of_a_word) {
                continue;
            }
            let closing = match (last, next) {
                (Some('#' | '$' | '@'), _) => 0,
                (Some('['), Some(']')) | (Some('('), Some(')')) => 1,
                // In `order:id` the colon separates two words.
                (Some(':'), _)
                    if !before[..start - 1].ends_with(|c| is_of_a_word(c) || c == '>' || c == '}') =>
                {
                    0
                }
                _ => continue,
            };
            let range = start - 1..start + name.len() + closing;
            found.push(Foreign { range, name: Some(name.clone()) });
        }
    }
    for format in ["%s", "%d"].iter().filter(|_| !names.is_empty()) {
        for (start, _) in text.match_indices(format) {
            let range = start..start + format.len();
            if !text[range.end..].starts_with(is_of_a_word) {
                found.push(Foreign { range, name: None });
            }
        }
    }
    found
}

/// Whether an argument stands in the template as one of its words, where a template without any placeholder suggests
/// that it was meant as one: `order:id`.
pub(super) fn names_an_argument(text: &str, names: &[String]) -> bool {
    !text.contains('<') && text.split([':', '/']).skip(1).any(|word| names.iter().any(|name| name == word))
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, placeholders: &[&str]) -> Vec<String> {
        let names = ["id", "user_id"].map(str::to_owned);
        let found = foreign_names(text, placeholders, &names);
        found.into_iter().map(|foreign| text[foreign.range].to_owned()).collect()
    }

    #[test]
    fn placeholders_of_other_syntaxes_are_found() {
        for placeholder in ["#id", "$id", "@id", "[id]", "(id)", "%s", "%d"] {
            assert_eq!(found(&format!("order:{placeholder}"), &[]), [placeholder]);
            assert_eq!(found(&format!("order:{placeholder}:x"), &[]), [placeholder]);
        }
        for text in ["order::id", "/orders/:id", ":id", "order:-:id"] {
            assert_eq!(found(text, &[]), [":id"], "{text}");
        }
        assert_eq!(found("order:#user_id", &[]), ["#user_id"]);
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in [
            "order:id",
            "order#idle",
            "order:#identity",
            "id",
            "order(ids)",
            "order:100%sure",
            "{id}:id",
            "a@b",
        ] {
            assert_eq!(found(text, &[]), [""; 0], "{text}");
        }
        assert_eq!(found("order:<id>#id", &["id"]), [""; 0], "it has its placeholder");
    }

    #[test]
    fn an_argument_among_the_words_of_a_fixed_template_is_suspicious() {
        let names = ["id".to_owned()];
        assert!(names_an_argument("order:id", &names) && names_an_argument("order/id:x", &names));
        for text in ["id", "order:ids", "order:<user>:id", "order-id"] {
            assert!(!names_an_argument(text, &names), "{text}");
        }
    }

    #[test]
    fn a_literal_may_be_wrapped_or_put_together() {
        let literal = |text: &str| {
            let value: Expr = syn::parse_str(text).unwrap();
            template_literal(&value).map(|literal| literal.value())
        };
        for text in [
            r#""a:<id>""#,
            r#"("a:<id>")"#,
            r#"{ "a:<id>" }"#,
            r#"concat!("a:", "<id>")"#,
            r#"{ concat!("a", ':', "<id>",) }"#,
        ] {
            assert_eq!(literal(text).as_deref(), Some("a:<id>"), "{text}");
        }
        assert_eq!(literal("concat!(1, true)").as_deref(), Some("1true"));
        for text in ["KEY", r#"concat!("a", env!("B"))"#, r#"format!("a")"#, r#"{ x; "a" }"#] {
            assert_eq!(literal(text), None, "{text}");
        }
    }
}
