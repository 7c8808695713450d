//! The keys to lock: templates with their names resolved, and expressions.

use std::ops::Range;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprArray, LitStr, Type, parse_quote};

use super::literal::{foreign_names, names_an_argument, template_literal};
use super::{Key, Keys, Part, Value, is_literal, member, string, unwrapped};
use crate::args::{Given, RawArgs};
use crate::diag::{self, Errors};
use crate::item::{Function, contains_ident};
use crate::options::Opt;
use crate::template::{self, Placeholder, Segment};

/// The keys to lock, and their name in traces; `None` if it is unknown.
pub(super) fn keys(
    args: &RawArgs,
    function: &Function,
    errors: &mut Errors,
) -> Option<(Keys, Option<TokenStream>)> {
    let names = FunctionNames { function, args };
    match (args.get(Opt::Key), args.get(Opt::Keys)) {
        (Some(_), Some(keys)) => {
            let (why, help) =
                ("several keys are acquired together", format!("put every key into `{}`", Opt::Keys));
            errors.push(diag::conflict(keys.span, Opt::Keys, Opt::Key, why, &help));
            None
        }
        (None, None) if args.mentions(Opt::Key) || args.mentions(Opt::Keys) => None,
        (None, None) => {
            let first = function.bindings.iter().find(|binding| binding.moves).map(|binding| &binding.ident);
            errors.push(diag::missing_key(Span::call_site(), first));
            None
        }
        (Some(given), None) => {
            let label = template_literal(&given.value).map(ToTokens::into_token_stream);
            Some((Keys::One(key(given, &given.value, &names, errors)?), label))
        }
        (None, Some(given)) => match unwrapped(&given.value) {
            Expr::Array(ExprArray { elems, .. }) => {
                if elems.is_empty() {
                    errors.push(diag::no_keys(&given.value));
                }
                let literals = elems.iter().filter_map(template_literal);
                let literals: Vec<_> = literals.map(|literal| literal.value()).collect();
                let label = (!literals.is_empty() && literals.len() == elems.len())
                    .then(|| LitStr::new(&literals.join(" "), Span::mixed_site()).to_token_stream());
                let keys = elems.iter().filter_map(|elem| key(given, elem, &names, errors)).collect();
                Some((Keys::Many(keys), label))
            }
            value if is_literal(value) => {
                errors.push(diag::wrong_kind(
                    given.option,
                    &given.value,
                    "a list of keys, or an iterator of keys",
                ));
                None
            }
            value if is_collection(value, function) => {
                // The reference has the span of the value, like the errors about the value.
                let and = syn::Token![&](value.span());
                Some((Keys::Iter(parse_quote!(#and #value)), None))
            }
            value => Some((Keys::Iter(value.clone()), None)),
        },
    }
}

fn key(given: &Given, value: &Expr, names: &dyn Names, errors: &mut Errors) -> Option<Key> {
    if let Some(literal) = template_literal(value) {
        return template(&literal, names, errors).map(Key::Template);
    }
    if is_literal(value) {
        errors.push(diag::key_kind(given.option, value));
        return None;
    }
    Some(Key::Expr(value.clone()))
}

/// Whether a variable is a collection that can be read by reference, as far as its written type shows. Then the body
/// keeps it. Any other value may be an iterator, which is consumed.
fn is_collection(value: &Expr, function: &Function) -> bool {
    let Expr::Path(path) = value else { return false };
    let Some(name) = path.path.get_ident() else { return false };
    let binding = function.bindings.iter().find(|binding| binding.ident == *name);
    let mut ty = binding.and_then(|binding| binding.ty.as_ref());
    // `$ids: $ty` in a macro.
    while let Some(Type::Group(group)) = ty {
        ty = Some(&group.elem);
    }
    match ty {
        Some(Type::Array(_)) => true,
        Some(Type::Path(ty)) => ty.path.segments.last().is_some_and(|last| {
            let is_known =
                ["Vec", "VecDeque", "HashSet", "BTreeSet", "Option"].iter().any(|name| last.ident == name);
            // A reference to a `Result` is not a key.
            is_known && !contains_ident(ty.to_token_stream(), &|ident| ident == "Result")
        }),
        _ => false,
    }
}

/// The places at which a template without placeholders contains the name of an argument as a word.
pub(super) fn literal_names(args: &RawArgs, function: &Function) -> Vec<Span> {
    let names = FunctionNames { function, args }.all();
    let one = args.get(Opt::Key).map(|given| &given.value);
    let list = args.get(Opt::Keys).and_then(|given| match unwrapped(&given.value) {
        Expr::Array(array) => Some(&array.elems),
        _ => None,
    });
    let values = one.into_iter().chain(list.into_iter().flatten());
    let suspicious =
        values.filter_map(template_literal).filter(|key| names_an_argument(&key.value(), &names));
    suspicious.map(|key| key.span()).collect()
}

/// Finds out what the names in a template stand for.
pub(crate) trait Names {
    /// The variable of that name (never `self`).
    fn variable(&self, root: &str) -> Option<Ident>;
    /// The expression for `self`.
    fn receiver(&self) -> Option<Ident>;
    /// The type of the variable, where it can be written again.
    fn ty(&self, root: &str) -> Option<Type>;
    /// The place at which to report that the variable cannot be displayed; `None` for the template.
    fn origin(&self, root: &str) -> Option<Span>;
    /// Whether a type mentions a type parameter.
    fn is_generic(&self, ty: &Type) -> bool;
    /// Every name, for the message.
    fn all(&self) -> Vec<String>;
    /// The values that were written behind the template, as `format!` wants them.
    fn positional(&self, index: usize) -> Option<String>;
}

struct FunctionNames<'a> {
    function: &'a Function,
    args: &'a RawArgs,
}

impl FunctionNames<'_> {
    fn binding(&self, root: &str) -> Option<&crate::item::Binding> {
        self.function.bindings.iter().find(|binding| binding.ident.unraw() == root)
    }
}

impl Names for FunctionNames<'_> {
    fn variable(&self, root: &str) -> Option<Ident> {
        self.binding(root).map(|binding| binding.ident.clone())
    }

    fn receiver(&self) -> Option<Ident> {
        self.function.receiver.clone()
    }

    fn ty(&self, root: &str) -> Option<Type> {
        self.binding(root)?.ty.clone()
    }

    fn origin(&self, root: &str) -> Option<Span> {
        self.binding(root).map(|binding| binding.ident.span())
    }

    fn is_generic(&self, ty: &Type) -> bool {
        let mut parameters = self.function.sig.generics.type_params();
        is_short_name(ty)
            || parameters
                .any(|parameter| contains_ident(ty.to_token_stream(), &|ident| *ident == parameter.ident))
    }

    fn all(&self) -> Vec<String> {
        let receiver = self.function.receiver.as_ref().map(|_| "self.field".to_owned());
        // The names that other macros make up start with two underscores.
        let names = self.function.bindings.iter().map(|binding| binding.ident.unraw().to_string());
        names.filter(|name| !name.starts_with("__")).chain(receiver).collect()
    }

    fn positional(&self, index: usize) -> Option<String> {
        let is_argument = |name: &&Ident| self.binding(&name.unraw().to_string()).is_some();
        self.args.stray().iter().filter(is_argument).nth(index).map(|name| name.unraw().to_string())
    }
}

/// Whether a type is probably a parameter of the `impl` around the function, which cannot be seen from here: one or
/// two capitals.
fn is_short_name(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.qself.is_none()
        && path.path.get_ident().is_some_and(|ident| {
            let name = ident.to_string();
            name.len() <= 2 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        })
}

/// Reads a template and resolves its names.
pub(crate) fn template(literal: &LitStr, names: &dyn Names, errors: &mut Errors) -> Option<Vec<Part>> {
    let (text, span) = (literal.value(), literal.span());
    let segments = match template::parse(&text) {
        Ok(segments) => segments,
        Err(mistakes) => {
            for mistake in mistakes {
                errors.push(diag::template(span, &text, &mistake));
            }
            return None;
        }
    };
    let mut sound = true;
    let mut complain = |error| {
        sound = false;
        errors.push(error);
    };
    for (range, name) in braced_names(&text, names) {
        complain(diag::braces(span, &text, &range, &name));
    }
    for (index, (start, braces)) in text.match_indices("{}").enumerate() {
        let range = start..start + braces.len();
        let first = || names.all().into_iter().next();
        complain(match names.positional(index) {
            Some(name) => diag::format_braces(span, &text, &range, &name),
            None => diag::empty_braces(span, &text, &range, first()),
        });
    }
    let root = |segment| match segment {
        &Segment::Text(_) => None,
        Segment::Placeholder(placeholder) => Some(placeholder.root.as_str()),
    };
    let placeholders: Vec<&str> = segments.iter().filter_map(root).collect();
    for foreign in foreign_names(&text, &placeholders, &names.all()) {
        complain(diag::foreign_placeholder(span, &text, &foreign));
    }
    let mut length = 0;
    let mut parts = Vec::new();
    for segment in segments {
        match segment {
            Segment::Text(text) => {
                length += text.len();
                parts.push(Part::Text(LitStr::new(&text, span)));
            }
            Segment::Placeholder(placeholder) => match value(&placeholder, span, names) {
                Some(value) => parts.push(Part::Value(Box::new(value))),
                None if placeholder.root == "self" => {
                    complain(diag::no_receiver(span, &text, &placeholder.range));
                }
                None => {
                    let Placeholder { root, range, .. } = &placeholder;
                    complain(diag::unknown_placeholder(span, &text, range, root, &names.all()));
                }
            },
        }
    }
    if length > 1024 {
        complain(diag::key_too_long(span, length));
    }
    sound.then_some(parts)
}

fn value(placeholder: &Placeholder, literal: Span, names: &dyn Names) -> Option<Value> {
    let Placeholder { root, fields, rendering, .. } = placeholder;
    let mut name = root.clone();
    for field in fields {
        name.push('.');
        name.push_str(field);
    }
    let (mut variable, ty) = if root == "self" {
        (names.receiver()?, None)
    } else {
        (names.variable(root)?, if fields.is_empty() { names.ty(root) } else { None })
    };
    // Same name, same hygiene, but errors about it are reported where the reader looks for them.
    let place = if fields.is_empty() { names.origin(root).unwrap_or(literal) } else { literal };
    variable.set_span(variable.span().located_at(place));
    let mut expr = quote!(#variable);
    // Not the literal's own span: the compiler offers to replace the text at a wrong field's span by a similar name,
    // which would be the whole template.
    let span = Span::mixed_site().located_at(literal);
    for field in fields {
        let member = member(field, span);
        expr.extend(quote!(.#member));
    }
    let generic = ty.as_ref().is_some_and(|ty| names.is_generic(ty));
    Some(Value { name, expr, ty, generic, place, rendering: *rendering })
}

/// `{name}` in the text where `name` is an argument: meant as a placeholder.
fn braced_names(text: &str, names: &dyn Names) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        at = open + 1;
        let Some(close) = text[at..].find(['{', '}']).map(|close| at + close) else { break };
        let content = &text[at..close];
        let root = content.split(['.', ':']).next().unwrap_or_default().trim();
        let names_it = match root {
            "self" => names.receiver().is_some() && content.contains('.'),
            // Any variable may be in scope of `key!`, so only a template without placeholders is suspicious there.
            root => {
                names.origin(root).is_some()
                    || !text.contains('<') && template::is_identifier(root) && names.variable(root).is_some()
            }
        };
        // `{user:<user_id>}` is a hash tag that begins with a constant, even if an argument has the name `user`.
        if text[close..].starts_with('}') && names_it && !content.contains('<') {
            let path = content.split(':').next().unwrap_or_default().trim();
            found.push((open..close + 1, path.to_owned()));
        }
    }
    found
}

/// `label = ..`
pub(super) fn label(given: &Given, errors: &mut Errors) -> Option<TokenStream> {
    match unwrapped(&given.value) {
        value if string(value).is_some_and(|text| !text.value().trim().is_empty()) => Some(quote!(#value)),
        Expr::Path(path) => Some(quote!(#path)),
        value => {
            errors.push(diag::wrong_kind(
                given.option,
                value,
                "a string literal that is not empty, or a constant",
            ));
            None
        }
    }
}
