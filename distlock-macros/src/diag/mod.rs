//! Every message of the macro: lower case, the problem first, names in backticks, then a `help:` line with
//! something to paste.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;
use syn::Error;

mod function;
mod key_macro;
mod options;
mod template;
mod values;
mod words;

pub(crate) use function::*;
pub(crate) use key_macro::*;
pub(crate) use options::*;
pub(crate) use template::*;
pub(crate) use values::*;

/// Collects errors, so that every mistake of one function is reported in one compilation.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds an error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// All errors, if there are any.
    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

fn error(span: Span, problem: impl Display, help: impl Display) -> Error {
    Error::new(span, format!("{problem}\n\nhelp: {help}"))
}

fn error_on(tokens: impl ToTokens, problem: impl Display, help: impl Display) -> Error {
    Error::new_spanned(tokens, format!("{problem}\n\nhelp: {help}"))
}
