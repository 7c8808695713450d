//! Key templates: text with `<placeholders>`.
//!
//! A pure parser over the literal's value. Which names exist is not known here: that is checked by `spec`. All
//! ranges are byte ranges of the value, for the caret in the message.

use std::ops::Range;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Literal text, with `<<` and `>>` already reduced.
    Text(String),
    /// A value.
    Placeholder(Placeholder),
}

/// `<root.field.0>` or `<root:raw>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// The argument's name, or `self`; without `r#`.
    pub(crate) root: String,
    /// The fields after it, in order.
    pub(crate) fields: Vec<String>,
    /// How its value becomes text.
    pub(crate) rendering: Rendering,
    /// From `<` to `>`, both included.
    pub(crate) range: Range<usize>,
}

/// How a value becomes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    /// So that it cannot forge another key.
    Escaped,
    /// `<root:raw>`: unchanged.
    Raw,
}

/// A mistake in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateError {
    /// The kind of the mistake.
    pub(crate) kind: TemplateErrorKind,
    /// The place of the mistake.
    pub(crate) range: Range<usize>,
}

/// The kinds of mistakes in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplateErrorKind {
    /// No text and no placeholder.
    Empty,
    /// `<` without `>`.
    Unclosed,
    /// `>` without `<`.
    StrayClose,
    /// `<>`.
    EmptyPlaceholder,
    /// `< id >`.
    WhiteSpace {
        /// The content without it.
        trimmed: String,
    },
    /// `<a + b>`.
    Expression,
    /// `<a.len()>`.
    MethodCall,
    /// `<_>`.
    Underscore,
    /// `<1a>`, `<a..b>`.
    NotAnIdentifier {
        /// The part that is not a name.
        part: String,
    },
    /// `<a:hex>`.
    UnknownFormat {
        /// The text after the colon.
        format: String,
    },
    /// `<a>-<b>`: two values could run into each other.
    Unseparated {
        /// The text between the two.
        between: String,
    },
}

/// Whether a value's text may contain this character unescaped. Keep in step with `distlock::__private`.
pub(crate) fn is_escaped(c: char) -> bool {
    matches!(c, '%' | ':' | '{' | '}') || c.is_whitespace() || c.is_control()
}

/// Whether this character ends a value's text. `%` does not: it begins each escape.
fn separates(c: char) -> bool {
    c != '%' && is_escaped(c)
}

/// Reads a template, or returns every mistake in it.
pub(crate) fn parse(template: &str) -> Result<Vec<Segment>, Vec<TemplateError>> {
    let mut segments = Vec::new();
    let mut errors = Vec::new();
    let mut text = String::new();
    let mut at = 0;
    if template.is_empty() {
        return Err(vec![TemplateError { kind: TemplateErrorKind::Empty, range: 0..0 }]);
    }
    while let Some(c) = template[at..].chars().next() {
        let rest = &template[at + c.len_utf8()..];
        match c {
            '<' | '>' if rest.starts_with(c) => {
                text.push(c);
                at += 2;
            }
            '>' => {
                errors.push(TemplateError { kind: TemplateErrorKind::StrayClose, range: at..at + 1 });
                at += 1;
            }
            '<' => match rest.find(['<', '>']).filter(|end| rest[*end..].starts_with('>')) {
                None => {
                    let end = rest.find('<').map_or(template.len(), |end| at + 1 + end);
                    errors.push(TemplateError { kind: TemplateErrorKind::Unclosed, range: at..end });
                    at = end;
                }
                Some(length) => {
                    if !text.is_empty() {
                        segments.push(Segment::Text(std::mem::take(&mut text)));
                    }
                    let range = at..at + length + 2;
                    at = range.end;
                    match placeholder(&rest[..length], range.clone()) {
                        Ok(placeholder) => segments.push(Segment::Placeholder(placeholder)),
                        Err(kind) => errors.push(TemplateError { kind, range }),
                    }
                }
            },
            c => {
                text.push(c);
                at += c.len_utf8();
            }
        }
    }
    if !text.is_empty() {
        segments.push(Segment::Text(text));
    }
    if errors.is_empty() {
        errors = unseparated(&segments);
    }
    if errors.is_empty() { Ok(segments) } else { Err(errors) }
}

