//! The attribute's options as they were written: names, values, spans; nothing is judged here but the form.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, Token};

use crate::diag::{self, Errors};

/// Every option, in the order in which the documentation lists them.
pub(crate) const OPTIONS: [&str; 22] = [
    "key",
    "keys",
    "ttl",
    "wait",
    "retries",
    "retry_delay",
    "renew",
    "max_hold",
    "min_hold",
    "mode",
    "max_holders",
    "reentrant",
    "on_busy",
    "map_err",
    "on_error",
    "on_lost",
    "guard",
    "token",
    "manager",
    "when",
    "name",
    "crate",
];

/// One option with its value.
#[derive(Clone)]
pub(crate) struct Given {
    /// The option's name.
    pub(crate) name: Ident,
    /// Its value.
    pub(crate) value: Expr,
}

/// The options of one attribute, in source order.
#[derive(Default)]
pub(crate) struct RawArgs {
    given: Vec<Given>,
    /// Options that were meant, but are not written as they should be.
    broken: Vec<String>,
}

impl RawArgs {
    /// Reads the options; every mistake goes to `errors`, and reading goes on at the next comma.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = RawArgs::default();
        let parser = |input: ParseStream<'_>| {
            while !input.is_empty() {
                args.option(input, errors);
            }
            Ok(())
        };
        if let Err(error) = parser.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    /// The option of that name, if it was given.
    pub(crate) fn get(&self, name: &str) -> Option<&Given> {
        self.given.iter().find(|given| given.name == name)
    }

    /// Whether that option was meant to be given, however badly.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.get(name).is_some() || self.broken.iter().any(|broken| broken == name)
    }

    /// Writes `receiver` for `self` in every value.
    pub(crate) fn rename_self(&mut self, receiver: &Ident) {
        if receiver == "self" {
            return;
        }
        for given in &mut self.given {
            let tokens = replace_self(given.value.to_token_stream(), receiver);
            if let Ok(value) = syn::parse2(tokens) {
                given.value = value;
            }
        }
    }

    /// Reads one option and the comma behind it.
    fn option(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        let Ok(name) = input.call(Ident::parse_any) else {
            let span = input.span();
            let literal = input.peek(syn::Lit).then(|| input.fork().parse::<syn::Lit>().ok()).flatten();
            skip_to_comma(input);
            if matches!(literal, Some(syn::Lit::Str(_))) {
                self.broken.push("key".to_owned());
            }
            errors.push(diag::positional(span, literal.as_ref()));
            return;
        };
        let known = OPTIONS.contains(&name.to_string().as_str());
        if known {
            self.broken.push(name.to_string());
        }
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            let end = input.is_empty() || input.peek(Token![,]);
            errors.push(match (known, end) {
                (true, true) => diag::no_value(&name),
                (true, false) => diag::no_equals_sign(&name),
                (false, _) => diag::unknown_option(&name),
            });
            skip_to_comma(input);
            return;
        }
        let equals = input.parse::<Token![=]>();
        if equals.is_err() || input.is_empty() || input.peek(Token![,]) {
            errors.push(if known { diag::no_value(&name) } else { diag::unknown_option(&name) });
            skip_to_comma(input);
            return;
        }
        let value = match input.parse::<Expr>() {
            Ok(value) => value,
            Err(error) => {
                errors.push(if known {
                    diag::not_a_value(&name, &error)
                } else {
                    diag::unknown_option(&name)
                });
                skip_to_comma(input);
                return;
            }
        };
        self.set(Given { name, value }, errors);
        if input.is_empty() {
            return;
        }
        if input.peek(Token![,]) {
            skip_to_comma(input);
        } else if input.fork().call(Ident::parse_any).is_ok() && input.peek2(Token![=]) {
            errors.push(diag::missing_comma(input.span()));
        } else {
            errors.push(diag::unexpected_after_value(input.span()));
            skip_to_comma(input);
        }
    }

    /// The one place where an option is stored.
    fn set(&mut self, given: Given, errors: &mut Errors) {
        self.broken.retain(|broken| given.name != broken);
        if !OPTIONS.contains(&given.name.to_string().as_str()) {
            errors.push(diag::unknown_option(&given.name));
        } else if self.get(&given.name.to_string()).is_some() {
            errors.push(diag::duplicate(&given.name));
        } else {
            self.given.push(given);
        }
    }
}

fn replace_self(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "self" => {
                let mut receiver = receiver.clone();
                receiver.set_span(receiver.span().located_at(ident.span()));
                TokenTree::Ident(receiver)
            }
            TokenTree::Group(group) => {
                let mut replaced = Group::new(group.delimiter(), replace_self(group.stream(), receiver));
                replaced.set_span(group.span());
                TokenTree::Group(replaced)
            }
            token => token,
        })
        .collect()
}

/// Skips to behind the next comma, or to the end.
fn skip_to_comma(input: ParseStream<'_>) {
    while let Ok(token) = input.parse::<TokenTree>() {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',') {
            return;
        }
    }
}
