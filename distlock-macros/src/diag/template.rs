//! Key templates.
//!
//! Stable compilers cannot point inside a string literal, so these messages draw the caret themselves.

use std::fmt::Display;
use std::ops::Range;

use proc_macro2::Span;
use syn::Error;

use super::error;
use super::words::{list, nearest};
use crate::options::Opt;
use crate::spec::Foreign;
use crate::template::{TemplateError, TemplateErrorKind};

/// A mistake in a template's form.
pub(crate) fn template(span: Span, text: &str, mistake: &TemplateError) -> Error {
    let part = &text[mistake.range.clone()];
    let (problem, help) = match &mistake.kind {
        TemplateErrorKind::Empty => {
            return error(span, "empty key", format!("name what is locked, as in `{}`", Opt::Key.example()));
        }
        TemplateErrorKind::Unclosed => {
            ("unclosed `<`".to_owned(), "close it, as in `<name>`; a literal `<` is written `<<`".to_owned())
        }
        TemplateErrorKind::StrayClose => (
            "stray `>`".to_owned(),
            "a placeholder is written `<name>`, a literal `>` is written `>>`".to_owned(),
        ),
        TemplateErrorKind::EmptyPlaceholder => {
            ("empty placeholder".to_owned(), "name an argument, as in `<order_id>`".to_owned())
        }
        TemplateErrorKind::WhiteSpace { trimmed } => {
            (format!("white space in placeholder `{part}`"), format!("write `<{trimmed}>`"))
        }
        TemplateErrorKind::Expression => {
            (format!("expression in placeholder `{part}`"), expression_instead("ids[0]"))
        }
        TemplateErrorKind::MethodCall => {
            (format!("method call in placeholder `{part}`"), expression_instead("order.id()"))
        }
        TemplateErrorKind::Underscore => {
            ("`<_>` names nothing".to_owned(), "give the argument a name, and write that name".to_owned())
        }
        TemplateErrorKind::NotAnIdentifier { part } if part.is_empty() => {
            ("a name is missing in the placeholder".to_owned(), "write `<argument.field>`".to_owned())
        }
        TemplateErrorKind::NotAnIdentifier { part } => {
            (format!("`{part}` is not an identifier"), "name an argument, as in `<order_id>`".to_owned())
        }
        TemplateErrorKind::UnknownFormat { format } => (
            format!("unknown format `:{format}`"),
            "values are rendered with `Display`; the only format is `:raw`, which leaves out the escaping"
                .to_owned(),
        ),
        TemplateErrorKind::Unseparated { between } => {
            let problem = if between.is_empty() {
                "nothing separates two values: different arguments could render the same key".to_owned()
            } else {
                format!(
                    "`{between}` does not separate two values: different arguments could render the same key"
                )
            };
            let help = "write `:` between them, which is escaped inside a value; \
                        or mark one of them `:raw` if it cannot contain the separator";
            (problem, help.to_owned())
        }
    };
    in_template(span, text, &mistake.range, problem, help)
}

fn expression_instead(example: &str) -> String {
    format!(
        "a placeholder is an argument or a field of one; for more, give an expression, as in \
         `{} = format!(\"order:{{}}\", {example})`",
        Opt::Key
    )
}

/// `<usr_id>`
pub(crate) fn unknown_placeholder(
    span: Span,
    text: &str,
    range: &Range<usize>,
    root: &str,
    names: &[String],
) -> Error {
    let help = match nearest(root, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `<{near}>`?"),
        None if is_upper_case(root) => format!(
            "constants, and parameters of an `impl`, cannot be seen from here; for those give an expression, as in \
             `{} = format!(\"order:{{}}\", {root})`",
            Opt::Key
        ),
        None if names.is_empty() => "the function has no arguments; leave the placeholder out".to_owned(),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("<{name}>")).collect();
            format!("available: {}", list(names.iter().map(String::as_str)))
        }
    };
    in_template(span, text, range, format!("unknown placeholder `<{root}>`"), help)
}

/// Whether the name is written like a constant or a type parameter.
fn is_upper_case(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// `<self.x>` in a function without a receiver.
pub(crate) fn no_receiver(span: Span, text: &str, range: &Range<usize>) -> Error {
    let problem = "`self` in a function without a receiver";
    in_template(span, text, range, problem, "name an argument, or add `&self` to the function")
}

/// `{user_id}`
pub(crate) fn braces(span: Span, text: &str, range: &Range<usize>, name: &str) -> Error {
    let problem = format!("`{{{name}}}` is literal text here, the same for every call");
    let help = format!("write `<{name}>` for the value of the argument; braces are Redis Cluster hash tags");
    in_template(span, text, range, problem, help)
}

/// `#user_id`, `%s`
pub(crate) fn foreign_placeholder(span: Span, text: &str, foreign: &Foreign) -> Error {
    let part = &text[foreign.range.clone()];
    let problem = format!("`{part}` is literal text here, the same for every call");
    let help = match &foreign.name {
        Some(name) => format!("write `<{name}>` for the value of the argument"),
        None => "name the value, as in `<order_id>`".to_owned(),
    };
    in_template(span, text, &foreign.range, problem, help)
}

/// `key = "order:{}"`
pub(crate) fn empty_braces(span: Span, text: &str, range: &Range<usize>, name: Option<String>) -> Error {
    let name = name.unwrap_or_else(|| "order_id".to_owned());
    in_template(span, text, range, EMPTY_BRACES, format!("name the value, as in `<{name}>`"))
}

/// `key = "order:{}", user_id`
pub(crate) fn format_braces(span: Span, text: &str, range: &Range<usize>, name: &str) -> Error {
    let help = format!("write `<{name}>` instead of `{{}}`, and nothing after the template");
    in_template(span, text, range, EMPTY_BRACES, help)
}

const EMPTY_BRACES: &str = "`{}` is literal text here, not a placeholder";

/// A constant part that is longer than any key may be.
pub(crate) fn key_too_long(span: Span, length: usize) -> Error {
    error(span, format!("the key is {length} bytes long; at most 1024 are allowed"), "shorten it")
}

/// An error with the template and a line of carets.
fn in_template(
    span: Span,
    text: &str,
    range: &Range<usize>,
    problem: impl Display,
    help: impl Display,
) -> Error {
    let shown = |text: &str| text.chars().map(|c| if c.is_control() { '·' } else { c }).collect::<String>();
    let before = text[..range.start].chars().count();
    let carets = "^".repeat(text[range.clone()].chars().count().max(1));
    let text = shown(text);
    Error::new(span, format!("{problem}\n\n    {text}\n    {:before$}{carets}\n\nhelp: {help}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_mistake() {
        let error = in_template(Span::call_site(), "é:<x>", &(3..6), "problem", "help");
        assert_eq!(error.to_string(), "problem\n\n    é:<x>\n      ^^^\n\nhelp: help");
    }
}