fn placeholder(content: &str, range: Range<usize>) -> Result<Placeholder, TemplateErrorKind> {
    if content.is_empty() {
        return Err(TemplateErrorKind::EmptyPlaceholder);
    }
    if content.contains('(') {
        return Err(TemplateErrorKind::MethodCall);
    }
    let trimmed = content.split_whitespace().collect::<Vec<_>>().join("_");
    let plain = |part: &str| part.chars().all(|c| c.is_alphanumeric() || "_.:#".contains(c));
    if trimmed.is_empty() {
        return Err(TemplateErrorKind::EmptyPlaceholder);
    }
    if content.contains("::") || !plain(&trimmed) {
        return Err(TemplateErrorKind::Expression);
    }
    if trimmed.len() != content.len() {
        return Err(TemplateErrorKind::WhiteSpace { trimmed });
    }
    let (path, format) = match content.split_once(':') {
        Some((path, format)) => (path, Some(format)),
        None => (content, None),
    };
    if path == "_" {
        return Err(TemplateErrorKind::Underscore);
    }
    let mut parts = path.split('.');
    let root = parts.next().unwrap_or_default();
    let root = root.strip_prefix("r#").unwrap_or(root);
    if root != "self" && !is_identifier(root) {
        return Err(TemplateErrorKind::NotAnIdentifier { part: root.to_owned() });
    }
    let mut fields = Vec::new();
    for part in parts {
        let part = part.strip_prefix("r#").unwrap_or(part);
        let index = part.parse::<u32>().is_ok_and(|index| index.to_string() == part);
        if !index && !is_identifier(part) {
            return Err(TemplateErrorKind::NotAnIdentifier { part: part.to_owned() });
        }
        fields.push(part.to_owned());
    }
    let rendering = match format {
        None => Rendering::Escaped,
        Some("raw") => Rendering::Raw,
        Some(format) => return Err(TemplateErrorKind::UnknownFormat { format: format.to_owned() }),
    };
    Ok(Placeholder { root: root.to_owned(), fields, rendering, range })
}

/// Whether a name can be written as an identifier, raw if it is a keyword.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || unicode_ident::is_xid_start(c))
        && chars.all(unicode_ident::is_xid_continue)
        && !matches!(name, "_" | "crate" | "self" | "Self" | "super")
}

