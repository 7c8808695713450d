//! The attribute's options as they were written: names, values, spans. Only their form is checked here.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, Token};

use crate::diag::{self, Errors};
use crate::options::Opt;

/// One option with its value.
#[derive(Clone)]
pub(crate) struct Given {
    /// Which one.
    pub(crate) option: Opt,
    /// The place of its name.
    pub(crate) span: Span,
    /// The variable in front of `in`, where the option has one.
    pub(crate) variable: Option<Ident>,
    /// Its value.
    pub(crate) value: Expr,
}

/// The options of one attribute, in source order.
#[derive(Default)]
pub(crate) struct RawArgs {
    given: Vec<Given>,
    /// Options that were meant, but are not written as they should be.
    broken: Vec<Opt>,
    /// Names without a value that are not options, as in `key = "order:{}", user_id`.
    stray: Vec<Ident>,
    /// The places at which options have their former names.
    former: Vec<Span>,
}

impl RawArgs {
    /// Reads the options; every mistake goes to `errors`, and reading continues at the next comma.
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

    /// All of them, in source order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Given> {
        self.given.iter()
    }

    /// The option, if it was given.
    pub(crate) fn get(&self, option: Opt) -> Option<&Given> {
        self.given.iter().find(|given| given.option == option)
    }

    /// Whether the option was meant to be given, however badly.
    pub(crate) fn mentions(&self, option: Opt) -> bool {
        self.get(option).is_some() || self.broken.contains(&option)
    }

    /// Names without a value that are not options.
    pub(crate) fn stray(&self) -> &[Ident] {
        &self.stray
    }

    /// The places at which options have their former names.
    pub(crate) fn former(&self) -> &[Span] {
        &self.former
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
                self.broken.push(Opt::Key);
            }
            errors.push(diag::positional(span, literal.as_ref()));
            return;
        };
        let known = self.known(&name);
        self.broken.extend(known);
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            let end = input.is_empty() || input.peek(Token![,]);
            match (known, end) {
                (Some(option), true) => errors.push(diag::no_value(name.span(), option)),
                (Some(option), false) => errors.push(diag::no_equals_sign(name.span(), option)),
                (None, true) => self.stray.push(name),
                (None, false) => errors.push(diag::unknown_option(&name)),
            }
            skip_to_comma(input);
            return;
        }
        let equals = input.parse::<Token![=]>();
        let Some(option) = known else {
            errors.push(diag::unknown_option(&name));
            if input.is_empty() || input.peek(Token![,]) || input.parse::<Expr>().is_err() {
                skip_to_comma(input);
            } else {
                end_of_option(input, errors);
            }
            return;
        };
        if equals.is_err() || input.is_empty() || input.peek(Token![,]) {
            errors.push(diag::no_value(name.span(), option));
            skip_to_comma(input);
            return;
        }
        let mut variable = None;
        if option == Opt::Transaction {
            variable = input.call(Ident::parse_any).ok();
            if variable.is_none() || input.parse::<Token![in]>().is_err() {
                errors.push(diag::no_variable_in(name.span(), option));
                skip_to_comma(input);
                return;
            }
        }
        match input.parse::<Expr>() {
            Ok(value) => {
                self.set(Given { option, span: name.span(), variable, value }, errors);
                end_of_option(input, errors);
            }
            Err(error) => {
                errors.push(diag::not_a_value(option, &error));
                skip_to_comma(input);
            }
        }
    }

    /// The option of that name, or of that former name.
    fn known(&mut self, name: &Ident) -> Option<Opt> {
        let written = name.to_string();
        Opt::named(&written).or_else(|| {
            let option = Opt::formerly_named(&written)?;
            self.former.push(name.span());
            Some(option)
        })
    }

    /// The one place where an option is stored.
    fn set(&mut self, given: Given, errors: &mut Errors) {
        self.broken.retain(|broken| given.option != *broken);
        if self.get(given.option).is_some() {
            errors.push(diag::duplicate(given.span, given.option));
        } else {
            self.given.push(given);
        }
    }
}

/// Only a comma, or nothing, may follow a value.
fn end_of_option(input: ParseStream<'_>, errors: &mut Errors) {
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