/// Neighbouring placeholders whose values could run into each other.
fn unseparated(segments: &[Segment]) -> Vec<TemplateError> {
    let mut errors = Vec::new();
    let mut previous: Option<&Placeholder> = None;
    let mut between = "";
    for segment in segments {
        match segment {
            Segment::Text(text) => between = text,
            Segment::Placeholder(next) => {
                if let Some(previous) = previous
                    && previous.rendering == Rendering::Escaped
                    && next.rendering == Rendering::Escaped
                    && !between.contains(separates)
                {
                    let range = previous.range.start..next.range.end;
                    let kind = TemplateErrorKind::Unseparated { between: between.to_owned() };
                    errors.push(TemplateError { kind, range });
                }
                previous = Some(next);
                between = "";
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use TemplateErrorKind as Kind;

    fn text(text: &str) -> Segment {
        Segment::Text(text.to_owned())
    }

    fn value(root: &str, fields: &[&str], rendering: Rendering, range: Range<usize>) -> Segment {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Segment::Placeholder(Placeholder { root: root.to_owned(), fields, rendering, range })
    }

    fn kinds(template: &str) -> Vec<(Kind, Range<usize>)> {
        match parse(template) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| (error.kind, error.range)).collect(),
        }
    }

    #[test]
    fn text_and_placeholders_alternate() {
        assert_eq!(
            parse("order:<user_id>:cart"),
            Ok(vec![text("order:"), value("user_id", &[], Rendering::Escaped, 6..15), text(":cart")])
        );
        assert_eq!(parse("plain"), Ok(vec![text("plain")]));
        assert_eq!(parse("<id>"), Ok(vec![value("id", &[], Rendering::Escaped, 0..4)]));
    }

    #[test]
    fn fields_indices_self_and_raw_are_read() {
        assert_eq!(
            parse("<self.shop.0>:<item:raw>"),
            Ok(vec![
                value("self", &["shop", "0"], Rendering::Escaped, 0..13),
                text(":"),
                value("item", &[], Rendering::Raw, 14..24)
            ])
        );
        assert_eq!(parse("<r#type.r#match>"), Ok(vec![value("type", &["match"], Rendering::Escaped, 0..16)]));
    }

    #[test]
    fn doubled_brackets_are_literal() {
        assert_eq!(parse("a<<b>>c"), Ok(vec![text("a<b>c")]));
        assert_eq!(
            parse("<<<id>>>"),
            Ok(vec![text("<"), value("id", &[], Rendering::Escaped, 2..6), text(">")])
        );
    }

    #[test]
    fn braces_are_literal() {
        assert_eq!(
            parse("{user:<id>}"),
            Ok(vec![text("{user:"), value("id", &[], Rendering::Escaped, 6..10), text("}")])
        );
    }

    #[test]
    fn every_mistake_is_reported_with_its_range() {
        assert_eq!(kinds(""), [(Kind::Empty, 0..0)]);
        assert_eq!(kinds("a:<id"), [(Kind::Unclosed, 2..5)]);
        assert_eq!(kinds("a:<id:<x>"), [(Kind::Unclosed, 2..6)]);
        assert_eq!(kinds("a>b"), [(Kind::StrayClose, 1..2)]);
        assert_eq!(kinds("a:<>"), [(Kind::EmptyPlaceholder, 2..4)]);
        assert_eq!(kinds("<a.len()>"), [(Kind::MethodCall, 0..9)]);
        assert_eq!(kinds("<a + b>"), [(Kind::Expression, 0..7)]);
        assert_eq!(kinds("<a::B>"), [(Kind::Expression, 0..6)]);
        assert_eq!(kinds("< id >"), [(Kind::WhiteSpace { trimmed: "id".into() }, 0..6)]);
        assert_eq!(kinds("<_>"), [(Kind::Underscore, 0..3)]);
        assert_eq!(kinds("<1a>"), [(Kind::NotAnIdentifier { part: "1a".into() }, 0..4)]);
        assert_eq!(kinds("<a..b>"), [(Kind::NotAnIdentifier { part: String::new() }, 0..6)]);
        assert_eq!(kinds("<a.01>"), [(Kind::NotAnIdentifier { part: "01".into() }, 0..6)]);
        assert_eq!(kinds("<a:hex>"), [(Kind::UnknownFormat { format: "hex".into() }, 0..7)]);
        assert_eq!(kinds("<>:<_>"), [(Kind::EmptyPlaceholder, 0..2), (Kind::Underscore, 3..6)]);
    }

    #[test]
    fn values_that_could_run_into_each_other_are_refused() {
        let unseparated = |between: &str, range| vec![(Kind::Unseparated { between: between.into() }, range)];
        assert_eq!(kinds("<a><b>"), unseparated("", 0..6));
        assert_eq!(kinds("x:<a>-<b>"), unseparated("-", 2..9));
        assert!(parse("<a>:<b>").is_ok());
        assert!(parse("<a> <b>").is_ok());
        // Each value that is escaped has a `%`: `("x", "3A:")` and `("x:", "3A")` would both be `x%3A%3A`.
        assert_eq!(kinds("<a>%<b>"), unseparated("%", 0..7));
        assert_eq!(kinds("<a>%3A<b>"), unseparated("%3A", 0..9));
        assert!(parse("<a>%:<b>").is_ok());
        assert!(parse("{<a>}<b>").is_ok());
        assert!(parse("<a:raw>-<b>").is_ok());
    }
}
